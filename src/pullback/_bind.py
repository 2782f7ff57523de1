"""Arguments: positional and keyword are the same thing, bound by the function's signature.

A plan is made once for each shape of a call (how many positional, which keywords) and used again.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Inputs(Sequence[Any]):
    """The arguments of a call, by position and by parameter name.

    >>> Inputs(("x", "axis"), [1.5, 0])["axis"]
    0
    """

    __slots__ = ("_names", "_values")

    def __init__(self, names: Sequence[str], values: Sequence[Any]) -> None:
        self._names = tuple(names)
        self._values = tuple(values)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self._values[key]
        if key in self._names:
            return self._values[self._names.index(key)]
        raise KeyError(f"no input is called {key!r}; the inputs are {', '.join(self._names)}")

    def __iter__(self) -> Iterator[Any]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Inputs({', '.join(f'{n}={v!r}' for n, v in self.items())})"

    @property
    def names(self) -> tuple[str, ...]:
        """The parameter names, in order."""
        return self._names

    def keys(self) -> tuple[str, ...]:
        """The parameter names, as a mapping has them."""
        return self._names

    def items(self) -> Iterator[tuple[str, Any]]:
        """Pairs of parameter name and value, in order."""
        return zip(self._names, self._values, strict=True)


class Plan:
    """Where each argument of one shape of call goes."""

    __slots__ = ("_sources", "direct", "keywords", "names", "positional")

    def __init__(self, rows: list[tuple[str, bool, Any]], count: int) -> None:
        self.names = tuple(name for name, _, _ in rows)
        self.positional = sum(1 for _, positional, _ in rows if positional)
        self.keywords = self.names[self.positional :]
        self._sources = [source for _, _, source in rows]
        self.direct = self._sources == [_Slot(i) for i in range(count)] and not self.keywords

    def renamed(self, names: Mapping[str, str]) -> Plan:
        """The same plan, with other names for some of the arguments."""
        plan = copy.copy(self)
        plan.names = tuple(names.get(name, name) for name in self.names)
        return plan

    def values(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments in the order of the signature, defaults included."""
        return [source.of(args, kwargs) for source in self._sources]

    def call(self, function: Callable[..., Any], values: Sequence[Any]) -> Any:
        """Call the function with arguments in the order of the signature."""
        if not self.keywords:
            return function(*values)
        split = self.positional
        return function(*values[:split], **dict(zip(self.keywords, values[split:], strict=True)))


class Binder:
    """Makes and keeps the plans of one function."""

    __slots__ = ("_function", "_plans", "signature")

    def __init__(self, function: Callable[..., Any], plans: dict[Any, Plan] | None = None) -> None:
        self._function = function
        self._plans: dict[Any, Plan] = {} if plans is None else plans
        self.signature = signature_of(function)

    def plan(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Plan:
        """The plan for a call with so many arguments and these keywords."""
        key = (len(args), *kwargs) if kwargs else len(args)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._make(len(args), tuple(kwargs))
        return plan

    def _make(self, count: int, keywords: tuple[str, ...]) -> Plan:
        slots = [_Slot(i) for i in range(count)]
        try:
            bound = self.signature.bind(*slots, **{name: _Slot(name) for name in keywords})
        except TypeError as error:
            raise TypeError(f"{name_of(self._function)}{self.signature}: {error}") from None
        bound.apply_defaults()
        rows: list[tuple[str, bool, Any]] = []
        for parameter in self.signature.parameters.values():
            rows += _rows(parameter, bound.arguments[parameter.name])
        return Plan(rows, count)


class _Slot:
    """An argument of the call, by position or keyword."""

    __slots__ = ("key",)

    def __init__(self, key: int | str) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Slot) and self.key == other.key

    __hash__ = None  # type: ignore[assignment]  # compared, never hashed

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return args[self.key] if isinstance(self.key, int) else kwargs[self.key]


class _Default:
    """A parameter that the call left at its default."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        del args, kwargs
        return self.value


def _rows(parameter: inspect.Parameter, value: Any) -> list[tuple[str, bool, Any]]:
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return [(f"{parameter.name}[{i}]", True, slot) for i, slot in enumerate(value)]
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        return [(name, False, slot) for name, slot in value.items()]
    source = value if isinstance(value, _Slot) else _Default(value)
    return [(parameter.name, parameter.kind in _POSITIONAL, source)]


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The signature; for a callable that has none, any arguments."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.signature(_anything)


def name_of(function: Any) -> str:
    """A short name for messages."""
    return getattr(function, "__name__", None) or type(function).__name__


def _anything(*args: Any, **kwargs: Any) -> None:
    """The signature of a callable that does not tell its own."""
