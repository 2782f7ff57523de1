"""Which number of a model's output is explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pullback._tree import flatten
from pullback.errors import SaliencyError
from pullback.saliency.protocol import SaliencyEngine

Score = Callable[[Any], tuple[Any, Any]]


@dataclass(frozen=True)
class Target:
    """What `target=` means: nothing for the largest score, a place for each example, an index, or a function."""

    engine: SaliencyEngine
    places: Any = None  # one for each example
    index: tuple[Any, ...] | None = None
    function: Callable[[Any], Any] | None = None

    @property
    def is_chosen(self) -> bool:
        """Whether the scores decide."""
        return self.places is None and self.index is None and self.function is None

    def at(self, examples: Any) -> Target:
        """The target of some of the examples."""
        if self.places is None:
            return self
        taken = self.engine.take(self.places, examples)
        return Target(self.engine, places=taken)

    def fixed(self, chosen: Any) -> Target:
        """The target once the scores have decided."""
        return self if chosen is None else Target(self.engine, places=chosen)

    def __call__(self, outputs: Any) -> tuple[Any, Any]:
        """The score of each example, and what was chosen for it."""
        if self.function is not None:
            return _one_each(self.function(outputs), outputs), None
        output = _single(outputs)
        if self.index is not None:
            return self._at_index(output), None
        rank = len(output.shape)
        if self.is_chosen and (rank == 1 or (rank == 2 and output.shape[1] == 1)):
            return (output if rank == 1 else output[:, 0]), None
        if rank != 2:
            raise SaliencyError(
                f"the model's output has shape {_text(output)}; a target in it is an index behind the examples, such "
                f"as target={(0,) * max(rank - 1, 1)}, or a function of it that gives one number for each example."
            )
        places = self.engine.argmax(output) if self.is_chosen else self.places
        if not self.is_chosen:
            _require_inside(places, output)
        return self.engine.pick(output, places), places

    def _at_index(self, output: Any) -> Any:
        assert self.index is not None  # noqa: S101 - for the type checker
        if len(self.index) >= len(output.shape):
            raise SaliencyError(
                f"target={self.index} has {len(self.index)} numbers, and behind the examples the output of shape "
                f"{_text(output)} has {len(output.shape) - 1} axes."
            )
        for number, size in zip(self.index, output.shape[1:], strict=False):
            if isinstance(number, int) and size is not None and not -size <= number < size:
                raise SaliencyError(
                    f"target={self.index} lies outside of the output, of shape {_text(output)}."
                )
        found = output[(slice(None), *self.index)]
        return self.engine.sum_over(found, range(1, len(found.shape)))


def target_of(engine: SaliencyEngine, given: Any, count: int | None) -> Target:
    """What was written as `target=`."""
    if given is None:
        return Target(engine)
    if callable(given):
        return Target(engine, function=given)
    if isinstance(given, tuple):
        return Target(engine, index=_index(given))
    if hasattr(given, "shape") and not isinstance(given, np.ndarray) and engine.is_symbolic(given):
        return Target(engine, places=given)
    places = np.asarray(given)
    if places.dtype.kind not in "iu" or isinstance(given, bool) or places.ndim > 1:
        raise SaliencyError(
            f"target={given!r} is no target. Write nothing for the largest score, the number of a class, a list of one "
            "number for each example, a tuple for an index into the output, or a function of the output."
        )
    if count is None and places.ndim == 1:
        count = len(places)
    if places.ndim == 1 and len(places) != count:
        raise SaliencyError(
            f"target has {len(places)} numbers, and x has {count} examples; wanted one number for each, or a single "
            "one. An index into the output is a tuple."
        )
    if count is None:
        return Target(engine, index=(int(places),))
    return Target(engine, places=np.broadcast_to(places, (count,)))


def _index(given: tuple[Any, ...]) -> tuple[Any, ...]:
    for each in given:
        if not isinstance(each, (int, np.integer, slice)) or isinstance(each, bool):
            raise SaliencyError(
                f"target={given!r} is no index: wanted whole numbers or slices, one for each axis behind the examples."
            )
    return tuple(int(n) if isinstance(n, np.integer) else n for n in given)


def _single(outputs: Any) -> Any:
    leaves, _ = flatten(outputs)
    if len(leaves) != 1:
        raise SaliencyError(
            f"the model gives {len(leaves)} outputs. Write target as a function of them that gives one number for each "
            "example, such as `target=lambda outputs: outputs[0][:, 3]`."
        )
    if not len(leaves[0].shape):
        raise SaliencyError(
            "the model gives a single number; wanted one or more for each example of x."
        )
    return leaves[0]


def _one_each(scores: Any, outputs: Any) -> Any:
    if isinstance(scores, (np.ndarray, np.generic)):
        raise SaliencyError(
            "the function given as target returned a NumPy array, through which no gradient flows. Compute with the "
            "tensors that it gets, as in `lambda output: output[:, 3]`, and call neither np.asarray nor .numpy()."
        )
    count = flatten(outputs)[0][0].shape[0]
    shape = getattr(scores, "shape", None)
    if shape is None or len(shape) != 1 or shape[0] != count:
        raise SaliencyError(
            f"the function given as target returned {'no tensor' if shape is None else f'shape {tuple(shape)}'} for "
            f"{count} examples; wanted one number for each example, such as `lambda output: output[:, 3]`."
        )
    return scores


def _require_inside(places: Any, output: Any) -> None:
    size = output.shape[-1]
    if size is None or not isinstance(places, np.ndarray):
        places = np.asarray(places) if hasattr(places, "numpy") else None
    if size is None or places is None or not places.size:
        return
    if places.min() < 0 or places.max() >= size:
        worst = int(places.max()) if places.max() >= size else int(places.min())
        raise SaliencyError(
            f"target {worst} is none of the {size} classes of the output: they are 0 to {size - 1}."
        )


def _text(output: Any) -> str:
    return str(tuple(output.shape))
