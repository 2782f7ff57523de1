"""Binding: a plan calls a function exactly as Python would."""

import inspect

import pytest
from hypothesis import given

from pullback._bind import Binder, Inputs, name_of, signature_of
from tests import strategies


def outcome_of_inspect(call: strategies.Call):
    try:
        inspect.signature(call.function).bind(*call.args, **call.kwargs)
    except TypeError:
        return TypeError
    return call.function(*call.args, **call.kwargs)


def outcome_of_plan(call: strategies.Call):
    try:
        plan = Binder(call.function).plan(call.args, call.kwargs)
    except TypeError:
        return TypeError
    return plan.call(call.function, plan.values(call.args, call.kwargs))


@given(strategies.calls() | strategies.fitting_calls())
def test_a_plan_calls_as_python_does(call):
    assert outcome_of_plan(call) == outcome_of_inspect(call)


@given(strategies.functions(keyword_only=0))
def test_a_direct_plan_may_be_called_with_the_arguments_as_they_are(function):
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    positional = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    args = tuple(range(sum(kind in positional for kind in kinds)))
    plan = Binder(function).plan(args, {})
    assert plan.direct
    assert plan.values(args, {}) == list(args)


@pytest.mark.parametrize("keywords", [{"b": 2}, {"a": 1, "b": 2}])
def test_a_call_with_keywords_is_not_direct(keywords):
    args = (1,) if "a" not in keywords else ()
    assert not Binder(lambda a, b: None).plan(args, keywords).direct


@given(strategies.fitting_calls())
def test_names_and_values_go_together(call):
    bound = inspect.signature(call.function).bind(*call.args, **call.kwargs)
    bound.apply_defaults()
    plan = Binder(call.function).plan(call.args, call.kwargs)
    pairs = list(zip(plan.names, plan.values(call.args, call.kwargs), strict=True))
    for name, value in bound.arguments.items():
        if name == "rest":
            assert [v for n, v in pairs if n.startswith("rest[")] == list(value)
        elif name == "more":
            assert {n: v for n, v in pairs if value.get(n) == v and n in value} == value
        else:
            assert (name, value) in pairs


def stack(values, axis=0, *, name=None):
    return values, axis, name


def test_positional_and_keyword_are_the_same_thing():
    binder = Binder(stack)
    ways = [((1, 2), {}), ((1,), {"axis": 2}), ((), {"axis": 2, "values": 1})]
    plans = [(binder.plan(a, k), a, k) for a, k in ways]
    assert {p.names for p, _, _ in plans} == {("values", "axis", "name")}
    assert [p.values(a, k) for p, a, k in plans] == [[1, 2, None]] * 3


def test_a_plan_is_made_once_for_each_shape_of_call():
    binder = Binder(stack)
    assert binder.plan((1,), {"axis": 2}) is binder.plan((5,), {"axis": 7})
    assert binder.plan((1,), {"axis": 2}) is not binder.plan((1, 2), {})


@pytest.mark.parametrize("args, kwargs", [((), {}), ((1, 2, 3), {}), ((1,), {"axes": 0})])
def test_a_wrong_call_names_the_function_and_its_signature(args, kwargs):
    with pytest.raises(TypeError, match=r"stack\(values, axis=0, \*, name=None\): "):
        Binder(stack).plan(args, kwargs)


def test_inputs_by_position_and_by_name():
    inputs = Inputs(("x", "axis"), [1.5, 0])
    assert (inputs[0], inputs["x"], inputs[-1], inputs["axis"]) == (1.5, 1.5, 0, 0)
    assert (list(inputs), len(inputs), inputs.keys()) == ([1.5, 0], 2, ("x", "axis"))
    assert dict(inputs.items()) == {"x": 1.5, "axis": 0}
    assert repr(inputs) == "Inputs(x=1.5, axis=0)"


def test_an_unknown_input_lists_the_known_ones():
    with pytest.raises(KeyError, match="no input is called 'z'; the inputs are x, axis"):
        Inputs(("x", "axis"), [1.5, 0])["z"]


def test_a_callable_without_signature_takes_anything():
    signature = signature_of(type("Odd", (), {"__call__": 3})())
    assert signature.bind(1, 2, three=3).arguments == {"args": (1, 2), "kwargs": {"three": 3}}


def test_a_callable_without_name_goes_by_its_class():
    assert name_of(Binder(stack)) == "Binder"
