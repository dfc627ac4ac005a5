"""Opening the folder of a recording: a new one, or one that a run goes on in after it was stopped."""

from __future__ import annotations

import warnings
from pathlib import Path

from icelens.dynamics.epochs import Epochs
from icelens.dynamics.parts import cut, find_parts
from icelens.errors import InputError
from icelens.files import is_leftover


def open_folder(folder: Path, examples: int, *, resume_at: int | None, rank: int, ranks: int) -> Epochs:
    """Make the folder, or leave of the recording in it the steps before `resume_at`.

    Each rank looks after its own files, and rank 0 after those of ranks that are no more.

    Returns:
        The epochs so far, to go on with.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: cannot be a folder for a recording: {error.strerror}") from None
    parts = find_parts(folder, lambda of: of == rank or (rank == 0 and of >= ranks))
    end = max((part.steps.stop for part in parts), default=0)
    if parts and resume_at is None:
        raise InputError(
            f"{folder} holds a recording of {end:,} steps; give another folder, or resume_at={end} to go on "
            "after it, or the step that flush() gave for a checkpoint, or 0 to start anew"
        )
    if parts and resume_at and parts[0].examples != examples:
        raise InputError(f"{folder} holds a recording of {parts[0].examples:,} examples, not {examples:,}")
    left = cut(parts, resume_at or 0)
    _remove_leftovers(folder, rank)
    if parts or rank == 0:  # a rank that is new misses nothing
        _warn_of_gap(folder, end, resume_at or 0)
    epochs = Epochs(examples)
    epochs.go_on([part for part in left if part.rank == rank])
    return epochs


def _remove_leftovers(folder: Path, rank: int) -> None:
    """Remove what a killed process of this rank left of a part that it was writing."""
    for file in folder.iterdir():
        if is_leftover(file) and file.name.startswith(f".rank{rank:04}-"):
            file.unlink()


def _warn_of_gap(folder: Path, end: int, resume_at: int) -> None:
    if end < resume_at:
        warnings.warn(
            f"{folder}: rows of the steps {end:,} to {resume_at - 1:,} are missing; they were not written "
            "when the run stopped (call flush() when you save a checkpoint)",
            stacklevel=4,
        )
