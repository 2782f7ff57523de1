"""Gradients that are bad only where XLA compiles them: each op's gradient is compiled alone, on the recorded values.

Compiled code may differ where an op has no value: SqrtGrad(0, 0) is 0 in TensorFlow's kernel, and NaN under XLA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.explaining.sight import size_of
from pullback.engines.tensorflow.explaining.subject import Subject
from pullback.engines.tensorflow.probing.arguments import outputs_of
from pullback.engines.tensorflow.programs.operations import flat
from pullback.engines.tensorflow.tf_private import explaining, overriding
from pullback.extend import Event, Run, flow, sources

_MOST = 500  # ops that are compiled, each of which takes some hundredths of a second


def worse(
    subject: Subject, watched: Sequence[Any], truth: Mapping[sources.Entry, sources.Given | None]
) -> list[str]:
    """The sources whose gradients are not finite as the function is, compiled, and finite op by op."""
    with tf.GradientTape() as tape:
        tape.watch(watched)
        outputs = list(outputs_of(subject.run()).values())
    gradients = tape.gradient(outputs, [entry.thing for entry in truth])
    pairs = zip(gradients, truth.items(), strict=True)
    return [e.name for g, (e, t) in pairs if t and _is_bad(g) and t.size and t.size.is_finite]


def _is_bad(gradient: Any) -> bool:
    size = None if gradient is None else size_of(gradient)
    return size is not None and not size.is_finite


class Compiler:
    """Compiles the gradients of operations, one by one."""

    def __init__(self, made: Run) -> None:
        self.made, self.left = made, _MOST
        self.found: dict[Event, tuple[flow.Size | None, ...]] = {}

    def look(
        self, event: Event, upstream: Sequence[Any], passed: tuple[flow.Size | None, ...]
    ) -> None:
        """Note what an operation passes on when it is compiled, where that is not finite and was before."""
        function = private.registered_gradient(event.node.op)
        if event.node.raw.gradient is not None or function is None or not self.left:
            return
        self.left -= 1
        try:
            found = self._compiled(function, event, upstream)
        except Exception:  # what cannot be compiled alone is not what was compiled
            return
        sizes = tuple(None if g is None else size_of(g) for g in found)
        pairs = zip(sizes, passed, strict=False)
        if any(
            s is not None and not s.is_finite and e is not None and e.is_finite for s, e in pairs
        ):
            self.found[event] = (*sizes, *[None] * (len(event.inputs) - len(sizes)))

    def _compiled(self, function: Any, event: Event, upstream: Sequence[Any]) -> list[Any]:
        op, attrs = event.node.op, flat(event.node)
        taken, given = (
            [self.made.values[n] for n in numbers] for numbers in (event.inputs, event.outputs)
        )
        present = [dy for dy in upstream if dy is not None]
        moving = [k for k, t in enumerate(taken) if t.dtype.is_floating or t.dtype.is_complex]

        def gradient(given: list[Any], floats: list[Any], results: list[Any]) -> list[Any]:
            arrived = iter(given)
            spread = [None if dy is None else next(arrived) for dy in upstream]
            inputs = list(taken)
            for k, tensor in zip(moving, floats, strict=True):
                inputs[k] = tensor
            operation = overriding.mock_operation(op, attrs, inputs, results)
            found = function(operation, *explaining.zeros_where_missing(op, results, spread))
            found = list(found) if isinstance(found, (list, tuple)) else [found]
            shape.extend(g is not None for g in found)
            return [tf.convert_to_tensor(g) for g in found if g is not None]

        shape: list[bool] = []
        run = tf.function(gradient, jit_compile=True, autograph=False)
        tensors = (present, [taken[k] for k in moving], given)
        # Called like this, TensorFlow does not warn of many functions that are traced once.
        found = iter(run.get_concrete_function(*tensors)(*tensors))
        return [next(found) if there else None for there in shape]
