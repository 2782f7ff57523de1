"""Variables have their gradients in whatever way and wherever a function reads them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

TABLE = tf.Variable(tf.reshape(tf.range(15.0), [5, 3]))
ROWS = tf.constant([1, 2, 1])
X = tf.constant(2.0)


def squares(rows: Any) -> Any:
    return tf.reduce_sum(rows * rows)


def of_rows() -> Any:
    return squares(tf.gather(TABLE, ROWS))


def in_a_loop() -> Any:
    def body(i: Any, total: Any) -> Any:
        return i + 1, total + of_rows()

    return tf.while_loop(lambda i, _: i < 3, body, [0, 0.0])[1]


def in_a_branch() -> Any:
    return tf.cond(tf.reduce_sum(TABLE) > 0, of_rows, lambda: 0.0)


READS: dict[str, Callable[[], Any]] = {
    "as a whole": lambda: squares(tf.gather(TABLE + 0.0, ROWS)),
    "by rows": of_rows,
    "by entries": lambda: squares(tf.gather_nd(TABLE, [[1, 0], [2, 2]])),
    "by lookup": lambda: squares(tf.nn.embedding_lookup(TABLE, ROWS)),
    "in a tf.function": tf.function(lambda: squares(TABLE + 0.0)),
    "by rows in a tf.function": tf.function(of_rows),
    "in a loop": in_a_loop,
    "in a branch": in_a_branch,
}


def dense(gradient: Any) -> Any:
    assert gradient is not None
    return tf.convert_to_tensor(gradient)


def eager(f: Any) -> Any:
    with tf.GradientTape() as tape:
        y = f(X)
    return dense(tape.gradient(y, TABLE))


def outside(f: Any) -> Any:
    return eager(tf.function(f))


MODES: dict[str, Callable[[Any], Any]] = {
    "eager": eager,
    "tape inside": lambda f: tf.function(lambda: eager(f))(),
    "tape outside": outside,
    "nested": lambda f: outside(tf.function(f)),
    "cond": lambda f: outside(lambda x: tf.cond(x > 0, lambda: f(x), lambda: x)),
}


def ruled(read: Callable[[], Any]) -> Any:
    @pb.custom_gradient
    def scaled(x: Any) -> Any:
        def scaled_pullback(dy: Any, *, variables: Any) -> Any:
            with tf.GradientTape() as tape:
                y = read() * x
            return dy * read(), tape.gradient(y, list(variables), dy)

        return read() * x, scaled_pullback

    return scaled


def saved(read: Callable[[], Any]) -> Any:
    return pb.functions.checkpoint(lambda x: read() * x)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("make", [ruled, saved], ids=["rule", "checkpoint"])
@pytest.mark.parametrize("read", READS)
def test_a_variable_has_its_gradient(read: str, make: Any, mode: str) -> None:
    wanted = eager(lambda x: READS[read]() * x)
    np.testing.assert_allclose(MODES[mode](make(READS[read])), wanted, rtol=1e-6)
