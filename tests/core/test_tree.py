"""Structures: flat and back, with a path for each leaf."""

import collections
import dataclasses
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pullback._tree import (
    LEAF,
    flat_tuple,
    flatten,
    flatten_tuple,
    is_flat_tuple,
    is_known_leaf,
    map_leaves,
    paths,
    unflatten,
)
from tests import strategies

LEAVES = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), st.text(max_size=3))


@given(strategies.trees(LEAVES))
def test_flatten_and_back(tree):
    leaves, structure = flatten(tree)
    assert unflatten(structure, leaves) == tree
    assert type(unflatten(structure, leaves)) is type(tree)
    assert len(paths(structure)) == structure.num_leaves == len(leaves)


@given(strategies.trees(LEAVES))
def test_a_path_leads_to_its_leaf(tree):
    leaves, structure = flatten(tree)
    for leaf, path in zip(leaves, paths(structure, "tree"), strict=True):
        assert eval(path, {"tree": tree}) is leaf


@given(st.lists(strategies.trees(LEAVES), max_size=4).map(tuple))
def test_the_short_way_for_tuples_is_the_same(values):
    leaves, structure = flatten_tuple(values)
    assert (list(leaves), structure) == flatten(values)
    assert unflatten(structure, leaves) == values


@given(strategies.trees(st.integers()))
def test_map_leaves_keeps_the_structure(tree):
    doubled = map_leaves(lambda leaf: 2 * leaf, tree)
    assert flatten(doubled)[1] == flatten(tree)[1]
    assert flatten(doubled)[0] == [2 * leaf for leaf in flatten(tree)[0]]


def test_none_and_strings_are_leaves():
    assert flatten([None, "ab"])[0] == [None, "ab"]


def test_a_tuple_of_known_leaves_is_always_the_same_structure():
    flatten((1, 2))
    assert flatten_tuple((3, 4))[1] is flatten_tuple((5, 6))[1] is flat_tuple(2)
    assert is_flat_tuple(flat_tuple(2))
    assert not is_flat_tuple(flatten((1, [2]))[1])
    assert is_known_leaf(3)


def test_a_lone_leaf():
    assert unflatten(LEAF, ["alone"]) == "alone"


class Shouting(list):
    pass


class Registry(dict):
    pass


@dataclasses.dataclass(frozen=True)
class Guarded:
    value: Any
    derived: Any = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.value, int):
            raise ValueError("wanted an integer")
        object.__setattr__(self, "derived", self.value + 1)


def test_subclasses_of_list_and_dict_are_structure():
    assert flatten(Shouting([1, [2]]))[0] == [1, 2]
    assert flatten(Registry(b=1, a=2))[0] == [1, 2]
    assert paths(flatten(Registry(b=1, a=2))[1]) == ['["b"]', '["a"]']


def test_defaultdicts_and_deques_are_structure():
    tree = [collections.defaultdict(int, a=1), collections.deque([2, 3])]
    leaves, structure = flatten(tree)
    assert leaves == [1, 2, 3]
    assert unflatten(structure, leaves) == tree


def test_a_dataclass_is_made_again_without_its_init():
    leaves, structure = flatten(Guarded(3))
    made = unflatten(structure, ["a gradient", None])
    assert leaves == [3, 4]
    assert (made.value, made.derived) == ("a gradient", None)
