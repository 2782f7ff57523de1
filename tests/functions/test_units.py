"""Units that are compiled in a graph of large arrays: where they are made, and that they are right in every mode."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow.array_functions import blocks
from pullback.engines.tensorflow.modes import push_forward
from pullback.engines.tensorflow.tf_private import explaining
from tests.functions.cases import CASES
from tests.functions.test_modes import Together
from tests.modes import (
    BACKWARD,
    BY_TAPES,
    FORWARD,
    MODES,
    SECOND_ORDER,
    assert_gradients,
    assert_in_mode,
)

f = pb.functions
LARGE = 2**15
MADE_OF_UNITS = ("categorical", "sparse", "log", "norm", "std", "hypot", "atan2", "focal")
GROUP = Together(
    [c for c in CASES if c.name.startswith(MADE_OF_UNITS) and not c.name.startswith("logdet")]
)


@pytest.fixture
def _units_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases whose derivatives are known by differences are small."""
    monkeypatch.setattr(blocks, "_LARGE", 1)


units_of_any_size = pytest.mark.usefixtures("_units_of_any_size")


@units_of_any_size
@pytest.mark.parametrize("mode", BACKWARD)
def test_same_gradient_in_every_mode(mode: str) -> None:
    wanted = [g for case in GROUP.cases for g in case.gradient()]
    assert_in_mode(MODES[mode], GROUP.function, GROUP.tensors(), wanted)


@units_of_any_size
@pytest.mark.parametrize("mode", FORWARD)
def test_forward_mode(mode: str) -> None:
    """Tangents of all arguments at once, in a direction that no entry shares with another."""
    random = np.random.default_rng(0)
    xs = GROUP.tensors()
    along = [tf.constant(random.normal(size=x.shape), x.dtype) for x in xs]
    found = push_forward(MODES[mode].run(GROUP.function), xs, xs, along)
    left = iter(along)
    for case, tangent in zip(GROUP.cases, found, strict=True):
        wanted = sum(np.sum(g * next(left).numpy()) for g in case.gradient())
        np.testing.assert_allclose(np.sum(tangent), float(wanted), rtol=2e-5, atol=1e-5)


@units_of_any_size
@pytest.mark.parametrize("mode", BY_TAPES)
def test_second_order(mode: str) -> None:
    wanted = [g for case in GROUP.cases for g in case.second()]
    assert_gradients(SECOND_ORDER[mode](GROUP.function, GROUP.tensors()), wanted, rtol=1e-4)


LARGE_CASES: list[tuple[str, Callable[..., Any], int]] = [
    ("hypot", f.hypot, 2),
    ("atan2", f.atan2, 2),
    ("logaddexp", f.logaddexp, 2),
    ("log_sub_exp", lambda x, y: f.log_sub_exp(x + 9.0, y), 2),
    ("log1mexp", lambda x: f.log1mexp(tf.abs(x) + 0.1), 1),
    ("logsumexp", lambda x: f.logsumexp(tf.reshape(x, [-1, 4]), axis=1), 1),
    ("norm", lambda x: f.norm(tf.reshape(x, [-1, 4]), axis=1), 1),
    ("std", lambda x: f.std(tf.reshape(x, [-1, 4]), axis=1), 1),
    ("normalize", lambda x: f.normalize(tf.reshape(x, [-1, 4]), axis=1), 1),
    ("focal", lambda y, z: f.binary_focal_cross_entropy(tf.sigmoid(y), z), 2),
    (
        "categorical",
        lambda z: f.categorical_cross_entropy(
            tf.one_hot(tf.range(tf.size(z) // 4) % 4, 4), tf.reshape(z, [-1, 4]), from_logits=True
        ),
        1,
    ),
    (
        "sparse",
        lambda z: f.sparse_categorical_cross_entropy(
            tf.range(tf.size(z) // 4) % 4, tf.reshape(z, [-1, 4]), from_logits=True
        ),
        1,
    ),
]


def step(function: Callable[..., Any]) -> Callable[..., Any]:
    """A value and its gradients."""

    def run(*xs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = function(*xs)
        return y, tape.gradient(y, xs)

    return run


def inputs(count: int, size: int = LARGE) -> list[Any]:
    return [tf.random.stateless_normal([size], (13, i)) for i in range(count)]


def units(function: Callable[..., Any], *specs: Any) -> int:
    """How many compiled units a graph calls."""
    graph = tf.function(step(function)).get_concrete_function(*specs).graph
    return sum(map(explaining.asks_to_compile, graph.get_operations()))


@pytest.mark.parametrize(
    "function, count", [c[1:] for c in LARGE_CASES], ids=[c[0] for c in LARGE_CASES]
)
def test_a_graph_of_large_arrays_has_units_with_the_same_numbers(
    function: Callable[..., Any], count: int
) -> None:
    xs = inputs(count)
    assert units(function, *xs) > 0
    value, gradients = step(function)(*xs)
    found_value, found = tf.function(step(function))(*xs)
    # Each is off by 4 units in the last place at most: of its own, or in differences of the row's entries, of one.
    close = 8 * 2.0**-23
    np.testing.assert_allclose(found_value, value, rtol=close, atol=close)
    for g, wanted in zip(found, gradients, strict=True):
        np.testing.assert_allclose(g, wanted, rtol=close, atol=close)


@pytest.mark.parametrize("size", [LARGE - 1, None], ids=["small", "unknown"])
def test_arrays_that_are_small_or_of_unknown_size_have_no_units(size: int | None) -> None:
    assert units(f.hypot, *[tf.TensorSpec([size])] * 2) == 0


def test_a_program_that_is_compiled_has_no_units_in_it() -> None:
    whole = tf.function(step(f.hypot), jit_compile=True)
    graph = whole.get_concrete_function(*inputs(2)).graph
    assert not any(map(explaining.asks_to_compile, graph.get_operations()))


def test_code_that_runs_at_once_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("compiled")

    monkeypatch.setattr(blocks, "_compiled", never)
    step(f.hypot)(*inputs(2))


def ulps(found: Any, true: Any) -> float:
    """How far a number is off, in units of the last place of the true one."""
    exponent = int(mp.floor(mp.log(abs(true), 2)))
    return float(abs(mp.mpf(float(found)) - true) / mp.mpf(2) ** (exponent - 23))


def log1mexp(x: Any) -> Any:
    return mp.log(-mp.expm1(-x))


# The logarithms of 1 ± 0.001, of numbers of size one: with those of float32, three digits would be lost.
CLOSE = np.linspace(0.01, 3.0, 200).astype("f")
ONE = np.exp(np.random.default_rng(13).uniform(-60.0, 4.4, 300)).astype("f")
PRECISE: list[tuple[str, Callable[..., Any], Any, Any, list[Any]]] = [
    ("log1mexp", f.log1mexp, log1mexp, lambda x: 1 / mp.expm1(x), [ONE]),
    (
        "log_sub_exp",
        f.log_sub_exp,
        lambda x, y: x + log1mexp(x - y),
        lambda x, y: -1 / mp.expm1(y - x),
        [CLOSE, np.log(np.expm1(CLOSE.astype("d")) - 0.001).astype("f")],
    ),
    (
        "logaddexp",
        f.logaddexp,
        lambda x, y: x + mp.log1p(mp.exp(y - x)),
        lambda x, y: 1 / (1 + mp.exp(y - x)),
        [-CLOSE, np.log(-np.expm1(-CLOSE.astype("d")) + 0.001).astype("f")],
    ),
    ("hypot", f.hypot, mp.hypot, lambda x, y: x / mp.hypot(x, y), [ONE, ONE[::-1].copy()]),
    (
        "norm",
        lambda x, y: f.norm(tf.stack([x, y], 1), axis=1),
        mp.hypot,
        lambda x, y: x / mp.hypot(x, y),
        [ONE, ONE[::-1].copy()],
    ),
]


@units_of_any_size
@pytest.mark.parametrize(
    "function, value, slope, points", [c[1:] for c in PRECISE], ids=[c[0] for c in PRECISE]
)
def test_units_are_right_to_the_last_digits(
    function: Any, value: Any, slope: Any, points: Any
) -> None:
    with mp.workdps(60):
        y, (g, *_) = tf.function(step(function))(*map(tf.constant, points))
        exact = [[mp.mpf(float(v)) for v in point] for point in zip(*points, strict=True)]
        assert max(ulps(v, value(*p)) for v, p in zip(y.numpy(), exact, strict=True)) <= 4.0
        assert max(ulps(v, slope(*p)) for v, p in zip(g.numpy(), exact, strict=True)) <= 4.0


def test_edges_of_a_unit() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([inf, -inf, 1.0, 0.0, nan, 1.0], "f")
    y = np.array([1.0, -inf, 1.0, -inf, 0.0, 2.0], "f")
    xs = [tf.constant(np.tile(v, LARGE)) for v in (x, y)]
    value, (dx, dy) = tf.function(step(f.log_sub_exp))(*xs)
    np.testing.assert_array_equal(value[-6:], [inf, -inf, -inf, 0.0, nan, nan])
    np.testing.assert_array_equal(dx[-6:], [1.0, 0.0, inf, 1.0, nan, nan])
    np.testing.assert_array_equal(dy[-6:], [0.0, 0.0, -inf, 0.0, nan, nan])


def test_labels_that_are_no_classes_are_an_error_beside_a_unit() -> None:
    loss = tf.function(lambda y, z: f.sparse_categorical_cross_entropy(y, z, from_logits=True))
    with pytest.raises(tf.errors.InvalidArgumentError, match="a label that is no class"):
        loss(tf.fill([LARGE], 7), tf.zeros([LARGE, 2]))


@pytest.mark.parametrize("function", [f.softmax_cross_entropy, f.categorical_cross_entropy])
def test_a_unit_reads_what_a_branch_has_computed(function: Callable[..., Any]) -> None:
    def gradient(z: Any, chosen: Any) -> Any:
        def branch() -> Any:
            labels = tf.one_hot(tf.range(tf.shape(z)[0]) % 2, 2)
            logits = {} if function is f.softmax_cross_entropy else {"from_logits": True}
            return tf.reduce_sum(function(labels, z, **logits))

        with tf.GradientTape() as tape:
            tape.watch(z)
            y = tf.cond(chosen, branch, lambda: 0.0)
        return tape.gradient(y, z)

    # softmax(z) − labels at equal logits
    found = tf.function(gradient)(tf.zeros([LARGE, 2]), tf.constant(True))
    np.testing.assert_allclose(found[:2], [[-0.5, 0.5], [0.5, -0.5]])


LOADED = """
import sys
import numpy as np
import tensorflow as tf
step = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
found = step(x=tf.fill([32768], 3.0), y=tf.fill([32768], 4.0))
np.testing.assert_allclose(found["length"], 5.0, rtol=1e-6)
np.testing.assert_allclose(found["slope"], 0.6, rtol=1e-6)
"""


def test_a_saved_model_runs_where_there_is_only_tensorflow(tmp_path: Path) -> None:
    def serve(x: Any, y: Any) -> Any:
        length, (slope, _) = step(f.hypot)(x, y)
        return {"length": length, "slope": slope}

    specs = [tf.TensorSpec([LARGE], name=name) for name in "xy"]
    signature = tf.function(serve).get_concrete_function(*specs)
    tf.saved_model.save(tf.Module(), str(tmp_path), signatures=signature)
    ran = subprocess.run(
        [sys.executable, "-c", LOADED, str(tmp_path)], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
