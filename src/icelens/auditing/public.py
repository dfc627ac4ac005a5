"""An audit of data that was read already, into a folder if one is given."""

from __future__ import annotations

import dataclasses
import operator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from icelens.auditing.audit import audit_labelled
from icelens.auditing.estimate import review_budgets
from icelens.auditing.folder import AuditFolder
from icelens.auditing.result import Audit
from icelens.errors import InputError
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
) -> Audit:
    """Audit data that was read already, into a folder if one is given; an audit that lies there is read.

    `source` is where the data was read from, for those who will want to read it again.
    """
    seed = _whole("seed", seed, 0)
    budget = None if budget is None else _whole("budget", budget, 1)
    choose_device(device)  # before there is a folder
    if out is None:
        return audit_labelled(data, seed=seed, device=device, backbone=backbone, budget=budget)
    from icelens.auditing.report import write_report

    folder = AuditFolder(out)
    folder.start({"seed": seed, "backbone": None if backbone is None else str(backbone)}, data, source)
    if not folder.finished:
        audited = audit_labelled(
            data, seed=seed, device=device, backbone=backbone, budget=budget, stages=folder.stages,
            cache=folder.path.parent / "embeddings", reviewed=True,
        )  # fmt: skip
        folder.write(audited)
    found = folder.read()
    if budget is not None:  # the audit that lies there may have been made for another
        trust, issues = found.examples["trust"].to_numpy(), int(found.examples["is_issue"].sum())
        found = dataclasses.replace(found, budgets=review_budgets(trust, budget, issues))
    if report:
        write_report(found, data, folder.path / "report.html")
    return found


def _whole(name: str, value: Any, least: int) -> int:
    """An integer of Python or numpy; True is one to Python, but a slip here."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= value < 2**32:
        raise InputError(f"{name} must be an integer from {least} to 2^32 − 1, got {value!r}")
    return operator.index(value)
