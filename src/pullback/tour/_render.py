"""Stories on the terminal."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from rich import box
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from pullback.tour._story import Answer, Outcome, Story

_LONGEST_ERROR = 110
_ERROR = re.compile(r"\s*\w+(Error|Exception): ")


def print_story(
    story: Story, outcomes: Sequence[Outcome], *, title: str = "", console: Console | None = None
) -> bool:
    """Print one story; return whether all of pullback's numbers are the true ones."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, expand=True)
    table.add_column("")
    for heading, ratio in {"stock TensorFlow": 3, "pullback": 2, "mathematics": 2}.items():
        table.add_column(heading, ratio=ratio)
    for line in outcomes:
        table.add_row(line.name, _cell(line.stock), _cell(line.ours), short(line.truth))
    picture = [] if story.picture is None else [story.picture()]
    moral = [Text(story.moral, style="italic")] if story.moral else []
    parts = [table, *picture, *moral]
    heading = Text(f"{title} {story.question}".strip(), style="bold")
    panel = Panel(Group(*parts), title=heading, title_align="left")
    (console or Console()).print(panel)
    return all(outcome.ours.right for outcome in outcomes)


def short(value: Any) -> str:
    """A value in a few characters: five digits, no dtype, `None` as it is."""
    if isinstance(value, dict):
        return ", ".join(f"{key}: {short(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "[" + ", ".join(short(item) for item in value) + "]"
    if value is None or isinstance(value, str):
        return str(value)
    digits: Any = {"float_kind": "{:.5g}".format}
    return " ".join(np.array2string(np.asarray(value), separator=", ", formatter=digits).split())


def _cell(answer: Answer) -> Text:
    return Text(words_of(answer), style="green" if answer.right else "red")


def words_of(answer: Answer) -> str:
    """What one side said, with a mark for right or wrong."""
    if answer.right:
        return f"✓ {short(answer.value)}"
    if answer.error:
        return f"✗ {_message_of(answer.error)}"
    silently = "" if isinstance(answer.value, str) else ", silently"
    return f"✗ {short(answer.value)}{silently}"


def _message_of(error: str) -> str:
    """The message alone: AutoGraph puts a stack of source lines before it."""
    said = [line.strip() for line in error.splitlines() if _ERROR.match(line)]
    words = " ".join((said[-1] if said else error).split())
    return words if len(words) <= _LONGEST_ERROR else words[: _LONGEST_ERROR - 1] + "…"
