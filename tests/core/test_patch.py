"""Functions and attributes that are replaced for a while, and are as before afterwards."""

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

import pytest

from pullback._patch import PatchedFunction, Replacement, Setting, Together, original_code


def twice(patched: PatchedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return 2 * patched.run(*args, **kwargs)


def plain(x: int, *, by: int = 1) -> int:
    return x + by


def made_closure() -> Callable[..., int]:
    first, second = 0, 0

    def closure(x: int, *, by: int = 1) -> int:
        return x + by + first + second

    return closure


FUNCTIONS = {"plain": plain, "closure": made_closure()}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_patched_function_is_the_same_object_with_the_same_signature(function: Any) -> None:
    before, signature = function.__code__, inspect.signature(function)
    with PatchedFunction.of(function, twice):
        assert function(3) == 8
        assert function(x=3, by=2) == 10
        assert inspect.signature(function) == signature
        assert original_code(function) is before
        assert function.__code__.co_name == before.co_name
    assert function(3) == 4
    assert function.__code__ is before
    assert "__signature__" not in vars(function)


def test_a_function_stays_patched_until_its_last_user_leaves() -> None:
    patch = PatchedFunction.of(plain, twice)
    with patch:
        with PatchedFunction.of(plain, twice) as inner:
            assert inner is patch
        assert plain(3) == 8
    assert plain(3) == 4


def test_a_function_whose_code_was_replaced_meanwhile_gets_a_new_patch() -> None:
    def changing() -> int:
        return 1

    with PatchedFunction.of(changing, twice):
        assert changing() == 2
    changing.__code__ = (lambda: 5).__code__
    with PatchedFunction.of(changing, twice):
        assert changing() == 10
    assert changing() == 5


def test_replacements_are_put_in_together_and_taken_out_again() -> None:
    owner = types.SimpleNamespace(a=1, b=2)
    together = Together()
    together.add(Replacement(owner, "a", lambda value: value + 10))
    together.add(Replacement(owner, "b", lambda value: value + owner.a))
    with together, together:
        assert (owner.a, owner.b) == (11, 13)
        assert together.users == 2
    assert (owner.a, owner.b) == (1, 2)


def plus(amount: int) -> Callable[[Any], Any]:
    return lambda value: value + amount


@pytest.mark.parametrize("first_out", [0, 1, 2])
@pytest.mark.parametrize("last_out", [0, 1, 2])
def test_replacements_of_one_attribute_leave_in_any_order(first_out: int, last_out: int) -> None:
    owner = types.SimpleNamespace(a=1)
    parts = [Replacement(owner, "a", plus(10**k)) for k in (1, 2, 3)]
    for part in parts:
        part.__enter__()
    assert owner.a == 1111
    order = sorted(range(3), key=lambda k: (k != first_out, k == last_out))
    for k in order:
        parts[k].__exit__()
    assert owner.a == 1


def test_what_is_left_of_replacements_still_works() -> None:
    owner = types.SimpleNamespace(a=1)
    inner, outer = Replacement(owner, "a", plus(10)), Replacement(owner, "a", plus(100))
    inner.__enter__()
    with outer:
        inner.__exit__()
        assert owner.a == 101
    assert owner.a == 1


def test_an_inherited_attribute_is_inherited_again() -> None:
    class Base:
        a = 1

    class Derived(Base):
        pass

    with Replacement(Derived, "a", plus(10)):
        assert (Base.a, Derived.a) == (1, 11)
    assert "a" not in vars(Derived)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_setting_is_as_before_in_whichever_order_blocks_end(in_order: bool) -> None:
    owner = types.SimpleNamespace(a=1)
    setting = Setting(lambda: owner.a, functools.partial(setattr, owner, "a"))
    blocks = [setting.kept(), setting.kept()]
    for number, block in enumerate(blocks):
        block.__enter__()
        owner.a = 10 + number
    for block in blocks if in_order else blocks[::-1]:
        block.__exit__(None, None, None)
    assert owner.a == 1


def test_a_setting_within_a_block_is_as_it_was_there() -> None:
    owner = types.SimpleNamespace(a=1)
    setting = Setting(lambda: owner.a, functools.partial(setattr, owner, "a"))
    with setting.kept():
        owner.a = 2
        with setting.kept():
            owner.a = 3
        assert owner.a == 2
    assert owner.a == 1
