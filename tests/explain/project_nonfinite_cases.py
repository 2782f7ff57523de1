"""Real functions in which NaN or Inf starts: the third set, as people write them in projects."""

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


@case("compiled", "compiled", "tf.sqrt")
def xla_sqrt_where():
    @tf.function(jit_compile=True)
    def f(a):
        root = tf.sqrt(a)  # HERE
        return tf.reduce_sum(tf.where(a > 0.0, root, 0.0))  # ALSO

    return f, [vector(0.0, 1.0)]


@case("compiled", "compiled")
def xla_model():
    class R(keras.layers.Layer):
        def call(self, x):
            return tf.where(x > 0.0, tf.sqrt(x), 0.0)  # HERE

    r = R()

    @tf.function(jit_compile=True)
    def f(x):
        return tf.reduce_sum(r(x) * 2.0)

    return f, [vector(0.0, 4.0)]


@case("forward", "0/0|divisor is 0")
def dice():
    def f(p, t):
        inter = tf.reduce_sum(p * t)
        return 1.0 - 2.0 * inter / (tf.reduce_sum(p) + tf.reduce_sum(t))  # HERE

    return f, [tf.zeros([3]), tf.zeros([3])]


@case("backward", "tf.where", "division by zero")
def relative_error():
    @tf.function
    def f(y, t):
        rel = (y - t) / t  # HERE
        return tf.reduce_mean(tf.where(tf.equal(t, 0.0), tf.zeros_like(y), rel**2))  # ALSO

    return f, [vector(1.0, 2.0), vector(0.0, 1.0)]


@case("forward", "log(0)")
def kl_divergence():
    def kl(p, q):
        ratio = p / q
        return tf.reduce_sum(p * tf.math.log(ratio))  # HERE

    def f(p, q):
        return kl(p, q)

    return f, [vector(0.0, 1.0), vector(0.5, 0.5)]


@case("forward", "negative")
def box_cox():
    def f(x, lam):
        return tf.reduce_sum((tf.pow(x, lam) - 1.0) / lam)  # HERE

    return f, [vector(-0.5, 1.0), tf.constant(0.5)]


@case("backward", "norm")
def weight_norm():
    v = tf.Variable(tf.zeros([3]), name="v")

    def f(x):
        n = tf.norm(v)  # HERE
        return tf.reduce_sum(x * n)

    return f, [vector(1.0, 2.0, 3.0)]


@case("backward", "norm|0")
def triplet():
    def f(a, p, n):
        dp = tf.sqrt(tf.reduce_sum(tf.square(a - p), -1))  # HERE
        dn = tf.sqrt(tf.reduce_sum(tf.square(a - n), -1))
        return tf.reduce_mean(tf.maximum(dp - dn + 10.0, 0.0))

    return f, [tf.ones([2, 3]), tf.ones([2, 3]), tf.zeros([2, 3])]


@case("forward", "exp", "too large")
def vae_kl():
    def f(mu, logvar):
        return -0.5 * tf.reduce_sum(1.0 + logvar - mu**2 - tf.exp(logvar))  # HERE

    return f, [vector(0.0, 0.0), vector(0.0, 100.0)]


@case("forward", "too large")
def matmul_float16():
    def f(x):
        h = tf.cast(x, tf.float16)
        s = tf.matmul(h, h, transpose_b=True)  # HERE
        return tf.reduce_sum(tf.cast(s, tf.float32))

    return f, [tf.ones([2, 100]) * 100.0]


@case("forward", "softmax")
def graph_attention_mask():
    @tf.function
    def f(scores, adj):
        masked = scores + (1.0 - adj) * -1e38 * 1e5
        return tf.reduce_sum(tf.nn.softmax(masked) ** 2)

    return f, [tf.ones([2, 2]), tf.constant([[1.0, 1.0], [0.0, 0.0]])]


@case("input")
def nan_label():
    def f(x, y):
        return tf.reduce_mean(tf.abs(x - y))

    return f, [vector(1.0, 2.0), vector(np.nan, 1.0)]


@case("forward", "log(0)")
def in_scan():
    @tf.function
    def f(x):
        ys = tf.scan(lambda a, b: a + tf.math.log(b), x, initializer=0.0)  # HERE
        return ys[-1]

    return f, [vector(1.0, 0.0)]


@case("backward", "custom gradient")
def pb_with_gradient():
    g = pb.with_gradient(tf.abs, lambda dy, *, inputs: dy * inputs[0] / tf.abs(inputs[0]))

    def f(x):
        return tf.reduce_sum(g(x))  # HERE

    return f, [vector(0.0, 1.0)]


@case("forward", "negative")
def log_softplus_mistake():
    m = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(-1.0)),
        ]
    )

    def f(x):
        rate = m(x)
        return -tf.reduce_mean(tf.math.log(rate))  # HERE

    return f, [tf.ones([2, 2])]


@case("backward", "exp")
def sigmoid_by_hand():
    def f(x):
        e = tf.exp(-x)  # HERE
        return tf.reduce_sum(1.0 / (1.0 + e))

    return f, [vector(-200.0, 1.0)]


@case("forward", "division by zero|divisor")
def batch_statistics():
    def f(x):
        mean, var = tf.nn.moments(x, [0])
        z = (x - mean) / tf.sqrt(var)  # HERE
        return tf.reduce_sum(z**2)

    return f, [tf.ones([3, 2])]


@case("backward", "angle|both inputs are 0")
def polar():
    def f(v):
        angle = tf.math.atan2(v[:, 1], v[:, 0])  # HERE
        return tf.reduce_sum(angle)

    return f, [tf.constant([[0.0, 0.0], [1.0, 1.0]])]


@case("backward", "tf.where")
def nested_where():
    def f(x):
        inner = tf.where(x > 1.0, tf.math.log(x - 1.0), 0.0)  # HERE
        return tf.reduce_sum(tf.where(x > 2.0, inner, x))

    return f, [vector(1.0, 3.0)]


@case("backward", "tf.where")
def sinc():
    def sinc_(x):
        y = tf.sin(x) / x  # HERE
        return tf.where(x == 0.0, tf.ones_like(x), y)  # ALSO

    def f(x):
        return tf.reduce_sum(sinc_(x))

    return f, [vector(0.0, 1.0)]


@case("backward", "log")
def boolean_mask_after():
    def f(x):
        logs = tf.math.log(x)  # HERE
        return tf.reduce_sum(tf.boolean_mask(logs, x > 0.0))

    return f, [vector(0.0, 1.0)]


@case("forward", "log(0)")
def keras_loss_by_hand():
    def loss(y_true, y_pred):
        return -keras.ops.mean(y_true * keras.ops.log(y_pred), axis=-1)  # HERE

    m = keras.Sequential(
        [
            keras.Input((2,)),
            keras.layers.Dense(
                2,
                activation="softmax",
                kernel_initializer=keras.initializers.Constant([[900.0, -900.0], [0.0, 0.0]]),
            ),
        ]
    )

    def f(x, y):
        return tf.reduce_mean(loss(y, m(x)))

    return f, [tf.ones([1, 2]), tf.constant([[0.0, 1.0]])]


@case("backward", "power below 1|infinite")
def gamma_correction():
    @tf.function
    def f(img):
        return tf.reduce_mean(img ** (1.0 / 2.2))  # HERE

    return f, [tf.constant([[0.0, 0.5]])]


@case("forward", "empty|0/0")
def keras_mean_empty():
    def f(x):
        picked = x[x.shape[0] :]
        return keras.ops.mean(picked)  # HERE

    return f, [vector(1.0, 2.0)]


@case("forward", "tf.acos|beyond")
def acos_rounding():
    def f(a, b):
        c = tf.reduce_sum(a * b) * 1.01
        return tf.acos(c)  # HERE

    return f, [vector(1.0, 0.0), vector(1.0, 0.0)]


@case("forward", "no value at 0")
def the_logarithm_of_a_gamma_function_at_its_pole():
    def f(x):
        return tf.reduce_sum(tf.math.lgamma(x))  # HERE

    return f, [vector(0.0, 1.0)]


@case("forward", "reaches the end")
def log1p_at_minus_one():
    def f(x):
        return tf.reduce_sum(tf.math.log1p(x))  # HERE

    return f, [vector(-1.0, 1.0)]


@case("backward", "standard deviation")
def the_root_of_a_variance_of_equal_numbers():
    def f(x):
        spread = tf.sqrt(tf.math.reduce_variance(x))  # HERE
        return tf.reduce_sum(x) / (spread + 1.0)

    return f, [vector(2.0, 2.0)]


@case("backward", "infinite slope")
def a_focal_loss_at_one():
    def f(p):
        weight = (1.0 - p) ** 0.5  # HERE
        return -tf.reduce_mean(weight * tf.math.log(p))

    return f, [vector(1.0, 0.5)]
