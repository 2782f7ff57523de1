"""A function with a gradient of its own: what is known of it, and the object that the user calls.

A `Definition` says which function runs forward and where its rule comes from (the function itself, or whoever defined
it); a `GradientFunction` binds a call and hands it to the engine.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from pullback._bind import Binder, name_of
from pullback._engine import engine_of, load_present
from pullback._names import is_found
from pullback._project import describe
from pullback._pullback import Job
from pullback._rule import DEFAULT, Rule, location_of, mentions
from pullback._tree import flatten_tuple
from pullback.errors import BodyResultError, RuleSignatureError

OFFERS = ("inputs", "outputs", "original", "variables", "op")
# What has to be kept while the function runs, so that it must be known beforehand.
_KEPT = frozenset({"original", "variables"})
_JVP_OFFERS = ("inputs", "outputs")
# The ways to make such a function again from its parts, by name: pickles and files hold the name.
RECIPES: dict[str, Callable[..., Any]] = {}


class Definition:
    """A function, where its rule comes from, and what is known of the rule's wishes."""

    __slots__ = (
        "_binder",
        "_known",
        "_named",
        "function",
        "jvp",
        "keeps",
        "name",
        "owner",
        "rule",
        "wants",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        rule: Rule | None,
        jvp: Any = None,
        named: Sequence[str] = (),
    ) -> None:
        self.function = function
        self.rule = rule
        self.jvp = None if jvp is None else _jvp_rule(jvp)
        self.name = name_of(function)
        self.wants: frozenset[str] = frozenset()
        self.keeps = self.wants
        self._known: set[Any] = set()
        if rule:
            self._learn(rule)
        self._named = frozenset(named)
        self._binder: Binder | None = None
        self.owner: GradientFunction | None = None

    @property
    def binder(self) -> Binder:
        """The binder of the function, made at the first call."""
        if self._binder is None:
            self._binder = Binder(self.function)
        return self._binder

    def split(self, result: Any) -> tuple[Any, Rule]:
        """The outputs and the rule out of what the function returned."""
        if self.rule is not None:
            return result, self.rule
        if not isinstance(result, (tuple, list)) or len(result) < 2 or not callable(result[-1]):
            raise BodyResultError(_no_backward(self.function, result))
        rule = Rule(result[-1], OFFERS)
        if getattr(rule.function, "__code__", None) not in self._known:
            self._learn(rule)
        outputs = result[:-1]
        return (outputs[0] if len(outputs) == 1 else tuple(outputs)), rule

    def _learn(self, rule: Rule) -> None:
        """Note what a rule asks for; a body makes its rule anew at every call, from the same code."""
        code = getattr(rule.function, "__code__", None)
        if code is not None:
            self._known.add(code)
        wants = rule.wants | ({"original"} if mentions(rule.function, DEFAULT) else set())
        if not wants <= self.wants:
            self.wants |= wants
            self.keeps = self.wants & _KEPT

    def original_of(self, names: Sequence[str]) -> set[str]:
        """The parameters whose ordinary gradient may be asked for."""
        return set(names) - self._named


class _SignatureOfInstances:
    """The signature of the function behind; the class has its own."""

    def __get__(self, instance: GradientFunction | None, owner: type) -> inspect.Signature:
        if instance is None:
            raise AttributeError("__signature__")
        return instance._definition.binder.signature  # pyright: ignore[reportPrivateUsage]


class GradientFunction:
    """A function whose gradient is the one given for it. Use it like the function itself."""

    __qualname__: str
    __wrapped__: Callable[..., Any]
    # Some tools do not follow `__wrapped__`.
    __signature__ = _SignatureOfInstances()

    def __init__(self, definition: Definition, make: tuple[Any, ...]) -> None:
        load_present()
        functools.update_wrapper(self, definition.function)
        self.__name__ = name_of(definition.function)
        self._definition = definition
        definition.owner = self
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; its gradient will be the rule's."""
        definition = self._definition
        plan = definition.binder.plan(args, kwargs)
        values = args if plan.direct else tuple(plan.values(args, kwargs))
        leaves, structure = flatten_tuple(values)
        engine = engine_of(leaves)
        return engine.attach(Job(definition, engine, plan, structure), leaves)

    @property
    def rule(self) -> Callable[..., Any] | None:
        """The rule that was given; `None` where the function itself returns it."""
        rule = self._definition.rule
        return None if rule is None else rule.function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind as a method, so that `self` is an ordinary, static argument."""
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<{self.__name__} with its own gradient ({location_of(self.__wrapped__)})>"

    def __reduce__(self) -> Any:
        """By name where that name finds this very object, else by its parts."""
        return self.__qualname__ if is_found(self) else self._make


def provide(name: str, read: Callable[[GradientFunction], Any]) -> None:
    """Give every function with a gradient an attribute that a framework looks for, as an engine reads it off one.

    A property: it comes before an attribute of that name that `update_wrapper` copied from the wrapped function, and
    tools that look without `__getattr__` find it.
    """
    setattr(GradientFunction, name, property(read))


def _jvp_rule(jvp: Any) -> Rule:
    if not callable(jvp):
        raise RuleSignatureError(
            f"a jvp is a function of the tangents; got {jvp!r}. Write `def jvp(dx): return ...`."
        )
    return Rule(jvp, _JVP_OFFERS)


def _no_backward(function: Any, result: Any) -> str:
    return (
        f"{name_of(function)} ({location_of(function)}) is under custom_gradient and returned {describe(result)}; "
        "wanted its outputs and, last, the backward function. "
        "Write `return outputs, backward` with `def backward(dy): ...`, or use pb.with_gradient(fn, rule)."
    )
