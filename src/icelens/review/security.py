"""Who may read and change a review: checked before a request reaches any page.

A page of another site can make a browser send requests to this machine. What it cannot do is name this
server in `Host` (unless its own name was made to point here), hold the cookie, or have the browser call the
request one of the same origin. All three are asked for.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 64 * 1024  # of a request's body: the longest is a verdict with the name of a class
LONGEST_HEAD = 16 * 1024  # of its address and headers
SLOWEST = 10.0  # seconds for it to arrive
READING = ("GET", "HEAD")
LOCAL = ("127.0.0.1", "localhost", "::1")

POLICY = (
    "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none at all a form would not say where it comes from
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

# A redirect would belong to the navigation that led here. If that came from another site, such as web mail,
# the browser would hold the strict cookie back; a page that goes on by itself starts a navigation of its own.
ENTRANCE = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>icelens review</title>'
    '<link rel="icon" href="/static/icon.png">'
    '<meta http-equiv="refresh" content="0; url=/"><p><a href="/">Go on to the review</a></p></html>'
)
CLOSED = (
    "This review is open only at the address that `icelens review` printed when it started.\n"
    "Copy the whole of it, with its token, into the browser.\n"
)


@dataclass(frozen=True)
class Door:
    """What a request must bring: the right host, and the token or the cookie that it is exchanged for.

    Args:
        host: the address that the server listens on.
        port: the port it listens on.
        token: stands in the address that the server prints, once for each start.
        session: the value of the cookie.
    """

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    session: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def cookie(self) -> str:
        """Its name; browsers share cookies between ports, so it holds the port."""
        return f"icelens_review_{self.port}"

    @property
    def address(self) -> str:
        """What to open in a browser of this machine, or for `--host` of another."""
        host = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={self.token}"

    def knows(self, host: str) -> bool:
        """Whether the `Host` of a request names this server.

        A name that some other site made to point here is not known. Any number address is: it cannot be
        made to point anywhere.
        """
        if self.port == 80 and not host.endswith(":80"):  # browsers leave it out
            host += ":80"
        name, _, port = host.rpartition(":")
        if port != str(self.port):
            return False
        name = name.removeprefix("[").removesuffix("]").lower()
        if self.host in LOCAL:
            return name in LOCAL
        return name in (self.host.lower(), "localhost", socket.gethostname().lower()) or _is_number(name)


def _is_number(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Guard:
    """Lets a request through to `app` if all is in order, and adds the headers that bind the browser."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("the review has no web sockets")
        answer = self._answer(scope) or await _too_long(scope, receive)
        # The body was read whole, so that no page can wait for the rest of it.
        app, again = (answer, receive) if isinstance(answer, Response) else (self.app, _replay(answer))
        await app(scope, again, _with_headers(send))

    def _answer(self, scope: Scope) -> Response | None:
        """What is said in the place of a page; None where the request may go on."""
        headers = Headers(scope=scope)
        refused = self._misplaced(scope, headers)
        if refused is not None:
            return refused
        if self._brings_token(scope):
            return self._exchange()
        if not self._has_cookie(headers):
            return _refused(403, CLOSED)
        if _from_elsewhere(headers, changes=scope["method"] == "POST"):
            return _refused(403, "Refused: the request was made by a page of another site.\n")
        return None

    def _misplaced(self, scope: Scope, headers: Headers) -> Response | None:
        """What is said to a request that is none for this server at all."""
        head = len(scope["raw_path"]) + len(scope["query_string"]) + sum(map(len, headers.values()))
        if head > LONGEST_HEAD:
            return _refused(431, f"The head of a request holds at most {LONGEST_HEAD} bytes.\n")
        if not self.door.knows(headers.get("host", "")):
            return _refused(421, "This address does not lead here: unknown host.\n")
        if scope["method"] not in (*READING, "POST"):
            return _refused(405, "Only GET and POST are answered.\n")
        return None

    def _brings_token(self, scope: Scope) -> bool:
        if scope["method"] != "GET" or scope["path"] != "/":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        return secrets.compare_digest(given.encode(), self.door.token.encode())

    def _has_cookie(self, headers: Headers) -> bool:
        given = cookie_parser(headers.get("cookie", "")).get(self.door.cookie, "")
        return secrets.compare_digest(given.encode("utf-8", "replace"), self.door.session.encode())

    def _exchange(self) -> Response:
        answer = HTMLResponse(ENTRANCE, headers={"cache-control": "no-store"})
        answer.set_cookie(self.door.cookie, self.door.session, httponly=True, samesite="strict")
        return answer


def _from_elsewhere(headers: Headers, *, changes: bool) -> bool:
    """Whether a page of another origin made the request; a change must say that none did."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    own = f"http://{headers.get('host', '')}".lower()
    if changes:
        wrong_site = site not in (None, "same-origin")
        return wrong_site or (origin is None and site is None) or (origin is not None and origin != own)
    # A link may lead here; nothing here may be a part of another page.
    navigation = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return site not in (None, "same-origin", "none") and not navigation


async def _too_long(scope: Scope, receive: Receive) -> Response | bytes:
    """The body of a change, or what is said of one that is too long or too slow; the rest is never read."""
    headers, most = Headers(scope=scope), MOST_BYTES if scope["method"] == "POST" else 0
    told = headers.get("content-length", "0")
    if not told.isdecimal() or int(told) > most or (not most and "transfer-encoding" in headers):
        return _refused(413, f"A request of this kind holds at most {most} bytes.\n")
    if not most:
        return b""
    try:
        return await asyncio.wait_for(_body(receive), SLOWEST)
    except TimeoutError:
        return _refused(408, "The request did not arrive in time.\n")


async def _body(receive: Receive) -> Response | bytes:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return _refused(400, "The request ended early.\n")
        parts.append(message.get("body", b""))
        size, more = size + len(parts[-1]), message.get("more_body", False)
        if size > MOST_BYTES:
            return _refused(413, f"A request holds at most {MOST_BYTES} bytes.\n")
    return b"".join(parts)


def _refused(status: int, why: str) -> Response:
    # The connection is closed, so that what is left of a body is not taken for another request.
    headers = {"cache-control": "no-store", "connection": "close"}
    return PlainTextResponse(why, status_code=status, headers=headers)


def _replay(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sending
