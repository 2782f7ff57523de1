"""An override applied to a function: the same function, with the block around each call."""

from __future__ import annotations

import functools
from typing import Any

from pullback.engines.tensorflow.attach.as_argument import TracedAsItself
from pullback.engines.tensorflow.tf_private import overriding
from pullback.errors import TargetError
from pullback.extend import Activation, Override, reduced


@functools.singledispatch
def overridden(target: Any, override: Override) -> Any:
    """The target under the override; other kinds of targets than functions are registered where they are made."""
    if not callable(target):
        raise TargetError(f"an override applies to a function, layer or model; got {target!r}.")
    return Overridden(Activation(override), target)


class Overridden(TracedAsItself):
    """A function that runs under an override. Use it like the function itself."""

    def __init__(self, activation: Activation, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.__pullback_override__ = activation.override
        self.activation = activation
        self._function = function
        python_function = overriding.python_function_of(function)
        if python_function is None:
            self._run = functools.partial(under, activation, function)
        else:
            # A tf.function gets a twin with traces of its own, so that calling it costs no more than before.
            self._run = overriding.function_like(function, Overridden(activation, python_function))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; what it targets has the rule's gradient."""
        return self._run(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind as a method."""
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> Any:
        return reduced(self, (_applied, (self.__pullback_override__, self._function)))

    def __repr__(self) -> str:
        return f"<{getattr(self, '__name__', 'function')} under {self.__pullback_override__!r}>"


def under(activation: Activation, function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function of the user's under an activation, converted by AutoGraph where it would be."""
    return activation.run(overriding.converted(function), *args, **kwargs)


def _applied(override: Override, function: Any) -> Any:
    return override(function)
