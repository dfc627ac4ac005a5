"""The audit: a run on all examples ranks them; it, or others that leave some out, tell what to believe."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from icelens.auditing.aids import aids_for, suspect_rows
from icelens.auditing.estimate import by_class, confused_pairs, estimate_errors, review_budgets
from icelens.auditing.evidence import Evidence, held_evidence, honest_evidence
from icelens.auditing.features import inputs_of
from icelens.auditing.fit import Fit
from icelens.auditing.inputs import Inputs
from icelens.auditing.network import described
from icelens.auditing.ranking import (
    best_reading,
    guesses,
    issues_of,
    kinds_of,
    suspicion_score,
    trust_of,
    with_confidence,
)
from icelens.auditing.result import Audit
from icelens.auditing.shared import runs_together
from icelens.auditing.stages import Honest
from icelens.data import Labelled
from icelens.errors import InputError
from icelens.ranks import Ranks
from icelens.train.run import versions
from icelens.train.task import choose_device

if TYPE_CHECKING:
    import pandas as pd


def audit_labelled(
    data: Labelled,
    *,
    seed: int = 0,
    device: str = "auto",
    backbone: str | Path | None = None,
    budget: int | None = None,
    stages: Path | None = None,
    cache: Path | None = None,
    reviewed: bool = False,
) -> Audit:
    """Find the labels of a data set that are probably wrong.

    Under torch.distributed every rank calls this and makes some of the runs; the first one judges, and it
    alone reads and writes the two folders.

    Args:
        data: the examples with their given labels.
        seed: of networks, order and folds.
        device: "auto", "cpu", "cuda", ...
        backbone: an encoder of transformers, for texts and images.
        budget: how many examples a review may look at; adds its row to `Audit.budgets`.
        stages: a folder that keeps each training run as it ends, so that a second call goes on from there.
        cache: a folder that keeps embeddings, for other audits of the same texts or images.
        reviewed: whether people will look at the suspects: adds `Audit.aids` and `Audit.weights`.
    """
    if len(data.classes) < 2:
        raise InputError(f"{data.name}: only one class, '{data.classes[0]}'; there is nothing to tell apart")
    started, place, ranks = time.perf_counter(), choose_device(device), Ranks.here()
    inputs = read_inputs(data, place, backbone, cache)
    labels = torch.from_numpy(data.labels).to(place)
    runs = runs_together(inputs, labels, len(data.classes), ranks, seed=seed, folder=stages)

    def judged() -> Audit:
        assert runs is not None, "the first rank has them"
        about = about_audit(data, inputs, backbone, seed=seed, started=started)
        return concluded(data, inputs, *runs, seed=seed, budget=budget, about=about, reviewed=reviewed)

    return ranks.of_first(judged)


def read_inputs(
    data: Labelled, device: torch.device, backbone: str | Path | None, cache: Path | None
) -> Inputs:
    """What an audit learns from: features of its own, or what an encoder makes of the data."""
    if backbone is None:
        return inputs_of(data, device)
    # transformers is loaded for this alone.
    from icelens.auditing.backbone import embed

    return embed(data, backbone, device, cache)


def concluded(
    data: Labelled,
    inputs: Inputs,
    whole: Fit,
    honest: Honest | None,
    *,
    seed: int,
    budget: int | None,
    about: dict[str, Any],
    reviewed: bool,
) -> Audit:
    """The audit that the runs give; for reviewers, with what they are shown beside its suspects."""
    evidence, whole = _evidence(data, whole, honest)
    audit = _judged(data, whole, evidence, seed=seed, budget=budget, about=about)
    return _with_aids(audit, inputs, whole, evidence) if reviewed else audit


def _with_aids(audit: Audit, inputs: Inputs, whole: Fit, evidence: Evidence) -> Audit:
    """The audit, and what reviewers are shown beside its suspects."""
    assert whole.weights is not None, "a run on all examples keeps its weights"
    rows = suspect_rows(audit.examples)
    aids = aids_for(audit.examples, rows, _blended(whole, evidence, rows), inputs, whole.weights)
    return replace(audit, aids=aids, weights=whole.weights)


def judge(data: Labelled, whole: Fit, honest: Honest | None, *, seed: int = 0) -> Audit:
    """What the runs say of every example and of the whole."""
    evidence, whole = _evidence(data, whole, honest)
    return _judged(data, whole, evidence, seed=seed)


def _evidence(data: Labelled, whole: Fit, honest: Honest | None) -> tuple[Evidence, Fit]:
    """What labels are judged by, and the run with log p of its end or of its course, whichever tells more."""
    if honest is None:
        return held_evidence(whole.log_p, _confidence(whole), data.labels), whole
    evidence = honest_evidence(honest, data.labels)
    if whole.visited is None:
        return evidence, whole
    readings = [whole.log_p, whole.visited]
    best = best_reading(readings, data.labels, evidence.noise, evidence.rows, evidence.right)
    return evidence, replace(whole, log_p=best)


def _judged(
    data: Labelled,
    whole: Fit,
    evidence: Evidence,
    *,
    seed: int,
    budget: int | None = None,
    about: dict[str, Any] | None = None,
) -> Audit:
    trust = trust_of(_score(data, whole, evidence), evidence.rows, evidence.right)
    contradicted = int((whole.log_p.argmax(1) != data.labels).sum())
    issues = issues_of(trust, contradicted)
    examples = _examples(data, _blended(whole, evidence), _confidence(whole), trust, issues)
    return Audit(
        examples=examples,
        estimate=estimate_errors(trust, evidence, data.labels, seed),
        pairs=confused_pairs(examples),
        by_class=by_class(examples),
        budgets=review_budgets(trust, budget or 1, int(issues.sum())),
        history=(whole.iteration, whole.history),
        about={
            **(about or {}),
            **_found(evidence, data),
            "held": evidence.held,
            "contradicted": contradicted,
            "explained": [round(share * len(data), 1) for share in evidence.span],
        },
    )


def _score(data: Labelled, whole: Fit, evidence: Evidence) -> NDArray[np.float64]:
    """What labels are ranked by, (N,); low = suspicious."""
    if evidence.held:
        return evidence.right  # its confidences, which need no second opinion
    score = suspicion_score(whole.log_p, data.labels, evidence.noise)
    return with_confidence(score, _confidence(whole), evidence.rows, evidence.right)


def _confidence(whole: Fit) -> NDArray[np.float32]:
    if whole.confidence is None:
        raise InputError("an audit is judged from a run with confidences, and this one had none")
    return whole.confidence


def _blended(whole: Fit, evidence: Evidence, rows: NDArray[np.int64] | None = None) -> NDArray[np.float32]:
    """log p of these rows or of all, (rows, classes); where there is evidence, half way between both.

    A network that knows its labels by heart would show a wrong label as its own guess.
    """
    rows = np.arange(len(whole.log_p)) if rows is None else rows
    if evidence.held:
        return whole.log_p[rows]
    place = np.full(len(whole.log_p), -1)
    place[evidence.rows] = np.arange(len(evidence.rows))
    known = np.flatnonzero(place[rows] >= 0)
    log_p: NDArray[np.float32] = whole.log_p[rows]
    log_p[known] = (log_p[known] + evidence.log_p[place[rows[known]]]) / 2
    log_p -= np.log(np.exp(log_p).sum(1, keepdims=True))
    return log_p


def _examples(
    data: Labelled,
    log_p: NDArray[np.float32],
    confidence: NDArray[np.float32],
    trust: NDArray[np.float64],
    issues: NDArray[np.bool_],
) -> pd.DataFrame:
    import pandas as pd

    rows = np.arange(len(data))
    guess = guesses(log_p, data.labels, trust)
    names = pd.Index(data.classes, dtype=object)
    return pd.DataFrame(
        {
            "id": _storable(data.ids),
            "index": rows,
            "label": pd.Categorical.from_codes(data.labels.tolist(), categories=names),
            "guess": pd.Categorical.from_codes(guess.tolist(), categories=names),
            "confidence": confidence,
            "p_label": np.exp(log_p[rows, data.labels]),
            "p_guess": np.exp(log_p[rows, guess]),
            "trust": trust,
            "kind": kinds_of(log_p, guess, data.labels, issues),
            "is_issue": issues,
        }
    )


def _storable(ids: NDArray[np.object_]) -> NDArray[np.object_]:
    """Ids that a column of a Parquet file can hold: strings, unless all are integers of 64 bits."""
    if all(isinstance(name, int) and -(2**63) <= name < 2**63 for name in ids):
        return ids
    return np.array([str(name) for name in ids], dtype=object)


def about_audit(
    data: Labelled, inputs: Inputs, backbone: str | Path | None, *, seed: int, started: float
) -> dict[str, Any]:
    """What an audit says of how it was made."""
    return {
        "name": data.name,
        "kind": data.kind,
        "examples": len(data),
        "classes": len(data.classes),
        "model": inputs.model,
        "network": described(inputs, len(data.classes)),
        "epochs": inputs.plan().epochs,
        "seed": seed,
        "versions": versions(),
        "said": list(data.said),
        **({} if backbone is None else {"backbone": Path(backbone).name}),
        "seconds": round(time.perf_counter() - started, 2),
    }


def _found(evidence: Evidence, data: Labelled) -> dict[str, Any]:
    rates = zip(data.classes, evidence.noise.rate, strict=True)
    return {
        **({} if evidence.held else {"sharpness": evidence.noise.sharpness, "gain": round(evidence.gain, 1)}),
        "rate_by_class": {name: round(float(rate), 4) for name, rate in rates},
    }
