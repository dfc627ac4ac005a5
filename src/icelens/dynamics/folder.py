"""Opening the folder of a recording: a new one, or one that a run goes on in after it was stopped."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from icelens.dynamics.epochs import Epochs
from icelens.dynamics.parts import Part, cut, find_parts, parts_before
from icelens.errors import InputError
from icelens.files import is_leftover


def open_folder(folder: Path, examples: int, *, resume_at: int | None, rank: int, ranks: int) -> Epochs:
    """Make the folder, or leave of the recording in it the steps before `resume_at`.

    Each rank looks after its own files, and rank 0 after those of ranks that are no more. Where their number
    has changed, a rank reads in the files of the others how far the run has come.

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
    if resume_at:
        _check_examples(folder, parts, examples)
    own = [part for part in cut(parts, resume_at or 0) if part.rank == rank]
    _remove_leftovers(folder, rank)
    epochs = Epochs(examples)
    if resume_at and _is_whole(own, resume_at, ranks):
        epochs.go_on(own, resume_at)
    elif resume_at:
        everyone = parts_before(folder, resume_at)
        _check_examples(folder, everyone, examples)
        if own or rank == 0:  # a rank that is new misses nothing
            _warn_of_gap(folder, everyone, rank, resume_at)
        epochs.go_on(everyone, resume_at)
    return epochs


def _is_whole(own: Sequence[Part], step: int, ranks: int) -> bool:
    """Whether a rank has all steps before this one, and shared them with as many as there are."""
    return sum(len(part.steps) for part in own) == step and all(part.ranks == ranks for part in own)


def _check_examples(folder: Path, parts: Sequence[Part], examples: int) -> None:
    for part in parts:
        if part.examples != examples:
            raise InputError(f"{folder} holds a recording of {part.examples:,} examples, not {examples:,}")


def _remove_leftovers(folder: Path, rank: int) -> None:
    """Remove what a killed process of this rank left of a part that it was writing."""
    for file in folder.iterdir():
        if is_leftover(file) and file.name.startswith(f".rank{rank:04}-"):
            file.unlink()


def _warn_of_gap(folder: Path, parts: Sequence[Part], rank: int, resume_at: int) -> None:
    """Warn where this rank has not written steps that it took part in."""
    end = max((part.steps.stop for part in parts if part.rank == rank), default=0)
    without = [part for part in parts if part.ranks <= rank]  # others did these steps by themselves
    for part in sorted(without, key=lambda part: part.steps.start):
        if part.steps.start <= end:
            end = max(end, part.steps.stop)
    if end < resume_at:
        warnings.warn(
            f"{folder}: rows of the steps {end:,} to {resume_at - 1:,} are missing; they were not written "
            "when the run stopped (call flush() when you save a checkpoint)",
            stacklevel=4,
        )
