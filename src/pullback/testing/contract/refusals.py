"""Cases: what a rule must not do, and what the error says about it. Nothing is broadcast or dropped silently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pullback as pb
from pullback.errors import BodyResultError, NotLinearError, RuleResultError, RuleSignatureError
from pullback.testing.contract.adapter import Adapter, Function
from pullback.testing.contract.case import Refusal, case
from pullback.testing.contract.results import ONE, Pair, X, Y, product, returning, structured

_OF_PRODUCT: Final = r"rule .*\.py:\d+.* of `product` .*"

# What a rule of `product` returns, and what the message must hold.
_RESULTS: Final[dict[str, tuple[Callable[[Adapter], Function], str]]] = {
    "one gradient for two inputs": (
        lambda _: returning(...),
        r"returned 1 gradient .*for the 2 inputs with tensors \(x, y\).*Write `return dx, dy`",
    ),
    "three gradients for two inputs": (lambda _: returning(..., ..., ...), r"returned 3 gradients"),
    "a scalar for a vector": (
        lambda a: returning(a.array(1.0), ...),
        r"for the input `x \(args\[0\]\)`, float32\[\]; wanted a gradient float32\[3\]",
    ),
    "a vector of one for a vector": (
        lambda a: returning(..., a.array([1.0])),
        r"for the input `y \(args\[1\]\)`, float32\[1\]; wanted a gradient float32\[3\]",
    ),
    "a Python number for a vector": (lambda _: returning(1.0, ...), r"`x \(args\[0\]\)`, .*1.0|float32\[\]"),
    "a string": (lambda _: returning("no", ...), r"`x \(args\[0\]\)`, 'no'"),
    "a bool": (lambda _: returning(..., True), r"`y \(args\[1\]\)`, True"),
    "a list for one array": (lambda _: lambda dz: ([dz], dz), r"for the single tensor `x "),
    "a namedtuple for one array": (lambda _: lambda dz: (Pair(dz, dz), dz), r"`x \(args\[0\]\)`"),
    "a name that is no input": (
        lambda _: lambda dz: {"z": dz},
        r"the key 'z', which is no input; the inputs are x, y",
    ),
}


def _enter(name: str, make: Callable[[Adapter], Function], match: str) -> None:
    wanted = Refusal(RuleResultError, _OF_PRODUCT + match)

    @case(name, [X, Y], wanted)
    def _refused(a: Adapter) -> Function:
        return pb.with_gradient(product, make(a))


for _name, (_make, _match) in _RESULTS.items():
    _enter(_name, _make, _match)


@case(
    "a flat tuple for a structured input",
    [X, Y],
    Refusal(RuleResultError, r"for the input `both \(args\[0\]\)`, whose structure is dict of"),
)
def _flat_for_dict(_: Adapter) -> Function:
    return structured(lambda x, y: {"x": x, "y": [y]}, lambda dz: (dz, dz))


@case("a structure without one of the keys", [X, Y], Refusal(RuleResultError, r"with all of its keys"))
def _missing_key(_: Adapter) -> Function:
    return structured(lambda x, y: {"x": x, "y": [y]}, lambda dz: {"x": dz})


@case("a wrong shape in a structure", [X, Y], Refusal(RuleResultError, r'`both\["y"\]\[0\] \(args'))
def _wrong_inside(a: Adapter) -> Function:
    return structured(
        lambda x, y: {"x": x, "y": [y]}, lambda dz: {"x": dz, "y": [a.array([1.0, 2.0])]}
    )


@case("a gradient for a static argument", [X], Refusal(RuleResultError, r"static argument `mode "))
def _for_static(_: Adapter) -> Function:
    function = pb.with_gradient(lambda x, mode: 1.0 * x, lambda dy: (dy, dy))

    def call(x: Any) -> Any:
        return function(x, "fast")

    return call


@case("a parameter nobody offers", [X], Refusal(RuleSignatureError, r"asks for `residuals`.*`inputs`"))
def _unknown_offer(a: Adapter) -> Function:
    return pb.with_gradient(a.sin, lambda dy, *, residuals: dy)


@case("one parameter for two outputs", [X], Refusal(RuleSignatureError, r"with 2 upstream gradients"))
def _too_few_upstream(_: Adapter) -> Function:
    return pb.with_gradient(lambda x: (1.0 * x, 2.0 * x), lambda dy: dy)


@case("a body without a backward function", [X], Refusal(BodyResultError, r"`return outputs, backw"))
def _no_backward(_: Adapter) -> Function:
    return pb.custom_gradient(lambda x: 1.0 * x)


@case(
    "gradients of variables forgotten",
    [X],
    Refusal(RuleResultError, r"asks for `variables`, so it returns two things"),
    needs=["variables"],
)
def _no_variable_gradients(a: Adapter) -> Function:
    weight = a.variable(Y, "weight")
    return pb.with_gradient(lambda x: x * weight, lambda dy, *, variables: dy)


@case("a partial of another shape", [X], Refusal(RuleResultError, r"partial derivative for `x`, .*has"))
def _wrong_partial(a: Adapter) -> Function:
    return pb.with_partials(lambda x: 1.0 * x, x=lambda x: a.array([[1.0, 2.0]]))


def _add_one(dy: Any) -> Any:
    return dy + 1.0


def _square(dy: Any) -> Any:
    return dy * dy


for _rule, _gradient in ((_add_one, 2 * ONE), (_square, ONE)):
    _refusal = Refusal(NotLinearError, _rule.__name__)

    @case(f"a rule that is not linear: {_rule.__name__}", [X], [_gradient], forward=_refusal)
    def _not_linear(a: Adapter, rule: Function = _rule) -> Function:
        return pb.with_gradient(a.sin, rule)
