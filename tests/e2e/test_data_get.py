"""`icelens data get` and `ls` against a real server on this machine that behaves well, badly, or worse."""

import hashlib
import http.server
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from icelens.data import fetch, load
from icelens.data.download import mirrored
from icelens.errors import DownloadError, InputError

CONTENT = bytes(i * 7 % 251 for i in range(700_000))
SUM = "sha256:" + hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves `server.files`; `server.ranges` and `server.cuts` make it ignore Range or hang up midway."""

    def do_GET(self):
        self.server.requests.append(self.headers.get("Range"))
        body = self.server.files.get(self.path)
        if body is None or self.server.status:
            return self.send_error(self.server.status or 404)
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(asked[1]) if asked and self.server.ranges else 0
        if start >= len(body):
            return self._start(416, {"Content-Range": f"bytes */{len(body)}", "Content-Length": "0"})
        headers = {"Content-Length": str(len(body) - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
        self._start(206 if start else 200, headers)
        return self._send(body[start:])

    def _start(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _send(self, body):
        if self.server.cuts:
            self.server.cuts -= 1
            body = body[: self.server.cut_at]
        self.wfile.write(body)
        if self.server.stall:
            self.wfile.flush()
            time.sleep(self.server.stall)

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {"/dir/file.bin": CONTENT}
        self.requests: list[str | None] = []
        self.ranges, self.cuts, self.cut_at, self.status, self.stall = True, 0, 300_000, 0, 0.0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"


@pytest.fixture
def server():
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def get(server, path, checksum=SUM, **options):
    return fetch(f"{server.url}/dir/file.bin", path, checksum, **{"pause": 0.01, "timeout": 5, **options})


def test_a_file_is_fetched_once(server, tmp_path):
    path = tmp_path / "new" / "file.bin"
    assert get(server, path) == SUM
    assert path.read_bytes() == CONTENT
    assert get(server, path) == SUM
    assert server.requests == [None]
    assert [p.name for p in path.parent.iterdir()] == ["file.bin"]


def test_md5_is_compared_too(server, tmp_path):
    md5 = "md5:" + hashlib.md5(CONTENT).hexdigest()
    assert get(server, tmp_path / "file.bin", md5) == md5


def test_a_file_of_other_content_is_fetched_again(server, tmp_path):
    (tmp_path / "file.bin").write_bytes(b"old")
    get(server, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


@pytest.mark.parametrize("have", [1, 350_000, len(CONTENT) - 1])
def test_a_part_is_gone_on_with(server, tmp_path, have):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:have])
    get(server, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.requests == [f"bytes={have}-"]


def test_a_part_that_is_whole_is_not_fetched_again(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    get(server, tmp_path / "file.bin")
    assert server.requests == [f"bytes={len(CONTENT)}-"]
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_part_that_is_longer_than_the_file_is_thrown_away(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT + b"more")
    get(server, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.requests[-1] is None


def test_a_server_without_range_is_read_from_the_start(server, tmp_path):
    server.ranges = False
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:1000])
    get(server, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_dropped_connections_are_resumed(server, tmp_path):
    server.cuts, server.cut_at = 6, 100_000  # more drops than attempts, but each brings something
    get(server, tmp_path / "file.bin", attempts=2)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.requests == [None, *(f"bytes={i}00000-" for i in range(1, 7))]


def test_a_server_that_always_drops_leaves_the_part(server, tmp_path):
    server.cuts, server.ranges = 99, False
    with pytest.raises(
        DownloadError, match="connection closed after 300000 of 700000 bytes; 300000 bytes are"
    ):
        get(server, tmp_path / "file.bin", attempts=3)
    assert (tmp_path / "file.bin.part").read_bytes() == CONTENT[:300_000]
    assert not (tmp_path / "file.bin").exists()
    server.cuts, server.ranges = 0, True
    get(server, tmp_path / "file.bin")
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    assert server.requests[-1] == "bytes=300000-"


def test_a_stalled_connection_times_out_and_goes_on(server, tmp_path):
    server.cuts, server.stall = 1, 1.0
    get(server, tmp_path / "file.bin", timeout=0.2)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT
    # What lay in a buffer when the time ran out is asked for again, the rest is kept.
    assert re.fullmatch(r"bytes=(2\d{5}|300000)-", server.requests[1])


def test_wrong_bytes_are_not_kept(server, tmp_path):
    server.files["/dir/file.bin"] = wrong = CONTENT[:-1] + b"!"
    with pytest.raises(DownloadError) as caught:
        get(server, tmp_path / "file.bin")
    assert SUM in str(caught.value)
    assert hashlib.sha256(wrong).hexdigest() in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (403, 1), (500, 3), (429, 3)])
def test_a_refusal_is_told_and_only_a_passing_one_tried_again(server, tmp_path, status, tries):
    server.status = status
    with pytest.raises(DownloadError, match=rf"cannot fetch {server.url}/dir/file\.bin: HTTP {status} "):
        get(server, tmp_path / "file.bin", attempts=3)
    assert len(server.requests) == tries


def test_no_server_at_all_is_told_in_one_line(tmp_path):
    with Server() as closed:
        url = closed.url
    with pytest.raises(DownloadError, match=r"cannot fetch .*: Connection refused$"):
        fetch(f"{url}/x", tmp_path / "x", None, attempts=2, pause=0.01)


def test_without_a_published_checksum_the_first_download_is_trusted(server, tmp_path):
    path = tmp_path / "file.bin"
    assert get(server, path, None) == SUM
    assert (tmp_path / "file.bin.sha256").read_text() == f"{SUM.removeprefix('sha256:')}  file.bin\n"
    path.unlink()
    server.files["/dir/file.bin"] = b"something else"
    with pytest.raises(DownloadError, match=f"wrong checksum, expected {SUM}"):
        get(server, path, None)


def test_a_mirror_takes_the_place_of_the_host():
    assert mirrored("https://a.org/x/y.zip", None) == "https://a.org/x/y.zip"
    assert mirrored("https://a.org/x/y.zip", "http://b:80") == "http://b:80/x/y.zip"
    for bad in ("file:///etc", "b.org/data"):
        with pytest.raises(InputError, match="a mirror must be an http or https address"):
            mirrored("https://a.org/x", bad)


def icelens(*arguments, code="from icelens.cli import main; main()", **environment):
    """The command line in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


# The published files cannot be made here, so the process forgets their checksums; all else is as it is.
WITHOUT_SUMS = """
import dataclasses
from icelens.data import DATASETS
for name, source in DATASETS.items():
    remotes = tuple(dataclasses.replace(remote, checksum=None) for remote in source.remotes)
    DATASETS[name] = dataclasses.replace(source, remotes=remotes)
from icelens.cli import main
main()
"""


def zip_of_rte(folder: Path) -> bytes:
    header = "index\tsentence1\tsentence2\tlabel\n"
    with zipfile.ZipFile(folder / "made.zip", "w") as archive:
        archive.writestr("RTE/train.tsv", header + "0\tA.\tB.\tentailment\n")
        archive.writestr("RTE/dev.tsv", header + "0\tC.\tD.\tnot_entailment\n")
    return (folder / "made.zip").read_bytes()


def test_get_fetches_unpacks_and_is_quiet_the_second_time(server, tmp_path):
    server.files["/glue/data/RTE.zip"] = raw = zip_of_rte(tmp_path)
    root = tmp_path / "data"
    first = icelens("data", "get", "rte", "--root", root, code=WITHOUT_SUMS, ICELENS_DATA_MIRROR=server.url)
    assert first.returncode == 0, first.stderr
    assert first.stdout == f"rte: {root}/glue/RTE sha256:{hashlib.sha256(raw).hexdigest()}\n"
    assert load("rte", root).test.inputs == [("C.", "D.")]
    assert sorted(p.name for p in (root / "glue").iterdir()) == ["RTE", "RTE.zip.sha256"]
    again = icelens("data", "get", "rte", "--root", root, "--mirror", server.url)
    assert again.stdout == f"rte: already in {root}/glue/RTE\n"
    assert len(server.requests) == 1


def test_get_puts_lone_files_into_the_folder(server, tmp_path):
    header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    train = "\ufeff" + header + "1\t1\t2\ta\tb\n0\t3\t4\tc\td\n"
    server.files["/senteval/senteval_data/msr_paraphrase_train.txt"] = train.encode()
    server.files["/glue/data/mrpc_dev_ids.tsv"] = b"3\t4\n"
    done = icelens("data", "get", "mrpc", "--root", tmp_path, "--mirror", server.url, code=WITHOUT_SUMS)
    assert done.returncode == 0, done.stderr
    assert load("mrpc", tmp_path).test.inputs == [("c", "d")]


def test_get_refuses_bytes_that_are_not_the_published_ones(server, tmp_path):
    server.files["/glue/data/WNLI.zip"] = b"not the published archive"
    done = icelens("data", "get", "wnli", "--root", tmp_path, ICELENS_DATA_MIRROR=server.url)
    assert done.returncode == 1
    assert done.stdout == ""
    message = r"icelens: \S+WNLI\.zip: wrong checksum, expected sha256:ae0e8e.*, got sha256:.* deleted"
    assert re.fullmatch(message, done.stderr.strip())
    assert list((tmp_path / "glue").iterdir()) == []


def test_get_of_a_damaged_archive_is_an_error_of_the_file(server, tmp_path):
    server.files["/glue/data/RTE.zip"] = b"no archive"
    done = icelens("data", "get", "rte", "--root", tmp_path, "--mirror", server.url, code=WITHOUT_SUMS)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "RTE.zip: cannot be unpacked" in done.stderr


def test_get_of_digits_says_that_nothing_has_to_be_fetched(server, tmp_path):
    done = icelens("data", "get", "digits", "--root", tmp_path / "data", ICELENS_DATA_MIRROR=server.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "digits: comes with scikit-learn, nothing has to be fetched\n"
    assert server.requests == []
    assert list(tmp_path.iterdir()) == []


def test_get_tells_what_is_wrong_in_one_line(server, tmp_path):
    done = icelens("data", "get", "rte", "wnil", "--root", tmp_path, ICELENS_DATA_MIRROR=server.url)
    assert (done.returncode, done.stderr) == (2, "icelens: unknown data set 'wnil'; did you mean 'wnli'?\n")
    assert server.requests == []
    missing = icelens("data", "get", "rte", "--root", tmp_path, ICELENS_DATA_MIRROR=server.url)
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1)
    assert "RTE.zip: HTTP 404 Not Found" in missing.stderr
    (tmp_path / "file").write_text("")
    blocked = icelens("data", "get", "rte", "--root", tmp_path / "file", ICELENS_DATA_MIRROR=server.url)
    assert (blocked.returncode, blocked.stderr.count("\n")) == (2, 1)
    assert "cannot write under" in blocked.stderr


def test_ls_shows_every_data_set_and_where_it_is(tmp_path):
    folder = tmp_path / "glue" / "RTE"
    folder.mkdir(parents=True)
    (folder / "train.tsv").write_text("")
    (folder / "dev.tsv").write_text("")
    done = icelens("data", "ls", "--root", tmp_path)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()[1:]}
    assert len(rows) == 17
    assert rows["digits"][-3:] == ["1,348", "449", "scikit-learn"]
    assert rows["rte"][-3:] == ["2,490", "277", "glue/RTE"]
    assert rows["cifar100"][-3:] == ["50,000", "10,000", "-"]


@pytest.mark.parametrize("command", [["--help"], ["data", "--help"], ["data", "get", "--help"]])
def test_help_does_not_import_torch(command):
    code = (
        "import sys, atexit; atexit.register(lambda: print('torch' in sys.modules));"
        "from icelens.cli import main; main()"
    )
    done = icelens(*command, code=code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
