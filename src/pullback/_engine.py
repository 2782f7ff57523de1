"""What pullback needs of a framework, and how the engine for a value is found.

An engine is one folder under `engines/` and one line in `TABLE`. Nothing here imports a framework: an engine
is loaded when a value of its framework turns up.
"""

from __future__ import annotations

import enum
import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from pullback.errors import EngineError

if TYPE_CHECKING:
    from pullback._function import Definition
    from pullback._overriding import OverrideEngine
    from pullback._pullback import Job
    from pullback.check.probe import Probes

# framework module -> engine module; a second name is a library that only hands on the first one's values
TABLE = {"tensorflow": "pullback.engines.tensorflow"}
ALIASES = {"keras": "tensorflow"}


class Kind(enum.IntEnum):
    """How a leaf of the arguments takes part in differentiation."""

    STATIC = 0  # None, a string, a function, a flag
    NUMBER = 1  # a Python number or NumPy array: a value, but nothing flows into it
    TENSOR = 2  # a tensor that carries no gradient, such as integers
    DIFFERENTIABLE = 3


class Engine(Protocol):
    """What an engine does for the core. Arrays and plain data cross back, nothing else."""

    name: str

    def kind(self, leaf: Any) -> Kind:
        """How this leaf takes part in differentiation."""
        ...

    def attach(self, job: Job, leaves: Sequence[Any]) -> Any:
        """Run the job's function so that its own pullback is used for it; its outputs."""
        ...

    def like(self, leaf: Any) -> Any:
        """What must be remembered of an input to project a gradient to it, without keeping it."""
        ...

    def fits(self, gradient: Any, like: Any) -> bool:
        """Whether the gradient is already as `project` would make it. Must be fast."""
        ...

    def project(self, gradient: Any, like: Any, blame: Callable[[str], Exception]) -> Any:
        """The gradient in the form of its input, or the error that `blame` makes of a reason."""
        ...

    def multiply(self, upstream: Any, partial: Any, blame: Callable[[str], Exception]) -> Any:
        """The upstream gradient times a partial derivative, which may have further axes behind its own."""
        ...

    def same_variable(self, key: Any, variable: Any) -> bool:
        """Whether a key of a rule's result means this variable."""
        ...

    @property
    def overrides(self) -> OverrideEngine:
        """What the engine does for `override`."""
        ...

    @property
    def probes(self) -> Probes:
        """What the engine does for `check`."""
        ...

    def wrap(
        self, target: Any, define: Callable[[Any], Definition], make: tuple[Any, ...]
    ) -> Any | None:
        """Where `target` is a layer or model, one whose call has the definition; else `None`."""
        ...


_engine_of_type: dict[type, Engine | None] = {}
_loaded: dict[str, Engine] = {}


def engine_of(values: Iterable[Any]) -> Engine:
    """The engine whose framework made one of these values; else the only one that is loaded."""
    for value in values:
        engine = engine_of_type(type(value))
        if engine is not None:
            return engine
    return only_engine()


def engine_of_type(kind: type) -> Engine | None:
    """The engine to whose framework this class belongs, if any."""
    try:
        return _engine_of_type[kind]
    except KeyError:
        engine = _engine_of_type[kind] = _find(kind)
        return engine


def only_engine() -> Engine:
    """The engine of the one supported framework that this process has imported."""
    present = [name for name in TABLE if name in sys.modules]
    if len(present) == 1:
        return load(present[0])
    found = f"more than one: {', '.join(present)}" if present else "none"
    raise EngineError(
        f"no argument belongs to a framework, and of the supported ones ({', '.join(TABLE)}) "
        f"this process has imported {found}. Pass at least one tensor."
    )


def load(framework: str) -> Engine:
    """The engine of a framework, loaded once."""
    if framework not in _loaded:
        _loaded[framework] = importlib.import_module(TABLE[framework]).engine()
    return _loaded[framework]


def load_present() -> None:
    """Load the engines of all frameworks that are imported: their files may name our classes."""
    for framework in TABLE:
        if framework in sys.modules:
            load(framework)


def _find(kind: type) -> Engine | None:
    for base in kind.__mro__:
        root = base.__module__.partition(".")[0]
        framework = ALIASES.get(root, root)
        if framework in TABLE and framework in sys.modules:
            return load(framework)
    return None
