"""`pullback explain`: the way of the gradient of one function, in the terminal or as a page."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from pullback.cli.discover import Candidate, bound, named
from pullback.cli.inputs import NAME, Call, given, tried
from pullback.cli.target import load, why_not
from pullback.errors import PullbackError
from pullback.explain.api import explain as explain_gradient
from pullback.explain.flow import Flow
from pullback.explain.views.files import flow_json
from pullback.explain.views.findings import findings

WELL, WRONG, UNKNOWN = 0, 1, 2


def explain(
    target: Annotated[str, typer.Argument(help="module:function, or file.py:function.")],
    html: Annotated[
        Path | None, typer.Option(help="Write a page to this file.", dir_okay=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the data, for programs.")] = False,
) -> None:
    """Explain the gradient of TARGET: 0 all is well, 1 one is missing, zero or not finite, 2 it did not run."""
    console = Console(highlight=False)
    try:
        flow, arguments = _recorded(target)
    except _NotRun as error:
        Console(stderr=True, highlight=False, soft_wrap=True).print(_line(target, str(error)))
        raise typer.Exit(UNKNOWN) from error
    if html is not None:
        flow.save(html.with_suffix(html.suffix or ".html"))
    if json:
        typer.echo(flow_json(flow))
    else:
        console.print(flow)
        if arguments:
            console.print(Text(f"  tried with {arguments}; {NAME} gives others", style="dim"))
    raise typer.Exit(WELL if findings(flow).all_is_well else WRONG)


class _NotRun(Exception):
    """There is no flow; the text says why."""


def _recorded(target: str) -> tuple[Flow, str]:
    """The flow, and the arguments where they were guessed."""
    try:
        module, name = load(target)
        one = named(module, name) if name else None
    except (Exception, SystemExit) as error:
        raise _NotRun(f"cannot be loaded: {why_not(error, target)}") from error
    if one is None:
        raise _NotRun("names no function: write module:function")
    try:
        call = given(module, one.name)
        return (_by_trying(one)) if call is None else (_explained(one, call), "")
    except PullbackError as error:
        raise _NotRun(str(error)) from error
    except SystemExit as error:
        raise _NotRun(f"ended the program with status {error.code}") from error


def _explained(one: Candidate, call: Call) -> Flow:
    """A method gets its instance from the inputs, or from its class."""
    args, kwargs = call
    if one.owner is not None and not (args and isinstance(args[0], one.owner)):
        one = bound(one)
    return explain_gradient(one.function, *args, kwargs=kwargs)


def _by_trying(one: Candidate) -> tuple[Flow, str]:
    first = None
    for args, kwargs in tried(bound(one).function):
        try:
            flow = _explained(one, (args, kwargs))
        except PullbackError as error:
            first = first or error
            continue
        return flow, ", ".join(map(_spec, (*args, *kwargs.values())))
    raise _NotRun(
        f"needs inputs: write {NAME} = {{{one.name!r}: (...)}} beside it. First try: {first}"
    )


def _spec(value: Any) -> str:
    shape = getattr(value, "shape", None)
    dtype = getattr(getattr(value, "dtype", None), "name", "")
    return repr(value) if shape is None else f"{dtype}{list(shape)}"


def _line(name: str, text: str) -> Text:
    return Text.assemble(("? ", "yellow"), (name, "bold"), f"  {text}")
