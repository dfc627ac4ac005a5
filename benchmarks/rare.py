"""A rare class: how well its wrong labels, and the wrong labels of all, are found.

    python benchmarks/rare.py --root data    # all trials: 20 minutes on one core
    python benchmarks/rare.py --show         # print what is in the results folder

Two kinds of data, 3,000 examples each. Fours of MNIST among nines, by their first 40 principal components;
and points of a small cloud beside a large one, three columns of normal numbers, 2.5 apart in each. One to ten
in a hundred are of the rare class, and a share of all labels is flipped at random, so that of the labels that
name it up to 92 % are wrong.

Beside icelens as it is stands its first try alone, and cleanlab with five folds of the same network by cross
entropy, with the better of its two scores. A finished trial is a file in the results folder.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from detect import engine, score
from detect_tools import (
    ICELENS,
    NORMALIZED_MARGIN,
    SELF_CONFIDENCE,
    Trial,
    confident_learning,
    cross_validated,
    judge_icelens,
)
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.metrics import average_precision_score

from icelens.auditing import shared
from icelens.auditing.features import inputs_of
from icelens.data import from_arrays, load
from icelens.train.run import versions, write_text

FOURS, CLOUDS = "fours", "clouds"
EXAMPLES, COMPONENTS = 3000, 40
APART, COLUMNS = 2.5, 3
SHARES = (0.01, 0.02, 0.05, 0.1)
RATES = (0.01, 0.05, 0.1)
FIRST = "icelens, first try"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", type=Path, default=Path("data"), help="the folder of data sets")
    parser.add_argument("--results", type=Path, default=Path("results/rare"))
    parser.add_argument("--kinds", nargs="+", choices=(FOURS, CLOUDS), default=[FOURS, CLOUDS])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--show", action="store_true", help="run nothing, print what there is")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    engine()  # before anyone changes the source that this process has read
    if not arguments.show:
        images = load("mnist", arguments.root).train
        makers = {FOURS: functools.partial(fours, images), CLOUDS: clouds}
        for seed, kind, share, rate in itertools.product(
            range(arguments.seeds), arguments.kinds, SHARES, RATES
        ):
            path = arguments.results / f"{kind}-{100 * share:.0f}-{100 * rate:.0f}-{seed}.json"
            if not path.exists():
                record = {"kind": kind, **measure(makers[kind], share, rate, seed)}
                write_text(path, json.dumps(record, indent=1) + "\n")
                print(path.stem, flush=True)
    print(
        "\n".join(report([json.loads(path.read_text()) for path in sorted(arguments.results.glob("*.json"))]))
    )


def fours(images: Any, rare: NDArray[np.bool_], draw: np.random.Generator) -> NDArray[np.float32]:
    """Images of nines, and where the class is rare of fours, by their principal components."""
    digits, rows = images.labels.numpy(), np.zeros(EXAMPLES, dtype=np.int64)
    for digit, which in ((4, rare), (9, ~rare)):
        rows[which] = draw.choice(np.flatnonzero(digits == digit), int(which.sum()), replace=False)
    pixels = images.inputs[torch.from_numpy(rows)].reshape(EXAMPLES, -1).numpy().astype(np.float32)
    columns: NDArray[np.float32] = PCA(COMPONENTS, random_state=0).fit_transform(pixels)
    return columns


def clouds(rare: NDArray[np.bool_], draw: np.random.Generator) -> NDArray[np.float64]:
    """Normal numbers, and farther out where the class is rare."""
    return draw.normal(size=(EXAMPLES, COLUMNS)) + APART * rare[:, None]


def measure(make: Callable[..., NDArray[Any]], share: float, rate: float, seed: int) -> dict[str, Any]:
    """All tools on one draw of examples and flips."""
    draw = np.random.default_rng(seed)
    rare = draw.permutation(np.arange(EXAMPLES) < round(share * EXAMPLES))
    columns = make(rare, draw)
    wrong = np.zeros(EXAMPLES, dtype=bool)
    wrong[draw.choice(EXAMPLES, round(rate * EXAMPLES), replace=False)] = True
    named = wrong ^ rare
    data = from_arrays(columns, named.astype(int))
    trial = Trial(data, inputs_of(data, torch.device("cpu")), seed, None, lambda _: None)
    folds = cross_validated(trial)
    cleanlab = confident_learning(data.labels, folds["p"])
    found = {SELF_CONFIDENCE: cleanlab["self_confidence"], NORMALIZED_MARGIN: cleanlab["normalized_margin"]}
    tools = {name: of_the_rare(values, named, wrong) for name, values in found.items()}
    for name, tries in ((ICELENS, shared.TRIES), (FIRST, shared.TRIES[:1])):
        tools[name] = audited(trial, tries, named, wrong)
    return {
        "share": share, "rate": rate, "seed": seed, "errors": int(wrong.sum()),
        "named": int(named.sum()), "errors_named": int((named & wrong).sum()),
        "tools": tools, "engine": engine(), "versions": versions(),
    }  # fmt: skip


def audited(
    trial: Trial, tries: tuple[float, ...], named: NDArray[np.bool_], wrong: NDArray[np.bool_]
) -> dict[str, Any]:
    """What an audit finds that may make these tries."""
    before, shared.TRIES = shared.TRIES, tries
    try:
        judged = judge_icelens(trial)
    finally:
        shared.TRIES = before
    assert judged.verdict.score is not None
    return {**score(judged, wrong), **of_the_rare(judged.verdict.score, named, wrong)}


def of_the_rare(
    values: NDArray[Any], named: NDArray[np.bool_], wrong: NDArray[np.bool_]
) -> dict[str, float | None]:
    """Average precision over all labels, and over those that name the rare class."""
    return {
        "average_precision": float(average_precision_score(wrong, -values)),
        "of_the_rare": float(average_precision_score(wrong[named], -values[named])),
    }


def report(records: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each kind of data, share and rate, means over its trials."""
    yield "average precision over all labels / over those that name the rare class; the estimate of icelens"
    heads = "".join(f"{tool:>17}" for tool in (ICELENS, "first try", "cleanlab"))
    yield f"{'data':8}{'share':>6}{'flips':>6}{'wrong of those':>16}{heads}{'estimate':>12}, interval holds"
    for kind, share, rate in itertools.product((FOURS, CLOUDS), SHARES, RATES):
        trials = [one for one in records if (one["kind"], one["share"], one["rate"]) == (kind, share, rate)]
        if trials:
            yield f"{kind:8}{share:6.0%}{rate:6.0%}" + _line(trials)


def _line(trials: list[dict[str, Any]]) -> str:
    mine = [trial["tools"][ICELENS] for trial in trials]
    wrong = statistics.fmean(trial["errors_named"] / trial["named"] for trial in trials)
    cells = [_cell(trials, *names) for names in ((ICELENS,), (FIRST,), (SELF_CONFIDENCE, NORMALIZED_MARGIN))]
    holds = sum(one["low"] <= t["errors"] <= one["high"] for one, t in zip(mine, trials, strict=True))
    estimate = f"{statistics.fmean(one['estimate'] for one in mine):,.0f} of {trials[0]['errors']}"
    return f"{wrong:16.0%}{''.join(f'{cell:>17}' for cell in cells)}{estimate:>12}, {holds} of {len(trials)}"


def _cell(trials: list[dict[str, Any]], *names: str) -> str:
    best = [max((one["tools"][name] for name in names), key=lambda tool: tool[KEYS[0]]) for one in trials]
    return " / ".join(f"{statistics.fmean(one[key] for one in best):.3f}" for key in KEYS)


KEYS = ("average_precision", "of_the_rare")


if __name__ == "__main__":
    main()
