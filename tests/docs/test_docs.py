"""What the docs say is run, and what there is to document is documented."""

import dataclasses
import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
import typer

import icelens
from icelens.cli import app
from icelens.train import Recipe, make_recipe

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
MODULES = ["icelens", "icelens.losses", "icelens.noise", "icelens.data", "icelens.models", "icelens.plots",
           "icelens.train", "icelens.door", "icelens.auditing.result", "icelens.integrations.transformers",
           "icelens.integrations.lightning", "icelens.integrations.sklearn", "icelens.integrations.cleanlab",
           "icelens.dynamics.recorder", "icelens.dynamics.read", "icelens.confidence", "icelens.transforms",
           "icelens.ranks", "icelens.errors"]  # fmt: skip


def blocks(language):
    found = [
        (page.name, code)
        for page in PAGES
        for kind, code in BLOCK.findall(page.read_text())
        if kind == language
    ]
    return [pytest.param(code, id=f"{name}-{number}") for number, (name, code) in enumerate(found)]


def test_there_are_blocks_to_run():
    assert len(PAGES) >= 8
    assert len(blocks("python")) >= 4
    assert len(blocks("shell")) >= 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for kind, code in BLOCK.findall(page.read_text()):
        if kind == "python":
            exec(compile(code, page.name, "exec"), names)


def test_the_diff_of_the_readme_runs_before_and_after():
    (diff,) = [code for kind, code in BLOCK.findall((ROOT / "README.md").read_text()) if kind == "diff"]
    for sign in "-+":
        lines = [line[2:] for line in diff.splitlines() if line[:1] in (sign, " ")]
        exec(compile(SETUP + "\n".join(lines), "README", "exec"), {})


SETUP = """
import icelens, torch, torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
train_set = TensorDataset(torch.randn(200, 4), torch.randint(3, (200,)))
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""


@pytest.mark.parametrize("code", blocks("shell"))
def test_shell_blocks_name_commands_and_options_that_exist(code):
    checked = 0
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["torchrun"]:
            words = words[words.index("icelens") :]
        if words[:1] != ["icelens"]:
            continue
        command, words = typer.main.get_command(app), words[1:]
        while words and words[0] in getattr(command, "commands", {}):
            command, words = command.commands[words[0]], words[1:]
        options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
        used = {word.split("=")[0] for word in words if word.startswith("--")}
        assert used <= options, f"{line}: no such option"
        settings = [word for word in words if "=" in word and not word.startswith("-")]
        assert all(word.split("=")[0].split(".")[0] in vars(Recipe()) for word in settings), line
        checked += 1
    assert checked or "pip install" in code


@pytest.mark.parametrize("code", blocks("toml"))
def test_recipes_are_valid(code):
    make_recipe(tomllib.loads(code))


def test_generated_parts_are_up_to_date():
    command = [sys.executable, ROOT / "docs" / "generate.py", "--check"]
    answer = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_says_what_it_is(module):
    module = importlib.import_module(module)
    names = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]  # fmt: skip
    assert names
    for name in names:
        value = getattr(module, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            text = inspect.getdoc(value)
            assert text, f"{module.__name__}.{name} has no docstring"
            assert text != inspect.getdoc(torch.nn.Module), name


def test_every_parameter_of_a_public_class_or_function_with_many_is_explained():
    for name in ("ICELoss", "Confidence", "FlightRecorder"):
        kind = getattr(icelens, name)
        text = inspect.getdoc(kind)
        for parameter in inspect.signature(kind).parameters:
            assert f"{parameter}:" in text, f"{name} does not explain {parameter}"


def test_every_command_and_option_has_a_help_text():
    page = (ROOT / "docs" / "cli.md").read_text()

    def walk(command, path):
        assert command.help, path
        for parameter in command.params:
            if parameter.name != "help":
                assert getattr(parameter, "help", None), f"{path} {parameter.name}"
                # `--browser/--no-browser`: how to turn it off is told, too.
                for spelling in parameter.secondary_opts:
                    assert f"`{', '.join([*parameter.opts, spelling])}`" in page, f"{path} {spelling}"
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, f"{path} {name}")

    walk(typer.main.get_command(app), "icelens")


def test_links_between_pages_lead_somewhere():
    checked = 0
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
            checked += 1
    assert checked > 3


def test_settings_are_the_fields_of_the_recipe():
    page = (ROOT / "docs" / "training.md").read_text()
    for field in dataclasses.fields(Recipe):
        assert f"| `{field.name}` |" in page
