"""`odeint` against closed forms."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ArgumentError, NotConverged
from tests.modes import MODES, SECOND_ORDER, assert_gradients, assert_in_mode

odeint = pb.functions.odeint
K, Y0, T = tf.constant(0.5), tf.constant([2.0, 1.0]), [0.0, 0.5, 1.0]
BACKWARD = [name for name, mode in MODES.items() if not mode.is_forward]
WAYS: dict[str, Any] = {
    "adaptive": {},
    "fixed": {"method": "rk4", "steps": 8},
    "continuous": {"adjoint": "continuous"},
}


def decay(k: Any, y0: Any, **options: Any) -> Any:
    return odeint(lambda y, t, k: -k * y, y0, T, k, **options)


def wanted() -> list[Any]:
    """Of the sum of y0 e^(−kt) over entries and times."""
    t = np.array(T)
    return [np.sum(-t * np.exp(-0.5 * t)) * 3.0, np.sum(np.exp(-0.5 * t)) * np.ones(2)]


@pytest.mark.parametrize("way", WAYS)
def test_value_and_gradient(way: str) -> None:
    def run(k: Any, y0: Any) -> Any:
        return decay(k, y0, **WAYS[way])

    exact = Y0.numpy() * np.exp(-0.5 * np.array(T))[:, None]
    np.testing.assert_allclose(run(K, Y0), exact, rtol=1e-4)
    for mode in ("eager", "tf.function, tape inside"):
        assert_gradients(MODES[mode](run, [K, Y0]), wanted(), rtol=2e-4)


# The midpoint rule, one step of h = 1: y1 = y0 (1 − k + k²/2), whose derivatives are known exactly.


def one_step(k: Any, y0: Any) -> Any:
    return odeint(lambda y, t, k: -k * y, y0, [0.0, 1.0], k, method="midpoint", steps=1)[1]


@pytest.mark.parametrize("mode", BACKWARD)
def test_discrete_gradient_in_every_mode(mode: str) -> None:
    exact = [3.0 * (-1 + 0.5), np.ones(2) * (1 - 0.5 + 0.125)]
    assert_in_mode(MODES[mode], one_step, [K, Y0], exact)


@pytest.mark.parametrize("mode", ["second order, eager", "second order, tapes inside"])
def test_second_order(mode: str) -> None:
    """Of (Σy · (k − 1))² + Σ (1 − k + k²/2)²."""
    k, total = 0.5, 3.0
    part = 1 - k + k**2 / 2
    of_k = 2 * total**2 * (k - 1) + 2 * 2 * part * (k - 1)
    of_y = np.ones(2) * 2 * total * (k - 1) ** 2
    assert_gradients(SECOND_ORDER[mode](one_step, [K, Y0]), [of_k, of_y], rtol=1e-4)


@pytest.mark.parametrize("adjoint", ["discrete", "continuous"])
@pytest.mark.parametrize("traced", [False, True])
def test_closures_structures_and_times(traced: bool, adjoint: Any) -> None:
    """A pendulum of frequency w: position cos(w t), speed −w sin(w t)."""
    w, times = tf.Variable(1.5), tf.constant([0.0, 1.0])

    def gradients() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(times)
            start = {"x": tf.constant(1.0), "v": tf.constant(0.0)}
            path = odeint(
                lambda y, t: {"x": y["v"], "v": -(w**2) * y["x"]}, start, times,
                method="rk4", steps=40, adjoint=adjoint,
            )  # fmt: skip
            end = path["x"][-1]
        return tape.gradient(end, [w, times])

    of_w, of_times = (tf.function(gradients) if traced else gradients)()
    np.testing.assert_allclose(of_w, -np.sin(1.5), rtol=1e-3)
    np.testing.assert_allclose(of_times, [1.5 * np.sin(1.5), -1.5 * np.sin(1.5)], rtol=1e-3)


def test_too_few_steps_are_an_error() -> None:
    with pytest.raises(NotConverged, match=r"ended at t = .*, after 5 of at most 5.*t = 10\. "):
        odeint(lambda y, t: -100.0 * y, tf.constant([1.0]), [0.0, 10.0], max_steps=5)


def test_steps_end_where_the_solution_does() -> None:
    """dy/dt = y² from 1: y = 1 / (1 − t). There are more steps to take, and no time left to take them in."""
    calls: list[int] = []

    def slope(y: Any, t: Any) -> Any:
        calls.append(1)
        return y**2

    with pytest.raises(NotConverged, match=r"ended at t = 1, after .* grows without bounds"):
        odeint(slope, tf.constant([1.0]), [0.0, 2.0])
    assert len(calls) < 7 * 200  # seven a step


OPTIONS = [{}, {"method": "rk4", "steps": 4}, {"adjoint": "continuous"}]


@pytest.mark.parametrize("compiled", [False, True])
def test_times_that_are_not_reached_are_nan(compiled: bool) -> None:
    def run() -> Any:
        mode: Any = "raise" if compiled else "nan"
        return odeint(
            lambda y, t: y**2, tf.constant([1.0]), [0.0, 2.0, 3.0], on_failure=mode, max_steps=50
        )

    found = (tf.function(run, jit_compile=True) if compiled else run)()
    np.testing.assert_array_equal(found[:, 0], [1.0, np.nan, np.nan])


@pytest.mark.parametrize("adjoint", ["discrete", "continuous"])
def test_a_failure_that_is_accepted_keeps_the_last_state(adjoint: Any) -> None:
    """Of a linear equation, the derivative towards the start is y / y0, however far the steps go."""
    y0 = tf.constant([2.0])
    with tf.GradientTape() as tape:
        tape.watch(y0)
        y = odeint(
            lambda y, t: -y,
            y0,
            [0.0, 50.0, 60.0],
            max_steps=4,
            adjoint=adjoint,
            on_failure="accept",
        )
        last = y[2]
    np.testing.assert_array_equal(y[1], y[2])
    assert y[2] < 2.0
    np.testing.assert_allclose(tape.gradient(last, y0), last / 2.0, rtol=1e-3)


def test_the_limit_of_steps_is_a_whole_number() -> None:
    with pytest.raises(NotConverged, match=r"after 1200 of at most 1200; wanted to reach t = 100"):
        odeint(lambda y, t: 1e4 * tf.sin(1e4 * t) * y, Y0, [0.0, 100.0], max_steps=1200)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("of_times", ["float16", "float32", "float64", "int32"])
@pytest.mark.parametrize("of_state", ["float16", "float32", "float64"])
def test_times_of_another_dtype(of_state: str, of_times: str, options: Any, traced: bool) -> None:
    """y = e^(−t²/2), whose derivative towards the last time is −t y."""
    y0, t = tf.cast([1.0], of_state), tf.cast([0, 1, 2], of_times)

    def solution(y0: Any, t: Any) -> Any:
        return odeint(lambda y, t: -t * y, y0, t, **options)[-1]

    with tf.GradientTape() as tape:
        tape.watch([v for v in (y0, t) if v.dtype.is_floating])
        y = (tf.function(solution) if traced else solution)(y0, t)
    to_start, to_times = tape.gradient(y, [y0, t])
    assert y.dtype == to_start.dtype == of_state
    np.testing.assert_allclose([y[0], to_start[0]], 2 * [np.exp(-2.0)], rtol=2e-2)
    assert (to_times is None) == (of_times == "int32")
    if to_times is not None:
        assert to_times.dtype == of_times
        np.testing.assert_allclose(to_times[-1], -2.0 * np.exp(-2.0), rtol=2e-2)


def test_times_in_a_list_have_all_their_digits() -> None:
    y = odeint(lambda y, t: tf.ones_like(y), tf.zeros([], tf.float64), [0.0, 0.1])[-1]
    assert float(y) == pytest.approx(0.1, rel=1e-15)


def test_a_slope_without_numbers() -> None:
    with pytest.raises(NotConverged, match=r"ended at t = 0, .*f returned no numbers"):
        odeint(lambda y, t: np.nan * y, tf.constant([1.0], tf.float64), [0.0, 2.0])


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: odeint(1.0, Y0, T), "f=1.0; wanted a function"),
        (lambda: odeint(lambda t, y: -y, Y0, T), "wanted the state before the time"),
        (lambda: odeint(lambda y, t: y, Y0, [0.0]), "wanted a vector of at least two times"),
        (lambda: odeint(lambda y, t: y, Y0, T, method="rk4"), "steps=None.*number of steps"),
        (lambda: odeint(lambda y, t: y, Y0, T, method="lsoda"), "method='lsoda'"),
        (lambda: odeint(lambda y, t: y, Y0, T, steps=0), "steps=0"),
        (lambda: odeint(lambda y, t: y, Y0, T, adjoint="exact"), "adjoint='exact'"),
        (lambda: odeint(lambda y, t: y[:1], Y0, T), "for y of .*wanted the structure.* of y0"),
        (lambda: odeint(lambda y, t: y, {}, T), "got y0 without any array"),
        (lambda: odeint(lambda y, t: y, tf.constant(1), T), "got y0 with int32"),
        (lambda: odeint(lambda y, t: y, tf.constant(1j), T), "got y0 with complex128"),
        (
            lambda: odeint(lambda y, t: y, [Y0, tf.cast(Y0, tf.float64)], T),
            r"got y0 with .*wanted arrays of one dtype\. Cast them\.$",
        ),
    ],
)
def test_bad_input(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


# The start is a source of its own, whether or not anything else is.


def bare_decay(y0: Any, adjoint: Any) -> Any:
    return odeint(lambda y, t: -y, y0, [0.0, 1.0], adjoint=adjoint)[-1]


@pytest.mark.parametrize("adjoint", ["discrete", "continuous"])
@pytest.mark.parametrize("mode", ["eager", "tf.function, tape inside", "XLA", "XLA, tape inside"])
def test_gradient_towards_the_start_alone(mode: str, adjoint: Any) -> None:
    found = MODES[mode](lambda y0: bare_decay(y0, adjoint), [Y0])
    assert_gradients(found, [np.exp(-1.0) * np.ones(2)], rtol=1e-4)


def test_a_start_that_the_function_reads_counts_twice() -> None:
    """dy/dt = −a y from y = a: y(1) = a e^(−a), whose derivative is (1 − a) e^(−a)."""
    a = tf.constant([2.0])
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = odeint(lambda y, t: -a * y, a, [0.0, 1.0])[-1]
    np.testing.assert_allclose(tape.gradient(y, a), [-np.exp(-2.0)], rtol=1e-4)


@pytest.mark.parametrize("adjoint", ["discrete", "continuous"])
@pytest.mark.parametrize("traced", [False, True])
def test_a_layer_before_the_equation_learns(traced: bool, adjoint: Any) -> None:
    """Of (w x e^(−1) − 1)², a step of descent: w ← w − rate · 2 x e^(−1) (w x e^(−1) − 1)."""
    x, w = keras.Input([1]), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")
    y = keras.layers.Lambda(lambda y: bare_decay(y, adjoint))(w(x))
    model = keras.Model(x, y)
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=not traced)
    model.fit(np.full([1, 1], 2.0), np.ones([1, 1]), verbose=0)
    e = np.exp(-1.0)
    np.testing.assert_allclose(w.kernel, [[1 - 0.1 * 4 * e * (2 * e - 1)]], rtol=1e-4)
