"""What cannot be explained, and what is said then."""

from collections.abc import Callable
from typing import Any

import keras
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExplainError

X = tf.constant([1.0, 2.0])
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])


def raising(x: Any) -> Any:
    return tf.reshape(x, (3,))


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "raises": (
        lambda: pb.explain(raising, X),
        r"raising raised InvalidArgumentError at .*test_refusals.py:1\d",
    ),
    "no tensor": (lambda: pb.explain(lambda x: None, X), r"returns no tensor.*None"),
    "left": (lambda: pb.explain(lambda x: x.numpy(), X), r"ndarray, which left TensorFlow"),
    "nothing": (
        lambda: pb.explain(lambda: tf.constant(1.0)),
        r"takes nothing differentiable.*no arguments",
    ),
    "unknown wrt": (
        lambda: pb.explain(tf.sin, X, wrt="q"),
        r"wrt='q' names no source of sin. Those are: x",
    ),
    "wrong wrt": (
        lambda: pb.explain(tf.sin, X, wrt=[3]),
        r"wrt takes names, tensors and variables; got 3",
    ),
    "no function": (
        lambda: pb.explain(3, X),
        r"the first argument of explain is what to run.*got 3",
    ),
    "a class": (
        lambda: pb.explain(keras.layers.ReLU, X),
        r"ReLU is a class.*pb.explain\(ReLU\(...\)",
    ),
    "no truth": (
        lambda: pb.explain(model, X[None], loss="mse"),
        r"only 1 argument was given.*x, y, loss",
    ),
    "no such loss": (
        lambda: pb.explain(model, X[None], X, loss="nope"),
        r"Keras has no loss 'nope'",
    ),
    "not compiled": (
        lambda: pb.explain(model, X[None], X, loss="compiled"),
        r"is no compiled model",
    ),
    "wrong loss": (
        lambda: pb.explain(model, X[None], X, loss=3),
        r"loss is a function of y.*got 3",
    ),
    "in a graph": (
        lambda: tf.function(lambda x: pb.explain(tf.sin, x))(X),
        r"cannot run inside a tf.function",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_refused(case: str) -> None:
    run, words = CASES[case]
    with pytest.raises(ExplainError, match=words):
        run()


def test_the_users_error_is_the_cause() -> None:
    with pytest.raises(ExplainError, match="raising") as caught:
        pb.explain(raising, X)
    assert isinstance(caught.value.__cause__, tf.errors.InvalidArgumentError)
