"""Every kind of override in every mode: the same numbers, those of mathematics."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import NotLinearError
from tests.modes import FORWARD, MODES, SECOND_ORDER, assert_gradients, assert_in_mode
from tests.override.features import FEATURES, RELU, X, Y, by_square, relu_times


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
