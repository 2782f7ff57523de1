"""Every feature in every mode: the same number comes out."""

import pytest

from tests.define.features import FEATURES, Feature
from tests.modes import FORWARD, MODES, assert_gradients

# A rule that ignores its upstream is not linear in it, so it has no forward mode: see test_forward.
NOT_LINEAR = {"a rule that returns a forward tensor unchanged"}


@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f.name)
@pytest.mark.parametrize("mode", MODES)
def test_same_gradient_in_every_mode(feature: Feature, mode: str) -> None:
    if feature.name in NOT_LINEAR and mode in FORWARD:
        return
    found = MODES[mode](feature.fn, feature.tensors())
    assert_gradients(found, feature.gradient)
