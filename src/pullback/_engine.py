"""What pullback needs of a framework, and how the engine of a value is found.

An engine is one folder under `engines/` and one line in `TABLE`. Nothing here imports a framework: an engine is
loaded when its framework is there and something has to be recognised. See docs/engines.md for how to write one.
"""

from __future__ import annotations

import abc
import contextlib
import enum
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeAlias

from pullback.errors import EngineError, UnsupportedError

if TYPE_CHECKING:
    from pathlib import Path

    from pullback._audit import Place
    from pullback._call import Call
    from pullback._function import Definition
    from pullback._listing import Target
    from pullback._overriding import OverrideEngine
    from pullback.audit.catalogue import Catalogue
    from pullback.check.probe import Probes
    from pullback.explain.recorder import Recorder
    from pullback.saliency.protocol import SaliencyEngine

TABLE = {"tensorflow": "pullback.engines.tensorflow"}  # framework -> the module of its engine

Shape: TypeAlias = "tuple[int | None, ...]"
Attach: TypeAlias = "Callable[[Call, Sequence[Any]], Any]"


class Kind(enum.IntEnum):
    """How a leaf of the arguments takes part in differentiation."""

    STATIC = 0  # None, a string, a function, a flag
    NUMBER = 1  # a Python number or NumPy array: a value, but nothing flows into it
    TENSOR = 2  # a tensor that carries no gradient, such as integers
    DIFFERENTIABLE = 3


class Spec(NamedTuple):
    """What is remembered of a value so that a gradient can be projected to it; the value itself is not kept."""

    shape: Shape | None  # None: of unknown rank
    dtype: Any  # the framework's
    dynamic: Any = None  # the shape as a value of the framework, where it is known only at run time
    form: Any = None  # the class of a value that is more than an array


class LossScale(Protocol):
    """A factor of the loss, which gradients have in them so that small ones are not lost in 16 bits."""

    def undone(self, gradient: Any) -> Any:
        """A gradient without it, in a format in which it is not lost."""
        ...

    def redone(self, gradient: Any, dtype: Any) -> Any:
        """The gradient with it again, in this dtype; in its own for `None`."""
        ...

    def wide(self, spec: Spec) -> Spec:
        """The spec of a gradient without it."""
        ...

    def in_force(self, value: bool) -> contextlib.AbstractContextManager[None]:
        """A block in which gradients have it in them, or do not."""
        ...


class TracedOp(NamedTuple):
    """An operation of a traced call."""

    name: str
    type: str
    inputs: tuple[str, ...]  # the names of the operations that it reads
    source: str | None = None  # the user's line, where it is known


class Engine(abc.ABC):
    """What an engine does for the core. What is not abstract is optional: its default says that it is missing."""

    name: ClassVar[str]
    # What the engine cannot do, and why: {"forward mode": "the framework has no ..."}.
    cannot: Mapping[str, str] = {}

    # Recognising what belongs to the framework

    @abc.abstractmethod
    def owns_class(self, kind: type) -> bool:
        """Whether values of this class are the framework's: tensors, variables, layers."""

    @abc.abstractmethod
    def owns(self, target: Any) -> bool:
        """Whether a target of an override (a function, a layer, a class) is the framework's."""

    @abc.abstractmethod
    def kind(self, leaf: Any) -> Kind:
        """How this leaf takes part in differentiation."""

    # Arrays: the operations over which the core projects gradients

    @abc.abstractmethod
    def spec_of(self, leaf: Any) -> Spec | None:
        """What to remember of a leaf; `None` for one that is not differentiable."""

    @abc.abstractmethod
    def fits(self, gradient: Any, spec: Spec) -> bool:
        """Whether the gradient has the dtype and shape of the spec already. Must be fast; may be pessimistic."""

    @abc.abstractmethod
    def as_array(self, gradient: Any, spec: Spec) -> Any | None:
        """The gradient as an array of numbers; `None`, or `Mismatch` with a reason, where it is not one."""

    @abc.abstractmethod
    def shape(self, array: Any) -> Shape | None:
        """The shape as far as it is known."""

    @abc.abstractmethod
    def cast(self, array: Any, dtype: Any) -> Any:
        """The array in another dtype; of a complex one, for a real dtype, the real part."""

    @abc.abstractmethod
    def sum_to(self, array: Any, axes: tuple[int, ...], shape: Shape) -> Any:
        """The sum over these axes, in this shape."""

    def sum_to_dynamic(self, array: Any, spec: Spec, error: str) -> Any:
        """Sum over broadcast axes at run time; where that does not give the shape, fail with these words."""
        del array, spec, error
        raise self.unsupported("shapes that are known only at run time")

    def require_shape(self, array: Any, spec: Spec, error: str) -> Any:
        """The array, if it has the shape of the spec when the program runs; else fail with these words."""
        del array, spec, error
        raise self.unsupported("shapes that are known only at run time")

    @abc.abstractmethod
    def zeros(self, spec: Spec) -> Any:
        """Zeros of this spec."""

    @abc.abstractmethod
    def multiply(self, upstream: Any, partial: Any, new_axes: tuple[int, ...]) -> Any:
        """Upstream, with new axes of size 1 so that they are these in the result, times an array of derivatives.

        Of complex ones the conjugate, where that is how the framework defines gradients; in the wider dtype.
        """

    def multiply_dynamic(
        self, upstream: Any, partial: Any, choices: Sequence[tuple[int, ...]], error: str
    ) -> Any:
        """The same with the only choice of new axes that fits at run time; where several do, fail with these words."""
        del upstream, partial, choices, error
        raise self.unsupported("shapes that are known only at run time")

    # Running

    @abc.abstractmethod
    def prepare(self, definition: Definition) -> Attach:
        """How calls of a function with its own gradient are run; asked for once per definition."""

    def loss_scale(self) -> LossScale | None:
        """By what the loss was multiplied whose backward pass runs here; `None` where it was not."""
        return None

    def adapts_loss_scale(self) -> bool:
        """Whether gradients of this backward pass that are not finite tell somebody to scale the loss by less."""
        return False

    def require_linear(
        self,
        results: Sequence[Any],
        rule: Callable[[Sequence[Any]], Sequence[Any]],
        at: Sequence[Any],
        errors: tuple[Exception, Exception],
    ) -> list[Any]:
        """The results, if a rule is linear on random upstreams like `at`, small and large, and ⟨rule(u), t⟩ = ⟨u,
        transpose(t)⟩ for the framework's transpose of it; else the first or second error, now or when the program runs.
        """
        del results, rule, at, errors
        raise self.unsupported("forward mode")

    def wrap(
        self, target: Any, define: Callable[[Any], Definition], make: tuple[Any, ...]
    ) -> Any | None:
        """Where `target` is a layer or model, one whose call has the definition; else `None`."""
        del target, define, make
        return None

    def same_variable(self, key: Any, variable: Any) -> bool:
        """Whether a key of a rule's result means this variable; a text is its name."""
        return key == variable.name if isinstance(key, str) else key is variable

    def origin_of_line(self, file: str, line: int) -> tuple[str, int]:
        """Where the user wrote a line, if the framework runs a rewritten copy of the code."""
        return file, line

    def caller(self) -> Place | None:
        """Where in the user's code this is called from, as far as that is known."""
        return None

    # Abilities with a protocol of their own

    @property
    def overrides(self) -> OverrideEngine:
        """What the engine does for `override`."""
        raise self.unsupported("override")

    @property
    def probes(self) -> Probes:
        """What the engine does for `check`."""
        raise self.unsupported("check")

    @property
    def recorder(self) -> Recorder:
        """What the engine does for `explain`."""
        raise self.unsupported("explain")

    def for_keras(self, name: str) -> Any:
        """What `pullback.keras` has under this name: a class for Keras as it runs on the framework."""
        del name
        raise self.unsupported("Keras")

    @property
    def arrays(self) -> Any:
        """What ready-made rules compute with: functions of arrays, by NumPy's names where it has them."""
        raise self.unsupported("ready-made rules")

    @property
    def saliency(self) -> SaliencyEngine:
        """What the engine does for `saliency`."""
        raise self.unsupported("saliency")

    @property
    def catalogue(self) -> Catalogue:
        """What the framework differentiates by itself, for an audit of it."""
        raise self.unsupported("audit")

    @property
    def modes(self) -> Mapping[str, Any]:
        """The ways of running a function that the framework has, by name; the contract suite runs in each."""
        raise self.unsupported("modes")

    def precision(self, dtype: str) -> contextlib.AbstractContextManager[Any]:
        """A block in which arrays of this precision can be made and computed with."""
        raise self.unsupported(f"precision {dtype}")

    def trace(self, function: Callable[..., Any], *args: Any) -> Sequence[TracedOp]:
        """The operations that a call runs, in order."""
        del function, args
        raise self.unsupported("trace")

    def targets(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        names: Mapping[str, Any],
    ) -> Sequence[Target]:
        """What runs in a call and decides its gradient, with expressions out of the caller's names. State is kept."""
        del function, args, kwargs, names
        raise self.unsupported("override")

    def read_model(self, path: Path) -> Callable[..., Any] | None:
        """The model that a file or folder holds; `None` where it holds none of the framework's."""
        del path
        return None

    def call_specs(self, model: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """What a model says that it takes, with a `Spec` (its dtype a name) in place of each tensor; else `None`."""
        del model
        return None

    def unsupported(self, what: str) -> UnsupportedError:
        """The error that says what this engine cannot do, and why."""
        reason = self.cannot.get(what, "it is not part of this engine yet")
        return UnsupportedError(f"the {self.name} engine cannot do this: {what}; {reason}.")


_engine_of_class: dict[type, Engine | None] = {}
_loaded: dict[str, Engine] = {}


def engine_of(values: Iterable[Any]) -> Engine:
    """The engine whose framework made one of these values; else the only one that is loaded."""
    for value in values:
        try:
            engine = _engine_of_class[type(value)]
        except KeyError:
            engine = engine_of_class(type(value))
        if engine is not None:
            return engine
    return only_engine()


def engine_of_class(kind: type) -> Engine | None:
    """The engine to whose framework this class belongs, if any."""
    if kind not in _engine_of_class:
        _engine_of_class[kind] = next((e for e in present() if e.owns_class(kind)), None)
    return _engine_of_class[kind]


def engine_of_targets(targets: Iterable[Any]) -> Engine:
    """The engine to which one of these functions, layers or classes belongs; else the only one."""
    for target in targets:
        for engine in present():
            if engine.owns(target):
                return engine
    return only_engine()


def only_engine() -> Engine:
    """The engine of the one supported framework that this process has imported."""
    names = _imported()
    if len(names) == 1:
        return load(names[0])
    if not names:
        here = [name for name in TABLE if importlib.util.find_spec(name) is not None]
        first = next(iter(here or TABLE))
        raise EngineError(
            f"this process has imported none of the frameworks that pullback supports ({', '.join(TABLE)}), so there "
            f"is nothing to differentiate with. "
            + (
                f"Write `import {first}` before."
                if here
                else f"None of them is installed: `pip install 'pullback[{first}]'`."
            )
        )
    raise EngineError(
        f"nothing here belongs to a framework, and this process has imported more than one of those that pullback "
        f"supports: {', '.join(names)}. Pass at least one tensor, function or layer of the one that is meant."
    )


def load(framework: str) -> Engine:
    """The engine of a framework, loaded once."""
    if framework not in _loaded:
        _loaded[framework] = importlib.import_module(TABLE[framework]).engine()
        _engine_of_class.clear()
    return _loaded[framework]


def present() -> list[Engine]:
    """The engines of all frameworks that this process has imported; none before the door that they need is there."""
    return [] if _door_is_opening() else [load(framework) for framework in _imported()]


def _door_is_opening() -> bool:
    """Whether `pullback.extend` is being imported: what it imports defines gradients on the way."""
    door = sys.modules.get("pullback.extend")
    return door is not None and not hasattr(door, "is_open")


def loaded() -> Iterable[Engine]:
    """The engines that are in use."""
    return _loaded.values()


def _imported() -> list[str]:
    return [framework for framework in TABLE if framework in sys.modules]
