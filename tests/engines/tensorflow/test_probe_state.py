"""A check leaves everything as it was, and follows variables wherever a function finds them."""

import random

import keras
import numpy as np
import pytest
import tensorflow as tf

from pullback.check import check
from pullback.check.programs.steps import Steps, own_gradients
from pullback.check.programs.wrong import wrong_operations
from pullback.engines.tensorflow.probing import make_probe
from pullback.engines.tensorflow.state import reachable_variables
from pullback.errors import CheckError
from pullback.extend import Unsupported

M = tf.constant(np.random.default_rng(1).normal(size=(6, 3)), tf.float32)
COUNTER = tf.Variable(0, trainable=False)


def test_running_statistics_of_a_layer_are_put_back():
    layer = keras.layers.BatchNormalization()
    layer.build(M.shape)
    before = [w.numpy() for w in layer.weights]
    check(layer, M, kwargs={"training": True}, order=1)
    for weight, old in zip(layer.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), old)


def test_the_random_state_of_a_layer_is_put_back():
    layer = keras.layers.Dropout(0.5, seed=3)
    before = layer.seed_generator.state.numpy()
    assert check(layer, M, kwargs={"training": True}, quick=True)
    np.testing.assert_array_equal(layer.seed_generator.state.numpy(), before)


def test_state_is_put_back_when_the_function_is_refused():
    total = tf.Variable(0.0, trainable=False)

    def counting(x):
        total.assign_add(1.0)
        return tf.argmax(x)

    with pytest.raises(CheckError, match="no floating-point tensor"):
        check(counting, M)
    assert total.numpy() == 0.0


def test_the_users_random_numbers_go_on_as_if_nothing_had_happened():
    def draw():
        return float(tf.random.normal([])), random.random(), float(np.random.normal())

    def start():
        tf.random.set_seed(7)
        random.seed(7)
        np.random.seed(7)

    start()
    wanted = [draw(), draw()]
    start()
    first = draw()
    check(tf.sin, M, quick=True)
    assert [first, draw()] == wanted


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * random.random(),
        lambda x: x * np.random.normal(),
        lambda x: tf.nn.dropout(x, 0.5),
        lambda x: x + 0 * tf.random.normal([]),
    ],
)
@pytest.mark.parametrize("seed", [0, 7])
def test_random_numbers_go_on_as_if_nothing_had_been_drawn(fn, seed):
    def draws():
        tf.random.set_seed(7)
        random.seed(7)
        np.random.seed(7)
        yield float(tf.random.normal([])), random.random(), np.random.normal()
        yield float(tf.random.normal([])), random.random(), np.random.normal()

    wanted = list(draws())
    found = draws()
    first = next(found)
    check(fn, M, seed=seed)
    assert [first, next(found)] == wanted


def test_the_first_run_draws_what_all_others_do():
    drawn = []
    random.seed(3)  # as the check does

    def drawing(x):
        drawn.append(random.random())
        return x * drawn[-1]

    assert check(drawing, M, quick=True, seed=3)
    # what was seen to draw is not asked whether that matters: a quick check has no calls for it
    assert set(drawn) == {drawn[0]}


def test_a_random_function_does_not_leave_its_seed_behind():
    tf.random.set_seed(5)
    tf.random.normal([])
    assert check(lambda x: tf.nn.dropout(x, 0.5), M, quick=True, seed=0)
    after = float(tf.random.normal([]))
    tf.random.set_seed(0)
    again = [float(tf.random.normal([])) for _ in range(3)]
    assert after not in again


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_mask_that_is_drawn_again_by_chance_does_not_count_as_repeated(value: float):
    """A mask of six entries comes again in one of 64 runs; the generator is the function's own, and is not put back."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        with pytest.raises(CheckError, match="Make its randomness an argument"):
            make_probe(lambda x: x * rng.integers(0, 2, 6), [tf.fill([6], value)], {}, None, 0)


def helper():
    COUNTER.assign_add(1)


def uses_helper(x):
    helper()
    return tf.sin(x)


class Plain:
    """Not a tf.Module: its variables are ordinary attributes."""

    def __init__(self):
        self.parts = {"a": [tf.Variable(1.0)]}
        self.generator = tf.random.Generator.from_seed(1)

    def method(self, x):
        def inner():
            return self.parts["a"][0] * x

        return inner()


def test_variables_are_found_through_helpers_and_attributes():
    thing = Plain()
    assert any(v is COUNTER for v in reachable_variables(uses_helper))
    found = reachable_variables(thing.method)
    assert any(v is thing.parts["a"][0] for v in found)
    assert any(v is thing.generator.state for v in found)


def test_a_variable_written_by_a_helper_is_put_back():
    assert check(uses_helper, M, quick=True)
    assert COUNTER.numpy() == 0


def test_integer_variables_are_held_fixed():
    steps = tf.Variable(3)
    report = check(lambda x: x * tf.cast(steps, x.dtype), M, quick=True)
    assert report.ok
    assert [line.leaf.name for line in report.inputs] == ["x"]


def test_a_variable_among_the_arguments_is_one_input():
    report = check(lambda v: v * v, tf.Variable([1.0, 2.0]), quick=True)
    assert [line.leaf.path for line in report.inputs] == ["args[0]"]


def test_variables_with_the_same_name_are_told_apart():
    first, second = tf.Variable([1.0], name="w"), tf.Variable([2.0], name="w")
    report = check(lambda x: x * first * second, M, quick=True)
    paths = [line.leaf.path for line in report.inputs]
    assert len(set(paths)) == 3


class Drifting(keras.layers.Layer):
    """Made by its first call, and another one with each."""

    def build(self, shape):
        self.scale = self.add_weight(shape=(), initializer="ones", trainable=False)

    def call(self, x):
        self.scale.assign(self.scale * 1.5)
        return tf.sin(x) * self.scale


def test_state_that_the_first_call_makes_is_put_back_too():
    layer = Drifting()
    assert check(layer, M, quick=True)
    after = layer.scale.numpy()
    assert check(layer, M, quick=True)
    assert layer.scale.numpy() == after


# what a function draws or writes is the same in every run


@tf.custom_gradient
def twice_too_large(x):
    return tf.sin(x), lambda dy: 2.0 * dy * tf.cos(x)


def with_dropout(activation, seed):
    keras.utils.set_random_seed(seed)
    first, drop = keras.layers.Dense(4, activation), keras.layers.Dropout(0.3)
    return keras.Sequential([first, drop, keras.layers.Dense(2, "softmax")])


def probe_of(fn, *args, **kwargs):
    return make_probe(fn, args, kwargs, None, 0)


@pytest.mark.parametrize("built", [True, False])
@pytest.mark.parametrize("seed", [3, 6])
def test_dropout_in_training_is_right(seed, built):
    model, rows = with_dropout("relu", seed), tf.constant([[1.0, -2.0, 0.5], [0.3, 0.7, -1.0]])
    if built:
        model(rows)
    report = check(model, rows, kwargs={"training": True}, order=1, modes="none", explain=False)
    assert report.verdict == "right", str(report)


def test_a_wrong_rule_beside_dropout_is_found():
    model = with_dropout(twice_too_large, 3)
    options = {"order": 1, "modes": "none", "explain": False}
    report = check(model, M, kwargs={"training": True}, **options)
    assert report.verdict == "wrong", str(report)


@pytest.mark.parametrize(
    "layer",
    [
        keras.layers.Dropout(0.5),
        keras.layers.GaussianNoise(1.0),
        keras.layers.Dropout(0.5, dtype="float16"),
    ],
)
def test_the_same_numbers_are_drawn_at_any_precision(layer):
    probe = probe_of(keras.Sequential([keras.layers.Dense(8), layer]), M, training=True)
    assert probe.value_epsilon < 1e-10
    (fine,), (coarse,) = probe.values(probe.start()), probe.as_given.values(probe.start())
    np.testing.assert_allclose(fine, coarse, rtol=1e-2, atol=1e-2)
    probe.close()


def test_a_state_of_a_recurrent_layer_is_the_same_at_any_precision():
    rows = tf.reshape(M, (2, 3, 3))
    layer = keras.layers.SimpleRNN(2, stateful=True)
    layer(rows)
    before = np.array(layer.states[0].numpy())
    wanted = layer(rows)
    layer.states[0].assign(before)
    probe = probe_of(layer, rows)
    assert probe.value_epsilon < 1e-10
    np.testing.assert_allclose(probe.values(probe.start())[0], wanted, rtol=1e-5)
    probe.close()
    np.testing.assert_array_equal(layer.states[0].numpy(), before)


def counts_and_draws():
    """A function that is another one with each call, unless its state is put back."""
    calls, generator = tf.Variable(1.0, trainable=False), tf.random.Generator.from_seed(1)

    def function(x):
        calls.assign_add(1.0)
        return tf.sin(x) * tf.cast(calls, x.dtype) * generator.normal([3], dtype=x.dtype)

    return function


def test_nothing_that_a_probe_runs_changes_what_runs_after_it():
    probe = probe_of(counts_and_draws(), M)
    xs, ws = probe.start(), [np.ones(M.shape)]
    (first,), (wanted,) = probe.vjp(xs, ws)
    others = [np.ones(M.shape)]
    steps = []
    for run in (
        lambda: own_gradients(probe.traced_function(), xs, ws),
        lambda: probe.claims(xs, ws, xs, second=True),
        lambda: probe.vjp_after(xs, others, ws),
        lambda: probe.traced(xs, ws),
        lambda: wrong_operations(probe.traced_function(), xs, (), 1),
        lambda: probe.in_mode("tf.function, tape outside", xs, ws, xs),
        lambda: probe.in_mode("tf.function, tape inside", xs, ws, xs),
        lambda: steps.append(Steps(probe.traced_function(), xs).at(xs, ws)),
    ):
        run()
        np.testing.assert_array_equal(probe.values(xs)[0], first)
        np.testing.assert_array_equal(probe.vjp(xs, ws)[1][0], wanted)
    np.testing.assert_allclose(own_gradients(probe.traced_function(), xs, ws)[0], wanted)
    np.testing.assert_allclose(steps[0].outputs[-1][0], first)
    assert wrong_operations(probe.traced_function(), xs, (), 1).names == ()
    probe.close()


def test_what_a_rule_writes_is_put_back():
    calls = tf.Variable(1.0, trainable=False)

    @tf.custom_gradient
    def counted(x):
        def rule(dy):
            calls.assign_add(1.0)
            return dy * tf.cos(x) * calls

        return tf.sin(x) * calls, rule

    probe = probe_of(counted, M)
    xs, ws = probe.start(), [np.ones(M.shape)]
    found = [probe.vjp(xs, ws) for _ in range(2)]
    np.testing.assert_array_equal(found[0][0][0], found[1][0][0])
    np.testing.assert_allclose(found[1][1][0], 2 * np.cos(xs[0]), rtol=1e-6)
    probe.close()
    assert calls.numpy() == 1.0


def test_what_a_function_leaves_for_its_rule_is_there():
    kept = tf.Variable(tf.zeros_like(M), trainable=False)

    @tf.custom_gradient
    def remembering(x):
        kept.assign(x)
        return tf.sin(x), lambda dy: dy * tf.cos(kept)

    probe = probe_of(remembering, M)
    xs = probe.start()
    np.testing.assert_allclose(probe.vjp(xs, [np.ones(M.shape)])[1][0], np.cos(xs[0]), rtol=1e-6)
    probe.close()
    (finding,) = check(remembering, M, quick=True, explain=False).findings
    assert finding.kind == "stale"


def test_a_variable_that_is_written_and_moved_begins_as_given():
    total = tf.Variable(2.0)

    def adding(x):
        total.assign_add(0.5)
        return x * total

    assert check(adding, M).verdict == "right"
    assert total.numpy() == 2.0


def test_seeds_that_keras_draws_are_held_fixed_and_left_alone():
    keras.utils.set_random_seed(3)
    wanted = keras.random.normal((2,)).numpy()
    keras.utils.set_random_seed(3)
    assert check(lambda x: x * keras.random.normal((3,)), M, quick=True).verdict == "right"
    np.testing.assert_array_equal(keras.random.normal((2,)).numpy(), wanted)


def test_modes_that_draw_other_numbers_are_not_compared():
    probe = probe_of(lambda x: x * tf.random.stateless_uniform([3], [1, 2], dtype=x.dtype), M)
    xs, ws = probe.start(), [np.ones(M.shape)]
    assert isinstance(probe.in_mode("XLA", xs, ws, xs), Unsupported)
    plain = probe_of(tf.sin, M)
    assert not isinstance(plain.in_mode("XLA", xs, ws, xs), Unsupported)
