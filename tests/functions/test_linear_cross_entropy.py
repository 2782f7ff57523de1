"""`linear_cross_entropy` beside the same in float64, with blocks that do not fit evenly, and what it does not take."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ArgumentError
from pullback.functions.saving import linear_blocks as module
from tests.modes import MODES

loss = pb.functions.linear_cross_entropy
TOKENS, DEPTH, CLASSES = 21, 5, 17
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(TOKENS, DEPTH)).astype("f")
W = RANDOM.normal(size=(DEPTH, CLASSES)).astype("f")
B = RANDOM.normal(size=CLASSES).astype("f")
SCALE = RANDOM.uniform(0.1, 2.0, CLASSES).astype("f")
Y = RANDOM.integers(0, CLASSES, TOKENS).astype("int32")
IGNORED = np.where(np.arange(TOKENS) % 3 == 1, -100, Y).astype("int32")
UPSTREAM = RANDOM.normal(size=(2, TOKENS))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of tokens and of classes, the last of which overlap."""
    monkeypatch.setattr(module, "_TOKENS", 8)
    monkeypatch.setattr(module, "_CLASSES", 7)
    monkeypatch.setattr(module, "_HELD_TOKENS", 8)
    monkeypatch.setattr(module, "_HELD_CLASSES", 7)


def in_float64(x: Any, w: Any, b: Any, y: Any, scale: Any, smoothing: float, cap: Any) -> Any:
    z = tf.matmul(x, w) + b
    z = z if cap is None else cap * tf.tanh(z / cap)
    sums = tf.reduce_logsumexp(z, -1)
    shares = tf.one_hot(y, CLASSES, dtype=tf.float64) * (1 - smoothing) + smoothing / CLASSES
    valid = tf.cast(y != -100, tf.float64)
    return tf.reduce_sum(shares * scale * (sums[:, None] - z), -1) * valid, sums * valid


def gradients(function: Callable[..., Any], arrays: list[Any], dtype: Any) -> list[Any]:
    """Both results and the gradients for an upstream of their own for each token."""
    sources = [tf.constant(a, dtype) for a in arrays]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        results = function(*sources)
        weighted = [tf.cast(r, tf.float64) * u for r, u in zip(results, UPSTREAM, strict=True)]
        total = tf.reduce_sum(tf.add_n(weighted))
    return [np.asarray(v, np.float64) for v in (*results, *tape.gradient(total, sources))]


# Axis of classes, class weights, smoothing, soft cap, labels: any two of the values meet in some case.
OPTIONS = pytest.mark.parametrize(
    "axis, scaled, smoothing, cap, labels",
    [
        (1, False, 0.0, None, Y),
        (1, False, 0.2, 3.0, IGNORED),
        (1, True, 0.0, 3.0, IGNORED),
        (1, True, 0.2, None, Y),
        (0, False, 0.0, None, IGNORED),
        (0, False, 0.2, 3.0, Y),
        (0, True, 0.0, 3.0, Y),
        (0, True, 0.2, None, IGNORED),
    ],
    ids=lambda v: "labels" if isinstance(v, np.ndarray) else None,
)


def given(axis: int, scaled: bool, smoothing: float, cap: float | None) -> dict[str, Any]:
    return {
        "class_axis": axis,
        "class_weights": SCALE if scaled else None,
        "label_smoothing": smoothing,
        "soft_cap": cap,
    }


@OPTIONS
def test_any_upstream_per_token(
    axis: int, scaled: bool, smoothing: float, cap: float | None, labels: Any
) -> None:
    more = {"reduction": "none", "return_logsumexp": True}

    def ours(x: Any, w: Any, b: Any) -> Any:
        w = w if axis else tf.transpose(w)
        return loss(x, w, labels, b, **given(axis, scaled, smoothing, cap), **more)

    scale = SCALE.astype("d") if scaled else 1.0
    plain = functools.partial(in_float64, y=labels, scale=scale, smoothing=smoothing, cap=cap)
    found = gradients(ours, [X, W, B], tf.float32)
    wanted = gradients(plain, [X, W, B], tf.float64)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@OPTIONS
def test_a_sum_whose_gradient_is_made_in_the_forward_pass(
    axis: int, scaled: bool, smoothing: float, cap: float | None, labels: Any
) -> None:
    scale = SCALE.astype("d") if scaled else 1.0
    found, wanted = (
        [tf.constant(a, dtype) for a in (X, W, B)] for dtype in (tf.float32, tf.float64)
    )
    with tf.GradientTape() as tape:
        tape.watch([*found, *wanted])
        w = found[1] if axis else tf.transpose(found[1])
        options = given(axis, scaled, smoothing, cap)
        ours = loss(found[0], w, labels, found[2], **options, reduction="sum")
        plain = tf.reduce_sum(in_float64(*wanted, labels, scale, smoothing, cap)[0])
        both = -3.0 * ours, -3.0 * plain
    np.testing.assert_allclose(ours, plain, rtol=1e-5)
    got = tape.gradient(both, [*found, *wanted])
    for one, other in zip(got[:3], got[3:], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=3e-5)


def products_in(reduction: str, differentiated: bool) -> int:
    """The matrix products in the program of a loss."""

    @tf.function(autograph=False)
    def step(x: Any, w: Any) -> Any:
        if not differentiated:
            return loss(x, w, Y, reduction=reduction)
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = loss(x, w, Y, reduction=reduction)
        return y, tape.gradient(y, [x, w])

    made = step.get_concrete_function(tf.constant(X), tf.constant(W)).graph.as_graph_def()
    nodes = [*made.node, *(n for f in made.library.function for n in f.node_def)]
    return sum(node.op == "MatMul" for node in nodes)


def test_no_logit_is_computed_twice_and_no_gradient_that_nobody_asks_for() -> None:
    assert products_in("mean", differentiated=False) == 1
    assert products_in("mean", differentiated=True) == 3
    assert products_in("none", differentiated=True) == 4


def test_the_mean_is_by_the_weights_of_labels_that_count() -> None:
    each, _ = in_float64(
        *(tf.constant(a, tf.float64) for a in (X, W)), 0.0, IGNORED, SCALE, 0.0, None
    )
    weights = np.where(IGNORED == -100, 0.0, SCALE[np.maximum(IGNORED, 0)])
    found = loss(X, W, IGNORED, class_weights=SCALE)
    np.testing.assert_allclose(found, np.sum(each) / np.sum(weights), rtol=1e-5)


def test_z_loss_comes_apart() -> None:
    _, sums = in_float64(
        *(tf.constant(a, tf.float64) for a in (X, W)), 0.0, IGNORED, 1.0, 0.0, None
    )
    plain, z = loss(X, W, IGNORED, z_loss=1e-2)
    np.testing.assert_allclose(plain, loss(X, W, IGNORED), rtol=1e-6)
    np.testing.assert_allclose(z, 1e-2 * np.sum(sums**2) / np.sum(IGNORED != -100), rtol=1e-5)


def test_shift_is_the_next_token() -> None:
    x, y = X.reshape(3, 7, DEPTH), IGNORED.reshape(3, 7)
    found = loss(x, W, y, shift=True, reduction="none")
    wanted = loss(x[:, :-1].reshape(-1, DEPTH), W, y[:, 1:].reshape(-1), reduction="none")
    assert found.shape == [3, 6]
    np.testing.assert_allclose(tf.reshape(found, [-1]), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["eager", "tf.function, tape inside", "XLA"])
def test_all_ignored_is_zero(mode: str) -> None:
    def ignored(x: Any, w: Any) -> Any:
        return loss(x, w, np.full([TOKENS], -100, "int32"))

    for gradient in MODES[mode](ignored, [tf.constant(X), tf.constant(W)]):
        assert gradient is not None
        assert not gradient.any()


@pytest.mark.parametrize("run", [lambda g: g, tf.function], ids=["eager", "traced"])
def test_certain_labels_in_bfloat16(run: Any) -> None:
    """At p = 0.999 the gradient of the label's logit is -0.001, of which bfloat16 tells 1 part in 256."""
    logit = float(np.log(999.0))

    def gradient(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = loss(x, w, [0], reduction="sum")
        return tape.gradient(y, w)

    x = tf.constant([[1.0, logit]], tf.bfloat16)
    w = tf.constant([[0.0, 0.0], [1.0, 0.0]], tf.bfloat16)
    exact = float(tf.cast(x, tf.float64)[0, 1])
    found = run(gradient)(x, w)
    assert found.dtype == tf.bfloat16
    np.testing.assert_allclose(float(found[0, 0]), -1.0 / (1.0 + np.exp(exact)), rtol=5e-3)


def test_tied_weights_get_both_gradients() -> None:
    table = tf.Variable(W.T)
    tokens = tf.constant([3, 1, 4, 1, 5])

    def gradient(last_layer: Callable[..., Any]) -> Any:
        with tf.GradientTape() as tape:
            y = last_layer(tf.gather(table, tokens[:-1]), table, tokens[1:])
        return tf.convert_to_tensor(tape.gradient(y, table))

    def plain(x: Any, w: Any, y: Any) -> Any:
        z = tf.matmul(x, w, transpose_b=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, z))

    found = gradient(functools.partial(loss, class_axis=0))
    np.testing.assert_allclose(found, gradient(plain), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: loss(X, W.T, Y), "depth 5 and weights.*write class_axis=0"),
        (lambda: loss(X, W, Y[:-1]), "wanted one class number for each token"),
        (lambda: loss(X, W, Y, B[:-1]), "wanted one number for each class"),
        (
            lambda: loss(X, W, np.eye(TOKENS, CLASSES, dtype="f")),
            r"wanted class numbers.*Write tf\.cast\(labels, tf\.int32\)\.$",
        ),
        (lambda: loss(X.astype("int32"), W, Y), "got x as int32.*Cast it"),
        (lambda: loss(X, W, Y + CLASSES), "no class: [0-9]+, of 17 classes"),
        (lambda: loss(X, W, Y.astype("int64") + 2**32), "no class: [0-9]+, of 17 classes"),
        (lambda: loss(X, W, Y, class_axis=5), "class_axis=5; wanted 0 for weights as"),
        (lambda: loss(X, W, Y, reduction="average"), "'mean', 'sum' or 'none'"),
        (lambda: loss(X, W, Y, label_smoothing=2.0), "label_smoothing=2.0"),
        (lambda: loss(X, W, Y, soft_cap=0.0), "soft_cap=0.0"),
        (lambda: loss(X, W, Y, class_weights=SCALE[1:]), "class_weights.*17 classes"),
        (lambda: loss(X[0], W, Y[0], shift=True), "shift=True for a single token"),
    ],
)
def test_an_error_says_what_is_wanted(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


@pytest.mark.parametrize("labels", [Y + CLASSES, Y.astype("int64") + 2**32], ids=["int32", "int64"])
def test_a_label_that_is_no_class_fails_in_a_graph(labels: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="no class"):
        tf.function(loss)(X, W, labels)


@pytest.mark.parametrize("wrong", [-1, CLASSES, 2**32 + 3], ids=["negative", "above", "far above"])
@pytest.mark.parametrize(
    "options",
    [{}, {"label_smoothing": 0.2}, {"class_weights": SCALE}],
    ids=["plain", "smoothing", "weights"],
)
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_no_class_in_a_compiled_program_is_no_number(
    wrong: int, options: dict[str, Any], reduction: str
) -> None:
    bad = np.arange(TOKENS) == 4
    labels = np.where(bad, wrong, Y.astype("int64"))

    @tf.function(jit_compile=True)
    def compiled(x: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            found = loss(x, w, labels, reduction=reduction, **options)
        return found, tape.gradient(found, [x, w])

    found, (dx, dw) = compiled(tf.constant(X), tf.constant(W))
    np.testing.assert_array_equal(np.isnan(found), bad if reduction == "none" else True)
    np.testing.assert_array_equal(np.isnan(dx).any(1), bad)
    assert np.isnan(dw).all()


def test_a_rank_that_is_not_known() -> None:
    traced = tf.function(lambda x: loss(x, W, Y), input_signature=[tf.TensorSpec(None)])
    with pytest.raises(ArgumentError, match="got x as a tensor of unknown rank"):
        traced(X)
