"""Every feature in every mode: the same number comes out."""

import pytest
import tensorflow as tf

from pullback.errors import NotLinearError
from tests.define.features import FEATURES, Feature
from tests.modes import FORWARD, MODES, assert_in_mode

# A rule that ignores its upstream is not linear in it, so it has no forward mode.
NOT_LINEAR = {"a rule that returns a forward tensor unchanged"}


@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f.name)
@pytest.mark.parametrize("mode", MODES)
def test_same_gradient_in_every_mode(feature: Feature, mode: str) -> None:
    if feature.name in NOT_LINEAR and mode in FORWARD:
        with pytest.raises((NotLinearError, tf.errors.InvalidArgumentError), match="not linear"):
            MODES[mode](feature.fn, feature.tensors())
    else:
        assert_in_mode(MODES[mode], feature.fn, feature.tensors(), feature.gradient)
