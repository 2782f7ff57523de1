"""`pullback audit FRAMEWORK`: the check over everything that a framework differentiates by itself."""

from pathlib import Path
from typing import Annotated

import typer

_SECONDS = 300.0  # for one function with all its inputs


def audit(
    framework: Annotated[str, typer.Argument(help="Which framework: tensorflow.")],
    only: Annotated[
        str, typer.Option(help="A regular expression: names that contain it.", metavar="PATTERN")
    ] = "",
    jobs: Annotated[int, typer.Option("-j", "--jobs", help="How many processes.", min=1)] = 1,
    timeout: Annotated[
        float, typer.Option(help="Seconds for each function; 0 waits for ever.", min=0)
    ] = _SECONDS,
    state: Annotated[
        Path | None,
        typer.Option(
            help="A file in which results are kept: what it has already is not run again.",
            dir_okay=False,
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="The same for a file that is there already.", exists=True, dir_okay=False
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the data, for programs.")] = False,
    markdown: Annotated[
        Path | None, typer.Option(help="Write a page to this file.", dir_okay=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write a page to this file.", dir_okay=False)
    ] = None,
) -> None:
    """Check what FRAMEWORK differentiates: 0 no fault, 1 some gradients are wrong, 2 some crashed or none was run."""
    from pullback.cli.auditing import run  # only here: help need not wait for it

    raise typer.Exit(
        run(
            framework,
            only=only,
            jobs=jobs,
            timeout=timeout,
            state=state or resume,
            json=json,
            markdown=markdown,
            html=html,
        )
    )
