"""Functions with a gradient of their own, or under an override, in the hands of tf.function.

As an argument, TensorFlow replaces them by whatever their `__wrapped__` leads to: the plain function, without its rule.
An argument that says itself how it is traced stays what it is. As the function to trace, AutoGraph would convert our
`__call__`, since the user asked for it, although nothing else of this package is converted.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from pullback.engines.tensorflow import tf_private as private
from pullback.extend import provide


def install() -> None:
    """Let functions with a gradient of their own say how they are traced."""
    provide("__tf_tracing_type__", traced_as_itself)
    provide("autograph_info__", _skip_autograph)


def traced_as_itself(value: Any) -> Callable[[Any], Itself]:
    """What TensorFlow calls to know how an object is traced: as itself, whatever it wraps."""
    reference = weakref.ref(value)

    def tracing_type(_: Any) -> Itself:
        return Itself(reference)

    return tracing_type


def _skip_autograph(value: Any) -> dict[str, Any]:
    """What AutoGraph looks for on a callable that it shall not convert."""
    del value
    return {}


class TracedAsItself:
    """A wrapper that tf.function takes as it is; properties come before what was copied from the wrapped function."""

    __tf_tracing_type__ = property(traced_as_itself)
    autograph_info__ = property(_skip_autograph)


class Itself(private.Weakref):
    """The type of one Python object and of nothing else, not even of what is wrapped around it."""

    def cast(self, value: Any, _: Any) -> Any:
        """The object again; no other can stand for it."""
        own = self.placeholder_value(None)
        if value is not own:
            raise ValueError(f"a function traced for {own!r} was given {value!r}")
        return value
