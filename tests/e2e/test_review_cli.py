"""`icelens review` from the shell: its first start, its end, and what it says of errors."""

import json
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from report_audits import audited
from review_runs import Server, plain_run, wait_for, write_run

from icelens.auditing.source import Source
from icelens.review.store import Store


@pytest.fixture
def audited_csv(tmp_path):
    """A file of the user's and the folder of its audit, as they are before the first review."""
    path = tmp_path / "reviews.csv"
    lines = [f"r{row},{'good' if row % 2 else 'bad'},the parcel was number {row}" for row in range(40)]
    path.write_text("\n".join(["id,label,text", *lines]) + "\n")
    source = Source(str(path), label="label", text=("text",), id="id")
    data = source.read()
    probabilities = np.tile([0.9, 0.1], (40, 1))
    return path, write_run(tmp_path / "run", audited(data, probabilities), data, build=False, source=source)


def review(*words, code):
    command = [sys.executable, "-m", "icelens", "review", "--no-browser", *map(str, words)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == code, answer.stderr
    return answer.stderr


def test_the_first_start_builds_the_store_and_the_end_says_what_is_next(audited_csv, tmp_path):
    path, folder = audited_csv
    moved = path.rename(tmp_path / "renamed.csv")
    content = moved.read_bytes()
    assert "say where it is (--data)" in review(folder, code=2)
    assert not (folder / "review.sqlite").exists()
    with Server(folder, "--data", str(moved), who="ann") as server:
        assert "the parcel was number 0" in server.page("/next?part=1&q=number+0")
        status, _, body = server.post("/verdict", {"index": 0, "verdict": "guess"})
        assert (status, json.loads(body)["verdict"]) == (200, "keep")  # it is a guess that agrees
        assert json.loads(server.post("/verdict", {"index": 1, "verdict": "guess"})[2])["badge"] == "→ bad"
        code, out, err = server.stop()
    assert code == 0, err
    assert f"http://127.0.0.1:{server.port}/?token=" in out
    assert "2 of 40 examples have a verdict, 1 of them was wrong" in out
    assert f"icelens apply {folder} --out" in out
    assert "Traceback" not in err
    with Store(folder) as store:
        assert {(one.index, one.verdict, one.label, one.who) for one in store.verdicts()} == {
            (0, "keep", None, "ann"), (1, "relabel", "bad", "ann")}  # fmt: skip
    assert moved.read_bytes() == content


def test_errors_are_plain(tmp_path):
    assert "holds no finished audit; run icelens audit first" in review(tmp_path, code=2)
    assert "nothere: no such folder; run icelens audit first" in review(tmp_path / "nothere", code=2)
    folder = plain_run(tmp_path / "run", examples=20)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} is in use" in review(folder, "--port", port, code=2)
    assert "--port must lie" in review(folder, "--port", 70000, code=2)
    assert "no address of this machine" in review(folder, "--host", "no.such.host.invalid", code=2)
    assert "198.51.100.7 is no address of this machine" in review(folder, "--host", "198.51.100.7", code=2)
    (folder / "review.sqlite").write_bytes(b"not a database" * 1000)
    message = review(folder, code=2)
    assert "review.sqlite" in message
    assert "Traceback" not in message


@pytest.mark.parametrize("who", ["ann\nlee", "  ", "x" * 201])
def test_a_name_that_no_verdict_could_be_stored_with_is_refused_at_once(audited_csv, who):
    _, folder = audited_csv
    assert "who must be" in review(folder, "--who", who, code=2)
    assert not (folder / "review.sqlite").exists()


def test_pictures_that_were_moved_after_the_first_review(tmp_path):
    images, places = tmp_path / "imgs", [f"{'ab'[row % 2]}/{row}.png" for row in range(40)]
    for row, place in enumerate(places):
        (images / place).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 6 * row).save(images / place)
    source = Source(str(images))
    data = source.read()
    folder = write_run(tmp_path / "run", audited(data, np.tile([0.9, 0.1], (40, 1))), data, source=source)
    moved = tmp_path / "moved" / "pictures"
    moved.parent.mkdir()
    images.rename(moved)
    with Server(folder) as server:
        assert server.post("/verdict", {"index": 5, "verdict": "drop"})[0] == 200
        assert server.request("GET", "/image/5/small")[0] == 404
    with Server(folder, "--data", str(moved)) as server:
        assert server.request("GET", "/image/5/small")[0] == 200
    with Server(folder) as server:
        assert server.request("GET", "/image/5/small")[0] == 200
    with Store(folder) as store:
        assert [(one.index, one.verdict) for one in store.verdicts()] == [(5, "drop")]
    assert "nowhere" in review(folder, "--data", tmp_path / "nowhere", code=2)
    Image.new("L", (8, 8), 7).save(moved / places[0])
    assert "changed since it was audited" in review(folder, "--data", moved, code=2)


def test_a_second_review_takes_another_port(tmp_path):
    one, other = (plain_run(tmp_path / name, examples=20) for name in ("one", "other"))
    with Server(one, port=None) as first, Server(other, port=None) as second:
        assert first.port != second.port
        assert first.cookie.partition("=")[0] != second.cookie.partition("=")[0]
        assert second.request("GET", "/", headers={"cookie": first.cookie}, cookie=False)[0] == 403


def test_the_browser_is_opened_at_the_address(tmp_path):
    folder, told = plain_run(tmp_path / "run", examples=20), tmp_path / "told"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {told}\n')
    browser.chmod(0o755)
    command = [sys.executable, "-m", "icelens", "review", str(folder), "--port", "0"]
    environment = {**os.environ, "BROWSER": str(browser)}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        wait_for(lambda: told.exists() and told.read_text().strip(), 20)
        process.terminate()
    assert told.read_text().startswith("http://127.0.0.1:")
    assert "/?token=" in told.read_text()


def test_verdicts_teach_the_order(tmp_path):
    """Where a pair of classes turns out to be right, its others come later; the page says what to expect."""
    folder = plain_run(tmp_path / "run", examples=200)
    with Server(folder) as server:
        before = server.page("/")
        assert "none reviewed yet" in before
        for index in range(40):
            verdict = "keep" if index % 3 == 0 else "drop"
            assert server.post("/verdict", {"index": index, "verdict": verdict})[0] == 200
        with Store(folder) as store:
            wait_for(lambda: store.order_version > 0, 20)
            left = [one.index for one in store.page(limit=60) if one.verdict is None]
        time.sleep(0.2)
        answer = json.loads(server.post("/verdict", {"index": 100, "verdict": "unsure"})[2])
    assert answer["progress"]["sentence"].startswith("41 reviewed, 26 were wrong, 1 unsure, about ")
    assert "f the next 100, about " in answer["progress"]["worth"]
    assert "90 % interval" in answer["progress"]["worth"]
    assert left != sorted(left)
