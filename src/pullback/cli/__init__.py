"""The `pullback` command."""

import importlib.metadata
import logging
import os
from typing import Annotated

import typer

from pullback.cli.check import check
from pullback.cli.explain import explain
from pullback.cli.tour import tour

app = typer.Typer(
    name="pullback",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command()(tour)
app.command()(check)
app.command()(explain)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pullback {importlib.metadata.version('pullback')}")
        raise typer.Exit


@app.callback()
def main_options(
    _: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Change any gradient. Know it is the one you meant."""
    # What TensorFlow prints on its own account stays out of our output, unless the user has asked for it.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


def main() -> None:
    """Run the command line."""
    app()
