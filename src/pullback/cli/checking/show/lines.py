"""One line for each custom gradient, and one for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from pullback.cli.checking.outcome import IGNORED, MARKS, RIGHT, UNKNOWN, WRONG, Ending, Outcome
from pullback.cli.terminal import in_one_line

_STYLES = {"✓": "green", "✗": "red", "?": "yellow", "·": "dim"}


def line(outcome: Outcome, name: str) -> Text:
    """Mark, name, what is said, where it is written, and the inputs with where they come from."""
    where = (
        f"  ({outcome.source or place_of(outcome)})" if outcome.status in (WRONG, UNKNOWN) else ""
    )
    text = in_one_line(f"  {outcome.text}{where if where != '  ()' else ''}")
    inputs = f"  with {outcome.inputs}" if outcome.inputs else ""
    held = f"; {', '.join(outcome.notes)}" if outcome.notes else ""
    return Text.assemble(*marked(outcome.mark, name), text, (in_one_line(inputs + held), "dim"))


def note(mark: str, name: str, text: str) -> Text:
    """A line about something else than a function."""
    return Text.assemble(*marked(mark, name), in_one_line(f"  {text}"))


def marked(mark: str, name: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """The beginning of a line."""
    return (f"{mark} ", _STYLES[mark]), (in_one_line(name), "bold")


def place_of(outcome: Outcome) -> str:
    """`file.py:12`."""
    item = outcome.item
    if not (item.file and item.line):
        return ""
    name = in_one_line(Path(item.file).name)
    return f"{name} {item.cell}" if item.cell else f"{name}:{item.line}"


def summary(outcomes: Sequence[Outcome], ending: Ending) -> str:
    """How many of each, how long it took, and why it ended before all was checked."""
    outcomes = [outcome for outcome in outcomes if not outcome.item.absent]
    counts = Counter(outcome.status for outcome in outcomes)
    words = {RIGHT: "right", WRONG: "wrong", UNKNOWN: "undecided", IGNORED: "ignored"}
    told = [f"{MARKS[s]} {counts[s]} {word}" for s, word in words.items() if counts[s]]
    many = "1 custom gradient" if len(outcomes) == 1 else f"{len(outcomes)} custom gradients"
    stopped = f"; {ending.stopped}" if ending.stopped else ""
    return f"{many}: {', '.join(told)} in {ending.seconds:.0f} s{stopped}"
