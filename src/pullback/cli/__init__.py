"""The `pullback` command."""

import logging
import os

import typer

from pullback.cli.audit import audit
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
app.command()(audit)


@app.callback()
def main_options() -> None:
    """Change any gradient. Know it is the one you meant."""
    # What TensorFlow prints on its own account stays out of our output, unless the user has asked for it.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


def main() -> None:
    """Run the command line."""
    app()
