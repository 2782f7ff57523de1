"""One run of `pullback check`: what is found, what is shown, and what it comes to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from pullback.cli.checking.outcome import (
    IGNORED,
    RIGHT,
    UNKNOWN,
    WRONG,
    Ending,
    Item,
    Outcome,
    Unloaded,
)
from pullback.cli.checking.places import Place, may_hold, not_there, places, sites_of
from pullback.cli.checking.select import is_selected
from pullback.cli.checking.show.files import as_github, as_json, as_junit, as_notice
from pullback.cli.checking.show.lines import line, note, summary
from pullback.cli.checking.show.page import as_page
from pullback.cli.checking.workers import Asker, Crew, Task
from pullback.cli.settings import Project

ALL_RIGHT, SOME_WRONG, SOME_UNKNOWN, INTERRUPTED = 0, 1, 2, 130
_MOST_JOBS = 2  # unless asked for: each is a process with a framework in it, about 600 MB


def crew(settings: Project, seconds: float, jobs: int | None, *, isolate: bool) -> Crew:
    """Those who check: processes, or this one."""
    most = min(_MOST_JOBS, os.cpu_count() or 1) if jobs is None else jobs
    make = partial(Asker, settings, seconds, isolate=isolate)
    return Crew(make, most if isolate else 1)


class Session:
    """Finds, checks and shows; `outcomes` and `ending` are what came of it."""

    def __init__(
        self,
        console: Console,
        crew: Crew,
        project: Project,
        options: dict[str, Any],
        *,
        github: bool,
        select: str,
        fail_fast: bool,
        full: bool,
    ) -> None:
        self.console, self.crew, self.options, self.github = console, crew, options, github
        self.select, self.fail_fast, self.full = select, fail_fast, full
        self.outcomes: list[Outcome] = []
        self.ending = Ending(0.0)
        self._status: Any = None
        self._names: dict[Item, str] = {}
        self._project = project

    def run(self, targets: Sequence[str]) -> int:
        """Check everything; the status with which the command ends."""
        began, stopped = time.perf_counter(), ""
        try:
            with self.console.status("loading") as self._status:
                tasks = self._tasks(self._present(places(targets)))
                if not tasks and not self.outcomes:
                    self._nothing(targets)
                left = self._checked(tasks)
                if left:
                    stopped = f"stopped at the first wrong one: {left} not checked"
        except KeyboardInterrupt:
            stopped = f"interrupted after {len(self.outcomes)} functions"
            self.console.print(note("?", " ".join(targets), stopped))
            return INTERRUPTED
        finally:
            self.ending = replace(self.ending, seconds=time.perf_counter() - began, stopped=stopped)
            self.crew.close()
        if not all(outcome.item.absent for outcome in self.outcomes):
            text = summary(self.outcomes, self.ending)
            self.console.print(Text(text, style="bold"))
        idle = self._without_effect(targets)
        for remark in self.ending.remarks if self.github else ():
            self.console.print(Text(as_notice(remark)))
        return exit_status([*(o.status for o in self.outcomes), *([UNKNOWN] if idle else [])])

    def _present(self, found: Sequence[Place]) -> list[Place]:
        """The places that are there; the others have a line of their own."""
        reasons = {place: not_there(place) for place in found}
        for place, reason in reasons.items():
            if reason:
                self._add(Outcome(Item(place.label, absent=True), UNKNOWN, reason))
        return [place for place in found if not reasons[place]]

    def _checked(self, tasks: Sequence[Task]) -> int:
        """Check them in turn; how many are left where the first wrong one ends it."""
        outcomes = self.crew.outcomes(tasks, self.options, self._show_running)
        for count, outcome in enumerate(outcomes, start=1):
            self._add(outcome)
            if self.fail_fast and outcome.status == WRONG:
                return len(tasks) - count
        return 0

    def _without_effect(self, targets: Sequence[str]) -> bool:
        """Say which keys of pyproject.toml are about nothing: a setting without effect is a mistake."""
        file = self._project.file
        if file is None:
            return False
        all_seen = any(file.parent.is_relative_to(Path(target).resolve()) for target in targets)
        known = [(item.file, item.name) for item in self._names if item.file]
        keys = self._project.without_effect(known, all_seen=all_seen)
        for key in keys:
            text = f'[tool.pullback.functions."{key}"] is about no custom gradient that was found'
            self._note(str(file), text)
        return bool(keys)

    def _tasks(self, found: Sequence[Place]) -> list[Task]:
        """What is to be checked; a place that cannot be loaded has a line for all that its source defines."""
        tasks: list[Task] = []
        several = len({place.target for place in found if not place.covered}) > 1
        for place in found:
            self._status.update(f"loading {place.label}")
            if self.select and not may_hold(place, self.select):
                self._names.update({item: item.name for item in _written(place)})
                continue
            items = self.crew.first().items(place)
            reason = items if isinstance(items, Unloaded) else None
            if place.covered and not (reason and reason.absent):
                continue
            known = _written(place) if isinstance(items, Unloaded) else items
            named = {item: f"{place.label}:{item.name}" if several else item.name for item in known}
            kept = [
                item
                for item in known
                if not self.select or is_selected(self.select, f"{place.label}:{item.name}")
            ]
            self._names.update(named)
            if reason and (kept or not known):
                self._unloaded(place, kept, reason)
            tasks += [] if reason else [(place, item) for item in kept]
        return tasks

    def _unloaded(self, place: Place, items: list[Item], reason: Unloaded) -> None:
        if reason.absent:
            name = ":".join(filter(None, (place.label, place.only)))
            self._add(Outcome(Item(name, absent=True), UNKNOWN, reason.text))
            return
        path, line = Path(place.target), reason.source.rpartition(":")[2]
        file = str(path.resolve()) if path.is_file() else ""
        for item in items or [Item(place.label, file, int(line or 1) if file else 0)]:
            self._add(Outcome(item, UNKNOWN, reason.text, source=reason.source))

    def _nothing(self, targets: Sequence[str]) -> None:
        left = f" that -k {self.select!r} means" if self.select else ""
        text = f"defines no custom gradient{left}. Name a function: module:function."
        self._note(" ".join(targets), text)

    def _note(self, name: str, text: str) -> None:
        """Something that is said of the whole run."""
        self.console.print(note("?", name, text))
        self.ending = replace(self.ending, notes=(*self.ending.notes, f"{name}  {text}"))

    def _show_running(self) -> None:
        running = ", ".join(sorted(self.crew.running.values()))
        self._status.update(f"checking {running} ({len(self.outcomes)} done)")

    def _add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if self.github:
            text = as_github(outcome)
            self.console.print(Text(text) if text else Text(), end="\n" if text else "")
        elif self.full and outcome.report is not None:
            report: Any = outcome.report
            name = self._names.get(outcome.item, outcome.item.name)
            self.console.print(replace(report, name=name))
        else:
            self.console.print(line(outcome, self._names.get(outcome.item, outcome.item.name)))


def _written(place: Place) -> list[Item]:
    """What the source of a place defines, where it can be read without being run."""
    path = Path(place.target)
    try:
        sites = sites_of(path)
    except (SyntaxError, ValueError, OSError):
        return []
    items = [Item(site.name, str(path.resolve()), site.line) for site in sites]
    only = place.only
    return [i for i in items if only is None or i.name == only or i.name.startswith(f"{only}.")]


def exit_status(statuses: Sequence[str]) -> int:
    """Wrong outweighs undecided, undecided outweighs right; nothing at all is undecided."""
    if WRONG in statuses:
        return SOME_WRONG
    decided = [status for status in statuses if status in (RIGHT, IGNORED)]
    return ALL_RIGHT if statuses and len(decided) == len(statuses) else SOME_UNKNOWN


def write(run: Session, *, json: str, junit: str, html: str) -> None:
    """The files that are asked for; `-` prints JSON."""
    makers: dict[str, Callable[..., str]] = {junit: as_junit, html: as_page}
    if json == "-":
        typer.echo(as_json(run.outcomes, run.ending))
    elif json:
        makers[json] = as_json
    for path, make in makers.items():
        if path:
            Path(path).write_text(make(run.outcomes, run.ending), encoding="utf-8")
