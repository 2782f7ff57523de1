"""Causes of missing and zero gradients, in flows made by hand."""

import pytest

from pullback.errors import ExplainError
from pullback.explain.flow import Flow, Hint, Place, Rule
from tests.explain.made import NONE, STOPPED, Made


def chain(kind: str, rule: Rule, passed: list[float] | None, gradient: list[float] | None) -> Flow:
    """x on line 1 through an operation on line 2."""
    made = Made()
    x = made.source("x", [1.0, 2.0], gradient)
    doubled = made.node("Mul", [x, made.value([2.0])], [2.0, 4.0], passed, [gradient, None])
    out = made.node(kind, [doubled], [2.0, 4.0], [1.0, 1.0], [passed], rule=rule, code="y = op(x)")
    return made.flow(out)


def test_a_gradient_is_told_with_its_size() -> None:
    said = chain("Identity", Rule("engine"), [1.0, 1.0], [3.0, 4.0]).why("x")
    assert said == "`x`: has a gradient of norm 5, largest entry 4."


@pytest.mark.parametrize(("entry", "word"), [(1e-9, "tiny"), (1e7, "huge")])
def test_sizes_that_harm_are_named(entry: float, word: str) -> None:
    assert word in chain("Identity", Rule("engine"), [1.0, 1.0], [entry, 0.0]).why("x")


def test_the_cause_has_a_line_and_a_remedy() -> None:
    said = chain("Round", NONE, None, None).why("x")
    assert "fw.round (user.py:2, `y = op(x)`)" in said
    assert said.endswith("Write `straight(fw.round)`.")


def test_a_stop_is_named() -> None:
    assert "stops it" in chain("StopGradient", STOPPED, None, None).why("x")


def test_a_custom_rule_is_named_with_its_place() -> None:
    rule = Rule("custom", "cut", Place("rules.py", 7))
    assert "`cut` (rules.py:7), used (user.py:2, `y = op(x)`), returned None" in chain(
        "IdentityN", rule, None, None
    ).why("x")
    assert "returned zeros" in chain("IdentityN", rule, [0.0, 0.0], [0.0, 0.0]).why("x")


def test_a_dead_gate_is_named() -> None:
    assert "nowhere positive" in chain("Relu", Rule("engine"), [0.0, 0.0], [0.0, 0.0]).why("x")


def test_behind_integers_the_maker_of_the_integers_is_named() -> None:
    made = Made()
    x, table = made.source("x", [1.0, 2.0]), made.source("table", [3.0, 4.0], [1.0, 0.0])
    index = made.node("ArgMax", [x], [1], dtype="int64", rule=NONE)
    reshaped = made.node("Reshape", [index], [1], dtype="int64")
    out = made.node("Gather", [table, reshaped], [4.0], [1.0], [[1.0, 0.0], None])
    flow = made.flow(out)
    assert "fw.argmax (user.py:1)" in flow.why("x")
    assert "has a gradient" in flow.why("table")


def test_an_assignment_is_a_way_on_which_no_gradient_returns() -> None:
    made = Made()
    x = made.source("x", [1.0])
    handle = made.value([0.0], "resource", variable="w")
    made.node("Assign", [handle, x], [])
    read = made.node("ReadVariableOp", [handle], [1.0], [1.0], [None])
    flow = made.flow(made.node("Mul", [read, read], [1.0], [1.0], [[1.0], [1.0]]))
    assert "assign (user.py:1)" in flow.why("x")


def test_what_sees_only_the_shape_is_no_way() -> None:
    made = Made()
    x = made.source("x", [1.0])
    shape = made.node("Shape", [x], [1], dtype="int32")
    flow = made.flow(made.node("Fill", [shape], [1.0], [1.0], [None]))
    assert "only its shape is used, by fw.shape (user.py:1)" in flow.why("x")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"dtype": "int32"}, "it is int32"),
        ({"moves": True}, "Use fw.sin for np.sin"),
        ({"place": Place("user.py", 9, "return w * x")}, "not taken (user.py:9, `return w * x`)"),
        (
            {
                "kind": "variable",
                "trainable": False,
                "layer": ("dense",),
                "hints": (Hint.FROZEN,),
            },
            "layer dense is frozen",
        ),
        ({"hints": (Hint.READ_BEFORE,)}, "read before the run"),
        ({}, "f does not use it"),
    ],
)
def test_what_no_way_leads_from(more: dict, words: str) -> None:
    made = Made()
    made.source("x", **more)
    flow = made.flow(
        made.node("Mul", [made.value([1.0]), made.value([1.0])], [1.0], [1.0], [None, None])
    )
    assert words in flow.why("x")


def test_what_is_thrown_away_is_named() -> None:
    made = Made()
    x, y = made.source("x"), made.source("y", gradient=[1.0])
    made.node("Mul", [x, x], [1.0])
    flow = made.flow(made.node("Mul", [y, made.value([1.0])], [1.0], [1.0], [[1.0], None]))
    assert "does not reach the result: the last to use it is `*` (user.py:1)" in flow.why("x")


def test_a_factor_of_zero_is_named_with_its_maker() -> None:
    made = Made()
    x = made.source("x", [1.0, 2.0], [0.0, 0.0])
    off = made.source("off", [0.0, 0.0], [1.0, 2.0])
    out = made.node("Mul", [x, off], [0.0, 0.0], [1.0, 1.0], [[0.0, 0.0], [1.0, 2.0]])
    assert "multiplies it by zero (`off` is all zeros)" in made.flow(out).why("x")


def test_objects_and_layers_are_found() -> None:
    made = Made()
    kernel, layer = object(), type("Layer", (), {})()
    made.source("dense/kernel", gradient=[1.0], layer=("dense",), kind="variable")
    made.objects.append((kernel, 0))
    layer.variables = [kernel]
    flow = made.flow(0)
    said = {flow.why(x) for x in (kernel, layer, "dense/kernel", "dense", "kernel")}
    assert said == {"`dense/kernel`: has a gradient of size 1."}


@pytest.mark.parametrize(
    ("x", "words"), [("xx", "Did you mean `x`"), (3.0, "this float: f does not use it")]
)
def test_what_is_unknown_is_an_error_with_the_names(x: object, words: str) -> None:
    made = Made()
    made.source("x")
    with pytest.raises(ExplainError, match="It knows `x`") as error:
        made.flow(0).why(x)
    assert words in str(error.value)
