"""`pullback check`: the custom gradients of files, folders and modules, one line each."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pullback.cli.status import Status
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
    if_any: Annotated[
        bool, typer.Option("--if-any", help="0 where there are none; what has none is not run.")
    ] = False,
    json: Annotated[str | None, typer.Option(help="Write JSON to this file; - prints it.")] = None,
    junit: Annotated[str | None, typer.Option(help="Write JUnit's XML to this file.")] = None,
    html: Annotated[str | None, typer.Option(help="Write a page to this file.")] = None,
    sarif: Annotated[
        str | None, typer.Option(help="Write SARIF, for code scanning, to this file.")
    ] = None,
) -> None:
    """Check the custom gradients in TARGETS: 0 all right, 1 some wrong, 2 some undecided or none found."""
    files = {"--json": json, "--junit": junit, "--html": html, "--sarif": sarif}
    said = {"quick": quick, "order": order, "seed": seed, "timeout": timeout, "jobs": jobs}
    ways = {
        "github": output is Format.GITHUB,
        "select": select,
        "fail_fast": fail_fast,
        "full": full,
        "if_any": if_any,
    }
    raise typer.Exit(_run(targets, files, said, ways, isolate=isolate))


def _run(
    targets: Sequence[str],
    files: Mapping[str, str | None],
    said: Mapping[str, Any],
    ways: dict[str, Any],
    *,
    isolate: bool,
) -> int:
    """Check and write the files; the exit status."""
    from pullback.cli.checking import session  # only here: other commands need not wait for it
    from pullback.cli.checking.places import places
    from pullback.cli.terminal import console as console_of
    from pullback.cli.terminal import in_one_line

    console = console_of(stderr="-" in files.values(), soft_wrap=True)
    try:
        found = places(targets, telling=ways["if_any"])
        sources = [place.target for place in found]
        settings = _settings(targets, ways["select"], said["timeout"], files, sources)
    except CheckError as error:
        console.print(f"? {in_one_line(str(error))}", markup=False)
        return Status.UNDECIDED
    given = {key: value for key, value in said.items() if value is not None}
    options: dict[str, Any] = {**settings.options, **given}
    seconds, many = float(options.pop("timeout", _SECONDS)), options.pop("jobs", None)
    crew = session.crew(settings, seconds, many, isolate=isolate)
    run = session.Session(console, crew, settings, options, **ways)
    status = run.run(targets, found)
    session.write_files(run, files)
    return status


def _settings(
    targets: Sequence[str],
    select: str,
    timeout: float | None,
    files: Mapping[str, str | None],
    sources: Sequence[str],
) -> Project:
    """What pyproject.toml says; what cannot be done is refused before anything runs."""
    from pullback.cli.checking.select import require_expression
    from pullback.cli.outputs import unwritable
    from pullback.cli.settings import project, require_seconds

    found = project(_start(targets))
    read = [*sources, found.file] if found.file else sources
    if reason := unwritable(files, read):
        raise CheckError(reason)
    require_expression(select)
    require_seconds(timeout, "--timeout")
    return found


def _start(targets: Sequence[str]) -> Path:
    """Where a pyproject.toml is looked for: at the first target, or here."""
    from pullback.cli.paths import is_there, real
    from pullback.cli.target import split

    first = split(targets[0])[0]
    return real(first) if is_there(first) else Path.cwd()
