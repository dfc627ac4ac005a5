"""Older files are brought up in one step or left as they were, newer ones are refused."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from review_stores import built

from icelens.errors import FileError
from icelens.review import schema
from icelens.review.filters import Filters
from icelens.review.store import Store

VERSION_1 = Path(__file__).parent / "version_1.sql"


@pytest.fixture
def old(tmp_path):
    """A store as the first format had it, with two verdicts."""
    path = tmp_path / "review.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_1.read_text(encoding="utf-8"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    return path


def tables(path):
    connection = sqlite3.connect(path)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return names, version


def test_a_store_of_the_first_format_keeps_its_verdicts_and_learns_the_rest(old):
    with Store(old) as store:
        assert [(v.index, v.verdict, v.label) for v in store.verdicts()] == [(1, "relabel", "dog")]
        assert store.progress().reviewed == 1
        assert [example.index for example in store.page()] == [1, 0, 2]
        assert store.example(1).content.texts == ("woof",)
        store.set_order([0, 1], [0.1, 0.2])
        store.judge(2, "drop", who="ann", key="later")
        assert [example.index for example in store.page(Filters(query="meow"))] == [0, 2]
        assert store.undo(who="ann", key="u").index == 2
    assert tables(old)[1] == len(schema.migrations()) == 2


def test_the_first_format_and_today_s_end_in_the_same_schema(old, tmp_path):
    Store(old).close()
    path, _ = built(tmp_path / "new")
    statements = []
    for file in (old, path):
        connection = sqlite3.connect(file)
        rows = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        statements.append({name: sql and " ".join(sql.split()) for name, sql in rows})
        connection.close()
    assert statements[0] == statements[1]


def test_programs_that_open_an_old_store_at_once_bring_it_up_once(old):
    with ThreadPoolExecutor(8) as pool:
        for store in pool.map(Store, [old] * 8):
            assert len(store.verdicts()) == 1
            store.close()


def test_a_step_that_fails_leaves_the_old_file(old, monkeypatch):
    scripts = (*schema.migrations(), "CREATE TABLE later (a);\nINSERT INTO missing VALUES (1);\n")
    before = tables(old)
    with monkeypatch.context() as patched:
        patched.setattr(schema, "migrations", lambda: scripts)
        with pytest.raises(FileError, match="no such table: missing"):
            Store(old)
    assert tables(old) == before
    Store(old).close()


def test_a_newer_store_is_refused_and_left_alone(tmp_path):
    path, _ = built(tmp_path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(FileError, match=r"written by a newer icelens \(format 9, this one knows 2\); update"):
        Store(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_refused(tmp_path):
    path = tmp_path / "review.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE a (b); PRAGMA user_version = 1;")
    connection.close()
    with pytest.raises(FileError, match="not a store of reviews"):
        Store(path)


def test_a_script_is_cut_into_its_statements():
    script = (
        "CREATE TABLE a (b);\nCREATE TRIGGER t BEFORE DELETE ON a\nBEGIN\n  SELECT 1;\nEND;\n-- the end\n"
    )
    cut = list(schema.statements(script))
    assert len(cut) == 2
    assert cut[1].endswith("END;\n")
