"""`pullback check`: the custom gradients of a file or module, one line each."""

from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from pullback.cli.outcomes import Here, NotLoaded, Outcome
from pullback.cli.worker import Apart, Lost

RIGHT, WRONG, UNKNOWN, INTERRUPTED = 0, 1, 2, 130
_SECONDS = 300.0  # far more than any check needs, far less than a build waits


def check(
    target: Annotated[str, typer.Argument(help="A file, a module, or module:function.")],
    quick: Annotated[bool, typer.Option(help="Two points only.")] = False,
    order: Annotated[int, typer.Option(help="1 leaves out second derivatives.", min=1, max=2)] = 2,
    seed: Annotated[int, typer.Option(help="Start of the random numbers.", min=0)] = 0,
    full: Annotated[bool, typer.Option("--report", help="Print each report in full.")] = False,
    timeout: Annotated[
        float, typer.Option(help="Seconds for each function; 0 waits for ever.", min=0)
    ] = _SECONDS,
    isolate: Annotated[
        bool, typer.Option(help="Check in a process of its own, which may crash.")
    ] = True,
) -> None:
    """Check the custom gradients in TARGET: 0 all right, 1 some wrong, 2 some undecided or not checked."""
    console = Console(highlight=False, soft_wrap=True)
    options = {"quick": quick, "order": order, "seed": seed}
    runner = Apart(partial(Here, target), timeout) if isolate else Here(target)
    states: list[int] = []
    try:
        names = _names(console, runner, target)
        place = target.removesuffix(f":{names[0]}") if len(names) == 1 else target
        for index, name in enumerate(names):
            with console.status(f"checking {name}"):
                outcome = _outcome(runner, index, options)
            states.append(_shown(console, outcome, name, f"{place}:{name}", full=full))
    except KeyboardInterrupt:
        console.print(_line("?", target, f"interrupted after {len(states)} functions"))
        raise typer.Exit(INTERRUPTED) from None
    finally:
        runner.close()
    raise typer.Exit(max_status(states))


def max_status(states: list[int]) -> int:
    """Wrong outweighs unknown, unknown outweighs right."""
    return WRONG if WRONG in states else max(states)


def _outcome(runner: Any, index: int, options: dict[str, Any]) -> Outcome:
    try:
        return runner.outcome(index, options)
    except Lost as lost:
        return Outcome(None, reason=f"could not be checked: {lost}")


def _names(console: Console, runner: Any, target: str) -> list[str]:
    """The names of what is to be checked, or a line that says why there is nothing."""
    try:
        names = runner.names()
    except NotLoaded as error:
        console.print(_line("?", target, str(error)))
        raise typer.Exit(UNKNOWN) from error
    if not names:
        text = "defines no custom gradient. Name a function: module:function."
        console.print(_line("?", target, text))
        raise typer.Exit(UNKNOWN)
    return names


def _shown(console: Console, outcome: Outcome, name: str, target: str, *, full: bool) -> int:
    """Print what came out, and say what it means for the exit status."""
    report = outcome.report
    if report is None:
        console.print(_line("?", name, outcome.reason))
        return UNKNOWN
    again = f"pullback check {target} --report --seed {report.seed}"
    report = replace(report, name=name, reproduce=again)
    inputs = ", ".join(f"{line.leaf.name} {line.leaf.describe()}" for line in report.inputs)
    where = f", tried with {inputs}" if outcome.guessed else ""
    if full:
        console.print(report)
    elif report.verdict == "right":
        console.print(_line("✓", name, f"{report.calls} calls{where}"))
    elif report.verdict == "wrong":
        source = report.findings[0].source
        console.print(_line("✗", name, report.diagnosis + (f"  ({source})" if source else "")))
    else:
        reason = next(iter(report.coverage.reasons), "it could not be told")
        console.print(_line("?", name, f"undecided: {reason}. --report says what to write{where}"))
    return {"right": RIGHT, "wrong": WRONG}.get(report.verdict, UNKNOWN)


def _line(mark: str, name: str, text: str) -> Text:
    style = {"✓": "green", "✗": "red", "?": "yellow"}[mark]
    return Text.assemble((f"{mark} ", style), (name, "bold"), f"  {text}")
