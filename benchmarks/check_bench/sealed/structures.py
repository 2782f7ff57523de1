"""Structured arguments, several outputs, Keras layers with weights."""

# ruff: noqa: ANN001, ANN003, ANN201, ANN202
from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import Mistake, family, normal, uniform


def _kalman_args():
    state = {"mean": normal(111, 4), "variance": uniform(112, 0.5, 2.0, 4)}
    return state, normal(113, 4)


@family(
    _kalman_args,
    {"domain": {'state["variance"]': "positive"}},
    no_likelihood=Mistake("output", "the upstream of the likelihood is ignored for the variance"),
    gain_once=Mistake("missing", "the gain's own slope is left out of the variance's gradient"),
    mean_none=Mistake("none", "the mean gets no gradient"),
    swapped=Mistake("swapped", "mean and observation get each other's gradients"),
    likelihood_factor=Mistake("factor", "the likelihood's one half is missing for the observation"),
)
def kalman_update(slip):
    """A dict in, a tuple out; the noise has variance 0.5."""

    @pb.custom_gradient
    def update(state, seen):
        mean, variance = state["mean"], state["variance"]

        def parts():
            total = variance + 0.5
            return seen - mean, variance / total, total

        gap, gain, total = parts()
        likelihood = -0.5 * (gap**2 / total + tf.math.log(total))

        def update_pullback(dm, dv, dl):
            gap, gain, total = parts()
            slope = 0.5 / total**2
            if slip == "gain_once":
                slope = 0.0 * slope
            half = 0.5 * (gap**2 / total**2 - 1 / total)
            own = dm * gap * slope + dv * (1 - gain) ** 2
            from_likelihood = 0.0 if slip == "no_likelihood" else dl * half
            to_mean = dm * (1 - gain) + dl * gap / total
            twice = 2.0 if slip == "likelihood_factor" else 1.0
            to_seen = dm * gain - twice * dl * gap / total
            if slip == "swapped":
                to_mean, to_seen = to_seen, to_mean
            to_mean = None if slip == "mean_none" else to_mean
            return {"mean": to_mean, "variance": own + from_likelihood}, to_seen

        return mean + gain * gap, variance * (1 - gain), likelihood, update_pullback

    return update


def _weights(seed, shape):
    return keras.initializers.Constant(np.random.default_rng(seed).normal(size=shape))


class ScaledDense(keras.layers.Layer):
    """A dense layer divided by sqrt(inputs), softplus behind."""

    def __init__(self, slip="", **options) -> None:
        super().__init__(**options)
        self.slip = slip

    def build(self, shape) -> None:
        self.kernel = self.add_weight(
            shape=(3, 4), initializer=_weights(114, (3, 4)), name="kernel"
        )
        self.bias = self.add_weight(shape=(4,), initializer=_weights(115, (4,)), name="bias")

    def get_config(self):
        return super().get_config() | {"slip": self.slip}

    def call(self, x):
        kernel, bias = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)
        return _scaled_dense(self.slip, x, kernel, bias)


def _scaled_dense(slip, x, kernel, bias):
    @pb.custom_gradient
    def dense(x, kernel, bias):
        before = x @ kernel / 3**0.5 + bias

        def dense_pullback(dy):
            d = dy if slip == "no_slope" else dy * tf.sigmoid(x @ kernel / 3**0.5 + bias)
            dk = tf.matmul(x, d, transpose_a=True) / 3**0.5
            dk = dk + 0.1 * kernel if slip == "weight_decay" else dk
            dk = dk / 5 if slip == "batch_mean" else dk
            db = tf.reduce_sum(d, 0)
            dx = tf.matmul(d, kernel, transpose_b=True)
            dx = dx if slip == "no_scale" else dx / 3**0.5
            return dx, dk, db[0] * tf.ones_like(db) if slip == "one_bias" else db

        return tf.math.softplus(before), dense_pullback

    return dense(x, kernel, bias)


@family(
    lambda: (normal(116, 5, 3),),
    weight_decay=Mistake("term", "0.1 times the kernel is added to its gradient"),
    batch_mean=Mistake("factor", "the kernel's gradient is averaged over the batch of 5"),
    no_slope=Mistake("missing", "the slope of softplus is left out"),
    no_scale=Mistake("factor", "1/sqrt(3) is missing in x's gradient"),
    one_bias=Mistake("places", "every bias gets the gradient of the first"),
)
def scaled_dense_layer(slip):
    layer = ScaledDense(slip)
    layer.build((5, 3))
    return layer


class Gate(keras.layers.Layer):
    """x sigmoid(a x + b), a and b by feature."""

    def __init__(self, slip="", **options) -> None:
        super().__init__(**options)
        self.slip = slip

    def build(self, shape) -> None:
        self.a = self.add_weight(shape=(3,), initializer=_weights(117, (3,)), name="a")
        self.b = self.add_weight(shape=(3,), initializer=_weights(118, (3,)), name="b")

    def get_config(self):
        return super().get_config() | {"slip": self.slip}

    def call(self, x):
        return _gate(self.slip, x, tf.convert_to_tensor(self.a), tf.convert_to_tensor(self.b))


def _gate(slip, x, a, b):
    @pb.custom_gradient
    def gate(x, a, b):
        def gate_pullback(dy):
            s = tf.sigmoid(a * x + b)
            steep = x * s * (1 - s)
            through = 0.0 if slip == "no_product" else steep * a
            da, db = dy * steep * x, dy * steep
            if slip == "a_without_x":
                da = db
            if slip == "batch_first":
                da = da[:1]
            db = tf.reduce_mean(db, 0) if slip == "b_mean" else tf.reduce_sum(db, 0)
            return dy * (s + through), tf.reduce_sum(da, 0), db

        return x * tf.sigmoid(a * x + b), gate_pullback

    return gate(x, a, b)


@family(
    lambda: (normal(119, 5, 3),),
    no_product=Mistake("term", "the gate is taken as a constant for x"),
    a_without_x=Mistake("missing", "x is missing as a factor in the gradient of a"),
    batch_first=Mistake("axis", "a gets the gradient of the first sample alone"),
    b_mean=Mistake("factor", "b is averaged over the batch, not summed"),
)
def gate_layer(slip):
    layer = Gate(slip)
    layer.build((5, 3))
    return layer


@family(
    lambda: ({"a": normal(120, 3), "b": [normal(121, 2), normal(122, 2)]},),
    first_of_list=Mistake("element", "the second tensor of the list gets the first one's gradient"),
    a_twice=Mistake("factor", "a counts twice"),
    shared=Mistake(
        "stale", "the inputs are kept outside and overwritten by the next call", "stale"
    ),
    cross=Mistake("term", "the part of a's gradient through the list is dropped"),
)
def tree_energy(slip):
    """A dict with a list inside: sum(a²) times the product of sums, and sines."""
    kept = {}

    @pb.custom_gradient
    def energy(tree):
        kept["tree"] = tree

        def value(tree):
            first, second = tree["b"]
            square = tf.reduce_sum(tree["a"] ** 2)
            return square * tf.reduce_sum(first) + tf.reduce_sum(tf.sin(second) * first)

        def energy_pullback(dy):
            held = kept["tree"] if slip == "shared" else tree
            a, (first, second) = held["a"], held["b"]
            square = tf.reduce_sum(a**2)
            da = 2 * a * tf.reduce_sum(first) * dy
            da = 2 * da if slip == "a_twice" else da
            if slip == "cross":
                da = 2 * a * dy
            dfirst = dy * (square + tf.sin(second))
            dsecond = dfirst if slip == "first_of_list" else dy * tf.cos(second) * first
            return {"a": da, "b": [dfirst, dsecond]}

        return value(tree), energy_pullback

    return energy


@family(
    lambda: (normal(123, 4, 3), normal(124, 3)),
    not_summed=Mistake("axis", "the row's gradient is that of the first row, not summed"),
    mean=Mistake("factor", "the row's gradient is averaged over the rows"),
    eager_only=Mistake("raises", "the rule calls numpy(): it raises when traced", "eager"),
    upstream_clip=Mistake("upstream", "the upstream is clipped at 1000", "upstream"),
    first_output=Mistake("output", "the second output's upstream is used for both"),
)
def gated_sum(slip):
    """Two outputs: x tanh(row) and the column sums."""

    @pb.custom_gradient
    def gated(x, row):
        def gated_pullback(dy, ds):
            if slip == "upstream_clip":
                dy, ds = (tf.clip_by_value(d, -1000.0, 1000.0) for d in (dy, ds))
            if slip == "first_output":
                dy = ds + tf.zeros_like(dy)
            if slip == "eager_only":
                dy = tf.constant(dy.numpy())
            t = tf.tanh(row)
            drow = dy * x * (1 - t**2)
            drow = drow[0] if slip == "not_summed" else tf.reduce_sum(drow, 0)
            return dy * t + ds, drow / 4 if slip == "mean" else drow

        return x * tf.tanh(row), tf.reduce_sum(x, 0), gated_pullback

    return gated
