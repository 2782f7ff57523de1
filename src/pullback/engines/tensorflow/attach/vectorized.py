"""Rules under tf.vectorized_map.

TensorFlow batches a loop body op by op, and its converter for IdentityN forgets the gradient. Ours traces the rule
of one iteration, finds which values of the loop body it uses, and maps that function over the batch in the backward
pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.registry import PREFIX
from pullback.engines.tensorflow.attach.splice import captures, splice, traced
from pullback.engines.tensorflow.attach.transposing import is_transposed
from pullback.extend import scatter


def install() -> None:
    """Put our converter in front of TensorFlow's own for IdentityN."""
    converters = private.pfor_converters()
    plain = converters["IdentityN"]

    def convert(pfor_input: Any, *others: Any) -> list[Any]:
        name = private.gradient_name_of(pfor_input.op)
        if not name.startswith(PREFIX):
            return plain(pfor_input, *others)
        return _Batched(pfor_input, name).outputs()

    converters["IdentityN"] = convert


class _Batched:
    """One spliced op of a loop body, for all iterations at once."""

    def __init__(self, pfor_input: Any, name: str) -> None:
        self.name = name
        self.loop = pfor_input.pfor
        self.operation = pfor_input.op
        self.gradient = private.gradient_registry.lookup(name)
        self.count = self.gradient.function.count
        pfor_input.stack_inputs(list(range(self.count)))
        self.inputs = [wrapped.t for wrapped in pfor_input.inputs]
        self.shared = [not wrapped.is_stacked for wrapped in pfor_input.inputs[self.count :]]
        self.present: list[bool] = []
        self.rule = self._trace()

    def outputs(self) -> list[Any]:
        """The batched outputs, with the batched rule behind them."""
        values, sources = self.inputs[: self.count], self.inputs[self.count :]
        fresh = splice(self.name, values, sources, self._backward, ready=self._keep_residuals)
        passed = zip(sources, self.shared, strict=True)
        return [
            *(private.pfor_wrap(t, True) for t in fresh),
            *(private.pfor_wrap(t, not shared) for t, shared in passed),
        ]

    def _keep_residuals(self, fresh: Sequence[Any]) -> None:
        """The values that the rule uses, batched; for an output of this very op, the new handle on it."""
        own = {id(t): (new, True) for t, new in zip(self.operation.outputs, fresh, strict=False)}
        graph = self.operation.graph
        self.residuals = {
            id(t): own.get(id(t)) or private.pfor_value(self.loop, graph, t)
            for t, used in captures(self.rule)
            if used
        }

    def _trace(self) -> Any:
        """The rule of one iteration, as a function of the upstream that captures what it uses."""

        def rule(*upstream: Any) -> list[Any]:
            gradients = self.gradient(self.operation, *upstream)[self.count :]
            self.present = [g is not None for g in gradients]
            return gradients

        with self.operation.graph.as_default():
            return traced(rule, self.operation.outputs[: self.count])

    def _backward(self, *upstream: Any) -> list[Any]:
        # A rule whose gradients become tangents is traced again: it then checks that it is linear.
        rule = self._trace() if is_transposed() else self.rule
        residuals = [
            self.residuals[id(t)] if used else (_any_like(t), False) for t, used in captures(rule)
        ]

        def one(elements: tuple[Sequence[Any], Sequence[Any]]) -> list[Any]:
            """The traced rule for one element of the batch."""
            own = iter(elements[1])
            captured = [next(own) if stacked else value for value, stacked in residuals]
            return private.call_with_captures(rule, list(elements[0]), captured)

        stacked = [value for value, is_stacked in residuals if is_stacked]
        there = [i for i, present in enumerate(self.present) if present]
        found = tf.vectorized_map(one, (list(upstream), stacked)) if there else []
        # What all iterations share gets the sum of their gradients.
        summed = [
            tf.reduce_sum(g, 0) if self.shared[i] else g for i, g in zip(there, found, strict=True)
        ]
        return scatter(len(self.present), there, summed)


def _any_like(tensor: Any) -> Any:
    """A tensor in place of one that nothing reads."""
    return tf.zeros([size or 1 for size in tensor.shape], tensor.dtype)
