"""The audit: one run on all examples ranks them, runs that leave some out say how far to believe that."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from icelens.auditing.estimate import by_class, confused_pairs, estimate_errors, review_budgets
from icelens.auditing.features import inputs_of
from icelens.auditing.fit import Fit
from icelens.auditing.inputs import Inputs
from icelens.auditing.noise_model import NoiseModel, fit_noise_model
from icelens.auditing.ranking import guesses, issues_of, kinds_of, suspicion_score, trust_of, with_confidence
from icelens.auditing.result import Audit
from icelens.auditing.stages import Honest, honest_runs, whole_run
from icelens.data import Labelled
from icelens.errors import InputError
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
) -> Audit:
    """Find the labels of a data set that are probably wrong.

    Args:
        data: the examples with their given labels.
        seed: of networks, order and folds.
        device: "auto", "cpu", "cuda", ...
        backbone: an encoder of transformers, for texts and images.
        budget: how many examples a review may look at; adds its row to `Audit.budgets`.
        stages: a folder that keeps each training run as it ends, so that a second call goes on from there.
        cache: a folder that keeps embeddings, for other audits of the same texts or images.
    """
    if len(data.classes) < 2:
        raise InputError(f"{data.name}: only one class, '{data.classes[0]}'; there is nothing to tell apart")
    started = time.perf_counter()
    place = choose_device(device)
    inputs = inputs_of(data, place) if backbone is None else _embedded(data, backbone, place, cache)
    labels = torch.from_numpy(data.labels).to(place)
    whole = whole_run(inputs, labels, len(data.classes), seed=seed, folder=stages)
    honest = honest_runs(inputs, labels, len(data.classes), seed=seed, folder=stages)
    named = {} if backbone is None else {"backbone": Path(backbone).name}
    about = {**_about(data, inputs, seed), **named, "seconds": round(time.perf_counter() - started, 2)}
    return judge(data, whole, honest, seed=seed, budget=budget, about=about)


def _embedded(data: Labelled, backbone: str | Path, device: torch.device, cache: Path | None) -> Inputs:
    """What an encoder makes of the data; transformers is loaded for this alone."""
    from icelens.auditing.backbone import embed

    return embed(data, backbone, device, cache)


def judge(
    data: Labelled,
    whole: Fit,
    honest: Honest,
    *,
    seed: int = 0,
    budget: int | None = None,
    about: dict[str, Any] | None = None,
) -> Audit:
    """What the runs say of every example and of the whole."""
    given = data.labels[honest.rows]
    noise = fit_noise_model(honest.log_p, given)
    right = noise.right(honest.log_p, given)
    score = suspicion_score(whole.log_p, data.labels, noise)
    score = with_confidence(score, _confidence(whole), honest.rows, right)
    trust = trust_of(score, honest.rows, right)
    issues = issues_of(trust)
    examples = _examples(data, _blended(whole, honest), _confidence(whole), trust, issues)
    return Audit(
        examples=examples,
        estimate=estimate_errors(trust, honest.log_p, given, noise, seed),
        pairs=confused_pairs(examples),
        by_class=by_class(examples),
        budgets=review_budgets(trust, budget or 1, int(issues.sum())),
        history=(whole.iteration, whole.history),
        about={**(about or {}), **_found(noise, data)},
    )


def _confidence(whole: Fit) -> NDArray[np.float32]:
    if whole.confidence is None:
        raise InputError("an audit is judged from a run with confidences, and this one had none")
    return whole.confidence


def _blended(whole: Fit, honest: Honest) -> NDArray[np.float32]:
    """log p of all, (N, classes); where there are honest predictions, half way between both.

    A network that knows its labels by heart would show a wrong label as its own guess.
    """
    log_p = whole.log_p.copy()
    log_p[honest.rows] = (log_p[honest.rows] + honest.log_p) / 2
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


def _about(data: Labelled, inputs: Inputs, seed: int) -> dict[str, Any]:
    return {
        "name": data.name,
        "kind": data.kind,
        "examples": len(data),
        "classes": len(data.classes),
        "model": inputs.model,
        "epochs": inputs.plan().epochs,
        "seed": seed,
        "versions": versions(),
        "said": list(data.said),
    }


def _found(noise: NoiseModel, data: Labelled) -> dict[str, Any]:
    return {
        "sharpness": noise.sharpness,
        "rate_by_class": {name: round(float(r), 4) for name, r in zip(data.classes, noise.rate, strict=True)},
    }
