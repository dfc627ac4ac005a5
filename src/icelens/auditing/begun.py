"""Whether an audit has come anywhere. It loads nothing, as it is asked while torch may be half loaded."""

from __future__ import annotations

from pathlib import Path


def is_begun(folder: Path) -> bool:
    """Whether a run of the audit in this folder was finished, or all of it."""
    return (folder / "audit.json").exists() or any((folder / "stages").glob("[!.]*.npz"))
