"""`attention` beside the same in float64, with blocks that do not fit evenly, and what it does not take."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ArgumentError
from pullback.functions.saving import attention as module

attention = pb.functions.attention
RANDOM = np.random.default_rng(0)
Q = RANDOM.normal(size=(2, 4, 7, 3)).astype("f")
K = RANDOM.normal(size=(2, 2, 9, 3)).astype("f")
V = RANDOM.normal(size=(2, 2, 9, 5)).astype("f")
UPSTREAM = RANDOM.normal(size=(2, 4, 7, 5))
PLACES = np.arange(7)[:, None] + 2, np.arange(9)[None, :]
MASKS = {
    shape: RANDOM.random(shape) > 0.4 for shape in [(2, 1, 1, 9), (7, 9), (2, 4, 7, 9), (4, 1, 9)]
}


def nearer(scores: Any, queries: Any, keys: Any) -> Any:
    return scores * 1.5 - 0.1 * tf.cast(tf.abs(queries - keys), scores.dtype)


@pytest.fixture(autouse=True, params=[2**20, 64], ids=["one block", "many blocks"])
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ENTRIES", request.param)
    # What has been traced has the other blocks in it.
    from pullback.engines.tensorflow.array_functions import blocks as traced

    traced._traced.cache_clear()


def in_float64(
    q: Any, k: Any, v: Any, allowed: Any, change: Callable[..., Any], scale: float
) -> Any:
    k, v = tf.repeat(k, 2, axis=1), tf.repeat(v, 2, axis=1)
    scores = change(tf.matmul(q, k, transpose_b=True) * scale, *PLACES)
    scores = tf.where(allowed, scores, -1e300)
    return tf.matmul(tf.where(allowed, tf.nn.softmax(scores), 0.0), v)


def gradients(function: Callable[..., Any], dtype: Any) -> list[Any]:
    sources = [tf.constant(a, dtype) for a in (Q, K, V)]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        y = function(*sources)
        total = tf.reduce_sum(tf.cast(y, tf.float64) * UPSTREAM)
    return [np.asarray(g, np.float64) for g in (y, *tape.gradient(total, sources))]


def unchanged(scores: Any, *_: Any) -> Any:
    return scores


CASES: dict[str, tuple[dict[str, Any], Any, Any, float]] = {
    "plain": ({}, True, unchanged, 3**-0.5),
    "causal": ({"causal": True}, PLACES[1] <= PLACES[0], unchanged, 3**-0.5),
    "window": ({"window": 3}, abs(PLACES[1] - PLACES[0]) < 3, unchanged, 3**-0.5),
    "both": (
        {"causal": True, "window": 2},
        (PLACES[1] <= PLACES[0]) & (PLACES[1] > PLACES[0] - 2),
        unchanged,
        3**-0.5,
    ),
    "cap": ({"soft_cap": 1.5, "scale": 0.7}, True, lambda s, *_: 1.5 * tf.tanh(s / 1.5), 0.7),
    "score": ({"score": nearer}, True, nearer, 3**-0.5),
    **{f"mask {s}": ({"mask": m}, m, unchanged, 3**-0.5) for s, m in MASKS.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name: str) -> None:
    options, allowed, change, scale = CASES[name]
    allowed = np.broadcast_to(allowed, [2, 4, 7, 9])
    found = gradients(lambda q, k, v: attention(q, k, v, **options), tf.float32)
    wanted = gradients(lambda q, k, v: in_float64(q, k, v, allowed, change, scale), tf.float64)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_query_that_may_look_at_nothing_gives_zero() -> None:
    mask = np.arange(7)[:, None] != np.full([1, 9], 3)
    found = gradients(lambda q, k, v: attention(q, k, v, mask), tf.float32)
    assert not found[0][:, :, 3].any()
    assert not found[1][:, :, 3].any()
    assert all(np.isfinite(g).all() for g in found)


def test_score_sees_the_places_that_causal_uses() -> None:
    def causal(scores: Any, queries: Any, keys: Any) -> Any:
        return tf.where(keys <= queries, scores, -1e30)

    wanted = attention(Q, K, V, causal=True)
    np.testing.assert_allclose(attention(Q, K, V, score=causal), wanted, atol=1e-6)


def test_what_score_closes_over_has_its_gradient() -> None:
    slope = tf.constant(0.3)

    def change(scores: Any, queries: Any, keys: Any) -> Any:
        return scores + tf.cast(slope, scores.dtype) * tf.cast(keys - queries, scores.dtype)

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(slope)
        found = tf.reduce_sum(attention(Q, K, V, score=change) * UPSTREAM.astype("f"))
        arrays = [tf.constant(a, tf.float64) for a in (Q, K, V)]
        wanted = tf.reduce_sum(in_float64(*arrays, True, change, 3**-0.5) * UPSTREAM)
    np.testing.assert_allclose(tape.gradient(found, slope), tape.gradient(wanted, slope), rtol=1e-4)


@pytest.mark.parametrize("shape", [(None, None, None, None), (None, 4, None, None)])
def test_sizes_that_are_not_known(shape: Any) -> None:
    k, v = (np.repeat(a, 2, axis=1) for a in (K, V))
    specs = [tf.TensorSpec(shape)] * 3 + [tf.TensorSpec([None] * 4, tf.bool)]
    traced = tf.function(attention, input_signature=specs)
    for mask in MASKS[2, 1, 1, 9], MASKS[2, 4, 7, 9]:
        found = traced(*map(tf.constant, (Q, k, v)), tf.constant(mask))
        np.testing.assert_allclose(found, attention(Q, K, V, mask), atol=1e-6)


def test_grouped_heads_that_are_not_known_fail_in_words() -> None:
    traced = tf.function(attention, input_signature=[tf.TensorSpec([None] * 4)] * 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="other heads of k and v than of q"):
        traced(*map(tf.constant, (Q, K, V)))


def test_a_rank_that_is_not_known() -> None:
    traced = tf.function(attention, input_signature=[tf.TensorSpec(None)] * 3)
    with pytest.raises(ArgumentError, match=r"got q as a tensor of unknown rank.*ensure_shape"):
        traced(*map(tf.constant, (Q, K, V)))


def test_logsumexp_has_a_gradient() -> None:
    q, k = tf.constant(Q), tf.constant(K)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(q)
        found = attention(q, k, V, return_logsumexp=True)[1]
        scores = tf.matmul(q, tf.repeat(k, 2, axis=1), transpose_b=True) * 3**-0.5
        wanted = tf.reduce_logsumexp(scores, -1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(found, q), tape.gradient(wanted, q), atol=1e-5)


def test_dropout_is_the_same_in_both_passes() -> None:
    v = tf.constant(V)
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = attention(Q, K, v, dropout=0.5, seed=[3, 4])
    # It is linear in the values.
    total = tf.reduce_sum(tape.gradient(y, v) * v)
    np.testing.assert_allclose(total, tf.reduce_sum(y), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(y, attention(Q, K, v, dropout=0.5, seed=[3, 4]))
    assert np.abs(y - attention(Q, K, v, dropout=0.5, seed=[3, 5])).max() > 0.1
    assert np.abs(y - attention(Q, K, v)).max() > 0.1


def test_dropout_keeps_the_mean() -> None:
    drawn = [attention(Q, K, V, dropout=0.3, seed=[1, s]) for s in range(200)]
    np.testing.assert_allclose(np.mean(drawn, 0), attention(Q, K, V), atol=0.4)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: attention(Q[0, 0], K[0, 0], V[0, 0]), "wanted the same axes"),
        (lambda: attention(Q[..., :2], K, V), "wanted q and k of one depth"),
        (lambda: attention(Q[:, :3], K, V), "as many heads of q as of k"),
        (lambda: attention(Q, K.astype("d"), V), "of one dtype"),
        (lambda: attention(Q, K, V, np.ones([7, 9], "f")), "wanted booleans.*score="),
        (lambda: attention(Q, K, V, np.ones([7, 8], "?")), r"\[7, 8\].*are \[2, 4, 7, 9\]"),
        (lambda: attention(Q, K, V, np.ones([2, 7, 9], "?")), r"write mask\[:, None\]"),
        (lambda: attention(Q, K, V, np.ones([1, 2, 4, 7, 9], "?")), "one that broadcasts to"),
        (lambda: attention(Q, K, V, window=0), "window=0"),
        (lambda: attention(Q, K, V, dropout=1.0), "dropout=1.0"),
        (lambda: attention(Q, K, V, score=3.0), "score=3.0; wanted a function"),
        *(
            (lambda s=s: attention(Q, K, V, dropout=0.1, seed=s), r"wanted two .* seed=\[1, 2\]")
            for s in (3, "ab", [1, 2, 3], [0.5, 1.0], ["a", "b"], [[1, 2]])
        ),
    ],
)
def test_an_error_says_what_is_wanted(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


@pytest.mark.parametrize("shared", [1, 2, 4], ids=["own keys", "two groups", "one group"])
@pytest.mark.parametrize("run", [lambda f: f, tf.function, tf.function(jit_compile=True)])
def test_score_may_tell_heads_apart(run: Any, shared: int) -> None:
    rng = np.random.default_rng(5)
    q = tf.constant(rng.normal(size=[3, 4, 5, 2]), tf.float32)
    k, v = (tf.constant(rng.normal(size=[3, 4 // shared, 5, 2]), tf.float32) for _ in range(2))
    slopes = tf.constant([0.5, 0.25, 2.0, 1.0])

    def sloped(scores: Any, queries: Any, keys: Any, heads: Any) -> Any:
        return scores - tf.gather(slopes, heads) * tf.cast(queries - keys, scores.dtype)

    def ours() -> Any:
        with tf.GradientTape() as tape:
            tape.watch([q, k, v, slopes])
            y = tf.reduce_sum(attention(q, k, v, causal=True, score=sloped) ** 2)
        return [tf.convert_to_tensor(g) for g in tape.gradient(y, [q, k, v, slopes])]

    def plainly() -> Any:
        with tf.GradientTape() as tape:
            tape.watch([q, k, v, slopes])
            keys, values = (tf.repeat(a, shared, axis=1) for a in (k, v))
            scores = tf.matmul(q, keys, transpose_b=True) / 2**0.5
            ahead = tf.range(5.0)[:, None] - tf.range(5.0)[None, :]
            scores = tf.where(ahead >= 0, scores - slopes[:, None, None] * ahead, -1e30)
            y = tf.reduce_sum(tf.matmul(tf.nn.softmax(scores), values) ** 2)
        return tape.gradient(y, [q, k, v, slopes])

    for found, wanted in zip(run(ours)(), plainly(), strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-5)


def test_heads_must_be_known_for_a_score_function_of_heads() -> None:
    unknown = tf.TensorSpec([1, None, 5, 2])
    run = tf.function(lambda q: attention(q, q, q, score=lambda s, a, b, h: s))
    with pytest.raises(ArgumentError, match=r"score function of heads.*ensure_shape"):
        run.get_concrete_function(unknown)
