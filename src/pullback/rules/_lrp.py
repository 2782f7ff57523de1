"""Layer-wise relevance propagation: rules for layers that are linear but for their activation.

What flows are multipliers: input × gradient is the relevance of an input, as it is for the plain gradient, which is
LRP-0. So whatever is linear otherwise (sums, means, convolutions without a rule) needs none. Relevance that a layer
received leaves it through its inputs, its bias and the stabiliser of its denominator: nothing else is lost.

A BatchNormalization behind a layer is one with it: give both the rule, and the layer's is used with the folded weights.

Definitions as in Montavon et al. (2019) and Zennit: biases count in denominators; negative inputs are allowed for.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from pullback.errors import RuleError
from pullback.rules._ready import engine_for, ready, ready_as_is

Rule = Callable[..., Any]
_STABILISER: Final = 1e-6  # as in Zennit: far below what activations are, and above their rounding

_ROUNDING: Final = 1e-9  # of alpha − beta, whose digits are Python's


class Shared(NamedTuple):
    """Relevance that is shared out in proportion to the terms of one denominator, of each output."""

    quotients: Any  # relevance over the denominator
    bias: Any  # what the bias adds to the denominator; nothing if it has none
    stabiliser: Any  # what is added to the denominator so that it is not zero


class Passed(NamedTuple):
    """What a rule makes of the relevance of a layer's outputs."""

    to_inputs: Any  # multipliers of the inputs; of the rules for first layers, relevances
    shared: tuple[Shared, ...]


Shares = Callable[[Any, Any, Any, Any, Any], Passed]
# Called with a place, and of each output the relevance that went to a bias and to a stabiliser, if anybody wants it.
absorbed: contextvars.ContextVar[Callable[[Any, Any, Any], None] | None] = contextvars.ContextVar(
    "absorbed", default=None
)


@ready
def lrp_epsilon(epsilon: float = 1e-6) -> Rule:
    """LRP-ε: relevance goes to the inputs as they contribute, and what is weak in all is absorbed by `epsilon`.

    For dense layers near the output; the larger `epsilon`, the fewer contributions survive.

    >>> import keras, pullback as pb, tensorflow as tf
    >>> dense = keras.layers.Dense(1, kernel_initializer="ones", bias_initializer="ones")
    >>> x = tf.constant([[1.0, 2.0]])
    >>> with pb.override({dense: pb.rules.lrp_epsilon(1.0)}), tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = dense(x)  # 1 + 2, and a bias of 1
    >>> (x * tape.gradient(y, x)).numpy().tolist()  # 4 · [1, 2] / (4 + 1)
    [[0.800000011920929, 1.600000023841858]]
    """
    _require("lrp_epsilon", "epsilon", epsilon)

    def shares(n: Any, linear: Any, x: Any, z: Any, relevance: Any) -> Passed:
        stabiliser = _sign(n, z) * epsilon
        quotients = n.safe_quotient(relevance, z + stabiliser)
        return Passed(linear.pulled(x, quotients), (Shared(quotients, linear.added, stabiliser),))

    return _on_layer("lrp_epsilon", shares)


@ready
def lrp_gamma(gamma: float = 0.25) -> Rule:
    """LRP-γ: contributions of the output's own sign count 1 + `gamma` times.

    For convolutions: less noise than LRP-ε, and less one-sided than LRP-z⁺, which is its limit for a large `gamma`.

    >>> import keras, pullback as pb, tensorflow as tf
    >>> dense = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
    >>> x = tf.constant([[3.0, -1.0]])
    >>> with pb.override({dense: pb.rules.lrp_gamma(1.0)}), tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = dense(x)
    >>> [round(float(r), 4) for r in (x * tape.gradient(y, x))[0]]  # 2 · [2·3, −1] / (2·3 − 1)
    [2.4, -0.4]
    """
    _require("lrp_gamma", "gamma", gamma)

    def shares(n: Any, linear: Any, x: Any, z: Any, relevance: Any) -> Passed:
        # Contributions of either sign are (c ± |c|) / 2, so that two products serve, of x and of |x|.
        sign = _sign(n, z)
        sizes, pull_sizes = linear.pullback(n.magnitude(x), n.magnitude)
        favoured = _part(z, sizes, sign)
        stabiliser = sign * _STABILISER
        quotients = n.safe_quotient(relevance, z + gamma * favoured + stabiliser)
        plain = linear.pulled(x, quotients * (1 + gamma / 2))
        of_sizes = pull_sizes(quotients * sign * (gamma / 2))
        bias = linear.added
        if bias is not None:
            bias = bias + gamma * _part(bias, n.magnitude(bias), sign)
        return Passed(plain + n.sign(x) * of_sizes, (Shared(quotients, bias, stabiliser),))

    return _on_layer("lrp_gamma", shares)


@ready_as_is
def lrp_z_plus(dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
    """LRP-z⁺: only positive contributions have relevance, in proportion.

    For convolutions of image classifiers; what speaks against a class is not shown.

    >>> import keras, pullback as pb, tensorflow as tf
    >>> dense = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
    >>> x = tf.constant([[3.0, -1.0]])
    >>> with pb.override({dense: pb.rules.lrp_z_plus}), tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = dense(x)
    >>> [round(float(r), 4) for r in (x * tape.gradient(y, x))[0]]
    [2.0, -0.0]
    """
    return _Z_PLUS(dy, inputs=inputs, outputs=outputs, original=original, op=op)


@ready
def lrp_alpha_beta(alpha: float = 2.0, beta: float = 1.0) -> Rule:
    """LRP-αβ: what speaks for an output has `alpha` of its relevance, and what speaks against it −`beta`.

    For convolutions, where both sides are to be seen; `alpha` − `beta` must be 1. With 1 and 0, it is LRP-z⁺.

    >>> import keras, pullback as pb, tensorflow as tf
    >>> dense = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
    >>> x = tf.constant([[3.0, -1.0]])
    >>> with pb.override({dense: pb.rules.lrp_alpha_beta(2.0, 1.0)}), tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = dense(x)
    >>> [round(float(r), 4) for r in (x * tape.gradient(y, x))[0]]  # 2·2 to what is positive
    [4.0, -2.0]
    """
    _require("lrp_alpha_beta", "beta", beta)
    if abs(alpha - beta - 1) > _ROUNDING:
        raise RuleError(
            f"pb.rules.lrp_alpha_beta got alpha={alpha!r} and beta={beta!r}; wanted alpha − beta = 1, so that "
            "relevance is neither gained nor lost. Write lrp_alpha_beta(2, 1) or lrp_alpha_beta(1, 0)."
        )

    def shares(n: Any, linear: Any, x: Any, z: Any, relevance: Any) -> Passed:
        del z
        passed = _shared_by_sign(n, linear, x, relevance * alpha, n.positive, n.negative)
        if not beta:
            return passed
        against = _shared_by_sign(n, linear, x, relevance * -beta, n.negative, n.positive)
        return Passed(passed.to_inputs + against.to_inputs, passed.shared + against.shared)

    return _on_layer("lrp_alpha_beta", shares)


def _shared_by_sign(n: Any, linear: Any, x: Any, relevance: Any, part: Any, other: Any) -> Passed:
    """Relevance shared out among contributions of one sign: `part` keeps what has it, `other` what has not."""
    is_nonnegative = n.is_nonnegative(x)  # as behind a ReLU: then half of the work is saved
    total, pull_above = linear.pullback(x if is_nonnegative else n.positive(x), part)
    pull_below = None
    if not is_nonnegative:
        below, pull_below = linear.pullback(n.negative(x), other, with_bias=False)
        total = total + below
    stabiliser = _sign(n, total) * _STABILISER
    quotients = n.safe_quotient(relevance, total + stabiliser)
    to_x = pull_above(quotients)
    if pull_below is not None:
        to_x = n.where(x < 0, pull_below(quotients), to_x)
    bias = None if linear.bias is None else part(linear.added)
    return Passed(to_x, (Shared(quotients, bias, stabiliser),))


@ready
def lrp_z_b(low: Any, high: Any) -> Rule:
    """LRP-z^B: for the first layer, whose inputs lie between `low` and `high`, such as pixels.

    What it gives are relevances themselves, and not multipliers: a black pixel has relevance, too. Do not multiply by
    the input.

    >>> import keras, pullback as pb, tensorflow as tf
    >>> dense = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
    >>> x = tf.constant([[1.0, 0.0]])
    >>> with pb.override({dense: pb.rules.lrp_z_b(-1.0, 1.0)}), tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = dense(x)
    >>> [round(float(r), 4) for r in tape.gradient(y, x)[0]]  # in proportion to x − low
    [0.6667, 0.3333]
    """
    if all(isinstance(each, (int, float)) for each in (low, high)) and not low < high:
        raise RuleError(f"pb.rules.lrp_z_b got low={low!r}, high={high!r}; wanted low below high.")

    def shares(n: Any, linear: Any, x: Any, z: Any, relevance: Any) -> Passed:
        least, most = n.ones_like(x) * n.like(x, low), n.ones_like(x) * n.like(x, high)
        of_least, pull_least = linear.pullback(least, n.positive)
        of_most, pull_most = linear.pullback(most, n.negative)
        total = z - of_least - of_most
        stabiliser = _sign(n, total) * _STABILISER
        quotients = n.safe_quotient(relevance, total + stabiliser)
        to_x = x * linear.pulled(x, quotients)
        to_x = to_x - least * pull_least(quotients) - most * pull_most(quotients)
        return Passed(to_x, (Shared(quotients, None, stabiliser),))

    return _on_layer("lrp_z_b", shares)


@ready_as_is
def lrp_flat(dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
    """LRP-flat: all inputs of an output have the same part of its relevance, whatever they are.

    For the first layer, where it shows which region matters and nothing finer. It gives relevances themselves, and
    not multipliers: do not multiply by the input.

    >>> import keras, pullback as pb, tensorflow as tf
    >>> dense = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
    >>> x = tf.constant([[3.0, -1.0]])
    >>> with pb.override({dense: pb.rules.lrp_flat}), tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = dense(x)
    >>> [round(float(r), 4) for r in tape.gradient(y, x)[0]]
    [1.0, 1.0]
    """
    return _FLAT(dy, inputs=inputs, outputs=outputs, original=original, op=op)


@ready_as_is
def lrp_w_square(dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
    """LRP-w²: inputs have relevance by the squares of their weights, whatever they are.

    For the first layer, where inputs have no bounds. It gives relevances themselves, and not multipliers: do not
    multiply by the input.

    >>> import keras, pullback as pb, tensorflow as tf
    >>> dense = keras.layers.Dense(1, use_bias=False)
    >>> dense.build((1, 2))
    >>> dense.kernel.assign([[1.0], [-3.0]])
    >>> x = tf.constant([[2.0, -1.0]])
    >>> with pb.override({dense: pb.rules.lrp_w_square}), tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = dense(x)
    >>> [round(float(r), 4) for r in tape.gradient(y, x)[0]]  # 5 · [1, 9] / 10
    [0.5, 4.5]
    """
    return _W_SQUARE(dy, inputs=inputs, outputs=outputs, original=original, op=op)


def _shared_by_weights(change: Callable[[Any, Any], Any], *, with_bias: bool) -> Shares:
    """Relevance shared out by the changed weights alone."""

    def shares(n: Any, linear: Any, x: Any, z: Any, relevance: Any) -> Passed:
        del z

        def changed(weights: Any) -> Any:
            return change(n, weights)

        total, pull = linear.pullback(n.ones_like(x), changed, with_bias=with_bias)
        quotients = n.safe_quotient(relevance, total + _STABILISER)
        bias = changed(linear.added) if with_bias and linear.bias is not None else None
        stabiliser = n.ones_like(total) * _STABILISER
        return Passed(pull(quotients), (Shared(quotients, bias, stabiliser),))

    return shares


def _on_layer(name: str, shares: Shares) -> Rule:
    """The rule of a layer, which passes relevance on as `shares` says."""

    def rule(dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
        n = engine_for(dy).arrays
        layer = getattr(op, "object", None)
        if layer is None:
            raise RuleError(
                f"pb.rules.{name} is a rule for layers, and {op.name} is none. Write "
                f"`pb.override({{keras.layers.Conv2D: pb.rules.{name}}})`."
            )
        if n.is_batch_norm(layer):
            return _of_batch_norm(n, layer, dy, outputs, original, op)
        linear, dy, y = n.linear_layer(layer, inputs[0], outputs, dy, name)
        passed = shares(n, linear, inputs[0], linear.before_activation(inputs[0], y), dy * y)
        for shared in passed.shared:
            report(op, *shared)
        return {inputs.names[0]: passed.to_inputs}

    return rule


def _of_batch_norm(n: Any, layer: Any, dy: Any, outputs: Any, original: Any, op: Any) -> Any:
    """By itself it is linear; what it passes on says so to the layer before it, whose rule may count it in."""
    gradient = original(dy)
    gradient = gradient[0] if isinstance(gradient, (tuple, list)) else gradient
    report(op, dy, n.shift_of(layer, dy), None)

    def undo() -> None:
        report(op, -dy, n.shift_of(layer, dy), None)

    return n.passed_by(gradient, layer, dy, outputs, undo)


def report(op: Any, quotients: Any, bias: Any, stabiliser: Any) -> None:
    """Say what went to a bias and to a stabiliser at this place."""
    see = absorbed.get()
    if see is not None:
        see(op, *(None if p is None else _product(quotients, p) for p in (bias, stabiliser)))


def _product(a: Any, b: Any) -> Any:
    """Where one is zero so is the product, be the other infinite, as masks may be."""
    n, found = engine_for(a).arrays, a * b
    return n.where((a == 0) | (b == 0), n.zeros_like(found), found)


def _sign(n: Any, z: Any) -> Any:
    return n.where(z < 0, -n.ones_like(z), n.ones_like(z))


def _require(name: str, option: str, value: Any) -> None:
    if isinstance(value, (int, float)) and not value >= 0:
        raise RuleError(f"pb.rules.{name} got {option}={value!r}; wanted zero or more.")


def _part(value: Any, size: Any, sign: Any) -> Any:
    """Of a sum and the sum of the magnitudes of its terms, the sum of the terms of this sign."""
    return (value + sign * size) / 2


def _positive_shares(n: Any, linear: Any, x: Any, z: Any, relevance: Any) -> Passed:
    del z
    return _shared_by_sign(n, linear, x, relevance, n.positive, n.negative)


def _ones(n: Any, weights: Any) -> Any:
    return n.ones_like(weights)


def _squares(n: Any, weights: Any) -> Any:
    del n
    return weights * weights


_Z_PLUS: Final = _on_layer("lrp_z_plus", _positive_shares)
_FLAT: Final = _on_layer("lrp_flat", _shared_by_weights(_ones, with_bias=False))
_W_SQUARE: Final = _on_layer("lrp_w_square", _shared_by_weights(_squares, with_bias=True))
