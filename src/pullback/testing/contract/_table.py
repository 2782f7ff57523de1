"""The table of cases. No rule is the derivative of its function, so that one that did not run is noticed.

A subject is a function whose gradient is replaced, and the form in which it is called. A case is a subject with a rule,
and what must come of it.
"""
# Subjects and rules are rows of a table: lambdas, which need not use what they are given.
# ruff: noqa: ARG005

from __future__ import annotations

import dataclasses
import gc
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

import pullback as pb
from pullback import errors
from pullback.testing.contract.adapter import Adapter, Function
from pullback.testing.contract.suite import TABLE, Build, Case, Refusal, Trial, Wanted

X: Final = np.array([0.5, -1.5, 2.0])
Y: Final = np.array([3.0, 0.25, -2.0])
ROWS: Final = np.arange(12.0).reshape(4, 3) / 4.0
WEIGHTS: Final = np.array([1.0, 2.0, 0.0, -1.0])
ONE: Final = np.ones(3)
Replace: TypeAlias = Callable[[Function], Function]
MakeFunction: TypeAlias = Callable[[Adapter], Function]


class Subject(NamedTuple):
    """What is differentiated: `build` gets the adapter, and what replaces the gradient of a function."""

    args: Sequence[np.ndarray]
    build: Callable[[Adapter, Replace], Function | Trial]
    needs: Sequence[str] = ()


class Of(NamedTuple):
    """A rule that is made with the adapter."""

    make: MakeFunction


def enter(subject: Subject, name: str, rule: Function | Of, wanted: Wanted, **more: Any) -> None:
    """Enter the case of a subject with a rule."""
    jvp = more.pop("jvp", None)

    def build(a: Adapter) -> Function | Trial:
        made = rule.make(a) if isinstance(rule, Of) else rule
        return subject.build(a, lambda function: pb.with_gradient(function, made, jvp=jvp))

    TABLE.append(Case(name, subject.args, wanted, build, needs=subject.needs, **more))


# What rules return


class Pair(NamedTuple):
    """A structure."""

    x: Any
    y: Any


@dataclasses.dataclass
class Box:
    """A structure with something static in it."""

    pair: list[Any]
    label: str | None


def _cube(x: Any) -> Any:
    return x * x * x


def _product(x: Any, y: Any) -> Any:
    return x * y


def _scale(x: Any, mode: str, y: Any, factor: float = 2.0, missing: Any = None) -> Any:
    assert (mode, missing) == ("fast", None)
    return factor * x * y


def tripled(dy: Any) -> Any:
    return 3.0 * dy


def _told_apart(dz: Any, *, inputs: Any) -> Any:
    return 10.0 * dz * inputs["y"], 100.0 * dz * inputs[0]


def _by_name(dz: Any, *, inputs: Any) -> Any:
    assert (inputs[1], inputs["missing"]) == ("fast", None)
    return 3.0 * inputs["factor"] * dz * inputs[2], inputs[3] * dz * inputs["x"]


def _of_two(dz: Any, dw: Any) -> Any:
    return 2.0 * dz + 3.0 * dw, 7.0 * dw


def _calling(function: Function, call: Function, args: int = 2) -> Subject:
    def build(_: Adapter, replace: Replace) -> Function:
        replaced = replace(function)
        return lambda *xs: call(replaced, *xs)

    return Subject([X, Y][:args], build)


CUBE: Final = Subject([X], lambda _, replace: replace(_cube))
SQUARED: Final = _calling(_cube, lambda f, x: f(x) * f(x), 1)
PRODUCT: Final = Subject([X, Y], lambda _, replace: replace(_product))
KEYWORDS: Final = _calling(_product, lambda f, x, y: f(y=y, x=x))
TWICE: Final = _calling(_product, lambda f, x: f(x, x), 1)
AMONG_OTHERS: Final = _calling(_product, lambda f, x, y: 3.0 * f(2.0 * x, y))
CLOSURE: Final = Subject([X, Y], lambda _, r: lambda x, y: r(lambda x: x * y)(x), ["closures"])
STATIC: Final = _calling(_scale, lambda f, x, y: f(x, "fast", y))
TWO_OUTPUTS: Final = Subject([X, Y], lambda _, replace: replace(lambda x, y: (x + y, x * y)))
FIRST_OUTPUT: Final = _calling(lambda x, y: (x + y, x * y), lambda f, x, y: f(x, y)[0])
DICT_OUTPUT: Final = _calling(lambda x: {"b": 1.0 * x, "a": [x, "s"]}, lambda f, x: f(x)["b"], 1)
IN_LIST: Final = _calling(lambda xs: xs[0] * xs[1], lambda f, x, y: f([x, y]))
IN_DICT: Final = _calling(lambda d: d["x"] * d["y"][0], lambda f, x, y: f({"y": [y], "x": x}))
IN_PAIR: Final = _calling(lambda pair: pair.x * pair.y, lambda f, x, y: f(Pair(x, y)))
IN_BOX: Final = _calling(lambda b: b.pair[0] * b.pair[1], lambda f, x, y: f(Box([x, y], "b")))
_BOTH: Final = [3 * ONE, 7 * ONE]

enter(CUBE, "one input", tripled, [3 * ONE])
enter(PRODUCT, "two inputs", _told_apart, [10 * Y, 100 * X])
enter(KEYWORDS, "keywords in another order", _told_apart, [10 * Y, 100 * X])
enter(TWICE, "one array for two inputs", _told_apart, [110 * X])
enter(AMONG_OTHERS, "operations before and after", _told_apart, [60 * Y, 600 * X])
enter(CLOSURE, "an array that is closed over", tripled, [3 * ONE, X])
enter(TWO_OUTPUTS, "two outputs", _of_two, [5 * ONE, 7 * ONE])
enter(FIRST_OUTPUT, "an output that is not used", _of_two, [2 * ONE, 0 * ONE])
enter(DICT_OUTPUT, "a dict is one output", lambda up: 3.0 * up["b"] + up["a"][0], [3 * ONE])
enter(STATIC, "static arguments left out", lambda dz: (3.0 * dz, 7.0 * dz), _BOTH)
enter(STATIC, "static ones as None", lambda dz: (3.0 * dz, None, 7.0 * dz, None, None), _BOTH)
enter(STATIC, "inputs by position and name", _by_name, [6 * Y, 2 * X])
enter(IN_LIST, "a list", lambda dz: [3.0 * dz, 7.0 * dz], _BOTH)
enter(IN_DICT, "a dict in another order", lambda dz: {"x": 3.0 * dz, "y": [7.0 * dz]}, _BOTH)
enter(IN_PAIR, "a namedtuple", lambda dz: Pair(3.0 * dz, 7.0 * dz), _BOTH)
enter(IN_BOX, "a dataclass", lambda dz: Box([3.0 * dz, None], None), [3 * ONE, None])
enter(PRODUCT, "by name, missing is None", lambda dz: {"y": 4.0 * dz}, [None, 4 * ONE])
enter(PRODUCT, "None where nothing flows", lambda dz: (dz, None), [ONE, None])
enter(PRODUCT, "zeros are not None", lambda dz: (dz, 0.0 * dz), [ONE, 0 * ONE])
enter(PRODUCT, "DEFAULT", lambda dz: (dz, pb.DEFAULT), [ONE, X])
enter(PRODUCT, "original of two", lambda dz, *, original: original(dz)[::-1], [X, Y])
enter(IN_LIST, "original of a list", lambda dz, *, original: list.copy(original(dz))[::-1], [X, Y])
enter(PRODUCT, "op", lambda dz, *, op: (dz, dz) if "product" in op.name else op, [ONE, ONE])


def _with_integers(a: Adapter, replace: Replace) -> Function:
    multiply = replace(lambda x, n: x * a.cast(n, "float32"))
    return lambda x: multiply(x, a.array([2, 0, 1], "int32"))


def _reading_variable(a: Adapter, replace: Replace) -> Trial:
    weight = a.variable(Y, "weight")
    return Trial(replace(lambda x: x * weight), [weight])


def _keyed(a: Adapter) -> Function:
    return lambda dy, *, variables: (dy, {a.key(variables[0]): 9.0 * dy})


VARIABLE: Final = Subject([X], _reading_variable, ["variables"])
enter(Subject([X], _with_integers), "a rule for integers", lambda dz: (dz, None), [ONE])
enter(VARIABLE, "variables nobody asked for", tripled, [3 * ONE, X])
enter(VARIABLE, "variables in a list", lambda dy, *, variables: (dy, [9.0 * dy]), [ONE, 9 * ONE])
enter(VARIABLE, "variables in a dict", Of(_keyed), [ONE, 9 * ONE])
enter(VARIABLE, "DEFAULT for a variable", lambda dy, *, variables: (dy, [pb.DEFAULT]), [ONE, X])
enter(VARIABLE, "DEFAULT for all", lambda dy, *, variables: (dy, pb.DEFAULT), [ONE, X])
enter(VARIABLE, "a variable's name", lambda dy, *, variables: (dy, {"weight": dy}), [ONE, ONE])
enter(VARIABLE, "original with variables", lambda dy, *, original, variables: original(dy), [Y, X])


def _before_rows(a: Adapter, replace: Replace) -> Function:
    """A product with rows. In front, a function whose upstream is the gradient that was made to fit."""
    rows, multiplied = a.array(ROWS, "float32"), replace(_product)

    def check(dy: Any) -> Any:
        assert a.dtype(dy) == "float32", f"a float32 array has a gradient of dtype {a.dtype(dy)}"
        return dy

    checked = pb.with_gradient(_cube, check)
    return lambda x: multiplied(checked(x), rows)


def _as_large(dz: Any, *, inputs: Any) -> Any:
    return dz * inputs[1], None


_double: Final = Of(lambda a: lambda dz: (a.cast(dz, "float64"), None))
_complex: Final = Of(lambda a: lambda dz: (a.cast(dz, "complex64") * (3.0 + 5.0j), None))
FITTED: Final = Subject([X], _before_rows)
STRETCHED: Final = Subject([Y[:1, None]], _before_rows)
enter(FITTED, "summed over new axes", _as_large, [ROWS.sum(0)])
enter(STRETCHED, "summed over stretched axes", _as_large, [[[ROWS.sum()]]])
enter(FITTED, "cast to the dtype of the input", _double, [4 * ONE])
enter(FITTED._replace(needs=["complex"]), "the real part", _complex, [12 * ONE])


def _with_partials(a: Adapter, **partials: Any) -> Function:
    def loss(y_true: Any, y_pred: Any) -> Any:
        error = y_true + -1.0 * y_pred
        return a.sum(error * error, 1)

    replaced = pb.with_partials(loss, y_pred=lambda y_true, y_pred: 7.0 * y_pred, **partials)
    return lambda y_true, y_pred: a.array(WEIGHTS, "float32") * replaced(y_true, y_pred)


def _redefined(_: Adapter) -> Function:
    def define(factor: float) -> Function:
        return pb.custom_gradient(lambda x: (1.0 * x, lambda dy: factor * dy))

    first, last = define(2.0), define(3.0)
    return lambda x, y: (first(x), last(y))


def _changing(_: Adapter) -> Function:
    rules: Any = {"plain": tripled, "asking": lambda dy, *, inputs: dy * inputs["x"]}
    function = pb.custom_gradient(lambda x, name: (1.0 * x, rules[name]))
    return lambda x, y: (function(x, "plain"), function(y, "asking"))


def _holding(_: Adapter) -> Function:
    def function(x: Any) -> Any:
        doubled = 2.0 * x
        return pb.custom_gradient(lambda x: (x + doubled, lambda dy: 10.0 * dy))(x)

    return function


_T, _P = 0 * ROWS, WEIGHTS[:, None] * ROWS
_one_none: Final[Build] = lambda a: _with_partials(a, y_true=None)  # noqa: E731
add = TABLE.append
add(Case("partials of a loss", [_T, ROWS], [-2 * _P, 7 * _P], _with_partials))
add(Case("a partial None", [_T, ROWS], [None, 7 * _P], _one_none))
add(Case("two functions of one name and code", [X, Y], [2 * ONE, 3 * ONE], _redefined))
add(Case("a body's own rule is all there is", [X], [10 * ONE], _holding))
add(Case("a rule that changes from call to call", [X, Y], [3 * ONE, Y], _changing))

# What rules must not return


def _refused(
    subject: Subject, name: str, rule: Function, match: str, error: Any = errors.RuleResultError
) -> None:
    enter(subject, name, rule, Refusal(error, rf"rule .*\.py:\d+.*{match}"))


_X, _Y = r"`x \(args\[0\]\)`", r"`y \(args\[1\]\)`"
SCALAR: Final = r"float32\[\]; wanted .*float32\[[3?]\]"
_refused(PRODUCT, "too few", lambda dz: dz, r"1 gradient .*2 inputs.*\(x, y\).*`return dx, dy`")
_refused(PRODUCT, "too many", lambda dz: (dz, dz, dz), "returned 3 gradients")
_refused(PRODUCT, "a scalar for a vector", lambda dz: (dz[0], dz), f"{_X}, {SCALAR}")
_refused(PRODUCT, "one entry for a vector", lambda dz: (dz, dz[:1]), f"{_Y}, ")
_refused(PRODUCT, "a number for a vector", lambda dz: (1.0, dz), f"{_X}, .*wanted")
_refused(PRODUCT, "a string", lambda dz: ("no", dz), f"{_X}, 'no'.*wanted")
_refused(PRODUCT, "a bool", lambda dz: (dz, True), f"{_Y}, True.*wanted")
_refused(PRODUCT, "a list for an array", lambda dz: ([dz], dz), f"single tensor {_X}")
_refused(PRODUCT, "a namedtuple for an array", lambda dz: (Pair(dz, dz), dz), _X)
_refused(PRODUCT, "a name that is no input", lambda dz: {"z": dz}, "'z'.* inputs are x, y")
_refused(STATIC, "one for a static argument", lambda dz: (dz, dz, dz, dz, dz), "static .*`mode ")
_refused(IN_DICT, "a flat tuple for a dict", lambda dz: (dz, dz), r"`d \(args\[0\]\)`.*structure")
_refused(IN_DICT, "a dict without a key", lambda dz: {"x": dz}, "all of its keys")
_refused(IN_DICT, "a wrong part", lambda dz: {"x": dz, "y": [dz[:2]]}, r'd\[\\?"y\\?"\]\[0\]')
_refused(VARIABLE, "forgotten variables", lambda dy, *, variables: dy, "returns two things")
_ASKS, _COUNT = r"asks for `residuals`.*`inputs`", "with 1 upstream gradient"
_refused(CUBE, "no such offer", lambda dy, *, residuals: dy, _ASKS, errors.RuleSignatureError)
_refused(CUBE, "two upstreams for one", lambda dy, dz: dy, _COUNT, errors.RuleSignatureError)
_no_rule: Final = Refusal(errors.BodyResultError, "`return outputs, backward`")
add(Case("a body without backward", [X], _no_rule, lambda _: pb.custom_gradient(_cube)))

# Second order: for a gradient g(x) entry by entry, the sum of its squares has the gradient 2 g(x) g'(x).


def _swapping(dz: Any, *, inputs: Any) -> Any:
    x, y = inputs
    return (2.0 * dz * x, 3.0 * dz * y), lambda ddx, ddy: (5.0 * dz * ddy, 7.0 * dz * ddx)


def _eleven(dy: Any, *, inputs: Any) -> Any:
    return 3.0 * dy * inputs[0], lambda ddx: 11.0 * dy * ddx


def _residual(_: Adapter) -> Function:
    @pb.custom_gradient
    def function(x: Any) -> Any:
        residual = _cube(x)
        return 1.0 * x, lambda dy: 2.0 * dy * residual

    return function


def half(dy: Any, *, original: Any) -> Any:
    return 0.5 * original(dy)


enter(CUBE, "second order of a constant", tripled, [3 * ONE], second=[None])
enter(CUBE, "second order of inputs", lambda dy, *, inputs: dy * inputs[0], [X], second=[2 * X])
enter(CUBE, "second order of original", half, [1.5 * X**2], second=[9 * X**3])
# By the rule, the derivative of the output is the output: so it is of the gradient, too.
enter(CUBE, "second of outputs", lambda dy, *, outputs: dy * outputs, [X**3], second=[2 * X**6])
add(Case("second order of a residual", [X], [2 * X**3], _residual, [24 * X**5]))
# The explicit derivative gets 2g = (4x, 6y) and swaps.
enter(PRODUCT, "explicit second", _swapping, [2 * X, 3 * Y], second=[30 * Y, 28 * X])
# f² with f' given as 3x: g = 2 f · 3x = 6x⁴. Of 2g, each of the two `second` makes 11 f · 2g, and the way through
# the two upstreams f is 2 · 3x · 3x · 2g.
_SECOND: Final = [12 * X**4 * (18 * X**2 + 22 * X**3)]
enter(SQUARED, "explicit second of a square", _eleven, [6 * X**4], second=_SECOND)

# Forward mode: all gradients above hold there as well, by transposing.


def _jvp(dx: Any, dy: Any, *, inputs: Any, outputs: Any) -> Any:
    return dx * inputs["y"] + dy * outputs


_linear: Final = Refusal(errors.NotLinearError, r"rule .*\.py:\d+.*not linear in its upstream")
enter(CUBE, "an affine rule", lambda dy: dy + 1.0, [2 * ONE], forward=_linear)
enter(CUBE, "a quadratic rule", lambda dy: 3.0 * dy * dy, [3 * ONE], forward=_linear)
enter(PRODUCT, "explicit jvp", _told_apart, [10 * Y, 100 * X], forward=[Y, X * Y], jvp=_jvp)
enter(CUBE, "jvp of a quadratic rule", lambda dy: dy * dy, [ONE], forward=[3 * ONE], jvp=tripled)

# What a rule does not ask for is gone when the backward pass begins


def _let_go(name: str, make: Callable[[Replace, Function], Function]) -> None:
    def build(_: Adapter) -> Trial:
        noted: list[weakref.ref[Any]] = []
        alive: list[Any] = [None]

        def note(value: Any) -> Any:
            noted.append(weakref.ref(value))
            return value

        def look(dy: Any) -> Any:
            gc.collect()
            alive[:] = [reference() for reference in noted if reference() is not None]
            return dy

        def after() -> None:
            assert not alive, f"{name}: kept until the backward pass was {alive}"

        function = make(lambda function: pb.with_gradient(function, tripled), note)
        looking = pb.with_gradient(lambda y: 1.0 * y, look)
        return Trial(lambda x: looking(function(x)), after=after)

    add(Case(name, [X], [3 * ONE], build, eager_only=True))


_let_go("an input is let go", lambda replace, note: lambda x: replace(_cube)(note(1.0 * x)))
_let_go("an output is let go", lambda replace, note: lambda x: note(replace(_cube)(x)))
_let_go("the inside is let go", lambda replace, note: replace(lambda x: _cube(note(_cube(x)))))
_let_go(
    "a static argument is let go",
    lambda replace, note: lambda x: replace(lambda x, static: _cube(x))(x, note({1})),
)
