"""What the maps must satisfy, on networks that are nowhere homogeneous; the plain gradient satisfies none of it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.saliency.models import by_hand, images, network, text_model, tokens

Map = Callable[..., np.ndarray]
SMOOTH, KINKS = 1e-4, 0.01  # the largest gap, as a share of the change of the score


def method(name: str, **options: Any) -> Map:
    def found(model: Any, x: Any, target: Any = None, **more: Any) -> np.ndarray:
        return pb.saliency(model, x, target, name, **options, **more).values

    return found


def plain(model: Any, x: Any, target: Any = None, **_: Any) -> np.ndarray:
    return pb.saliency(model, x, target, "gradient").values


def completeness(found: Map, activation: Any, bound: float) -> bool:
    model, x = network(activation), images()
    baseline = images(seed=5)
    values = found(model, x, 2, baseline=baseline)
    function = tf.nn.relu if activation == "relu" else getattr(tf.nn, activation)
    ends = [by_hand(model, tf.constant(each), function)[1][:, 2] for each in (x, baseline)]
    change = (ends[0] - ends[1]).numpy()
    return bool((np.abs(values.sum((1, 2, 3)) - change) <= bound * np.abs(change)).all())


def completeness_on_tokens(found: Map) -> bool:
    model, ids = text_model(), tokens()
    values = found(model, ids, 1, baseline=7)

    def logit(at: Any) -> Any:
        table, kernel, bias, last, last_bias = (tf.convert_to_tensor(v) for v in model.variables)
        hidden = tf.nn.gelu(tf.gather(table, at) @ kernel + bias)
        return (tf.reduce_mean(hidden, 1) @ last + last_bias)[:, 1]

    change = (logit(ids) - logit(np.full_like(ids, 7))).numpy()
    return bool((np.abs(values.sum(1) - change) <= SMOOTH * np.abs(change)).all())


def sensitivity(found: Map) -> bool:
    """A score that is flat where the input is, and has changed on the way there: Sundararajan's example."""

    def flat(x: Any) -> Any:
        return 1.0 - tf.nn.relu(1.0 - x)

    values = found(flat, np.array([[2.0]], "f"))
    return bool(np.abs(values - 1.0).max() < KINKS)


def smoothing(found: Map) -> bool:
    """Left of the kink of a ReLU by a fifth of the noise, whose share that comes across is known."""

    def kink(x: Any) -> Any:
        return tf.nn.relu(x[:, :1])

    x = np.array([[-0.02, 0.98]], "f")  # of range 1: the noise is 0.1
    across = 0.5 * (1 + math.erf(-0.2 / math.sqrt(2)))
    return bool(abs(found(kink, x)[0, 0] - across) < 4 * math.sqrt(across * (1 - across) / 2000))


AXIOMS: dict[str, tuple[Callable[[Map], bool], Map]] = {
    "completeness, smooth": (lambda m: completeness(m, "tanh", SMOOTH), method("integrated")),
    "completeness, kinks": (lambda m: completeness(m, "relu", KINKS), method("integrated")),
    "completeness, tokens": (completeness_on_tokens, method("integrated")),
    "sensitivity": (sensitivity, method("integrated", tolerance=0.005)),
    "smoothing": (smoothing, method("smoothgrad", samples=2000, noise=0.1)),
}


@pytest.mark.parametrize("name", AXIOMS)
def test_axiom(name: str) -> None:
    axiom, found = AXIOMS[name]
    assert axiom(found)


@pytest.mark.parametrize("name", AXIOMS)
def test_the_plain_gradient_fails_it(name: str) -> None:
    axiom, _ = AXIOMS[name]
    assert not axiom(plain)


def test_the_gap_is_what_the_sum_lacks() -> None:
    model, x = network(), images()
    with pytest.warns(UserWarning, match="after 4 steps"):
        found = pb.saliency(model, x, 2, "integrated", steps=4, max_steps=4, tolerance=1e-7)
    ends = [by_hand(model, tf.constant(each), tf.nn.relu)[1][:, 2] for each in (x, 0 * x)]
    change = (ends[0] - ends[1]).numpy()
    lacks = np.abs(found.values.sum((1, 2, 3)) - change) / np.abs(change)
    np.testing.assert_allclose(found.gap, lacks, rtol=1e-2, atol=1e-5)


def test_steps_grow_until_the_gap_is_small() -> None:
    model, x = network(), images(1)
    found = pb.saliency(model, x, 2, "integrated", steps=2, tolerance=0.004, max_steps=2048)
    assert found.steps > 2
    assert found.gap.max() <= 0.004
