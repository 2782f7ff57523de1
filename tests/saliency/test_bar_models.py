"""Every method on every kind of model, which is left as it is; sums hold, and those of the plain gradient do not.

All methods on the large models, with larger inputs, are in benchmarks/saliency_models.py.
"""

import functools
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.saliency.methods import METHODS
from tests.saliency.bar_models import MODELS, randomised

BAR = 1e-5
TARGET = 3
FEW: dict[str, dict[str, Any]] = {
    "integrated": {"steps": 2, "max_steps": 2, "tolerance": 1e9},
    "smoothgrad": {"samples": 2},
}
LARGE = {"ResNet50": ("guided", "gradcam", "lrp"), "MobileNetV2": ("guided", "gradcam", "lrp")}


@functools.cache
def made(name: str) -> Any:
    return randomised(MODELS[name][0]())


def inputs(name: str) -> tuple[Any, Any]:
    """One example, and a baseline that is not zero."""
    return MODELS[name][1](1, 1), MODELS[name][1](1, 2)


@pytest.mark.parametrize("name", MODELS)
def test_every_method_runs_and_changes_nothing(name: str) -> None:
    model, (x, _) = made(name), inputs(name)
    before, output = [w.numpy() for w in model.weights], np.asarray(model(x, training=False))
    for method in LARGE.get(name, METHODS):
        found = pb.saliency(model, x, TARGET, method, **FEW.get(method, {}))
        assert np.isfinite(found.values).all(), method
        assert found.values.any(), method
        assert found.audit is None or found.audit.complete, method
        assert "softmax in the end is looked through" in found.note, method
    np.testing.assert_array_equal(model(x, training=False), output)
    for weight, value in zip(model.weights, before, strict=True):
        np.testing.assert_array_equal(weight.numpy(), value)


def logit(model: Any, x: Any) -> float:
    """Of the target less that of class 0, out of probabilities: no logits are needed to know it."""
    p = np.asarray(model(x, training=False), "float64")[0]
    return float(np.log(p[TARGET]) - np.log(p[0]))


def margin(outputs: Any) -> Any:
    return outputs[:, TARGET] - outputs[:, 0]


def total(found: Any) -> float:
    return float(np.asarray(found.values, "float64").sum())


def off(found: float, wanted: float, *others: float) -> float:
    return abs(found - wanted) / max(map(abs, (found, wanted, *others)))


@pytest.mark.parametrize("name", MODELS)
def test_deeplift_adds_up_and_the_plain_gradient_does_not(name: str) -> None:
    model, (x, baseline) = made(name), inputs(name)
    ends = logit(model, x), logit(model, baseline)
    found = pb.saliency(model, x, margin, "deeplift", baseline=baseline)
    change = abs(
        ends[0] - ends[1]
    )  # rounding is that of the scores, of which it may be a small part
    assert found.gap.max() * change <= BAR * max(map(abs, ends))
    assert (
        off(total(found), ends[0] - ends[1], *ends) <= 5 * BAR
    )  # of which probabilities have less
    plain = pb.saliency(model, x, margin, "input_x_gradient")
    assert off(total(plain), ends[0] - ends[1], *ends) > 100 * BAR


def lacks(found: Any, score: float) -> float:
    """The gap of LRP in units of the largest sum: large ones may cancel in the score, and leave their rounding."""
    lost = float(sum(each.sum() for each in found.leaks.values()))
    return found.gap.max() * abs(score) / max(map(abs, (score, total(found), lost)))


@pytest.mark.parametrize("name", MODELS)
def test_lrp_adds_up_and_the_plain_gradient_does_not(name: str) -> None:
    model, (x, _) = made(name), inputs(name)
    found = pb.saliency(model, x, margin, "lrp")
    lost = float(sum(each.sum() for each in found.leaks.values()))
    score = logit(model, x)
    assert lacks(found, score) <= BAR
    assert off(total(found) + lost, score, total(found), lost) <= 5 * BAR
    plain = pb.saliency(model, x, margin, "input_x_gradient")
    assert off(total(plain) + lost, logit(model, x), total(plain), lost) > 100 * BAR


@pytest.mark.parametrize("composite", ["epsilon_plus_flat", "epsilon_gamma_box", "deep_taylor"])
@pytest.mark.parametrize("name", ["transformer", "ConvNeXt", "nested twice", "MobileNetV2"])
def test_rules_for_first_layers_add_up(name: str, composite: str) -> None:
    """In the transformer, three layers read the embedding; others rescale, normalise or pad before the first."""
    bounds = {"low": -3.0, "high": 3.0} if composite == "epsilon_gamma_box" else {}
    model, (x, _) = made(name), inputs(name)
    found = pb.saliency(model, x, margin, "lrp", composite=composite, **bounds)
    assert lacks(found, logit(model, x)) <= BAR


@pytest.mark.parametrize("name", ["ConvNeXt", "nested twice", "subclassed"])
def test_both_signs_add_up(name: str) -> None:
    model, (x, _) = made(name), inputs(name)
    found = pb.saliency(model, x, margin, "lrp", composite="epsilon_alpha2_beta1")
    assert lacks(found, logit(model, x)) <= BAR
