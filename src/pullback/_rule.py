"""What a rule is: a plain function of the upstream gradients that asks for more by name."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from pullback._bind import name_of, signature_of
from pullback._reach import cells_of, function_behind, globals_of
from pullback.errors import RuleSignatureError

OFFERED: Final = {
    "inputs": "what the function or op was called with",
    "outputs": "what it returned",
    "original": "the gradient that would have run otherwise, as a callable",
    "attrs": "the attributes of the op (overrides of ops)",
    "variables": "the trainable variables read inside",
    "op": "name, type, layer and source line of what is differentiated",
}


class Default:
    """The type of `pb.DEFAULT`: the gradient that would have run otherwise."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "pullback.DEFAULT"

    def __reduce__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = Default()


class Rule:
    """A function from upstream gradients to gradients, and what it asks for."""

    __slots__ = ("_required", "function", "wants")

    def __init__(
        self, function: Callable[..., Any], offered: tuple[str, ...] = tuple(OFFERED)
    ) -> None:
        if not callable(function):
            raise RuleSignatureError(
                f"a rule is a function of the upstream gradient; got {function!r}. "
                "Write `def rule(dy): return ...`."
            )
        self.function = function
        self.wants, self._required = _wishes(function, offered)

    @property
    def name(self) -> str:
        """The name of the function."""
        return name_of(self.function)

    @property
    def location(self) -> str:
        """File and line of the rule, as `file.py:12`."""
        return location_of(self.function)

    def __repr__(self) -> str:
        return f"{self.name} ({self.location})"

    def __call__(self, upstream: Iterable[Any], offers: dict[str, Any]) -> Any:
        """Run the rule with what it asks for out of `offers`."""
        wanted = {name: offers[name] for name in self.wants if name in offers}
        return self.function(*upstream, **wanted)

    def requires(self, name: str) -> bool:
        """Whether the rule cannot be called without this."""
        return name in self._required

    def check_upstream(
        self, count: int, what: str = "upstream gradient", per: str = "output"
    ) -> None:
        """Refuse a rule that cannot take this many upstream gradients."""
        code = getattr(self.function, "__code__", None)
        if code is not None and count in _accepted.setdefault(code, set()):
            return
        self._check_signature(count, what, per)
        if code is not None:
            _accepted[code].add(count)

    def _check_signature(self, count: int, what: str, per: str) -> None:
        signature = signature_of(self.function)
        least, most = _upstream_counts(signature, self.wants)
        if not least <= count <= most:
            raise RuleSignatureError(
                f"rule {self} is called with {count} {what}{'s'[: count != 1]}, one per {per}, "
                f"but is written as `{self.name}{signature}`. "
                f"Write `def {_identifier(self.name)}({_upstream_names(count, per)}): ...`."
            )


def location_of(function: Any) -> str:
    """File and line of a function, as `file.py:12`; of a callable object, those of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    code = code or getattr(type(function).__call__, "__code__", None)
    if code is None:
        return "built in"
    file, line = code.co_filename, code.co_firstlineno
    for origin in ORIGINS:
        file, line = origin(file, line)
    return f"{file}:{line}"


# An engine whose framework rewrites the user's code tells here where a line of it came from.
ORIGINS: list[Callable[[str, int], tuple[str, int]]] = []


# A body makes its backward function anew at every call, from the same code: what it asks for is read off once.
# A weak dictionary would cost as much as half the rest; code objects are few, and this many are let go at once.
_MOST_KNOWN = 4096
_known_wishes: dict[Any, Any] = {}
_accepted: dict[Any, set[int]] = {}


def _wishes(function: Any, offered: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    code = getattr(function, "__code__", None)
    if code is None:
        return _wants(function, offered)
    known = _known_wishes.get(code)
    if known is None or known[0] is not offered:
        if len(_known_wishes) >= _MOST_KNOWN:
            _known_wishes.clear()
            _accepted.clear()
        known = _known_wishes[code] = (offered, *_wants(function, offered))
    return known[1], known[2]


def mentions(function: Any, value: Any) -> bool:
    """Whether the code of a function names this object: a global, an attribute of a module, or a cell."""
    behind = function_behind(function)
    if behind is None:
        return False
    return any(known is value for known in (*cells_of(behind), *globals_of(behind)))


def _wants(function: Any, offered: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    wants: set[str] = set()
    required: set[str] = set()
    for parameter in signature_of(function).parameters.values():
        asked = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        needed = parameter.default is inspect.Parameter.empty
        # A positional parameter with a default is how stock TensorFlow spells `variables=None`.
        if parameter.name in offered and (asked or not needed):
            wants.add(parameter.name)
            required |= {parameter.name} if needed else set()
        elif asked and needed:
            raise RuleSignatureError(_unknown(function, parameter.name, offered))
    return frozenset(wants), frozenset(required)


def _unknown(function: Any, name: str, offered: tuple[str, ...]) -> str:
    listing = "; ".join(f"`{offer}`: {OFFERED[offer]}" for offer in offered)
    known = "which is not on offer here" if name in OFFERED else "which does not exist"
    return (
        f"rule {name_of(function)} ({location_of(function)}) asks for `{name}`, {known}. "
        f"A rule may ask for {listing}. Give `{name}` a default value if it is your own."
    )


def _upstream_counts(signature: inspect.Signature, wants: frozenset[str]) -> tuple[int, float]:
    """The fewest and the most upstream gradients that a rule of this signature takes."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [p for p in signature.parameters.values() if p.name not in wants]
    taken = [p for p in parameters if p.kind in positional]
    any_number = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    return sum(p.default is p.empty for p in taken), math.inf if any_number else len(taken)


def _upstream_names(count: int, per: str) -> str:
    name = "dy" if per == "output" else "dx"
    return name if count == 1 else ", ".join(f"{name}{i}" for i in range(count))


def _identifier(name: str) -> str:
    return name if name.isidentifier() else "rule"
