"""Ready-made rules in every mode, against numbers from mathematics."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import NotLinearError, UnsupportedError
from tests.modes import FORWARD, MODES, assert_in_mode

X = [-2.0, -0.5, 0.25, 3.0]
W = [1.0, -2.0, 3.0, -0.5]  # the upstream

# XLA can neither raise nor call Python; and what calls Python cannot be vectorised.
NOT_IN = {"raise on NaN": "XLA", "tap": "XLA|vectorized_map|jacobian"}


@dataclass(frozen=True)
class Case:
    name: str
    fn: Callable[[Any], Any]
    gradient: list[float]
    is_linear: bool = True


def step(x: Any) -> Any:
    return tf.where(x > 0, 1.0, 0.0) + 0.0 * x


def weighted(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: tf.reduce_sum(fn(x) * tf.constant(W))


def surrogate(name: str, slope: float | None = None) -> Callable[[Any], Any]:
    return pb.with_gradient(step, pb.rules.surrogate(name, slope))


def under(target: Any, rule: Any) -> Callable[[Any], Any]:
    return pb.override({target: rule})(target)


def times_upstream(derivative: Callable[[float], float]) -> list[float]:
    return [w * derivative(x) for w, x in zip(W, X, strict=True)]


def sigmoid(t: float) -> float:
    return 1 / (1 + math.exp(-t))


LENGTH = math.sqrt(sum(w * w for w in W))
GELU_SLOPE = [
    0.5 * (1 + math.erf(x / math.sqrt(2))) + x * math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    for x in X
]

CASES = [
    Case("scale", pb.rules.scale(0.5), [0.5 * w for w in W]),
    Case("reverse", pb.rules.reverse(2.0), [-2.0 * w for w in W]),
    Case("scale of a function", pb.with_gradient(tf.square, pb.rules.scale(3.0)), times_upstream(lambda x: 6 * x)),
    Case("reverse in an override", under(tf.square, pb.rules.reverse()), times_upstream(lambda x: -2 * x)),
    Case("clip entries", pb.rules.clip(value=1.5), [1.0, -1.5, 1.5, -0.5], is_linear=False),
    Case("clip a length", pb.rules.clip(norm=1.0), [w / LENGTH for w in W], is_linear=False),
    Case("clip all", pb.rules.clip(global_norm=1.0), [w / LENGTH for w in W], is_linear=False),
    Case("clip nothing", pb.rules.clip(norm=100.0), W, is_linear=False),
    Case("tap", pb.rules.tap(lambda value, op: None), W),
    Case("uniform", pb.rules.quantizers.uniform(4), [0.0, -2.0, 3.0, 0.0]),
    Case("power of two", pb.rules.quantizers.power_of_two(4), [0.0, -2.0, 3.0, 0.0]),
    Case("ternary", pb.rules.quantizers.ternary(), [0.0, -2.0, 3.0, 0.0]),
    Case("binary", pb.rules.quantizers.binary(), [0.0, -2.0, 3.0, 0.0]),
    Case(
        "binary, swish",
        pb.rules.quantizers.binary(swish=5.0),
        times_upstream(lambda x: 5 * (2 - 5 * x * math.tanh(2.5 * x)) / (1 + math.cosh(5 * x))),
    ),
    Case("passthrough", pb.with_gradient(tf.round, pb.rules.passthrough), W),
    Case("guided", under(tf.nn.relu, pb.rules.guided), [0.0, 0.0, 3.0, 0.0], is_linear=False),
    Case("deconv", under(tf.nn.relu, pb.rules.deconv), [1.0, 0.0, 3.0, 0.0], is_linear=False),
    Case("guided, smooth", under(tf.nn.gelu, pb.rules.guided), [max(max(w, 0.0) * g, 0.0) for w, g in zip(W, GELU_SLOPE, strict=True)], is_linear=False),
    Case("straight through", pb.with_gradient(tf.round, pb.rules.straight_through()), W),
    Case("straight through tanh", pb.with_gradient(tf.sign, pb.rules.straight_through(tf.tanh)), times_upstream(lambda x: 1 - math.tanh(x) ** 2)),
    Case("nan to zero", pb.rules.nan_to_zero, W),
    Case("raise on NaN", pb.rules.raise_on_nan, W),
    Case("atan", surrogate("atan"), times_upstream(lambda x: 1 / (1 + (math.pi * x) ** 2))),
    Case("fast sigmoid", surrogate("fast_sigmoid"), times_upstream(lambda x: (1 + 25 * abs(x)) ** -2)),
    Case("sigmoid", surrogate("sigmoid", 4.0), times_upstream(lambda x: 4 * sigmoid(4 * x) * sigmoid(-4 * x))),
    Case("triangular", surrogate("triangular"), times_upstream(lambda x: max(0.0, 1 - abs(x)))),
    Case("gaussian", surrogate("gaussian", 1.0), times_upstream(lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi))),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("mode", MODES)
def test_same_gradient_in_every_mode(case: Case, mode: str) -> None:
    x = [tf.constant(X)]
    if re.search(NOT_IN.get(case.name, "^$"), mode):
        with pytest.raises((UnsupportedError, tf.errors.OpError, ValueError)):
            MODES[mode](weighted(case.fn), x)
    elif mode in FORWARD and not case.is_linear:
        with pytest.raises((NotLinearError, tf.errors.InvalidArgumentError), match="not linear"):
            MODES[mode](weighted(case.fn), x)
    else:
        assert_in_mode(MODES[mode], weighted(case.fn), x, [np.array(case.gradient)])
