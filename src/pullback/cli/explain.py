"""`pullback explain`: the way of the gradient of one function or model, in the terminal or as a page."""

import functools
from pathlib import Path
from typing import Annotated, Any

import typer

from pullback.cli import Command as Plain
from pullback.cli.status import Status


class Command(Plain):
    """Takes `--json` with a file and without one, which typer has no option for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """`--json` prints unless the name of a JSON file follows: what follows may be the target as well."""
        following = [*args[1:], ""]
        return super().parse_args(
            ctx,
            [
                "--json=-" if arg == "--json" and not _is_json(after) else arg
                for arg, after in zip(args, following, strict=True)
            ],
        )


def _is_json(name: str) -> bool:
    return name == "-" or name.endswith(".json")


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
    json: Annotated[
        str | None,
        typer.Option(help="Write the data to this .json file; - or nothing prints them."),
    ] = None,
) -> None:
    """Explain the gradient of TARGET: 0 all is well, 1 one is missing, zero or not finite, 2 it did not run."""
    from rich.padding import Padding
    from rich.text import Text

    from pullback.cli.calls import NotRun, refuse, run_target
    from pullback.cli.inputs import NAME
    from pullback.cli.outputs import STDOUT, unwritable, write
    from pullback.cli.target import split
    from pullback.cli.terminal import console
    from pullback.explain.residuals import with_residuals
    from pullback.explain.views.files import flow_json
    from pullback.explain.views.findings import findings
    from pullback.explain.views.page import flow_page
    from pullback.explain.views.terminal import print_lines

    page = html and html.with_suffix(html.suffix or ".html")
    try:
        if reason := unwritable({"--html": page, "--json": json}, [split(target)[0]]):
            raise NotRun(reason)
        flow, arguments = run_target(target, functools.partial(_explained, wrt), inputs or ())
    except NotRun as error:
        refuse(target, error)
        raise typer.Exit(Status.UNDECIDED) from error
    if page is not None:
        write(page, flow_page(with_residuals(flow)))
    if json:
        write(json, flow_json(flow))
    if json != STDOUT:
        others = f"tried with {arguments}; {NAME} or --input gives others"
        last = [Padding(Text(others, style="dim"), (0, 0, 0, 2))] if arguments else []
        print_lines(console(), flow, *last)
    raise typer.Exit(Status.FINE if findings(flow).all_is_well else Status.WRONG)


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
