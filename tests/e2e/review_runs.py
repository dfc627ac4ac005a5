"""Audit folders to review, the server as users start it, and a client that knows no browser's rules."""

import http.client
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from urllib.parse import urlencode, urlsplit

import numpy as np
from report_audits import audited, labelled

from icelens.auditing.folder import AuditFolder
from icelens.review.build import build_store


def write_run(folder, audit, data, *, vectors=None, probabilities=None, build=True, source=None):
    """The folder of a finished audit, with what reviewers are shown beside a suspect, and its store."""
    n = len(data)
    frame, labels = audit.examples, data.labels
    guess = frame["guess"].cat.codes.to_numpy().astype(np.int64)
    if "p_guess" not in frame:
        frame = frame.assign(p_guess=np.clip(1 - frame["p_label"], 0, 1))
    object.__setattr__(audit, "examples", frame)
    home = AuditFolder(folder)
    home.start({}, data, source)
    home.write(audit)
    order = np.argsort(frame["trust"].to_numpy(), kind="stable")
    near = {code: _trusted(labels, frame["trust"].to_numpy(), code) for code in range(len(data.classes))}
    if probabilities is None:
        probabilities = np.zeros((n, len(data.classes)))
        probabilities[np.arange(n), guess] = frame["p_guess"]
        probabilities[np.arange(n), labels] = frame["p_label"]
    shown = min(5, probabilities.shape[1])
    top = np.argsort(-probabilities[order], axis=1, kind="stable")[:, :shown]
    seen = np.random.default_rng(0).normal(size=(n, 8)) if vectors is None else vectors
    names = ("trust", "confidence", "p_label", "p_guess")
    np.savez(
        folder / "review.npz", rows=order, top=top.astype(np.int32),
        top_p=np.take_along_axis(probabilities[order], top, 1).astype(np.float32),
        near_label=np.array([near[labels[row]] for row in order]),
        near_guess=np.array([near[guess[row]] if guess[row] != labels[row] else [-1] * 3 for row in order]),
        vectors=seen[order].astype(np.float16), label=labels[order].astype(np.int32),
        guess=guess[order].astype(np.int32), **{name: frame[name].to_numpy()[order] for name in names},
    )  # fmt: skip
    if build:
        build_store(folder, data)
    return folder


def _trusted(labels, trust, code):
    own = np.flatnonzero(labels == code)
    best = own[np.argsort(-trust[own], kind="stable")][:3].tolist()
    return best + [-1] * (3 - len(best))


def plain_run(folder, examples=200, classes=("red", "green", "blue")):
    """Texts of which the first in the list are the least trusted; nothing is trained."""
    labels = np.arange(examples) % len(classes)
    probabilities = np.full((examples, len(classes)), 0.01)
    probabilities[np.arange(examples), labels] = np.linspace(0.02, 0.9, examples)
    probabilities[np.arange(examples), (labels + 1) % len(classes)] = np.linspace(0.95, 0.05, examples)
    texts = [(f"text number {row}, said to be {classes[row % len(classes)]}",) for row in range(examples)]
    data = labelled("text", texts, labels, classes, ids=[f"t{row:04}" for row in range(examples)])
    return write_run(folder, audited(data, probabilities), data, probabilities=probabilities)


class Server:
    """`icelens review` in a process of its own."""

    def __init__(self, folder, *options, port=0, who="tester"):
        words = ["review", str(folder), "--no-browser", "--who", who, *options]
        words += [] if port is None else ["--port", str(port)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "icelens", *words],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        self.said = []
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"(http://\S+)", line):
                self.address = found[1]
                break
        else:
            raise AssertionError(self.process.communicate())
        parts = urlsplit(self.address)
        self.host, self.port, self.token = parts.hostname, parts.port, parts.query.removeprefix("token=")
        self.origin = f"http://{parts.netloc}"
        self._cookie = None

    def request(self, method, path, body=None, headers=None, *, cookie=True, timeout=10):
        """Status, headers and body of an answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        sent = {"cookie": self.cookie} if cookie else {}
        try:
            connection.request(method, path, body, {**sent, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, {n.lower(): v for n, v in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def page(self, path):
        """The text of a page that must be there."""
        status, _, body = self.request("GET", path)
        assert status == 200, (path, status, body)
        return body.decode()

    @property
    def cookie(self):
        if self._cookie is None:
            _, headers, _ = self.request("GET", f"/?token={self.token}", cookie=False)
            self._cookie = headers["set-cookie"].partition(";")[0]
        return self._cookie

    @property
    def run(self):
        if not hasattr(self, "_run"):
            self._run = re.search(r'data-run="(\w+)"', self.page("/"))[1]
        return self._run

    def post(self, path, fields, headers=None, **settings):
        """A change as the page makes it."""
        fields = {"run": self.run, "key": secrets.token_hex(8), **fields}
        sent = {"origin": self.origin, "accept": "application/json",
                "content-type": "application/x-www-form-urlencoded", **(headers or {})}  # fmt: skip
        return self.request("POST", path, urlencode(fields), sent, **settings)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._close()

    def stop(self):
        """Ctrl-C; what was said on both streams."""
        self.process.send_signal(signal.SIGINT)
        out, err = self.process.communicate(timeout=20)
        return self.process.returncode, "".join(self.said) + out, err

    def _close(self):
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._close()


def wait_for(condition, seconds=10):
    """Wait until it holds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)
