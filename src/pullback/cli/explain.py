"""`pullback explain`: the way of the gradient of one function or model, in the terminal or as a page."""

import functools
from pathlib import Path
from typing import Annotated, Any

import typer

WELL, WRONG, UNKNOWN = 0, 1, 2


def explain(
    target: Annotated[
        str,
        typer.Argument(help="module:name, file.py:name, a .keras file, or a SavedModel folder."),
    ],
    wrt: Annotated[
        list[str] | None,
        typer.Option(help="Follow these inputs or variables alone; may be given several times."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", help="Dtype and shape of an argument, such as 'int32[2, 16]'."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page to this file.", dir_okay=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the data, for programs.")] = False,
) -> None:
    """Explain the gradient of TARGET: 0 all is well, 1 one is missing, zero or not finite, 2 it did not run."""
    from rich.console import Console
    from rich.text import Text

    from pullback.cli.calls import NotRun, refuse, run_target
    from pullback.cli.inputs import NAME
    from pullback.cli.outputs import unwritable
    from pullback.explain.views.files import flow_json
    from pullback.explain.views.findings import findings

    console = Console(highlight=False)
    try:
        if reason := unwritable({"--html": html}):
            raise NotRun(reason)
        flow, arguments = run_target(target, functools.partial(_explained, wrt), inputs or ())
    except NotRun as error:
        refuse(target, error)
        raise typer.Exit(UNKNOWN) from error
    if html is not None:
        flow.save(html.with_suffix(html.suffix or ".html"))
    if json:
        typer.echo(flow_json(flow))
    else:
        console.print(flow)
        if arguments:
            others = f"tried with {arguments}; {NAME} or --input gives others"
            console.print(Text(f"  {others}", style="dim"))
    raise typer.Exit(WELL if findings(flow).all_is_well else WRONG)


def _explained(wrt: Any, function: Any, call: Any, names: Any) -> Any:
    from pullback.cli.calls import NotRun
    from pullback.errors import ExplainError
    from pullback.explain.api import explain

    del names
    args, kwargs = call
    flow = explain(function, *args, kwargs=kwargs)
    try:
        return explain(function, *args, kwargs=kwargs, wrt=wrt) if wrt else flow
    except ExplainError as error:  # it runs with these arguments, so that --wrt is to blame
        raise NotRun(str(error)) from error
