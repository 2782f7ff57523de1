"""Ready-made rules: what they show, keep and refuse."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import RuleError

Q = pb.rules.quantizers
NAMES = ["atan", "fast_sigmoid", "sigmoid", "triangular", "gaussian"]


def gradient(fn: Callable[[Any], Any], x: Any, upstream: Any = None) -> np.ndarray:
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = fn(x)
    return np.asarray(tape.gradient(y, x, output_gradients=upstream))


def is_above(x: Any) -> Any:
    return tf.cast(x > 0, x.dtype)


# Forward


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_straight_through_is_bit_equal_at_any_magnitude(dtype: Any) -> None:
    most = np.finfo(dtype).max
    x = np.array([most, -most, np.finfo(dtype).tiny, 0.3, -0.0, np.inf], dtype)
    rounded = pb.with_gradient(tf.round, pb.rules.straight_through())
    np.testing.assert_array_equal(rounded(tf.constant(x)), np.round(x))
    np.testing.assert_array_equal(gradient(rounded, x), np.ones(6))


def test_straight_through_computes_nothing_but_the_function() -> None:
    rounded = pb.with_gradient(tf.round, pb.rules.straight_through())
    graph = tf.function(rounded).get_concrete_function(tf.TensorSpec([3])).graph
    types = {op.type for op in graph.get_operations()}
    assert types <= {"Placeholder", "Round", "Identity", "IdentityN"}


# By definition: levels at equal distances, the nearest one.
LEVELS = {
    "uniform": (Q.uniform(2), [-1.0, -1 / 3, 1 / 3, 1.0]),
    "uniform from zero": (Q.uniform(2, 0.0, 6.0), [0.0, 2.0, 4.0, 6.0]),
    "power of two": (Q.power_of_two(3), [-1.0, -0.5, -0.25, 0.0, 0.25, 0.5, 1.0]),
    "ternary": (Q.ternary(), [-1.0, 0.0, 1.0]),
    "binary": (Q.binary(), [-1.0, 1.0]),
    "LSQ": (lambda x: Q.lsq(2)(x, tf.constant(0.5)), [-1.0, -0.5, 0.0, 0.5]),
    "LSQ, unsigned": (lambda x: Q.lsq(2, signed=False)(x, tf.constant(0.5)), [0.0, 0.5, 1.0, 1.5]),
}


@pytest.mark.parametrize("name", LEVELS)
def test_quantisers_have_these_levels(name: str) -> None:
    quantizer, levels = LEVELS[name]
    found = np.unique(quantizer(tf.constant(np.linspace(-9, 9, 4001).astype("f"))))
    np.testing.assert_allclose(found, levels, rtol=1e-6)


def test_a_level_stays_where_it_is() -> None:
    for quantizer, levels in LEVELS.values():
        np.testing.assert_allclose(quantizer(tf.constant(levels, tf.float32)), levels, rtol=1e-6)


# Learned steps


def test_the_step_has_the_gradient_and_scale_of_the_paper() -> None:
    """Esser et al. 2020, equations 3 and 5."""
    x, step = np.array([0.3, -0.6, 5.0, -9.0], "f"), tf.Variable(0.5)
    with tf.GradientTape() as tape:
        y = Q.lsq(3)(tf.constant(x), step)
    ratio = x / 0.5
    slopes = np.where((ratio > -4) & (ratio < 3), np.round(ratio) - ratio, np.clip(ratio, -4, 3))
    np.testing.assert_allclose(tape.gradient(y, step), slopes.sum() / np.sqrt(4 * 3), rtol=1e-6)


def test_the_step_starts_as_in_the_paper() -> None:
    """Esser et al. 2020, section 2.1."""
    x = tf.constant([1.0, -2.0, 3.0])
    np.testing.assert_allclose(Q.lsq_start(x, 4), 2 * 2 / np.sqrt(7), rtol=1e-6)
    np.testing.assert_allclose(Q.lsq_start(x, 4, signed=False), 2 * 2 / np.sqrt(15), rtol=1e-6)


def test_a_step_that_is_negative_or_zero_is_survived() -> None:
    x = tf.constant([0.3, -0.6])
    np.testing.assert_array_equal(Q.lsq(3)(x, tf.constant(-0.5)), Q.lsq(3)(x, tf.constant(0.5)))
    step = tf.Variable(0.0)
    with tf.GradientTape() as tape:
        y = Q.lsq(3)(x, step)
    assert np.all(np.isfinite([*np.asarray(y), float(tape.gradient(y, step))]))


def test_many_entries_in_half_precision_keep_the_gradient_of_the_step() -> None:
    x, step = tf.fill([70000], tf.constant(0.3, tf.float16)), tf.Variable(0.1)
    with tf.GradientTape() as tape:
        y = Q.lsq(3)(x, step)
        total = tf.reduce_sum(tf.cast(y, tf.float32))
    np.testing.assert_allclose(
        tape.gradient(total, step), 70000 * 3 / np.sqrt(70000 * 3), rtol=1e-2
    )


def test_a_step_for_each_channel() -> None:
    x, steps = tf.random.normal([50, 2], seed=1), tf.Variable([0.1, 1.0])
    with tf.GradientTape() as tape:
        y = Q.lsq(3)(x, steps)
    found = tape.gradient(y, steps)
    for channel in range(2):
        step = tf.Variable(steps[channel])
        with tf.GradientTape() as tape:
            y = Q.lsq(3)(x[:, channel], step)
        np.testing.assert_allclose(found[channel], tape.gradient(y, step), rtol=1e-4)


# Backward


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", [*NAMES, "swish"])
def test_surrogates_are_finite_everywhere(name: str, dtype: Any) -> None:
    most = np.finfo(dtype).max
    x = np.array([-np.inf, -most, -1e3, 0, 1e3, most, np.inf], dtype)
    is_swish = name == "swish"
    rule: Any = Q.binary(swish=5.0) if is_swish else pb.rules.surrogate(name)
    found = gradient(rule if is_swish else pb.with_gradient(is_above, rule), x)
    assert np.all(np.isfinite(found))
    assert found[3] > 0.5
    np.testing.assert_allclose(found[[0, 1, 5, 6]], 0, atol=1e-6)


@pytest.mark.parametrize("make", [pb.rules.scale, pb.rules.reverse, pb.rules.noise])
def test_a_variable_is_read_anew_by_a_program_that_is_traced(make: Any) -> None:
    k = tf.Variable(2.0)
    rule = make(k)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = rule(x)
        return tape.gradient(y, x)

    x = tf.ones([1000])
    sizes = []
    for value in (2.0, 6.0):
        k.assign(value)
        sizes.append(np.std(step(x)) if make is pb.rules.noise else np.mean(step(x)))
    np.testing.assert_allclose(sizes[1] / sizes[0], 3.0, rtol=0.1)
    assert step.experimental_get_tracing_count() == 1


def test_noise_has_its_size_and_is_drawn_anew() -> None:
    rule = pb.rules.noise(0.5)
    first, second = (gradient(rule, np.zeros(20000, "f")) for _ in range(2))
    np.testing.assert_allclose([first.mean(), first.std()], [1.0, 0.5], atol=0.02)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_clipping_a_length_at_any_magnitude(scale: float) -> None:
    upstream = tf.constant([3.0 * scale, 4.0 * scale])
    found = gradient(pb.rules.clip(norm=scale), [0.0, 0.0], upstream)
    np.testing.assert_allclose(found / scale, [0.6, 0.8], rtol=1e-6)


def test_a_global_norm_is_that_of_all_tensors() -> None:
    a, b = tf.constant([0.0]), tf.constant([[0.0]])
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        y = pb.rules.clip(global_norm=1.0)(a, b)
        scaled = [3.0 * y[0], 4.0 * y[1]]
    found = tape.gradient(scaled, [a, b])
    np.testing.assert_allclose([float(g) for g in map(tf.squeeze, found)], [0.6, 0.8], rtol=1e-6)


def test_nan_to_zero() -> None:
    upstream = tf.constant([np.nan, np.inf, 2.0])
    np.testing.assert_array_equal(
        gradient(pb.rules.nan_to_zero, [0.0, 0, 0], upstream), [0.0, 0.0, 2.0]
    )


def loss_of_root(x: Any) -> Any:
    return tf.sqrt(pb.rules.raise_on_nan(x))


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function])
def test_raise_on_nan_names_the_user_s_function_and_line(wrap: Any) -> None:
    line = loss_of_root.__code__.co_firstlineno + 1
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=rf"(?s)gradient of loss_of_root .*test_ready.py:{line} is not finite.*it arrives so",
    ):
        gradient(wrap(loss_of_root), [0.0])


def test_raise_on_nan_tells_where_it_is_made() -> None:
    root = pb.override({tf.sqrt: pb.rules.raise_on_nan})(tf.sqrt)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"made here: what arrives is finite"):
        gradient(root, [0.0])


def test_a_tap_tells_where_it_is() -> None:
    seen: list[Any] = []
    tap = pb.rules.tap(seen, of="norm")

    def first(x: Any) -> Any:
        return tap(x) * 3.0

    def second(x: Any) -> Any:
        return tap(first(x)) * 4.0

    gradient(second, [1.0])
    assert [(op.name, float(value)) for op, value in seen] == [("second", 4.0), ("first", 12.0)]


def test_a_tap_in_an_override_has_norms_by_layer() -> None:
    import keras

    seen: dict[str, float] = {}

    def see(value: Any, op: Any) -> None:
        seen[op.layer or op.name] = float(value)

    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(1, name="b")]
    )
    tapped = pb.override({keras.layers.Dense: pb.rules.tap(see, of="norm")})(model)
    tapped.compile("sgd", "mse")
    quiet: Any = 0
    tapped.fit(np.ones((4, 3), "f"), np.ones((4, 1), "f"), verbose=quiet)
    assert {name.rpartition("/")[2] for name in seen} == {"a", "b"}
    assert all(value > 0 for value in seen.values())


def test_an_error_in_a_callback_is_not_lost() -> None:
    def fail(value: Any, op: Any) -> None:
        raise KeyError("no such layer")

    with pytest.raises(KeyError, match="no such layer"):
        gradient(pb.rules.tap(fail), [1.0])
    with pytest.raises(tf.errors.OpError, match="no such layer"):
        gradient(tf.function(lambda x: pb.rules.tap(fail)(x)), [1.0])


# Bad input, and copies

BAD = {
    "scale": (lambda: pb.rules.scale("much"), "k='much'; wanted a finite number"),
    "reverse": (lambda: pb.rules.reverse(float("nan")), "k=nan; wanted a finite number"),
    "clip of nothing": (lambda: pb.rules.clip(), "no limit"),
    "clip": (lambda: pb.rules.clip(norm=-1.0), "norm=-1.0; wanted a number above 0"),
    "surrogate": (lambda: pb.rules.surrogate("tanh"), "'tanh'; there are 'atan'"),
    "slope": (lambda: pb.rules.surrogate("atan", 0.0), "slope=0.0; wanted a number above 0"),
    "straight through": (lambda: pb.rules.straight_through("tanh"), "wanted a function"),
    "tap": (lambda: pb.rules.tap(3), "wanted a function of the gradient"),
    "tap of": (lambda: pb.rules.tap([], of="length"), 'there are "gradient" and "norm"'),
    "noise": (lambda: pb.rules.noise(None), "stddev=None"),
    "tensor of scale": (
        lambda: pb.rules.scale(tf.constant([1.0, 2.0])),
        "tensor or variable of one",
    ),
    "list of scale": (lambda: pb.rules.scale([1.0, 2.0]), "tensor or variable of one"),
    "array of scale": (lambda: pb.rules.scale(np.ones(2)), "tensor or variable of one"),
    "variable of scale": (lambda: pb.rules.scale(tf.Variable([1.0])), "tensor or variable of one"),
    "tensor of norm": (lambda: pb.rules.clip(norm=tf.constant(-1.0)), "wanted a number above 0"),
    "tensor of value": (lambda: pb.rules.clip(value=tf.constant(-1.0)), "wanted a number above 0"),
    "negative noise": (lambda: pb.rules.noise(-1.0), "stddev=-1.0; wanted a number of 0 or more"),
    "zeros of LSQ": (lambda: Q.lsq_start(tf.zeros(3)), "nothing but zeros"),
    "step of LSQ": (lambda: Q.lsq(2)(tf.ones(3), -1.0), "step=-1.0; wanted a number above 0"),
    "no step of LSQ": (lambda: Q.lsq(2)(tf.ones(3)), "a tensor and no step"),
    "bits": (lambda: Q.uniform(0), "bits=0; wanted a whole number from 1"),
    "bits of LSQ": (lambda: Q.lsq(1), "bits=1; wanted a whole number from 2"),
    "range": (lambda: Q.uniform(2, 1.0, -1.0), "low below high"),
    "threshold": (lambda: Q.ternary(-1.0), "wanted zero or more"),
    "swish": (lambda: Q.binary(swish=-5.0), "swish=-5.0; wanted a number above 0"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_options_are_refused_in_words(name: str) -> None:
    make, words = BAD[name]
    with pytest.raises(RuleError, match=words):
        make()


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.bfloat16, tf.int32])
def test_an_option_may_be_a_tensor_or_variable_of_one_number(dtype: Any) -> None:
    for k in (tf.constant(2, dtype), tf.Variable(2, dtype=dtype), np.array(2.0), np.float32(2)):
        np.testing.assert_allclose(gradient(pb.rules.scale(k), [1.0, 3.0]), [2.0, 2.0])

    @tf.function
    def traced(x: Any, k: Any) -> Any:
        return tf.gradients(pb.rules.scale(k)(x), x)[0]

    np.testing.assert_allclose(traced(tf.ones(2), tf.constant(2, dtype)), [2.0, 2.0])


def test_a_rule_that_changes_a_gradient_needs_one() -> None:
    with pytest.raises(RuleError, match=r"no gradient of its own\. Use pb\.rules\.passthrough"):
        pb.rules.scale(2.0)(tf.constant(1.0), original=None)


@pytest.mark.parametrize(
    "rule",
    [pb.rules.guided, pb.rules.clip(value=0.5), pb.rules.surrogate("atan"), Q.uniform(3), Q.lsq(4)],
    ids=repr,
)
def test_rules_pickle(rule: Any) -> None:
    copied = pickle.loads(pickle.dumps(rule))
    assert repr(copied) == repr(rule)
