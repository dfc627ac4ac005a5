"""`icelens.audit`: from arrays, tables or texts to what is wrong with their labels."""

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
    from icelens.data import Labelled


def audit(  # noqa: PLR0913 - what to audit, what to forgive, and how
    X: Any,
    y: Any = None,
    *,
    ids: Any = None,
    drop_unlabelled: bool = False,
    keep_rare: bool = False,
    seed: int = 0,
    device: str = "auto",
    backbone: str | Path | None = None,
    budget: int | None = None,
    out: str | Path | None = None,
) -> Audit:
    """Find the labels that are probably wrong: one ordinary run ranks all examples.

    Args:
        X: features (N, width), embeddings that you have, a sparse matrix, a DataFrame, uint8 images, a list
            of texts or of pairs of texts, or a torch data set that yields (x, y).
        y: (N,), the given labels: strings, integers or booleans. None for a data set that yields them.
        ids: (N,), a name for each example; row numbers where left out.
        drop_unlabelled: leave out rows without a label, which are an error otherwise.
        keep_rare: keep classes of which there is one example only, which are an error otherwise.
        seed: of networks, order and folds. The same seed gives the same numbers on the same machine.
        device: "auto", "cpu", "cuda", ...
        backbone: an encoder of transformers, a folder or a name on the hub; for texts and images.
        budget: how many examples you can look at; `Audit.budgets` then says how many errors to expect.
        out: a folder for the table, the report and, should it be stopped, what it goes on from.

    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2  # the first fifty are of class 0
    >>> audit(X, y).suspects(1)["index"].item()
    7
    """
    from icelens.data import from_arrays

    _check_order(X, y)
    data = from_arrays(X, y, ids=ids, drop_unlabelled=drop_unlabelled, keep_rare=keep_rare)
    return run_audit(data, seed=seed, device=device, backbone=backbone, budget=budget, out=out)


def run_audit(
    data: Labelled,
    *,
    seed: int = 0,
    device: str = "auto",
    backbone: str | Path | None = None,
    budget: int | None = None,
    out: str | Path | None = None,
    report: bool = True,
) -> Audit:
    """Audit data that was read already, into a folder if one is given; an audit that lies there is read."""
    seed = _whole("seed", seed, 0)
    budget = None if budget is None else _whole("budget", budget, 1)
    choose_device(device)  # before there is a folder
    if out is None:
        return audit_labelled(data, seed=seed, device=device, backbone=backbone, budget=budget)
    from icelens.auditing.report import write_report

    folder = AuditFolder(out)
    folder.start({"seed": seed, "backbone": None if backbone is None else str(backbone)}, data)
    if not folder.finished:
        audited = audit_labelled(
            data, seed=seed, device=device, backbone=backbone, budget=budget, stages=folder.stages,
            cache=folder.path.parent / "embeddings",
        )  # fmt: skip
        folder.write(audited)
    found = folder.read()
    if budget is not None:  # the audit that lies there may have been made for another
        trust, issues = found.examples["trust"].to_numpy(), int(found.examples["is_issue"].sum())
        found = dataclasses.replace(found, budgets=review_budgets(trust, budget, issues))
    if report:
        write_report(found, data, folder.path / "report.html")
    return found


def _check_order(X: Any, y: Any) -> None:
    """Raise where two pandas objects hold the same rows in another order: labels are matched by position."""
    import pandas as pd

    if not (isinstance(X, pd.DataFrame | pd.Series) and isinstance(y, pd.Series)) or len(X) != len(y):
        return
    if not X.index.equals(y.index) and X.index.sort_values().equals(y.index.sort_values()):
        raise InputError("X and y have the same index in another order; give y.loc[X.index]")


def _whole(name: str, value: Any, least: int) -> int:
    """An integer of Python or numpy; True is one to Python, but a slip here."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= value < 2**32:
        raise InputError(f"{name} must be an integer from {least} to 2^32 − 1, got {value!r}")
    return operator.index(value)
