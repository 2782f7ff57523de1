"""One run of `pullback audit`."""

from __future__ import annotations

import datetime
import difflib
import importlib
import json as json_format
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from pullback._engine import TABLE, load
from pullback.audit import results as r
from pullback.audit.judge import judged
from pullback.audit.page import as_html, as_markdown
from pullback.audit.run import audited
from pullback.cli.outputs import unwritable, write
from pullback.cli.settings import require_seconds
from pullback.cli.status import Status, status_of
from pullback.cli.terminal import console as console_of
from pullback.cli.terminal import echo
from pullback.cli.worker import Apart, Lost, NotLoaded
from pullback.errors import CheckError

_MARKS = {r.RIGHT: ("✓", "green"), r.NOT_CALLED: ("·", "dim"), r.DESIGN: ("·", "dim")}


def run(
    framework: str,
    *,
    only: str,
    jobs: int,
    timeout: float,
    state: Path | None,
    json: bool,
    markdown: Path | None,
    html: Path | None,
) -> int:
    """Audit a framework, and give the exit status."""
    console = console_of(soft_wrap=True, stderr=json)
    pages = {"--state": state, "--markdown": markdown, "--html": html}
    if reason := unwritable(pages) or _no_time(timeout) or _no_pattern(only):
        console.print(f"? {framework}  {reason}", markup=False)
        return Status.UNDECIDED
    make = partial(_Auditor, framework)
    spare = [_process(make, timeout)]
    head, listed = _listed(console, framework, spare[0])
    names, wanted = list(listed), _wanted(listed, only, spare[0])
    if not wanted:
        spare[0].close()
        console.print(f"? {framework}  {_nothing(listed, only)}", markup=False)
        return Status.UNDECIDED

    def worker() -> _Apart:
        return _Apart(names, spare.pop() if spare else _process(make, timeout))

    try:
        known = _known(console, state, head)
        found = _run(console, names, wanted, known, worker, jobs, state)
    except KeyboardInterrupt as interrupt:
        console.print("interrupted; --state FILE goes on from where it stopped")
        return status_of(interrupt)
    finally:
        for one in spare:
            one.close()
    for path, page in ((markdown, as_markdown), (html, as_html)):
        if path is not None:
            write(path, page(head, found))
    if json:
        echo(json_format.dumps({**head, "results": [asdict(one) for one in found]}))
    else:
        _summary(console, head, found)
    return _status(found)


def _process(make: Callable[[], _Auditor], seconds: float) -> Apart:
    return Apart(make, seconds, r.Result | str | None)


def _no_time(seconds: float) -> str:
    try:
        require_seconds(seconds, "--timeout")
    except CheckError as error:
        return str(error)
    return ""


def _no_pattern(only: str) -> str:
    try:
        re.compile(only)
    except re.error as error:
        return f"--only {only!r} is no regular expression: {error}."
    return ""


class _Auditor:
    """Audits in this process."""

    def __init__(self, framework: str) -> None:
        self._framework = framework
        self._names: list[str] = []

    def names(self) -> list[str]:
        """The version of the framework, then everything there is to audit, each with its other names behind it."""
        try:
            importlib.import_module(self._framework)
            self._catalogue = load(self._framework).catalogue
        except ImportError as error:
            raise NotLoaded(f"{self._framework} cannot be imported: {error}") from error
        self._names = list(self._catalogue.names())
        known = self._catalogue
        return [known.version, *(" ".join([one, *known.aliases(one)]) for one in self._names)]

    def outcome(self, index: int | str, options: dict[str, Any]) -> r.Result | str:
        """What comes of one function; of a name, what it is listed as."""
        if isinstance(index, str):
            return self._catalogue.listed_as(index)
        name = self._names[index]
        try:
            return judged(self._catalogue, name, **options)
        except Exception as error:  # a slip in one function must not cost the run
            return r.Result(name, r.LOST, f"{type(error).__name__}: {error}")


class _Apart:
    """Audits in another process; one that is lost is a result."""

    def __init__(self, names: list[str], apart: Apart) -> None:
        self._names, self._apart = names, apart

    def outcome(self, index: int, options: dict[str, Any]) -> r.Result:
        """What comes of one function; where the process is lost, of its careful calls alone."""
        try:
            return self._apart.outcome(index, options)
        except Lost as lost:
            first = str(lost)
        try:
            return replace(self._apart.outcome(index, {"careful": True}), crash=first)
        except Lost as lost:
            return r.Result(self._names[index], r.LOST, str(lost))

    def close(self) -> None:
        """End the process."""
        self._apart.close()


def _listed(
    console: Console, framework: str, first: Apart
) -> tuple[dict[str, str], dict[str, list[str]]]:
    """What the run is of, and the names of all functions, each with its other names."""
    if framework not in TABLE:
        console.print(f"? {framework}  there is no such engine. There are: {', '.join(TABLE)}.")
        raise typer.Exit(Status.UNDECIDED)
    try:
        version, *lines = first.names()
    except NotLoaded as error:
        first.close()
        console.print(f"? {framework}  {error}")
        raise typer.Exit(Status.UNDECIDED) from error
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = {"framework": framework, "version": version, "date": today, "names": str(len(lines))}
    return head, {line.split()[0]: line.split()[1:] for line in lines}


def _wanted(listed: dict[str, list[str]], only: str, first: Apart) -> dict[int, str]:
    """What a pattern means, by number: nothing where it is in the name, else the other name that it is in."""
    known = {
        name: [n for n in (name, *others) if re.search(only, n)] for name, others in listed.items()
    }
    if not any(known.values()) and (name := first.outcome(only, {})):
        known[name] = [only]
    numbers = {name: k for k, name in enumerate(listed)}
    return {numbers[n]: "" if n in found else found[0] for n, found in known.items() if found}


def _nothing(listed: dict[str, list[str]], only: str) -> str:
    every = {alias: name for name, others in listed.items() for alias in (name, *others)}
    by_end = {name.rpartition(".")[2].lower(): name for name in reversed(every)}
    ends = difflib.get_close_matches(only.rpartition(".")[2].lower(), by_end)
    near = [*difflib.get_close_matches(only, every), *(by_end[end] for end in ends)]
    told = ", ".join(dict.fromkeys(every[one] for one in near))
    hint = f"Near names: {told}." if told else "Without --only, all are audited."
    return f"--only {only!r} is in none of {len(every)} names of {len(listed)} functions. {hint}"


def _known(console: Console, state: Path | None, head: dict[str, str]) -> dict[str, r.Result]:
    """The results that a file has already, if they are of the same version; its date is that of the run."""
    if state is None:
        return {}
    before, found = r.read(state)
    if not before:
        state.write_text(json_format.dumps(head) + "\n", encoding="utf-8")
        return {}
    if before["version"] != head["version"]:
        theirs, ours = before["version"], head["version"]
        console.print(
            f"? {state}  holds results of {theirs}, and this is {ours}: name another file."
        )
        raise typer.Exit(Status.UNDECIDED)
    head["date"] = before["date"]
    return {one.name: one for one in found}


def _run(
    console: Console,
    names: list[str],
    wanted: dict[int, str],
    known: dict[str, r.Result],
    make: Any,
    jobs: int,
    state: Path | None,
) -> list[r.Result]:
    """Run what is not known yet; all results, in the order of the names."""
    todo = [k for k in wanted if names[k] not in known]
    found = dict(known)
    counts: Counter[str] = Counter()
    with console.status("starting") as status:

        def started(index: int) -> None:
            faults = sum(counts[kind] for kind in r.FAULTS)
            told = f"{sum(counts.values())} of {len(todo)}, {faults} with faults: {names[index]}"
            status.update(told)

        for result in audited(todo, make, jobs, started):
            found[result.name] = result
            counts[result.status] += 1
            if state is not None:
                with state.open("a", encoding="utf-8") as file:
                    file.write(r.as_line(result) + "\n")
            console.print(_line(result, wanted[names.index(result.name)]))
    return [found[names[k]] for k in wanted if names[k] in found]


def _line(result: r.Result, asked: str) -> Text:
    mark, style = _MARKS.get(result.status, ("✗" if result.is_fault else "?", "red"))
    fault = result.faults[0] if result.faults else None
    told = result.reason or (f"{fault.diagnosis} ({fault.what})" if fault else "")
    inputs = f"{result.cases} sets of inputs" if result.cases else ""
    text = "; ".join(filter(None, (result.status, told, inputs)))
    also = f" ({asked})" if asked else ""
    return Text.assemble((f"{mark} ", style), (result.name, "bold"), f"{also}  {text}")


def _summary(console: Console, head: dict[str, str], found: list[r.Result]) -> None:
    counts = Counter(one.status for one in found)
    called = sum(one.was_called for one in found)
    told = ", ".join(f"{counts[kind]} {kind}" for kind in r.MEANING if counts[kind])
    console.print(f"{head['version']}: {called} of {len(found)} functions called: {told}")


def _status(found: list[r.Result]) -> int:
    if any(one.is_fault for one in found):
        return Status.WRONG
    lost = any(one.status == r.LOST for one in found)
    return Status.UNDECIDED if lost or not any(one.was_called for one in found) else Status.FINE
