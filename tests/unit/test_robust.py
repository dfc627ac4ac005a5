"""The benchmarks of ICE-HELD: settings that are changed, and where the records of such trials are."""

import argparse
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F

from icelens.data import Examples, Split
from icelens.losses import held

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import parts
import robust_cases
from robust import add_set, read_changes, shares_found


def asked(*words, results="results/robust"):
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=Path, default=Path("results/robust"))
    add_set(parser)
    return read_changes(parser, parser.parse_args(["--results", results, *words]))


def test_settings_are_changed_by_name_with_values_as_in_json():
    words = ("--set", "refine=50", 'optimizer="adam"', "--set", "compiled=false")
    assert asked(*words, results="other") == {"refine": 50, "optimizer": "adam", "compiled": False}
    assert asked() == {}


@pytest.mark.parametrize(
    ("word", "results", "said"),
    [
        ("refine=50", "results/robust", "give them --results"),
        ("refine", "other", "should read KEY=VALUE"),
        ("optimizer=adam", "other", "should read KEY=VALUE"),
        ("seed=5", "other", "'seed' is told by another option"),
    ],
)
def test_what_would_make_a_record_untrue_is_refused(word, results, said, capsys):
    with pytest.raises(SystemExit):
        asked("--set", word, results=results)
    assert said in capsys.readouterr().err


def test_a_part_keeps_what_is_changed_and_as_many_steps_are_those_of_both_stages(tmp_path):
    changes = {"refine": 2, "batch_size": 500, "loss_settings": {"hold": 4.0}}
    arguments = argparse.Namespace(
        form="ice_held", root=tmp_path, results=tmp_path, device="cpu", changes=changes
    )
    place = parts.place_of(arguments, "cifar10n-worst", "never lets go")
    assert place.changes == {**changes, "loss_settings": {"hold": 4.0, "doubt": 1e-9}}
    arguments.form = parts.PLUS
    longer = parts.place_of(arguments, "cifar10n-worst", "no second stage, as many steps of ICE-HELD")
    assert (longer.changes["iterations"], longer.changes["refine"]) == (3000 + 2 * 100, 0.0)


def test_a_record_of_the_panel_stands_for_the_whole_method_unless_something_is_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "WHOLE", tmp_path / "panel")
    record = tmp_path / "panel" / "cifar10n-worst-ice_plus-0.json"
    record.parent.mkdir()
    record.write_text("{}")
    arguments = argparse.Namespace(
        form=parts.PLUS, root=tmp_path, results=tmp_path / "parts", device="cpu", changes={}
    )
    assert parts.find_record(arguments, "cifar10n-worst", "ICE+", 0) == record
    assert parts.find_record(arguments, "cifar10n-worst", "beliefs never move", 0) != record
    arguments.changes = {"refine": 50}
    assert parts.find_record(arguments, "cifar10n-worst", "ICE+", 0).parent == tmp_path / "parts" / "ICE_"


def test_classes_are_put_together_and_those_of_no_group_left_out(monkeypatch):
    labels = torch.tensor([0, 1, 2, 3, 2])
    part = Examples(torch.arange(5)[:, None], labels, ("a", "b", "c", "d"))
    monkeypatch.setattr(robust_cases, "_loaded", lambda data, root: Split(part, part))
    split = robust_cases._regrouped("any", {"late": (3, 2), "first": (0,)}, Path())
    for half in (split.train, split.test):
        assert half.classes == ("late", "first")
        assert half.labels.tolist() == [1, 0, 0, 0]
        assert half.inputs.squeeze(1).tolist() == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("part", "classes", "weight"),
    [
        ("few classes no harder", 2, 3.0),
        ("few classes no harder", 10, 3.0),
        ("two classes by 8", 2, 8.0),
        ("two classes by 11", 2, 11.0),
    ],
)
def test_the_hold_of_a_part_is_that_of_its_name(part, classes, weight):
    with patch.multiple(held, **parts.PARTS["ice_held"][f"holds {part}"].instead):
        loss = held.HeldLoss(1, classes, doubt=0.0)
        assert loss._weight(torch.zeros(1), torch.zeros(1)).item() == pytest.approx(weight)


@pytest.mark.parametrize("batch", [1, 20, 200])
def test_a_mean_of_two_visits_holds_from_the_third_on(batch):
    rows, classes, weights = 200, 10, []
    labels = torch.randint(classes, (rows,), generator=torch.Generator().manual_seed(0))
    changed = parts.PARTS["ice_held"]["holds from the third visit on"]
    with patch.multiple(changed.module, **changed.instead):
        loss = held.HeldLoss(rows, classes)
        for _ in range(3):
            for index in torch.arange(rows).split(batch):
                loss((6.0 * F.one_hot(index % classes, classes)).requires_grad_(), labels[index], index)
            weights.append(loss._weight(loss.table.v, torch.zeros(rows)).max().item())
    assert weights == pytest.approx([0, 0.015, 3], abs=0.01)


def test_recall_is_by_class_and_none_of_a_class_that_is_not_there():
    assert shares_found(torch.tensor([0, 1, 1, 1]), torch.tensor([0, 1, 1, 0]), 3) == [0.5, 1.0, None]


def test_a_part_is_run_where_it_is_another_run():
    few = parts.trials("ice_held", ["sst2-20", "fashion-mlp-50"], list(parts.PARTS["ice_held"]), seeds=1)
    changed = {part for case, part, _ in few if case == "sst2-20"}
    assert changed - {part for case, part, _ in few if case == "fashion-mlp-50"} == {
        "holds few classes no harder",
        "holds two classes by 8",
        "holds two classes by 11",
    }
