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
from pullback.engines.tensorflow.attach.splice import splice
from pullback.engines.tensorflow.attach.transposing import is_transposed


def install() -> None:
    """Put our converter in front of TensorFlow's own for IdentityN."""
    registry = private.pfor_converters()
    plain = registry["IdentityN"]

    def convert(pfor_input: Any, *others: Any) -> list[Any]:
        name = _gradient_name(pfor_input.op)
        if not name.startswith(PREFIX):
            return plain(pfor_input, *others)
        return _Batched(pfor_input, name).outputs()

    registry["IdentityN"] = convert


class _Batched:
    """One spliced op of a loop body, for all iterations at once."""

    def __init__(self, pfor_input: Any, name: str) -> None:
        self.name = name
        self.operation = pfor_input.op
        self.gradient = private.gradient_registry.lookup(name)
        self.count = self.gradient.function.count
        pfor_input.stack_inputs(list(range(self.count)))
        self.inputs = [wrapped.t for wrapped in pfor_input.inputs]
        self.shared = [not wrapped.is_stacked for wrapped in pfor_input.inputs[self.count :]]
        self.rule = self._trace()
        self.residuals = {
            id(t): self._residual(pfor_input.pfor, t) for t in self.rule.captured_inputs
        }

    def _residual(self, loop: Any, tensor: Any) -> tuple[Any, bool]:
        """A value that the rule uses, batched; for an output of this very op, its position."""
        for position, own in enumerate(self.operation.outputs[: self.count]):
            if tensor is own:
                return position, True
        return private.pfor_value(loop, self.operation.graph, tensor)

    def outputs(self) -> list[Any]:
        """The batched outputs, with the batched rule behind them."""
        values, sources = self.inputs[: self.count], self.inputs[self.count :]
        fresh = splice(self.name, values, sources, self._backward)
        self.residuals = {
            key: (fresh[r] if isinstance(r, int) else r, stacked)
            for key, (r, stacked) in self.residuals.items()
        }
        batched = [private.pfor_wrap(t, True) for t in fresh]
        passed = zip(sources, self.shared, strict=True)
        return [*batched, *(private.pfor_wrap(t, not shared) for t, shared in passed)]

    def _trace(self) -> Any:
        """The rule of one iteration, as a function of the upstream that captures what it uses."""
        self.present: list[bool] = []

        def rule(*upstream: Any) -> list[Any]:
            gradients = self.gradient(self.operation, *upstream)[self.count :]
            self.present[:] = [g is not None for g in gradients]
            return [tf.convert_to_tensor(g) for g in gradients if g is not None]

        specs = [tf.TensorSpec(t.shape, t.dtype) for t in self.operation.outputs[: self.count]]
        with self.operation.graph.as_default():
            return tf.function(rule, autograph=False).get_concrete_function(*specs)

    def _backward(self, *upstream: Any) -> list[Any]:
        # A rule whose gradients become tangents is traced anew: it then checks that it is linear.
        rule = self._trace() if is_transposed() else self.rule
        residuals = [self.residuals[id(t)] for t in rule.captured_inputs]
        one = _One(rule, residuals)
        stacked = [value for value, is_stacked in residuals if is_stacked]
        gradients = iter(
            tf.vectorized_map(one, (list(upstream), stacked)) if any(self.present) else []
        )
        found = [next(gradients) if there else None for there in self.present]
        return [
            _summed(g) if shared and g is not None else g
            for g, shared in zip(found, self.shared, strict=True)
        ]


class _One:
    """The traced rule for one element of the batch."""

    def __init__(self, rule: Any, residuals: Sequence[tuple[Any, bool]]) -> None:
        self._rule = rule
        self._residuals = residuals

    def __call__(self, elements: tuple[Sequence[Any], Sequence[Any]]) -> list[Any]:
        upstream, stacked = elements
        own = iter(stacked)
        captured = [next(own) if is_stacked else value for value, is_stacked in self._residuals]
        return private.call_with_captures(self._rule, list(upstream), captured)


def _summed(gradient: Any) -> Any:
    """What all iterations share gets the sum of their gradients."""
    return tf.reduce_sum(gradient, 0)


def _gradient_name(operation: Any) -> str:
    try:
        return operation.get_attr("_gradient_op_type").decode()
    except ValueError:
        return ""
