"""What every ready-made rule is: a rule for overrides and definitions that can be put on a tensor as well."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from pullback._audit import Place
from pullback._engine import Engine, engine_of
from pullback._function import RECIPES, Definition, GradientFunction
from pullback._rule import FUNCTION_OFFERS, Rule, is_unscaled, unscaled
from pullback._tree import flatten, map_leaves
from pullback.errors import RuleError

# The rules by name, as files and pickles know them: a rule, or what makes one of its options.
READY: dict[str, Any] = {}
Forward: TypeAlias = Callable[..., Any]


class ReadyRule:
    """A rule with a name. `pb.override({target: rule})` and `pb.with_gradient(fn, rule)` take it as any other rule;
    called with a tensor, it returns that tensor, or a function of it, whose gradient is then the rule's.
    """

    def __init__(
        self,
        name: str,
        rule: Callable[..., Any],
        options: Mapping[str, Any],
        forward: Callable[..., Any] | None = None,
    ) -> None:
        self.name = self.__name__ = self.__qualname__ = name
        self.options = options
        self.__doc__ = rule.__doc__
        self.__wrapped__ = rule
        if is_unscaled(rule):
            unscaled(self)
        # What it asks for. Every ready-made rule asks for something: so it is told apart from a call with tensors.
        self.__signature__ = inspect.signature(rule)
        if options.get("weights"):
            self.__signature__ = _asking_for_variables(self.__signature__)
        self._forward = forward or _same
        self._functions: dict[Place | None, GradientFunction] = {}

    def __call__(self, *values: Any, **offered: Any) -> Any:
        """The gradients, where it is called as a rule; else the values, with this rule as their gradient."""
        if offered:
            # With the variables on offer, `original` gives their gradients too, and the rule changes all that it gives.
            return self.__wrapped__(
                *values, **{n: v for n, v in offered.items() if n != "variables"}
            )
        where = engine_for(values).caller() if "op" in self.__signature__.parameters else None
        return self.function_at(where)(*values)

    def function_at(self, where: Place | None = None) -> GradientFunction:
        """What it is on tensors, in one place of the user's code."""
        if where not in self._functions:
            rule = Rule(self, FUNCTION_OFFERS)
            made = Definition(self._forward, rule, name=_last_part(self.name), place=where)
            self._functions[where] = GradientFunction(made, (_remake_on_tensors, (self,)))
        return self._functions[where]

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
    """Let a function that makes a rule of its options make a ready-made one, named after it.

    One that changes all gradients that it gets from `original` may have an option `weights`, with which it is for those
    of the weights of layers as well.
    """
    signature = inspect.signature(make)

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> ReadyRule:
        bound = signature.bind(*args, **kwargs)
        if not bound.arguments.get("weights", True):
            del bound.arguments["weights"]
        return ReadyRule(make.__name__, make(*args, **kwargs), bound.arguments)

    READY[make.__name__] = made
    return made


def quantizer(make: Callable[..., tuple[Forward, Forward]]) -> Callable[..., ReadyRule]:
    """Let a function that makes a quantiser's two directions of its options make a ready-made rule of them."""
    signature = inspect.signature(make)
    name = f"quantizers.{make.__name__}"

    @functools.wraps(make)
    def made(*args: Any, **kwargs: Any) -> ReadyRule:
        forward, rule = make(*args, **kwargs)
        return ReadyRule(name, rule, signature.bind(*args, **kwargs).arguments, forward)

    READY[name] = made
    return made


def ready_as_is(rule: Callable[..., Any]) -> ReadyRule:
    """A ready-made rule without options."""
    READY[rule.__name__] = found = ReadyRule(rule.__name__, rule, {})
    return found


class ReadyRuleForAll(ReadyRule):
    """A ready-made rule without options but `weights`, as in `pb.rules.nan_to_zero(weights=True)`."""

    def __call__(self, *values: Any, **offered: Any) -> Any:
        """As any ready-made rule; with `weights` and nothing else, the rule that is for weights too or not."""
        if values or offered.keys() != {"weights"}:
            return super().__call__(*values, **offered)
        options = {"weights": True} if offered["weights"] else {}
        return ReadyRuleForAll(self.name, self.__wrapped__, options)


def ready_for_all(rule: Callable[..., Any]) -> ReadyRuleForAll:
    """A ready-made rule without options, which may be for weights too."""
    READY[rule.__name__] = found = ReadyRuleForAll(rule.__name__, rule, {})
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


def _asking_for_variables(signature: inspect.Signature) -> inspect.Signature:
    variables = inspect.Parameter("variables", inspect.Parameter.KEYWORD_ONLY)
    return signature.replace(parameters=[*signature.parameters.values(), variables])


def _same(*values: Any) -> Any:
    return values[0] if len(values) == 1 else values


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]


def require_number(
    rule: str, name: str, value: Any, *, above: float | None = None, least: float | None = None
) -> None:
    """Refuse what is not one number, nor a tensor or variable of one; it may have to be above or at least a bound.

    Of a variable, which is read anew each time, and of a tensor that is being traced, only the shape is known.
    """
    known = as_number(value)
    is_later = known is None and hasattr(value, "dtype") and not isinstance(value, np.ndarray)
    if is_later and _may_be_one(value):
        return
    number = math.nan if known is None else known
    is_within = (above is None or number > above) and (least is None or number >= least)
    if not math.isfinite(number) or not is_within:
        wanted = "a finite number" if above is None else f"a number above {above:g}"
        wanted = wanted if least is None else f"a number of {least:g} or more"
        raise RuleError(
            f"pb.rules.{rule} got {name}={value!r}; wanted {wanted}, or a tensor or variable of one."
        )


def as_number(value: Any) -> float | None:
    """The number that this is, or that a tensor holds for good; `None` for all else."""
    if isinstance(value, (bool, str)) or hasattr(value, "assign"):
        return None
    found: Any = np.asarray(value.numpy() if hasattr(value, "numpy") else _plain(value))
    is_one = found.shape == () and found.dtype.kind in "iufV"  # V: bfloat16 and the like
    return float(found) if is_one else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, (int, float, np.number, np.ndarray)) else None


def _may_be_one(value: Any) -> bool:
    """Whether a tensor or variable is one number, as far as its shape is known."""
    if hasattr(value, "numpy") and not hasattr(value, "assign"):
        return False
    shape: Any = getattr(value, "shape", ())
    return getattr(shape, "rank", 0) is None or len(shape) == 0


def _short(value: Any) -> str:
    return value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value)


def _remake_ready(name: str, options: Mapping[str, Any]) -> Any:
    found = READY[name]
    return found if isinstance(found, ReadyRule) and not options else found(**options)


def _remake_on_tensors(rule: ReadyRule) -> GradientFunction:
    return rule.function_at()


for remake in (_remake_ready, _remake_on_tensors):
    RECIPES[remake.__name__] = remake
