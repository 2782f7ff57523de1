"""What the author of an engine writes for the contract suite: the framework's arrays, and its modes."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

import numpy as np

from pullback.errors import UnsupportedError

Function: TypeAlias = Callable[..., Any]
Gradients: TypeAlias = Callable[[Function, Sequence[Any], Sequence[Any]], list[Any]]

CAPABILITIES: Final = MappingProxyType(
    {
        "second order": "gradients of gradients",
        "forward mode": "tangents: by an explicit jvp, or by transposing the rule",
        "variables": "state that a function reads without being given it",
        "closures": "gradients for arrays that a function closes over",
        "complex": "complex arrays",
        "override": "rules for functions in code that somebody else wrote",
        "layers": "layers as targets of an override",
    }
)


class AnyMode(Protocol):
    """A way to run and differentiate a function."""

    @property
    def gradients(self) -> Gradients:
        """From function, arguments and variables to the gradient of the sum of all outputs for each of them."""
        ...

    @property
    def gives_none(self) -> bool:
        """Whether `None` comes out where nothing flows, and not zeros."""
        ...

    @property
    def takes_variables(self) -> bool:
        """Whether gradients of variables can be asked for."""
        ...

    @property
    def is_forward(self) -> bool:
        """Whether the gradient is put together from tangents."""
        ...


@dataclasses.dataclass(frozen=True)
class Mode:
    """A mode, for an engine that has no class of its own for it."""

    gradients: Gradients
    gives_none: bool = True
    takes_variables: bool = True
    is_forward: bool = False


class Adapter(abc.ABC):
    """The framework as the cases see it. Its arrays take `+` and `*`, with Python numbers too, and have a `shape`."""

    # The engine's own: what it cannot do, and why. A case that needs it must raise a PullbackError with the reason.
    cannot: Mapping[str, str] = MappingProxyType({})
    # One of the modes must be called "eager": nothing is traced there.
    modes: Mapping[str, AnyMode]
    # Modes that give the gradient of the sum of the squares of all gradients.
    second_order: Mapping[str, AnyMode] = MappingProxyType({})
    # Errors of the framework that carry our words where something is found only when a traced program runs.
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
        """The sine. It is also the target of overrides: make it the framework's own function."""

    def variable(self, values: Any, name: str) -> Any:
        """A trainable variable that takes `*` like an array."""
        raise UnsupportedError(self.cannot.get("variables", "declare it in `cannot`"))

    def key(self, variable: Any) -> Any:
        """What stands for a variable as a key of a dict."""
        return variable

    def layer(self) -> Any:
        """A layer without weights that gives the sine of its input."""
        raise UnsupportedError(self.cannot.get("layers", "declare it in `cannot`"))
