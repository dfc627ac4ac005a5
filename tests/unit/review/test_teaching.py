"""What the verdicts of a store teach: who says what to the ranking, and what the page is told."""

import numpy as np
import pytest
from review_stores import opened

from icelens.review import teaching
from icelens.review.filters import Filters
from icelens.review.rerank import Evidence, Left, Reranked
from icelens.review.teaching import Teacher, worth
from icelens.review.told import Teller


def found(errors, examples=100, low=0.0, high=100.0):
    left = Left(examples, errors, low, high)
    return Reranked(np.arange(3), np.array([0.1, 0.2, 0.3]), left, left)


def evidence_of(table):
    """What an audit knows of all its examples, of which the network sees nothing."""
    table = table.sort_values("trust", kind="stable")
    signs = {name: table[name].to_numpy() for name in ("trust", "confidence", "p_label", "p_guess")}
    codes = {name: table[name].cat.codes.to_numpy(np.int32) for name in ("label", "guess")}
    return Evidence(
        table["index"].to_numpy(), **signs, **codes, vectors=np.zeros((len(table), 0), np.float16)
    )


def test_the_ranking_is_taught_every_verdict_that_stands(tmp_path, monkeypatch):
    store, _ = opened(tmp_path / "audit")
    asked = {}

    def remembered(evidence, rows, wrong, **more):
        asked.update(rows=rows.tolist(), wrong=wrong.tolist(), **{k: v.tolist() for k, v in more.items()})
        return found(50)

    monkeypatch.setattr(teaching, "read_evidence", lambda folder: folder)
    monkeypatch.setattr(teaching, "rerank", remembered)
    monkeypatch.setattr(teaching, "BATCH", 1)
    with store:
        label = store.example(5).label
        other = next(code for code, name in enumerate(store.classes) if name != label)
        store.judge(5, "relabel", label=store.classes[other], who="ann", key="1")
        store.judge(2, "keep", who="ann", key="2")
        store.judge(8, "drop", who="ann", key="3")
        store.judge(9, "unsure", who="ann", key="4")
        store.judge(11, "relabel", label="yak", who="ann", key="5", new_class=True)
        store.judge(12, "drop", who="ann", key="6")
        store.undo(who="ann", key="7")
        teller = Teller()
        Teacher(tmp_path / "audit", teller).teach(store)
        first = store.examples([0, 1, 2])
        assert [one.trust for one in first] == [0.1, 0.2, 0.3]
        assert first[0].rank < first[1].rank < first[2].rank  # the order that was found
    assert asked == {
        "rows": [5, 2, 8, 11],
        "wrong": [True, False, True, True],
        "truth": [other, -1, -1, -1],
        "unsure": [9],
    }
    assert teller.worth.startswith("Of the next 100, about 50 are wrong")


@pytest.mark.parametrize("unsure", [0, 2])
def test_verdicts_that_were_all_taken_back_rule_the_list_no_longer(tmp_path, monkeypatch, unsure):
    store, table = opened(tmp_path / "audit")
    monkeypatch.setattr(teaching, "read_evidence", lambda folder: evidence_of(table))
    with store:
        doubtful = [one.index for one in store.page(limit=14)]
        for index in doubtful[:unsure]:
            store.judge(index, "unsure", who="ann", key=f"unsure {index}")
        audited = [(one.index, one.trust) for one in store.page(Filters(state="open"))]
        for index in doubtful[4:]:
            store.judge(index, "keep", who="ann", key=f"keep {index}")
        Teacher(tmp_path / "audit", Teller()).teach(store)
        assert [(one.index, one.trust) for one in store.page(Filters(state="open"))] != audited
        for index in doubtful[4:]:
            store.undo(who="ann", key=f"undo {index}", index=index)
        teller = Teller()
        Teacher(tmp_path / "audit", teller).teach(store)  # as after a restart
        assert [(one.index, one.trust) for one in store.page(Filters(state="open"))] == audited
        assert teller.told(store)["sentence"].startswith("2 reviewed" if unsure else "About ")


def test_what_is_said_of_those_that_are_left_says_when_it_was_counted(tmp_path):
    store, _ = opened(tmp_path / "audit")
    with store:
        teller, said = Teller(), "Of the next 60, about 8 are wrong (90 % interval 4 to 12)."
        teller.worth = said
        assert teller.told(store)["worth"] == said
        store.judge(5, "drop", who="ann", key="1")
        assert teller.told(store)["worth"] == f"Before the last verdict: o{said[1:]}"
        store.judge(6, "drop", who="ann", key="2")
        assert teller.told(store)["worth"].startswith("Before the last 2 verdicts: of the next 60")


def test_going_on_is_said_to_pay_until_it_surely_does_not():
    assert not worth(found(1, high=5), verdicts=5)[1]  # too early to say
    assert worth(found(1, high=5), verdicts=50)[1]
    assert not worth(found(1, high=20), verdicts=50)[1]  # not sure enough
    assert not worth(found(20, high=30), verdicts=50)[1]
    said, enough = worth(found(0, examples=0), verdicts=50)
    assert enough
    assert said == "All suspects of the list are reviewed."
