"""The `pullback` command. Each command lies in the module of its name, which is imported when the command is run."""

import importlib
import logging
import os
import sys
import traceback
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from pullback._version import __version__
from pullback.cli import noise, terminal
from pullback.cli.status import Left, Status, end_by_signals, not_left, status_of

# What `pullback --help` says of each, in this order.
COMMANDS = {
    "tour": "Questions about gradients: stock TensorFlow, pullback, and the truth.",
    "check": "Check the custom gradients of files and modules.",
    "explain": "Show the way of a gradient: where it stops, where NaN starts, what is kept.",
    "targets": "List what an override can name in a model or function.",
    "audit": "Check the gradients of a framework itself.",
}
_FAILURE = "pullback itself failed, which says nothing of what it was to look at. Please report the lines above."


class Command(TyperCommand):
    """One command: stdout is its own while it runs."""

    def invoke(self, ctx: Any) -> Any:
        """Run it."""
        with terminal.own_streams(), not_left():
            return super().invoke(ctx)


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

    def invoke(self, ctx: Any) -> Any:
        """Run a command; what ends it otherwise than it meant has a status of its own."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(status_of(interrupt)) from interrupt
        except BrokenPipeError as error:  # nobody reads any further
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            raise typer.Exit(Status.BROKEN_PIPE) from error
        except (terminal.Unwritten, Left) as error:
            print(f"? {error}", file=sys.stderr)  # noqa: T201
            raise typer.Exit(Status.UNDECIDED) from error
        except Exception as error:
            if isinstance(error, typer.Abort) or hasattr(error, "exit_code"):
                raise  # meant, or a slip in the words of the command line
            traceback.print_exc()
            print(_FAILURE, file=sys.stderr)  # noqa: T201
            raise typer.Exit(Status.FAILED) from error


def _load(name: str) -> Any:
    only = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
    module = importlib.import_module(f"pullback.cli.{name}")
    only.command(name, cls=getattr(module, "Command", Command))(getattr(module, name))
    return typer.main.get_command(only)


app = typer.Typer(
    name="pullback",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pullback {__version__}")
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
    noise.silence()
    logging.getLogger("tensorflow").setLevel(logging.ERROR)


def main() -> None:
    """Run the command line."""
    terminal.require_streams()
    end_by_signals()
    is_silent = not noise.is_asked_for()
    terminal.filter_stderr(lambda line: not (is_silent and noise.is_noise(line)))
    try:
        app(prog_name="pullback")
    except KeyboardInterrupt as interrupt:
        sys.exit(status_of(interrupt))
    except OSError as error:  # help cannot be printed: what a command does has ended in a status
        print(f"? stdout cannot be written: {error.strerror}", file=sys.stderr)  # noqa: T201
        sys.exit(Status.UNDECIDED)
    finally:
        terminal.give_up_stdout()
