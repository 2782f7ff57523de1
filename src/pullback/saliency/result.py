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
from pullback.saliency.views import page, pictures, plot


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
    layer: str | None = None
    of: str = "logit"
    # Of each example: what the sum of a map lacks, as a share of the change of the score ("integrated"), or of the
    # largest of what is added up ("deeplift", "lrp").
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

    def show(self, example: int = 0, *, words: Any = None, width: int = 64) -> None:
        """Print one example in the terminal, as a picture or as coloured words."""
        from pullback.saliency.views import terminal

        terminal.show(self._pair(example), words, width, self.note)

    def plot(self, example: int = 0, *, overlay: bool = True, axes: Any = None) -> Any:
        """Draw one example with Matplotlib: the input, the map, and the map over the input; the figure."""
        return plot.plot(self._pair(example), self.method, overlay, axes)

    def save(self, path: str | Path, examples: Any = None) -> None:
        """Write pictures of the examples to a `.png` or `.html` file."""
        kind = Path(path).suffix.lower()
        if kind not in (".png", ".html"):
            raise SaliencyError(
                f"{str(path)!r} is neither a .png nor a .html file. Write for instance save('map.png')."
            )
        numbers = range(self._count()) if examples is None else np.atleast_1d(examples)
        pairs = [self._pair(int(number)) for number in numbers]
        if kind == ".png":
            Path(path).write_bytes(pictures.png(pictures.stacked(pairs)))
        else:
            Path(path).write_text(page.page(pairs, repr(self)), encoding="utf-8")

    def __rich__(self) -> Any:
        from pullback.saliency.views import terminal

        return terminal.drawn(self._pair(0))

    def _repr_html_(self) -> str:
        return page.body([self._pair(0)], repr(self))

    def _count(self) -> int:
        return len(next(v for v in flatten(self.values)[0] if v is not None))

    def _pair(self, example: int) -> tuple[np.ndarray, np.ndarray]:
        """One example of the first input that has a map, and its map."""
        values = flatten(self.values)[0]
        inputs = [_numbers(x) for x in flatten(self.x)[0]]
        found = [(x, v) for x, v in zip(inputs, values, strict=False) if v is not None]
        x, value = found[0]
        if not -len(value) <= example < len(value):
            raise SaliencyError(f"there is no example {example}: there are {len(value)}.")
        return x[example], value[example]


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
