"""A story and what came of it, as data; needs no framework."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

Thunk = Callable[[], Any]


@dataclass(frozen=True)
class Line:
    """One thing to find out: how to ask stock TensorFlow, how to ask pullback, and what is true.

    >>> Line("2 + 2", stock=lambda: 5, ours=lambda: 4, truth=4).run().ours.right
    True
    """

    name: str
    stock: Thunk
    ours: Thunk
    truth: Any
    rtol: float = 1e-5

    def run(self) -> "Outcome":
        return Outcome(
            name=self.name,
            stock=_answer(self.stock, self.truth, self.rtol),
            ours=_answer(self.ours, self.truth, self.rtol),
            truth=plain(self.truth),
        )


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
    """A question, the lines that answer it, and a moral.

    >>> from pullback.tour import Line, Story
    >>> Story("Two and two?", [Line("sum", lambda: 5, lambda: 4, 4)]).tell()[0].ours.right
    True
    """

    question: str
    lines: Sequence[Line]
    moral: str = ""

    def tell(self) -> list[Outcome]:
        """Run every line."""
        return [line.run() for line in self.lines]

    def show(self) -> None:
        """Run every line, print the story, and fail when pullback did not give the true numbers."""
        from pullback.tour._render import print_story

        if not print_story(self, self.tell()):
            raise SystemExit(1)


def _answer(ask: Thunk, truth: Any, rtol: float) -> Answer:
    try:
        value = plain(ask())
    except Exception as error:
        return Answer(value=None, error=f"{type(error).__name__}: {error}", right=False)
    return Answer(value=value, error="", right=agrees(value, truth, rtol))


def plain(value: Any) -> Any:
    """Tensors to arrays, at any depth of dicts, lists and tuples; `None` and words stay."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return np.asarray(value)


def agrees(value: Any, truth: Any, rtol: float) -> bool:
    """The same structure and shapes, and numbers within `rtol`; a NaN agrees with nothing."""
    if value is None or isinstance(value, str) or truth is None:
        return value is truth or value == truth
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value)
        return items.keys() == truth.keys() and all(
            agrees(item, truth[key], rtol) for key, item in items.items()
        )
    if isinstance(value, list):
        parts = cast("list[Any]", value)
        return len(parts) == len(truth) and all(
            agrees(part, true, rtol) for part, true in zip(parts, truth, strict=True)
        )
    wanted = np.asarray(truth)
    return value.shape == wanted.shape and np.allclose(value, wanted, rtol=rtol, atol=0.0)
