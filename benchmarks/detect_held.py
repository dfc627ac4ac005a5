"""What audits of small networks would be by ICE-HELD: the ranking run trains by it, checked or alone.

    python benchmarks/detect_held.py --root data                   # minutes on a CPU
    python benchmarks/detect_held.py --cases hausa --seeds 1
    python benchmarks/detect_held.py --show

Networks, epochs and flips are those of benchmarks/detect.py. An audit of a small network ranks by one run
with the noise channel and counts by runs that leave some examples out ("as it is"). "held, checked" trains
the first by ICE-HELD, "held alone" has no other run and takes its confidences for what they say, as audits of
images on a GPU do; "both, checked" ranks by the mean of the first two, which is one run more. One JSON file
for each finished trial, so that a second call goes on.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from detect import engine, listed, ranked
from detect_cases import CASES, Known
from numpy.typing import NDArray

import icelens.auditing.fit as fit_module
from icelens.auditing.audit import judge
from icelens.auditing.features import inputs_of
from icelens.auditing.inputs import Inputs
from icelens.auditing.ranking import issues_of
from icelens.auditing.result import Audit
from icelens.auditing.stages import honest_runs, whole_run
from icelens.losses import HeldLoss
from icelens.train.run import versions, write_text

AS_IT_IS, CHECKED, ALONE, BOTH = "as it is", "held, checked", "held alone", "both, checked"
SHOWN = {"average_precision": ".3f", "auroc": ".3f", "f1": ".3f", "issues": ",.0f", "errors": ",.0f"}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    small = [name for name, case in CASES.items() if not case.gpu]
    parser.add_argument("--root", type=Path, default=Path("data"), help="the folder of data sets")
    parser.add_argument("--results", type=Path, default=Path("results/detect_held"), help="a file each trial")
    parser.add_argument("--cases", nargs="+", choices=small, default=small, metavar="CASE")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--show", action="store_true", help="train nothing, print what there is")
    arguments = parser.parse_args()
    for name in arguments.cases:
        paths = [arguments.results / f"{name}-{seed}.json" for seed in range(arguments.seeds)]
        if not arguments.show:
            run(name, paths, arguments.root)
        if records := [json.loads(path.read_text()) for path in paths if path.exists()]:
            print("\n".join(table(records)), flush=True)


def run(name: str, paths: list[Path], root: Path) -> None:
    """Make the trials that have no record; the seed of each is its place."""
    if all(path.exists() for path in paths):
        return
    labelled, clean = CASES[name].read(root)
    inputs = inputs_of(labelled, torch.device("cpu"))
    for seed, path in enumerate(paths):
        if not path.exists():
            known = CASES[name].draw(labelled, clean, seed)
            write_text(path, json.dumps(trial(known, inputs, seed) | {"case": name}, indent=1) + "\n")


def trial(known: Known, inputs: Inputs, seed: int) -> dict[str, Any]:
    """The audit in each form, and what each is worth."""
    data = known.data
    labels, classes = torch.from_numpy(data.labels), len(data.classes)
    own = whole_run(inputs, labels, classes, seed=seed, folder=None)
    with patch.object(fit_module, "_channel", lambda _, examples, classes, __: HeldLoss(examples, classes)):
        held = whole_run(inputs, labels, classes, seed=seed, folder=None)
    honest = honest_runs(inputs, labels, classes, seed=seed, folder=None)
    audits = {
        AS_IT_IS: judge(data, own, honest, seed=seed),
        CHECKED: judge(data, held, honest, seed=seed),
        ALONE: judge(data, held, None, seed=seed),
    }
    forms = {form: worth(audit, known.wrong) for form, audit in audits.items()}
    return {
        "seed": seed,
        "examples": len(data),
        "errors": int(known.wrong.sum()),
        "model": inputs.model,
        "epochs": inputs.plan().epochs,
        "engine": engine(),
        "versions": versions(),
        "forms": {**forms, BOTH: both(audits[AS_IT_IS], audits[CHECKED], known.wrong)},
    }


def worth(audit: Audit, wrong: NDArray[np.bool_]) -> dict[str, Any]:
    trust, issues = (audit.examples[name].to_numpy() for name in ("trust", "is_issue"))
    return {**ranked(trust, wrong), **listed(issues, wrong), **asdict(audit.estimate)}


def both(own: Audit, held: Audit, wrong: NDArray[np.bool_]) -> dict[str, Any]:
    """The mean of two trusts, with a list as long as either would have it in the mean."""
    trust = (own.examples["trust"].to_numpy() + held.examples["trust"].to_numpy()) / 2
    contradicted = round((own.about["contradicted"] + held.about["contradicted"]) / 2)
    return {**ranked(trust, wrong), **listed(issues_of(trust, contradicted), wrong)}


def table(records: list[dict[str, Any]]) -> Iterator[str]:
    """Means over the trials of a case, a row for each form."""
    wrong = statistics.fmean(record["errors"] for record in records)
    yield f"\n{records[0]['case']}: {wrong:,.0f} wrong labels, n = {len(records)}"
    yield f"  {'':14}" + "".join(f"{key:>19}" for key in SHOWN)
    for form in records[0]["forms"]:
        cells = (mean(records, form, key, digits) for key, digits in SHOWN.items())
        yield f"  {form:14}" + "".join(f"{cell:>19}" for cell in cells)


def mean(records: list[dict[str, Any]], form: str, key: str, digits: str) -> str:
    values = [record["forms"][form].get(key) for record in records]
    return "-" if None in values else format(statistics.fmean(values), digits)


if __name__ == "__main__":
    main()
