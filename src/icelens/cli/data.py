"""`icelens data`: list the known data sets and fetch them."""

import typer

app = typer.Typer(help="List the known data sets and fetch them.", no_args_is_help=True)


@app.command("ls")
def ls() -> None:
    """List the data sets."""
