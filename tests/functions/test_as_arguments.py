"""Ready-made functions as arguments of a tf.function: they arrive as they are, with their gradients."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = tf.constant([0.3, 0.7])
FUNCTIONS = ["gelu", "sqrt", "log1mexp", "cumprod", "logsumexp", "normalize", "rms_norm"]


def gradient(f: Any, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(f(x) ** 2)
    return tape.gradient(y, x)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_an_argument_or_a_default(name: str) -> None:
    f = getattr(pb.functions, name)
    wanted = gradient(f, X)
    np.testing.assert_allclose(tf.function(gradient)(f, X), wanted, rtol=1e-6)
    by_default = tf.function(lambda x, f=f: gradient(f, x))
    np.testing.assert_allclose(by_default(X), wanted, rtol=1e-6)


def test_what_is_checkpointed_is_run_again() -> None:
    runs: list[int] = []

    def body(x: Any) -> Any:
        runs.append(1)
        return tf.sin(x)

    wanted = np.sin(X) * np.cos(X) * 2
    np.testing.assert_allclose(
        tf.function(gradient)(pb.functions.checkpoint(body), X), wanted, rtol=1e-5
    )
    assert len(runs) == 2
