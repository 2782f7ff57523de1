"""`pullback check`: the custom gradients of files, folders and modules, one line each."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from pullback.errors import CheckError

if TYPE_CHECKING:
    from pullback.cli.settings import Project

_SECONDS = 300.0  # far more than any check needs, far less than a build waits


class Format(enum.StrEnum):
    """How lines are written."""

    TEXT = "text"
    GITHUB = "github"


def check(
    targets: Annotated[list[str], typer.Argument(help="Files, folders, modules, module:function.")],
    quick: Annotated[bool | None, typer.Option(help="Two points only.", show_default=False)] = None,
    order: Annotated[
        int | None, typer.Option(help="1 leaves out second derivatives.", min=1, max=2)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Start of the random numbers.", min=0)] = None,
    select: Annotated[
        str, typer.Option("-k", help="Only names with these words, joined by and, or, not.")
    ] = "",
    fail_fast: Annotated[bool, typer.Option("-x", help="Stop at the first wrong one.")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", help="Processes at a time.", min=1)
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds for each function; 0 waits for ever.", min=0)
    ] = None,
    isolate: Annotated[
        bool, typer.Option(help="Check in a process of its own, which may crash.")
    ] = True,
    full: Annotated[bool, typer.Option("--report", help="Print each report in full.")] = False,
    output: Annotated[
        Format, typer.Option("--format", help="How lines are written.")
    ] = Format.TEXT,
    json: Annotated[str, typer.Option(help="Write JSON to this file; - prints it.")] = "",
    junit: Annotated[str, typer.Option(help="Write JUnit's XML to this file.")] = "",
    html: Annotated[str, typer.Option(help="Write a page to this file.")] = "",
) -> None:
    """Check the custom gradients in TARGETS: 0 all right, 1 some wrong, 2 some undecided or none found."""
    from pullback.cli.checking import session  # only here: other commands need not wait for it

    console = Console(highlight=False, soft_wrap=True, stderr=json == "-")
    try:
        settings = _settings(targets, select, {"--json": json, "--junit": junit, "--html": html})
    except CheckError as error:
        console.print(f"? {error}", markup=False)
        raise typer.Exit(session.SOME_UNKNOWN) from error
    said = {"quick": quick, "order": order, "seed": seed, "timeout": timeout, "jobs": jobs}
    options: dict[str, Any] = {
        **settings.options,
        **{k: v for k, v in said.items() if v is not None},
    }
    seconds, many = float(options.pop("timeout", _SECONDS)), options.pop("jobs", None)
    run = session.Session(
        console,
        session.crew(settings, seconds, many, isolate=isolate),
        settings,
        options,
        github=output is Format.GITHUB,
        select=select,
        fail_fast=fail_fast,
        full=full,
    )
    status = run.run(targets)
    session.write(run, json=json, junit=junit, html=html)
    raise typer.Exit(status)


def _settings(targets: Sequence[str], select: str, files: Mapping[str, str]) -> Project:
    """What pyproject.toml says; what cannot be done is refused before anything runs."""
    from pullback.cli.checking.select import require_expression
    from pullback.cli.outputs import unwritable
    from pullback.cli.settings import project

    if reason := unwritable(files):
        raise CheckError(reason)
    require_expression(select)
    return project(_start(targets))


def _start(targets: Sequence[str]) -> Path:
    """Where a pyproject.toml is looked for: at the first target, or here."""
    first = Path(targets[0].partition(".py:")[0]).resolve()
    return first if first.exists() else Path.cwd()
