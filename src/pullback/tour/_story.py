"""A story and what came of it, as data; needs no framework."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Line:
    """One thing to find out: how to ask a function for it, and what is true.

    >>> Line("of two", lambda double: double(2), truth=4).ask_both(lambda x: x + x, abs).stock.right
    True
    """

    name: str
    ask: Callable[[Any], Any]
    truth: Any
    rtol: float = 1e-5

    def ask_both(self, stock: Any, ours: Any) -> "Outcome":
        """Ask both sides and compare each with the truth."""
        return Outcome(
            name=self.name,
            stock=self._answer(stock),
            ours=self._answer(ours),
            truth=plain(self.truth),
        )

    def _answer(self, side: Any) -> "Answer":
        try:
            value = plain(self.ask(side))
        except Exception as error:
            return Answer(value=None, error=f"{type(error).__name__}: {error}", right=False)
        return Answer(value=value, error="", right=agrees(value, self.truth, self.rtol))


@dataclass(frozen=True)
class Answer:
    """What one side said: a value or an error, and whether it is right."""

    value: Any
    error: str
    right: bool


@dataclass(frozen=True)
class Outcome:
    """One line of a story, told."""

    name: str
    stock: Answer
    ours: Answer
    truth: Any


@dataclass(frozen=True)
class Story:
    """A question, the two that answer it, the lines on which they are compared, and a moral.

    >>> from pullback.tour import Line, Story
    >>> line = Line("of two", lambda double: double(2), truth=4)
    >>> told = Story("Twice?", stock=abs, ours=lambda x: x + x, lines=[line]).tell()
    >>> told[0].stock.right, told[0].ours.right
    (False, True)
    """

    question: str
    stock: Any
    ours: Any
    lines: Sequence[Line]
    moral: str = ""

    def tell(self) -> list[Outcome]:
        """Ask both sides for every line."""
        return [line.ask_both(self.stock, self.ours) for line in self.lines]

    def show(self) -> None:
        """Run every line, print the story, and fail when pullback did not give the true numbers."""
        from pullback.tour._render import print_story

        if not print_story(self, self.tell()):
            raise SystemExit(1)


def plain(value: Any) -> Any:
    """Tensors to arrays, at any depth of dicts, lists and tuples; `None` and words stay."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return np.asarray(value)


def agrees(value: Any, truth: Any, rtol: float) -> bool:
    """The same structure and shapes, and numbers within `rtol`; a NaN agrees with nothing."""
    if value is None or isinstance(value, str) or truth is None:
        return value is truth or value == truth
    if isinstance(value, dict):
        return value.keys() == truth.keys() and all(
            agrees(item, truth[key], rtol) for key, item in value.items()
        )
    if isinstance(value, list):
        return len(value) == len(truth) and all(
            agrees(part, true, rtol) for part, true in zip(value, truth, strict=True)
        )
    wanted = np.asarray(truth)
    return value.shape == wanted.shape and np.allclose(value, wanted, rtol=rtol, atol=0.0)
