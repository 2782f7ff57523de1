"""Every kind of override in every mode: the same numbers, those of mathematics."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import NotLinearError, UnmatchedOverride, UnreachableOverride
from tests.modes import FORWARD, MODES, SECOND_ORDER, assert_gradients, assert_in_mode
from tests.override.features import FEATURES, RELU, X, Y, by_square, relu_times, times_seven


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", FEATURES)
def test_the_rule_decides_in_every_mode(name: str, mode: str) -> None:
    feature = FEATURES[name]
    changed = pb.override(feature.rules)(feature.function)
    if name == "guided" and mode in FORWARD:
        with pytest.raises((NotLinearError, tf.errors.InvalidArgumentError), match="not linear"):
            MODES[mode](changed, feature.tensors())
    else:
        assert_in_mode(MODES[mode], changed, feature.tensors(), feature.wanted)


@pytest.mark.parametrize(
    "mode", ["eager", "tf.function, tape outside", "tf.function, tape inside", "tf.cond", "fit"]
)
@pytest.mark.parametrize("name", FEATURES)
def test_a_block_means_the_same(name: str, mode: str) -> None:
    feature = FEATURES[name]
    with pb.override(feature.rules) as opened:
        assert_in_mode(MODES[mode], feature.function, feature.tensors(), feature.wanted)
    assert opened.audit.effective > 0


# Functions that TensorFlow calls for itself, to trace functions, branches and loops, and to run them.
ITS_OWN = {
    "identity": (tf.identity, lambda x: tf.identity(x * 2.0)),
    "cast": (tf.cast, lambda x: tf.cast(x * 2.0, tf.float64)),
    "reshape": (tf.reshape, lambda x: tf.reshape(x * 2.0, tf.shape(x))),
    "convert_to_tensor": (tf.convert_to_tensor, lambda x: tf.convert_to_tensor(x * 2.0)),
}


NO_EFFECT = (UnmatchedOverride, UnreachableOverride)  # tf.range casts integers


@pytest.mark.parametrize("mode", [m for m in MODES if "fit" not in m])
@pytest.mark.parametrize("name", ITS_OWN)
def test_only_the_calls_of_the_user_are_meant(name: str, mode: str) -> None:
    target, function = ITS_OWN[name]
    with pb.override({target: times_seven}) as opened:
        assert_in_mode(
            MODES[mode], function, [tf.constant(X, tf.float32)], (-14.0 * np.ones_like(X),)
        )
    assert opened.audit.effective > 0
    with (
        pytest.raises(NO_EFFECT, match=r"did not run here|nothing to differentiate"),
        pb.override({target: times_seven}),
    ):
        MODES[mode](lambda x: x * 2.0, [tf.constant(X, tf.float32)])


@pytest.mark.parametrize("mode", SECOND_ORDER)
@pytest.mark.parametrize("target", ["Relu", tf.nn.relu])
def test_a_rule_is_differentiated_in_turn(target: object, mode: str) -> None:
    changed = pb.override({target: by_square})(relu_times)
    # The gradient is (y x², relu x); the gradient of the sum of squares of both:
    wanted = (4.0 * Y**2 * X**3 + 2.0 * RELU * X**2, 2.0 * Y * X**4)
    xs = [tf.constant(a, tf.float32) for a in (X, Y)]
    assert_gradients(SECOND_ORDER[mode](changed, xs), wanted, rtol=1e-4)


def test_the_original_is_left_as_it_is() -> None:
    feature = FEATURES["function"]
    changed = pb.override(feature.rules)(feature.function)
    for function, wanted in (
        (changed, -7.0 * Y),
        (feature.function, np.where(X > 0, Y, 0.0)),
        (changed, -7.0 * Y),
    ):
        assert_gradients(
            MODES["tf.function, tape outside"](function, feature.tensors())[:1], [wanted]
        )
