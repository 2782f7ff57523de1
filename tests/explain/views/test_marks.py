"""What is remarkable about an operation."""

import pytest

from pullback.explain.flow import Rule
from pullback.explain.views.marks import Marks, of_source
from tests.explain.views.flows import Builder, chain, size


def marks_of(b: Builder, type_: str) -> frozenset[str]:
    flow = b.flow()
    (index,) = [node.id for node in flow.nodes if node.type == type_]
    return Marks(flow).of_node(index)


@pytest.mark.parametrize(
    ("kind", "mark"), [("override", "override"), ("custom", "custom"), ("pullback", "custom")]
)
def test_rules_of_somebody(kind: str, mark: str) -> None:
    b = Builder()
    b.op("Relu", b.source("x"), rule=Rule(kind))
    assert marks_of(b, "Relu") == {mark}


def test_a_gradient_that_dies_on_the_way_to_a_source_is_cut() -> None:
    b = Builder()
    b.op("Round", b.source("x", None), passed=[None])
    assert marks_of(b, "Round") == {"cut"}


def test_a_cut_that_takes_nothing_from_anybody_is_no_mark() -> None:
    """Of a variance, the mean is stopped; the input gets its gradient all the same."""
    b = Builder()
    x = b.source("x")
    mean = b.op("StopGradient", x, passed=[None])
    b.op("Sub", x, mean)
    assert marks_of(b, "StopGradient") == set()


def test_a_gradient_is_cut_where_it_ends_and_not_beyond() -> None:
    b = Builder()
    cut = b.op("Round", b.source("x", None), passed=[None])
    b.op("StopGradient", b.op("Mul", cut, b.source("y")), passed=[None])
    assert marks_of(b, "Round") == {"cut"}
    assert marks_of(b, "StopGradient") == set()


@pytest.mark.parametrize("more", [{"trainable": False}, {"dtype": "int32"}])
def test_nobody_expects_a_gradient_of_what_is_frozen_or_whole(more: dict[str, object]) -> None:
    b = Builder()
    b.op("Round", b.source("x", None, **more), passed=[None])
    assert marks_of(b, "Round") == set()


def test_zeros_are_told_where_they_begin() -> None:
    b = Builder()
    dead = b.op("Relu", b.source("x", 0.0), passed=[size(0.0)])
    b.op("Sum", dead)
    assert marks_of(b, "Relu") == {"zero"}
    assert marks_of(b, "Sum") == set()


def test_nan_in_a_gradient_or_a_value_is_told() -> None:
    b = Builder()
    x = b.op("Sqrt", b.source("x"), passed=[size(1.0, nan=1)])
    b.op("Log", x, made=size(0.0, inf=2))
    assert marks_of(b, "Sqrt") == {"nan"}
    assert marks_of(b, "Log") == {"nan"}


@pytest.mark.parametrize(
    ("norm", "marks"), [(1e-6, {"vanishing"}), (1e-4, set()), (1e3, set()), (1e5, {"exploding"})]
)
def test_small_and_large_are_measured_against_the_start(norm: float, marks: set[str]) -> None:
    flow = chain([norm, 1.0])
    assert Marks(flow).of_node(0) == marks


def test_what_reads_variables_alone_is_no_measure() -> None:
    b = Builder()
    x = b.source("x")
    bias = b.op("Reshape", b.source("bias", 1e-9, "variable"), norm=1e-9)
    b.op("Add", x, bias)
    assert marks_of(b, "Reshape") == set()


def test_operations_that_no_gradient_touches_are_aside_unless_they_explain_one() -> None:
    b = Builder()
    x = b.source("x")
    shape = b.op("Shape", x, norm=None)
    index = b.op("ArgMax", b.source("z", None), norm=None)
    b.op("Reshape", x, shape, index)
    marks = Marks(b.flow())
    assert [marks.is_aside(k) for k in range(3)] == [True, False, False]


def test_marks_of_sources() -> None:
    b = Builder()
    for name, norm in (("a", None), ("b", 0.0), ("c", 1.0)):
        b.source(name, norm)
    assert [of_source(source) for source in b.sources] == [{"cut"}, {"zero"}, set()]
