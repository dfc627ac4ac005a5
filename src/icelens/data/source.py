"""Source: what is known about a published data set, and the forms in which it may lie on the disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from icelens.data.examples import Split


@dataclass(frozen=True)
class Remote:
    """One file to download.

    Args:
        url: where it is published.
        folder: where it goes under the root; an archive (.tar.gz, .zip) holds a folder of the last
            part of this name, and that folder is put here.
        size: bytes, as published.
        checksum: "sha256:…" or "md5:…" as published; None where nobody publishes one.
    """

    url: str
    folder: str
    size: int | None
    checksum: str | None


@dataclass(frozen=True)
class Layout:
    """One published form: a folder under the root, the files it must hold, and what reads the folder."""

    folder: str
    files: tuple[str, ...]
    read: Callable[[Path], Split]
    or_gz: bool = False  # whether the reader takes each file with .gz at its end as well

    def missing(self, root: Path) -> Path | None:
        """The first file that is not there, or None."""
        paths = [root / self.folder / name for name in self.files]
        return next((path for path in paths if not self._is_there(path)), None)

    def _is_there(self, path: Path) -> bool:
        return path.is_file() or (self.or_gz and path.with_name(path.name + ".gz").is_file())


@dataclass(frozen=True)
class Source:
    """A published data set.

    Args:
        title: what it shows, in a few words.
        rows: training and test rows, as published.
        classes: the name of class 0, 1, ...
        layouts: the forms it may lie in; the first that is complete is read.
        remotes: what `icelens data get` downloads; none for what an installed package brings along.
        home: the page of its authors.
        licence: its licence, or that none is stated.
    """

    title: str
    rows: tuple[int, int]
    classes: tuple[str, ...]
    layouts: tuple[Layout, ...]
    remotes: tuple[Remote, ...]
    home: str
    licence: str

    def layout(self, root: Path) -> Layout | None:
        """The layout that is complete under a root, or None."""
        return next((layout for layout in self.layouts if layout.missing(root) is None), None)

    def first_missing(self, root: Path) -> Path | None:
        """The file to look at first: in a folder that is there but not complete, or in the usual one."""
        begun = [layout for layout in self.layouts if (root / layout.folder).is_dir()]
        return (begun or list(self.layouts))[0].missing(root)
