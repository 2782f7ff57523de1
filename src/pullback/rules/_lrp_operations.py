"""Layer-wise relevance propagation through what is not a layer: activations, products and the like, by kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pullback.rules._lrp import report
from pullback.rules._ready import engine_for
from pullback.rules._relevance import linear_in_inference, refused

_MASKED: Final = -9e3  # masks are −1e4 at least, but for what they are added to


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
        report(op, dy, sign * list(inputs)[place], None)
    return original(dy)


def expanded(dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
    """The gradient, which is LRP-0 of a function expanded at its inputs; what is left counts as a bias."""
    n = engine_for(dy).arrays
    gradients = original(dy)
    report(op, dy, outputs, None)
    each = gradients if isinstance(gradients, tuple) else (gradients,)
    for x, gradient, varies in zip(inputs, each, op.varies, strict=True):
        if varies and gradient is not None:
            report(op, -n.like(gradient, x), gradient, None)
    return gradients


def expanded_softmax(dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
    """The same, but for what a mask has put far below everything else: nothing of it depends on the inputs.

    Where all is masked, the gradient is not zero there, and what masks of −1e9 took would drown everything in rounding.
    """
    n, x = engine_for(dy).arrays, inputs[0]
    gradient = original(dy)
    gradient = gradient[0] if isinstance(gradient, (tuple, list)) else gradient
    gradient = n.where(x < _MASKED, n.zeros_like(gradient), gradient)
    report(op, dy, outputs, None)
    report(op, -x, gradient, None)
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
