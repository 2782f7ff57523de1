"""State of a checked function: variables it reads or writes, random numbers it draws."""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private

_DEPTH = 6
_MANY = 1000
DEAD_ENDS = (ModuleType, type, str, bytes, int, float, complex, np.ndarray, tf.Tensor, tf.DType)


class State:
    """Variables that a call may change, with the values they had."""

    def __init__(self, variables: Iterable[Any]) -> None:
        self.variables: list[Any] = []
        self.saved: list[Any] = []
        self.add(variables)

    def add(self, variables: Iterable[Any]) -> list[Any]:
        """Watch over these as well, with the values they have now; which of them are new."""
        known = {id(v) for v in self.variables}
        new = list({id(v): v for v in variables if id(v) not in known}.values())
        self.variables += new
        self.saved += [_read(v) for v in new]
        return new

    def take(self, other: "State") -> None:
        """Put back, when the time comes, what another state has saved."""
        self.variables += other.variables
        self.saved += other.saved

    def changed(self) -> list[Any]:
        """The variables whose value differs from the saved one."""
        pairs = zip(self.variables, self.saved, strict=True)
        return [v for v, old in pairs if not np.array_equal(_read(v), old, equal_nan=_floats(old))]

    def restore(self, only: Iterable[Any] | None = None) -> None:
        """Write the saved values back, to all variables or to these only."""
        wanted = None if only is None else {id(v) for v in only}
        for variable, old in zip(self.variables, self.saved, strict=True):
            if wanted is None or id(variable) in wanted:
                variable.assign(old)


def reachable_variables(*things: Any) -> list[Any]:
    """Variables that functions, layers, methods or other objects can get at by name."""
    seen: set[int] = set()
    found = [v for thing in things for v in _reach(thing, _DEPTH, seen)]
    return list({id(v): v for v in found}.values())


def _reach(thing: Any, depth: int, seen: set[int]) -> Iterator[Any]:
    if isinstance(thing, tf.Variable):
        yield thing
    elif isinstance(thing, tf.Module) or _is_layer(thing):
        yield from (raw_variable(v) for v in thing.variables)
    elif depth and id(thing) not in seen and not isinstance(thing, DEAD_ENDS):
        seen.add(id(thing))
        for inner in parts(thing):
            yield from _reach(inner, depth - 1, seen)


def parts(thing: Any) -> Iterator[Any]:
    """What a container holds, a function refers to, or an object has as attributes."""
    if isinstance(thing, list | tuple | set):
        yield from itertools.islice(thing, _MANY)
    elif isinstance(thing, dict):
        yield from itertools.islice(thing.values(), _MANY)
    else:
        for name in ("__self__", "__wrapped__", "python_function", "func"):
            yield getattr(thing, name, None)
        yield from vars(thing).values() if hasattr(thing, "__dict__") else ()
        if hasattr(thing, "__code__"):
            yield from _named_in(thing)


def _named_in(function: Any) -> Iterator[Any]:
    """What the code of a function names: cells, and globals that may lead to variables."""
    yield from (_content(cell) for cell in function.__closure__ or ())
    known = function.__globals__
    names = set(code_names(function.__code__))
    for name in names & known.keys():
        value = known[name]
        if isinstance(value, ModuleType):
            yield from (
                vars(value)[n] for n in names & vars(value).keys() if _holds(vars(value)[n])
            )
        elif not callable(value) or _is_layer(value) or _same_package(value, known):
            yield value


def code_names(code: Any) -> Iterator[str]:
    """Global names and attributes in a function and the functions written inside it."""
    yield from code.co_names
    for inner in code.co_consts:
        if hasattr(inner, "co_names"):
            yield from code_names(inner)


def _holds(value: Any) -> bool:
    return isinstance(value, tf.Variable | tf.Module) or _is_layer(value)


def _same_package(value: Any, known: dict[str, Any]) -> bool:
    theirs, ours = getattr(value, "__module__", None) or "", known.get("__name__") or ""
    return theirs.partition(".")[0] == ours.partition(".")[0]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _is_layer(thing: Any) -> bool:
    return (
        hasattr(thing, "trainable_weights")
        and hasattr(thing, "variables")
        and not isinstance(thing, type)
    )


def raw_variable(variable: Any) -> Any:
    """TensorFlow's variable inside Keras' wrapper of one."""
    return (
        getattr(variable, "value", variable) if not isinstance(variable, tf.Variable) else variable
    )


def _read(variable: Any) -> Any:
    return np.array(tf.convert_to_tensor(variable))


def _floats(array: Any) -> bool:
    return array.dtype.kind in "fc"


def seeded(run: Callable[[], Any], seed: int) -> Any:
    """Run with the global random numbers of TensorFlow, NumPy and Python at a fixed start."""
    numpy_before, python_before = np.random.get_state(), random.getstate()
    with private.global_seed_kept():
        np.random.seed(seed % 2**32)
        random.seed(seed)
        tf.random.set_seed(seed)
        try:
            return run()
        finally:
            np.random.set_state(numpy_before)
            random.setstate(python_before)
