"""Layer-wise relevance propagation: rules for layers that are linear but for their activation.

What flows are multipliers: input × gradient is the relevance of an input, as it is for the plain gradient, which is
LRP-0. So whatever is linear otherwise (sums, means, convolutions without a rule) needs none. Relevance that a layer
received leaves it through its inputs, its bias and the stabiliser of its denominator: nothing else is lost.

A BatchNormalization behind a layer is one with it: give both the rule, and the layer's is used with the folded weights.

Definitions as in Montavon et al. (2019) and Zennit: biases count in denominators; negative inputs are allowed for.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from pullback.errors import RuleError
from pullback.rules._ready import engine_for, ready, ready_as_is
from pullback.rules._relevance import linear_in_inference, refused

Rule = Callable[..., Any]
_STABILISER: Final = 1e-6  # as in Zennit: far below what activations are, and above their rounding

_MASKED: Final = -9e3  # masks are −1e4 at least, but for what they are added to


class Passed(NamedTuple):
    """What a rule makes of the relevance of a layer's outputs."""

    to_inputs: Any  # multipliers of the inputs; of z^B and flat, relevances
    quotients: Any  # relevance over its denominator, of each output
    bias: Any  # what the bias adds to each denominator; nothing if it has none
    stabiliser: Any  # what is added to each denominator so that it is not zero


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
        return Passed(linear.pulled(x, quotients), quotients, linear.added, stabiliser)

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
        favoured = (z + sign * sizes) / 2
        stabiliser = sign * _STABILISER
        quotients = n.safe_quotient(relevance, z + gamma * favoured + stabiliser)
        plain = linear.pulled(x, quotients * (1 + gamma / 2))
        of_sizes = pull_sizes(quotients * sign * (gamma / 2))
        bias = None if linear.bias is None else linear.added + gamma * linear.added_of(sign)
        return Passed(plain + n.sign(x) * of_sizes, quotients, bias, stabiliser)

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


def _positive_shares(n: Any, linear: Any, x: Any, z: Any, relevance: Any) -> Passed:
    del z
    is_nonnegative = n.is_nonnegative(x)  # as behind a ReLU: then half of the work is saved
    total, pull_above = linear.pullback(x if is_nonnegative else n.positive(x), n.positive)
    if is_nonnegative:
        quotients = n.safe_quotient(relevance, total + _STABILISER)
        to_x = pull_above(quotients)
    else:
        below, pull_below = linear.pullback(-n.positive(-x), n.negative, with_bias=False)
        total = total + below
        quotients = n.safe_quotient(relevance, total + _STABILISER)
        to_x = n.where(x < 0, pull_below(quotients), pull_above(quotients))
    bias = None if linear.bias is None else linear.added_of(1.0)
    return Passed(to_x, quotients, bias, n.ones_like(total) * _STABILISER)


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
        return Passed(to_x, quotients, None, stabiliser)

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


def _flat_shares(n: Any, linear: Any, x: Any, z: Any, relevance: Any) -> Passed:
    del z
    total, pull = linear.pullback(n.ones_like(x), n.ones_like, with_bias=False)
    quotients = n.safe_quotient(relevance, total + _STABILISER)
    return Passed(pull(quotients), quotients, None, n.ones_like(total) * _STABILISER)


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
        _report(op, passed.quotients, passed.bias, passed.stabiliser)
        return {inputs.names[0]: passed.to_inputs}

    return rule


def _of_batch_norm(n: Any, layer: Any, dy: Any, outputs: Any, original: Any, op: Any) -> Any:
    """By itself it is linear; what it passes on says so to the layer before it, whose rule may count it in."""
    gradient = original(dy)
    gradient = gradient[0] if isinstance(gradient, (tuple, list)) else gradient
    _report(op, dy, n.shift_of(layer, dy), None)

    def undo() -> None:
        _report(op, -dy, n.shift_of(layer, dy), None)

    return n.passed_by(gradient, layer, dy, outputs, undo)


def _report(op: Any, quotients: Any, bias: Any, stabiliser: Any) -> None:
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


_Z_PLUS: Final = _on_layer("lrp_z_plus", _positive_shares)
_FLAT: Final = _on_layer("lrp_flat", _flat_shares)


# What is not a layer: activations, products and the like, by kind of operation.


def passed_through(dy: Any, *, inputs: Any, outputs: Any, original: Any) -> Any:
    """An activation hands all of its relevance to its input; at zero, as its slope says."""
    n = engine_for(dy).arrays
    slope = original(n.ones_like(dy))
    slope = slope[0] if isinstance(slope, (tuple, list)) else slope
    x = inputs[0]
    return {inputs.names[0]: dy * n.quotient(outputs, x, unless=x == 0, otherwise=slope)}


def halved(dy: Any, *, inputs: Any, original: Any, op: Any) -> Any:
    """Two factors that vary have half of the relevance each, as in AttnLRP (Achtibat et al., 2024)."""
    del inputs
    gradients = original(dy)
    if sum(op.varies) < 2:
        return gradients
    return type(gradients)(None if g is None else g / 2 for g in gradients)


def with_bias(dy: Any, *, inputs: Any, original: Any, op: Any) -> Any:
    """A sum hands relevance to its terms, of which one that does not vary is a bias."""
    if op.varies.count(False) == 1:
        place = op.varies.index(False)
        sign = -1.0 if op.type == "Sub" and place == 1 else 1.0
        _report(op, dy, sign * list(inputs)[place], None)
    return original(dy)


def expanded(dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
    """The gradient, which is LRP-0 of a function expanded at its inputs; what is left counts as a bias."""
    n = engine_for(dy).arrays
    gradients = original(dy)
    _report(op, dy, outputs, None)
    each = gradients if isinstance(gradients, tuple) else (gradients,)
    for x, gradient, varies in zip(inputs, each, op.varies, strict=True):
        if varies and gradient is not None:
            _report(op, -n.like(gradient, x), gradient, None)
    return gradients


def expanded_softmax(dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
    """The same, but for what a mask has put far below everything else: nothing of it depends on the inputs.

    Where all is masked, the gradient is not zero there, and what masks of −1e9 took would drown everything in rounding.
    """
    n, x = engine_for(dy).arrays, inputs[0]
    gradient = original(dy)
    gradient = gradient[0] if isinstance(gradient, (tuple, list)) else gradient
    gradient = n.where(x < _MASKED, n.zeros_like(gradient), gradient)
    _report(op, dy, outputs, None)
    _report(op, -x, gradient, None)
    return {inputs.names[0]: gradient}


def to_dividend(dy: Any, *, inputs: Any) -> Any:
    """What is divided by counts as a constant (Ali et al., 2022), be it a norm or a sum of exponentials."""
    n = engine_for(dy).arrays
    a, b = inputs
    return n.sum_like(dy * n.reciprocal(b), a), None


def to_difference(dy: Any, *, inputs: Any) -> Any:
    """A square has the relevance of its root."""
    n = engine_for(dy).arrays
    a, b = inputs
    return n.sum_like(dy * (a - b), a), n.sum_like(-dy * (a - b), b)


def lrp_rules() -> Mapping[str, Any]:
    """The rules by kind of operation. Nothing is LRP-0: the largest has all relevance, and softmax is expanded at its
    input, as in AttnLRP.
    """
    return {
        "activation": passed_through,
        "function": passed_through,
        "product": halved,
        "quotient": to_dividend,
        "squared difference": to_difference,
        "largest": None,
        "choice": expanded,
        "softmax": expanded_softmax,
        "log softmax": expanded,
        "sum": with_bias,
        "normalisation": linear_in_inference,
        "unknown": refused,
    }
