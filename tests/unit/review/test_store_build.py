"""From an audit and its data to a store: contents of every kind, whole or not at all."""

import io
import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from PIL import Image
from review_stores import CLASSES, audit_folder, built, labelled, opened, texts

from icelens.data.own.images import StoredImages
from icelens.errors import FileError, InputError, MissingFileError
from icelens.review import build, contents
from icelens.review.build import build_from_source, build_store
from icelens.review.filters import Filters
from icelens.review.moved import move_images
from icelens.review.store import Store

LABELS = np.arange(40) % 3
HOSTILE = ["<script>alert(1)</script>", "a\x00b\x1b[31m", "half \ud83d", "line\u2028end", "x" * 30_000, ""]


def images(n=40, size=8):
    return np.random.default_rng(0).integers(0, 256, (n, size, size + 1, 3)).astype(np.uint8)


def pixels(content):
    with Image.open(content if isinstance(content, Path) else io.BytesIO(content)) as image:
        return np.asarray(image)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4,), (2,)])
def test_images_in_memory_come_back_pixel_by_pixel(tmp_path, shape):
    array = np.random.default_rng(0).integers(0, 256, (40, 5, 7, *shape)).astype(np.uint8)
    with opened(tmp_path, labelled("image", array, LABELS))[0] as store:
        wanted = array[..., 0] if shape in ((1,), (2,)) else array
        for row in range(40):
            np.testing.assert_array_equal(pixels(store.image(row)), wanted[row])
        assert store.example(0).content.image
        assert store.data_root is None


def test_images_in_a_table_are_kept_as_they_are(tmp_path):
    files = [b"\xff\xd8 jpeg %d" % row for row in range(40)]
    stored = StoredImages(pa.chunked_array([files]))
    with opened(tmp_path, labelled("image", stored, LABELS))[0] as store:
        assert [store.image(row) for row in range(40)] == files


def test_images_that_are_files_stay_where_they_are(tmp_path):
    paths = []
    for row, array in enumerate(images()):
        path = tmp_path / "data" / CLASSES[row % 3] / f"{row} ü&.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(array).save(path)
        paths.append(path)
    with opened(tmp_path / "audit", labelled("image", paths, LABELS))[0] as store:
        assert store.image(4) == paths[4].resolve()
        assert store.example(4).content.path == "dog/4 ü&.png"
        assert store.data_root == tmp_path / "data"
        assert [example.index for example in store.page(Filters(query="id-4"))] == [4]
    both = tmp_path / "elsewhere"
    both.mkdir()
    for name in ("data", "audit"):
        (tmp_path / name).rename(both / name)
    with Store(both / "audit") as store:  # moved together
        assert store.image(4) == (both / "data" / "dog" / "4 ü&.png").resolve()
        (both / "data" / "dog" / "4 ü&.png").unlink()
        with pytest.raises(MissingFileError, match=r"4 ü&.png: no such file; was the data moved"):
            store.image(4)


def test_images_that_were_moved_are_shown_from_where_they_lie(tmp_path):
    def saved(home, folder):
        paths = [home / folder / f"{row}.png" for row in range(40)]
        for path, array in zip(paths, images(), strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(path)
        return labelled("image", paths, LABELS)

    folder = tmp_path / "audit"
    with opened(folder, saved(tmp_path / "was", "a"))[0] as store:
        store.judge(4, "drop", who="ann", key="k")
    shutil.rmtree(tmp_path / "was")
    there = saved(tmp_path / "is", "b")
    other = replace(there, inputs=[*there.inputs[1:], tmp_path / "is" / "last" / "0.png"])
    other.inputs[-1].parent.mkdir()
    there.inputs[0].rename(other.inputs[-1])
    with pytest.raises(InputError, match="its labels are others"):
        move_images(folder, replace(other, labels=(other.labels + 1) % 3))
    with Store(folder) as store, pytest.raises(MissingFileError, match="was the data moved"):
        store.image(39)
    move_images(folder, other)
    both = tmp_path / "both"
    both.mkdir()
    for name in ("is", "audit"):
        (tmp_path / name).rename(both / name)
    with Store(both / "audit") as store:  # moved together from then on
        assert store.image(4) == both / "is" / "b" / "5.png"
        assert store.image(39) == both / "is" / "last" / "0.png"
        assert [one.verdict for one in store.verdicts()] == ["drop"]


def test_only_image_files_can_be_moved(tmp_path):
    for name, data in (("text", texts()), ("images", labelled("image", images(), LABELS))):
        path, _ = built(tmp_path / name, data)
        before = path.read_bytes()
        move_images(tmp_path / name, data)
        assert path.read_bytes() == before


def test_a_link_that_leads_out_of_the_data_is_refused(tmp_path):
    secret = tmp_path / "secret.png"
    Image.fromarray(images(1)[0]).save(secret)
    folder = tmp_path / "data"
    folder.mkdir()
    paths = [folder / f"{row}.png" for row in range(40)]
    for path in paths[1:]:
        path.write_bytes(secret.read_bytes())
    paths[0].symlink_to(secret)
    with opened(tmp_path / "audit", labelled("image", paths, LABELS))[0] as store:
        assert store.image(1) == paths[1].resolve()
        with pytest.raises(FileError, match="leads out of"):
            store.image(0)
    connection = sqlite3.connect(tmp_path / "audit" / "review.sqlite")
    connection.execute("UPDATE contents SET path = ? WHERE place = 3", ("../secret.png",))
    connection.execute("UPDATE contents SET path = ? WHERE place = 4", (str(secret),))
    connection.commit()
    connection.close()
    with Store(tmp_path / "audit") as store:
        for example in store.page(limit=5)[3:]:
            with pytest.raises(FileError, match="leads out of"):
                store.image(example.index)


def test_when_room_runs_out_suspects_and_their_neighbours_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "ROOM", 3000)
    store, table = opened(tmp_path, labelled("image", images(), LABELS), beside=True)
    order = np.argsort(table["trust"].to_numpy(), kind="stable")
    kept = [store.image(int(row)) is not None for row in order]
    used = np.cumsum([len(store.image(int(row)) or b"") for row in order])
    assert all(kept[:10])
    assert not all(kept)
    with np.load(tmp_path / "review.npz") as beside:
        near = set(beside["near_label"].ravel()) | set(beside["near_guess"].ravel())
    late = [place for place in range(40) if kept[place] and used[place] > 4000]
    assert late
    assert all(order[place] in near for place in late)
    assert used[-1] < 2 * 3000 + 500
    gone = order[kept.index(False)]
    assert not store.example(int(gone)).content.image
    store.close()


def test_texts_are_kept_readable_whatever_is_in_them(tmp_path):
    inputs = [(HOSTILE[row % 6], "second") for row in range(40)]
    with opened(tmp_path, labelled("text", inputs, LABELS))[0] as store:
        shown = [store.example(row).content.texts for row in range(6)]
        assert shown[0] == ("<script>alert(1)</script>", "second")
        assert shown[1][0] == "a␀b␛[31m"
        assert shown[2][0] == "half \ufffd"
        assert len(shown[4][0]) == contents.LONGEST_TEXT
        assert shown[5] == ("", "second")
        assert len(store.page(Filters(query="script"))) == 7


def frame(n=300):
    rng = np.random.default_rng(0)
    age = rng.normal(40, 5, n).astype(np.float32)
    age[7], age[8] = 400, np.nan
    colour = pd.Categorical(
        np.where(np.arange(n) == 7, "green", np.where(rng.random(n) < 0.5, "red", "blue"))
    )
    return pd.DataFrame({"age": age, "colour": colour, "flat": np.float32(1)})


def test_unusual_values_of_suspects_are_marked_and_others_are_plain(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "FEWEST_MARKED", 100)
    monkeypatch.setattr(contents, "MARKED", 100)
    data = labelled("table", frame(), np.arange(300) % 3)
    audit_folder(tmp_path, data)
    table = pd.read_parquet(tmp_path / "examples.parquet")
    table.loc[7, "trust"] = 0.0
    table.loc[8, "trust"] = 1.0
    table.to_parquet(tmp_path / "examples.parquet", index=False)
    build_store(tmp_path, data)
    with Store(tmp_path) as store:
        cells = {cell.column: cell for cell in store.example(7).content.cells}
        assert (cells["age"].value, cells["age"].mark, cells["colour"].mark) == ("400", "high", "rare")
        assert cells["age"].usual
        plain = store.example(8).content.cells
        assert [(cell.column, cell.value) for cell in plain][::2] == [("age", "missing"), ("flat", "1")]
        assert not any(cell.mark or cell.usual for cell in plain)
        assert [example.index for example in store.page(Filters(query="green"))] == [7]


def test_features_of_arrays_and_sparse_rows_are_named_by_number(tmp_path, monkeypatch):
    dense = np.random.default_rng(0).normal(size=(600, 60)).astype(np.float32)
    dense[599] = 0
    dense[599, [3, 59]] = 2, 1500
    monkeypatch.setattr(contents, "MARKED", 500)
    for name, table in (("dense", dense), ("sparse", scipy.sparse.csr_matrix(dense))):
        data = labelled("table", table, np.arange(600) % 3)
        audit_folder(tmp_path / name, data)
        examples = pd.read_parquet(tmp_path / name / "examples.parquet")
        examples.loc[599, "trust"] = 1.0
        examples.to_parquet(tmp_path / name / "examples.parquet", index=False)
        build_store(tmp_path / name, data)
        with Store(tmp_path / name) as store:
            cells = store.example(599).content.cells
            first = store.page(limit=1)[0].content.cells
        assert len(first) == contents.VALUES
        assert any(cell.mark for cell in first)
        shown = [(cell.column, cell.value) for cell in cells if cell.value != "0"]
        assert shown == [("feature 3", "2"), ("feature 59", "1,500")][: 1 if name == "dense" else 2]


def test_a_store_that_is_there_is_left_as_it_is(tmp_path):
    path, _ = built(tmp_path)
    with Store(path) as store:
        store.judge(0, "drop", who="ann", key="k")
    assert build_store(tmp_path, texts()) == path
    assert build_from_source(tmp_path) == path
    with Store(path) as store:
        assert len(store.verdicts()) == 1


def test_a_store_that_another_program_built_meanwhile_is_kept(tmp_path, monkeypatch):
    audit_folder(tmp_path, texts())
    write = build._write

    def slowly(*arguments):
        write(*arguments)
        (tmp_path / "review.sqlite").write_bytes(b"of another program")

    monkeypatch.setattr(build, "_write", slowly)
    build_store(tmp_path, texts())
    assert (tmp_path / "review.sqlite").read_bytes() == b"of another program"
    assert not list(tmp_path.glob(".*"))


def test_a_build_that_fails_leaves_nothing_and_the_next_one_succeeds(tmp_path, monkeypatch):
    data = texts()
    audit_folder(tmp_path, data)
    held = set(os.listdir(tmp_path))
    with monkeypatch.context() as patched:
        patched.setattr(build, "_fill_evidence", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            build_store(tmp_path, data)
        patched.setattr(build, "_fill_evidence", lambda connection, *_: connection.execute("SELECT * FROM x"))
        with pytest.raises(FileError, match=r"review.sqlite: no such table"):
            build_store(tmp_path, data)
    assert set(os.listdir(tmp_path)) == held
    (tmp_path / "review.sqlite-wal").write_bytes(b"of a store that was removed")
    with Store(build_store(tmp_path, data)) as store:
        assert len(store.page()) == 40


def test_other_data_and_unfinished_audits_are_refused(tmp_path):
    data = texts()
    with pytest.raises(MissingFileError, match="nothing: no such folder"):
        build_store(tmp_path / "nothing", data)
    audit_folder(tmp_path / "a", data)
    with pytest.raises(InputError, match="pets is not what was audited into"):
        build_store(tmp_path / "a", replace(data, labels=(data.labels + 1) % 3))
    with pytest.raises(InputError, match="its labels are others"):
        build_store(tmp_path / "a", data.take(np.arange(30)))
    (tmp_path / "a" / "examples.parquet").write_bytes(b"PAR1")
    with pytest.raises(FileError, match="not what an audit wrote"):
        build_store(tmp_path / "a", data)


def test_an_audit_without_neighbours_and_one_whose_file_is_damaged(tmp_path):
    with opened(tmp_path / "a", beside=False)[0] as store:
        assert store.page(limit=1)[0].top == ()
    audit_folder(tmp_path / "b", texts())
    (tmp_path / "b" / "review.npz").write_bytes(b"PK")
    with pytest.raises(FileError, match=r"review.npz: not what an audit wrote"):
        build_store(tmp_path / "b", texts())


def test_ids_that_are_numbers_are_names(tmp_path):
    data = labelled("text", [("a",), ("b",), ("c",)], [0, 1, 2], ids=[10, 20, 30])
    with opened(tmp_path, data)[0] as store:
        assert store.example(2).id == "30"
