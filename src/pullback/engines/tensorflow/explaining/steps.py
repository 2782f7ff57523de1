"""Training steps: functions that take a gradient themselves. What is explained is that gradient."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Generator, Sequence
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.probing.arguments import outputs_of
from pullback.engines.tensorflow.tf_private import explaining_hooks
from pullback.engines.tensorflow.values import is_variable
from pullback.extend import flow


@dataclasses.dataclass(slots=True)
class Asked:
    """A gradient that the function asked a tape for."""

    tape: Any
    target: Any
    sources: list[Any]  # tensors and TensorFlow's variables
    upstream: Any
    position: tuple[int, int]  # how many operations had run, and how many values there were
    place: flow.Place | None
    found: list[Any]  # one for each source

    @property
    def outputs(self) -> list[Any]:
        """The tensors from which it starts."""
        return list(outputs_of(self.target).values())

    def upstreams(self) -> list[Any]:
        """What each of them starts with."""
        given = [] if self.upstream is None else tf.nest.flatten(self.upstream)
        ones = [tf.ones_like(y) for y in self.outputs]
        return [
            one if k >= len(given) or given[k] is None else tf.convert_to_tensor(given[k])
            for k, one in enumerate(ones)
        ]


class Gradients:
    """Sees what the function asks tapes for."""

    def __init__(
        self, position: Callable[[], tuple[int, int]], place: Callable[[Any], flow.Place | None]
    ) -> None:
        self._position, self._place = position, place
        self.asked: list[Asked] = []
        self.before: Callable[[], None] = _nothing  # called when a gradient is asked for
        self.traced = False  # whether one was asked for in a graph, where there are no numbers
        self.applied = False  # whether an optimizer was given gradients

    @contextlib.contextmanager
    def seen(self) -> Generator[None]:
        """Look on while this is open."""
        with (
            explaining_hooks.gradients_asked_seen(self._on_asked, self._on_given),
            explaining_hooks.gradients_applied(self._on_applied),
        ):
            yield

    def _on_applied(self) -> None:
        self.applied = True

    def _on_asked(self, call: dict[str, Any]) -> Asked | None:
        if not private.executing_eagerly():
            self.traced = True
            return None
        self.before()
        given = tf.nest.flatten(call["sources"], expand_composites=False)
        sources = [
            values.underlying(s) if is_variable(s) else values.gradient_tensor(s) for s in given
        ]
        place = self._place(explaining_hooks.calling_frame(2))
        upstream = call.get("output_gradients")
        return Asked(call["self"], call["target"], sources, upstream, self._position(), place, [])

    def _on_given(self, asked: Asked | None, found: Any) -> None:
        if asked is not None:
            flat = tf.nest.flatten(found, expand_composites=False)
            asked.found = [None if g is None else values.gradient_tensor(g) for g in flat]
            asked.found = [
                _sparse_kept(g, whole) for g, whole in zip(asked.found, flat, strict=True)
            ]
            self.asked.append(asked)


def _nothing() -> None:
    """Nothing more is wanted."""


def _sparse_kept(tensor: Any, whole: Any) -> Any:
    return whole if isinstance(whole, tf.IndexedSlices) else tensor


def is_training_step(fn: Any) -> bool:
    """Whether this is the training step of a Keras model."""
    owner = getattr(fn, "__self__", None)
    return isinstance(owner, keras.Model) and getattr(fn, "__name__", "") == "train_step"


def chosen(fn: Any, gradients: Gradients, result: Any, assigned: bool = False) -> Asked | None:
    """The gradient that is explained, if it is one that the function takes itself, as it does to change variables."""
    if not gradients.asked:
        return None
    outputs = list(outputs_of(result).values())
    own = {id(g) for asked in gradients.asked for g in _tensors(asked.found)}
    returned = bool(outputs) and all(id(y) in own for y in outputs)
    if is_training_step(fn) or gradients.applied or assigned or not outputs or returned:
        return gradients.asked[-1]
    # one that gives nothing is what there is to explain
    return next((asked for asked in gradients.asked if None in _known(asked.found)), None)


def _known(found: Sequence[Any]) -> list[bool | None]:
    """Whether there is one, for each: tensors cannot be looked for in a list."""
    return [None if g is None else True for g in found]


def _tensors(found: Sequence[Any]) -> list[Any]:
    return [g.values if isinstance(g, tf.IndexedSlices) else g for g in found if g is not None]


def scale_of(fn: Any) -> float | None:
    """What the optimizer multiplies the loss with, in mixed precision."""
    optimizer = getattr(getattr(fn, "__self__", None), "optimizer", None)
    if not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return None
    scale = optimizer.dynamic_scale if optimizer.built else optimizer.initial_scale
    found: Any = keras.ops.convert_to_numpy(scale)
    return float(found)
