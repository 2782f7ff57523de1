"""What every ready-made rule is: a rule for overrides and definitions that can be put on a tensor as well."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pullback._define import with_gradient
from pullback._engine import Engine, engine_of
from pullback._function import RECIPES
from pullback._tree import flatten, map_leaves
from pullback.errors import RuleError

# The rules by name, as files and pickles know them: a rule, or what makes one of its options.
READY: dict[str, Any] = {}


class ReadyRule:
    """A rule with a name. `pb.override({target: rule})` and `pb.with_gradient(fn, rule)` take it as any other rule;
    called with a tensor, it returns that tensor, whose gradient is then the rule's.
    """

    def __init__(self, name: str, rule: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self.name = self.__name__ = self.__qualname__ = name
        self.options = options
        self.__doc__ = rule.__doc__
        self.__wrapped__ = rule
        # What it asks for. Every ready-made rule asks for something: so it is told apart from a call with tensors.
        self.__signature__ = inspect.signature(rule)

    def __call__(self, *values: Any, **offered: Any) -> Any:
        """The gradients, where it is called as a rule; else the values, with this rule as their gradient."""
        return self.__wrapped__(*values, **offered) if offered else self._on_values(*values)

    @functools.cached_property
    def _on_values(self) -> Callable[..., Any]:
        return with_gradient(_same, self)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={_short(value)}" for name, value in self.options.items())
        return f"pb.rules.{self.name}" + (f"({options})" if options else "")

    def __reduce__(self) -> Any:
        return self.recipe

    @property
    def recipe(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """How to make it again, for pickles and files."""
        return _remake_ready, (self.name, dict(self.options))


def ready(make: Callable[..., Callable[..., Any]]) -> Callable[..., ReadyRule]:
    """Let a function that makes a rule of its options make a ready-made one, named after it."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> ReadyRule:
        bound = signature.bind(*args, **kwargs)
        return ReadyRule(make.__name__, make(*args, **kwargs), bound.arguments)

    READY[make.__name__] = made
    return made


def ready_as_is(rule: Callable[..., Any]) -> ReadyRule:
    """A ready-made rule without options."""
    READY[rule.__name__] = found = ReadyRule(rule.__name__, rule, {})
    return found


def engine_for(*values: Any) -> Engine:
    """The engine of gradients or inputs, however nested."""
    return engine_of(flatten(values)[0])


def ordinary(original: Callable[..., Any] | None, upstream: tuple[Any, ...], rule: str) -> Any:
    """The gradient that would have run otherwise, which this rule changes."""
    if original is None:
        raise RuleError(
            f"pb.rules.{rule} changes the gradient of what it is put on, and there is none: that operation has no "
            "gradient of its own. Use pb.rules.passthrough, pb.rules.straight_through or a rule of your own there."
        )
    return original(*upstream)


def each(function: Callable[[Any], Any], gradients: Any) -> Any:
    """The same structure with every gradient changed; where there is none, none."""
    return map_leaves(lambda g: None if g is None else function(g), gradients)


def _same(*values: Any) -> Any:
    return values[0] if len(values) == 1 else values


def _short(value: Any) -> str:
    return value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value)


def _remake_ready(name: str, options: Mapping[str, Any]) -> Any:
    found = READY[name]
    return found if isinstance(found, ReadyRule) else found(**options)


RECIPES[_remake_ready.__name__] = _remake_ready
