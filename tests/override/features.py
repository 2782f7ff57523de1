"""What can be overridden, each with a function, its arguments, and the gradient that mathematics says it has then."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import pullback as pb

X = np.array([[1.5, -0.5, 2.0], [-1.0, 0.25, 3.0]])
Y = np.array([[0.5, 2.0, -1.0], [1.0, -2.0, 0.75]])
W = np.array([[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25]])


@dataclass(frozen=True)
class Feature:
    """An override, a function under it, and the gradient of the sum of its outputs."""

    rules: Mapping[Any, Any]
    function: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]
    wanted: tuple[Any, ...]

    def tensors(self) -> list[tf.Tensor]:
        return [tf.constant(a, tf.float32) for a in self.arguments]


def times_seven(dy: Any) -> Any:
    return -7.0 * dy


def guided(dy: Any, *, original: Any) -> Any:
    return tf.where(dy > 0, original(dy), tf.zeros_like(dy))


def by_square(dy: Any, *, inputs: Any) -> Any:
    return dy * inputs[0] ** 2


def by_output(dy: Any, *, outputs: Any) -> Any:
    return dy * outputs


STRENGTH = tf.Variable(3.0, trainable=False)
LARGE = tf.constant(np.full([2, 3], 2.0), tf.float32)


def reversed_by_variable(dy: Any) -> Any:
    return -STRENGTH * dy


def by_eager_tensor(dy: Any) -> Any:
    return dy * LARGE


def halves(dy: Any, *, original: Any) -> Any:
    return [0.5 * g for g in original(dy)]


def along_axis(dy: Any, *, inputs: Any) -> Any:
    return [3.0 * g for g in tf.unstack(dy, axis=inputs["axis"])]


def along_attribute(dy: Any, *, attrs: Any) -> Any:
    return [3.0 * g for g in tf.unstack(dy, axis=attrs["axis"])]


def matmul_pullback(dy: Any, *, inputs: Any) -> Any:
    a, b = inputs[0], inputs[1]
    return 10.0 * (dy @ tf.transpose(b)), 100.0 * (tf.transpose(a) @ dy)


def only_left(dy: Any, *, inputs: Any) -> Any:
    return {"a": 10.0 * (dy @ tf.transpose(inputs["b"]))}


def tenfold(dy: Any, *, original: Any) -> Any:
    return 10.0 * original(dy)


def relu_times(x: Any, y: Any) -> Any:
    return tf.nn.relu(x) * y


def stacked(x: Any, y: Any) -> Any:
    return tf.stack([x, y], axis=1) * tf.constant(2.0)


def product(x: Any, w: Any) -> Any:
    return tf.matmul(x, w)


def squared_sum(a: Any) -> Any:
    return tf.reduce_sum(a * a * a)


def calls_own(a: Any) -> Any:
    return squared_sum(a) * 2.0


def rounding(x: Any) -> Any:
    return tf.round(x) * 3.0


def through_integers(x: Any) -> Any:
    return quantized(x) * 2.0


def quantized(x: Any) -> Any:
    return tf.cast(tf.cast(x * 4.0, tf.int32), x.dtype) / 4.0


def straight(dy: Any) -> Any:
    return dy


ONES = np.ones_like(X)
RELU = np.maximum(X, 0.0)

FEATURES: dict[str, Feature] = {
    "op, reads a variable": Feature(
        {"Relu": reversed_by_variable}, relu_times, (X, Y), (-3.0 * Y, RELU)
    ),
    "op, reads an eager tensor": Feature(
        {"Relu": by_eager_tensor}, relu_times, (X, Y), (2.0 * Y, RELU)
    ),
    "op type": Feature({"Relu": times_seven}, relu_times, (X, Y), (-7.0 * Y, RELU)),
    "function": Feature({tf.nn.relu: times_seven}, relu_times, (X, Y), (-7.0 * Y, RELU)),
    "guided": Feature(
        {tf.nn.relu: guided}, relu_times, (X, Y), (np.where((Y > 0) & (X > 0), Y, 0.0), RELU)
    ),
    "inputs": Feature({"Relu": by_square}, relu_times, (X, Y), (Y * X**2, RELU)),
    "outputs": Feature({"Exp": by_output}, tf.exp, (X,), (np.exp(X),)),
    "stack, half": Feature({tf.stack: halves}, stacked, (X, Y), (ONES, ONES)),
    "stack, axis": Feature({tf.stack: along_axis}, stacked, (X, Y), (6.0 * ONES, 6.0 * ONES)),
    "Pack, attrs": Feature({"Pack": along_attribute}, stacked, (X, Y), (6.0 * ONES, 6.0 * ONES)),
    "composite": Feature({tf.nn.gelu: by_square}, tf.nn.gelu, (X,), (X**2,)),
    "silu": Feature({tf.nn.silu: by_square}, tf.nn.silu, (X,), (X**2,)),
    "norm": Feature({tf.norm: tenfold}, tf.norm, (X,), (10.0 * X / np.linalg.norm(X),)),
    "keras activation": Feature(
        {keras.activations.gelu: times_seven}, keras.activations.gelu, (X,), (-7.0 * ONES,)
    ),
    "keras op": Feature(
        {keras.ops.softplus: times_seven}, keras.ops.softplus, (X,), (-7.0 * ONES,)
    ),
    "matmul": Feature(
        {tf.matmul: matmul_pullback},
        product,
        (X, W),
        (np.broadcast_to(10.0 * W.sum(1), X.shape), np.repeat(100.0 * X.sum(0)[:, None], 2, 1)),
    ),
    "MatMul": Feature(
        {"MatMul": matmul_pullback},
        product,
        (X, W),
        (np.broadcast_to(10.0 * W.sum(1), X.shape), np.repeat(100.0 * X.sum(0)[:, None], 2, 1)),
    ),
    "by name": Feature(
        {tf.matmul: only_left}, product, (X, W), (np.broadcast_to(10.0 * W.sum(1), X.shape), None)
    ),
    "per input": Feature(
        {"Mul": [pb.DEFAULT, times_seven]}, lambda x, y: x * y, (X, Y), (Y, -7.0 * ONES)
    ),
    "own function": Feature({squared_sum: tenfold}, calls_own, (X,), (60.0 * X**2,)),
    "no gradient before": Feature({tf.round: straight}, rounding, (X,), (3.0 * ONES,)),
    "through integers": Feature({quantized: straight}, through_integers, (X,), (2.0 * ONES,)),
}
