"""`pullback check`: the custom gradients of a file or module, one line each."""

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from pullback.check import Report
from pullback.check import check as check_gradient
from pullback.check.discover import NAME, Candidate, arguments, candidates
from pullback.errors import CheckError, PullbackError

RIGHT, WRONG, UNKNOWN = 0, 1, 2


def check(
    target: Annotated[str, typer.Argument(help="A file, a module, or module:function.")],
    quick: Annotated[bool, typer.Option(help="Two points only.")] = False,
    order: Annotated[int, typer.Option(help="1 leaves out second derivatives.")] = 2,
    seed: Annotated[int, typer.Option(help="Start of the random numbers.")] = 0,
    full: Annotated[bool, typer.Option("--report", help="Print each report in full.")] = False,
) -> None:
    """Check the custom gradients in TARGET: 0 all right, 1 some wrong, 2 some could not be checked."""
    console = Console(highlight=False, soft_wrap=True)
    options = {"quick": quick, "order": order, "seed": seed}
    try:
        module, only = load(target)
        found = candidates(module, only)
    except (ImportError, AttributeError, FileNotFoundError, SyntaxError, PullbackError) as error:
        console.print(_line("?", target, f"cannot be loaded: {error}"))
        raise typer.Exit(UNKNOWN) from error
    if not found:
        console.print(
            _line("?", target, "defines no custom gradient. Name a function: module:function.")
        )
        raise typer.Exit(UNKNOWN)
    raise typer.Exit(
        max_status([_checked(console, module, one, options, full=full) for one in found])
    )


def load(target: str) -> tuple[ModuleType, str | None]:
    """The module that a target names, and the function in it, if one is named."""
    place, _, name = target.partition(":") if not Path(target).exists() else (target, "", "")
    if place.endswith(".py"):
        return _from_file(Path(place)), name or None
    sys.path.insert(0, str(Path.cwd()))
    return importlib.import_module(place), name or None


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def max_status(states: list[int]) -> int:
    """Wrong outweighs unknown, unknown outweighs right."""
    return WRONG if WRONG in states else max(states)


def _checked(
    console: Console, module: ModuleType, one: Candidate, options: dict[str, Any], *, full: bool
) -> int:
    with console.status(f"checking {one.name}"):
        report = _report(module, one, options)
    if isinstance(report, str):
        console.print(_line("?", one.name, report))
        return UNKNOWN
    if full:
        console.print(report)
    elif report.ok:
        console.print(_line("✓", one.name, f"{report.calls} calls"))
    else:
        source = report.findings[0].source
        console.print(_line("✗", one.name, report.diagnosis + (f"  ({source})" if source else "")))
    return RIGHT if report.ok else WRONG


def _report(module: ModuleType, one: Candidate, options: dict[str, Any]) -> Report | str:
    """The report for the first arguments with which the function runs, or what it needs."""
    reason = "it takes no arguments"
    for args, kwargs in arguments(module, one):
        try:
            return check_gradient(one.function, *args, kwargs=kwargs, **options)
        except CheckError as error:
            reason = str(error)
    return f"needs inputs: write {NAME} = {{{one.name!r}: (...)}} beside it. Last try: {reason}"


def _line(mark: str, name: str, text: str) -> Text:
    style = {"✓": "green", "✗": "red", "?": "yellow"}[mark]
    return Text.assemble((f"{mark} ", style), (name, "bold"), f"  {text}")
