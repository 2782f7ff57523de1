"""A story, its file, and what came of it, as data; needs no framework."""

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

_HERE = Path(__file__).resolve().parent


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
        return Outcome(self.name, self._answer(stock), self._answer(ours), plain(self.truth))

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
class Told:
    """A story that was told: its number, the file it lies in, and what came of each line."""

    number: int
    path: Path
    story: "Story"
    outcomes: Sequence[Outcome]

    @property
    def ours_is_right(self) -> bool:
        """Whether all of pullback's numbers are the true ones."""
        return all(outcome.ours.right for outcome in self.outcomes)

    @property
    def stock_is_right(self) -> bool:
        """Whether all of the framework's are."""
        return all(outcome.stock.right for outcome in self.outcomes)


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
    picture: Callable[[], Any] | None = None  # something that rich prints

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


def find_stories() -> list[Path]:
    """The files of all stories, in their order.

    >>> from pullback.tour import find_stories
    >>> find_stories()[0].name.startswith("story01")
    True
    """
    # in the wheel beside this file, in a working tree under `examples/`
    shipped, beside_src = _HERE / "examples", _HERE.parents[2] / "examples"
    return sorted((shipped if shipped.is_dir() else beside_src).glob("story[0-9][0-9]_*.py"))


def load_story(path: Path) -> Story:
    """Run a story's file and return its `story`.

    >>> from pullback.tour import find_stories, load_story
    >>> load_story(find_stories()[0]).question.endswith("?")
    True
    """
    return run_file(path, path.stem).story


def run_file(path: Path, name: str) -> ModuleType:
    """A file as a module under this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
