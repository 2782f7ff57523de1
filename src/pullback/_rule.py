"""What a rule is: a plain function of the upstream gradients that asks for more by name."""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from pullback._bind import name_of, signature_of
from pullback._engine import loaded
from pullback._reach import cells_of, function_behind, globals_of, unwrapped
from pullback.errors import RuleSignatureError

OFFERED: Final = {
    "inputs": "what the function or op was called with",
    "outputs": "what it returned",
    "original": "the gradient that would have run otherwise, as a callable",
    "attrs": "the attributes of the op (overrides of ops)",
    "variables": "the trainable variables read inside",
    "op": "name, type, layer and source line of what is differentiated",
}
# What is on offer to a rule in an override, of a function, for one input of several, and to a jvp.
OVERRIDE_OFFERS: Final = tuple(OFFERED)
FUNCTION_OFFERS: Final = tuple(name for name in OFFERED if name != "attrs")
INPUT_OFFERS: Final = tuple(name for name in OFFERED if name != "variables")
JVP_OFFERS: Final = ("inputs", "outputs")


_TENSORFLOW_FORM: Final = (
    " What TensorFlow's own form `rule(op, grad)` reads from `op` is asked for by name: "
    "`def rule(dy, *, inputs, outputs, attrs): ...`."
)


class Default:
    """The type of `pb.DEFAULT`: the gradient that would have run otherwise."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "pullback.DEFAULT"

    def __reduce__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = Default()


# An attribute of functions that are rules and have to see gradients without the scale of the loss.
_UNSCALED: Final = "__pullback_unscaled__"
_F = TypeVar("_F", bound=Callable[..., Any])


def unscaled(rule: _F) -> _F:
    """Let a rule see gradients without the loss scale of mixed precision: for rules that clip, compare or add noise.

    `rule` is a function, which is returned. While an optimizer scales the loss, the rule is called with upstream
    gradients divided by the scale, in float32 where they are in 16 bits, and what it returns is multiplied by it.

    >>> import pullback as pb, tensorflow as tf
    >>> @pb.rules.unscaled
    ... def at_most_one(dy, *, original):
    ...     return tf.clip_by_value(original(dy), -1.0, 1.0)
    >>> at_most_one.__name__
    'at_most_one'
    """
    if not callable(rule):
        raise RuleSignatureError(
            f"pb.rules.unscaled takes a rule, which is a function; got {rule!r}."
        )
    try:
        setattr(rule, _UNSCALED, True)
    except AttributeError:
        raise RuleSignatureError(
            f"pb.rules.unscaled cannot mark {rule!r}. Write a function that calls it, and mark that."
        ) from None
    return rule


def is_unscaled(rule: Any) -> bool:
    """Whether a rule has to see gradients without the scale of the loss."""
    return getattr(rule, _UNSCALED, False)


class Request(NamedTuple):
    """What a rule asks for by name."""

    names: frozenset[str]
    required: frozenset[str]  # without a default value: the rule cannot be called without it
    kept: frozenset[
        str
    ]  # what must be kept for it: the original too, where it may return `DEFAULT`


class Rule:
    """A function from upstream gradients to gradients, and what it asks for."""

    __slots__ = (
        "_accepted", "function", "kept", "requested", "required", "returned_by_body", "unscaled",
    )  # fmt: skip

    def __init__(
        self,
        function: Callable[..., Any],
        offered: tuple[str, ...] = OVERRIDE_OFFERS,
        *,
        returned_by_body: bool = False,
    ) -> None:
        self.function = function
        self.returned_by_body = returned_by_body
        self.unscaled = is_unscaled(function)
        self.requested, self.required, self.kept = _request_of(function, offered)
        self._accepted = -1  # the number of upstream gradients that was checked last

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

    def of_input(self, index: int, name: str) -> str:
        """What gives the gradient of one input, in messages: the rule, or the part of it that is for this input."""
        part = getattr(self.function, "rule_of_input", None)
        return (part and part(index, name)) or str(self)

    def __call__(self, upstream: Iterable[Any], offers: Mapping[str, Any]) -> Any:
        """Run the rule with what it asks for out of `offers`."""
        if len(offers) > len(self.requested):
            offers = {name: offers[name] for name in self.requested}
        return self.function(*upstream, **offers)

    def takes_leaves(self, outputs: int, leaves: int) -> bool:
        """Whether it is written, as for stock TensorFlow, for every tensor inside structured outputs by itself."""
        if not self.returned_by_body or outputs == leaves:
            return False
        least, most = _upstream_counts(signature_of(self.function), self.requested)
        only_any_number = least == 0 and most == math.inf
        return only_any_number or (not least <= outputs <= most and least <= leaves <= most)

    def check_upstream(
        self, count: int, what: str = "upstream gradient", per: str = "output"
    ) -> None:
        """Refuse a rule that cannot take this many upstream gradients."""
        if count == self._accepted:
            return
        known = _known_of(self.function)
        if known is None or count not in known.accepted:
            self._check_signature(count, what, per)
            if known is not None:
                known.accepted.add(count)
        self._accepted = count

    def _check_signature(self, count: int, what: str, per: str) -> None:
        signature = signature_of(self.function)
        least, most = _upstream_counts(signature, self.requested)
        if not least <= count <= most:
            raise RuleSignatureError(
                f"rule {self} is called with {count} {what}{'s'[: count != 1]}, one per {per}, "
                f"but is written as `{self.name}{signature}`. "
                f"Write `def {_identifier(self.name)}({_upstream_names(count, per)}): ...`."
                f"{_TENSORFLOW_FORM if 'op' in signature.parameters else ''}"
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
    for engine in loaded():
        file, line = engine.origin_of_line(file, line)
    return f"{file}:{line}"


# A body makes its backward function afresh at every call, from the same code: what it asks for is read off once.
# By identity, as a code object takes long to hash, and with the code kept, so that no other gets its identity.
_MOST_KNOWN = 4096  # code objects are few; this many are dropped at once
_known: dict[int, _Known] = {}
_DECIDING = frozenset(
    {"__wrapped__", "__signature__"}
)  # attributes by which a signature is another


class _Known:
    """What is known of all rules of one code."""

    __slots__ = ("accepted", "code", "requests")

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.requests: dict[int, Request] = {}  # by the identity of what is on offer
        self.accepted: set[int] = set()  # numbers of upstream gradients


def _known_of(function: Any) -> _Known | None:
    """What is known of a plain function; of others, the code does not decide the signature."""
    if type(function) is not types.FunctionType or not _DECIDING.isdisjoint(function.__dict__):
        return None
    code = function.__code__
    known = _known.get(id(code))
    if known is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[id(code)] = _Known(code)
    return known


def _request_of(function: Any, offered: tuple[str, ...]) -> Request:
    known = _known_of(function)
    if known is None:
        return _read_request(function, offered)
    request = known.requests.get(id(offered))
    if request is None:
        request = known.requests[id(offered)] = _read_request(function, offered)
    return request


def mentions(function: Any, value: Any) -> bool:
    """Whether the code of a function, or of one it wraps, names this object: a global, or a cell."""
    behind = [f for f in map(function_behind, unwrapped(function)) if f is not None]
    return any(known is value for f in behind for known in (*cells_of(f), *globals_of(f)))


def _read_request(function: Any, offered: tuple[str, ...]) -> Request:
    if not callable(function):
        raise RuleSignatureError(
            f"a rule is a function of the upstream gradient; got {function!r}. "
            "Write `def rule(dy): return ...`."
        )
    names: set[str] = set()
    required: set[str] = set()
    for parameter in signature_of(function).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and "variables" in offered:
            names.add("variables")  # wrappers written for stock TensorFlow pass them on
        asked = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        needed = parameter.default is inspect.Parameter.empty
        # Stock TensorFlow has `variables=None` and `variables` among the positional parameters.
        stock = not needed or parameter.name == "variables"
        if parameter.name in offered and (asked or stock):
            names.add(parameter.name)
            required |= {parameter.name} if needed else set()
        elif asked and needed:
            raise RuleSignatureError(_unknown(function, parameter.name, offered))
    kept = names | ({"original"} if mentions(function, DEFAULT) else set())
    return Request(frozenset(names), frozenset(required), frozenset(kept))


def _unknown(function: Any, name: str, offered: tuple[str, ...]) -> str:
    listing = "; ".join(f"`{offer}`: {OFFERED[offer]}" for offer in offered)
    known = "which is not on offer here" if name in OFFERED else "which does not exist"
    return (
        f"rule {name_of(function)} ({location_of(function)}) asks for `{name}`, {known}. "
        f"A rule may ask for {listing}. Give `{name}` a default value if it is your own."
    )


def _upstream_counts(signature: inspect.Signature, requested: frozenset[str]) -> tuple[int, float]:
    """The fewest and the most upstream gradients that a rule of this signature takes."""
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [p for p in signature.parameters.values() if p.name not in requested]
    taken = [p for p in parameters if p.kind in positional]
    any_number = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    return sum(p.default is p.empty for p in taken), math.inf if any_number else len(taken)


def _upstream_names(count: int, per: str) -> str:
    name = "dy" if per == "output" else "dx"
    return name if count == 1 else ", ".join(f"{name}{i}" for i in range(count))


def _identifier(name: str) -> str:
    return name if name.isidentifier() else "rule"
