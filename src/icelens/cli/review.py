"""`icelens review`: work through the suspects of an audit in a browser."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from icelens.cli.arguments import Data, Run, login
from icelens.counts import counted, one_or_more

if TYPE_CHECKING:
    from icelens.review.security import Door


def review(
    run: Run,
    port: Annotated[
        int | None,
        typer.Option(help="8421 where left out, or a free one if that is taken.", show_default=False),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. Any but this machine's own lets others in who have the token, "
            "over a connection that is not encrypted."
        ),
    ] = "127.0.0.1",
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser",
            help="Open the page in the browser; with --no-browser, print its address and open nothing.",
        ),
    ] = True,
    who: Annotated[
        str | None,
        typer.Option(help="Whose verdicts they are; your login name where left out.", show_default=False),
    ] = None,
    data: Data = None,
) -> None:
    """Work through the suspects of an audit in a browser: keep, relabel or drop each by a key.

    For example: icelens review reviews-audit
    """
    # Learning from verdicts takes one processor, and leaves the others to the pages; read when numpy loads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from icelens.review.prepare import needs_server, prepare
    from icelens.review.verdicts import check_text

    needs_server()
    who = check_text("who", who or login("reviewer"))  # or every verdict would be refused later
    prepare(run, data)
    _serve(run, host, port, who, browser)


def _serve(run: Path, host: str, port: int | None, who: str, browser: bool) -> None:
    from icelens.review.app import create_app
    from icelens.review.desk import Desk
    from icelens.review.security import Door
    from icelens.review.server import listen, open_browser, serve

    listening = listen(host, port)
    with listening:
        door = Door(host, listening.getsockname()[1])
        desk = Desk(run, who)

        def started() -> None:
            _greet(run, door)
            if browser:
                open_browser(door.address)

        serve(create_app(desk, door), listening, started=started)
    _leave(run)


def _greet(run: Path, door: Door) -> None:
    from icelens.review.security import LOCAL

    typer.echo(f"Reviewing {run} at\n\n    {door.address}\n")
    if door.host not in LOCAL:
        typer.echo(
            f"--host {door.host}: whoever can reach this machine and has this address can read the data and "
            "judge it, and what is sent is not encrypted. Leave --host out to keep it to this machine.\n",
            err=True,
        )
    typer.echo("Every verdict is stored at once. Ctrl-C ends the server.", err=True)


def _leave(run: Path) -> None:
    from icelens.review.store import Store

    with Store(run) as store:
        progress = store.progress()
    have, were = one_or_more(progress.reviewed, "has", "have"), one_or_more(progress.wrong, "was", "were")
    typer.echo(
        f"\n{progress.reviewed:,} of {counted(progress.total, 'example')} {have} a verdict, "
        f"{progress.wrong:,} of them {were} wrong; all is stored in {run / 'review.sqlite'}."
    )
    if progress.reviewed:
        folder = shlex.quote(str(run))
        typer.echo(f"Next: icelens apply {folder} --out CLEANED writes your data with the verdicts in it.")
