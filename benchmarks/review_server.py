"""The review server at a million examples: the first page, verdicts of 8 clients at once, and its memory.

    python benchmarks/review_server.py > results/review_server_cpu.txt

Texts are made up; the store is built as `icelens review` builds it. Every client is a process that keeps
its connection open, judges examples of the head of the list as fast as it is answered, and after every
verdict asks for the next example, as the page does; before that, at the pace of people in haste, two verdicts
a second. Times are the client's, from the first byte sent to the last one read.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import os
import platform
import re
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import numpy as np
import pandas as pd

from icelens.auditing.folder import AuditFolder
from icelens.auditing.result import AMBIGUOUS, MISLABELLED, Audit, Estimate
from icelens.data.labelled import Labelled
from icelens.review.build import build_store

CLASSES = tuple(f"class {number}" for number in range(20))
SUSPECTS = 20_000  # for which neighbours are kept
ISSUES = 0.05


def made_up(examples: int) -> tuple[Audit, Labelled]:
    """Texts of a few words, 5 % of them issues."""
    draw = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(5000)])
    chosen = words[draw.zipf(1.3, (examples, 12)) % len(words)]
    labels = draw.integers(0, len(CLASSES), examples)
    trust = draw.beta(8, 1, examples)
    issues = draw.random(examples) < ISSUES
    trust[issues] = draw.beta(1, 8, issues.sum())
    guess = np.where(issues, (labels + draw.integers(1, len(CLASSES), examples)) % len(CLASSES), labels)
    names = pd.Index(CLASSES, dtype=object)
    ids = np.array([f"e{row:07}" for row in range(examples)], dtype=object)
    kind = np.where(issues, np.where(draw.random(examples) < 0.7, MISLABELLED, AMBIGUOUS), "")
    frame = pd.DataFrame({
        "id": ids, "index": np.arange(examples),
        "label": pd.Categorical.from_codes(labels, categories=names),
        "guess": pd.Categorical.from_codes(guess, categories=names),
        "confidence": trust.astype(np.float32), "p_label": trust, "p_guess": 1 - trust, "trust": trust,
        "kind": kind, "is_issue": issues,
    })  # fmt: skip
    wrong = float((1 - trust).sum())
    none = pd.DataFrame({"n": [1], "errors": [1.0]})
    audit = Audit(frame, Estimate(wrong, 0.9 * wrong, 1.1 * wrong), _empty("label", "guess"), _empty("label"),
                  none, history=None, about={})  # fmt: skip
    texts = [(" ".join(row),) for row in chosen]
    return audit, Labelled("text", texts, labels, CLASSES, ids, np.arange(examples), name="made up")


def _empty(*columns: str) -> pd.DataFrame:
    return pd.DataFrame(columns=[*columns, "errors", "issues"])


def build(folder: Path, examples: int) -> None:
    audit, data = made_up(examples)
    home = AuditFolder(folder)
    home.start({}, data)
    home.write(audit)
    write_aids(folder, audit)
    build_store(folder, data)


def write_aids(folder: Path, audit: Audit) -> None:
    """`review.npz` for the head of the list."""
    draw, frame = np.random.default_rng(1), audit.examples
    rows = np.argsort(frame["trust"].to_numpy(), kind="stable")[:SUSPECTS]
    label, guess = (frame[name].cat.codes.to_numpy()[rows].astype(np.int32) for name in ("label", "guess"))
    top = np.stack([guess, label, *((guess + 1 + step) % len(CLASSES) for step in range(3))], 1)
    p = np.tile(np.float32([0.7, 0.2, 0.05, 0.03, 0.02]), (len(rows), 1))
    near = draw.integers(0, len(frame), (2, len(rows), 3))
    columns = {name: frame[name].to_numpy()[rows] for name in ("trust", "confidence", "p_label", "p_guess")}
    np.savez(folder / "review.npz", rows=rows, top=top.astype(np.int32), top_p=p, near_label=near[0],
             near_guess=near[1], vectors=draw.normal(size=(len(rows), 32)).astype(np.float16),
             label=label, guess=guess, **columns)  # fmt: skip


class Client:
    """A connection that stays open, with the cookie of the review."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.origin = f"http://{parts.netloc}"
        self.connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
        self.cookie = ""
        _, headers, _ = self.ask("GET", f"/?{parts.query}")
        self.cookie = headers["set-cookie"].partition(";")[0]

    def ask(
        self, method: str, path: str, fields: dict[str, object] | None = None
    ) -> tuple[float, dict[str, str], bytes]:
        headers = {"cookie": self.cookie, "origin": self.origin, "accept": "application/json"}
        body = urlencode(fields) if fields else None
        started = time.perf_counter()
        self.connection.request(method, path, body, headers)
        answer = self.connection.getresponse()
        content = answer.read()
        seconds = time.perf_counter() - started
        if answer.status != 200:
            raise RuntimeError(f"{path}: {answer.status} {content[:200]!r}")
        return seconds, {name.lower(): value for name, value in answer.getheaders()}, content

    def page(self, path: str) -> float:
        return self.ask("GET", path)[0]


def clicks(
    address: str, run: str, head: list[int], pace: tuple[int, float], seed: int
) -> tuple[list[float], list[float]]:
    """What one client waited for its verdicts, and for the next examples."""
    verdicts, pause = pace
    client, draw, waited, loaded = Client(address), np.random.default_rng(seed), [], []
    for _ in range(verdicts):
        index = int(draw.choice(head))
        fields = {"index": index, "verdict": str(draw.choice(["keep", "drop", "guess"])), "run": run,
                  "key": secrets.token_hex(16)}  # fmt: skip
        waited.append(client.ask("POST", "/verdict", fields)[0])
        loaded.append(client.page(f"/next?part=1&from={index}&seen={index}&judged={index}"))
        time.sleep(pause * draw.uniform(0.5, 1.5))
    return waited, loaded


def start(folder: Path) -> tuple[subprocess.Popen[str], str]:
    words = ["review", str(folder), "--no-browser", "--port", "0", "--who", "benchmark"]
    process = subprocess.Popen([sys.executable, "-m", "icelens", *words], text=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(r"http://\S+", line):
            return process, found[0]
    raise RuntimeError("the server did not start")


def memory(process: subprocess.Popen[str], name: str) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(rf"{name}:\s+(\d+)", status)[1]) / 1024  # type: ignore[index]


def milliseconds(seconds: list[float]) -> str:
    p50, p90, p99 = np.quantile(np.array(seconds) * 1000, [0.5, 0.9, 0.99])
    most = 1000 * max(seconds)
    return f"median {p50:6.1f}   90 % {p90:6.1f}   99 % {p99:6.1f}   most {most:6.1f} ms   n = {len(seconds)}"


def report(found: list[tuple[list[float], list[float]]], pause: float) -> None:
    waited, loaded = ([one for of in column for one in of] for column in zip(*found, strict=True))
    rate = len(waited) * len(found) / (sum(waited) + sum(loaded) + pause * len(waited))
    pace = f"each waits {pause} s between verdicts" if pause else "without a pause"
    load = os.getloadavg()[0]  # of the machine: above the number of its processors, others were at work
    print(f"\n{len(found)} clients at once, {pace}: {rate:.0f} verdicts a second, load {load:.1f}")
    print(f"{'verdict':18} {milliseconds(waited)}\n{'next example':18} {milliseconds(loaded)}")


PAGES = {
    "list": "/", "one at a time": "/example/{index}?part=1", "next": "/next?part=1&from={index}",
    "label and guess": "/?label=3&guess=7", "all of a class": "/?label=3&state=all",
    "a common word": "/?q=word1", "two words": "/?q=word17+word4", "deep in the list": "/?after=900000",
}  # fmt: skip


def measure(folder: Path, clients: int, verdicts: int) -> None:
    process, address = start(folder)
    try:
        client = Client(address)
        first = client.page("/")
        run = re.search(rb'data-run="(\w+)"', client.ask("GET", "/")[2])[1].decode()  # type: ignore[index]
        head = [int(index) for index in re.findall(rb'data-index="(\d+)"', client.ask("GET", "/")[2])]
        print(f"first page after the start: {1000 * first:.0f} ms\n")
        for name, path in PAGES.items():
            times = [client.page(path.format(index=head[0])) for _ in range(20)]
            print(f"{name:18} {milliseconds(times)}")
        with multiprocessing.get_context("spawn").Pool(clients) as pool:
            for pause in (0.5, 0.0):
                many = verdicts // 5 if pause else verdicts
                work = [(address, run, head, (many, pause), seed) for seed in range(clients)]
                report(pool.starmap(clicks, work), pause)
        now, most = (memory(process, name) for name in ("VmRSS", "VmHWM"))
        print(f"\nmemory of the server: {now:.0f} MB, at most {most:.0f} MB")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--examples", type=int, default=1_000_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--verdicts", type=int, default=250, help="of each client")
    parser.add_argument("--folder", type=Path, help="where the store is kept, to be used again")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary) / "run"
        built = time.perf_counter()
        if not (folder / "review.sqlite").exists():
            build(folder, asked.examples)
        built, size = time.perf_counter() - built, (folder / "review.sqlite").stat().st_size / 1e6
        cores = multiprocessing.cpu_count()
        print(f"{asked.examples:,} texts, {len(CLASSES)} classes, Python {platform.python_version()}, "
              f"{cores} cores shared by server and clients")  # fmt: skip
        print(json.dumps({"store_mb": round(size), "made_and_built_s": round(built)}))
        measure(folder, asked.clients, asked.verdicts)


if __name__ == "__main__":
    main()
