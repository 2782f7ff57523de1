"""Define and replace: `custom_gradient`, `with_gradient`, `with_partials`.

One mechanism: a `Definition` says which function runs forward and where its rule comes from (the function itself, the
user, or partial derivatives); a `GradientFunction` binds a call and hands it to the engine.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, overload

from pullback._bind import Binder, name_of
from pullback._engine import engine_of, engine_of_type, load_present
from pullback._partials import make_partials_rule
from pullback._project import describe
from pullback._pullback import Job
from pullback._rule import DEFAULT, Rule, location_of, mentions
from pullback._tree import flatten_tuple
from pullback.errors import BodyResultError, RuleSignatureError

F = TypeVar("F", bound=Callable[..., Any])

_OFFERS = ("inputs", "outputs", "original", "variables", "op")
# What has to be kept while the function runs, so that it must be known beforehand.
_KEPT = frozenset({"original", "variables"})
_JVP_OFFERS = ("inputs", "outputs")


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
        rule = Rule(result[-1], _OFFERS)
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
    # Where TensorFlow rewrites Python, it is to call this as it is.
    autograph_info__: Any = types.MappingProxyType({})
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
        return self.__qualname__ if _found_by_name(self) else self._make


def _called_as_it_is(verb: F) -> F:
    """Where TensorFlow rewrites Python, it leaves this function alone."""
    verb.__dict__["autograph_info__"] = {}
    return verb


@overload
def custom_gradient(fn: F, *, jvp: Callable[..., Any] | None = None) -> F: ...
@overload
def custom_gradient(
    fn: None = None, *, jvp: Callable[..., Any] | None = None
) -> Callable[[F], F]: ...
@_called_as_it_is
def custom_gradient(fn: Any = None, *, jvp: Callable[..., Any] | None = None) -> Any:
    """Define a function together with its gradient.

    `fn` returns its outputs and a backward function: `(outputs, backward)` or, flat, `(z, w, backward)`. The
    backward function is a rule: it takes one upstream gradient per output and returns one gradient per input.

    >>> import tensorflow as tf
    >>> import pullback as pb
    >>> @pb.custom_gradient
    ... def straight_through_round(x):
    ...     def backward(dy):
    ...         return dy
    ...     return tf.round(x), backward
    >>> x = tf.constant([0.4, 1.6])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = straight_through_round(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [1.0, 1.0]
    """
    if fn is None:
        return functools.partial(custom_gradient, jvp=jvp)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(custom_gradient(fn.__func__, jvp=jvp))
    if not callable(fn):
        raise RuleSignatureError(
            f"custom_gradient takes a function; got {fn!r}. Write it as a decorator of one."
        )
    make = (_remake_custom, (fn, jvp))
    return GradientFunction(Definition(fn, None, jvp), make)


@_called_as_it_is
def with_gradient(fn: F, rule: Callable[..., Any], *, jvp: Callable[..., Any] | None = None) -> F:
    """The same function with another gradient. `fn` may be a function, a layer, a model or a loss.

    >>> import tensorflow as tf
    >>> import pullback as pb
    >>> def half(dy, *, original):
    ...     return 0.5 * original(dy)
    >>> relu = pb.with_gradient(tf.nn.relu, half)
    >>> x = tf.constant([-1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = relu(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, 0.5]
    """

    def define(function: Callable[..., Any]) -> Definition:
        return Definition(function, Rule(rule, _OFFERS), jvp)

    return _replace(fn, define, (_remake_with, (fn, rule, jvp)))


@_called_as_it_is
def with_partials(fn: F, **partials: Callable[..., Any] | None) -> F:
    """The same function with analytic partial derivatives, by parameter name.

    Each partial takes the arguments of `fn` (and may ask for `outputs`) and returns ∂out/∂parameter; the upstream
    gradient is multiplied in. `None` stops the gradient; a parameter that is not named keeps its ordinary one.

    >>> import tensorflow as tf
    >>> import pullback as pb
    >>> def softplus(x):
    ...     return tf.math.log(1.0 + tf.exp(x))
    >>> stable = pb.with_partials(softplus, x=tf.sigmoid)
    >>> x = tf.constant(100.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = stable(x)
    >>> float(tape.gradient(y, x))
    1.0
    """
    make = (_remake_partials, (fn, partials))

    def define(function: Callable[..., Any]) -> Definition:
        rule = make_partials_rule(function, partials)
        return Definition(function, Rule(rule), named=tuple(partials))

    return _replace(fn, define, make)


def _replace(fn: Any, define: Callable[[Any], Definition], make: tuple[Any, ...]) -> Any:
    """Put a definition around a function, or around the call of a layer or model."""
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(_replace(fn.__func__, define, make))
    if not callable(fn):
        raise RuleSignatureError(
            f"there is no gradient to replace on {fn!r}: it is not callable. Pass a function."
        )
    engine = engine_of_type(type(fn))
    wrapped = engine.wrap(fn, define, make) if engine else None
    return GradientFunction(define(fn), make) if wrapped is None else wrapped


def _jvp_rule(jvp: Any) -> Rule:
    if not callable(jvp):
        raise RuleSignatureError(
            f"a jvp is a function of the tangents; got {jvp!r}. Write `def jvp(dx): return ...`."
        )
    return Rule(jvp, _JVP_OFFERS)


def _found_by_name(value: Any) -> bool:
    """Whether its module and name lead to this very object, as pickle wants it."""
    found: Any = sys.modules.get(value.__module__)
    for part in value.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is value


def _remake_custom(fn: Any, jvp: Any) -> Any:
    return custom_gradient(fn, jvp=jvp)


def _remake_with(fn: Any, rule: Any, jvp: Any) -> Any:
    return with_gradient(fn, rule, jvp=jvp)


def _remake_partials(fn: Any, partials: dict[str, Any]) -> Any:
    return with_partials(fn, **partials)


def _no_backward(function: Any, result: Any) -> str:
    return (
        f"{name_of(function)} ({location_of(function)}) is under custom_gradient and returned {describe(result)}; "
        "wanted its outputs and, last, the backward function. "
        "Write `return outputs, backward` with `def backward(dy): ...`, or use pb.with_gradient(fn, rule)."
    )


# A process that only reads a file with our classes in it calls no verb before.
load_present()
