"""The store: what is read back, in what order, by which filters; what verdicts come to."""

import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from review_stores import CLASSES, built, labelled, opened, texts

from icelens.errors import FileError, InputError, MissingFileError
from icelens.review.filters import STATES, Filters
from icelens.review.store import Judgement, Store


@pytest.fixture
def store(tmp_path):
    with opened(tmp_path)[0] as store:
        yield store


@pytest.fixture
def keys():
    numbers = iter(range(10**6))
    return lambda: f"key {next(numbers)}"


def judge(store, index, verdict="keep", label=None, *, who="ann", key=None):
    key = key or f"{who} {len(store.history())}"
    return store.judge(index, verdict, label=label, who=who, key=key)


def indices(examples):
    return [example.index for example in examples]


def passes(row, state, filters, text):
    """Whether a row of the audit's table passes, said once more in plain Python."""
    asked = {
        "label": filters.label in (None, row["label"]),
        "guess": filters.guess in (None, row["guess"]),
        "kind": filters.kind in (None, row["kind"]),
        "issues": row["is_issue"] or not filters.issues,
        "query": all(word in f"{row['id']} {text}" for word in filters.query.split()),
    }
    standing = {"all": True, "open": state is None, "reviewed": state is not None}
    return all(asked.values()) and standing.get(filters.state, state == filters.state)


ASKED = [
    Filters(label=label, guess=guess, kind=kind, issues=issues, state=state, query=query)
    for label, guess, kind, issues, state, query in product(
        (None, "cat"), (None, "dog"), (None, "ambiguous"), (False, True), STATES, ("", "purrs the")
    )
]


@pytest.mark.parametrize(("reordered", "few"), [(False, 1000), (True, 1000), (False, 10), (True, 10)])
def test_every_filter_lists_what_it_says_in_order(tmp_path, monkeypatch, reordered, few):
    monkeypatch.setattr("icelens.review.filters.FEW", few)
    data = texts(100)
    store, table = opened(tmp_path, data)
    order = np.argsort(table["trust"].to_numpy(), kind="stable")
    if reordered:
        head = np.random.default_rng(1).permutation(order[:75])
        store.set_order(head, np.linspace(0, 1, 75))
        order = np.concatenate([head, order[75:]])
    said = {int(row): ("keep", "relabel", "drop", "unsure")[row % 4] for row in order[:60:2]}
    said = {row: "keep" if v == "relabel" and table["label"][row] == "owl" else v for row, v in said.items()}
    for row, verdict in said.items():
        judge(store, row, verdict, "owl" if verdict == "relabel" else None)
    assert len(ASKED) == 224
    rows = table.to_dict("index")
    for filters in ASKED:
        wanted = [
            row for row in order.tolist()
            if passes(rows[row], said.get(row), filters, data.inputs[row][0])
        ]  # fmt: skip
        found, after = [], None
        while page := store.page(filters, after=after, limit=7):
            found += indices(page)
            after = page[-1].rank
        assert found == wanted, filters
    store.close()


def test_an_example_holds_what_was_audited_and_what_is_shown_beside_it(tmp_path):
    data = texts()
    store, table = opened(tmp_path, data)
    first = store.page(limit=1)[0]
    row = table.loc[first.index]
    assert (first.id, first.label, first.guess) == (row["id"], row["label"], row["guess"])
    assert (first.kind, first.is_issue, first.rank) == (row["kind"], row["is_issue"], 0)
    assert first.trust == row["trust"]
    assert first.confidence == pytest.approx(row["confidence"])
    assert first.content.texts == data.inputs[first.index]
    assert first.top == (("dog", 0.75), ("cat", 0.25))
    assert all(0 <= near < 40 for near in first.near_label + first.near_guess)
    assert store.page()[-1].top == ()
    assert (store.name, store.kind, store.classes, len(store)) == ("pets", "text", CLASSES, 40)
    assert store.counts == (40, int(table["is_issue"].sum()))
    assert store.examples([3, 0])[1] == store.example(0)


def test_the_newest_verdict_counts_and_undo_brings_the_one_before_it_back(store):
    judge(store, 5, "drop")
    newest = judge(store, 5, "unsure", who="bob")
    assert store.example(5).verdict == newest
    assert store.undo(who="ann", key="u1", index=5) == newest  # of the example, whoever gave it
    assert store.example(5).verdict.verdict == "drop"
    assert store.undo(who="bob", key="u2") is None  # his only one is taken back
    assert store.undo(who="ann", key="u3").verdict == "drop"
    assert store.example(5).verdict is None
    assert store.verdicts() == []
    assert [entry.verdict for entry in store.history(5)] == ["drop", "unsure", "undo", "undo"]
    assert [entry.takes_back for entry in store.history(5)] == [None, None, 2, 1]


def test_undo_of_a_person_leaves_what_others_said(store):
    judge(store, 1, "drop", who="ann")
    judge(store, 1, "keep", who="bob")
    assert store.undo(who="ann", key="u").index == 1
    assert store.example(1).verdict.who == "bob"


def test_undo_of_a_key_takes_back_that_verdict_and_no_other(store):
    first = judge(store, 1, "drop", key="first")
    second = judge(store, 1, "keep", key="second")
    assert store.undo(who="ann", key="u1", of="first") == first
    assert store.example(1).verdict == second
    assert store.undo(who="ann", key="u1", of="first") == first  # the same click
    assert store.undo(who="ann", key="u2", of="first") is None  # another: taken back already
    assert store.undo(who="ann", key="u3", of="unknown") is None
    assert store.undo(who="ann", key="u4", of="u1") is None  # no verdict
    assert len(store.history()) == 3
    with pytest.raises(InputError, match="not both"):
        store.undo(who="ann", key="u5", of="second", index=1)


def test_a_key_writes_once(store):
    first = store.judge(2, "drop", who="ann", key="k")
    judge(store, 2, "keep")
    assert store.judge(2, "drop", who="ann", key="k") == first
    assert store.example(2).verdict.verdict == "keep"
    taken = store.undo(who="ann", key="u")
    assert store.undo(who="ann", key="u") == taken
    assert len(store.history()) == 3
    for other in ({"index": 3}, {"verdict": "keep"}, {"who": "bob"}, {"verdict": "relabel", "label": "new"}):
        call = {"index": 2, "verdict": "drop", "who": "ann", "key": "k", **other}
        with pytest.raises(InputError, match="the key 'k' was used for another verdict"):
            store.judge(**call)
    one, other = (name for name in CLASSES if name != store.example(4).label)
    store.judge(4, "relabel", label=one, who="ann", key="r")
    with pytest.raises(InputError, match="used for another"):
        store.judge(4, "relabel", label=other, who="ann", key="r")
    with pytest.raises(InputError, match="used for another"):
        store.undo(who="ann", key="k")
    with pytest.raises(InputError, match="used for another"):
        store.judge(2, "drop", who="ann", key="u")


def test_a_relabel_names_a_class_or_says_that_it_is_new(store):
    example = store.example(0)
    other = next(name for name in CLASSES if name != example.label)
    assert judge(store, 0, "relabel", other).label == other
    assert judge(store, 0, "relabel", example.label).verdict == "keep"
    with pytest.raises(InputError, match="unknown class 'dgo'; did you mean 'dog'"):
        judge(store, 0, "relabel", "dgo")
    assert store.judge(0, "relabel", label="<b>fox", who="ann", key="n", new_class=True).label == "<b>fox"
    assert judge(store, 1, "relabel", "<b>fox").label == "<b>fox"  # known from now on
    assert store.new_classes() == ("<b>fox",)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"index": 40}, "no example 40; indices are 0 to 39"),
        ({"index": -1}, "no example -1"),
        ({"index": "1"}, "no example '1'"),
        ({"index": True}, "no example True"),
        ({"verdict": "kept"}, "unknown verdict 'kept'; did you mean 'keep'"),
        ({"verdict": "undo"}, "unknown verdict 'undo'"),
        ({"verdict": "relabel"}, "relabel needs the label"),
        ({"label": "cat"}, "a label is given with relabel alone"),
        ({"verdict": "relabel", "label": "two\nlines", "new_class": True}, "label must be one line"),
        ({"verdict": "relabel", "label": " ", "new_class": True}, "label must be a text of 1 to 200"),
        ({"verdict": "relabel", "label": "x" * 201, "new_class": True}, "label must be a text of 1 to 200"),
        ({"who": ""}, "who must be a text"),
        ({"who": "a\ud800"}, "who must be one line"),
        ({"key": 7}, "key must be a text"),
    ],
)
def test_what_cannot_be_a_verdict_is_refused_and_leaves_nothing(store, call, message):
    with pytest.raises(InputError, match=message):
        store.judge(**{"index": 0, "verdict": "keep", "who": "ann", "key": "k", **call})
    assert store.history() == []


def test_a_class_of_the_data_may_be_named_in_any_way(tmp_path):
    data = labelled("text", [("a",), ("b",)], [0, 1], classes=("tab\there", "x" * 300))
    with opened(tmp_path, data)[0] as store:
        assert judge(store, 0, "relabel", "x" * 300).label == "x" * 300
        assert judge(store, 1, "relabel", "tab\there").label == "tab\there"


def test_many_verdicts_are_given_together_or_not_at_all(store):
    asked = [Judgement(row, "drop", f"k{row}") for row in range(10)]
    with pytest.raises(InputError, match="no example 99"):
        store.judge_all([*asked, Judgement(99, "drop", "k")], who="ann")
    assert store.history() == []
    assert store.judge_all(asked, who="ann") == store.judge_all(asked, who="ann") == store.verdicts()


def test_progress_counts_by_filter_and_expects_what_trust_says(tmp_path):
    store, table = opened(tmp_path)
    judge(store, 0, "drop")
    judge(store, 1, "unsure")
    judge(store, 2, "relabel", next(name for name in CLASSES if name != table["label"][2]))
    judge(store, 3)
    judge(store, 3, "drop")
    whole = store.progress()
    assert (whole.total, whole.reviewed, whole.open, whole.wrong) == (40, 4, 36, 3)
    assert (whole.kept, whole.relabelled, whole.dropped, whole.unsure) == (0, 1, 2, 1)
    assert whole.expected == pytest.approx((1 - table["trust"][4:]).sum())
    cats = store.progress(Filters(label="cat", issues=True, query="nothing", state="drop"))
    chosen = table[(table["label"] == "cat") & table["is_issue"]]
    assert cats.total == len(chosen)
    assert cats.reviewed == (chosen.index < 4).sum()
    assert cats.expected == pytest.approx((1 - chosen["trust"][chosen.index >= 4]).sum())
    store.undo(who="ann", key="u")
    assert store.progress().kept == 1


def test_a_new_order_moves_some_and_leaves_the_rest(tmp_path):
    store, table = opened(tmp_path)
    before = indices(store.page(limit=40))
    judge(store, before[0], "drop")
    moved = [before[9], before[2], before[5]]
    store.set_order(np.array(moved), np.array([0.0, 0.5, 1.0]))
    after = store.page(limit=40)
    expected = list(before)
    expected[2], expected[5], expected[9] = moved
    assert indices(after) == expected
    assert [example.rank for example in after] == list(range(40))
    assert store.example(moved[1]).trust == 0.5
    trust = table["trust"].copy()
    trust[moved] = [0.0, 0.5, 1.0]
    still = table.index != before[0]
    assert store.progress().expected == pytest.approx((1 - trust[still]).sum())
    assert store.order_version == 1
    with Store(store.path) as other:
        assert indices(other.page(limit=40)) == expected
        other.set_order(before, np.zeros(40))
    assert indices(store.page(limit=40)) == before


@pytest.mark.parametrize(
    ("index", "trust", "message"),
    [
        ([1, 1], [0.1, 0.2], "twice"),
        ([1], [0.1, 0.2], "a trust for each"),
        ([40], [0.1], "rows must lie from 0 to 39"),
        ([1], [float("nan")], r"trust must lie in \[0, 1\]"),
        ([1.0], [0.1], "an order is rows"),
    ],
)
def test_an_order_that_is_none_is_refused(store, index, trust, message):
    with pytest.raises(InputError, match=message):
        store.set_order(np.array(index), np.array(trust))
    assert store.order_version == 0


@pytest.mark.parametrize(
    "query",
    ['"', "' OR 1=1 --", "words : purrs", "NEAR(purrs the)", "purrs*", "^purrs", "-", "* ( ) { }", "\0",
     "a" * 5000, "); DROP TABLE verdicts; --", "facets : l0", "l0", "issue", "purrs AND NOT the",
     'x"OR"purrs', '"purrs"x"', "half \ud83d"],
)  # fmt: skip
def test_words_of_a_search_are_words_and_nothing_else(store, query):
    judge(store, 0)
    found = store.page(Filters(query=query))
    clean = query.replace("*", "").replace("^", "").split()
    texts_of = {example.index: f"{example.id} {example.content.texts[0]}" for example in store.page()}
    if clean == ["purrs"]:
        assert found
        assert all("purrs" in texts_of[example.index] for example in found)
    else:
        assert found == []
    assert len(store.verdicts()) == 1


def test_search_among_the_reviewed_finds_the_last_of_the_list(store):
    last = store.page(limit=40)[-1]
    judge(store, last.index, "unsure")
    for state in ("reviewed", "unsure"):
        assert indices(store.page(Filters(query=last.id, state=state))) == [last.index]
    assert store.page(Filters(query=last.id, state="open")) == []


def test_what_is_written_is_on_the_disk_before_it_is_told(store):
    pragma = {name: store._database.connection.execute(f"PRAGMA {name}").fetchone()[0]
              for name in ("synchronous", "journal_mode", "foreign_keys")}  # fmt: skip
    assert pragma == {"synchronous": 2, "journal_mode": "wal", "foreign_keys": 1}


def test_search_finds_ids_accents_and_words_of_scripts_without_spaces(tmp_path):
    inputs = [("Crème brûlée",), ("我住在東京都",), ("don't panic",), ("plain",)]
    data = labelled("text", inputs, [0, 1, 2, 0], ids=["a/b-1.png", "x", "y", "z"])
    with opened(tmp_path, data)[0] as store:
        for query, row in (
            ("creme", 0),
            ("東京", 1),
            ("京都", 1),
            ("don't", 2),
            ("b-1.png", 0),
            ("PLAIN", 3),
        ):
            assert indices(store.page(Filters(query=query))) == [row], query
        assert store.page(Filters(query="京東")) == []


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ({"kind": "odd"}, "unknown kind 'odd'"),
        ({"state": "done"}, "unknown state 'done'"),
        ({"label": "cot"}, "unknown class 'cot'; did you mean 'cat'"),
        ({"guess": "'; --"}, "unknown class"),
    ],
)
def test_a_filter_that_is_none_is_refused(store, filters, message):
    with pytest.raises(InputError, match=message):
        store.page(Filters(**filters))


def test_a_page_has_a_size(store):
    with pytest.raises(InputError, match="limit must lie from 1 to 1000, got 0"):
        store.page(limit=0)


def test_verdicts_cannot_be_changed_or_removed_by_anyone(store):
    judge(store, 0)
    other = sqlite3.connect(store.path)
    rest = """ "index", 'drop', label, takes_back, who, at, key FROM verdicts"""
    for statement in (
        "UPDATE verdicts SET verdict = 'drop'",
        "DELETE FROM verdicts",
        f"REPLACE INTO verdicts SELECT number, {rest}",
        f"REPLACE INTO verdicts SELECT NULL, {rest}",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="verdicts are never"):
            other.execute(statement)
    other.close()
    assert store.example(0).verdict.verdict == "keep"


def test_threads_with_one_store_or_several_lose_and_double_nothing(tmp_path):
    path, _ = built(tmp_path)
    shared, returned, errors = Store(path), [], []

    def work(number):
        store = shared if number % 2 else Store(path)
        try:
            for turn in range(15):
                if turn % 5 == 4:
                    store.undo(who=f"w{number}", key=f"u {number} {turn}")
                elif turn % 5 == 3:
                    store.set_order(np.random.default_rng(turn).permutation(20), np.linspace(0, 1, 20))
                else:
                    key = f"{number} {turn}"
                    returned.append(
                        (key, store.judge((number + turn) % 40, "drop", who=f"w{number}", key=key))
                    )
                    with pytest.raises(InputError):  # one that fails takes no other with it
                        store.judge(99, "drop", who=f"w{number}", key=key)
                store.page(Filters(state="open"), limit=5)
        except BaseException as error:
            errors.append(error)
        finally:
            if store is not shared:
                store.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    entries = {entry.number: entry for entry in shared.history()}
    assert len(entries) == 8 * (9 + 3)
    for _, verdict in returned:
        entry = entries[verdict.number]
        assert (entry.index, entry.verdict, entry.who) == (verdict.index, "drop", verdict.who)
    whole = shared.progress()
    assert whole.dropped == whole.reviewed == len(shared.verdicts())
    trusts = [example.trust for example in shared.page(Filters(state="open"))]
    assert whole.expected == pytest.approx(sum(1 - trust for trust in trusts))
    shared.close()


def test_the_server_needs_neither_torch_nor_pandas(tmp_path):
    path, _ = built(tmp_path)
    code = (
        "import sys; from icelens.review.store import Store, Filters\n"
        f"store = Store({str(path)!r}); store.judge(1, 'drop', who='a', key='k'); store.page(Filters())\n"
        "store.close()\n"
        "heavy = {'torch', 'pandas', 'sklearn', 'scipy', 'pyarrow', 'PIL'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_folder_without_a_store_says_so(tmp_path):
    with pytest.raises(MissingFileError, match="no such file; run icelens review"):
        Store(tmp_path / "review.sqlite")
    with pytest.raises(MissingFileError):
        Store(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a database at all, but a text of some length" * 99])
def test_a_file_that_is_no_store_says_so(tmp_path, content):
    path = tmp_path / "review.sqlite"
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"review.sqlite: (damaged|not a store of reviews)"):
        Store(path)
    assert path.read_bytes() == content


def test_a_damaged_store_says_so(tmp_path):
    path, _ = built(tmp_path, texts(400))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(FileError, match=r"damaged .*; put back a copy, or remove it"):
        Store(path)


def test_a_full_disk_is_told_and_nothing_is_half_written(store):
    judge(store, 0)
    connection = store._database.connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    rows = [Judgement(row, "relabel", f"{row} {'x' * 150}", "y" * 199) for row in range(40)]
    with pytest.raises(FileError, match="the disk is full; make room and try again; nothing was written"):
        store.judge_all(rows, who="z" * 200, new_class=True)
    connection.execute("PRAGMA max_page_count = 1000000")
    assert len(store.history()) == 1
    assert store.judge_all(rows, who="z" * 200, new_class=True) == store.verdicts()


def test_a_store_that_may_not_be_written_to_says_so(store):
    store._database.connection.execute("PRAGMA query_only = ON")
    with pytest.raises(FileError, match="cannot be written to; check the rights"):
        judge(store, 0)


def test_a_store_that_another_program_keeps_is_waited_for_and_then_told(store, monkeypatch):
    monkeypatch.setattr("icelens.review.database.PATIENCE", 0.05)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(FileError, match="another program has kept it locked"):
        judge(store, 0)
    other.execute("ROLLBACK")
    other.close()
    assert judge(store, 0).number == 1


def test_filters_are_values():
    assert replace(Filters(), label="cat") == Filters(label="cat")
