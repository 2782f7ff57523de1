"""One run of `pullback check`: what is found, what is shown, and what it comes to."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from pullback.cli.checking.listing import item_at
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
from pullback.cli.checking.places import Place, may_hold, not_there, sites_of
from pullback.cli.checking.select import is_selected
from pullback.cli.checking.show.files import as_github, as_json, as_junit, as_notice
from pullback.cli.checking.show.lines import line, note, summary
from pullback.cli.checking.show.page import as_page
from pullback.cli.checking.show.sarif import as_sarif
from pullback.cli.checking.workers import Asker, Crew, Task
from pullback.cli.outputs import write
from pullback.cli.paths import is_file, real
from pullback.cli.settings import Project
from pullback.cli.source import line_of_place
from pullback.cli.status import Status, status_of
from pullback.cli.terminal import in_one_line

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
        if_any: bool = False,
    ) -> None:
        self.console, self.crew, self.options, self.github = console, crew, options, github
        self.select, self.fail_fast, self.full, self.if_any = select, fail_fast, full, if_any
        self.outcomes: list[Outcome] = []
        self.ending = Ending(0.0)
        self._status: Any = None
        self._names: dict[Item, str] = {}
        self._project = project
        self._is_open = False  # whether something was said that leaves the run undecided

    def run(self, targets: Sequence[str], found: Sequence[Place]) -> int:
        """Check everything in the places that the targets come to; the status with which the command ends."""
        began, stopped = time.perf_counter(), ""
        try:
            with self.console.status("loading") as self._status:
                tasks = self._tasks(self._present(found))
                if not tasks and not self.outcomes and not self.if_any:
                    self._nothing(targets)
                left = self._checked(tasks)
                if left:
                    stopped = f"stopped at the first wrong one: {left} not checked"
        except KeyboardInterrupt as interrupt:
            stopped = f"interrupted after {len(self.outcomes)} functions"
            self.console.print(note("?", " ".join(targets), stopped))
            return status_of(interrupt)
        finally:
            self.ending = replace(self.ending, seconds=time.perf_counter() - began, stopped=stopped)
            self.crew.close()
        if not all(outcome.item.absent for outcome in self.outcomes):
            text = summary(self.outcomes, self.ending)
            self.console.print(Text(text, style="bold"))
        self._say_what_has_no_effect(targets)
        for remark in self.ending.remarks if self.github else ():
            self.console.print(Text(as_notice(remark)))
        if self.if_any and not self.outcomes and not self._is_open:
            return Status.FINE
        return exit_status([*(o.status for o in self.outcomes), *[UNKNOWN] * self._is_open])

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

    def _say_what_has_no_effect(self, targets: Sequence[str]) -> None:
        """Say which keys of pyproject.toml are about nothing: a setting without effect is a mistake."""
        file = self._project.file
        if file is None:
            return
        all_seen = any(file.parent.is_relative_to(real(target)) for target in targets)
        known = [(item.file, item.name) for item in self._names if item.file]
        keys = self._project.without_effect(known, all_seen=all_seen)
        for key in keys:
            text = f'[tool.pullback.functions."{key}"] is about no custom gradient that was found'
            self._note(str(file), text)

    def _tasks(self, found: Sequence[Place]) -> list[Task]:
        """What is to be checked; a place that cannot be loaded has a line for all that its source defines."""
        tasks: list[Task] = []
        several = len({place.target for place in found if not place.covered}) > 1
        for place in found:
            self._status.update(Text(f"loading {in_one_line(place.label)}"))
            if self.select and not may_hold(place, self.select):
                self._names.update({item: item.name for item in _written(place)})
                continue
            listing = self.crew.first().items(place)
            reason = listing if isinstance(listing, Unloaded) else None
            if place.covered and not (reason and reason.absent):
                continue
            known = _written(place) if isinstance(listing, Unloaded) else list(listing.items)
            named = {item: f"{place.label}:{item.name}" if several else item.name for item in known}
            kept = [
                item
                for item in known
                if not self.select or is_selected(self.select, f"{place.label}:{item.name}")
            ]
            self._names.update(named)
            for remark in () if isinstance(listing, Unloaded) else listing.remarks:
                self._note(place.label, remark.text, is_open=remark.is_open)
            if reason and (kept or not known):
                self._unloaded(place, kept, reason)
            tasks += [] if reason else [(place, item) for item in kept]
        return tasks

    def _unloaded(self, place: Place, items: list[Item], reason: Unloaded) -> None:
        if reason.absent:
            name = ":".join(filter(None, (place.label, place.only)))
            self._add(Outcome(Item(name, absent=True), UNKNOWN, reason.text))
            return
        path = Path(place.target)
        file = str(real(path)) if is_file(path) else ""
        line = line_of_place(path, reason.source) if file else None
        for item in items or [Item(place.label, file, (line or 1) if file else 0)]:
            self._add(Outcome(item, UNKNOWN, reason.text, source=reason.source))

    def _nothing(self, targets: Sequence[str]) -> None:
        left = f" that -k {self.select!r} means" if self.select else ""
        text = f"defines no custom gradient{left}. Name a function: module:function."
        self._note(" ".join(targets), text)

    def _note(self, name: str, text: str, *, is_open: bool = True) -> None:
        """Something that is said of the whole run, or of a file; where it `is_open` the run is undecided."""
        self._is_open = self._is_open or is_open
        self.console.print(note("?" if is_open else "·", name, text))
        self.ending = replace(self.ending, notes=(*self.ending.notes, f"{name}  {text}"))

    def _show_running(self) -> None:
        running = ", ".join(sorted(self.crew.running.values()))
        self._status.update(Text(f"checking {in_one_line(running)} ({len(self.outcomes)} done)"))

    def _add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        if self.github:
            text = as_github(outcome)
            self.console.print(Text(text) if text else Text(), end="\n" if text else "")
        elif self.full and outcome.report is not None:
            report: Any = outcome.report
            name = self._names.get(outcome.item, outcome.item.name)
            self.console.print(replace(report, name=in_one_line(name)))
        else:
            self.console.print(line(outcome, self._names.get(outcome.item, outcome.item.name)))


def _written(place: Place) -> list[Item]:
    """What the source of a place defines, where it can be read without being run."""
    path = Path(place.target)
    try:
        items = [item_at(site.name, real(path), site.line) for site in sites_of(path)]
    except (SyntaxError, ValueError, OSError):
        return []
    only = place.only
    return [i for i in items if only is None or i.name == only or i.name.startswith(f"{only}.")]


def exit_status(statuses: Sequence[str]) -> int:
    """Wrong outweighs undecided, undecided outweighs right; nothing at all is undecided."""
    if WRONG in statuses:
        return Status.WRONG
    decided = [status for status in statuses if status in (RIGHT, IGNORED)]
    return Status.FINE if statuses and len(decided) == len(statuses) else Status.UNDECIDED


def write_files(run: Session, files: Mapping[str, str | None]) -> None:
    """The files that are asked for, by option."""
    makers: dict[str, Callable[..., str]] = {
        "--json": as_json,
        "--junit": as_junit,
        "--html": as_page,
        "--sarif": as_sarif,
    }
    for option, file in files.items():
        if file:
            write(file, makers[option](run.outcomes, run.ending))
