"""`reversible` against ordinary differentiation of the same formulas in float64."""

import functools
import weakref
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ArgumentError, UnsupportedError
from tests.functions.cases import gradient
from tests.modes import MODES, SECOND_ORDER, assert_gradients, assert_in_mode

X1, X2 = tf.constant([0.3, -1.0]), tf.constant([0.7, 0.2])
BLOCK = pb.functions.reversible(tf.sin, tf.exp)


def wanted() -> list[Any]:
    """Of y1 + y2 with y1 = x1 + sin x2 and y2 = x2 + exp y1."""
    y1 = X1.numpy().astype(float) + np.sin(X2.numpy().astype(float))
    d1 = 1 + np.exp(y1)
    return [d1, 1 + d1 * np.cos(X2)]


@pytest.mark.parametrize("mode", MODES)
def test_gradient_in_every_mode(mode: str) -> None:
    assert_in_mode(MODES[mode], BLOCK, [X1, X2], wanted())


def test_check_says_right() -> None:
    assert pb.check(BLOCK, X1, X2).verdict == "right"


def test_variables_have_their_gradients() -> None:
    w = tf.Variable([2.0, 3.0])
    block = pb.functions.reversible(lambda x: w * x, lambda x: x * x)
    with tf.GradientTape() as tape:
        y1, y2 = block(X1, X2)
        loss = tf.reduce_sum(y1 + y2)
    y1 = X1.numpy() + [2.0, 3.0] * X2.numpy()
    np.testing.assert_allclose(tape.gradient(loss, w), (1 + 2 * y1) * X2.numpy(), rtol=1e-5)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16])
def test_few_digits_are_refused(dtype: Any) -> None:
    with pytest.raises(ArgumentError, match=r"so few digits.*float32"):
        BLOCK(tf.cast(X1, dtype), tf.cast(X2, dtype))


def test_bad_input() -> None:
    with pytest.raises(ArgumentError, match="f=3; wanted a function"):
        pb.functions.reversible(3, tf.sin)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="wanted the shape and dtype of the half"):
        pb.functions.reversible(tf.reduce_sum, tf.sin)(X1, X2)


def noisy(generator: Any, x: Any) -> Any:
    return x * generator.normal([2])


CHANGING = {
    "dropout": lambda: lambda x: tf.nn.dropout(x, 0.5),
    "Dropout": lambda: functools.partial(keras.layers.Dropout(0.5), training=True),
    "statistics": lambda: functools.partial(keras.layers.BatchNormalization(), training=True),
    "generator": lambda: functools.partial(noisy, tf.random.Generator.from_seed(1)),
}


@pytest.mark.parametrize("run", [lambda step: step, tf.function], ids=["eager", "graph"])
@pytest.mark.parametrize("make", CHANGING.values(), ids=CHANGING)
def test_what_is_not_the_same_each_time_is_refused(make: Any, run: Any) -> None:
    half, x = make(), tf.ones([1, 2])
    with pytest.raises(UnsupportedError, match=r"function g that draws.*checkpoint"):
        run(lambda: pb.functions.reversible(tf.sin, half)(x, x))()


def test_layers_are_built_in_the_first_call() -> None:
    dense = keras.layers.Dense(2)
    x = tf.ones([1, 2])
    y1, _ = pb.functions.reversible(dense, keras.layers.Dropout(0.5))(x, x)
    np.testing.assert_allclose(y1, 1.0 + np.sum(dense.kernel, 0, keepdims=True), rtol=1e-6)


def stack(x1: Any, x2: Any) -> Any:
    """Five blocks, of which the outputs of the third count as well."""
    middle = None
    for i in range(5):
        scale = 0.3 + 0.1 * i
        x1, x2 = pb.functions.reversible(
            lambda x, scale=scale: tf.sin(scale * x), lambda x, scale=scale: scale * tf.tanh(x)
        )(x1, x2)
        middle = (x1, x2) if i == 2 else middle
    assert middle is not None
    return x1 * x2 + middle[0] ** 2


def plain_stack(x1: Any, x2: Any) -> Any:
    middle = None
    for i in range(5):
        scale = 0.3 + 0.1 * i
        x1 = x1 + np.sin(scale * x2)
        x2 = x2 + scale * np.tanh(x1)
        middle = (x1, x2) if i == 2 else middle
    assert middle is not None
    return x1 * x2 + middle[0] ** 2


def stack_gradient() -> list[Any]:
    return gradient(
        lambda *xs: np.sum(plain_stack(*xs)), [X1.numpy().astype(float), X2.numpy().astype(float)]
    )


@pytest.mark.parametrize("mode", MODES)
def test_a_stack_in_every_mode(mode: str) -> None:
    assert_in_mode(MODES[mode], stack, [X1, X2], stack_gradient())


@pytest.mark.parametrize("mode", SECOND_ORDER)
def test_second_order_of_a_stack(mode: str) -> None:
    def squares(*xs: Any) -> Any:
        inner = gradient(lambda *ys: np.sum(plain_stack(*ys)), xs)
        return sum(np.sum(np.square(g)) for g in inner)

    wanted = gradient(squares, [X1.numpy().astype(float), X2.numpy().astype(float)])
    assert_gradients(SECOND_ORDER[mode](stack, [X1, X2]), wanted, rtol=1e-4)


def test_a_persistent_tape_goes_back_twice_and_from_the_middle() -> None:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([X1, X2])
        y = stack(X1, X2)
    for _ in range(2):
        assert_gradients([g.numpy() for g in tape.gradient(y, [X1, X2])], stack_gradient())


def test_a_block_whose_successor_has_no_gradient() -> None:
    with tf.GradientTape() as tape:
        tape.watch([X1, X2])
        y1, y2 = BLOCK(X1, X2)
        loss = tf.reduce_sum(y1 + y2)
        BLOCK(y1, y2)  # for nothing
        del y1, y2
    assert_gradients([g.numpy() for g in tape.gradient(loss, [X1, X2])], wanted())


def test_a_stack_keeps_its_last_outputs_alone() -> None:
    middle: list[Any] = []
    with tf.GradientTape() as tape:
        x1, x2 = X1 + 0.0, X2 + 0.0
        tape.watch([x1, x2])
        for _ in range(4):
            x1, x2 = BLOCK(x1, x2)
            middle += map(weakref.ref, (x1, x2))
    assert [r() is None for r in middle] == [True] * 6 + [False] * 2


def assigned_meanwhile(w: tf.Variable) -> Any:
    block = pb.functions.reversible(lambda x: w * x, tf.sin)
    with tf.GradientTape() as tape:
        y1, _ = block(X1, X2)
    w.assign_add([0.5, 0.0])
    return tape.gradient(y1, w)


def traced_apart(w: tf.Variable) -> Any:
    block = tf.function(pb.functions.reversible(lambda x: w * x, tf.sin))
    with tf.GradientTape() as tape:
        y1, _ = block(X1, X2)
    w.assign_add([0.5, 0.0])
    return tape.gradient(y1, w)


@pytest.mark.parametrize(
    "run",
    [assigned_meanwhile, tf.function(assigned_meanwhile), traced_apart],
    ids=["eager", "graph", "tape outside of a tf.function"],
)
def test_a_variable_that_was_assigned_meanwhile_is_an_error(run: Any) -> None:
    errors = (UnsupportedError, tf.errors.InvalidArgumentError)
    with pytest.raises(errors, match=r"assigned between the forward pass[\s\S]*checkpoint"):
        run(tf.Variable([2.0, 3.0]))


def test_a_variable_that_was_assigned_meanwhile_gives_nan_under_xla() -> None:
    compiled = tf.function(assigned_meanwhile, jit_compile=True)
    assert np.isnan(compiled(tf.Variable([2.0, 3.0]))).all()


def test_a_variable_may_be_assigned_what_it_holds() -> None:
    w = tf.Variable([2.0, 3.0])
    with tf.GradientTape() as tape:
        y1, _ = pb.functions.reversible(lambda x: w * x, tf.sin)(X1, X2)
    w.assign([2.0, 3.0])
    np.testing.assert_allclose(tape.gradient(y1, w), X2)
