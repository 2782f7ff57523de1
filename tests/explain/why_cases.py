"""Real functions whose gradient is missing or zero, each with the words that must be said and a mark at the line.

A case gives the function, its arguments and what is asked about. `# HERE` marks the line that must be named.
"""

# ruff: noqa: F841, RUF059, SIM108
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import record

import pullback as pb


class Case(NamedTuple):
    """What to explain, and what must be said."""

    make: Callable[[], tuple[Any, list[Any], Any]]
    words: tuple[str, ...]


CASES: dict[str, Case] = {}


def case(*words: str) -> Callable[[Any], Any]:
    def add(make: Any) -> Any:
        CASES[make.__name__] = Case(make, words)
        return make

    return add


def vector(*numbers: float) -> tf.Tensor:
    return tf.constant(numbers or (0.3, 1.7, -2.2), tf.float32)


# Integers, and what is no tensor


@case("int32", "tf.cast")
def integer_source():
    def f(n, x):
        return tf.reduce_sum(tf.cast(n, tf.float32) * x)

    return f, [tf.constant([1, 2]), vector(1.0, 2.0)], "n"


@case("tf.argmax", "weights")
def integers_by_argmax_through_gather():
    def f(x, table):
        best = tf.argmax(x)  # HERE
        return tf.gather(table, best)

    return f, [vector(), vector(1.0, 2.0, 3.0)], "x"


@case("tf.argmin")
def argmin_through_one_hot():
    def f(x):
        i = tf.argmin(x)  # HERE
        hot = tf.one_hot(i, 3)
        return tf.reduce_sum(hot)

    return f, [vector()], "x"


@case("top_k")
def argsort():
    def f(x):
        order = tf.argsort(x)  # HERE
        return tf.reduce_sum(tf.cast(order, tf.float32))

    return f, [vector()], "x"


@case("top_k", "indices")
def top_k_indices():
    def f(x):
        values, indices = tf.math.top_k(x, 2)  # HERE
        return tf.reduce_sum(tf.cast(indices, tf.float32) * 2.0)

    return f, [vector()], "x"


@case("tf.cast", "integers")
def cast_to_integers_and_back():
    def f(x):
        n = tf.cast(x, tf.int32)  # HERE
        return tf.reduce_sum(tf.cast(n, tf.float32) ** 2)

    return f, [vector()], "x"


@case("`>`", "true or false")
def mask_by_comparison():
    def f(x):
        mask = x > 0.5  # HERE
        return tf.reduce_sum(tf.cast(mask, tf.float32))

    return f, [vector()], "x"


@case("true or false")
def condition_of_where():
    def f(x, a, b):
        chosen = tf.less(x, 0.0)  # HERE
        return tf.where(chosen, a, b)

    return f, [vector(), vector(1.0, 1.0, 1.0), vector(2.0, 2.0, 2.0)], "x"


@case("tf.bitcast")
def bitcast():
    def f(x):
        bits = tf.bitcast(x, tf.int32)  # HERE
        return tf.reduce_sum(tf.cast(bits, tf.float32))

    return f, [vector()], "x"


@case("tf.searchsorted")
def bucket_by_searchsorted():
    edges = tf.constant([0.0, 1.0])

    def f(x):
        bucket = tf.searchsorted(edges, x)  # HERE
        return tf.gather(tf.constant([1.0, 2.0, 3.0]), bucket)

    return f, [vector()], "x"


@case("tf.cast")
def index_computed_from_numbers():
    def f(x, table):
        at = tf.cast(x[0] * 2.0, tf.int32)  # HERE
        return table[at]

    return f, [vector(), vector(1.0, 2.0, 3.0)], "x"


# Steps, and operations without a gradient


@case("tf.round", "with_gradient")
def rounding():
    def f(x):
        y = tf.round(x)  # HERE
        return tf.reduce_sum(y * 2.0)

    return f, [vector()], "x"


@case("tf.floor")
def flooring_in_a_traced_function():
    @tf.function
    def f(x):
        y = x * 3.0
        z = tf.floor(y)  # HERE
        return tf.reduce_sum(z)

    return f, [vector()], "x"


@case("tf.math.ceil")
def ceiling():
    def f(x):
        return tf.reduce_sum(tf.math.ceil(x))  # HERE

    return f, [vector()], "x"


@case("zero", "tf.sign")
def sign_gives_zeros():
    def f(x):
        return tf.reduce_sum(tf.sign(x))  # HERE

    return f, [vector()], "x"


@case("//")
def floor_division():
    def f(x):
        whole = x // 0.5  # HERE
        return tf.reduce_sum(whole)

    return f, [vector()], "x"


@case("Betainc")
def an_operation_without_a_gradient_for_one_input():
    def f(a, x):
        return tf.reduce_sum(tf.math.betainc(a, 2.0 * tf.ones_like(a), x))  # HERE

    return f, [vector(1.0, 2.0, 3.0), vector(0.2, 0.3, 0.4)], "a"


@case("shuffle")
def random_shuffle():
    def f(x):
        mixed = tf.random.shuffle(x)  # HERE
        return tf.reduce_sum(mixed * mixed)

    return f, [vector()], "x"


@case("histogram|Bincount|Histogram|tf.cast")
def histogram():
    def f(x):
        counts = tf.histogram_fixed_width(x, [-3.0, 3.0], 4)  # HERE
        return tf.reduce_sum(tf.cast(counts, tf.float32) ** 2)

    return f, [vector()], "x"


# Stopped


@case("tf.stop_gradient", "stops")
def stop_gradient():
    def f(x):
        target = tf.stop_gradient(x * 2.0)  # HERE
        return tf.reduce_sum(target**2)

    return f, [vector()], "x"


@case("tf.stop_gradient")
def stop_gradient_in_a_traced_function_called_by_another():
    @tf.function
    def inner(x):
        return tf.stop_gradient(x)  # HERE

    @tf.function
    def f(x):
        return tf.reduce_sum(inner(x) * 2.0)

    return f, [vector()], "x"


@case("tf.stop_gradient")
def keras_ops_stop_gradient():
    def f(x):
        y = keras.ops.stop_gradient(x)  # HERE
        return keras.ops.sum(y * y)

    return f, [vector()], "x"


@case("tf.stop_gradient")
def stop_in_a_while_loop():
    @tf.function
    def f(x):
        total = tf.zeros_like(x)
        for _ in tf.range(3):
            total += tf.stop_gradient(x)  # HERE
        return tf.reduce_sum(total)

    return f, [vector()], "x"


@case("recording was stopped")
def stop_recording():
    def f(x):
        with record.stop_recording():
            y = tf.sin(x)  # HERE
        return tf.reduce_sum(y * 2.0)

    return f, [vector()], "x"


# Not used, not on the way


@case("does not use it")
def unused():
    def f(x, y):
        return tf.reduce_sum(x)

    return f, [vector(), vector()], "y"


@case("does not use it")
def unused_in_a_traced_function():
    @tf.function
    def f(x, y):
        return tf.reduce_sum(x * 2.0)

    return f, [vector(), vector()], "y"


@case("does not reach the result")
def thrown_away():
    def f(x, w):
        penalty = tf.reduce_sum(w**2)  # HERE
        return tf.reduce_sum(x)

    return f, [vector(), vector()], "w"


@case("does not reach the result")
def a_loss_that_is_not_added():
    w = tf.Variable([1.0, 2.0], name="w")

    def f(x):
        loss = tf.reduce_sum(x**2)
        extra = 0.1 * tf.reduce_sum(tf.abs(w))  # HERE
        return loss

    return f, [vector(1.0, 2.0)], w


@case("shape")
def only_the_shape_is_used():
    def f(x):
        n = tf.shape(x)[0]  # HERE
        return tf.reduce_sum(tf.ones([n]) * 3.0)

    return f, [vector()], "x"


@case("shape")
def ones_like():
    def f(x):
        return tf.reduce_sum(tf.ones_like(x))  # HERE

    return f, [vector()], "x"


# Out of the tensors and back


@case("NumPy", "tf.sin")
def numpy_detour():
    def f(x):
        y = np.sin(x.numpy())  # HERE
        return tf.reduce_sum(tf.constant(y) * 2.0)

    return f, [vector()], "x"


@case("NumPy")
def numpy_function_on_a_tensor():
    def f(x):
        y = np.sin(x) * 2.0  # HERE
        return tf.reduce_sum(tf.convert_to_tensor(y))

    return f, [vector()], "x"


@case("NumPy")
def a_python_float():
    def f(x):
        scale = float(x[0])  # HERE
        return tf.reduce_sum(tf.constant([1.0, 2.0]) * scale)

    return f, [vector()], "x"


@case("tf.numpy_function", "NumPy")
def a_numpy_function_op():
    def f(x):
        y = tf.numpy_function(np.sin, [x], tf.float32)  # HERE
        return tf.reduce_sum(y)

    return f, [vector()], "x"


@case("tf.numpy_function")
def a_numpy_function_op_in_a_graph():
    @tf.function
    def f(x):
        z = x * 2.0
        y = tf.numpy_function(lambda a: a**2, [z], tf.float32)  # HERE
        return tf.reduce_sum(y)

    return f, [vector()], "x"


# Variables


@case("assign")
def assigned_inside():
    v = tf.Variable([0.0, 0.0, 0.0], name="v")

    def f(x):
        v.assign(x * 2.0)  # HERE
        return tf.reduce_sum(v * 3.0)

    return f, [vector()], "x"


@case("assign")
def assigned_in_a_traced_function():
    v = tf.Variable([0.0, 0.0, 0.0], name="v")

    @tf.function
    def f(x):
        v.assign_add(x)  # HERE
        return tf.reduce_sum(v**2)

    return f, [vector()], "x"


@case("not trainable")
def a_variable_that_is_not_trainable():
    v = tf.Variable([1.0, 2.0, 3.0], trainable=False, name="v")

    def f(x):
        return tf.reduce_sum(v * x)

    return f, [vector()], v


@case("not trainable", "trainable")
def a_frozen_layer():
    dense = keras.layers.Dense(2, name="frozen_one")
    dense.build((None, 3))
    dense.trainable = False

    def f(x):
        return tf.reduce_sum(dense(x))

    return f, [tf.ones([2, 3])], dense.kernel


@case("not trainable")
def a_frozen_layer_in_a_model():
    inputs = keras.Input((3,))
    hidden = keras.layers.Dense(4, activation="tanh", name="base")
    model = keras.Model(inputs, keras.layers.Dense(1, name="head")(hidden(inputs)))
    hidden.trainable = False
    return model, [tf.ones([2, 3])], hidden


# Branches


@case("not taken")
def a_python_branch_not_taken():
    w = tf.Variable(2.0, name="w")
    b = tf.Variable(3.0, name="b")

    def f(x):
        if tf.reduce_sum(x) > 100.0:
            return tf.reduce_sum(x * w)  # HERE
        return tf.reduce_sum(x * b)

    return f, [vector()], w


@case("not taken")
def an_autograph_branch_not_taken():
    @tf.function
    def f(x, w):
        if tf.reduce_sum(x) > 100.0:
            y = x * w  # HERE
        else:
            y = x
        return tf.reduce_sum(y)

    return f, [vector(), tf.constant(2.0)], "w"


@case("not taken")
def a_cond_branch_not_taken():
    w = tf.Variable(2.0, name="w")

    @tf.function
    def f(x):
        return tf.cond(
            tf.reduce_sum(x) > 100.0,
            lambda: tf.reduce_sum(x * w),  # HERE
            lambda: tf.reduce_sum(x),
        )

    return f, [vector()], w


@case("not taken")
def an_eager_cond_branch_not_taken():
    def f(x, w):
        return tf.cond(
            tf.reduce_sum(x) > 100.0,
            lambda: tf.reduce_sum(x * w),  # HERE
            lambda: tf.reduce_sum(x),
        )

    return f, [vector(), tf.constant(2.0)], "w"


# Custom gradients


@case("custom gradient", "None")
def a_custom_gradient_that_returns_none():
    @tf.custom_gradient
    def product(a, b):
        def grad(dy):
            return dy * b, None

        return a * b, grad

    def f(x, w):
        return tf.reduce_sum(product(x, w))  # HERE

    return f, [vector(), vector()], "w"


@case("custom gradient", "zeros")
def a_custom_gradient_that_returns_zeros():
    @tf.custom_gradient
    def cut(a):
        def grad(dy):
            return tf.zeros_like(dy)

        return a * 2.0, grad

    def f(x):
        return tf.reduce_sum(cut(x))  # HERE

    return f, [vector()], "x"


@case("custom gradient", "None")
def a_custom_gradient_in_a_traced_function():
    @tf.custom_gradient
    def product(a, b):
        def grad(dy):
            return dy * b, None

        return a * b, grad

    @tf.function
    def f(x, w):
        return tf.reduce_sum(product(x, w))  # HERE

    return f, [vector(), vector()], "w"


@case("custom gradient", "zeros")
def our_custom_gradient_with_zeros():
    @pb.custom_gradient
    def cut(a):
        def backward(dy):
            return tf.zeros_like(dy)

        return a * 2.0, backward

    def f(x):
        return tf.reduce_sum(cut(x))  # HERE

    return f, [vector()], "x"


@case("custom gradient", "None")
def our_custom_gradient_with_none():
    @pb.custom_gradient
    def product(a, b):
        def backward(dy):
            return dy * b, None

        return a * b, backward

    def f(x, w):
        return tf.reduce_sum(product(x, w))  # HERE

    return f, [vector(), vector()], "w"


@case("override", "zeros")
def an_override_with_zeros():
    @pb.override({"Tanh": lambda dy: tf.zeros_like(dy)})
    def f(x):
        return tf.reduce_sum(tf.tanh(x))  # HERE

    return f, [vector()], "x"


# Zeros


@case("zero", "relu", "positive")
def a_dead_relu():
    def f(x):
        return tf.reduce_sum(tf.nn.relu(x - 10.0))  # HERE

    return f, [vector()], "x"


@case("zero", "relu", "dead_one")
def a_dead_relu_in_a_model():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, name="first"),
            keras.layers.Dense(
                4,
                activation="relu",
                bias_initializer=keras.initializers.Constant(-100.0),
                name="dead_one",
            ),
            keras.layers.Dense(1),
        ]
    )
    return model, [tf.ones([2, 3])], model.layers[0].kernel


@case("zero", "saturated", "sigmoid")
def a_saturated_sigmoid():
    def f(x):
        return tf.reduce_sum(tf.sigmoid(x))  # HERE

    return f, [vector(200.0, 300.0)], "x"


@case("zero", "saturated", "tanh")
def a_saturated_tanh_in_a_traced_function():
    @tf.function
    def f(x):
        y = tf.tanh(x * 1000.0)  # HERE
        return tf.reduce_sum(y)

    return f, [vector()], "x"


@case("zero", "saturated", "softmax")
def a_saturated_softmax():
    def f(x):
        p = tf.nn.softmax(x)  # HERE
        return -p[0]

    return f, [vector(0.0, 500.0)], "x"


@case("zero", "adds up to 1", "tells its entries apart")
def the_sum_of_a_softmax():
    def f(x):
        p = tf.nn.softmax(x)  # HERE
        return tf.reduce_sum(p)

    return f, [vector(0.0, 0.0)], "x"


@case("zero", "clip")
def clipped():
    def f(x):
        return tf.reduce_sum(tf.clip_by_value(x, 10.0, 20.0))  # HERE

    return f, [vector()], "x"


@case("zero", "tf.maximum")
def below_a_maximum():
    def f(x):
        hinge = tf.maximum(0.0, x - 5.0)  # HERE
        return tf.reduce_sum(hinge)

    return f, [vector()], "x"


@case("zero", "tf.where", "selects the other")
def the_branch_that_where_does_not_select():
    def f(x, y):
        z = tf.where(y > 0.0, y, x)  # HERE
        return tf.reduce_sum(z)

    return f, [vector(), vector(1.0, 2.0, 3.0)], "x"


@case("zero", "multiplies it by zero")
def multiplied_by_zero():
    def f(x):
        mask = tf.zeros([3])
        return tf.reduce_sum(x * mask)  # HERE

    return f, [vector()], "x"


@case("zero", "multiplies it by zero", "kernel")
def a_layer_whose_weights_are_zero():
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4),
            keras.layers.Dense(1, kernel_initializer="zeros"),
        ]
    )
    return model, [tf.ones([2, 3])], model.layers[0].kernel


@case("zero", "underflow")
def an_exponential_that_underflows():
    def f(x):
        return tf.reduce_sum(tf.exp(-x))  # HERE

    return f, [vector(1000.0, 2000.0)], "x"


@case("zero", "lowest")
def at_the_lowest_point_of_a_square():
    def f(x):
        return tf.reduce_sum(tf.square(x))  # HERE

    return f, [vector(0.0, 0.0)], "x"


@case("zero", "adds up to zero")
def what_cancels():
    def f(x):
        y = x * 2.0
        return tf.reduce_sum(y - y)  # HERE

    return f, [vector()], "x"


# Where there is one


@case("has a gradient", "norm")
def a_gradient():
    def f(x):
        return tf.reduce_sum(x**2)

    return f, [vector()], "x"


@case("tiny")
def a_tiny_gradient():
    def f(x):
        y = x
        for _ in range(10):
            y = tf.sigmoid(y) * 0.1
        return tf.reduce_sum(y)

    return f, [vector()], "x"


@case("huge")
def a_huge_gradient():
    def f(x):
        return tf.reduce_sum(tf.exp(x * 20.0))

    return f, [vector(1.0)], "x"


@case("not finite", "tf.sqrt")
def a_gradient_that_is_not_finite():
    def f(x):
        return tf.reduce_sum(tf.sqrt(x))  # HERE

    return f, [vector(0.0, 1.0)], "x"


# Layers, models, structures


@case("kernel", "bias", "has a gradient")
def a_layer_that_learns():
    dense = keras.layers.Dense(2, name="learns")
    dense.build((None, 3))

    def f(x):
        return tf.reduce_sum(dense(x) ** 2)

    return f, [tf.ones([2, 3])], dense


@case("does not use it|does not reach|not used")
def a_head_that_is_not_called():
    class TwoHeads(keras.Model):
        def __init__(self):
            super().__init__()
            self.one, self.two = keras.layers.Dense(1), keras.layers.Dense(1, name="two")
            self.two.build((None, 3))

        def call(self, x):
            return self.one(x)

    model = TwoHeads()
    model(tf.ones([2, 3]))
    return model, [tf.ones([2, 3])], model.two.kernel


@case("tf.round")
def an_argument_in_a_dict():
    def f(params, x):
        w = tf.round(params["w"])  # HERE
        return tf.reduce_sum(w * x)

    return f, [{"w": vector(), "b": vector()}, vector()], 'params["w"]'


@case("argmax")
def a_metric_instead_of_a_loss():
    def f(logits, labels):
        guess = tf.argmax(logits, axis=1)  # HERE
        hits = tf.equal(guess, labels)
        return tf.reduce_mean(tf.cast(hits, tf.float32))

    return f, [tf.ones([2, 3]), tf.constant([0, 1], tf.int64)], "logits"


@case("true or false")
def a_threshold_in_a_keras_lambda():
    layer = keras.layers.Lambda(lambda x: tf.cast(x > 0.5, tf.float32))  # HERE

    def f(x):
        return tf.reduce_sum(layer(x))

    return f, [tf.ones([2, 3])], "x"
