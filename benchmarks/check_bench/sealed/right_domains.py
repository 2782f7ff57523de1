"""Right gradients of functions with domains, draws, state, and arguments that are no numbers."""

# ruff: noqa: ANN201, ANN202, ANN001
from __future__ import annotations

from functools import partial

import keras
import numpy as np
import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import NOT_WRONG, definite, entry, normal

domain = partial(entry, "right", NOT_WRONG, "domain")
random = partial(entry, "right", NOT_WRONG, "random")
state = partial(entry, "right", NOT_WRONG, "state")
values = partial(entry, "right", NOT_WRONG, "values")


@domain()
def logarithm():
    return tf.math.log, tf.constant([0.2, 1.0, 30.0])


@domain()
def inverse_cosh():
    return tf.acosh, tf.constant([1.5, 2.0, 10.0])


@domain()
def logit():
    return lambda p: tf.math.log(p / (1 - p)), tf.constant([0.1, 0.5, 0.93])


@domain()
def low_and_high():
    def overlap(low, high):
        return tf.math.log(high - low) * tf.sqrt(high - low)

    return overlap, tf.constant([0.0, -1.0, 2.0]), tf.constant([0.5, 1.0, 2.2])


@domain()
def entropy_of_shares():
    def entropy(p):
        tf.debugging.assert_near(tf.reduce_sum(p, -1), tf.ones_like(p[:, 0]), atol=1e-3)
        return -tf.reduce_sum(p * tf.math.log(p), -1)

    return entropy, tf.nn.softmax(normal(21, 2, 4))


@domain()
def spacing_of_sorted():
    return lambda t: tf.math.log(t[1:] - t[:-1]), tf.constant([0.0, 0.4, 1.1, 3.0])


@domain()
def sorted_knots():
    def read(knots, heights, x):
        k = tf.clip_by_value(tf.searchsorted(knots, x, side="right") - 1, 0, 3)
        low, high = tf.gather(knots, k), tf.gather(knots, k + 1)
        t = (x - low) / (high - low)
        return (1 - t) * tf.gather(heights, k) + t * tf.gather(heights, k + 1)

    knots = tf.constant([0.0, 0.5, 1.2, 2.0, 3.5])
    return read, knots, normal(22, 5), tf.constant([0.2, 1.0, 2.9])


@domain()
def definite_log_det():
    def log_det(a):
        both = (a + tf.transpose(a)) / 2
        return 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(tf.linalg.cholesky(both))))

    return log_det, definite(23, 4)


@domain()
def counts_as_floats():
    def looked_up(counts, weights):
        table = tf.constant([0.0, 0.5, 0.8, 1.4], weights.dtype)
        return weights * tf.gather(table, tf.cast(counts, tf.int32))

    return looked_up, tf.constant([0.0, 3.0, 1.0]), normal(24, 3)


@domain()
def poisson_counts():
    def density(counts, rate):
        return counts * tf.math.log(rate) - rate - tf.math.lgamma(counts + 1)

    return density, tf.constant([0.0, 3.0, 1.0, 7.0]), tf.constant([0.4, 2.0, 1.0, 6.0])


@domain()
def correlation():
    def rotated(rho, x, y):
        return (x - rho * y) / tf.sqrt(1 - rho**2)

    return rotated, tf.constant([0.9, -0.3]), normal(25, 2), normal(26, 2)


@domain()
def power_of_positive():
    return tf.pow, tf.constant([0.3, 2.0, 5.0]), tf.constant([0.5, -1.3, 2.0])


@domain()
def arc_sine_inside():
    return tf.asin, tf.constant([0.99, -0.3, 0.0])


@domain()
def inverse_error():
    return tf.math.erfinv, tf.constant([0.999, -0.5, 0.0])


@domain()
def unit_vectors():
    def angle(a, b):
        return tf.acos(0.999 * tf.reduce_sum(a * b, -1))

    return (
        angle,
        tf.math.l2_normalize(normal(27, 3, 3), 1),
        tf.math.l2_normalize(normal(28, 3, 3), 1),
    )


@domain()
def iteration_near():
    """Heron's method, four steps: converged only near its natural arguments."""

    def root(x):
        y = tf.ones_like(x)
        for _ in range(6):
            y = (y + x / y) / 2
        return y

    return root, tf.constant([0.5, 1.4, 2.2])


@random()
def stateless_dropout():
    return lambda x: tf.nn.experimental.stateless_dropout(x, 0.4, seed=[1, 2]), normal(31, 20)


@random()
def keras_dropout():
    layer = keras.layers.Dropout(0.3, seed=7)
    return lambda x: layer(x, training=True), normal(32, 4, 5)


@random()
def keras_noise():
    layer = keras.layers.GaussianNoise(0.5, seed=3)
    return lambda x: layer(x, training=True) ** 2, normal(33, 4, 5)


@random()
def reparametrised():
    def sample(mean, log_sigma):
        return mean + tf.exp(log_sigma) * tf.random.normal(tf.shape(mean), dtype=mean.dtype)

    return sample, normal(34, 4), 0.3 * normal(35, 4)


@random()
def generator_draws():
    generator = tf.random.Generator.from_seed(5)
    return lambda x: x**2 * generator.uniform([4], dtype=x.dtype), normal(36, 4)


@random()
def spatial_dropout():
    layer = keras.layers.SpatialDropout1D(0.5, seed=1)
    return lambda x: layer(x, training=True), normal(37, 2, 3, 4)


@state()
def batch_norm_training():
    layer = keras.layers.BatchNormalization()
    layer.build((6, 3))
    return lambda x: layer(x, training=True), normal(41, 6, 3)


@state()
def layer_norm_layer():
    layer = keras.layers.LayerNormalization()
    layer.build((4, 5))
    return layer, normal(42, 4, 5)


@state()
def small_gru():
    layer = keras.layers.GRU(2)
    layer.build((2, 3, 2))
    return layer, normal(43, 2, 3, 2)


@state()
def attention_layer():
    layer = keras.layers.MultiHeadAttention(2, 2)
    x = normal(44, 1, 3, 4)
    layer(x, x)
    return lambda q, v: layer(q, v), x, normal(45, 1, 3, 4)


@state()
def transposed_conv_layer():
    layer = keras.layers.Conv1DTranspose(2, 3, strides=2)
    layer.build((1, 4, 2))
    return layer, normal(46, 1, 4, 2)


@state()
def embedding_layer():
    layer = keras.layers.Embedding(6, 3)
    layer.build(())
    return layer, tf.constant([[1, 2, 2], [0, 5, 1]])


@state()
def read_variable():
    scale = tf.Variable([0.5, 1.5, -0.3])
    return lambda x: tf.exp(scale * x), normal(47, 3)


@state()
def counted_calls():
    calls = []

    def counted(x):
        calls.append(1)
        return tf.sin(x) * x

    return counted, normal(48, 4)


@state()
def written_variable():
    seen = tf.Variable(0.0)

    def tracked(x):
        seen.assign(tf.cast(tf.reduce_max(tf.abs(x)), tf.float32))
        return tf.tanh(x)

    return tracked, normal(49, 4)


@state()
def memoised():
    kept = {}

    def cached(x):
        key = x.ref() if tf.executing_eagerly() else None
        if key is None or key not in kept:
            kept[key] = tf.math.softplus(x)
        return tf.math.softplus(x)

    return cached, normal(50, 4)


@values()
def ragged_argument():
    ragged = tf.RaggedTensor.from_row_lengths(normal(51, 6), [2, 0, 4])
    return lambda r: tf.reduce_sum(r**2, axis=1), ragged


@values()
def strings_along():
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([2.0, 3.0])), 0.0
    )

    def weighed(x, keys):
        return x * tf.cast(table.lookup(keys), x.dtype)

    return weighed, normal(52, 3), tf.constant(["b", "a", "c"])


@values()
def text_option():
    def pooled(x, how):
        return tf.reduce_mean(x, 0) if how == "mean" else tf.reduce_sum(x, 0)

    return pooled, normal(53, 3, 2), "mean"


@values()
def none_and_bool():
    def shifted(x, bias, square):
        y = x if bias is None else x + bias
        return y**2 if square else y

    return shifted, normal(54, 3), None, True


@values()
def sparse_values():
    def product(v, b):
        a = tf.SparseTensor([[0, 0], [0, 2], [1, 1]], v, [2, 3])
        return tf.sparse.sparse_dense_matmul(a, b)

    return product, normal(55, 3), normal(56, 3, 2)


@values()
def loop_until():
    def halved(x):
        def small(y):
            return tf.reduce_max(tf.abs(y)) > 1.0

        return tf.while_loop(small, lambda y: [y / 2], [x])[0]

    return halved, tf.constant([3.0, -5.0, 0.7])


@values()
def either_branch():
    def chosen(x):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.exp(x), lambda: x**2)

    return chosen, tf.constant([0.5, 0.4, -0.2])


@values()
def mapped():
    return lambda x: tf.map_fn(lambda row: tf.cumsum(row) * row, x), normal(57, 3, 4)


@values()
def double_where():
    def sinc(x):
        safe = tf.where(x == 0, tf.ones_like(x), x)
        return tf.where(x == 0, tf.ones_like(x), tf.sin(safe) / safe)

    return sinc, tf.constant([0.0, 0.4, -2.0])


@values(against=tf.identity)
def straight_through():
    @pb.custom_gradient
    def steps(x):
        def steps_pullback(dy):
            return dy

        return tf.round(x), steps_pullback

    return steps, tf.constant([0.3, -1.2, 2.6])


@values(against=lambda x: tf.clip_by_value(x, -1.0, 1.0))
def binarised():
    @pb.custom_gradient
    def sign(x):
        def sign_pullback(dy):
            return tf.where(tf.abs(x) <= 1, dy, tf.zeros_like(dy))

        return tf.sign(x), sign_pullback

    return sign, tf.constant([0.3, -1.2, 0.6])


@values(order=1)
def numpy_rule():
    @pb.custom_gradient
    def outside(x):
        def outside_pullback(dy):
            slope = tf.numpy_function(lambda a: np.cos(a) - np.sin(a) * 0, [x], x.dtype)
            return dy * tf.reshape(slope, tf.shape(x))

        return tf.sin(x), outside_pullback

    return outside, normal(58, 4)


@values()
def py_function_rule():
    @pb.custom_gradient
    def outside(x):
        def outside_pullback(dy):
            slope = tf.py_function(lambda a: 3 * a**2, [x], x.dtype)
            return dy * tf.reshape(slope, tf.shape(x))

        return x**3, outside_pullback

    return outside, normal(59, 4)


@values()
def masked_minus_infinity():
    mask = tf.constant([[True, False, True], [True, True, False]])

    def masked(x):
        low = tf.constant(-np.inf, x.dtype)
        return tf.nn.softmax(tf.where(mask, x, low))

    return masked, normal(60, 2, 3)


@values()
def namespace_of_outputs():
    def many(x):
        return {"sum": tf.reduce_sum(x), "parts": [x**2, tf.cast(x > 0, tf.int32)]}

    return many, normal(61, 4)
