"""The three verbs on the fake engine."""

import inspect
import pickle

import numpy as np
import pytest
from hypothesis import given

import pullback as pb
from pullback._function import GradientFunction
from pullback.errors import BodyResultError, RuleResultError, RuleSignatureError
from tests import strategies
from tests.core.fake_engine import Array, Parameter, gradient, sine, total

X = [0.5, -1.5, 2.0]
Y = [3.0, 0.25, -2.0]


def gradients(function, *values):
    arrays = [Array(v) for v in values]
    found = gradient(total(function(*arrays)), arrays)
    return [None if g is None else g.data.tolist() for g in found]


@pb.custom_gradient
def product(x, y):
    """x times y."""

    def backward(dz):
        return 10.0 * dz * y, 100.0 * dz * x

    return x * y, backward


def test_the_rule_runs_instead_of_the_derivative():
    assert gradients(product, X, Y) == [[30.0, 2.5, -20.0], [50.0, -150.0, 200.0]]


def test_keywords_are_bound_by_signature():
    assert gradients(lambda x, y: product(y=y, x=x), X, Y) == gradients(product, X, Y)


@pb.custom_gradient
def both(x):
    def backward(dz, dw):
        return 2.0 * dz + 3.0 * dw

    return x * 1.0, x * 1.0, backward


def test_flat_outputs_are_spread():
    assert gradients(lambda x: both(x)[0] + both(x)[1], X) == [[5.0] * 3]
    assert gradients(lambda x: both(x)[1], X) == [[3.0] * 3]


def test_structures_come_and_go():
    @pb.custom_gradient
    def linear(params, x, mode):
        def backward(upstream):
            dy = upstream["y"]
            return {"w": [dy * x, None]}, 3.0 * dy, None

        return {"y": params["w"][0] * x + params["w"][1], "mode": mode}, backward

    assert gradients(lambda w, x: linear({"w": [w, w]}, x, "m")["y"], X, Y) == [Y, [3.0] * 3]


def half(dy, *, original, inputs, outputs):
    assert inputs["x"] is inputs[0]
    assert outputs.shape == inputs[0].shape
    return 0.5 * original(dy)


def test_with_gradient_and_original():
    wanted = (0.5 * np.cos(X)).tolist()
    assert gradients(pb.with_gradient(sine, half), X) == [pytest.approx(wanted)]


def keep_second(dz):
    return 5.0 * dz, pb.DEFAULT


def test_default_is_what_would_have_run():
    replaced = pb.with_gradient(lambda x, y: x * y, keep_second)
    assert gradients(replaced, X, Y) == [[5.0] * 3, X]


def test_default_of_a_rule_that_did_not_say_so_beforehand():
    hidden = {"value": pb.DEFAULT}
    replaced = pb.with_gradient(lambda x, y: x * y, lambda dz: (dz, hidden["value"]))
    with pytest.raises(RuleResultError, match="Add the keyword-only parameter `original`"):
        gradients(replaced, X, Y)


def test_second_derivatives_follow_from_a_rule_of_differentiable_operations():
    cubed = pb.with_gradient(
        lambda x: x * x * x, lambda dy, *, inputs: 10.0 * dy * inputs[0] * inputs[0]
    )
    x = Array(X)
    (first,) = gradient(total(cubed(x)), [x])
    (second,) = gradient(total(first), [x])
    assert second.data.tolist() == [20.0 * v for v in X]


WEIGHT = Parameter([2.0, 3.0, 4.0], "weight")


def test_what_the_body_reads_keeps_its_ordinary_gradient():
    scaled = pb.with_gradient(lambda x: x * WEIGHT, lambda dy: 7.0 * dy)
    x = Array(X)
    dx, dw = gradient(total(scaled(x)), [x, WEIGHT])
    assert (dx.data.tolist(), dw.data.tolist()) == ([7.0] * 3, X)


@pytest.mark.parametrize(
    "form", [list, tuple, lambda g: {WEIGHT: g[0]}], ids=["list", "tuple", "dict"]
)
def test_a_rule_that_asks_for_variables_gives_their_gradients(form):
    def rule(dy, *, variables):
        assert variables == [WEIGHT]
        return 7.0 * dy, form([9.0 * dy])

    x = Array(X)
    dx, dw = gradient(total(pb.with_gradient(lambda x: x * WEIGHT, rule)(x)), [x, WEIGHT])
    assert (dx.data.tolist(), dw.data.tolist()) == ([7.0] * 3, [9.0] * 3)


@pytest.mark.parametrize(
    "returned, message",
    [
        (lambda dy: dy, "so it returns two things; it returned .*Write `return gradients, var"),
        (lambda dy: (dy, [dy, dy]), r"as the gradients of 1 variables \(weight\)"),
        (lambda dy: (dy, {"w": dy}), "a gradient for 'w', which is not among .*: weight"),
        (lambda dy: (dy, [Array([1.0])]), r"for the variable `weight`, float64\[1\]; wanted"),
    ],
)
def test_variable_gradients_that_do_not_fit(returned, message):
    def rule(dy, *, variables):
        return returned(dy)

    with pytest.raises(RuleResultError, match=message):
        gradients(pb.with_gradient(lambda x: x * WEIGHT, rule), X)


@pytest.mark.parametrize(
    "returned, message",
    [
        ("no", r"rule rule \(.*test_define.py:\d+\) of `sine` returned, for the input `x \(args"),
        (Array(1.0), r"float64\[\]; wanted a gradient float64\[3\]"),
        (Array([1.0]), r"float64\[1\]; wanted a gradient float64\[3\]"),
        (Array([1.0] * 5), r"float64\[5\]; wanted"),
        ((1, 2), "returned 2 gradients"),
        ({"z": 1}, "the key 'z', which is no input; the inputs are x"),
    ],
)
def test_a_result_that_does_not_fit(returned, message):
    def rule(dy):
        return returned

    with pytest.raises(RuleResultError, match=message):
        gradients(pb.with_gradient(sine, rule), X)


def test_the_path_of_a_nested_input_is_named():
    def rule(dy):
        return {"w": Array([1.0]), "b": None}

    nested = pb.with_gradient(lambda params: params["w"] * params["b"], rule)
    with pytest.raises(
        RuleResultError, match=r'input `params\["w"\] \(args\[0\]\["w"\]\)`, float64\[1\]'
    ):
        gradients(lambda w, b: nested({"b": b, "w": w}), X, Y)


@pytest.mark.parametrize("returned", [Array(X), None, (Array(X),), (Array(X), 3)])
def test_a_body_without_backward(returned):
    @pb.custom_gradient
    def body(x):
        return returned

    with pytest.raises(
        BodyResultError, match=r"body \(.*test_define.py:\d+\).*Write `return outputs, backward`"
    ):
        body(Array(X))


def test_what_is_not_a_function():
    with pytest.raises(RuleSignatureError, match="custom_gradient takes a function; got 3"):
        pb.custom_gradient(3)
    with pytest.raises(RuleSignatureError, match="no gradient to replace on 3: it is not callable"):
        pb.with_gradient(3, half)
    with pytest.raises(RuleSignatureError, match="a rule is a function of the upstream"):
        pb.with_gradient(sine, 3)
    with pytest.raises(RuleSignatureError, match="a jvp is a function of the tangents; got 3"):
        pb.with_gradient(sine, half, jvp=3)


@given(strategies.functions())
def test_a_wrapped_function_looks_like_itself(function):
    wrapped = pb.with_gradient(function, half)
    assert isinstance(wrapped, GradientFunction)
    assert inspect.signature(wrapped) == inspect.signature(function)
    assert (wrapped.__name__, wrapped.__wrapped__) == ("function", function)


def test_tools_that_do_not_unwrap_see_the_signature_too():
    assert inspect.getfullargspec(product).args == ["x", "y"]
    assert list(inspect.signature(GradientFunction).parameters) == ["definition", "make"]


def test_names_and_docstrings_stay():
    assert (product.__name__, product.__doc__) == ("product", "x times y.")
    assert repr(product).startswith("<product with its own gradient (")


class Scaled:
    factor = 9.0

    @pb.custom_gradient
    def method(self, x):
        return x * 1.0, lambda dy: dy * self.factor

    @pb.custom_gradient
    @staticmethod
    def static(x):
        return x * 1.0, lambda dy: dy * 2.0

    @pb.custom_gradient
    @classmethod
    def of_class(cls, x):
        return x * 1.0, lambda dy: dy * cls.factor

    @staticmethod
    @pb.custom_gradient
    def inner_static(x):
        return x * 1.0, lambda dy: dy * 4.0


def test_methods_of_every_kind():
    scaled = Scaled()
    found = [
        gradients(f, X)
        for f in (scaled.method, scaled.static, scaled.of_class, Scaled.inner_static)
    ]
    assert found == [[[9.0] * 3], [[2.0] * 3], [[9.0] * 3], [[4.0] * 3]]


def test_by_name_where_the_name_leads_there():
    assert pickle.loads(pickle.dumps(product)) is product


def test_by_its_parts_where_it_does_not():
    copy = pickle.loads(pickle.dumps(pb.with_gradient(sine, keep_half)))
    assert gradients(copy, X) == [[0.5] * 3]


def keep_half(dy):
    return 0.5 * dy


def test_redefining_is_a_new_function():
    scope: dict = {"pb": pb}
    cell = "@pb.custom_gradient\ndef f(x):\n    return x * 1.0, lambda dy: dy * {}\n"
    exec(cell.format(2.0), scope)
    first = scope["f"]
    exec(cell.format(3.0), scope)
    assert (gradients(first, X), gradients(scope["f"], X)) == ([[2.0] * 3], [[3.0] * 3])


def test_a_body_may_change_its_rule_from_call_to_call():
    @pb.custom_gradient
    def f(x, mode):
        def plain(dy):
            return 2.0 * dy

        def asking(dy, *, inputs):
            return dy * inputs[0]

        return x * 1.0, plain if mode == "plain" else asking

    assert gradients(lambda x: f(x, "plain"), X) == [[2.0] * 3]
    assert gradients(lambda x: f(x, "asking"), X) == [X]
    assert gradients(lambda x: f(x, "plain"), X) == [[2.0] * 3]
