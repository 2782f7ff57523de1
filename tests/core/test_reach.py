"""What a function reaches: every way in which Python code gets at a value."""

import functools
import math
import sys
import types

import pytest

from pullback import _reach
from pullback._reach import (
    Substitution,
    WritesOutside,
    function_behind,
    globals_of,
    names_in,
    package_of,
    unwrapped,
    walk,
)


class Treasure:
    """What is looked for."""


IN_GLOBAL = Treasure()
IN_LIST = [[Treasure()]]


def helper():
    return IN_GLOBAL


def through_helper(x):
    return helper()


def through_inner_function(x):
    def inner():
        return [IN_GLOBAL for _ in range(2)]

    return inner()


def through_module(x):
    return this_module.IN_GLOBAL


def through_default(x, held=IN_GLOBAL):
    return held


def through_keyword_default(x, *, held=IN_GLOBAL):
    return held


def through_global_list(x):
    return IN_LIST[0]


def through_cell():
    held = {"a": (Treasure(),)}
    return lambda x: held["a"]


def through_attribute(x):
    return x


through_attribute.held = IN_GLOBAL


@functools.lru_cache
def wrapped_helper(x):
    return helper()


class Holder:
    """Holds it as an attribute."""

    def __init__(self):
        self.held = Treasure()

    def method(self, x):
        return self.held


def plain(x):
    return math.sin(x)


this_module = sys.modules[__name__]
REACHING = {
    "helper": through_helper,
    "inner function": through_inner_function,
    "module": through_module,
    "default": through_default,
    "keyword default": through_keyword_default,
    "global list": through_global_list,
    "cell": through_cell(),
    "attribute": through_attribute,
    "wrapper": wrapped_helper,
    "method": Holder().method,
    "object": Holder(),
    "partial": functools.partial(plain, held=[IN_GLOBAL]),
    "function of a partial": functools.partial(through_helper),
}


def is_found(thing, **options):
    return any(isinstance(one, Treasure) for one in walk(thing, **options))


@pytest.mark.parametrize("way", REACHING)
def test_a_value_is_found(way):
    assert is_found(REACHING[way])
    assert not is_found(plain)


def test_each_thing_is_given_once_and_the_nearest_first():
    near = Treasure()
    found = [one for one in walk([[[[near]]], near, near]) if isinstance(one, Treasure)]
    assert found == [near]
    far = Treasure()
    found = [one for one in walk([[far], near]) if isinstance(one, Treasure)]
    assert found == [near, far]


def test_circles_end():
    circle = []
    circle.append(circle)
    assert list(walk(circle)) == [circle]


def test_depth_limits_the_walk():
    assert is_found([[Treasure()]], depth=2)
    assert not is_found([[Treasure()]], depth=1)


def test_what_stops_the_walk_is_given_but_not_entered():
    holder = Holder()
    found = list(walk([holder], stop=lambda thing: isinstance(thing, Holder)))
    assert any(one is holder for one in found)
    assert not any(isinstance(one, Treasure) for one in found)


def test_the_caller_may_say_what_a_thing_leads_to():
    assert not is_found(Holder(), inside=lambda thing: ())
    assert is_found(1.5j and Holder(), inside=_reach.attributes)


def test_functions_of_other_packages_are_not_entered():
    foreign = types.FunctionType(helper.__code__, globals(), "foreign")
    foreign.__module__ = "elsewhere.module"
    user = types.FunctionType(
        through_helper.__code__, {"helper": foreign, "__name__": "user.module"}
    )
    assert not is_found(user)
    foreign.__module__ = "user.other"
    assert is_found(user)


def test_a_cell_that_is_not_filled_is_passed_over():
    def early(x):
        return later

    assert not is_found(early)
    later = Treasure()
    assert is_found(early)


def test_long_containers_are_cut():
    assert not is_found([0.5] * _reach.MOST_ITEMS + [Treasure()])


def test_names_come_from_inner_functions_too():
    assert "IN_GLOBAL" in set(names_in(through_inner_function.__code__))
    assert any(one is IN_GLOBAL for one in globals_of(through_module))


def test_wrappers_are_taken_off_from_the_outside_in():
    method = Holder().method
    partial = functools.partial(wrapped_helper, 1)
    assert list(unwrapped(partial)) == [partial, wrapped_helper, wrapped_helper.__wrapped__]
    assert list(unwrapped(method)) == [method, Holder.method]
    assert list(unwrapped(3)) == []


def test_the_function_behind_a_callable():
    class Called:
        def __call__(self):
            return None

    assert function_behind(functools.partial(plain)) is plain
    assert function_behind(Holder().method) is Holder.method
    assert function_behind(Called()) is Called.__call__
    assert function_behind(len) is None


def test_packages():
    assert package_of(pytest.approx) == "_pytest"
    assert package_of(Holder()) == __name__.partition(".")[0]


def substituted(thing):
    new = Treasure()
    replace = {id(IN_GLOBAL): new, id(IN_LIST[0][0]): new}
    found = Substitution(lambda one: replace.get(id(one)), lambda one: None).of(thing)
    return found, new


def twice(x, held=None):
    return held


SUBSTITUTED = {
    "helper": lambda made: made(0),
    "inner function": lambda made: made(0)[0],
    "global list": lambda made: made(0)[0],
}


@pytest.mark.parametrize("way", SUBSTITUTED)
def test_another_value_takes_the_place_of_a_global(way):
    function = REACHING[way]
    made, new = substituted(function)
    assert SUBSTITUTED[way](made) is new
    assert SUBSTITUTED[way](function) is not new
    assert made.__name__ == function.__name__


def test_another_value_takes_the_place_of_what_is_held():
    holder = Holder()
    holder.held = {"a": [IN_GLOBAL], "b": "kept"}
    made, new = substituted(holder.method)
    assert made(0) == {"a": [new], "b": "kept"}
    assert holder.held["a"] == [IN_GLOBAL]
    made, new = substituted(functools.partial(twice, held=(IN_GLOBAL,)))
    assert made(0) == (new,)


def test_what_does_not_change_is_shared():
    shared = {"count": [0]}

    def counting(x):
        shared["count"][0] += 1
        return IN_GLOBAL

    made, new = substituted(counting)
    assert made(0) is new
    assert shared["count"] == [1]
    assert substituted(plain)[0] is plain


def test_a_function_that_assigns_outside_is_not_copied():
    count = 0

    def counting(x):
        nonlocal count
        count += 1
        return IN_GLOBAL

    with pytest.raises(WritesOutside, match="counting"):
        substituted(counting)
