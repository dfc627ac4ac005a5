"""Laws of the review store: whatever is done in whatever order, it is what a list of verdicts comes to."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from review_stores import CLASSES, built, texts

from icelens.review.filters import STATES, Filters
from icelens.review.store import VERDICTS, Store

EXAMPLES = 12
rows = st.integers(0, EXAMPLES - 1)
people = st.sampled_from(["ann", "bob"])
labels = st.sampled_from([*CLASSES, "fox"])


class Reviewing(RuleBasedStateMachine):
    """Two open stores on one file beside a plain model: a list of what was said, and an order."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.stores = []

    @initialize(seed=st.integers(0, 5))
    def build(self, seed):
        self.path, self.table = built(Path(self.folder.name), texts(EXAMPLES, seed), seed=seed)
        self.stores = [Store(self.path), Store(self.path)]
        self.trust = self.table["trust"].to_numpy(float).copy()
        self.order = np.argsort(self.trust, kind="stable")
        self.said, self.calls = [], {}  # verdicts that were not taken back; calls and answers by key
        self.rows = 0

    def new_key(self):
        return f"key {len(self.calls)}"

    @rule(row=rows, verdict=st.sampled_from(VERDICTS), label=labels, who=people, at=st.integers(0, 1))
    def judge(self, row, verdict, label, who, at):
        key, named = self.new_key(), {"label": label} if verdict == "relabel" else {}
        call = {"index": row, "verdict": verdict, "who": who, "key": key, "new_class": True, **named}
        given = self.stores[at].judge(**call)
        if verdict == "relabel" and self.table["label"][row] == label:
            verdict, label = "keep", None
        assert (given.index, given.verdict, given.who) == (row, verdict, who)
        assert given.label == (label if verdict == "relabel" else None)
        self.said.append(given)
        self.calls[key] = ("judge", call, given)
        self.rows += 1

    @rule(who=people, row=st.none() | rows, at=st.integers(0, 1))
    def undo(self, who, row, at):
        call = {"who": who, "key": self.new_key(), "index": row}
        taken = self.stores[at].undo(**call)
        mine = [v for v in self.said if (v.who == who if row is None else v.index == row)]
        assert taken == (mine[-1] if mine else None)
        if taken:
            self.said.remove(taken)
            self.calls[call["key"]] = ("undo", call, taken)
            self.rows += 1

    @rule(data=st.data(), who=people, at=st.integers(0, 1))
    def undo_one(self, data, who, at):
        if self.calls:
            of = data.draw(st.sampled_from(sorted(self.calls)))
            name, _, meant = self.calls[of]
            call = {"who": who, "key": self.new_key(), "of": of}
            taken = self.stores[at].undo(**call)
            assert taken == (meant if name == "judge" and meant in self.said else None)
            if taken:
                self.said.remove(taken)
                self.calls[call["key"]] = ("undo", call, taken)
                self.rows += 1

    @rule(data=st.data(), at=st.integers(0, 1))
    def say_it_again(self, data, at):
        if self.calls:
            name, call, answer = self.calls[data.draw(st.sampled_from(sorted(self.calls)))]
            assert getattr(self.stores[at], name)(**call) == answer

    @rule(moved=st.lists(rows, unique=True), draw=st.integers(0, 9), at=st.integers(0, 1))
    def set_order(self, moved, draw, at):
        trust = np.random.default_rng(draw).random(len(moved))
        self.stores[at].set_order(np.array(moved, dtype=np.int64), trust)
        places = np.sort([np.flatnonzero(self.order == row)[0] for row in moved]).astype(int)
        self.order[places] = moved
        self.trust[moved] = trust

    @rule(at=st.integers(0, 1))
    def reopen(self, at):
        self.stores[at].close()
        self.stores[at] = Store(self.path)

    @rule(state=st.sampled_from(STATES), label=st.none() | st.sampled_from(CLASSES), issues=st.booleans(),
          after=st.none() | rows, limit=st.integers(1, 5), at=st.integers(0, 1))  # fmt: skip
    def page(self, *, state, label, issues, after, limit, at):
        standing = self.standing()
        found = self.stores[at].page(
            Filters(state=state, label=label, issues=issues), after=after, limit=limit
        )

        def passes(row):
            verdict = standing[row].verdict if row in standing else None
            fits = {"all": True, "open": verdict is None, "reviewed": verdict is not None}
            return (
                fits.get(state, verdict == state)
                and label in (None, self.table["label"][row])
                and (self.table["is_issue"][row] or not issues)
            )

        later = self.order[0 if after is None else after + 1 :].tolist()
        assert [example.index for example in found] == [row for row in later if passes(row)][:limit]

    def standing(self):
        return {verdict.index: verdict for verdict in self.said}

    @invariant()
    def what_stands_is_what_was_said(self):
        if not self.stores:
            return
        standing = self.standing()
        for store in self.stores:
            assert store.verdicts() == [standing[row] for row in sorted(standing)]
            examples = store.page(limit=EXAMPLES)
            assert [example.index for example in examples] == self.order.tolist()
            assert [example.verdict for example in examples] == [standing.get(row) for row in self.order]
            assert [example.trust for example in examples] == self.trust[self.order].tolist()

    @invariant()
    def nothing_is_lost_or_doubled_and_progress_counts_it(self):
        if not self.stores:
            return
        history = self.stores[0].history()
        assert [entry.number for entry in history] == list(range(1, self.rows + 1))
        standing = self.standing()
        for name in (None, *CLASSES):
            chosen = [row for row in range(EXAMPLES) if name in (None, self.table["label"][row])]
            told = self.stores[1].progress(Filters(label=name))
            verdicts = [standing[row].verdict for row in chosen if row in standing]
            assert told.total == len(chosen)
            counts = (told.kept, told.relabelled, told.dropped, told.unsure)
            assert counts == tuple(verdicts.count(verdict) for verdict in VERDICTS)
            left = sum(1 - self.trust[row] for row in chosen if row not in standing)
            assert told.expected == pytest.approx(left, abs=1e-9)

    def teardown(self):
        for store in self.stores:
            store.close()
        self.folder.cleanup()


def test_any_sequence_agrees_with_a_plain_model():
    run_state_machine_as_test(
        Reviewing,
        settings=settings(
            max_examples=30,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
