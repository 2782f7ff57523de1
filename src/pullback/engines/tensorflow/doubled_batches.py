"""Batches of which the second half are the baselines of the first, and along which axis they lie.

An operation's output tells where: along its first axis, unless only another one has the size of the batch, as in
recurrent programs that have the steps first. An operand that is broadcast there is the same for all examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


def axis_of(x: Any, batch: int | None) -> int:
    """The axis of the examples."""
    sizes = x.shape.as_list()
    return sizes.index(batch) if batch is not None and batch in sizes else 0


def halves(x: Any, axis: int = 0) -> tuple[Any, Any]:
    """The examples and their baselines."""
    first, second = tf.split(x, 2, axis)
    return first, second


def joined(first: Any, second: Any, axis: int = 0) -> Any:
    """Examples and baselines in one batch."""
    return tf.concat([first, second], axis)


def doubled(x: Any, axis: int = 0) -> Any:
    """The same for an example and its baseline."""
    return joined(x, x, axis)


def swapped(x: Any, axis: int | None) -> Any:
    """Baselines in place of examples and examples in place of baselines; what has no such axis as it is."""
    if axis is None:
        return x
    first, second = halves(x, axis)
    return joined(second, first, axis)


def mean_of_halves(x: Any, axis: int | None) -> Any:
    """The mean of an example and its baseline, in both places."""
    return x if axis is None else (x + swapped(x, axis)) / 2


def axes_of_operands(
    op: Any, attrs: Any, operands: Sequence[Any], output: Any, batch: int | None
) -> list[int | None]:
    """Of each operand of a product or the like the axis of its examples, or nothing if it is the same for all."""
    axes = _aligned_axes(op.type, attrs, operands, output, batch)
    if not op.varies:
        return axes
    return [axis if varies else None for axis, varies in zip(axes, op.varies, strict=True)]


def _aligned_axes(
    op_type: str, attrs: Any, operands: Sequence[Any], output: Any, batch: int | None
) -> list[int | None]:
    axis = axis_of(output, batch)
    if op_type == "Einsum":
        return _axes_in_equation(attrs["equation"], axis, [x.shape.rank for x in operands])
    rank = output.shape.rank
    if op_type in _MATRICES and axis >= rank - 2:  # examples are rows or columns
        row = rank - 2 if not attrs[_MATRICES[op_type][0]] else rank - 1
        column = rank - 1 if not attrs[_MATRICES[op_type][1]] else rank - 2
        return [row, None] if axis == rank - 2 else [None, column]
    return [_aligned(x, axis - rank + x.shape.rank, output.shape[axis]) for x in operands]


def _aligned(operand: Any, axis: int, size: int | None) -> int | None:
    return axis if axis >= 0 and (size is None or operand.shape[axis] == size) else None


def _axes_in_equation(equation: str, axis: int, ranks: Sequence[int]) -> list[int | None]:
    operands, _, output = equation.replace(" ", "").partition("->")
    if output.startswith("..."):
        starts = [each.startswith("...") for each in operands.split(",")]
        more = [rank > len(e) - 3 for e, rank in zip(operands.split(","), ranks, strict=True)]
        return [0 if s and m else None for s, m in zip(starts, more, strict=True)]
    label = output[axis]
    return [e.index(label) if label in e else None for e in operands.split(",")]


def pulled_back(op_type: str, attrs: Any, at: Sequence[Any], upstream: Any) -> list[Any]:
    """What the ordinary gradient of a product gives at other operands."""
    with tf.GradientTape() as tape:
        tape.watch(at)
        y = _PRODUCTS[op_type](at, attrs)
    return tape.gradient(y, at, output_gradients=upstream)


_MATRICES = {"MatMul": ("transpose_a", "transpose_b"), "BatchMatMulV2": ("adj_x", "adj_y")}
_PRODUCTS: dict[str, Callable[[Sequence[Any], Any], Any]] = {
    "Mul": lambda at, _: tf.multiply(*at),
    "MatMul": lambda at, k: tf.raw_ops.MatMul(
        a=at[0], b=at[1], transpose_a=k["transpose_a"], transpose_b=k["transpose_b"]
    ),
    "BatchMatMulV2": lambda at, k: tf.raw_ops.BatchMatMulV2(
        x=at[0], y=at[1], adj_x=k["adj_x"], adj_y=k["adj_y"]
    ),
    "Einsum": lambda at, k: tf.raw_ops.Einsum(inputs=list(at), equation=k["equation"]),
}
