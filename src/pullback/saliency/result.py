"""A saliency map as frozen data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pullback._tree import flatten, map_leaves
from pullback.errors import SaliencyError
from pullback.saliency.coverage import Coverage
from pullback.saliency.views import figure, page, panels

_FIGURES = (".png", ".svg", ".pdf")


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Saliency:
    """What `pb.saliency` returns: how much each entry of the input counts for the target, with its sign.

    >>> import numpy as np, pullback as pb, tensorflow as tf
    >>> found = pb.saliency(lambda x: x @ [[2.0], [-3.0]], np.ones((1, 2), "f"), method="gradient")
    >>> found.values.tolist()
    [[2.0, -3.0]]
    """

    method: str
    tensor: Any  # like x; of the framework, and differentiable
    x: Any
    target: Any = None  # of each example, where it is the number of a class
    score: Any = None  # of each example: what was differentiated
    layer: str | None = None
    of: str = "logit"
    # Of each example: what the sum of a map lacks, as a share of the change of the score from the baseline
    # ("integrated", "deeplift"), or of the score ("lrp").
    gap: Any = None
    # Of "lrp", by layer: what biases and stabilisers took of the relevance of each example; the most first.
    leaks: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    steps: int | None = None
    audit: Coverage | None = None
    note: str = ""

    @property
    def values(self) -> Any:
        """The map as NumPy arrays, in the structure of x; `None` for an input into which nothing flows."""
        return map_leaves(_numbers, self.tensor)

    def __repr__(self) -> str:
        shapes = [str(tuple(t.shape)) for t in flatten(self.tensor)[0] if t is not None]
        gap = "" if self.gap is None else f", gap {_largest(self.gap)}"
        said = f"\n{self.note}" if self.note else ""
        return f"<saliency by {self.method!r}, {', '.join(shapes)}{gap}>{said}"

    def show(
        self, example: int = 0, *, words: Any = None, width: int = 64, labels: Any = None
    ) -> None:
        """Print one example in the terminal, as a picture or as coloured words."""
        from pullback.saliency.views import terminal

        terminal.show(self._example(example, words, labels), width, self.note)

    def plot(
        self,
        example: int = 0,
        *,
        overlay: bool = True,
        axes: Any = None,
        words: Any = None,
        labels: Any = None,
    ) -> Any:
        """Draw one example with Matplotlib: the input, the map, and the map over the input; the figure."""
        return figure.plot(self._example(example, words, labels), overlay, axes)

    def save(
        self, path: str | Path, examples: Any = None, *, words: Any = None, labels: Any = None
    ) -> None:
        """Write the examples to a page (`.html`), or to a figure (`.png`, `.svg`, `.pdf`), which Matplotlib draws.

        `words` are those of an input that is a row of tokens: a list for one example, a list of lists for all, or a
        dict of such lists by input. `labels` are the names of the classes.
        """
        kind = Path(path).suffix.lower()
        if kind not in (".html", *_FIGURES):
            raise SaliencyError(
                f"{str(path)!r} is neither a .png nor a .html file, nor .svg or .pdf. "
                "Write for instance save('map.png')."
            )
        numbers = range(self._count()) if examples is None else np.atleast_1d(examples)
        found = [self._example(int(number), words, labels) for number in numbers]
        if kind == ".html":
            Path(path).write_text(page.page(found, self.note), encoding="utf-8")
        else:
            figure.save(found, path)

    def __rich__(self) -> Any:
        from pullback.saliency.views import terminal

        return terminal.drawn(self._example(0))

    def _repr_html_(self) -> str:
        return page.body([self._example(0)], self.note)

    def _count(self) -> int:
        return len(next(v for v in flatten(self.values)[0] if v is not None))

    def _example(self, number: int, words: Any = None, labels: Any = None) -> panels.Example:
        """One example, as pictures show it."""
        count, values = self._count(), self.values
        if not -count <= number < count:
            raise SaliencyError(f"there is no example {number}: there are {count}.")
        target, score, gap = (_entry(each, number) for each in (self.target, self.score, self.gap))
        return panels.Example(
            panels.title_of(self.method, target, score, self.layer, labels),
            panels.panels_of(map_leaves(_numbers, self.x), values, number, words),
            None if gap is None else float(gap),
        )


def _entry(values: Any, number: int) -> Any:
    """The entry of an example, where there is one."""
    return values[number] if isinstance(values, np.ndarray) and values.ndim == 1 else None


def _numbers(tensor: Any) -> Any:
    if tensor is None or isinstance(tensor, np.ndarray):
        return tensor
    if not hasattr(tensor, "numpy"):
        raise SaliencyError(
            "the numbers of this map are not known yet: a program is being traced. Return its `.tensor` from the "
            "traced function, and look at the numbers outside."
        )
    return np.asarray(tensor)


def _largest(gap: Any) -> str:
    return f"{np.max(gap):.2g}" if isinstance(gap, np.ndarray) else "not known yet"
