"""Functions with a gradient of their own, or under an override, in the hands of tf.function.

As an argument, TensorFlow replaces them by whatever their `__wrapped__` leads to: the plain function, without its rule.
An argument that says itself how it is traced stays what it is. As the function to trace, AutoGraph would convert our
`__call__`, since the user asked for it, although nothing else of this package is converted.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.extend import provide


def install() -> None:
    """Let functions with a gradient of their own say how they are traced."""
    provide("__tf_tracing_type__", traced_as_itself)
    provide("autograph_info__", _called_as_it_is)


def traced_as_itself(value: Any) -> Callable[[Any], Itself]:
    """What TensorFlow calls to know how an object is traced: as itself, whatever it wraps."""
    return functools.partial(_tracing_type, weakref.ref(value))


def _called_as_it_is(value: Any) -> dict[str, Any]:
    """What AutoGraph looks for on a callable that it shall not convert."""
    del value
    return {}


class TracedAsItself:
    """A wrapper that tf.function takes as it is; properties come before what was copied from the wrapped function."""

    __tf_tracing_type__ = property(traced_as_itself)
    autograph_info__ = property(_called_as_it_is)


def _tracing_type(reference: weakref.ref[Any], context: Any) -> Itself:
    del context
    return Itself(reference())


class Itself(tf.types.experimental.TraceType):
    """The type of one Python object and of nothing else; it does not keep the object alive."""

    def __init__(self, value: Any) -> None:
        self._reference = weakref.ref(value)
        self._hash = hash(self._reference)

    def is_subtype_of(self, other: Any) -> bool:
        """Whether the other is of the same object."""
        return self == other

    def most_specific_common_supertype(self, others: Sequence[Any]) -> Itself | None:
        """This one, where all are of the same object."""
        return self if all(self == other for other in others) else None

    def placeholder_value(self, placeholder_context: Any = None) -> Any:
        """The object itself."""
        del placeholder_context
        return self._reference()

    def cast(self, value: Any, cast_context: Any = None) -> Any:
        """The object again; no other can stand for it."""
        del cast_context
        if value is not self._reference():
            raise ValueError(f"a function traced for {self._reference()!r} was given {value!r}")
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Itself):
            return NotImplemented
        return self is other or (
            self._reference() is not None and self._reference() is other._reference()
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"Itself({self._reference()!r})"
