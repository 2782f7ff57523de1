"""A batch of no examples, such as an empty shard: results without entries, and gradients of zero."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

F = pb.functions
W = tf.constant([[0.3, 0.1], [0.0, 0.2]])
TIMES = tf.constant([0.0, 0.5, 1.0])


def _near(x: Any, w: Any, **options: Any) -> Any:
    return F.fixed_point(lambda z, x, w: tf.tanh(z @ w + x), tf.zeros_like(x), x, w, **options)


def _root(x: Any, w: Any, **options: Any) -> Any:
    return F.root(lambda z, x, w: z + z**3 - x @ w, tf.zeros_like(x), x, w, **options)


def _least(x: Any, w: Any, **options: Any) -> Any:
    return F.argmin(
        lambda z, x, w: tf.reduce_sum(tf.cosh(z - x @ w) + z**2), tf.zeros_like(x), x, w, **options
    )


def _ode(x: Any, w: Any, **options: Any) -> Any:
    return F.odeint(lambda y, t, w: y @ w, x, TIMES, w, **options)


def _sine(x: Any, w: Any, **options: Any) -> Any:
    rule: Callable[..., Any] = lambda dy, *, inputs: dy * np.cos(inputs[0])  # noqa: E731
    return F.external(np.sin, rule=rule, **options)(x @ w)


SOLVED = {
    "fixed_point": lambda x, w: _near(x, w),
    "fixed_point of rows": lambda x, w: _near(x, w, batch_dims=1),
    "fixed_point by Anderson": lambda x, w: _near(x, w, batch_dims=1, method="anderson"),
    "fixed_point in fixed steps": lambda x, w: _near(x, w, tolerance=None, max_steps=3),
    "root": lambda x, w: _root(x, w),
    "root of rows": lambda x, w: _root(x, w, batch_dims=1),
    "root of entries": lambda x, w: _root(x, w, batch_dims=2),
    "root by a dense matrix": lambda x, w: _root(x, w, batch_dims=1, solver="dense"),
    "argmin": lambda x, w: _least(x, w),
    "argmin of rows": lambda x, w: _least(x, w, batch_dims=1),
    "odeint": lambda x, w: _ode(x, w),
    "odeint by the adjoint equation": lambda x, w: _ode(x, w, adjoint="continuous"),
    "odeint in equal steps": lambda x, w: _ode(x, w, method="rk4", steps=2),
}
CALLED = {
    "loop": lambda x, w: _sine(x, w, batch="loop"),
    "threads": lambda x, w: _sine(x, w, batch="threads", out=(2,)),
    "whole": lambda x, w: _sine(x, w, batch="whole"),
}


def _gradients(function: Callable[..., Any], x: Any, w: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        y = function(x, w)
        loss = tf.reduce_sum(y**2)
    return y, *tape.gradient(loss, [x, w])


RUNS: dict[str, Callable[..., Any]] = {
    "eager": _gradients,
    "graph": lambda function, x, w: tf.function(
        lambda x, w: _gradients(function, x, w),
        input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([2, 2])],
    )(x, w),
    "XLA": lambda function, x, w: tf.function(
        lambda x, w: _gradients(function, x, w), jit_compile=True
    )(x, w),
}


def _assert_empty(run: str, function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    y, dx, dw = RUNS[run](function, tf.zeros([0, 2]), W)
    assert (tuple(y.shape), tuple(dx.shape)) == (shape, (0, 2))
    np.testing.assert_array_equal(dw, np.zeros([2, 2]))


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("name", SOLVED)
def test_solutions(name: str, run: str) -> None:
    _assert_empty(run, SOLVED[name], (3, 0, 2) if "odeint" in name else (0, 2))


@pytest.mark.parametrize("run", ["eager", "graph"])
@pytest.mark.parametrize("name", CALLED)
def test_external_code(name: str, run: str) -> None:
    _assert_empty(run, CALLED[name], (0, 2))


def test_tangents_of_external_code() -> None:
    x = tf.zeros([0, 2])
    with tf.autodiff.ForwardAccumulator(x, x) as accumulator:
        y = CALLED["loop"](x, W)
    assert tuple(accumulator.jvp(y).shape) == (0, 2)
