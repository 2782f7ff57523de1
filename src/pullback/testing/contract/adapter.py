"""What the author of an engine writes for the contract suite: the framework's arrays, and its modes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from pullback.errors import UnsupportedError

Function: TypeAlias = Callable[..., Any]
# (function, arguments, variables) -> gradient of the sum of all outputs for each argument, then each variable
Gradients: TypeAlias = Callable[[Function, Sequence[Any], Sequence[Any]], list[Any]]

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
ABSENT: Final = "the adapter has none to offer"


def _absent(*_: Any) -> Any:
    raise UnsupportedError(ABSENT)


def _itself(variable: Any) -> Any:
    return variable


@dataclasses.dataclass(frozen=True)
class Mode:
    """A way to run and differentiate a function. Any class with these attributes will do."""

    gradients: Gradients
    gives_none: bool = True  # where nothing flows; some modes have zeros instead
    takes_variables: bool = True
    is_forward: bool = False  # the gradient is put together from tangents


@dataclasses.dataclass(frozen=True)
class Adapter:
    """The framework as the cases see it. Arrays take `+`, `*` (with Python numbers too), `[]` and have a `shape`."""

    modes: Mapping[str, Any]  # one is called "eager": nothing is traced in it
    array: Callable[[Any, str], Any]  # values and the name of a dtype, as NumPy has it
    to_numpy: Callable[[Any], np.ndarray]
    dtype: Callable[[Any], str]  # NumPy's name for it; known while tracing, too
    cast: Callable[[Any, str], Any]
    sum: Callable[[Any, int], Any]  # along one axis
    sin: Function  # also the target of overrides: the framework's own function
    variable: Callable[[Any, str], Any] = _absent  # values and a name; takes `*` like an array
    key: Callable[[Any], Any] = _itself  # what stands for a variable as a key of a dict
    layer: Callable[[], Any] = _absent  # a new layer without weights: the sine of its input
    # Modes that give the gradient of the sum of the squares of all gradients.
    second_order: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    # What the engine cannot do, and why: the engine's own table, with keys out of CAPABILITIES.
    cannot: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    # Errors of the framework that carry our words where a fault shows only when a traced program runs.
    late_errors: tuple[type[Exception], ...] = ()
