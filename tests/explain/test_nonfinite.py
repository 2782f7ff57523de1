"""The first operation that made NaN or Inf, in flows made by hand."""

import pytest

from tests.explain.made import Made

NAN, INF = float("nan"), float("inf")


def test_where_all_is_finite_there_is_none() -> None:
    made = Made()
    x = made.source("x", [1.0], [1.0])
    assert made.flow(made.node("Log", [x], [0.0], [1.0], [[1.0]])).first_nonfinite() is None


def test_what_does_no_harm_is_not_reported() -> None:
    made = Made()
    x = made.source("x", [0.0, 1.0], [0.0, 1.0])
    log = made.node("Log", [x], [-INF, 0.0], [0.0, 1.0], [[0.0, 1.0]])
    out = made.node(
        "Where", [made.value([1], "bool"), log], [0.0, 0.0], [1.0, 1.0], [None, [0.0, 1.0]]
    )
    assert made.flow(out).first_nonfinite() is None


def test_the_first_of_the_result_is_found_through_later_ones() -> None:
    made = Made()
    x = made.source("x", [0.0, 1.0], [NAN, NAN])
    log = made.node(
        "Log", [x], [-INF, 0.0], [NAN, NAN], [[NAN, NAN]], layer=("a", "b"), code="log(x)"
    )
    out = made.node("Mul", [x, log], [NAN, 0.0], [1.0, 1.0], [[NAN, 1.0], [0.0, 1.0]])
    found = made.flow(out).first_nonfinite()
    assert found is not None
    assert (found.direction, found.op, found.line, found.layer) == (
        "forward",
        "fw.log",
        "user.py:1",
        "a/b",
    )
    assert "log(0) = -Inf" in found.cause
    assert "`*` (user.py:2) makes NaN of it" in found.cause
    assert str(found).endswith("Write `log(max(x, 1e-12))`.")


def test_an_input_with_nan_is_named() -> None:
    made = Made()
    x = made.source("x", [NAN, 1.0, 2.0])
    found = made.flow(
        made.node("Exp", [x], [NAN, 1.0, 2.0], [1.0] * 3, [[NAN, 1.0, 1.0]])
    ).first_nonfinite()
    assert found is not None
    assert found.direction == "input"
    assert "`x` itself has NaN in 1 of its 3 entries" in str(found)


def test_a_masked_softmax_is_not_blamed_on_the_mask() -> None:
    made = Made()
    x, mask = made.source("x", [1.0, 2.0]), made.value([-INF, -INF])
    sums = made.node("Add", [x, mask], [-INF, -INF], [NAN, NAN], [[NAN, NAN], None])
    found = made.flow(
        made.node("Softmax", [sums], [NAN, NAN], [1.0, 1.0], [[NAN, NAN]])
    ).first_nonfinite()
    assert found is not None
    assert (found.op, found.rewrite) == ("fw.softmax", "Mask with -1e9")


def trap() -> Made:
    """where(ok, log(x), 0) with a zero in x."""
    made = Made()
    x = made.source("x", [0.0, 1.0], [NAN, 1.0])
    log = made.node("Log", [x], [-INF, 0.0], [0.0, 1.0], [[NAN, 1.0]])
    made.node("Where", [made.value([1], "bool"), log], [0.0, 0.0], [1.0, 1.0], [None, [0.0, 1.0]])
    return made


def test_the_trap_of_where_names_both_lines() -> None:
    made = trap()
    found = made.flow(len(made.values) - 1).first_nonfinite()
    assert found is not None
    assert (found.direction, found.line) == ("backward", "user.py:1")
    assert "fw.where (user.py:2) does not select it" in found.cause
    assert found.rewrite == "Guard the input"


def test_of_two_bad_gradients_the_one_nearer_to_the_result_is_first() -> None:
    made = Made()
    x = made.source("x", [0.0], [NAN])
    square = made.node("Square", [x], [0.0], [INF], [[NAN]])
    total = made.node("Sum", [square], [0.0], [INF], [[INF]])
    found = made.flow(made.node("Sqrt", [total], [0.0], [1.0], [[INF]])).first_nonfinite()
    assert found is not None
    assert (found.line, found.rewrite) == ("user.py:3", "Write `norm(x + tiny)`")
    assert "norm of a vector of zeros" in found.cause


def test_what_compiled_code_alone_makes_is_found() -> None:
    made = Made()
    x = made.source("x", [0.0], [0.0])
    out = made.node("Sqrt", [x], [0.0], [0.0], [[0.0]], compiled=[[NAN]])
    found = made.flow(out).first_nonfinite()
    assert found is not None
    assert found.direction == "compiled"
    assert "compiled code alone" in str(found)


@pytest.mark.parametrize("gradient", [[NAN, 1.0], [INF, 1.0]])
def test_why_leads_to_the_first_bad_operation(gradient: list[float]) -> None:
    made = trap()
    flow = made.flow(len(made.values) - 1)
    assert "fw.where (user.py:2)" in flow.why("x")
