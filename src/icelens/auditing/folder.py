"""The folder of an audit: what was found, readable by others, and what a stopped audit goes on from."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from icelens.auditing.begun import is_begun
from icelens.auditing.fingerprint import contents_of, fingerprint, is_data_of
from icelens.auditing.result import Audit, Estimate
from icelens.auditing.source import FEATURES, no_audit
from icelens.data import Labelled
from icelens.errors import FileError, InputError
from icelens.files import is_leftover, replacing, write_csv
from icelens.train.checkpoint import write_safetensors
from icelens.train.run import write_text

if TYPE_CHECKING:
    import pandas as pd

    from icelens.auditing.source import Source


class AuditFolder:
    """Where an audit lies.

    `recipe.json` settings, the fingerprint of the data, where it was read from and what its columns are
    called; `examples.parquet` and `.csv` a row per example; `audit.json` what is said of the whole;
    `history.npz` confidences during training; `model.safetensors` the network that was trained on all;
    `review.npz` what reviewers are shown beside a suspect; `report.html`. While the audit goes on, `stages`
    holds the runs that are through; `audit.json` is written last.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder)

    @property
    def stages(self) -> Path:
        """Where finished runs are kept until the audit ends."""
        return self.path / "stages"

    @property
    def finished(self) -> bool:
        """Whether the audit came to its end."""
        return (self.path / "audit.json").exists()

    def start(self, settings: dict[str, Any], data: Labelled, source: Source | None = None) -> None:
        """Make the folder, or check that it is that of the same audit; the data may have been moved since."""
        recipe, place = self.path / "recipe.json", _place_of(data, source)
        if not recipe.exists():
            self._check_empty()
            known = {"settings": settings, "data_fingerprint": fingerprint(data), **contents_of(data)}
            write_text(recipe, json.dumps({**known, "source": None, **place}, indent=1) + "\n")
            return
        there = self._recipe()
        if difference := _difference(there, settings, data):
            raise InputError(
                f"{self.path} holds an audit {difference}; give another folder (--out, from Python out=), "
                "or make it anew in this one (--again, again=True)"
            )
        if {**there, **place} != there:
            write_text(recipe, json.dumps({**there, **place}, indent=1) + "\n")

    def give_up(self) -> None:
        """Remove what `start` made, unless a run is through: the next try may be one with other settings."""
        if not is_begun(self.path):
            (self.path / "recipe.json").unlink(missing_ok=True)
            shutil.rmtree(self.stages, ignore_errors=True)
            if self.path.is_dir() and not any(self.path.iterdir()):
                self.path.rmdir()

    def make_way(self, settings: dict[str, Any], data: Labelled) -> Path | None:
        """Move aside an audit that is finished, or of other data or settings, with its whole folder.

        Returns:
            Where it is: the first of FOLDER.1, FOLDER.2, … that is free. None where there is none to move.
        """
        if not (self.path / "recipe.json").exists():
            return None
        there = self._recipe()
        if not self.finished and not _difference(there, settings, data):
            return None
        here = self.path.resolve()
        names = (here.with_name(f"{here.name}.{number}") for number in count(1))
        aside = next(name for name in names if not os.path.lexists(name))
        here.rename(aside)
        return self.path.with_name(aside.name)

    def _recipe(self) -> dict[str, Any]:
        """What the audit that lies there was made for; a training run has a `recipe.json` too."""
        there = read_json(self.path / "recipe.json")
        if "data_fingerprint" not in there:
            raise InputError(f"{self.path} holds no audit; give another folder (--out)")
        return there

    def _check_empty(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; give the name of a folder (--out)")
        if self.path.is_dir() and not all(is_leftover(file) for file in self.path.iterdir()):
            raise InputError(f"{self.path} is not empty and holds no audit; give another folder (--out)")

    def write(self, audit: Audit) -> None:
        """Write all that was found; `audit.json`, which ends the audit, comes last."""
        with replacing(self.path / "examples.parquet") as part:
            audit.examples.to_parquet(part, index=False)
        with replacing(self.path / "examples.csv") as part:
            write_csv(audit.examples, part)
        if audit.history is not None:
            with replacing(self.path / "history.npz") as part, part.open("wb") as file:
                iteration, confidence = audit.history
                np.savez_compressed(
                    file, allow_pickle=False, iteration=iteration, confidence=confidence.astype(np.float16)
                )
        self._write_for_review(audit)
        write_text(self.path / "audit.json", json.dumps(as_json(audit), indent=1) + "\n")
        shutil.rmtree(self.stages, ignore_errors=True)
        for left in filter(is_leftover, self.path.iterdir()):  # by an audit that was killed while it wrote
            left.unlink(missing_ok=True)

    def _write_for_review(self, audit: Audit) -> None:
        if audit.aids is not None:
            with replacing(self.path / "review.npz") as part, part.open("wb") as file:
                np.savez(file, allow_pickle=False, **vars(audit.aids))
        if audit.weights is not None:
            header = {"network": json.dumps(audit.about.get("network"))}
            write_safetensors(self.path / "model.safetensors", audit.weights, header)

    def read(self) -> Audit:
        """The audit that lies in the folder."""
        import pandas as pd

        path = self.path / "audit.json"
        if not path.exists():
            raise no_audit(self.path)
        content = read_json(path)
        try:
            return Audit(
                examples=pd.read_parquet(self.path / "examples.parquet"),
                estimate=Estimate(**content["estimate"]),
                pairs=pd.DataFrame(content["pairs"], columns=["label", "guess", "errors", "issues"]),
                by_class=pd.DataFrame(content["by_class"], columns=["label", "examples", "errors", "issues"]),
                budgets=pd.DataFrame(content["budgets"], columns=["n", "errors"]),
                history=self._history(),
                about=content["about"],
            )
        except (KeyError, TypeError, ValueError, OSError, BadZipFile) as error:
            raise FileError(
                f"{self.path}: not what an audit wrote: {error}; remove the folder, or give another (--out)"
            ) from None

    def _history(self) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        path = self.path / "history.npz"
        if not path.exists():
            return None
        with path.open("rb") as file, np.load(file) as stored:
            return stored["iteration"], stored["confidence"].astype(np.float32)


def _difference(recipe: dict[str, Any], settings: dict[str, Any], data: Labelled) -> str:
    """By what an audit that lies somewhere is not this one, or nothing."""
    if not is_data_of(recipe, data):
        return "of other data"
    old = recipe.get("settings", {})
    unlike = [name for name, value in settings.items() if old.get(name) != value]
    return f"with {unlike[0]}={old.get(unlike[0])!r}, not {settings[unlike[0]]!r}" if unlike else ""


def as_json(audit: Audit) -> dict[str, Any]:
    """What is said of the whole, as `audit.json` holds it."""
    return {
        "estimate": dataclasses.asdict(audit.estimate),
        "pairs": records(audit.pairs.head(1000)),
        "by_class": records(audit.by_class),
        "budgets": records(audit.budgets),
        "about": audit.about,
    }


def _place_of(data: Labelled, source: Source | None) -> dict[str, Any]:
    """Where data was read from, or how a file that stands in for a DataFrame in memory is to be read."""
    from icelens.data.own.frames import kinds_of

    columns = {} if data.columns is None else {"columns": data.columns.recorded()}
    if source is not None:
        return {"source": source.recorded(), **columns}
    kinds = kinds_of(data.inputs)
    return {**columns, **({FEATURES: kinds} if kinds else {})}


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON can hold them."""
    rows: list[dict[str, Any]] = json.loads(table.to_json(orient="records"))
    return rows


def read_json(path: Path) -> dict[str, Any]:
    """A file of the folder that holds an object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: not readable: {error}") from None
    if not isinstance(content, dict):
        raise FileError(f"{path}: not what an audit wrote")
    return content
