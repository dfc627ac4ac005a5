"""Before the first review: the store is built in a process of its own, whose libraries end with it."""

from __future__ import annotations

import importlib.util
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from icelens import progress
from icelens.auditing.source import no_audit
from icelens.counts import one_or_more
from icelens.errors import InputError
from icelens.processes import process_pool
from icelens.review.store import NAME


def needs_server() -> None:
    """Say what to install where the web server is missing."""
    missing = [name for name in ("starlette", "uvicorn") if importlib.util.find_spec(name) is None]
    if missing:
        are = one_or_more(len(missing), "is", "are")
        raise InputError(f"{' and '.join(missing)} {are} not installed; run pip install 'icelens[review]'")


def prepare(run: Path, data: Path | None) -> None:
    """See to it that the folder of an audit has its store, and that the store knows of moved data.

    The server must stay small, so what reads the data (pandas, pyarrow) is never loaded into it.

    Args:
        run: the folder of a finished audit.
        data: where the data lies, if it was moved.
    """
    if not (run / "audit.json").exists():
        raise no_audit(run)
    if data is None and (run / NAME).exists():
        return
    with process_pool(1) as submit:
        try:
            submit(_build, run, data, progress.is_shown()).result()
        except BrokenProcessPool:
            raise InputError(f"{run}: what reads the data was ended; is there too little memory?") from None


def _build(run: Path, data: Path | None, told: bool) -> None:
    from icelens.review.build import build_from_source

    progress.show(told)
    build_from_source(run, data)
