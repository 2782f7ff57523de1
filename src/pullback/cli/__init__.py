"""The `pullback` command."""

import typer

from pullback.cli.check import check
from pullback.cli.tour import tour

app = typer.Typer(
    name="pullback",
    help="Change any gradient. Know it is the one you meant.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command()(tour)
app.command()(check)


def main() -> None:
    """Run the command line."""
    app()
