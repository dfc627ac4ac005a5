"""Fetch one file by HTTP: resumed where it broke off, checked, and put in place whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

from icelens import progress
from icelens.errors import DownloadError, InputError

CHUNK = 1 << 16
TOO_MANY_REQUESTS, RANGE_NOT_SATISFIABLE = 429, 416

# What a dropped or slow connection raises. URLError is named apart: HTTPError is one too.
DROPPED = (ConnectionError, TimeoutError, ssl.SSLError, http.client.HTTPException)


def fetch(
    url: str,
    path: Path,
    checksum: str | None,
    *,
    size: int | None = None,
    attempts: int = 4,
    timeout: float = 30.0,
    pause: float = 1.0,
) -> str:
    """Download a file to a path and return its checksum.

    The bytes go to `path.part`. What is there already, from a run that was cut off, is kept and the
    rest asked for by HTTP Range. The file gets its name only after its checksum was compared.

    Args:
        url: an http or https address.
        path: the file to make; its folder is made where it is missing.
        checksum: "sha256:…" or "md5:…". None trusts the first download: its sha256 is written to
            `path.sha256`, and a later download must have the same.
        size: bytes, for the progress bar until the server says so.
        attempts: how often in a row to try without getting any further.
        timeout: seconds without a byte before a connection counts as dropped.
        pause: seconds to wait before the second try; doubled before each further one.
    """
    expected = checksum or _recorded(path)
    if path.is_file():
        found = checksum_of(path, expected)
        if expected in (None, found):
            return _record(path, found, checksum)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    _download(url, part, size, timeout, (attempts, pause))
    found = checksum_of(part, expected)
    if expected not in (None, found):
        part.unlink()
        raise DownloadError(
            f"{url}: wrong checksum, expected {expected}, got {found}; the download was deleted"
        )
    part.replace(path)
    return _record(path, found, checksum)


def mirrored(url: str, mirror: str | None) -> str:
    """The address with its scheme and host replaced by those of a mirror, if there is one.

    >>> mirrored("https://example.org/glue/RTE.zip", "http://localhost:8000/data/")
    'http://localhost:8000/data/glue/RTE.zip'
    """
    if not mirror:
        return url
    if urlsplit(mirror).scheme not in ("http", "https") or not urlsplit(mirror).netloc:
        raise InputError(f"a mirror must be an http or https address, got '{mirror}'")
    return mirror.rstrip("/") + urlsplit(url).path


def checksum_of(path: Path, like: str | None = None) -> str:
    """The checksum of a file, by the algorithm of another checksum or by sha256."""
    algorithm = like.partition(":")[0] if like else "sha256"
    with path.open("rb") as file:
        return f"{algorithm}:{hashlib.file_digest(file, algorithm).hexdigest()}"


def _record_of(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _recorded(path: Path) -> str | None:
    record = _record_of(path)
    return f"sha256:{record.read_text().split()[0]}" if record.is_file() else None


def _record(path: Path, found: str, published: str | None) -> str:
    # In the format of sha256sum, so that `sha256sum -c` checks it too.
    if published is None and not _record_of(path).is_file():
        _record_of(path).write_text(f"{found.removeprefix('sha256:')}  {path.name}\n")
    return found


def _download(url: str, part: Path, size: int | None, timeout: float, retry: tuple[int, float]) -> None:
    attempts, pause = retry
    failures, reached = 0, _length(part)
    while True:
        try:
            return _receive(url, part, size, timeout)
        except (urllib.error.URLError, *DROPPED) as error:
            # A connection that brought something is a slow success, so only the fruitless ones count.
            failures = 1 if _length(part) > reached else failures + 1
            reached = max(reached, _length(part))
            if failures >= attempts or not _is_passing(error):
                raise _network_error(url, part, error) from None
            time.sleep(pause * 2 ** (failures - 1))


def _receive(url: str, part: Path, size: int | None, timeout: float) -> None:
    start = _length(part)
    request = urllib.request.Request(url, headers={"User-Agent": "icelens"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        if error.code != RANGE_NOT_SATISFIABLE or not start:
            raise
        if error.headers.get("Content-Range") == f"bytes */{start}":
            return None  # nothing is left to send: the part is the whole file
        part.unlink()  # longer than the file: it cannot be a part of it
        return _receive(url, part, size, timeout)
    with response:
        # A server that ignores Range answers 200 with the whole file.
        resumed = response.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        return _save(response, part, start if resumed else 0, size)


def _save(response: http.client.HTTPResponse, part: Path, start: int, size: int | None) -> None:
    length = response.headers.get("Content-Length")
    total = start + int(length) if length else None
    done = start
    name = part.name.removesuffix(".part")
    with (
        part.open("ab" if start else "wb") as file,
        progress.bar(name, total or size, done=start, size=True) as advance,
    ):
        while chunk := response.read(CHUNK):
            file.write(chunk)
            done += len(chunk)
            advance(len(chunk))
    # A connection cut in the middle ends like a whole one; only the count tells.
    if total is not None and done < total:
        raise ConnectionError(f"connection closed after {done} of {total} bytes")


def _length(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _is_passing(error: Exception) -> bool:
    """Whether trying again may help: not where the server answered that it will not send the file."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code >= 500 or error.code == TOO_MANY_REQUESTS
    return True


def _network_error(url: str, part: Path, error: Exception) -> DownloadError:
    message = f"cannot fetch {url}: {_reason(error)}"
    if _length(part):
        message += f"; {_length(part)} bytes are kept in {part}, the same command goes on from there"
    return DownloadError(message)


def _reason(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    cause = getattr(error, "reason", error)
    return str(getattr(cause, "strerror", None) or cause or type(cause).__name__)
