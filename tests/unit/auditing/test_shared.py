"""An audit over ranks finds what one process finds, and writes the same files."""

import json
import time

import numpy as np
import pytest
import torch
import torch.distributed as dist
from audit_data import iris, reviews, same, shapes
from processes import LATE, kill_this_process, preload, run, run_until_killed
from tiny_backbones import sentences

import icelens
from icelens.auditing import backbone, stages
from icelens.auditing.backbone import embed
from icelens.auditing.inputs import Bags, Features, Pictures, Plan
from icelens.auditing.public import run_audit
from icelens.data import from_arrays
from icelens.errors import InputError
from icelens.ranks import Ranks

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def one_import():
    preload("icelens.auditing.shared", *LATE)


@pytest.fixture(autouse=True)
def for_a_moment(monkeypatch):
    prepare(monkeypatch.setattr)


def prepare(change=setattr):
    """Short runs, small chunks; the same in the workers, which start from nothing."""
    for kind in (Features, Bags, Pictures):
        change(kind, "plan", lambda self: Plan(3, 16, 1e-2))
    change(backbone, "CHUNK", 6)
    change(backbone, "BATCH", 3)


def join():
    prepare()
    dist.init_process_group("gloo")
    return Ranks.here()


def audited(folder, die=False):
    """An audit by two ranks, of which the second has a folder of its own."""
    ranks, fit = join(), stages.fit

    def watched(*args, **settings):
        made.append(settings["title"])
        if die and len(made) == 2:
            time.sleep(0.5 * (1 - ranks.rank))
            kill_this_process()
        return fit(*args, **settings)

    made, stages.fit = [], watched
    found = run_audit(iris(), device="cpu", out=folder if ranks.is_first else folder.with_name("not-mine"))
    assert not folder.with_name("not-mine").exists()
    return found, made


def content(folder):
    """The files of an audit; of `audit.json` without the time it took."""
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "report.html"}
    said = json.loads(files.pop("audit.json"))
    assert (folder / "report.html").stat().st_size > 10_000
    del said["about"]["seconds"]
    return {**files, "audit.json": said}


def test_two_ranks_write_the_files_of_one_process(tmp_path):
    expected = run_audit(iris(), device="cpu", out=tmp_path / "one")
    results = run(audited, 2, tmp_path, tmp_path / "two")
    assert content(tmp_path / "two") == content(tmp_path / "one")
    for found, _ in results:
        same(found, expected)
    parts = [f"part {number} of 4 left out" for number in (1, 2, 3, 4)]
    assert [made for _, made in results] == [["training on all", parts[1], parts[3]], [parts[0], parts[2]]]


def test_an_audit_that_was_killed_makes_the_missing_runs_alone(tmp_path):
    folder = tmp_path / "two"
    run_until_killed(audited, 2, tmp_path, folder, die=True)
    assert {path.stem for path in (folder / "stages").iterdir()} == {"whole", "part0"}
    results = run(audited, 2, tmp_path, folder)
    assert [len(made) for _, made in results] == [2, 1]
    run_audit(iris(), device="cpu", out=tmp_path / "one")
    assert content(folder) == content(tmp_path / "one")


def by_chance():
    """A table that tells nothing of its labels."""
    draw = np.random.default_rng(0)
    return from_arrays(draw.normal(size=(90, 4)), draw.integers(2, size=90))


def audited_by_chance(folder):
    ranks, fit, made = join(), stages.fit, []
    stages.fit = lambda *args, **settings: made.append(settings["title"]) or fit(*args, **settings)
    run_audit(by_chance(), device="cpu", out=folder if ranks.is_first else folder.with_name("not-mine"))
    return made


def test_two_ranks_try_again_together(tmp_path):
    run_audit(by_chance(), device="cpu", out=tmp_path / "one")
    made = run(audited_by_chance, 2, tmp_path, tmp_path / "two")
    assert content(tmp_path / "two") == content(tmp_path / "one")
    assert [len(titles) for titles in made] == [3 * len(stages.TRIES), 2 * len(stages.TRIES)]
    assert made[0][-1] == f"try {len(stages.TRIES)}: part 4 of 4 left out"


def from_python():
    ranks = join()
    texts, labels, ids = reviews()
    found = [icelens.audit(texts, labels, ids=ids, device="cpu"), icelens.audit(*shapes(), device="cpu")]
    said = []
    for device, seed in (("cpu", ranks.rank), ("cpu:0", 0)):
        try:
            icelens.audit(texts, labels, ids=ids, device=device, seed=seed)
        except InputError as error:
            said.append(str(error))
    return found, said


def test_from_python_every_rank_has_the_audit_and_they_must_ask_for_the_same(tmp_path):
    texts, labels, ids = reviews()
    expected = [icelens.audit(texts, labels, ids=ids, device="cpu"), icelens.audit(*shapes(), device="cpu")]
    for found, said in run(from_python, 2, tmp_path):
        for mine, theirs in zip(found, expected, strict=True):
            same(mine, theirs)
        assert said == [
            "options and data of process 1 are not those of process 0; start all with the same",
            "device cpu:0 is one GPU, but there are 2 processes; with cuda or auto each takes its own",
        ]


def embedded(model, cache):
    """Embeddings by this rank and the others, twice, and how many chunks were made here each time."""
    ranks, chunk, made, results = join(), backbone._chunk, [], []
    backbone._chunk = lambda *args, **settings: made.append(1) or chunk(*args, **settings)
    for _ in range(2):
        values = embed(sentences(20), model, CPU, cache if ranks.is_first else None).values
        results.append((values, len(made)))
        made.clear()
    return results


def test_embeddings_are_made_in_parts_and_those_that_are_kept_are_handed_round(bert, tmp_path):
    expected = embed(sentences(20), bert, CPU, tmp_path / "one").values
    (file,) = (tmp_path / "one").iterdir()
    for first, second in run(embedded, 2, tmp_path, bert, tmp_path / "two"):
        assert torch.equal(first[0], expected)
        assert torch.equal(second[0], expected)
        assert (first[1], second[1]) == (2, 0)  # of four chunks
    assert (tmp_path / "two" / file.name).read_bytes() == file.read_bytes()
