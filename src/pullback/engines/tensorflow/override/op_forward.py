"""Forward mode through overridden ops: the transpose of the rule, refused where the rule is not
linear.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.forward import refuse_nonlinear, transposed
from pullback.engines.tensorflow.attach.splice import splice
from pullback.engines.tensorflow.attach.transposing import is_transposed, runs_user_code
from pullback.engines.tensorflow.override.scope import suspended

Backward = Callable[..., list[Any]]


class OpTangents:
    """The tangents of an op's outputs for tangents of its inputs."""

    __slots__ = ("_backward", "_name", "_outputs", "_rule")

    def __init__(self, backward: Backward, outputs: Sequence[Any], rule: Any, name: str) -> None:
        self._backward = backward
        self._outputs = outputs
        self._rule = rule
        self._name = name

    @runs_user_code  # the rule is checked here, once
    def __call__(self, *tangents: Any) -> list[Any]:
        with suspended(), private.push_forwardprop_state():
            zeros = [tf.zeros_like(self._outputs[i]) for i in self._flowing]
            out = transposed(self._spread, zeros, tangents)
            out = refuse_nonlinear(out, self._present, zeros, self._rule, self._name)
        found = dict(zip(self._flowing, out, strict=True))
        return [found.get(i) for i in range(len(self._outputs))]

    @property
    def _flowing(self) -> list[int]:
        return [i for i, t in enumerate(self._outputs) if t.dtype.is_floating or t.dtype.is_complex]

    def _spread(self, *upstream: Any) -> list[Any]:
        given = dict(zip(self._flowing, upstream, strict=True))
        return self._backward(*(given.get(i) for i in range(len(self._outputs))))

    def _present(self, upstream: Sequence[Any]) -> list[Any]:
        return [tf.convert_to_tensor(g) for g in self._spread(*upstream) if g is not None]


def linear_if_transposed(
    backward: Backward, gradients: list[Any], upstream: Sequence[Any], rule: Any, name: str
) -> Any:
    """The gradients; where they will be transposed into forward mode, checked to be linear in the upstream."""
    if not is_transposed():
        return gradients
    given = [dy for dy in upstream if dy is not None]

    def present(some: Sequence[Any]) -> list[Any]:
        values = iter(some)
        found = backward([None if dy is None else next(values) for dy in upstream])
        return [tf.convert_to_tensor(g) for g in found if g is not None]

    return refuse_nonlinear(gradients, present, given, rule, name)


def with_second(
    call: Any,
    gradients: list[Any],
    upstream: Sequence[Any],
    again: Any,
    second: Callable[..., list[Any]],
) -> list[Any]:
    """Gradients with the derivative that the rule gives for them: towards the inputs by `second`."""
    inputs, given = list(call.inputs or ()), [i for i, dy in enumerate(upstream) if dy is not None]
    present = [i for i, g in enumerate(gradients) if g is not None]
    values = [tf.convert_to_tensor(gradients[i]) for i in present]

    def derivative(*doubled: Any) -> list[Any]:
        spread: list[Any] = [None] * len(gradients)
        for index, dd in zip(present, doubled, strict=True):
            spread[index] = dd
        full = [
            tf.zeros_like(t) if dd is None else dd for dd, t in zip(spread, inputs, strict=True)
        ]
        along = transposed(
            _of_present(again, upstream, given), [upstream[i] for i in given], spread
        )
        return [*along, *second(*full)]

    fresh = splice(
        f"{call.type}_gradient", values, [*(upstream[i] for i in given), *inputs], derivative
    )
    for index, gradient in zip(present, fresh, strict=True):
        gradients[index] = gradient
    return gradients


def _of_present(
    again: Any, upstream: Sequence[Any], given: Sequence[int]
) -> Callable[..., list[Any]]:
    def function(*dys: Any) -> list[Any]:
        full = list(upstream)
        for index, dy in zip(given, dys, strict=True):
            full[index] = dy
        return again(full)

    return function
