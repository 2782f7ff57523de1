"""A loop as one operation: run by its kernel, differentiated in a graph that is made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.programs import operations
from pullback.engines.tensorflow.programs.operations import Raw
from pullback.engines.tensorflow.tf_private import explaining, looping
from pullback.extend import Node, NodeKind, Program

# What a graph lacks: a function's definition, a gradient of an operation.
_LACKING = (LookupError,)


def run_loop(node: Node, inputs: Sequence[Any]) -> list[Any] | None:
    """Its results; nothing for what is only run operation by operation."""
    return operations.run(node, inputs, "") if _is_one(node) else None


def loop_vjp(node: Node, inputs: Sequence[Any], upstream: Sequence[Any]) -> list[Any] | None:
    """The gradients of its inputs; nothing for what is only differentiated operation by operation."""
    raw: Raw = node.raw
    arrived = tuple(k for k, g in enumerate(upstream) if g is not None)
    if not _is_one(node):
        return None
    if arrived not in raw.pulled:
        raw.pulled[arrived] = _pulled(raw.operation, arrived)
    pull = raw.pulled[arrived]
    given = [tf.convert_to_tensor(upstream[k]) for k in arrived]
    return None if pull is None else pull([*inputs, *given])


def _is_one(node: Node) -> bool:
    """Whether it is as it was when it was read, and what loops and calls in it read are tensors of numbers.

    Differentiating a loop by a tape adds to it; what is read of definitions does not say what a handle or list holds.
    """
    operation = node.raw.operation
    as_read = len(operation.inputs) == len(node.inputs) == len(node.outputs)
    return (
        as_read
        and len(operation.outputs) == len(node.outputs)
        and not any(map(_has_handles, node.bodies))
    )


def _has_handles(program: Program) -> bool:
    return any(
        node.kind is NodeKind.CALL
        or any(program.values[v].dtype in ("resource", "variant") for v in node.inputs)
        or any(map(_has_handles, node.bodies))
        for node in program.nodes
        if node.kind is not NodeKind.OPERATION
    )


def _pulled(operation: Any, arrived: Sequence[int]) -> Callable[[list[Any]], list[Any]] | None:
    """The gradients as a function of the inputs and of what arrives at these results."""
    graph = explaining.new_graph_inside(operation.graph, f"gradient_of_{operation.type}")
    with graph.as_default():
        inputs = [looping.placeholder_like(t) for t in operation.inputs]
        results = [operation.outputs[k] for k in arrived]
        upstream = [looping.placeholder_like(t) for t in results]
        try:
            made = looping.made_again(operation, inputs)
            ys = [made.outputs[k] for k in arrived]
            found: list[Any] = tf.gradients(ys, inputs, upstream)
        except _LACKING:
            return None
        outputs = [None if g is None else tf.convert_to_tensor(g) for g in found]
    graph.inputs = [*inputs, *upstream]
    graph.outputs = [g for g in outputs if g is not None]
    if graph.external_captures or not graph.outputs:
        return None
    function = looping.function_of(graph)

    def pull(given: list[Any]) -> list[Any]:
        each = iter(function(*given))
        return [None if g is None else next(each) for g in outputs]

    return pull
