"""An operation with one option taken wrongly: another axis, the other direction, an operand transposed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

# How it was taken, and what makes the operation so: its result, or a cotangent.
Variant = tuple[str, Callable[[], Any]]


def variants_of(
    op: Any, inputs: Sequence[Any], edges: Sequence[Any], upstream: Sequence[Any]
) -> Iterator[tuple[str, list[Any]]]:
    """How an operation was taken, and the cotangents of its inputs that follow."""
    for how, make in _TABLE[op.type](op, *inputs) if op.type in _TABLE else ():
        try:
            made = make()
        except (ValueError, TypeError, tf.errors.InvalidArgumentError):
            continue  # the shapes do not allow it
        if isinstance(made, _Cotangent):
            yield how, [made.of(upstream[0]), *([None] * (len(edges) - 1))]
        elif made.shape == upstream[0].shape:
            yield how, tf.gradients(made, edges, upstream)


class _Cotangent:
    """A cotangent that is written down, where no function has it."""

    def __init__(self, of: Callable[[Any], Any]) -> None:
        self.of = of


def _softmax(op: Any, x: Any) -> Iterator[Variant]:
    function = tf.nn.softmax if op.type == "Softmax" else tf.nn.log_softmax
    y = function(x)

    def with_sum(reduce: Any, axis: int) -> _Cotangent:
        if op.type == "Softmax":
            return _Cotangent(lambda w: y * (w - reduce(w * y, axis, keepdims=True)))
        return _Cotangent(lambda w: w - tf.exp(y) * reduce(w, axis, keepdims=True))

    for axis in range(len(x.shape) - 1):
        yield f"taken along axis {axis} of its operand, not the last", lambda k=axis: function(x, k)
        yield (
            f"with its sum along axis {axis} of its operand, not the last",
            lambda k=axis: with_sum(tf.reduce_sum, k),
        )
    yield "with the mean in place of its sum", lambda: with_sum(tf.reduce_mean, -1)


def _cumulative(op: Any, x: Any, axis: Any) -> Iterator[Variant]:
    function = tf.cumsum if op.type == "Cumsum" else tf.math.cumprod
    reverse, exclusive = op.get_attr("reverse"), op.get_attr("exclusive")
    yield "accumulated in the wrong direction", lambda: function(x, axis, exclusive, not reverse)
    yield "with exclusive the other way", lambda: function(x, axis, not exclusive, reverse)
    for k in range(len(x.shape)):
        yield f"taken along axis {k}", lambda k=k: function(x, k, exclusive, reverse)


def _reduction(op: Any, x: Any, _axis: Any) -> Iterator[Variant]:
    function = {
        "Sum": tf.reduce_sum,
        "Mean": tf.reduce_mean,
        "Max": tf.reduce_max,
        "Min": tf.reduce_min,
    }[op.type]
    keep = op.get_attr("keep_dims")
    for k in range(len(x.shape)):
        yield f"taken along axis {k}", lambda k=k: function(x, k, keep)


def _product(op: Any, a: Any, b: Any) -> Iterator[Variant]:
    names = ("transpose_a", "transpose_b") if op.type == "MatMul" else ("adj_x", "adj_y")
    ta, tb = map(op.get_attr, names)
    yield "with its first operand transposed", lambda: tf.matmul(a, b, not ta, tb)
    yield "with its second operand transposed", lambda: tf.matmul(a, b, ta, not tb)
    yield "with both operands transposed", lambda: tf.matmul(a, b, not ta, not tb)
    yield "with its operands in the other order", lambda: tf.matmul(b, a, ta, tb)


def _solve(op: Any, a: Any, b: Any) -> Iterator[Variant]:
    adjoint = op.get_attr("adjoint")
    if op.type == "MatrixSolve":
        yield "with its matrix transposed", lambda: tf.linalg.solve(a, b, not adjoint)
    else:
        lower = op.get_attr("lower")
        yield (
            "with its matrix transposed",
            lambda: tf.linalg.triangular_solve(a, b, lower, not adjoint),
        )


def _gather(_op: Any, table: Any, indices: Any, _axis: Any = None) -> Iterator[Variant]:
    """Rows that are taken several times."""
    flat = tf.reshape(indices, [-1])
    rows = [-1, *table.shape[1:]]

    def overwritten(w: Any) -> Any:
        return tf.tensor_scatter_nd_update(tf.zeros_like(table), flat[:, None], tf.reshape(w, rows))

    def averaged(w: Any) -> Any:
        return tf.math.unsorted_segment_mean(tf.reshape(w, rows), flat, table.shape[0])

    several = "where an index occurs several times"
    yield f"with the last in place of the sum {several}", lambda: _Cotangent(overwritten)
    yield f"with the mean in place of the sum {several}", lambda: _Cotangent(averaged)


_TABLE: dict[str, Callable[..., Iterator[Variant]]] = {
    **dict.fromkeys(["Softmax", "LogSoftmax"], _softmax),
    **dict.fromkeys(["Cumsum", "Cumprod"], _cumulative),
    **dict.fromkeys(["Sum", "Mean", "Max", "Min"], _reduction),
    **dict.fromkeys(["MatMul", "BatchMatMulV2"], _product),
    **dict.fromkeys(["MatrixSolve", "MatrixTriangularSolve"], _solve),
    **dict.fromkeys(["GatherV2", "ResourceGather"], _gather),
}
