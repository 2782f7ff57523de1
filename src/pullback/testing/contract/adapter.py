"""What the author of an engine writes for the contract suite: the framework's arrays, and its modes."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from pullback.errors import UnsupportedError

Function: TypeAlias = Callable[..., Any]

CAPABILITIES: Final = MappingProxyType(
    {
        "second order": "gradients of gradients",
        "forward mode": "tangents, by an explicit jvp or by transposing the rule",
        "variables": "state that a function reads without being given it",
        "closures": "gradients for arrays that a function closes over",
        "complex": "complex arrays",
        "override": "rules for functions in code that somebody else wrote",
        "layers": "layers as targets of an override",
    }
)


@dataclasses.dataclass(frozen=True)
class Mode:
    """A way to run and differentiate a function. Any class with these attributes will do."""

    # (function, arguments, variables) -> gradient of the sum of all outputs for each argument, then each variable
    gradients: Callable[[Function, Sequence[Any], Sequence[Any]], list[Any]]
    gives_none: bool = True  # where nothing flows; some frameworks and modes have zeros instead
    takes_variables: bool = True
    is_forward: bool = False  # the gradient is put together from tangents


class Adapter(abc.ABC):
    """The framework as the cases see it. Arrays take `+`, `*` (with Python numbers too), `[]` and have a `shape`."""

    # What the engine cannot do, and why: the engine's own table. Keys are those of CAPABILITIES.
    cannot: Mapping[str, str] = MappingProxyType({})
    # Modes by name. One is called "eager": nothing is traced in it.
    modes: Mapping[str, Any]
    # Modes that give the gradient of the sum of the squares of all gradients.
    second_order: Mapping[str, Any] = MappingProxyType({})
    # Errors of the framework that carry our words where a fault shows only when a traced program runs.
    late_errors: tuple[type[Exception], ...] = ()

    @abc.abstractmethod
    def array(self, values: Any, dtype: str = "float32") -> Any:
        """An array of a dtype that NumPy names."""

    @abc.abstractmethod
    def to_numpy(self, x: Any) -> np.ndarray:
        """The values of an array."""

    @abc.abstractmethod
    def dtype(self, x: Any) -> str:
        """NumPy's name of the dtype; known while tracing, too."""

    @abc.abstractmethod
    def cast(self, x: Any, dtype: str) -> Any:
        """The array in another dtype."""

    @abc.abstractmethod
    def sum(self, x: Any, axis: int) -> Any:
        """The sum along one axis."""

    @abc.abstractmethod
    def sin(self, x: Any) -> Any:
        """The sine. It is the target of overrides: make it the framework's own function."""

    def variable(self, values: Any, name: str) -> Any:
        """A trainable variable that takes `*` like an array."""
        del values, name
        raise UnsupportedError(self.cannot.get("variables", "declare `variables` in `cannot`"))

    def key(self, variable: Any) -> Any:
        """What stands for a variable as a key of a dict."""
        return variable

    def layer(self) -> Any:
        """A layer without weights that gives the sine of its input."""
        raise UnsupportedError(self.cannot.get("layers", "declare `layers` in `cannot`"))
