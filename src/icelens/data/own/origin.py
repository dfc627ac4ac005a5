"""Where data come from, and how to name parts of it in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from icelens.errors import FileError, InputError

LISTED = 12


@dataclass(frozen=True)
class Origin:
    """A file or folder, or arrays in memory (no path): what the errors of its readers start with.

    >>> print(Origin(Path("pets.csv")).error("no rows"), "|", Origin().error("no rows"))
    pets.csv: no rows | no rows
    """

    path: Path | None = None
    inputs: str = "X"  # what arrays of inputs are called

    def error(self, text: str) -> InputError:
        """The data are whole, but not what an audit needs."""
        return InputError(self._line(text))

    def damaged(self, text: str) -> FileError:
        """The file is broken, or not of the format that its name says."""
        return FileError(self._line(text))

    def option(self, name: str, value: str = "") -> str:
        """How to ask for something: on the command line for files, as an argument for arrays."""
        flag = f"--{name.replace('_', '-')}"
        return f"{flag} {value}".rstrip() if self.path else f"{name}={value or True}"

    def _line(self, text: str) -> str:
        # The name of a file, or of a column within one, may hold a line end.
        return " ".join((f"{self.path}: {text}" if self.path else text).splitlines())


def brief(value: object, limit: int = 60) -> str:
    """A value of the user's in quotes and on one line, cut where it is long.

    >>> print(brief("two\\nlines"), brief("x" * 99, limit=5))
    'two lines' 'xxxx…'
    """
    text = "".join(_shown(letter) for letter in str(value)[: 2 * limit])
    return f"'{text}'" if len(text) <= limit else f"'{text[: limit - 1]}…'"


def _shown(letter: str) -> str:
    if letter.isprintable():
        return letter
    return " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}"


def listed(values: Sequence[object], limit: int = LISTED) -> str:
    """Values in quotes, the first few of them.

    >>> print(listed(["a", "b", "c"], limit=2))
    'a', 'b' and 1 more
    """
    shown = ", ".join(brief(value, 40) for value in values[:limit])
    return shown if len(values) <= limit else f"{shown} and {len(values) - limit:,} more"


def no_such(origin: Origin, what: str, name: str, known: Iterable[str], plural: str = "") -> InputError:
    """The error for a column or array that is not there, with the nearest that is."""
    names = list(known)
    folded = {other.casefold().strip(): other for other in names}
    near = difflib.get_close_matches(name.casefold().strip(), folded, n=1, cutoff=0.7)
    hint = f"did you mean {brief(folded[near[0]])}? " if near else ""
    return origin.error(f"no {what} {brief(name)}; {hint}{plural or what + 's'} are {listed(names)}")


def sound(text: str) -> str:
    """A text that UTF-8 can hold: halves of a surrogate pair are joined, or replaced where one is missing."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


@contextmanager
def reading(origin: Origin, what: str, errors: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """Turn what a damaged or unreadable file raises into one line that names it."""
    try:
        yield
    except (FileError, InputError):
        raise
    except PermissionError:
        raise origin.damaged("cannot be read: permission denied") from None
    except Exception as error:
        if not isinstance(error, (OSError, MemoryError, *errors)):
            raise
        cause = brief(str(error).split("\n")[0].split(". Detail:")[0] or type(error).__name__, 120)[1:-1]
        raise origin.damaged(f"not {what}, or a damaged one ({cause}); copy or save it again") from None
