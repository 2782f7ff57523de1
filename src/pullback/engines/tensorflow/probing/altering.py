"""The gradient of a program with other operands in it, operation by operation: what follows from them is run again."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.probing.programs import traced
from pullback.engines.tensorflow.programs import rules
from pullback.engines.tensorflow.programs.alone import run_changed
from pullback.engines.tensorflow.programs.operations import Raw, dtypes
from pullback.extend import Node, NodeKind

# Programs of more numbers would take too long, and too much memory at many points.
_MOST_NUMBERS = 1_000_000

Nested = list[list[Any]]
Body = Callable[[Any, Any, Any], list[Any]]


class Altering:
    """A traced program of inputs, upstreams and operands that it holds; it gives every tensor."""

    def __init__(self, body: Body, xs: list[Any], ws: list[Any], held: Nested) -> None:
        self.body = body
        self.program = traced(self._every, xs, ws, held)
        self.number = {t.ref(): k for k, t in enumerate(self.tensors)}
        wanted = needed(self.found)
        self.ops = [op for op in self.graph.get_operations() if op in wanted and op.inputs]
        self.nodes = list(map(_node, self.ops))

    def _every(self, xs: Any, ws: Any, held: Any) -> list[Any]:
        self.found, self.held = self.body(xs, ws, held), held
        self.graph: Any = tf.compat.v1.get_default_graph()
        self.tensors = [t for op in self.graph.get_operations() for t in op.outputs]
        if sum(t.shape.num_elements() or 0 for t in self.tensors) > _MOST_NUMBERS:
            raise ValueError("the program is too large")
        return self.tensors

    def at(self, xs: list[Any], ws: list[Any], held: Nested) -> Callable[[Nested], list[Any]]:
        """The results there, as a function of what the program holds."""
        values = self.program(xs, ws, held)

        def altered(others: Nested) -> list[Any]:
            new: dict[int, Any] = {}
            for mine, theirs in zip(self.held, others, strict=True):
                for symbol, value in zip(mine, theirs, strict=True):
                    number = self.number[symbol.ref()]
                    if not is_same(values[number], value):
                        new[number] = value
            self._follow(values, new)
            return [new.get(k, values[k]) for k in (self.number[t.ref()] for t in self.found)]

        return altered

    def _follow(self, values: Sequence[Any], new: dict[int, Any]) -> None:
        for k, op in enumerate(self.ops):
            which = [self.number[t.ref()] for t in op.inputs]
            if any(t in new for t in which):
                taken = [new.get(t, values[t]) for t in which]
                made = run_changed(self.nodes[k], taken, [values[t] for t in which], "")
                new |= {self.number[t.ref()]: y for t, y in zip(op.outputs, made, strict=True)}


def is_same(value: Any, other: Any) -> bool:
    """Whether two tensors hold the same."""
    return value.shape == other.shape and bool(tf.reduce_all(tf.equal(value, other)))


def needed(tensors: Sequence[Any]) -> set[Any]:
    """All operations that tensors come from."""
    found: set[Any] = set()
    left = [t.op for t in tensors]
    while left:
        op = left.pop()
        if op not in found:
            found.add(op)
            left += [t.op for t in op.inputs]
    return found


def _node(op: Any) -> Node:
    inputs, outputs = (tuple(range(len(ts))) for ts in (op.inputs, op.outputs))
    raw = Raw(dtypes(op.inputs), dtypes(op.outputs), op)
    return Node(NodeKind.OPERATION, op.type, op.name, inputs, outputs, rules.NONE, raw=raw)
