"""From what a rule returned to one gradient per leaf."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pullback import DEFAULT
from pullback._engine import Kind
from pullback._project import (
    Mismatch,
    arrange,
    describe,
    leaf_path,
    shape_text,
    unbroadcast_axes,
)
from pullback._tree import flatten, unflatten
from tests import strategies
from tests.strategies import Point

STATIC, NUMBER, TENSOR, FLOWING = Kind.STATIC, Kind.NUMBER, Kind.TENSOR, Kind.DIFFERENTIABLE


@given(strategies.broadcast_pairs(), st.randoms())
def test_unbroadcast_is_the_transpose_of_broadcasting(pair, random):
    shape, result = pair
    x = np.random.default_rng(random.randrange(2**32)).normal(size=shape)
    dy = np.random.default_rng(random.randrange(2**32)).normal(size=result)
    axes = unbroadcast_axes(result, shape)
    assert axes is not None
    dx = dy.sum(axes).reshape(shape)
    np.testing.assert_allclose(np.sum(np.broadcast_to(x, result) * dy), np.sum(x * dx), atol=1e-9)


@given(strategies.SHAPES, strategies.SHAPES)
def test_unbroadcast_refuses_what_broadcasting_cannot_have_made(gradient, wanted):
    try:
        possible = np.broadcast_shapes(gradient, wanted) == gradient
    except ValueError:
        possible = False
    assert (unbroadcast_axes(gradient, wanted) is not None) == possible


def arguments(*values):
    """Names, structure and kinds of a call; floats flow, integers are numbers, text is static."""
    leaves, structure = flatten(values)
    by_class = {float: FLOWING, int: NUMBER, bytes: TENSOR}
    kinds = [by_class.get(type(leaf), STATIC) for leaf in leaves]
    return tuple("uvwxyz"[: len(values)]), structure, kinds


LEAVES = st.sampled_from([1.0, 2.0, 3, "text", None, b"tensor"])


def gradient_of(leaf):
    return f"d{leaf}" if isinstance(leaf, float) else None


def reads_two_ways(values):
    """Whether gradients of these arguments, all of them or of the only one with tensors, may be taken for the other."""
    holding = [i for i, v in enumerate(values) if {float, bytes} & set(map(type, flatten(v)[0]))]
    only = holding[0] if len(holding) == 1 else -1
    if only < 0 or type(values[only]) is not tuple or len(values[only]) != len(values):
        return False
    return not any(
        isinstance(leaf, float)
        for i, part in enumerate(values[only])
        if i != only
        for leaf in flatten(part)[0]
    )


@given(st.lists(strategies.trees(LEAVES), min_size=1, max_size=4))
def test_one_gradient_per_argument_in_its_structure(values):
    assume(not reads_two_ways(values))
    names, structure, kinds = arguments(*values)
    wanted = [gradient_of(leaf) for leaf in flatten(tuple(values))[0]]
    assert arrange(unflatten(structure, wanted), names, structure, kinds) == wanted


@given(st.lists(strategies.trees(LEAVES), min_size=2, max_size=4))
def test_static_arguments_may_be_left_out(values):
    assume(not reads_two_ways(values))
    names, structure, kinds = arguments(*values)
    flat = [gradient_of(leaf) for leaf in flatten(tuple(values))[0]]
    held = [any(isinstance(leaf, (float, bytes)) for leaf in flatten(v)[0]) for v in values]
    chosen = tuple(g for g, h in zip(unflatten(structure, flat), held, strict=True) if h)
    assume(chosen)
    returned = chosen if len(chosen) > 1 else chosen[0]
    assert arrange(returned, names, structure, kinds) == flat


@given(st.lists(strategies.trees(LEAVES), min_size=1, max_size=4))
def test_gradients_by_parameter_name(values):
    names, structure, kinds = arguments(*values)
    flat = [gradient_of(leaf) for leaf in flatten(tuple(values))[0]]
    named = dict(zip(names, unflatten(structure, flat), strict=True))
    assert arrange(named, names, structure, kinds) == flat


@given(st.lists(strategies.trees(LEAVES), min_size=1, max_size=4))
def test_none_is_nothing_for_all(values):
    names, structure, kinds = arguments(*values)
    assert arrange({}, names, structure, kinds) == [None] * len(kinds)
    assert arrange((None,) * len(values), names, structure, kinds) == [None] * len(kinds)


@pytest.mark.parametrize(
    "values, returned, flat",
    [
        ((1.0,), "dx", ["dx"]),
        ((1.0,), ("dx",), ["dx"]),
        ((1.0,), ["dx"], ["dx"]),
        ((1.0, "axis"), "dx", ["dx", None]),
        ((1.0, "axis"), ("dx", None), ["dx", None]),
        (("axis", 1.0), (None, "dx"), [None, "dx"]),
        ((1.0, 2.0, 0), ("dx", "dy"), ["dx", "dy", None]),
        ((1.0, 2.0, 0), ("dx", "dy", None), ["dx", "dy", None]),
        ((1.0, 2.0, 0), {"v": "dy"}, [None, "dy", None]),
        (([1.0, 2.0],), ["dx", "dy"], ["dx", "dy"]),
        (([1.0, 2.0],), (["dx", "dy"],), ["dx", "dy"]),
        (([1.0, 2.0], "axis"), ("dx", "dy"), ["dx", "dy", None]),
        (([1.0, 2.0], "axis"), (["dx", "dy"], None), ["dx", "dy", None]),
        (([1.0, (2.0, 3.0)], 4.0), ["a", "b", "c", "d"], ["a", "b", "c", "d"]),
        (([1.0, b"index"], 4.0), ["a", "b", "c"], ["a", None, "c"]),
        (([1.0], (), [2.0], "axis"), ("dx", "dy"), ["dx", "dy", None]),
        (([1.0, [2.0]],), ("dx", None), ["dx", None]),
        (([1.0],), "dx", None),
        (([1.0],), ["dx"], ["dx"]),
        (([1.0],), (["dx"],), ["dx"]),
        (({"u": 1.0},), {"u": "dx"}, ["dx"]),
        (({"u": 1.0},), {"u": {"u": "dx"}}, ["dx"]),
        (({"a": 1.0, "b": 2.0},), {"b": "db", "a": "da"}, ["da", "db"]),
        (({"a": 1.0, "b": 2.0},), {"u": {"b": "db", "a": None}}, [None, "db"]),
        ((1.0, 2.0), (DEFAULT, "dy"), [DEFAULT, "dy"]),
        (({"a": 1.0, "b": [2.0]},), DEFAULT, [DEFAULT, DEFAULT]),
        ((1.0, b"index"), ("dx", None), ["dx", None]),
        ((1.0, b"index"), "dx", ["dx", None]),
        ((1.0, b"index"), ("dx", "ignored"), ["dx", None]),
        ((1.0, 2), ("dx", "for a Python number"), ["dx", None]),
        # all of the result is the gradient of the only input, or a part of it is: classes tell, and what is static
        ((0, [b"t", Point(1.0, 2.0)]), [None, Point("dx", None)], [None, None, "dx", None]),
        ((0, [1.0, (2.0, 3.0)]), [None, ("dx", None)], [None, None, "dx", None]),
        ((0, [1.0, (2.0, 3.0)]), (None, ["dx", None]), [None, "dx", None, None]),
        ((0, (1.0, [2.0, 3.0])), (None, ["dx", None]), [None, None, "dx", None]),
        ((0, ("s", (2.0, 3.0))), (None, ("dx", None)), [None, None, "dx", None]),
        ((0, (1.0, ("s", 3.0))), (None, ("dx", None)), [None, "dx", None, None]),
        ((0, (1.0, (2.0, 3.0))), (None, (None, None)), [None, None, None, None]),
    ],
)
def test_what_a_rule_may_return(values, returned, flat):
    if flat is None:
        with pytest.raises(Mismatch, match="structure is list of 0"):
            arrange(returned, *arguments(*values))
    else:
        assert arrange(returned, *arguments(*values)) == flat


@pytest.mark.parametrize(
    "values, returned, message",
    [
        ((1.0, 2.0), "dx", r"returned 1 gradient \('dx'\) for the 2 inputs with tensors \(u, v\)"),
        ((1.0, 2.0), ("dx",), "returned 1 gradient .* Write `return du, dv`"),
        ((1.0,), ("dx", "dy"), r"returned 2 gradients .* for the 1 input .* `return du`"),
        ((1.0, 2.0), ("dx", "dy", "dz"), "returned 3 gradients"),
        (({"b": 1.0, "a": 2.0},), ["db", "da"], 'whose structure is dict of "a", "b"'),
        (({"a": 1.0},), {"z": "dz"}, "the key 'z', which is no input; the inputs are u"),
        (({"a": 1.0, "b": 2.0},), {"a": "da"}, "an input that is a dict one with all of its keys"),
        (([1.0, 2.0],), ["dx", "dy", "dz"], "structure is list of 0, 1"),
        (([1.0, [2.0]],), ["dx", ("dy", "dz")], r"'dz' for the input `u \(args\[0\]\)\[1\]`"),
        (([1.0, {"b": 2.0}],), ["dx", "dy"], r"'dy' for the input `u \(args\[0\]\)\[1\]`"),
        (([1.0, 2.0], 3.0), ("dx", "dy", "dz", "dw"), "returned 4 gradients"),
        (({"a": 1.0, "b": 2.0}, 3.0), ("dx", "dy", "dz"), "returned 3 gradients"),
        ((1.0, "axis"), ("dx", "da"), r"'da' for the static argument `v \(args\[1\]\)`"),
        ((1.0, ["s"]), ("dx", ["ds"]), r"static argument `v\[0\] \(args\[1\]\[0\]\)`"),
        (("axis",), ("dx", "dy"), "for a call without tensors"),
        ((strategies.Layer(1.0, 2.0),), Point("dx", "dy"), "structure is Layer"),
        ((Point(1.0, 2.0),), "dx", "structure is Point"),
        ((1.0, 2.0), (["dx"], "dy"), r"a list of 1: 'dx' for the single tensor `u \(args\[0\]\)`"),
        (
            (0, (1.0, (2.0, 3.0))),
            (None, ("dx", None)),
            r'can be .* of `v`, or one for .* \{"v": …\}',
        ),
    ],
)
def test_what_does_not_fit_is_said_with_what_to_write(values, returned, message):
    with pytest.raises(Mismatch, match=message):
        arrange(returned, *arguments(*values))


def test_describe_is_short():
    assert describe(np.zeros([2, 3])) == "float64[2, 3]"
    assert describe((1, None)) == "a tuple of 2: 1, None"
    assert describe([1] * 9) == "a list of 9: 1, 1, 1, 1, …"
    assert describe({"a": 1}) == "a dict with keys 'a'"
    assert describe("no") == "'no'"
    assert len(describe(type("Long", (), {"__repr__": lambda _: "x" * 500})())) == 80


def test_unknown_sizes_are_shown_as_such():
    assert shape_text((2, None)) == "[2, ?]"
    assert shape_text(iter_fails()) == "[unknown rank]"


def iter_fails():
    class Shape:
        def __iter__(self):
            raise ValueError("unknown rank")

    return Shape()


def test_leaf_path_gives_name_and_position():
    _, structure = flatten((1.0, {"w": [2.0, 3.0]}))
    assert leaf_path(("x", "p"), structure, 2) == 'p["w"][1] (args[1]["w"][1])'
