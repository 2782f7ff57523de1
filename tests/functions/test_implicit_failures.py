"""`fixed_point`, `root` and `argmin` where there is no solution, and what they do not take."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow.modes import push_forward
from pullback.errors import ArgumentError, NotConverged
from tests.modes import with_tape

f = pb.functions
A = tf.constant([2.0, 3.0])


def diverging() -> Any:
    return f.fixed_point(lambda x: 2.0 * x + 1.0, tf.ones(3))


def test_a_failure_is_an_error() -> None:
    with pytest.raises(NotConverged, match=r"forward solve ended.*max_steps.*on_failure"):
        diverging()


def test_a_failure_in_a_graph_is_an_error_when_it_runs() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="forward solve ended"):
        tf.function(diverging)()


def test_a_failure_under_xla_is_nan() -> None:
    assert np.isnan(tf.function(diverging, jit_compile=True)()).all()


def test_a_failure_can_be_nan_or_accepted() -> None:
    def grow(x: Any) -> Any:
        return x + 1.0

    few: Any = {"max_steps": 3}
    assert np.isnan(f.fixed_point(grow, tf.zeros(1), on_failure="nan", **few)).all()
    assert float(f.fixed_point(grow, tf.zeros(1), on_failure="accept", **few)[0]) == 3.0


@pytest.mark.parametrize("compiled", [False, True])
def test_a_failed_solve_has_no_gradient(compiled: bool) -> None:
    """The derivative of x ← 2 x + a is the same everywhere: without a solution there is nothing that it belongs to."""
    a = tf.constant([1.0])

    def run(a: Any) -> Any:
        mode: Any = "raise" if compiled else "nan"
        return f.fixed_point(lambda x: 2.0 * x + a, tf.ones(1), on_failure=mode, max_steps=5)

    def gradient() -> Any:
        return with_tape(run, [a], ())[0]

    found = (tf.function(gradient, jit_compile=True) if compiled else gradient)()
    assert np.isnan(found).all()
    if not compiled:
        assert np.isnan(push_forward(run, [a], a, tf.ones_like(a))).all()


def test_a_backward_failure_is_an_error() -> None:
    """x = −2 x + 3 a: Newton solves it, and Neumann's series diverges."""
    a = tf.constant([1.0])
    with tf.GradientTape() as tape:
        tape.watch(a)
        x = f.root(lambda x, a: 3.0 * x - 3.0 * a, tf.zeros(1), a, solver="neumann", on_failure="raise",
                   step=lambda x, a: a)  # fmt: skip
    with pytest.raises(
        NotConverged, match=r"backward solve ended.*solver_steps, a larger solver_tolerance"
    ):
        tape.gradient(x, a)


def test_systems_that_depend_on_each_other_point_at_batch_dims() -> None:
    a = tf.ones([3, 2])
    with tf.GradientTape() as tape:
        tape.watch(a)
        x = f.fixed_point(
            lambda x, a: 0.5 * tf.reverse(x, [0]) + a, tf.zeros_like(a), a, batch_dims=1
        )
    with pytest.raises(NotConverged, match=r"backward solve.*fewer batch_dims than 1 where one"):
        tape.gradient(x, a, tf.constant([[1.0], [2.0], [4.0]]) * tf.ones_like(a))


@pytest.mark.parametrize("count", [1, 2])
def test_an_equation_that_does_not_depend_on_x_is_an_error(count: int) -> None:
    a = tf.ones(count)
    with tf.GradientTape() as tape:
        tape.watch(a)
        x = f.root(lambda x: 0.0 * x + a - 1.0, tf.ones(count))
    with pytest.raises(NotConverged, match=r"backward solve ended.*residual of nan"):
        tape.gradient(x, a)


# Functions whose gradient vanishes at the start or on the way, and which have no minimum there.

NO_MINIMA: dict[str, Callable[..., Any]] = {
    "maximum": lambda **options: f.argmin(tf.cos, tf.constant(0.0), **options),
    "saddle": lambda **options: f.argmin(
        lambda x: x[0] ** 2 - x[1] ** 2 + x[0], tf.constant([1.0, 0.0]), **options
    ),
    "one of many systems": lambda **options: f.argmin(
        lambda x: tf.reduce_sum(tf.cos(x)), tf.constant([3.0, 0.0, 3.0]), batch_dims=1, **options
    ),
    "large": lambda **options: f.argmin(
        lambda x: tf.reduce_sum(x[1:] ** 2) - 0.01 * x[0] ** 2, tf.zeros(400), **options
    ),
}


@pytest.mark.parametrize("name", NO_MINIMA)
def test_a_stationary_point_that_is_no_minimum(name: str) -> None:
    run, words, log = (
        NO_MINIMA[name],
        "stationary point that is no minimum.*another x0",
        f.SolveLog(),
    )
    with pytest.raises(NotConverged, match=words):
        run(log=log)
    assert not log[0].converged
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        tf.function(run)()
    assert np.isnan(tf.function(run, jit_compile=True)()).all()
    assert np.isnan(run(on_failure="nan")).all()
    assert np.isfinite(run(on_failure="accept")).all()


def test_a_flat_minimum_is_one() -> None:
    """Of (x + y)²: no curvature along (1, −1)."""
    x = f.argmin(lambda x: tf.reduce_sum(x) ** 2, tf.constant([1.0, 2.0]), solver="cg")
    np.testing.assert_allclose(tf.reduce_sum(x), 0.0, atol=1e-4)


@pytest.mark.parametrize(
    "call, words",
    [
        (diverging, "a larger tolerance, another x0, damping or method;"),
        (lambda: f.root(lambda x: x**2 + 1.0, A), "another x0, or a step of your own;"),
        (lambda: f.argmin(lambda x: -tf.reduce_sum(x**2), A), "another x0, or a step of your own;"),
    ],
)
def test_advice_names_what_there_is(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(NotConverged, match=words):
        call()


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: f.fixed_point(3.0, A), "got f=3.0; wanted a function"),
        (lambda: f.fixed_point(lambda x: x, A, method="magic"), "method='magic'"),
        (lambda: f.fixed_point(lambda x: x, A, tolerance=-1.0), "tolerance=-1.0"),
        (lambda: f.fixed_point(lambda x: x, A, max_steps=0), "max_steps=0"),
        (lambda: f.fixed_point(lambda x: x, A, damping=2.0), "damping=2.0"),
        (lambda: f.fixed_point(lambda x: x, A, solver="lu"), "solver='lu'.*'neumann'"),
        (lambda: f.fixed_point(lambda x: x, A, on_failure="pass"), "on_failure='pass'"),
        (
            lambda: f.fixed_point(lambda x: x, A, log=[]),
            "log=\\[\\]; wanted a pb.functions.SolveLog",
        ),
        (
            lambda: f.fixed_point(lambda x: x[:1], A),
            "returns float32.*wanted the structure, shapes",
        ),
        (lambda: f.fixed_point(lambda x: [x], A), "wanted the structure, shapes"),
        (lambda: f.fixed_point(lambda x: x, tf.constant([1, 2])), "int32.*floating-point"),
        (lambda: f.root(lambda x: x, A, batch_dims=2), "batch_dims=2"),
        (lambda: f.root(lambda x: x, [A, tf.constant([1.0], tf.float64)]), "one dtype"),
        (lambda: f.root(lambda x: x, []), "without any array"),
        (lambda: f.argmin(lambda x: x, A), "wanted one number"),
    ],
)
def test_bad_input(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
