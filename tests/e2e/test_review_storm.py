"""What the page was told is stored is never lost, whenever the server is killed, whoever else writes."""

import random
import secrets
import socket
import sqlite3
import threading
import time
from collections import Counter
from contextlib import closing

import pytest
from review_runs import Server, plain_run, wait_for

from icelens.errors import IcelensError
from icelens.review.store import Store

CLIENTS = 4


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def stored(folder):
    """What lies in the file, by the key of the click."""
    with closing(sqlite3.connect(folder / "review.sqlite")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return connection.execute('SELECT key, "index", verdict FROM verdicts').fetchall()


class Storm:
    """Clients that judge without a pause and, like the page, send again what was not confirmed."""

    def __init__(self, folder):
        self.folder, self.server, self.over = folder, None, threading.Event()
        self.confirmed, self.lost_answers, self.errors = {}, 0, []
        self.threads = [threading.Thread(target=self._click, args=(seed,)) for seed in range(CLIENTS)]
        self.threads.append(threading.Thread(target=self._write_beside))
        for thread in self.threads:
            thread.start()

    def _click(self, seed):
        draw = random.Random(seed)
        while not self.over.is_set():
            fields = {"index": draw.randrange(200), "verdict": draw.choice(["keep", "drop", "unsure"]),
                      "key": f"{seed}-{secrets.token_hex(8)}"}  # fmt: skip
            while not self.over.is_set() and not self._send(fields):
                time.sleep(0.01)

    def _send(self, fields):
        server = self.server
        if server is None:
            return False
        try:
            status, _, body = server.post("/verdict", fields)
        except (OSError, AssertionError, KeyError, TypeError, ValueError):  # killed before or amid its answer
            self.lost_answers += 1
            return False
        except Exception as error:
            if "http.client" not in type(error).__module__:
                raise
            self.lost_answers += 1
            return False
        if status == 200:
            self.confirmed[fields["key"]] = (fields["index"], fields["verdict"])
        elif status != 403:  # the cookie is of the server before
            self.errors.append((status, body))
        return status == 200

    def _write_beside(self):
        """Another process of the user's that writes to the same file."""
        with Store(self.folder) as store:
            for number in range(100_000):
                if self.over.is_set():
                    return
                key = f"beside-{number}"
                try:
                    store.judge(number % 200, "keep", who="another", key=key)
                except IcelensError as error:
                    self.errors.append(error)
                self.confirmed[key] = (number % 200, "keep")
                time.sleep(0.005)

    @property
    def clicks(self):
        """Verdicts that the server has confirmed."""
        return sum(not key.startswith("beside") for key in list(self.confirmed))

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


def run_storm(folder, kills):
    plain_run(folder)
    port, draw = free_port(), random.Random(0)
    storm = Storm(folder)
    try:
        for _ in range(kills):
            with Server(folder, port=port) as server:
                check(folder, dict(storm.confirmed))
                assert server.cookie  # the clients share it, and what the page says of the review
                assert server.run
                before, storm.server = storm.clicks, server
                wait_for(lambda before=before: storm.clicks >= before + 10, 60)
                time.sleep(draw.uniform(0, 0.1))
                storm.server = None
                server.kill()
            check(folder, dict(storm.confirmed))
    finally:
        storm.end()
    check(folder, storm.confirmed)
    check_standing(folder)
    assert storm.errors == []
    return storm


def check(folder, confirmed):
    """Every verdict that was confirmed is there as it was given, and none twice."""
    rows = stored(folder)
    assert max(Counter(key for key, _, _ in rows).values(), default=1) == 1
    there = {key: (index, verdict) for key, index, verdict in rows}
    missing = {key: given for key, given in confirmed.items() if there.get(key) != given}
    assert missing == {}


def check_standing(folder):
    """What counts, and the counts, are what the rows come to."""
    newest = {index: verdict for _, index, verdict in stored(folder)}
    with Store(folder) as store:
        assert {one.index: one.verdict for one in store.verdicts()} == newest
        assert store.progress().reviewed == len(newest)


def test_five_kills_in_a_storm_of_verdicts(tmp_path):
    storm = run_storm(tmp_path / "run", 5)
    assert storm.clicks >= 50


@pytest.mark.slow
def test_fifty_kills_in_a_storm_of_verdicts(tmp_path):
    storm = run_storm(tmp_path / "run", 50)
    print(f"{storm.clicks} clicks confirmed, {len(storm.confirmed) - storm.clicks} by another writer, "
          f"{storm.lost_answers} answers lost")  # fmt: skip
    assert storm.lost_answers > 20
    assert storm.clicks >= 500
