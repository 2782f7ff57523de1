"""Cases: what a rule is given, what it may return, and what becomes of that.

No rule here is the derivative of its function, so that a rule that did not run is noticed.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, NamedTuple

import numpy as np

import pullback as pb
from pullback.testing.contract.adapter import Adapter, Function
from pullback.testing.contract.case import Trial, case

X: Final = np.array([0.5, -1.5, 2.0])
Y: Final = np.array([3.0, 0.25, -2.0])
ROWS: Final = np.arange(12.0).reshape(4, 3) / 4.0
ONE: Final = np.ones(3)


def product(x: Any, y: Any) -> Any:
    """The function whose gradient most cases replace."""
    return x * y


def triple(dy: Any) -> Any:
    """The rule of one array that most cases use."""
    return 3.0 * dy


def tens(dz: Any, *, inputs: Any) -> Any:
    """A rule of `product` that tells its two inputs apart."""
    return 10.0 * dz * inputs[1], 100.0 * dz * inputs[0]


def returning(*parts: Any) -> Function:
    """A rule of `product` whose result is this, with the upstream in place of each `...`."""

    def rule(dz: Any) -> Any:
        given = tuple(dz if part is ... else part for part in parts)
        return given if len(given) > 1 else given[0]

    return rule


@case("one input", [X], [3 * ONE])
def _one(a: Adapter) -> Function:
    return pb.with_gradient(a.sin, triple)


@case("two inputs", [X, Y], [10 * Y, 100 * X])
def _two(_: Adapter) -> Function:
    @pb.custom_gradient
    def scaled(x: Any, y: Any) -> Any:
        def scaled_pullback(dz: Any) -> Any:
            return 10.0 * dz * y, 100.0 * dz * x

        return x * y, scaled_pullback

    return scaled


@case("operations before and after", [X, Y], [20 * Y * Y, 200 * Y * X])
def _chained(a: Adapter) -> Function:
    weights, scaled = a.array(Y), pb.with_gradient(product, tens)

    def chained(x: Any, y: Any) -> Any:
        return weights * scaled(2.0 * x, y)

    return chained


@case("keyword arguments, in another order", [X, Y], [10 * Y, 100 * X])
def _keywords(_: Adapter) -> Function:
    scaled = pb.with_gradient(product, tens)

    def by_keyword(x: Any, y: Any) -> Any:
        return scaled(y=y, x=x)

    return by_keyword


@case("one array for two inputs", [X], [110 * X])
def _shared(_: Adapter) -> Function:
    scaled = pb.with_gradient(product, tens)

    def squared(x: Any) -> Any:
        return scaled(x, x)

    return squared


def _sum_and_product(x: Any, y: Any) -> Any:
    return x + y, x * y


def _of_two_outputs(dz: Any, dw: Any) -> Any:
    return 2.0 * dz + 3.0 * dw, 5.0 * dw


@case("two outputs", [X, Y], [5 * ONE, 5 * ONE])
def _two_outputs(_: Adapter) -> Function:
    return pb.with_gradient(_sum_and_product, _of_two_outputs)


@case("an output that is not used has an upstream of zeros", [X, Y], [2 * ONE, 0 * ONE])
def _unused(_: Adapter) -> Function:
    both = pb.with_gradient(_sum_and_product, _of_two_outputs)

    def first(x: Any, y: Any) -> Any:
        return both(x, y)[0]

    return first


@case("a dict is one output", [X], [7 * ONE])
def _dict_output(_: Adapter) -> Function:
    def outputs(x: Any) -> Any:
        return {"b": 1.0 * x, "a": [2.0 * x, "static"]}

    def outputs_pullback(upstream: Any) -> Any:
        return 3.0 * upstream["b"] + 4.0 * upstream["a"][0]

    function = pb.with_gradient(outputs, outputs_pullback)

    def both(x: Any) -> Any:
        found = function(x)
        assert found["a"][1] == "static"
        return found["b"], found["a"][0]

    return both


def _static(rule: Function) -> Function:
    def scale(x: Any, mode: Any, y: Any, factor: Any = 2, missing: Any = None) -> Any:
        assert (mode, missing) == ("fast", None)
        return factor * x * y

    function = pb.with_gradient(scale, rule)

    def call(x: Any, y: Any) -> Any:
        return function(x, "fast", y)

    return call


@case("static arguments left out", [X, Y], [3 * ONE, 7 * ONE])
def _left_out(_: Adapter) -> Function:
    return _static(lambda dz: (3.0 * dz, 7.0 * dz))


@case("static arguments given None", [X, Y], [3 * ONE, 7 * ONE])
def _given_none(_: Adapter) -> Function:
    return _static(lambda dz: (3.0 * dz, None, 7.0 * dz, None, None))


@case("inputs by position and by name", [X, Y], [6 * Y, 2 * X])
def _inputs(_: Adapter) -> Function:
    def rule(dz: Any, *, inputs: Any) -> Any:
        assert inputs[1] == inputs["mode"] == "fast"
        assert inputs["missing"] is None
        return 3.0 * inputs["factor"] * dz * inputs[2], inputs[3] * dz * inputs["x"]

    return _static(rule)


@case("a rule for integers", [X], [3 * ONE])
def _integers(a: Adapter) -> Function:
    index = a.array([2, 0, 1], "int32")
    function = pb.with_gradient(
        lambda x, index: x * a.cast(index, "float32"), lambda dz: (3.0 * dz, None)
    )

    def call(x: Any) -> Any:
        return function(x, index)

    return call


class Pair(NamedTuple):
    """A structure."""

    first: Any
    last: Any


@dataclasses.dataclass
class Box:
    """A structure with something static in it."""

    value: Any
    label: str | None


def structured(pack: Function, rule: Function) -> Function:
    """`x * y` as a function of one argument, which holds both."""

    def multiply(both: Any) -> Any:
        if isinstance(both, Box):
            return both.value[0] * both.value[1]
        x, y = (both["x"], both["y"][0]) if isinstance(both, dict) else both
        return x * y

    function = pb.with_gradient(multiply, rule)

    def call(x: Any, y: Any) -> Any:
        return function(pack(x, y))

    return call


@case("a list", [X, Y], [3 * ONE, 7 * ONE])
def _list(_: Adapter) -> Function:
    return structured(lambda x, y: [x, y], lambda dz: [3.0 * dz, 7.0 * dz])


@case("a nested dict, its keys in another order", [X, Y], [3 * ONE, 7 * ONE])
def _dict(_: Adapter) -> Function:
    return structured(lambda x, y: {"y": [y], "x": x}, lambda dz: {"x": 3.0 * dz, "y": [7.0 * dz]})


@case("a namedtuple", [X, Y], [3 * ONE, 7 * ONE])
def _namedtuple(_: Adapter) -> Function:
    return structured(Pair, lambda dz: Pair(3.0 * dz, 7.0 * dz))


@case("a dataclass", [X, Y], [3 * ONE, None])
def _dataclass(_: Adapter) -> Function:
    return structured(lambda x, y: Box([x, y], "label"), lambda dz: Box([3.0 * dz, None], None))


@case("gradients by parameter name, what is missing gets nothing", [X, Y], [None, 4 * ONE])
def _by_name(_: Adapter) -> Function:
    return pb.with_gradient(product, lambda dz: {"y": 4.0 * dz})


@case("None is that nothing flows", [X, Y], [ONE, None])
def _nothing(_: Adapter) -> Function:
    return pb.with_gradient(product, returning(..., None))


@case("zeros are not None", [X, Y], [ONE, 0 * ONE])
def _zeros(_: Adapter) -> Function:
    return pb.with_gradient(product, lambda dz: (dz, 0.0 * dz))


@case("DEFAULT is what would have run", [X, Y], [ONE, X])
def _default(_: Adapter) -> Function:
    def rule(dz: Any) -> Any:
        return dz, pb.DEFAULT

    return pb.with_gradient(product, rule)


@case("outputs", [X, Y], [X * Y, 2 * (X + Y)])
def _outputs(_: Adapter) -> Function:
    def rule(dz: Any, dw: Any, *, outputs: Any) -> Any:
        added, multiplied = outputs
        return dz * multiplied, 2.0 * dw * added

    return pb.with_gradient(_sum_and_product, rule)


@case("original of one input", [X], [0.5 * np.cos(X)])
def _original(a: Adapter) -> Function:
    return pb.with_gradient(a.sin, lambda dy, *, original: 0.5 * original(dy))


@case("original of several inputs is a tuple", [X, Y], [3 * Y, 7 * X])
def _original_tuple(_: Adapter) -> Function:
    def rule(dz: Any, *, original: Any) -> Any:
        dx, dy = original(dz)
        return 3.0 * dx, 7.0 * dy

    return pb.with_gradient(product, rule)


@case("original of a list is a list", [X, Y], [3 * Y, 7 * X])
def _original_list(_: Adapter) -> Function:
    def rule(dz: Any, *, original: Any) -> Any:
        found = original(dz)
        assert isinstance(found, list)
        return [3.0 * found[0], 7.0 * found[1]]

    return structured(lambda x, y: [x, y], rule)


@case("op names the function", [X, Y], [ONE, ONE])
def _op(_: Adapter) -> Function:
    def rule(dz: Any, *, op: Any) -> Any:
        assert "product" in op.name
        return dz, dz

    return pb.with_gradient(product, rule)


def _reading_variable(a: Adapter, rule: Function) -> Trial:
    weight = a.variable(Y, "weight")
    return Trial(pb.with_gradient(lambda x: x * weight, rule), [weight])


@case("a variable keeps its ordinary gradient", [X], [3 * ONE, X], needs=["variables"])
def _variable(a: Adapter) -> Trial:
    return _reading_variable(a, triple)


@case("gradients of variables in a list", [X], [3 * ONE, 9 * ONE], needs=["variables"])
def _variable_list(a: Adapter) -> Trial:
    return _reading_variable(a, lambda dy, *, variables: (3.0 * dy, [9.0 * dy for _ in variables]))


@case("gradients of variables in a dict", [X], [3 * ONE, 9 * ONE], needs=["variables"])
def _variable_dict(a: Adapter) -> Trial:
    return _reading_variable(
        a, lambda dy, *, variables: (3.0 * dy, {a.key(variables[0]): 9.0 * dy})
    )


@case("an array that is closed over", [X, Y], [3 * ONE, X], needs=["closures"])
def _closed_over(_: Adapter) -> Function:
    def outer(x: Any, y: Any) -> Any:
        return pb.with_gradient(lambda x: x * y, triple)(x)

    return outer


def _projected(a: Adapter, rule: Function, shape: tuple[int, ...] = (3,)) -> Function:
    """A sum with rows, and in front of it a function whose upstream is the gradient that was made to fit."""
    rows = a.array(ROWS)

    def check(dy: Any) -> Any:
        assert (a.dtype(dy), tuple(dy.shape)) == ("float32", shape)
        return dy

    checked, added = pb.with_gradient(lambda x: 1.0 * x, check), pb.with_gradient(product, rule)

    def call(x: Any) -> Any:
        return added(checked(x), rows)

    return call


@case("a gradient is summed over new axes", [X], [ROWS.sum(0)])
def _new_axes(a: Adapter) -> Function:
    return _projected(a, lambda dz, *, inputs: (dz * inputs[1], None))


@case("a gradient is summed over stretched axes", [Y[:1, None]], [[[ROWS.sum()]]])
def _stretched_axes(a: Adapter) -> Function:
    return _projected(a, lambda dz, *, inputs: (dz * inputs[1], None), (1, 1))


@case("a gradient is cast to its input", [X], [12 * ONE])
def _cast(a: Adapter) -> Function:
    return _projected(a, lambda dz: (a.cast(3.0 * dz, "float64"), None))


@case("a real input gets the real part", [X], [12 * ONE], needs=["complex"])
def _real(a: Adapter) -> Function:
    return _projected(a, lambda dz: (a.cast(dz, "complex64") * (3.0 + 5.0j), None))


def _loss(a: Adapter) -> Function:
    def loss(y_true: Any, y_pred: Any) -> Any:
        error = y_true + -1.0 * y_pred
        return a.sum(error * error, axis=1)

    return loss


def _seven(y_true: Any, y_pred: Any) -> Any:
    del y_true
    return 7.0 * y_pred


_WEIGHTS: Final = np.array([1.0, 2.0, 0.0, -1.0])
_WEIGHTED: Final = _WEIGHTS[:, None] * ROWS


@case("partials of a loss", [0 * ROWS, ROWS], [-2 * _WEIGHTED, 7 * _WEIGHTED])
def _partials(a: Adapter) -> Function:
    weights, loss = a.array(_WEIGHTS), pb.with_partials(_loss(a), y_pred=_seven)

    def weighted(y_true: Any, y_pred: Any) -> Any:
        return weights * loss(y_true, y_pred)

    return weighted


@case("a partial that stops the gradient", [0 * ROWS, ROWS], [None, 7 * ROWS])
def _stopped(a: Adapter) -> Function:
    return pb.with_partials(_loss(a), y_true=None, y_pred=_seven)


@case("functions of the same name and code", [X, Y], [2 * ONE, 3 * ONE])
def _redefined(_: Adapter) -> Function:
    def define(factor: float) -> Function:
        @pb.custom_gradient
        def cell(x: Any) -> Any:
            return 1.0 * x, lambda dy: factor * dy

        return cell

    first, second = define(2.0), define(3.0)

    def both(x: Any, y: Any) -> Any:
        return first(x), second(y)

    return both


@case("a function that changes its rule from call to call", [X, Y], [3 * ONE, Y])
def _changing(_: Adapter) -> Function:
    @pb.custom_gradient
    def function(x: Any, mode: str) -> Any:
        def asking(dy: Any, *, inputs: Any) -> Any:
            return dy * inputs["x"]

        return 1.0 * x, triple if mode == "plain" else asking

    def both(x: Any, y: Any) -> Any:
        return function(x, "plain"), function(y, "asking")

    return both
