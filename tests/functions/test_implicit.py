"""`fixed_point`, `root` and `argmin` against closed forms, in every mode."""

import functools
import gc
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow.modes import push_forward
from pullback.errors import UnsupportedError
from tests.modes import MODES, SECOND_ORDER, assert_gradients, assert_in_mode, with_tape

f = pb.functions
A = tf.constant([2.0, 3.0])
SQRT = [1 / (2 * np.sqrt(2)), 1 / (2 * np.sqrt(3))]


def heron(a: Any) -> Any:
    return f.fixed_point(lambda x, a: 0.5 * (x + a / x), tf.ones_like(a), a)


def cube_root(a: Any) -> Any:
    return f.root(lambda x, a: x**3 - a, tf.ones_like(a), a, batch_dims=1)


def shifted(a: Any) -> Any:
    """The minimum of x⁴/4 + x − a x: the cube root of a − 1."""
    return f.argmin(lambda x, a: tf.reduce_sum(x**4 / 4 + x - a * x), 0.5 * tf.ones_like(a), a)


# Function, its value, first derivative and second, in NumPy.
CASES: list[tuple[Callable[..., Any], Any, Any, Any]] = [
    (heron, np.sqrt, lambda a: 0.5 * a**-0.5, lambda a: -0.25 * a**-1.5),
    (cube_root, np.cbrt, lambda a: a ** (-2 / 3) / 3, lambda a: -2 * a ** (-5 / 3) / 9),
    (
        shifted,
        lambda a: np.cbrt(a - 1),
        lambda a: (a - 1) ** (-2 / 3) / 3,
        lambda a: -2 * (a - 1) ** (-5 / 3) / 9,
    ),
]
CASE = pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)


def together(*xs: Any) -> list[Any]:
    return [case[0](x) for case, x in zip(CASES, xs, strict=True)]


@CASE
def test_value(case: Any) -> None:
    np.testing.assert_allclose(case[0](A), case[1](A.numpy()), rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_gradient_in_every_mode(mode: str) -> None:
    assert_in_mode(MODES[mode], heron, [A], [0.5 * A.numpy().astype(float) ** -0.5])


@pytest.mark.parametrize("mode", ["eager", "tf.function, tape inside"])
def test_gradients_of_all(mode: str) -> None:
    wanted = [case[2](A.numpy().astype(float)) for case in CASES]
    assert_in_mode(MODES[mode], together, [A, A + 0.0, A * 1.0], wanted)


def test_tangents_of_all() -> None:
    xs, along = [A, A + 0.0, A * 1.0], [tf.constant([1.0, -2.0])] * 3
    for case, found in zip(CASES, push_forward(together, xs, xs, along), strict=True):
        np.testing.assert_allclose(found, case[2](A.numpy()) * [1.0, -2.0], rtol=1e-5)


def test_forward_mode_of_third_order_is_refused() -> None:
    def differentiated(function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda a: push_forward(function, [a], a, tf.ones_like(a))

    second = differentiated(differentiated(cube_root))
    np.testing.assert_allclose(second(A), CASES[1][3](A.numpy()), rtol=1e-4)
    with pytest.raises(UnsupportedError, match=r"more than 2 accumulators.*by tapes"):
        differentiated(second)(A)


def derived(function: Callable[..., Any], *ways: str) -> Callable[[Any], Any]:
    """The derivatives of a function of one array, the innermost first: by a tape, or forward along ones."""

    def forward(of: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda a: push_forward(of, [a], a, tf.ones_like(a))

    def reverse(of: Callable[..., Any]) -> Callable[[Any], Any]:
        return lambda a: with_tape(of, [a], ())[0]

    for way in ways:
        function = (forward if way == "forward" else reverse)(function)
    return function


@CASE
def test_third_order_by_tapes_is_right(case: Any) -> None:
    a, h = A.numpy().astype(float), 1e-4
    wanted = (case[3](a + h) - case[3](a - h)) / (2 * h)
    found = derived(case[0], "reverse", "reverse", "reverse")(A)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


def test_third_order_with_tapes_outside_of_a_traced_function_is_refused() -> None:
    found = derived(tf.function(cube_root), "reverse", "reverse")(A)
    np.testing.assert_allclose(found, CASES[1][3](A.numpy()), rtol=1e-4)
    with pytest.raises(UnsupportedError, match=r"outside of a traced function.*inside"):
        derived(tf.function(cube_root), "reverse", "reverse", "reverse")(A)


@pytest.mark.parametrize("run", [lambda of: of, tf.function], ids=["eager", "traced"])
def test_higher_orders_by_tapes(run: Callable[..., Any]) -> None:
    """Third and fourth derivatives, the third also of a function of the solution: of a^(2/3) it is 8/27 a^(−7/3)."""
    a = A.numpy().astype(float)
    third = run(derived(lambda a: cube_root(a) ** 2, *["reverse"] * 3))(A)
    np.testing.assert_allclose(third, 8 / 27 * a ** (-7 / 3), rtol=1e-4)
    fourth = run(derived(cube_root, *["reverse"] * 4))(A)
    np.testing.assert_allclose(fourth, -80 / 81 * a ** (-11 / 3), rtol=1e-4)


REFUSED = {
    "a tape around two accumulators": (["forward", "forward", "reverse"], lambda of: of),
    "an accumulator around two tapes": (["reverse", "reverse", "forward"], lambda of: of),
    "two accumulators in a tf.function": (["forward", "forward"], tf.function),
}


@pytest.mark.parametrize("name", REFUSED)
@CASE
def test_other_forward_mode_is_refused(case: Any, name: str) -> None:
    ways, run = REFUSED[name]
    with pytest.raises(UnsupportedError, match=r"pb\.functions\..*accumulator.*by tapes"):
        run(derived(case[0], *ways))(A)


@pytest.mark.parametrize("mode", SECOND_ORDER)
def test_second_order(mode: str) -> None:
    a = A.numpy().astype(float)
    wanted = [2 * first(a) * second(a) for _, _, first, second in CASES]
    found = SECOND_ORDER[mode](together, [A, A + 0.0, A * 1.0])
    assert_gradients(found, wanted, rtol=1e-4)


def test_check_says_right() -> None:
    """Of an iteration that converges for all arguments: where one does not, there is nothing to check."""

    def settled(a: Any) -> Any:
        return f.fixed_point(lambda x, a: 0.5 * tf.sin(x) + a, tf.zeros_like(a), a)

    def crossing(a: Any) -> Any:
        return f.root(lambda x, a: x**3 + x - a, tf.zeros_like(a), a)

    def lowest(a: Any) -> Any:
        return f.argmin(lambda x, a: tf.reduce_sum(tf.cosh(x) - a * x), tf.zeros_like(a), a)

    for function in (settled, crossing, lowest):
        report = pb.check(function, A, tolerance=1e-3)
        assert report.verdict == "right", str(report)


# A layer: two equations that depend on each other, closures, structures, solvers.

W = np.array([[0.3, -0.2], [0.4, 0.1]], np.float32)
B = np.array([0.5, -0.3], np.float32)


def layer_gradients() -> tuple[Any, Any]:
    """The gradients of Σ x² for x = tanh(W x + b), in float64, by the implicit function theorem on paper."""
    w, b, x = W.astype(float), B.astype(float), np.zeros(2)
    for _ in range(200):
        x = np.tanh(w @ x + b)
    slope = np.diag(1 - x**2)
    adjoint = np.linalg.solve((np.eye(2) - slope @ w).T, 2 * x)
    return np.outer(slope @ adjoint, x), slope @ adjoint


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("method", ["iteration", "anderson"])
@pytest.mark.parametrize("solver", ["auto", "neumann", "gmres", "bicgstab", "dense"])
def test_closures_structures_and_solvers(solver: str, method: Any, traced: bool) -> None:
    w, b, log = tf.Variable(W), tf.constant(B), f.SolveLog()

    def gradients() -> Any:
        def layer(x: Any) -> Any:
            return {"z": tf.tanh(tf.linalg.matvec(w, x["z"]) + b)}

        with tf.GradientTape() as tape:
            tape.watch(b)
            x = f.fixed_point(layer, {"z": tf.zeros(2)}, method=method, solver=solver, log=log)
            loss = tf.reduce_sum(x["z"] ** 2)
        return tape.gradient(loss, [w, b])

    found = (tf.function(gradients) if traced else gradients)()
    for gradient, wanted in zip(found, layer_gradients(), strict=True):
        np.testing.assert_allclose(gradient, wanted, rtol=1e-4)
    assert len(log.forward) == len(log.backward) == 1
    assert all(solve.converged and solve.residual < 1.5e-5 for solve in log)


def test_conjugate_gradients_serve_minima() -> None:
    """Ridge regression: the derivative of the solution towards the penalty is −(XᵀX + λ)⁻¹ w."""
    x = np.random.default_rng(0).normal(size=[20, 3])
    y = x @ np.array([1.0, -2.0, 0.5])
    penalty = tf.constant(0.7, tf.float64)

    def loss(w: Any, penalty: Any) -> Any:
        return (
            tf.reduce_sum((tf.linalg.matvec(x, w) - y) ** 2) / 2 + penalty * tf.reduce_sum(w**2) / 2
        )

    with tf.GradientTape() as tape:
        tape.watch(penalty)
        found = f.argmin(loss, tf.zeros(3, tf.float64), penalty, solver="cg")
        total = tf.reduce_sum(found)
    inverse = np.linalg.inv(x.T @ x + 0.7 * np.eye(3))
    np.testing.assert_allclose(found, inverse @ x.T @ y, rtol=1e-9)
    np.testing.assert_allclose(
        tape.gradient(total, penalty), -np.sum(inverse @ inverse @ x.T @ y), rtol=1e-8
    )


def test_a_rotation_is_solved_by_gmres() -> None:
    """x = R x + b with a quarter turn R: residuals are at right angles to their images."""
    turn, b = tf.constant([[0.0, -1.0], [1.0, 0.0]]), tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(b)
        x = f.root(lambda x, b: x - tf.linalg.matvec(turn, x) - b, tf.zeros(2), b, solver="gmres")
        total = tf.reduce_sum(x * [1.0, 3.0])
    matrix = np.eye(2) - turn.numpy()
    np.testing.assert_allclose(x, np.linalg.solve(matrix, [1.0, 2.0]), rtol=1e-5)
    np.testing.assert_allclose(
        tape.gradient(total, b), np.linalg.solve(matrix.T, [1.0, 3.0]), rtol=1e-5
    )


def test_an_iteration_that_takes_gradients_itself() -> None:
    """Gradient descent on (x − a)² as an iteration: a tape inside, and a closure watched outside."""
    a = tf.constant([1.0, 2.0])

    def descend(x: Any) -> Any:
        with tf.GradientTape() as inner:
            inner.watch(x)
            energy = tf.reduce_sum((x - 2.0 * a) ** 2)
        return x - 0.25 * inner.gradient(energy, x)

    with tf.GradientTape() as tape:
        tape.watch(a)
        x = f.fixed_point(descend, tf.zeros(2))
    np.testing.assert_allclose(tape.gradient(x, a), [2.0, 2.0], rtol=1e-4)


def test_a_step_of_ones_own_and_fixed_numbers_of_steps() -> None:
    mean, e = tf.constant([0.5, 2.0]), tf.constant([0.2, 0.6])

    def step(x: Any, e: Any, m: Any) -> Any:
        return x - (x - e * tf.sin(x) - m) / (1 - e * tf.cos(x))

    with tf.GradientTape() as tape:
        tape.watch(e)
        x = f.root(
            lambda x, e, m: x - e * tf.sin(x) - m, mean, e, mean,
            step=step, tolerance=None, max_steps=20, batch_dims=1,
        )  # fmt: skip
    np.testing.assert_allclose(x - e * tf.sin(x), mean, rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(x, e), np.sin(x) / (1 - e * np.cos(x)), rtol=1e-5)


def test_a_tiny_upstream_is_not_lost() -> None:
    a = tf.constant([2.0])
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = 1e-30 * heron(a)
    np.testing.assert_allclose(tape.gradient(y, a), [1e-30 * SQRT[0]], rtol=1e-4)


def test_the_start_has_no_gradient() -> None:
    start = tf.constant([1.0])
    with tf.GradientTape() as tape:
        tape.watch(start)
        x = f.fixed_point(lambda x: 0.5 * x + 1.0, start)
    assert tape.gradient(x, start) is None


def test_a_start_that_the_function_reads_has_one() -> None:
    a = tf.constant([1.0])
    with tf.GradientTape() as tape:
        tape.watch(a)
        x = f.fixed_point(lambda x: 0.5 * x + a, a)
    np.testing.assert_allclose(tape.gradient(x, a), [2.0], rtol=1e-4)


@pytest.mark.parametrize("implicit", [True, False])
def test_memory_of_one_step_however_many(implicit: bool) -> None:
    """A tape holds as many tensors after 40 steps as after 10; of a plain loop it holds those of each step."""
    w = tf.Variable(W)

    def step(x: Any) -> Any:
        return tf.tanh(tf.linalg.matvec(w, x))

    def held(steps: int) -> int:
        before = _tensors_alive()
        with tf.GradientTape() as tape:
            if implicit:
                x = f.fixed_point(step, tf.ones(2), tolerance=None, max_steps=steps)
            else:
                x = functools.reduce(lambda x, _: step(x), range(steps), tf.ones(2))
        alive = _tensors_alive() - before
        assert tape.gradient(x, w) is not None
        return alive

    held(10)  # what is made once
    assert (held(40) == held(10)) is implicit


def _tensors_alive() -> int:
    gc.collect()
    return sum(isinstance(o, tf.__internal__.EagerTensor) for o in gc.get_objects())


def test_half_precision() -> None:
    a = tf.constant([2.0, 3.0], tf.bfloat16)
    with tf.GradientTape() as tape:
        tape.watch(a)
        x = heron(a)
    assert x.dtype == tf.bfloat16
    np.testing.assert_allclose(tf.cast(tape.gradient(x, a), tf.float32), SQRT, rtol=0.05)


def test_a_model_that_is_being_built() -> None:
    x = keras.Input([2])
    y = f.fixed_point(lambda z, x: 0.5 * tf.tanh(z) + x, x, x)
    assert tuple(y.shape) == (None, 2)
    np.testing.assert_allclose(
        keras.Model(x, y)(np.zeros([3, 2], "f")), np.zeros([3, 2]), atol=1e-4
    )


def test_several_unknowns_under_xla() -> None:
    """x² = a by Newton's method, whose matrices are made and solved in a loop."""
    solve = tf.function(
        lambda a: f.root(lambda x, a: x**2 - a, tf.ones_like(a), a), jit_compile=True
    )
    np.testing.assert_allclose(with_tape(solve, [A], ())[0], SQRT, rtol=1e-5)


@pytest.mark.parametrize(("entries", "at_once"), [(4, True), (2**15, False)])
def test_large_arrays_are_solved_in_a_graph(entries: int, at_once: bool) -> None:
    ran: list[bool] = []

    def half(x: Any, a: Any) -> Any:
        ran.append(tf.executing_eagerly())
        return 0.5 * (x + a)

    a = tf.ones([entries])
    with tf.GradientTape() as tape:
        tape.watch(a)
        pb.functions.fixed_point(half, tf.zeros([entries]), a, max_steps=40)
    assert (sum(ran) > 10) == at_once
