"""The `pullback` command. Each command lies in the module of its name, which is imported when the command is run."""

import importlib
import importlib.metadata
import logging
import os
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

# What `pullback --help` says of each, in this order.
COMMANDS = {
    "tour": "Questions about gradients: stock TensorFlow, pullback, and the truth.",
    "check": "Check the custom gradients of files and modules.",
    "explain": "Show the way of a gradient: where it stops, where NaN starts, what is kept.",
    "targets": "List what an override can name in a model or function.",
    "audit": "Check the gradients of a framework itself.",
}


class _Commands(TyperGroup):
    """Commands whose modules are imported one at a time: help and completion are quick."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        stand_ins = {name: TyperCommand(name, help=about) for name, about in COMMANDS.items()}
        self.commands.update(stand_ins)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is run, or asked for its own help."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        return name, stand_in and _load(str(stand_in.name)), rest


def _load(name: str) -> Any:
    only = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
    module = importlib.import_module(f"pullback.cli.{name}")
    only.command(name, cls=getattr(module, "Command", TyperCommand))(getattr(module, name))
    return typer.main.get_command(only)


app = typer.Typer(
    name="pullback",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


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
    app(prog_name="pullback")
