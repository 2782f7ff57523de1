"""`pullback check`: the custom gradients of files, folders and modules, one line each."""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from pullback.cli.checking.outcome import IGNORED, RIGHT, UNKNOWN, WRONG, Item, Outcome
from pullback.cli.checking.places import Place, places, sites_of
from pullback.cli.checking.select import is_selected
from pullback.cli.checking.show.files import as_github, as_json, as_junit
from pullback.cli.checking.show.lines import line, note, summary
from pullback.cli.checking.workers import Asker, Crew, Task
from pullback.cli.settings import Project, project
from pullback.errors import CheckError

ALL_RIGHT, SOME_WRONG, SOME_UNKNOWN, INTERRUPTED = 0, 1, 2, 130
_SECONDS = 300.0  # far more than any check needs, far less than a build waits
_MOST_JOBS = 2  # unless asked for: each is a process with a framework in it, about 600 MB


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
    console = Console(highlight=False, soft_wrap=True, stderr=json == "-")
    try:
        settings = project(_start(targets))
    except CheckError as error:
        console.print(note("?", "pyproject.toml", str(error)))
        raise typer.Exit(SOME_UNKNOWN) from error
    said = {"quick": quick, "order": order, "seed": seed}
    options = {
        **settings.options,
        **{key: value for key, value in said.items() if value is not None},
    }
    seconds = options.pop("timeout", _SECONDS) if timeout is None else timeout
    many = options.pop("jobs", None) if jobs is None else jobs
    crew = _crew(settings, float(seconds), many, isolate=isolate)
    session = _Session(
        console, crew, options, output, select=select, fail_fast=fail_fast, full=full
    )
    status = session.run(targets)
    _write(session.outcomes, session.seconds, json=json, junit=junit, html=html)
    raise typer.Exit(status)


def _crew(settings: Project, seconds: float, jobs: int | None, *, isolate: bool) -> Crew:
    most = min(_MOST_JOBS, os.cpu_count() or 1) if jobs is None else jobs
    make = partial(Asker, settings, seconds, isolate=isolate)
    return Crew(make, most if isolate else 1)


def _start(targets: Sequence[str]) -> Path:
    """Where a pyproject.toml is looked for: at the first target, or here."""
    first = Path(targets[0].partition(".py:")[0]).resolve()
    return first if first.exists() else Path.cwd()


class _Session:
    """One run of the command: what is found, what is shown, and what it comes to."""

    def __init__(
        self,
        console: Console,
        crew: Crew,
        options: dict[str, Any],
        output: Format,
        *,
        select: str,
        fail_fast: bool,
        full: bool,
    ) -> None:
        self.console, self.crew, self.options, self.output = console, crew, options, output
        self.select, self.fail_fast, self.full = select, fail_fast, full
        self.outcomes: list[Outcome] = []
        self.seconds = 0.0
        self._status: Any = None
        self._names: dict[Item, str] = {}

    def run(self, targets: Sequence[str]) -> int:
        """Check everything; the status with which the command ends."""
        began = time.perf_counter()
        try:
            with self.console.status("loading") as self._status:
                tasks = self._tasks(places(targets))
                if not tasks and not self.outcomes:
                    self._nothing(targets)
                for outcome in self.crew.outcomes(tasks, self.options, self._show_running):
                    self._add(outcome)
                    if self.fail_fast and outcome.status == WRONG:
                        break
        except KeyboardInterrupt:
            many = f"interrupted after {len(self.outcomes)} functions"
            self.console.print(note("?", " ".join(targets), many))
            return INTERRUPTED
        finally:
            self.seconds = time.perf_counter() - began
            self.crew.close()
        if self.outcomes:
            self.console.print(Text(summary(self.outcomes, self.seconds), style="bold"))
        return exit_status([outcome.status for outcome in self.outcomes])

    def _tasks(self, found: Sequence[Place]) -> list[Task]:
        """What is to be checked; a place that cannot be loaded has a line for all that its source defines."""
        tasks: list[Task] = []
        several = len({place.target for place in found}) > 1
        for place in found:
            self._status.update(f"loading {place.label}")
            items = self.crew.first().items(place)
            reason = items if isinstance(items, str) else ""
            known = _written(place) if isinstance(items, str) else items
            named = {item: f"{place.label}:{item.name}" if several else item.name for item in known}
            kept = [
                item
                for item in known
                if not self.select or is_selected(self.select, f"{place.label}:{item.name}")
            ]
            self._names.update(named)
            if reason:
                self._unloaded(place, kept, reason)
            tasks += [] if reason else [(place, item) for item in kept]
        return tasks

    def _unloaded(self, place: Place, items: list[Item], reason: str) -> None:
        for item in items or [Item(place.label)]:
            self._add(Outcome(item, UNKNOWN, reason))

    def _nothing(self, targets: Sequence[str]) -> None:
        left = f" that -k {self.select!r} means" if self.select else ""
        text = f"defines no custom gradient{left}. Name a function: module:function."
        self.console.print(note("?", " ".join(targets), text))

    def _show_running(self) -> None:
        running = ", ".join(sorted(self.crew.running.values()))
        self._status.update(f"checking {running} ({len(self.outcomes)} done)")

    def _add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if self.output is Format.GITHUB:
            self.console.print(as_github(outcome), markup=False) if as_github(outcome) else None
        elif self.full and outcome.report is not None:
            self.console.print(_full(outcome, self._names.get(outcome.item, outcome.item.name)))
        else:
            self.console.print(line(outcome, self._names.get(outcome.item, outcome.item.name)))


def _written(place: Place) -> list[Item]:
    """What the source of a place defines, where it can be read without being run."""
    path = Path(place.target)
    try:
        sites = sites_of(path)
    except (SyntaxError, ValueError, OSError):
        return []
    return [Item(site.name, str(path.resolve()), site.line) for site in sites]


def _full(outcome: Outcome, name: str) -> Any:
    """The whole report, named and run again like the target."""
    report: Any = outcome.report
    again = f"pullback check {outcome.item.file}:{outcome.item.name} --report --seed {report.seed}"
    return replace(report, name=name, reproduce=again)


def exit_status(statuses: Sequence[str]) -> int:
    """Wrong outweighs undecided, undecided outweighs right; nothing at all is undecided."""
    if WRONG in statuses:
        return SOME_WRONG
    decided = [status for status in statuses if status in (RIGHT, IGNORED)]
    return ALL_RIGHT if statuses and len(decided) == len(statuses) else SOME_UNKNOWN


def _write(
    outcomes: Sequence[Outcome], seconds: float, *, json: str, junit: str, html: str
) -> None:
    from pullback.cli.checking.show.page import as_page

    makers: dict[str, Callable[..., str]] = {junit: as_junit, html: as_page}
    if json == "-":
        typer.echo(as_json(outcomes, seconds))
    elif json:
        makers[json] = as_json
    for path, make in makers.items():
        if path:
            Path(path).write_text(make(outcomes, seconds), encoding="utf-8")
