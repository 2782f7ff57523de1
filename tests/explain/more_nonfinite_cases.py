"""More real functions in which NaN or Inf starts, written after the words were fixed."""

# ruff: noqa: SIM108
from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

import pullback as pb
from tests.explain.nonfinite_cases import Case, vector

CASES: dict[str, Case] = {}


def case(direction: str, *words: str):
    def add(make):
        CASES[make.__name__] = Case(make, direction, words)
        return make

    return add


@case("backward", "tf.where")
def a_safe_log_that_is_not_safe():
    def safe_log(p):
        logs = tf.math.log(p)  # HERE
        return tf.where(p > 1e-6, logs, tf.zeros_like(p))  # ALSO

    def f(w):
        return tf.reduce_sum(safe_log(tf.nn.relu(w)))

    return f, [vector(-1.0, 2.0)]


@case("backward", "tf.where")
def a_trap_with_keras_ops():
    def f(x):
        ratio = 1.0 / x  # HERE
        return keras.ops.sum(keras.ops.where(x == 0.0, 0.0, ratio))  # ALSO

    return f, [vector(0.0, 2.0)]


@case("backward", "tf.where", "division by zero")
def a_norm_under_where():
    def f(x):
        n = tf.norm(x, axis=-1)
        inverse = 1.0 / n  # HERE
        return tf.reduce_sum(tf.where(n > 0.0, inverse, 0.0))  # ALSO

    return f, [tf.constant([[0.0, 0.0], [3.0, 4.0]])]


@case("backward", "tf.where", "exp")
def a_piecewise_elu():
    @tf.function
    def f(x):
        negative = tf.exp(x) - 1.0  # HERE
        return tf.reduce_sum(tf.where(x > 0.0, x, negative))  # ALSO

    return f, [vector(-1.0, 1000.0)]


@case("backward", "tf.where")
def a_huber_with_a_root():
    def f(x):
        root = (tf.abs(x) - 1.0) ** 0.5  # HERE
        return tf.reduce_sum(tf.where(tf.abs(x) > 1.0, root, x**2))  # ALSO

    return f, [vector(1.0, 3.0)]


@case("backward", "0")
def pairwise_distances():
    def f(points):
        d = points[:, None] - points[None]
        squares = tf.reduce_sum(d**2, -1)
        return tf.reduce_sum(tf.sqrt(squares))  # HERE

    return f, [tf.constant([[0.0, 1.0], [2.0, 3.0]])]


@case("backward", "norm")
def a_cosine_similarity():
    def f(a, b):
        length = tf.sqrt(tf.reduce_sum(a * a)) + 1e-8  # HERE
        return tf.reduce_sum(a * b) / length + length

    return f, [vector(0.0, 0.0), vector(1.0, 2.0)]


@case("backward", "power below 1|infinite slope")
def a_cube_root():
    def f(x):
        return tf.reduce_sum(tf.pow(x, 1.0 / 3.0))  # HERE

    return f, [vector(0.0, 8.0)]


@case("backward", "standard deviation|0")
def instance_norm_of_a_flat_image():
    @tf.function
    def f(x):
        std = tf.math.reduce_std(x, axis=[1, 2], keepdims=True)  # HERE
        return tf.reduce_sum(std + x)

    return f, [tf.ones([1, 4, 4, 1])]


@case("backward", "clip")
def an_angle_between_equal_vectors():
    def f(a, b):
        cosine = tf.reduce_sum(tf.math.l2_normalize(a) * tf.math.l2_normalize(b))
        return tf.acos(cosine)  # HERE

    return f, [vector(1.0, 0.0), vector(1.0, 0.0)]


@case("backward", "±1", "clip")
def atanh_at_one():
    def f(x):
        return tf.reduce_sum(tf.minimum(tf.atanh(x), 10.0))  # HERE

    return f, [vector(1.0, 0.5)]


@case("backward", "custom gradient", "Inf|NaN")
def a_custom_log_in_a_traced_function():
    @tf.custom_gradient
    def log_of(x):
        def grad(dy):
            return dy / x

        return tf.math.log(tf.maximum(x, 1e-9)), grad

    @tf.function
    def f(x):
        return tf.reduce_sum(log_of(x))  # HERE

    return f, [vector(0.0, 1.0)]


@case("backward", "override")
def an_override_that_divides_by_zero():
    def f(x):
        return tf.reduce_sum(tf.tanh(x))  # HERE

    return pb.override({"Tanh": lambda dy, *, inputs: dy / inputs[0]})(f), [vector(0.0, 1.0)]


@case("backward", "too large|float32")
def a_gradient_that_overflows():
    def f(x):
        y = x * 1e25  # HERE
        return tf.reduce_sum(y * 1e25)

    return f, [vector(1e-30)]


@case("forward", "0/0")
def a_mean_of_nothing():
    def f(x):
        chosen = tf.boolean_mask(x, x > 100.0)
        return tf.reduce_mean(chosen)  # HERE

    return f, [vector(1.0, 2.0)]


@case("forward", "0/0|division by zero|divisor")
def a_masked_mean():
    def f(x, mask):
        total = tf.reduce_sum(x * mask)
        return total / tf.reduce_sum(mask)  # HERE

    return f, [vector(1.0, 2.0), vector(0.0, 0.0)]


@case("forward", "log(0)")
def binary_cross_entropy_by_hand():
    def f(y, p):
        return -tf.reduce_mean(y * tf.math.log(p) + (1.0 - y) * tf.math.log(1.0 - p))  # HERE

    return f, [vector(1.0, 0.0), vector(1.0, 0.5)]


@case("forward", "log(0)")
def keras_ops_log():
    def f(p):
        return keras.ops.mean(keras.ops.log(p))  # HERE

    return f, [vector(0.0, 0.5)]


@case("forward", "negative")
def a_variance_as_a_difference():
    def f(x):
        variance = tf.reduce_mean(x) ** 2 - tf.reduce_mean(x**2)
        return tf.sqrt(variance)  # HERE

    return f, [vector(1.0, 3.0)]


@case("forward", "exp")
def a_poisson_rate():
    model = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(
                1,
                activation="exponential",
                kernel_initializer=keras.initializers.Constant(100.0),
                name="rate",
            ),
        ]
    )
    return model, [tf.ones([1, 2])]


@case("forward", "float16")
def mixed_precision_overflows():
    dense = keras.layers.Dense(
        2, dtype="mixed_float16", kernel_initializer=keras.initializers.Constant(100.0), name="wide"
    )

    def f(x):
        return tf.reduce_sum(tf.cast(dense(x), tf.float32))  # HERE

    return f, [tf.ones([1, 1000])]


@case("forward", "softmax")
def attention_over_padding():
    attention = keras.layers.Softmax(name="weights")

    def f(scores, mask):
        scores = tf.where(mask, scores, tf.constant(-np.inf))
        weights = attention(scores)  # HERE
        return tf.reduce_sum(weights)

    return f, [tf.ones([1, 2]), tf.constant([[False, False]])]


@case("forward", "too large")
def a_loop_that_explodes():
    @tf.function
    def f(x):
        for _ in tf.range(20):
            x = x * x  # HERE
        return tf.reduce_sum(x)

    return f, [vector(10.0)]


@case("forward", "division by zero|divisor")
def a_learning_rate_of_zero():
    rate = tf.Variable(0.0, name="rate")

    def f(x):
        return tf.reduce_sum(x / rate)  # HERE

    return f, [vector(1.0, 2.0)]


@case("forward", "negative")
def log_of_a_negative_determinant():
    def f(a):
        return tf.math.log(tf.linalg.det(a))  # HERE

    return f, [tf.constant([[0.0, 1.0], [1.0, 0.0]])]


@case("forward", "too large|exp|Inf")
def a_sinh():
    def f(x):
        return tf.reduce_sum(tf.sinh(x))  # HERE

    return f, [vector(200.0)]


@case("forward", "divisor|division")
def a_reciprocal():
    def f(x):
        return tf.reduce_sum(tf.math.reciprocal(x))  # HERE

    return f, [vector(0.0, 1.0)]


@case("forward", "its input is 0")
def rsqrt_of_zero():
    def f(x):
        return tf.reduce_sum(tf.math.rsqrt(x))  # HERE

    return f, [vector(0.0, 1.0)]


@case("forward", "log(0)")
def log_in_a_cond():
    @tf.function
    def f(x):
        if tf.reduce_sum(x) > 0.0:
            y = tf.math.log(x)  # HERE
        else:
            y = x
        return tf.reduce_sum(y)

    return f, [vector(0.0, 1.0)]


@case("forward", "log(0)")
def log_in_map_fn():
    def f(x):
        return tf.reduce_sum(tf.map_fn(lambda a: tf.math.log(a), x))  # HERE

    return f, [vector(0.0, 1.0)]


@case("forward", "log(0)")
def log_in_a_compiled_function():
    @tf.function(jit_compile=True)
    def f(x):
        return tf.reduce_sum(tf.math.log(x))  # HERE

    return f, [vector(0.0, 1.0)]


@case("input", "kernel", "NaN")
def a_layer_with_a_bad_weight():
    dense = keras.layers.Dense(2, name="bad")
    dense.build((None, 3))
    dense.kernel.assign(tf.fill([3, 2], np.nan))

    def f(x):
        return tf.reduce_sum(dense(x))

    return f, [tf.ones([1, 3])]


@case("input", "batch", "NaN")
def data_in_a_dict():
    def f(batch):
        return tf.reduce_mean((batch["x"] - batch["y"]) ** 2)

    return f, [{"x": vector(1.0, np.nan), "y": vector(1.0, 2.0)}]


@case("backward", "logsumexp|Inf|NaN|exp|-")
def logsumexp_of_a_masked_row():
    def f(x):
        masked = tf.where(tf.constant([[True, True], [False, False]]), x, -np.inf)
        total = tf.reduce_logsumexp(masked, axis=1)  # HERE
        return tf.reduce_sum(tf.where(tf.math.is_finite(total), total, 0.0))

    return f, [tf.ones([2, 2])]


@case("forward", "-Inf throughout", "x.dtype.min / 2")
def logsumexp_of_nothing_but_masks():
    def f(x):
        return tf.reduce_logsumexp(tf.where(x > 5.0, x, -np.inf))  # HERE

    return f, [vector(1.0, 2.0)]


@case("backward", "after layer half", "float16", "float32")
def a_loss_scale_too_large_for_half():
    keras.utils.set_random_seed(0)
    dense = keras.layers.Dense(1, dtype="mixed_float16", name="half")
    model = keras.Sequential([keras.Input((2,)), dense])
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=2.0**40
    )
    model.compile(optimizer, "mse")
    return model.train_step, [(50 * tf.ones((3, 2)), tf.ones((3, 1)))]
