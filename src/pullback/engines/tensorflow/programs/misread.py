"""The derivative of an operation taken wrongly: along another axis, the other way, with an operand transposed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import Node

# How it was taken, and what makes the operation so: its result, or a cotangent.
Variant = tuple[str, Callable[[], Any]]


# Indices that may occur several times; of more there would be too many pairs.
_MOST_INDICES = 1_000
# What a reader of the rule is to look for.
_DOUBT = " (a transposition is missing, or one too many)"


def misread(
    node: Node, inputs: Sequence[Any], upstream: Sequence[Any]
) -> list[tuple[str, Sequence[Any]]]:
    """How an operation was taken, and the gradients of its inputs that follow."""
    return list(_misread(node, inputs, upstream))


def _misread(
    node: Node, inputs: Sequence[Any], upstream: Sequence[Any]
) -> Iterator[tuple[str, Sequence[Any]]]:
    if node.op not in _TABLE:
        return
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([t for t in inputs if t.dtype.is_floating or t.dtype.is_complex])
        ways = [(how, _unless_refused(make)) for how, make in _TABLE[node.op](node, *inputs)]
    for how, made in ways:
        if isinstance(made, _Cotangent):
            found = made.of(upstream[0])
            yield how, [*found, *[None] * (len(inputs) - len(found))]
        elif made is not None and made.shape == upstream[0].shape:
            yield how, tape.gradient(made, list(inputs), upstream[0])


def _unless_refused(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except (ValueError, TypeError, tf.errors.InvalidArgumentError):
        return None  # the shapes do not allow it


class _Cotangent:
    """Cotangents of the first inputs that are written down, where no function has them."""

    def __init__(self, of: Callable[[Any], Any]) -> None:
        self.of = of


def _softmax(node: Node, x: Any) -> Iterator[Variant]:
    function = tf.nn.softmax if node.op == "Softmax" else tf.nn.log_softmax
    y = function(x)

    def with_sum(reduce: Any, axis: int) -> _Cotangent:
        if node.op == "Softmax":
            return _Cotangent(lambda w: [y * (w - reduce(w * y, axis, keepdims=True))])
        return _Cotangent(lambda w: [w - tf.exp(y) * reduce(w, axis, keepdims=True)])

    for axis in range(len(x.shape) - 1):
        yield f"taken along axis {axis} of its operand, not the last", lambda k=axis: function(x, k)
        yield (
            f"with its sum along axis {axis} of its operand, not the last",
            lambda k=axis: with_sum(tf.reduce_sum, k),
        )
    yield "with the mean in place of its sum", lambda: with_sum(tf.reduce_mean, -1)


def _cumulative(node: Node, x: Any, axis: Any) -> Iterator[Variant]:
    function = tf.cumsum if node.op == "Cumsum" else tf.math.cumprod
    reverse, exclusive = node.raw.attributes["reverse"], node.raw.attributes["exclusive"]
    yield "accumulated in the wrong direction", lambda: function(x, axis, exclusive, not reverse)
    yield "with exclusive the other way", lambda: function(x, axis, not exclusive, reverse)
    for k in range(len(x.shape)):
        yield f"taken along axis {k}", lambda k=k: function(x, k, exclusive, reverse)


def _reduction(node: Node, x: Any, axis: Any) -> Iterator[Variant]:
    function = {
        "Sum": tf.reduce_sum,
        "Mean": tf.reduce_mean,
        "Max": tf.reduce_max,
        "Min": tf.reduce_min,
    }[node.op]
    keep = node.raw.attributes["keep_dims"]
    for k in range(len(x.shape)):
        yield f"taken along axis {k}", lambda k=k: function(x, k, keep)
    axes = np.ravel(axis)
    if node.op in ("Max", "Min") and axes.size == 1:
        yield from _given_to(x, int(axes[0]) % len(x.shape), keep)


def _given_to(x: Any, axis: int, keep: bool) -> Iterator[Variant]:
    """The upstream of a largest or smallest entry given to others."""
    size, shape = x.shape[axis], [-1] + [1] * (len(x.shape) - axis - 1)
    ways = {
        "given to the first entry": tf.one_hot(0, size, dtype=x.dtype),
        "given to the last entry": tf.one_hot(size - 1, size, dtype=x.dtype),
        "given to every entry": tf.ones([size], x.dtype),
        "shared among all entries": tf.ones([size], x.dtype) / size,
    }
    for how, weights in ways.items():
        weight = tf.reshape(weights, shape) + tf.zeros_like(x)

        def to(w: Any, weight: Any = weight) -> list[Any]:
            return [weight * (w if keep else tf.expand_dims(w, axis))]

        yield f"with its upstream {how} along axis {axis}", lambda t=to: _Cotangent(t)


def _padded(node: Node, x: Any, paddings: Any) -> Iterator[Variant]:
    other = "SYMMETRIC" if tf.compat.as_str(node.raw.attributes["mode"]) == "REFLECT" else "REFLECT"
    how = "as if zeros were padded: what belongs to the mirrored borders is lost"
    yield how, lambda: tf.pad(x, paddings)
    yield f"as if its mode were {other}", lambda: tf.pad(x, paddings, other)


def _product(node: Node, a: Any, b: Any) -> Iterator[Variant]:
    names = ("transpose_a", "transpose_b") if node.op == "MatMul" else ("adj_x", "adj_y")
    ta, tb = (node.raw.attributes[name] for name in names)
    yield f"as if its first operand were transposed{_DOUBT}", lambda: tf.matmul(a, b, not ta, tb)
    yield f"as if its second operand were transposed{_DOUBT}", lambda: tf.matmul(a, b, ta, not tb)
    yield "as if both operands were transposed", lambda: tf.matmul(a, b, not ta, not tb)
    yield "with its operands in the other order", lambda: tf.matmul(b, a, ta, tb)


def _solve(node: Node, a: Any, b: Any) -> Iterator[Variant]:
    adjoint = node.raw.attributes["adjoint"]

    def solve(b: Any, adjoint: bool) -> Any:
        if node.op == "MatrixSolve":
            return tf.linalg.solve(a, b, adjoint)
        return tf.linalg.triangular_solve(a, b, node.raw.attributes["lower"], adjoint)

    def not_turned(w: Any) -> list[Any]:
        left, right = solve(w, adjoint), solve(b, adjoint)
        pair = (right, left) if adjoint else (left, right)
        return [-tf.matmul(*pair, adjoint_b=True), left]

    yield f"as if its matrix were transposed{_DOUBT}", lambda: solve(b, not adjoint)
    yield "with its matrix in place of the transposed one", lambda: _Cotangent(not_turned)


def _gather(node: Node, table: Any, indices: Any, axis: Any = 0) -> Iterator[Variant]:
    """Entries that are taken several times."""
    by_place = node.op == "GatherNd"
    if not by_place and (node.raw.attributes["batch_dims"]):
        return
    axis = int(axis)
    shape = indices.shape[:-1] if by_place else indices.shape
    if (indices.shape.num_elements() or _MOST_INDICES) >= _MOST_INDICES:
        return  # each is compared with each
    flat = tf.reshape(indices, [-1, indices.shape[-1] if by_place else 1])
    same = tf.cast(tf.reduce_all(flat[:, None] == flat[None], -1), table.dtype)
    later = same - tf.linalg.band_part(same, -1, 0)

    def weighed(weight: Any) -> Any:
        made = tf.gather_nd(table, indices) if by_place else tf.gather(table, indices, axis=axis)
        wide = [*[1] * axis, *shape, *[1] * (len(made.shape) - axis - len(shape))]
        weight = tf.stop_gradient(tf.reshape(weight, wide))
        return weight * made

    last, share = tf.cast(tf.reduce_sum(later, 1) == 0, same.dtype), 1 / tf.reduce_sum(same, 1)
    several = "in place of the sum where an index occurs several times"
    yield f"with the last {several}", lambda: weighed(last)
    yield f"with the mean {several}", lambda: weighed(share)


def _picks(node: Node, x: Any, *rest: Any) -> Iterator[Variant]:
    """The largest, or the smallest."""
    if node.op != "TopKV2":
        definition: Any = overriding.op_def_registry.get(node.op)
        names = [arg.name for arg in definition.input_arg]
        turned = dict(zip(names, [-x, *rest], strict=True))
        how = "with the smallest in place of the largest, or the other way round"
        yield how, lambda: -getattr(tf.raw_ops, node.op)(**turned)
        return
    (_, high), (_, low) = tf.math.top_k(x, rest[0]), tf.math.top_k(-x, rest[0])
    first, rows = tf.broadcast_to(high[:1], tf.shape(high)), len(x.shape) - 1
    yield "with the smallest in place of the largest", lambda: tf.gather(x, low, batch_dims=rows)
    how = "with the places of the first row in all rows"
    yield how, lambda: tf.gather(x, first, batch_dims=rows)


_TABLE: dict[str, Callable[..., Iterator[Variant]]] = {
    **dict.fromkeys(["Softmax", "LogSoftmax"], _softmax),
    **dict.fromkeys(["Cumsum", "Cumprod"], _cumulative),
    **dict.fromkeys(["Sum", "Mean", "Max", "Min"], _reduction),
    **dict.fromkeys(["MatMul", "BatchMatMulV2"], _product),
    "MirrorPad": _padded,
    **dict.fromkeys(["MatrixSolve", "MatrixTriangularSolve"], _solve),
    **dict.fromkeys(["GatherV2", "GatherNd"], _gather),
    **dict.fromkeys(["TopKV2", "SegmentMax", "SegmentMin", "UnsortedSegmentMax"], _picks),
}
