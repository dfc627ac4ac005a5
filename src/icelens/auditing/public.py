"""An audit of data that was read already, into a folder if one is given."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icelens.auditing.audit import audit_labelled
from icelens.auditing.estimate import review_budgets
from icelens.auditing.folder import AuditFolder
from icelens.auditing.result import Audit, with_ranks
from icelens.auditing.shared import check_agreement
from icelens.errors import IcelensError, InputError
from icelens.ranks import Ranks
from icelens.train.task import choose_device

if TYPE_CHECKING:
    from icelens.auditing.source import Source
    from icelens.data import Labelled


def run_audit(
    data: Labelled,
    *,
    seed: int = 0,
    device: str = "auto",
    backbone: str | Path | None = None,
    budget: int | None = None,
    out: str | Path | None = None,
    report: bool = True,
    source: Source | None = None,
    aside: Callable[[Path], None] | None = None,
) -> Audit:
    """Audit data that was read already, into a folder if one is given; an audit that lies there is read.

    `source` is where the data was read from, for those who will want to read it again. With `aside` an audit
    that is finished, or of other data or settings, is moved out of the way, and `aside` told where to. Where
    torch.distributed runs with several ranks, all of them call this together; the first one writes the
    folder, which the others need not see.
    """
    seed = _whole("seed", seed, 0)
    budget = None if budget is None else _whole("budget", budget, 1)
    choose_device(device)  # before there is a folder
    ranks = Ranks.here()
    how: dict[str, Any] = {"seed": seed, "device": device, "backbone": backbone, "budget": budget}
    check_agreement(data, how, ranks)
    if out is None:
        return _ranked(audit_labelled(data, **how))
    folder = AuditFolder(out)
    if ranks.is_first:
        settings = {"seed": seed, "backbone": None if backbone is None else str(backbone)}
        if aside and (moved := folder.make_way(settings, data)):
            aside(moved)
        folder.start(settings, data, source)
    if not ranks.of_first(lambda: folder.finished):
        cache = folder.path.parent / "embeddings"
        try:
            audited = _ranked(audit_labelled(data, **how, stages=folder.stages, cache=cache, reviewed=True))
        except IcelensError:
            if ranks.is_first:
                folder.give_up()
            raise
        if ranks.is_first:
            folder.write(audited)
    return ranks.of_first(lambda: _read(folder, data, budget, report=report))


def _read(folder: AuditFolder, data: Labelled, budget: int | None, *, report: bool) -> Audit:
    """The audit that lies in the folder, and its report, if wanted."""
    from icelens.auditing.report import write_report

    found = _ranked(folder.read())
    if budget is not None:  # the audit that lies there may have been made for another
        trust, issues = found.examples["trust"].to_numpy(), int(found.examples["is_issue"].sum())
        found = dataclasses.replace(found, budgets=review_budgets(trust, budget, issues))
    if report:
        write_report(found, data, folder.path / "report.html")
    return found


def _ranked(audit: Audit) -> Audit:
    return dataclasses.replace(audit, examples=with_ranks(audit.examples))


def _whole(name: str, value: Any, least: int) -> int:
    """An integer of Python or numpy; True is one to Python, but a slip here."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= value < 2**32:
        raise InputError(f"{name} must be an integer from {least} to 2^32 − 1, got {value!r}")
    return operator.index(value)
