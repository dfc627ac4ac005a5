"""Nothing that was acknowledged is lost, whenever the writer is killed."""

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from review_stores import built, texts

from icelens.review.filters import Filters
from icelens.review.store import Store

pytestmark = pytest.mark.skipif(
    not hasattr(__import__("os"), "fork"), reason="kills processes that it forked"
)


def rows_of(path):
    connection = sqlite3.connect(path)
    rows = connection.execute('SELECT key, number, "index", verdict, takes_back FROM verdicts').fetchall()
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()
    return rows


def test_twenty_kills_lose_nothing_and_double_nothing(tmp_path):
    path, _ = built(tmp_path, texts(30))
    storm = Path(__file__).parent / "storm.py"
    done = subprocess.run(
        [sys.executable, str(storm), str(path), "20"], capture_output=True, text=True, check=True, timeout=300
    )
    acknowledged = json.loads(done.stdout)
    assert len(acknowledged) >= 20
    rows = rows_of(path)
    assert Counter(row[0] for row in rows).most_common(1)[0][1] == 1
    by_key = {row[0]: row for row in rows}
    for one in acknowledged:
        _, number, index, verdict, takes_back = by_key[one["key"]]
        if one.get("undo"):
            assert (verdict, takes_back) == ("undo", one["number"])
        else:
            assert (number, index, verdict) == (one["number"], one["index"], one["verdict"])
    agrees_with_its_rows(path, rows)


def agrees_with_its_rows(path, rows):
    """What stands and what is counted is what the rows come to."""
    taken = {row[4] for row in rows}
    standing = {}
    for _, number, index, verdict, _ in sorted(rows, key=lambda row: row[1]):
        if verdict != "undo" and number not in taken:
            standing[index] = (number, verdict)
    with Store(path) as store:
        assert {v.index: (v.number, v.verdict) for v in store.verdicts()} == standing
        counts = Counter(verdict for _, verdict in standing.values())
        whole = store.progress()
        assert (whole.kept, whole.dropped, whole.unsure) == (counts["keep"], counts["drop"], counts["unsure"])
        left = store.page(Filters(state="open"))
        assert whole.expected == pytest.approx(sum(1 - example.trust for example in left))
        assert sorted(example.rank for example in store.page(limit=100)) == list(range(30))
