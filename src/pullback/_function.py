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

from pullback._audit import Place
from pullback._bind import Binder, Plan, name_of
from pullback._call import Call
from pullback._engine import Attach, Engine, engine_of, engine_of_class, present
from pullback._names import reduced
from pullback._project import describe
from pullback._rule import FUNCTION_OFFERS, JVP_OFFERS, Rule, location_of
from pullback._tree import flatten_tuple
from pullback.errors import BodyResultError, RuleSignatureError

# What has to be recorded while the function runs, so that it must be known beforehand.
_RECORDED = frozenset({"original", "variables"})
# The ways to make such a function again from its parts, by name: pickles and files hold the name.
RECIPES: dict[str, Callable[..., Any]] = {}


class Definition:
    """A function, where its rule comes from, and what has to be kept for the rule."""

    __slots__ = (
        "_binder", "_known", "_place", "function", "jvp", "kept", "name", "owner", "plans", "prepared", "rule",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Any],
        rule: Rule | None,
        jvp: Any = None,
        name: str | None = None,
        place: Place | None = None,
    ) -> None:
        self.function = function
        self.rule = rule
        self.jvp = None if jvp is None else _jvp_rule(jvp)
        self.name = name or name_of(function)
        self._known = frozenset[str]() if rule is None else rule.kept
        self.kept = self._known & _RECORDED
        self.plans: dict[Any, Plan] = {}
        self._binder: Binder | None = None
        self._place = place
        self.prepared: dict[type, tuple[Engine, Attach]] = {}
        self.owner: GradientFunction | None = None

    @property
    def binder(self) -> Binder:
        """The binder of the function, made at the first call."""
        if self._binder is None:
            self._binder = Binder(self.function, self.plans)
        return self._binder

    @property
    def is_whole(self) -> bool:
        """Whether the rule says all that there is to say of the arguments, also where the function closes over them.

        One that the function itself returns does, as for `tf.custom_gradient`: much code closes over a tensor that it
        has computed from an argument, and counts it in its rule.
        """
        return self.rule is None

    @property
    def place(self) -> Place:
        """What is differentiated, for a rule that asks for `op`."""
        return self._place or Place(self.name, "function", None, location_of(self.function))

    def prepare(self, leaves: Sequence[Any]) -> tuple[Engine, Attach]:
        """The engine of these leaves and its way to run this function, made once for each class of leaves."""
        engine = engine_of(leaves)
        made = (engine, engine.prepare(self))
        if leaves and engine_of_class(type(leaves[0])) is engine:
            self.prepared[type(leaves[0])] = made
        return made

    def split(self, result: Any) -> tuple[Any, Rule]:
        """The outputs and the rule out of what the function returned."""
        if self.rule is not None:
            return result, self.rule
        if not isinstance(result, (tuple, list)) or len(result) < 2 or not callable(result[-1]):
            raise BodyResultError(_no_backward(self.function, result))
        rule = Rule(result[-1], FUNCTION_OFFERS, returned_by_body=True)
        if not rule.kept <= self._known:
            self._known |= rule.kept
            if not self._known & _RECORDED <= self.kept:
                self.kept = self._known & _RECORDED  # another object: the call is run once more
        if len(result) == 2:
            return result[0], rule
        return tuple(result[:-1]), rule


class _SignatureOfInstances:
    """The signature of the function behind; the class has its own."""

    def __get__(self, instance: GradientFunction | None, owner: type) -> inspect.Signature:
        if instance is None:
            raise AttributeError("__signature__")
        return instance._definition.binder.signature  # pyright: ignore[reportPrivateUsage]  # of the class it serves


class GradientFunction:
    """A function whose gradient is the one given for it. Use it like the function itself."""

    __qualname__: str
    __wrapped__: Callable[..., Any]
    # Some tools do not follow `__wrapped__`.
    __signature__ = _SignatureOfInstances()

    def __init__(self, definition: Definition, make: tuple[Any, ...]) -> None:
        present()
        functools.update_wrapper(self, definition.function)
        self.__name__ = name_of(definition.function)
        self._definition = definition
        definition.owner = self
        self._make = make

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; its gradient will be the rule's."""
        definition = self._definition
        plan = None if kwargs else definition.plans.get(len(args))
        if plan is None:
            plan = definition.binder.plan(args, kwargs)
        values = args if plan.direct else tuple(plan.values(args, kwargs))
        leaves, structure = flatten_tuple(values)
        prepared = definition.prepared.get(type(leaves[0])) if leaves else None
        engine, attach = prepared or definition.prepare(leaves)
        return attach(Call(definition, engine, plan, structure, values), leaves)

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
        return reduced(self, self._make)


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
    return Rule(jvp, JVP_OFFERS)


def _no_backward(function: Any, result: Any) -> str:
    return (
        f"{name_of(function)} ({location_of(function)}) is under custom_gradient and returned {describe(result)}; "
        "wanted its outputs and, last, the backward function. "
        "Write `return outputs, backward` with `def backward(dy): ...`, or use pb.with_gradient(fn, rule)."
    )
