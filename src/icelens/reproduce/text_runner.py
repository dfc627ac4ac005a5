"""Table 2 from files to tables.

python -m icelens.reproduce.text_runner run --root data --encoder models/all-MiniLM-L6-v2 --tasks cola rte
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from icelens import progress
from icelens.data.glue import TASKS
from icelens.errors import unknown
from icelens.reproduce import text_tables
from icelens.reproduce.paper_text import EPOCHS
from icelens.reproduce.store import read_trials, trial_path
from icelens.reproduce.text_choice import candidates, choices_markdown, run_choice
from icelens.reproduce.text_recipe import METHODS, TextRecipe
from icelens.reproduce.text_trials import Trial, run_missing

FOLDER = "table2"
SMALL = ("cola", "mrpc", "rte", "wnli")

# A first guess: `choose` compares others on held-out training rows. A rise over the whole run keeps the
# steps small while the model tells little more than the frequent class from the rare one.
CONFIDENCE: dict[str, dict[str, float]] = {
    "cross_entropy": {},
    "ice_linear": {"step_size": 8.0, "start": 2.0, "rise": 1.0},
    "ice_power": {"step_size": 4.0, "start": 0.0, "rise": 1.0},
}


def table2_recipe(data: str, method: str, encoder: str, **changes: Any) -> TextRecipe:
    """The paper's settings for a task, with the settings of the confidences for a method."""
    for name, value, known in (("data", data, EPOCHS), ("method", method, CONFIDENCE)):
        if value not in known:
            raise unknown(name, value, known)
    settings: dict[str, Any] = {"epochs": EPOCHS[data], **CONFIDENCE[method], **changes}
    return TextRecipe(data, method, encoder, **settings)


def run_table2(
    root: Path | str,
    results: Path | str,
    encoder: str,
    *,
    tasks: Sequence[str] = SMALL,
    methods: Sequence[str] = METHODS,
    seeds: Sequence[int] = range(5),
    device: str = "auto",
    jobs: int = 1,
    show_progress: bool = False,
    **changes: Any,
) -> list[text_tables.Cell]:
    """Run the trials of Table 2 that are missing, and give its cells, of all the trials that are there.

    Args:
        root: the folder that holds `glue`.
        results: the folder of results; records go to `table2` in it, the training rows of seed 0 beside them.
        encoder: a folder with a pretrained encoder, or its name on the hub.
        tasks: tasks of GLUE.
        methods: cross_entropy, ice_linear, ice_power.
        seeds: one trial each.
        device: "auto", "cpu", "cuda", ...
        jobs: processes that run trials side by side.
        show_progress: a bar on stderr.
        changes: other settings of `TextRecipe` than the table's.
    """
    if show_progress:
        progress.show()
    trials = [
        Trial(
            table2_recipe(data, method, encoder, seed=seed, device=device, **changes),
            trial_path(Path(results), FOLDER, data, method, seed),
            keep_rows=seed == 0,
        )
        for data in tasks
        for method in methods
        for seed in seeds
    ]
    run_missing(trials, root, jobs=jobs)
    return text_tables.summary(read_trials(Path(results), FOLDER))


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line: `run`, `choose` or `show`."""
    given = _parser().parse_args(arguments)
    progress.show()
    given.command(given)


def _run(given: argparse.Namespace) -> None:
    cells = run_table2(
        given.root,
        given.out,
        given.encoder,
        tasks=given.tasks,
        methods=given.methods,
        seeds=range(given.seeds),
        device=given.device,
        jobs=given.jobs,
        captured=given.captured,
    )
    _write(text_tables.summary_markdown(cells))


def _choose(given: argparse.Namespace) -> None:
    recipes = [
        TextRecipe(
            data,
            encoder=given.encoder,
            epochs=EPOCHS[data],
            captured=given.captured,
            held_out=given.held_out,
            device=given.device,
        )
        for data in given.tasks
    ]
    compared = candidates(given.methods, given.steps, given.starts, given.rises)
    found = run_choice(recipes, given.root, given.out, compared, seeds=range(given.seeds), jobs=given.jobs)
    _write(choices_markdown(found))


def _show(given: argparse.Namespace) -> None:
    from rich.console import Console

    found = {}
    for data in given.tasks:
        rows = trial_path(Path(given.out), FOLDER, data, given.method, 0).with_suffix(".npz")
        suspects = text_tables.lowest(data, rows, given.root, given.n)
        found[data] = text_tables.percentiles(data, rows)
        if given.markdown:
            _write(text_tables.suspects_markdown(suspects) + "\n")
        else:
            Console().print(text_tables.suspects_coloured(data, suspects))
    _write(text_tables.percentiles_markdown(found))


def _write(text: str) -> None:
    import sys

    sys.stdout.write(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="icelens.reproduce.text_runner", description="Table 2 of the paper."
    )
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="train what is missing and print the table")
    choose = commands.add_parser(
        "choose", help="compare settings of the confidences on held-out training rows"
    )
    show = commands.add_parser("show", help="the least trusted texts, and where the paper's rows stand")
    for command, function in ((run, _run), (choose, _choose), (show, _show)):
        command.set_defaults(command=function)
        command.add_argument("--root", required=True, help="the folder that holds glue")
        command.add_argument("--out", default="results", help="the folder of results")
        command.add_argument(
            "--tasks", nargs="+", default=SMALL, choices=TASKS, metavar="TASK", help="tasks of GLUE"
        )
    for command in (run, choose):
        command.add_argument("--encoder", required=True, help="a folder, or a name on the hub")
        command.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS, help="methods")
        command.add_argument("--seeds", type=int, default=5, help="how many trials of each")
        command.add_argument("--device", default="auto", help="cpu, cuda, ...")
        command.add_argument("--captured", action="store_true", help="steps as CUDA graphs")
        command.add_argument("--jobs", type=int, default=1, help="processes side by side")
    choose.add_argument("--steps", type=float, nargs="+", default=[1, 4, 16], help="step sizes")
    choose.add_argument(
        "--starts", type=float, nargs="+", default=[0, 2], help="confidence logits at the start"
    )
    choose.add_argument(
        "--rises", type=float, nargs="+", default=[1], help="shares of the run over which steps grow"
    )
    choose.add_argument("--held-out", type=float, default=0.1, help="share of the training rows")
    show.add_argument("--method", default="ice_power", choices=METHODS[1:], help="whose confidences")
    show.add_argument("--n", type=int, default=20, help="texts per task")
    show.add_argument("--markdown", action="store_true", help="for a page in place of the terminal")
    return parser


if __name__ == "__main__":
    main()
