"""The server of a review: started on one address, ended by Ctrl-C."""

from __future__ import annotations

import errno
import socket
import threading
import webbrowser
from collections.abc import Callable
from contextlib import suppress

from starlette.types import ASGIApp

from icelens.errors import InputError

PORT = 8421


def listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens on this address; without a port the usual one, or a free one where it is taken.

    The usual port is kept where it can be, so that a page that is still open goes on after a new start.
    """
    if port is not None and not 0 <= port <= 65535:
        raise InputError(f"--port must lie between 0 and 65535, got {port}")
    for wanted in (PORT, 0) if port is None else (port,):
        try:
            family, *_, address = socket.getaddrinfo(host, wanted, type=socket.SOCK_STREAM)[0]
            listening = socket.create_server(address[:2], family=family, backlog=128)
            # Else a short answer waits 40 ms for the client to acknowledge its head.
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return listening
        except socket.gaierror:
            raise InputError(f"no address of this machine is called '{host}' (--host)") from None
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise InputError(f"{host} is no address of this machine (--host)") from None
            if error.errno == errno.EACCES:
                raise InputError(f"port {wanted} may not be used; give one from 1024 on (--port)") from None
            if error.errno != errno.EADDRINUSE:
                raise
    raise InputError(f"port {port} is in use; give another one (--port), or none")


def serve(app: ASGIApp, listening: socket.socket, *, started: Callable[[], None]) -> None:
    """Answer requests until Ctrl-C; `started` is called when the first one would be answered."""
    import uvicorn

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            started()

    config = uvicorn.Config(
        app, loop="asyncio", http="h11", ws="none", lifespan="on", log_level="error", access_log=False,
        proxy_headers=False, server_header=False, timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=32_768,
    )  # fmt: skip
    with suppress(KeyboardInterrupt):  # raised again by uvicorn once all is ended in order
        Server(config).run(sockets=[listening])


def open_browser(address: str) -> None:
    """Open a page without waiting for the browser, which may take as long as it runs."""
    threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
