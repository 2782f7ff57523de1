"""`pullback check`: the custom gradients of a file or module, one line each."""

from dataclasses import replace
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from pullback.check import Report
from pullback.check import check as check_gradient
from pullback.check.discover import Candidate, bound, candidates
from pullback.check.inputs import NAME, Call, given, tried
from pullback.cli.target import load, why_not
from pullback.errors import CheckError

RIGHT, WRONG, UNKNOWN = 0, 1, 2
Outcome = tuple[Report, bool] | str


def check(
    target: Annotated[str, typer.Argument(help="A file, a module, or module:function.")],
    quick: Annotated[bool, typer.Option(help="Two points only.")] = False,
    order: Annotated[int, typer.Option(help="1 leaves out second derivatives.", min=1, max=2)] = 2,
    seed: Annotated[int, typer.Option(help="Start of the random numbers.", min=0)] = 0,
    full: Annotated[bool, typer.Option("--report", help="Print each report in full.")] = False,
) -> None:
    """Check the custom gradients in TARGET: 0 all right, 1 some wrong, 2 some could not be checked."""
    console = Console(highlight=False, soft_wrap=True)
    options = {"quick": quick, "order": order, "seed": seed}
    module, found = _found(console, target)
    place = target.removesuffix(f":{found[0].name}") if len(found) == 1 else target
    states = []
    for one in found:
        with console.status(f"checking {one.name}"):
            outcome = _outcome(module, one, options)
        states.append(_shown(console, outcome, one.name, f"{place}:{one.name}", full=full))
    raise typer.Exit(max_status(states))


def max_status(states: list[int]) -> int:
    """Wrong outweighs unknown, unknown outweighs right."""
    return WRONG if WRONG in states else max(states)


def _found(console: Console, target: str) -> tuple[ModuleType, list[Candidate]]:
    """The module and what is to be checked in it, or a line that says why there is nothing."""
    try:
        module, only = load(target)
        found = candidates(module, only)
    except (Exception, SystemExit) as error:
        console.print(_line("?", target, f"cannot be loaded: {why_not(error, target)}"))
        raise typer.Exit(UNKNOWN) from error
    if not found:
        text = "defines no custom gradient. Name a function: module:function."
        console.print(_line("?", target, text))
        raise typer.Exit(UNKNOWN)
    return module, found


def _outcome(module: ModuleType, one: Candidate, options: dict[str, Any]) -> Outcome:
    """The report for the first arguments with which the function runs, or what it needs."""
    if one.function is None:
        return f"{NAME} names it, but {module.__name__} has no such function"
    origin = f"with what {NAME} gives: "
    try:
        call = given(module, one.name)
        if call is not None:
            return _report(one, call, options), False
        origin = ""
        return _by_trying(bound(one), options)
    except CheckError as error:
        return f"{origin}{error}"
    except Exception as error:
        return f"could not be checked: {type(error).__name__}: {error}"


def _report(one: Candidate, call: Call, options: dict[str, Any]) -> Report:
    """A method gets its instance from the inputs, or from its class."""
    args, kwargs = call
    if one.owner is not None and not (args and isinstance(args[0], one.owner)):
        one = bound(one)
    return check_gradient(one.function, *args, kwargs=kwargs, **options)


def _by_trying(one: Candidate, options: dict[str, Any]) -> Outcome:
    reason = None
    for call in tried(one.function):
        try:
            return _report(one, call, options), True
        except CheckError as error:
            reason = reason or str(error)
    return f"needs inputs: write {NAME} = {{{one.name!r}: (...)}} beside it. First try: {reason}"


def _shown(console: Console, outcome: Outcome, name: str, target: str, *, full: bool) -> int:
    """Print what came out, and say what it means for the exit status."""
    if isinstance(outcome, str):
        console.print(_line("?", name, outcome))
        return UNKNOWN
    report, guessed = outcome
    again = f"pullback check {target} --report --seed {report.seed}"
    report = replace(report, name=name, reproduce=again)
    inputs = ", ".join(f"{line.leaf.name} {line.leaf.describe()}" for line in report.inputs)
    where = f", tried with {inputs}" if guessed else ""
    if full:
        console.print(report)
    elif report.ok:
        console.print(_line("✓", name, f"{report.calls} calls{where}"))
    else:
        source = report.findings[0].source
        console.print(_line("✗", name, report.diagnosis + (f"  ({source})" if source else "")))
    return RIGHT if report.ok else WRONG


def _line(mark: str, name: str, text: str) -> Text:
    style = {"✓": "green", "✗": "red", "?": "yellow"}[mark]
    return Text.assemble((f"{mark} ", style), (name, "bold"), f"  {text}")
