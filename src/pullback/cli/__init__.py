"""The `pullback` command."""

import importlib.util

import typer

from pullback.cli.tour import tour

app = typer.Typer(
    name="pullback",
    help="Change any gradient. Know it is the one you meant.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command()(tour)

if importlib.util.find_spec("pullback.cli.check") is not None:
    app.command()(importlib.import_module("pullback.cli.check").check)


@app.callback()
def root() -> None:
    """Change any gradient. Know it is the one you meant."""


def main() -> None:
    """Run the command line."""
    app()
