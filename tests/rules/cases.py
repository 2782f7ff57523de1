"""Ready-made rules at a point, with gradients from mathematics, and what each is meant to be the derivative of."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

import pullback as pb

X = [-2.0, -0.5, 0.25, 3.0]
W = [1.0, -2.0, 3.0, -0.5]  # the upstream

LENGTH = math.sqrt(sum(w * w for w in W))


@dataclass(frozen=True)
class Case:
    name: str
    fn: Callable[[Any], Any]
    gradient: Sequence[float]
    # The function whose derivative it is meant to be, or the rule where that is not linear.
    against: Callable[..., Any] | None = None
    is_linear: bool = True

    def weighted(self, x: Any) -> Any:
        return tf.reduce_sum(self.fn(x) * tf.constant(W, x.dtype))


def step(x: Any) -> Any:
    return tf.where(x > 0, 1.0, 0.0) + 0.0 * x


def surrogate(name: str, slope: float | None = None) -> Callable[[Any], Any]:
    return pb.with_gradient(step, pb.rules.surrogate(name, slope))


def under(target: Any, rule: Any) -> Callable[[Any], Any]:
    return pb.override({target: rule})(target)


def replaced(function: Any, rule: Any) -> Callable[[Any], Any]:
    return pb.with_gradient(function, rule)


def times(derivative: Callable[[float], float]) -> list[float]:
    return [w * derivative(x) for w, x in zip(W, X, strict=True)]


def sigmoid(t: float) -> float:
    return 1 / (1 + math.exp(-t))


def gelu_slope(x: float) -> float:
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    return 0.5 * (1 + math.erf(x / math.sqrt(2))) + x * density


def silu_slope(x: float) -> float:
    return sigmoid(x) * (1 + x * sigmoid(-x))


def guided_by(slope: Callable[[float], float]) -> list[float]:
    return [max(max(w, 0.0) * slope(x), 0.0) for w, x in zip(W, X, strict=True)]


def swish_sign(x: Any) -> Any:
    return 2 * tf.sigmoid(5 * x) * (1 + 5 * x * (1 - tf.sigmoid(5 * x))) - 1


def swish_sign_slope(x: float) -> float:
    return 5 * (2 - 5 * x * math.tanh(2.5 * x)) / (1 + math.cosh(5 * x))


def hat(x: Any) -> Any:
    """The integral of max(0, 1 − |x|)."""
    inner = tf.clip_by_value(x, -1.0, 1.0)
    return inner - inner * tf.abs(inner) / 2


def clipped(x: Any) -> Any:
    return tf.clip_by_value(x, -1.0, 1.0)


def of_lsq(x: Any) -> Any:
    return pb.rules.quantizers.lsq(3)(x, tf.constant(0.6, x.dtype))


def of_step(x: Any) -> Any:
    """A learned step for each entry: N is 1. Its gradient is level − ratio inside, and the level outside."""
    at = tf.constant([-1.3, 0.6, 0.9, 9.0], x.dtype)
    return pb.rules.quantizers.lsq(3)(at, tf.abs(x) + 1.0)


def step_slope(at: float, x: float) -> float:
    ratio = at / (abs(x) + 1)
    level = max(-4.0, min(3.0, ratio))
    slope = round(level) - ratio if -4 < ratio < 3 else level
    return math.copysign(1.0, x) * slope / math.sqrt(3)


Q = pb.rules.quantizers
PASSED = [0.0, -2.0, 3.0, 0.0]  # the upstream where |x| ≤ 1

CASES = [
    Case("scale", pb.rules.scale(0.5), [0.5 * w for w in W], lambda x: 0.5 * x),
    Case("reverse", pb.rules.reverse(2.0), [-2.0 * w for w in W], lambda x: -2.0 * x),
    Case(
        "scale of a function",
        replaced(tf.square, pb.rules.scale(3.0)),
        times(lambda x: 6 * x),
        lambda x: 3 * x * x,
    ),
    Case(
        "reverse in an override",
        under(tf.square, pb.rules.reverse()),
        times(lambda x: -2 * x),
        lambda x: -x * x,
    ),
    Case("passthrough", replaced(tf.round, pb.rules.passthrough), W, tf.identity),
    Case("stop", lambda x: x + pb.rules.stop(x), W, tf.identity),
    Case("stop in an override", lambda x: x + under(tf.square, pb.rules.stop)(x), W, tf.identity),
    Case("noise of no size", pb.rules.noise(0.0), W, tf.identity),
    Case("nan to zero", pb.rules.nan_to_zero, W, tf.identity),
    Case("straight through", replaced(tf.round, pb.rules.straight_through()), W, tf.identity),
    Case("straight through, on a tensor", pb.rules.straight_through(), W, tf.identity),
    Case(
        "straight through, override", under(tf.round, pb.rules.straight_through()), W, tf.identity
    ),
    Case(
        "straight through tanh",
        replaced(tf.sign, pb.rules.straight_through(tf.tanh)),
        times(lambda x: 1 - math.tanh(x) ** 2),
        tf.tanh,
    ),
    Case(
        "atan",
        surrogate("atan"),
        times(lambda x: 1 / (1 + (math.pi * x) ** 2)),
        lambda x: tf.atan(math.pi * x) / math.pi,
    ),
    Case(
        "fast sigmoid",
        surrogate("fast_sigmoid"),
        times(lambda x: (1 + 25 * abs(x)) ** -2),
        lambda x: x / (1 + 25 * tf.abs(x)),
    ),
    Case(
        "sigmoid",
        surrogate("sigmoid"),
        times(lambda x: 25 * sigmoid(25 * x) * sigmoid(-25 * x)),
        lambda x: tf.sigmoid(25 * x),
    ),
    Case("triangular", surrogate("triangular"), times(lambda x: max(0.0, 1 - abs(x))), hat),
    Case(
        "gaussian",
        surrogate("gaussian", 1.0),
        times(lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi)),
        lambda x: tf.math.erf(x / math.sqrt(2)) / 2,
    ),
    Case("uniform", Q.uniform(4), PASSED, clipped),
    Case("uniform as a rule", replaced(tf.round, Q.uniform(4)), PASSED, clipped),
    Case("power of two", Q.power_of_two(4), PASSED, clipped),
    Case("ternary", Q.ternary(), PASSED, clipped),
    Case("binary", Q.binary(), PASSED, clipped),
    Case("binary as a rule of an override", under(tf.sign, Q.binary()), PASSED, clipped),
    Case("binary, swish", Q.binary(swish=5.0), times(swish_sign_slope), swish_sign),
    Case("LSQ", of_lsq, [1.0, -2.0, 3.0, 0.0], lambda x: tf.clip_by_value(x, -2.4, 1.8)),
    Case(
        "LSQ, its step",
        of_step,
        [w * step_slope(a, x) for w, a, x in zip(W, [-1.3, 0.6, 0.9, 9.0], X, strict=True)],
    ),
]

NOT_LINEAR = [
    Case("clip entries", pb.rules.clip(value=1.5), [1.0, -1.5, 1.5, -0.5]),
    Case("clip a length", pb.rules.clip(norm=1.0), [w / LENGTH for w in W]),
    Case("clip all", pb.rules.clip(global_norm=1.0), [w / LENGTH for w in W]),
    Case("clip nothing", pb.rules.clip(norm=100.0), W),
    Case("guided", under(tf.nn.relu, pb.rules.guided), [0.0, 0.0, 3.0, 0.0]),
    Case("deconv", under(tf.nn.relu, pb.rules.deconv), [1.0, 0.0, 3.0, 0.0]),
    Case("guided GELU", under(tf.nn.gelu, pb.rules.guided), guided_by(gelu_slope)),
    Case("guided SiLU", under(tf.nn.silu, pb.rules.guided), guided_by(silu_slope)),
    Case("deconv GELU", under(tf.nn.gelu, pb.rules.deconv), [1.0, 0.0, 3.0, 0.0]),
    Case("deconv SiLU", under(tf.nn.silu, pb.rules.deconv), [1.0, 0.0, 3.0, 0.0]),
]
