"""What others may try on a review that runs, and that it is refused."""

import io
import json
import re
import socket
import subprocess
import sys
import time
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image
from report_audits import audited, labelled
from review_runs import Server, plain_run, write_run

from icelens.review.store import Store

FORM = {"content-type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = plain_run(tmp_path_factory.mktemp("attacked") / "run")
    with Server(folder) as running:
        running.folder = folder
        yield running


@pytest.fixture(autouse=True)
def nothing_was_written(server):
    yield
    with Store(server.folder) as store:
        assert store.history() == []


def verdict(server, **headers):
    body = f"index=0&verdict=drop&key=attack&run={server.run}"
    return server.request("POST", "/verdict", body, {**FORM, **headers})


def test_without_the_token_nothing_is_answered(server):
    paths = ["/", "/?token=", "/?token=wrong", "/example/0", "/next", "/list", "/classes.json",
             "/image/0/small", "/static/review.js", "/nowhere"]  # fmt: skip
    for path in paths:
        status, headers, body = server.request("GET", path, cookie=False)
        assert (status, headers.get("set-cookie")) == (403, None), path
        assert b"text number" not in body
    name = server.cookie.partition("=")[0]
    for cookie in (f"{name}=", f"{name}=wrong", f"{name}={server.token}", "other=1", "\xff=\xff"):
        assert server.request("GET", "/", cookie=False, headers={"cookie": cookie})[0] == 403
    status, _, _ = server.post("/verdict", {"index": 0, "verdict": "drop"}, cookie=False)
    assert status == 403


def test_the_cookie_is_strict_and_not_the_token(server):
    status, headers, _ = server.request("GET", f"/?token={server.token}", cookie=False)
    assert status == 200
    cookie = headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert server.token not in headers["set-cookie"]
    assert len(server.token) >= 32


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "http://localhost.evil.example"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {},
    ],
    ids=str,
)
def test_a_form_of_another_site_changes_nothing(server, headers):
    status, _, body = verdict(server, **headers)
    assert status == 403, body
    both = {"origin": server.origin, "sec-fetch-site": "same-origin"}
    if headers:
        assert verdict(server, **{**both, **headers})[0] == 403


def test_changes_need_post(server):
    for path in ("/verdict", "/undo"):
        assert server.request("GET", f"{path}?index=0&verdict=drop&key=x&run={server.run}")[0] in (404, 405)
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        assert server.request(method, "/verdict", "", {"origin": server.origin})[0] == 405


def test_nothing_is_a_part_of_another_page(server):
    embedded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    assert server.request("GET", "/example/0", headers=embedded)[0] == 403
    framed = {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"}
    assert server.request("GET", "/", headers=framed)[0] == 403
    linked = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    status, headers, _ = server.request("GET", "/", headers=linked)
    assert status == 200
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "",
        "127.0.0.1.evil.example:{port}",
        "127.0.0.1:{port}@evil.example",
    ],
)
def test_a_name_that_was_made_to_point_here_is_refused(server, host):
    host = host.format(port=server.port)
    for path in ("/", f"/?token={server.token}"):
        status, headers, _ = server.request("GET", path, headers={"host": host})
        assert (status, headers.get("set-cookie")) == (421, None)
    for good in ("127.0.0.1", "localhost", "LOCALHOST"):
        assert server.request("GET", "/", headers={"host": f"{good}:{server.port}"})[0] == 200


PATHS = ["/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd",
         "/static/%2fetc%2fpasswd", "/static/review.js%00.png", "/image/../../etc/passwd/small",
         "/image/%2e%2e%2f%2e%2e%2fetc%2fpasswd/small", "/image//etc/passwd/small",
         "/image/0/../../../etc/passwd",
         "/image/0/huge", "/image/-1/small", "/image/999999999/small", "/image/0x1/small", "/image/1e3/small",
         "/image/٣/small", "/image/0;ls/small", "/example/../../../etc/passwd", "/example/-1", "/example/200",
         "/example/0'", "/../../etc/passwd", "//evil.example/"]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_paths_lead_nowhere(server, path):
    with socket.create_connection((server.host, server.port), timeout=10) as raw:
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nCookie: {server.cookie}\r\n"
        raw.sendall(f"{head}Connection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert int(answer.split(b" ", 2)[1]) in (400, 403, 404, 422), answer[:200]
    assert b"root:" not in answer
    assert b"import" not in answer


def test_a_body_of_a_gigabyte_is_cut_off(server):
    """By its told length before a byte is read, and without one as soon as it is too long."""
    for told in (f"Content-Length: {1 << 30}", "Transfer-Encoding: chunked", "Content-Length: -1"):
        sent, status = _pour(server, told)
        assert status in (413, 400), told
        assert sent < 16 << 20  # what buffers of the kernel took
    assert server.request("GET", "/")[0] == 200
    assert _memory(server) < 300


def test_a_request_that_only_reads_has_no_body(server):
    for told in (f"Content-Length: {1 << 30}", "Transfer-Encoding: chunked", "Content-Length: 1"):
        sent, status = _pour(server, told, method="GET")
        assert status == 413
        assert sent < 16 << 20


def _pour(server, told, method="POST"):
    """Send a body until the server has had enough: how much went off, and the answer's status."""
    block = b"x" * (1 << 20)
    if "chunked" in told:
        block = b"100000\r\n" + block + b"\r\n"
    with socket.create_connection((server.host, server.port), timeout=10) as raw:
        path = "/verdict" if method == "POST" else "/classes.json"
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: {server.origin}\r\n"
        raw.sendall(f"{head}Cookie: {server.cookie}\r\n{told}\r\n\r\n".encode())
        sent, answer = 0, b""
        raw.settimeout(0.3)
        try:
            for _ in range(1024):
                raw.sendall(block)
                sent += len(block)
        except (OSError, TimeoutError):
            pass
        raw.settimeout(5)
        try:
            answer = raw.recv(65536)
        except OSError:  # closed with bytes of ours unread: the answer may be lost on the way
            answer = b"HTTP/1.1 413 lost"
    return sent, int(answer.split(b" ", 2)[1])


def test_a_body_that_is_too_long_gets_an_answer(server):
    """What a client that waits before it sends hears."""
    for told in (f"Content-Length: {1 << 30}", "Content-Length: 65537"):
        with socket.create_connection((server.host, server.port), timeout=10) as raw:
            head = f"POST /verdict HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: {server.origin}\r\n"
            raw.sendall(f"{head}Cookie: {server.cookie}\r\n{told}\r\n\r\n".encode())
            answer = b"".join(iter(lambda: raw.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in answer.lower()


def _memory(server):
    with open(f"/proc/{server.process.pid}/status") as file:
        return int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) / 1024


def test_a_long_address_or_header_is_refused(server):
    assert server.request("GET", f"/?q={'x' * 500}")[0] == 422
    for request in (f"GET /?q={'x' * 100_000} HTTP/1.1\r\n", f"GET / HTTP/1.1\r\nX: {'x' * 100_000}\r\n"):
        with socket.create_connection((server.host, server.port), timeout=10) as raw:
            raw.sendall(f"{request}Host: 127.0.0.1:{server.port}\r\nCookie: {server.cookie}\r\n\r\n".encode())
            assert raw.recv(4096).split()[1] in (b"400", b"431")


SQL = ["' OR 1=1 --", "'; DROP TABLE verdicts; --", '" OR ""="', "1 UNION SELECT value FROM about",
       "words : x", "a NEAR b", "x* OR y", "NOT z", "^", "(", '"', "\\", "%", "\x00", "𝕏", "text AND OR",
       "{words facets} : red", "facets:l0"]  # fmt: skip


@pytest.mark.parametrize("words", SQL)
def test_sql_in_search_and_filters_is_text(server, words):
    status, _, body = server.request("GET", f"/?q={quote(words)}&state=all")
    assert status == 200, body
    assert len(re.findall(rb'class="card passage item"', body)) == 0
    for name in ("label", "guess", "kind", "state", "after"):
        assert server.request("GET", f"/?{name}={quote(words)}")[0] in (422, 404), name
    for name in ("seen", "judged", "from", "order"):
        assert server.request("GET", f"/next?part=1&{name}={quote(words)}")[0] in (422, 404), name


@pytest.mark.parametrize(
    "fields",
    [
        {"index": "0", "verdict": "undo"},
        {"index": "0", "verdict": "relabel"},
        {"index": "0", "verdict": "'; DROP TABLE verdicts; --"},
        {"index": "0"},
        {"index": "-1", "verdict": "keep"},
        {"index": "200", "verdict": "keep"},
        {"index": "0 OR 1=1", "verdict": "keep"},
        {"index": "", "verdict": "keep"},
        {"index": "0", "class": "3"},
        {"index": "0", "class": "-1"},
        {"index": "0", "class": ""},
        {"index": "0", "class": "٠"},
        {"index": "0", "class": "9" * 5000},
        {"index": "0", "verdict": "keep", "filters": "label=77"},
        {"index": "0", "verdict": "keep", "filters": "&".join(["q=x"] * 30)},
        {"index": "0", "verdict": "keep", **{f"field {number}": "" for number in range(30)}},
        {"index": "0", "label": "nobody gave this class"},
        {"index": "0", "label": "  ", "new": "yes"},
        {"index": "0", "label": "x" * 5000, "new": "yes"},
        {"index": "0", "label": "two\nlines", "new": "yes"},
        {"index": "0", "verdict": "keep", "key": ""},
        {"index": "0", "verdict": "keep", "key": "k" * 5000},
    ],
    ids=lambda fields: str(fields)[:60],
)
def test_what_is_no_verdict_is_refused(server, fields):
    status, headers, body = server.post("/verdict", fields)
    assert status in (404, 422), body
    assert headers["content-type"].startswith("text/plain")


def test_every_answer_binds_the_browser(server):
    paths = ("/", "/example/0", "/next", "/nowhere", "/image/0/small", "/classes.json", "/static/review.css")
    answers = [server.request("GET", path) for path in paths]
    answers += [server.request("GET", "/", cookie=False), server.request("POST", "/verdict", "")]
    for status, headers, _ in answers:
        assert status in (200, 303, 403, 404)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers
    pages = "".join(server.page(path) for path in ("/", "/example/0", "/next?part=1", "/next?q=zzz&part=1"))
    assert not re.search(r"<script(?![^>]*src=)|<style|\sstyle=|\son\w+=|javascript:", pages)


SVG = b"""<svg xmlns="http://www.w3.org/2000/svg" onload="window.__pwned=1">
<script>window.__pwned=1</script></svg>"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Image files that were audited and changed since: links out of the folder, SVG, HTML, a damaged one."""
    home = tmp_path_factory.mktemp("pictures")
    folder, secret = home / "data", home / "secret.png"
    folder.mkdir()
    Image.new("RGB", (9, 7), "red").save(secret)
    photo = Image.new("RGB", (600, 400), "blue")
    exif = photo.getexif()
    exif[0x010E] = "where the photograph was taken"
    names = ["photo.jpg", '"><img src=x onerror=alert(1)>.png', "svg.png", "html.png", "linked.png",
             "linked_folder/secret.png", "damaged.png", "gone.png"]  # fmt: skip
    (folder / "linked_folder").mkdir()
    paths = [folder / name for name in names]
    for path in paths:
        photo.save(path, exif=exif) if path.suffix == ".jpg" else Image.new("RGB", (8, 8), "green").save(path)
    probabilities = np.tile([0.1, 0.9], (len(paths), 1))
    labels = np.zeros(len(paths), np.int64)
    data = labelled("image", paths, labels, ["<b>a</b>", "b"], ids=names)
    run = write_run(home / "run", audited(data, probabilities), data)
    paths[2].write_bytes(SVG)
    paths[3].write_bytes(b"<!doctype html><script>window.__pwned=1</script>")
    paths[4].unlink()
    paths[4].symlink_to(secret)
    paths[5].unlink()
    (folder / "linked_folder").rmdir()
    (folder / "linked_folder").symlink_to(home, target_is_directory=True)
    paths[6].write_bytes(paths[6].read_bytes()[:40])
    paths[7].unlink()
    with Server(run) as running:
        yield running


def test_pictures_are_encoded_anew_and_only_from_the_data(pictures):
    for size, width in (("small", 320), ("large", 600)):
        status, headers, body = pictures.request("GET", f"/image/0/{size}")
        assert (status, headers["content-type"]) == (200, "image/webp")
        assert b"where the photograph" not in body
        assert Image.open(io.BytesIO(body)).width == width
    status, headers, body = pictures.request("GET", "/image/1/small")
    assert (status, headers["content-type"], body[:4]) == (200, "image/png", b"\x89PNG")
    for index in range(2, 8):
        status, headers, body = pictures.request("GET", f"/image/{index}/small")
        assert (status, headers["content-type"]) == (404, "text/plain; charset=utf-8"), index
        assert b"/" not in body  # nor is it said where the files lie
    page = pictures.page("/?state=all")
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert "<img src=x" not in page
    assert "<b>a</b>" not in page


def test_other_addresses_are_asked_for_and_explained(tmp_path):
    folder = plain_run(tmp_path / "run", examples=20)
    with Server(folder, "--host", "0.0.0.0") as open_to_all:
        asked = {"host": f"192.168.7.7:{open_to_all.port}"}
        local = {"host": f"127.0.0.1:{open_to_all.port}"}
        evil = {"host": f"evil.example:{open_to_all.port}"}
        open_to_all.host, entrance = "127.0.0.1", f"/?token={open_to_all.token}"
        assert open_to_all.request("GET", entrance, headers=asked, cookie=False)[0] == 200
        assert open_to_all.request("GET", "/", headers=local, cookie=False)[0] == 403
        assert open_to_all.request("GET", entrance, headers=evil, cookie=False)[0] == 421
        _, _, err = open_to_all.stop()
    assert "whoever can reach this machine" in err
    assert "not encrypted" in err


def test_it_listens_to_this_machine_alone(server):
    with open(f"/proc/{server.process.pid}/net/tcp") as file:
        rows = [line.split() for line in file.read().splitlines()[1:]]
    listening = [row[1] for row in rows if row[3] == "0A"]
    own = [address for address in listening if address.endswith(f":{server.port:04X}")]
    assert own == [f"0100007F:{server.port:04X}"]


def test_the_server_loads_none_of_the_heavy_libraries(server):
    for path in ("/", "/next", "/image/0/small", "/example/3", "/?q=text"):
        server.request("GET", path)
    with open(f"/proc/{server.process.pid}/maps") as file:
        loaded = file.read()
    for name in ("torch", "pandas", "sklearn", "scipy", "pyarrow", "matplotlib"):
        assert f"/{name}/" not in loaded, name
    code = (
        "import sys, icelens.cli, icelens.review.app, icelens.review.server, icelens.review.prepare, json; "
        "print(json.dumps(sorted({'torch', 'pandas', 'sklearn', 'scipy', 'pyarrow'} & set(sys.modules))))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == []
    assert _memory(server) < 300


def test_a_client_that_does_not_go_on_keeps_nobody_waiting(server):
    with socket.create_connection((server.host, server.port), timeout=20) as raw:
        head = f"POST /verdict HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nOrigin: {server.origin}\r\n"
        raw.sendall(f"{head}Cookie: {server.cookie}\r\nContent-Length: 100\r\n\r\nindex=0".encode())
        started = time.monotonic()
        assert server.request("GET", "/")[0] == 200  # others are answered meanwhile
        assert time.monotonic() - started < 2
