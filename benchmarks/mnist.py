"""The trials behind the README's table and picture: MNIST and Fashion-MNIST with half of the labels flipped.

    icelens data get mnist fashion-mnist
    python benchmarks/mnist.py --seeds 5         # some minutes on a GPU; finished trials are not run again

Writes results/mnist_fashion.json and docs/images/mnist_least_trusted.png.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sklearn.metrics import roc_auc_score

from icelens import Recipe, Run, run_recipe
from icelens.data import load
from icelens.plots import Caption, gallery, gallery_size, save, style

HERE = Path(__file__).parents[1]
METHODS = ("cross_entropy", "gce", "elr", "ice_linear", "ice_power")
SHOWN = 32


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--root", default="data", help="folder of the data sets")
    parser.add_argument("--runs", default="runs/mnist", type=Path, help="folder for the runs")
    parser.add_argument("--seeds", default=5, type=int)
    arguments = parser.parse_args()
    trials = [
        trial(arguments, data, method, seed)
        for seed in range(arguments.seeds)
        for data in ("mnist", "fashion-mnist")
        for method in METHODS
    ]
    run = run_recipe(recipe(arguments.root, "mnist", "ice_linear", 0, noise=0.0), arguments.runs / "original")
    versions = json.loads((run.folder / "recipe.json").read_text())["versions"]
    text = json.dumps({"versions": versions, "trials": trials}, indent=1)
    (HERE / "results" / "mnist_fashion.json").write_text(text + "\n")
    draw(run, arguments.root)
    report(trials)


def recipe(root: str, data: str, method: str, seed: int, *, noise: float = 0.5) -> Recipe:
    """The paper's setting; without noise nothing is held out either, since the picture is of all images."""
    return Recipe(
        data=data, root=root, noise_rate=noise, validation=0.2 if noise else 0.0, seed=seed,
        model="cnn", model_settings={"logit_norm": True}, loss=method,
        confidence_schedule="paper" if method.startswith("ice_") else "constant",
        optimizer="adam", learning_rate=1e-3, weight_decay=0.0, schedule="exponential", iterations=2000,
        batch_size=512, precision="bfloat16", channels_last=True,
    )  # fmt: skip


def trial(arguments: argparse.Namespace, data: str, method: str, seed: int) -> dict[str, Any]:
    """One run, and how well its score tells flipped from original labels among those it trained on."""
    run = run_recipe(recipe(arguments.root, data, method, seed), arguments.runs / f"{data}-{method}-{seed}")
    metrics, table = run.metrics(), run.examples()
    table = table[~table["held_out"]]
    score = "confidence" if "confidence" in table else "p_label"
    best = max(metrics, key=lambda row: row["valid_accuracy"])
    return {
        "data": data,
        "loss": method,
        "seed": seed,
        "accuracy": metrics[-1]["test_accuracy"],
        "accuracy_at_best_validation": best["test_accuracy"],
        "auroc": roc_auc_score(~table["moved"], table[score]),
        "score": score,
        "seconds": metrics[-1]["seconds"],
    }


def draw(run: Run, root: str) -> None:
    lowest = run.examples().nsmallest(SHOWN, "confidence")
    images = load("mnist", root).train.inputs[lowest["index"].tolist()]  # type: ignore[call-overload]
    rows = zip(lowest["index"], lowest["label"], lowest["guess"], strict=True)
    with style():
        figure = Figure(figsize=gallery_size(SHOWN))
        gallery(figure, images, [Caption(int(index), str(label), str(guess)) for index, label, guess in rows])
        save(figure, HERE / "docs" / "images" / "mnist_least_trusted.png")


def report(trials: list[dict[str, Any]]) -> None:
    for data, method in sorted({(trial["data"], trial["loss"]) for trial in trials}):
        group = [trial for trial in trials if (trial["data"], trial["loss"]) == (data, method)]
        last, best = (
            [100 * trial[key] for trial in group] for key in ("accuracy", "accuracy_at_best_validation")
        )
        spread = f"({statistics.stdev(last):.2f})" if len(last) > 1 else ""
        auroc = statistics.fmean(trial["auroc"] for trial in group)
        print(f"{data:14} {method:14} n = {len(group)}  {statistics.fmean(last):.2f} {spread}  "
              f"best validation {statistics.fmean(best):.2f}  AUROC {auroc:.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
