"""`pullback explain`: the way of the gradient of one function or model, in the terminal or as a page."""

import functools
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

WELL, WRONG, UNKNOWN = 0, 1, 2


class Command(TyperCommand):
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
        str,
        typer.Option(help="Write the data to this .json file; - or nothing prints them."),
    ] = "",
) -> None:
    """Explain the gradient of TARGET: 0 all is well, 1 one is missing, zero or not finite, 2 it did not run."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from pullback.cli.calls import NotRun, refuse, run_target
    from pullback.cli.inputs import NAME
    from pullback.cli.outputs import unwritable
    from pullback.explain.views.files import flow_json
    from pullback.explain.views.findings import findings
    from pullback.explain.views.terminal import print_lines

    console = Console(highlight=False)
    try:
        if reason := unwritable({"--html": html, "--json": json}):
            raise NotRun(reason)
        flow, arguments = run_target(target, functools.partial(_explained, wrt), inputs or ())
    except NotRun as error:
        refuse(target, error)
        raise typer.Exit(UNKNOWN) from error
    if html is not None:
        flow.save(html.with_suffix(html.suffix or ".html"))
    if json == "-":
        typer.echo(flow_json(flow))
    else:
        if json:
            Path(json).write_text(flow_json(flow), encoding="utf-8")
        others = f"tried with {arguments}; {NAME} or --input gives others"
        last = [Padding(Text(others, style="dim"), (0, 0, 0, 2))] if arguments else []
        print_lines(console, flow, *last)
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
