"""`external`: NumPy code in every mode that can run it, and honest errors in the others."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import (
    ArgumentError,
    ExportError,
    ExternalError,
    RuleSignatureError,
    UnsupportedError,
)
from tests.modes import MODES, SECOND_ORDER, assert_in_mode, eager

external = pb.functions.external
X, Y = tf.constant([0.3, 1.2]), tf.constant([2.0, -1.0])


def wave(x: Any, y: Any) -> Any:
    return np.sin(x) * y


def wave_rule(dz: Any, *, inputs: Any) -> Any:
    x, y = inputs["x"], inputs[1]
    return dz * np.cos(x) * y, dz * np.sin(x)


WANTED = [np.cos(X) * Y, np.sin(X)]
WAYS = {
    "rule": external(wave, rule=wave_rule),
    "differences": external(wave, rule="differences"),
    "loop": external(wave, rule=wave_rule, out=(), batch="loop"),
    "threads": external(wave, rule=wave_rule, out=(), batch="threads", timeout=60.0),
}
COMPILED = [name for name in MODES if "XLA" in name]
TRANSPOSED = "forward mode through tf.function"
OTHERS = [name for name in MODES if name not in (*COMPILED, TRANSPOSED)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mode", OTHERS)
def test_gradient_in_every_mode(mode: str, way: str) -> None:
    assert_in_mode(MODES[mode], WAYS[way], [X, Y], WANTED)


@pytest.mark.parametrize("mode", COMPILED)
def test_xla_is_refused_in_words(mode: str) -> None:
    with pytest.raises(UnsupportedError, match=r"compiled by XLA.*jit_compile"):
        MODES[mode](WAYS["rule"], [X, Y])


def test_a_transposed_rule_is_refused_in_words() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="differentiated once more"):
        MODES[TRANSPOSED](WAYS["rule"], [X, Y])


def test_check_says_right() -> None:
    report = pb.check(WAYS["rule"], X, Y)
    assert report.verdict == "right", str(report)


def test_check_finds_a_wrong_rule() -> None:
    wrong = external(np.sin, rule=lambda dy, *, inputs: -dy * np.cos(inputs[0]))
    assert pb.check(wrong, X).verdict == "wrong"


@pytest.mark.parametrize(
    "function, step, at, wanted",
    [
        (np.square, None, [1e6, 1e-3, 1.0, 0.0], [2e6, 2e-3, 2.0, 0.0]),
        (lambda x: np.where(x > 1.0, np.inf, x**3), None, [2.0, 0.5], [0.0, 0.75]),
        (lambda x: np.sin(x.astype("f")), None, [0.5], [np.cos(0.5)]),
        (lambda x: np.rint(100 * (1 - x)).astype("u1"), 0.1, [0.5], [-100.0]),
    ],
    ids=["of all sizes", "infinite", "in float32", "whole numbers"],
)
def test_differences_of_each_result(function: Any, step: Any, at: Any, wanted: Any) -> None:
    by_differences = external(function, rule="differences", step=step)
    (found,) = eager(by_differences, [tf.constant(at, tf.float64)])
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


def test_differences_towards_complex_numbers() -> None:
    z = tf.constant([1.0 + 2.0j], tf.complex128)
    with tf.GradientTape() as tape:
        tape.watch(z)
        y = external(lambda z: z * z, rule="differences")(z)
    # The conjugate of the derivative, as TensorFlow has it.
    np.testing.assert_allclose(tape.gradient(y, z), [2.0 - 4.0j], rtol=1e-8)


def test_none_is_no_gradient_and_in_a_graph_zeros() -> None:
    product = external(np.multiply, rule=lambda dz, *, inputs: (dz * inputs[1], None))
    assert eager(product, [X, Y])[1] is None
    traced = MODES["tf.function, tape outside"](product, [X, Y])
    np.testing.assert_allclose(traced, [Y, np.zeros(2)])


def test_into_real_numbers_the_real_part_flows() -> None:
    turned = external(np.sin, rule=lambda dy: dy * (2.0 + 1.0j))
    np.testing.assert_allclose(eager(turned, [X]), [[2.0, 2.0]])


def test_several_results_and_whole_numbers() -> None:
    def split(x: Any, n: Any) -> Any:
        return x[: int(n)] * 2.0, np.sum(x, keepdims=True)

    def rule(da: Any, db: Any, *, inputs: Any) -> Any:
        x, n = inputs
        return np.concatenate([2.0 * da, np.zeros(len(x) - int(n))]) + db, None

    both = external(split, rule=rule, out=[(1,), ((1,), "float32")])
    with tf.GradientTape() as tape:
        tape.watch(X)
        a, b = tf.function(both)(X, tf.constant(1))
        loss = tf.reduce_sum(a) + 3.0 * tf.reduce_sum(b)
    assert (tuple(a.shape), tuple(b.shape)) == ((1,), (1,))
    np.testing.assert_allclose(tape.gradient(loss, X), [5.0, 3.0])


def test_a_rule_asks_for_outputs() -> None:
    for batch in "whole", "loop":
        exponential = external(
            np.exp,
            rule=lambda dy, *, outputs: dy * outputs,
            out=None if batch == "whole" else (),
            batch=batch,
        )
        np.testing.assert_allclose(eager(exponential, [X])[0], np.exp(X), rtol=1e-6)


def test_a_rule_that_takes_inputs_by_position_is_refused() -> None:
    square = external(np.square, rule=lambda dy, x: 2.0 * x * dy)
    with pytest.raises(RuleSignatureError, match="called with 1 upstream gradient"):
        square(X)


def test_shapes_are_known_while_tracing() -> None:
    seen: list[Any] = []

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def traced(x: Any) -> Any:
        y = external(lambda x: x.sum(-1), rule="differences", out=(), batch="loop")(x)
        seen.append(y.shape.as_list())
        return y

    traced(tf.ones([3, 2]))
    assert seen == [[None]]


def test_a_model_that_is_being_built() -> None:
    x = keras.Input([2])
    square = external(np.square, rule=lambda dy, *, inputs: 2.0 * inputs[0] * dy)
    model = keras.Model(x, square(keras.layers.Dense(2, kernel_initializer="ones")(x)))
    model.compile("sgd", "mse")
    history = model.fit(np.ones([4, 2], "f"), np.zeros([4, 2], "f"), epochs=2, verbose=0)
    assert history.history["loss"][1] < history.history["loss"][0]


def test_threads_run_at_once() -> None:
    def slow(x: Any) -> Any:
        time.sleep(0.2)
        return x

    start = time.monotonic()
    external(slow, batch="threads", out=())(tf.zeros([4]))
    assert time.monotonic() - start < 0.7


@pytest.mark.parametrize("save", [tf.saved_model.save, lambda m, path: m.export(path)])
def test_export_is_refused_in_words(tmp_path: Path, save: Callable[..., Any]) -> None:
    x = keras.Input([2])
    model = keras.Model(x, external(np.square, rule="differences")(x))
    with pytest.raises(ExportError, match=r"cannot be exported.*not Python code"):
        save(model, str(tmp_path / "model"))


def failing(x: Any) -> Any:
    raise ValueError(f"no solution for {x.shape}")


def test_an_error_of_the_code_comes_through() -> None:
    with pytest.raises(ValueError, match="no solution") as caught:
        external(failing)(X)
    assert any("failing under pb.functions.external" in note for note in caught.value.__notes__)


def test_an_error_of_the_code_in_a_graph() -> None:
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="no solution"):
        tf.function(external(failing))(X)


def test_too_slow() -> None:
    with pytest.raises(ExternalError, match=r"took longer than timeout=0.05"):
        external(lambda x: time.sleep(0.5), timeout=0.05)(X)


def test_second_order_is_refused_at_once() -> None:
    with pytest.raises(ExternalError, match="differentiated once more"):
        SECOND_ORDER["second order, eager"](WAYS["rule"], [X, Y])


def test_second_order_is_refused_when_it_runs() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="differentiated once more"):
        SECOND_ORDER["second order, tapes inside"](WAYS["rule"], [X, Y])


def test_no_rule() -> None:
    with pytest.raises(ExternalError, match=r"has no rule.*rule='differences'"):
        eager(external(np.sin), [X])


@pytest.mark.parametrize(
    "function, words",
    [
        (external(lambda x: x[:1]), "returned arrays of shapes \\(1,\\); wanted \\(2,\\).*out="),
        (external(lambda x: x, batch="loop", out=(2,)), "wanted \\(2, 2\\)"),
        (
            external(np.sin, rule=lambda dy: dy[:1]),
            "shape \\(1,\\) for an input of shape \\(2,\\)",
        ),
        (external(np.sin, rule=lambda dy: (dy, dy)), "returned 2 gradients"),
        (external(np.sin, rule=lambda dy: "dy"), "returned <U2 for an input of float32"),
    ],
)
def test_what_does_not_fit(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(ExternalError, match=words):
        eager(function, [X])


LOSSES = {
    "fractions": (lambda n: n * 0.5, [1, 2], None, "float64; wanted int32.*'float32'"),
    "fractions of booleans": (lambda n: n * 0.5, [True], None, "wanted bool.*'float32'"),
    "counts as booleans": (lambda n: n + np.int64(2), [True], None, "int64; wanted bool.*'int64'"),
    "imaginary parts": (lambda x: x * 1j, [1.0], None, "complex64; wanted float32.*'complex64'"),
    "said so": (lambda x: x / 2.0, [3.0], "int32", "float32; wanted int32.*'float32'"),
    "nothing": (lambda x: None, [3.0], None, "external returned None; wanted an array"),
}


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("batch", ["whole", "loop", "threads"])
@pytest.mark.parametrize("loss", LOSSES)
def test_what_a_dtype_cannot_hold_is_refused(loss: str, batch: Any, traced: bool) -> None:
    fn, at, dtype, words = LOSSES[loss]
    shape = (len(at),) if batch == "whole" else ()
    function = external(fn, batch=batch, out=None if dtype is None else (shape, dtype))
    with pytest.raises(Exception, match=f"ExternalError.*{words}" if traced else words):
        (tf.function(function) if traced else function)(tf.constant(at))


@pytest.mark.parametrize(
    "fn, at, dtype, wanted",
    [
        (lambda x: np.float64(0.1) * np.asarray(x, np.float64), tf.constant([3.0]), None, [0.3]),
        (lambda x: np.arange(1, 3), X, None, [1.0, 2.0]),
        (lambda x: x > 1.0, X, None, [0.0, 1.0]),
        (lambda x: x, X, "complex64", X),
        (lambda x: np.float64(0.5), tf.constant(1.0, tf.bfloat16), None, 0.5),
    ],
    ids=["precision", "whole numbers", "booleans", "real numbers", "bfloat16"],
)
def test_what_a_dtype_can_hold_is_cast(fn: Any, at: Any, dtype: Any, wanted: Any) -> None:
    found = external(fn, out=None if dtype is None else (tuple(at.shape), dtype))(at)
    assert found.dtype == (dtype or at.dtype)
    np.testing.assert_allclose(np.asarray(found, np.complex64), wanted, rtol=1e-6)


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "graph"])
def test_whole_numbers_of_floating_point_ones(traced: bool) -> None:
    place = external(np.argmax, out=((), "int64"))
    assert int((tf.function(place) if traced else place)(X)) == 1


def test_whole_numbers_have_no_tangents() -> None:
    both = external(
        lambda x: (2.0 * x, np.argmax(x)), rule=lambda da, _: 2.0 * da, out=[(2,), ((), "int64")]
    )
    with tf.autodiff.ForwardAccumulator(X, Y) as accumulator:
        twice, place = both(X)
    np.testing.assert_allclose(accumulator.jvp(twice), 2.0 * Y)
    assert accumulator.jvp(place) is None


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: external(3.0), "fn=3.0"),
        (lambda: external(np.sin, rule="magic"), "rule='magic'"),
        (lambda: external(np.sin, batch="each"), "batch='each'"),
        (lambda: external(np.sin, timeout=-1.0), "timeout=-1.0"),
        (lambda: external(np.sin, out="like x"), "out='like x'; wanted a shape"),
        (lambda: external(np.sin)(), "got no arguments"),
        (lambda: external(np.sum)(X, "a"), "sum under .* got 'a'; wanted arrays.*partial"),
        (lambda: external(np.sum)(X, axis=0), "sum under .* got axis=0; wanted arrays.*partial"),
    ],
)
def test_bad_input(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()
