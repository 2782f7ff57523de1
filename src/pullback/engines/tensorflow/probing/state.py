"""State of a checked function: variables it reads or writes, random numbers it draws."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

_DEPTH = 3


class State:
    """Variables that a call may change, with the values they had."""

    def __init__(self, variables: Iterable[Any]) -> None:
        self.variables = list({id(v): v for v in variables}.values())
        self.saved = [_read(v) for v in self.variables]

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


def reachable_variables(fn: Any) -> list[Any]:
    """Variables that a function, layer, module or method can get at by name."""
    return list({id(v): v for v in _reach(fn, _DEPTH)}.values())


def _reach(thing: Any, depth: int) -> Iterator[Any]:
    if isinstance(thing, tf.Variable):
        yield thing
        return
    if isinstance(thing, tf.Module) or _is_layer(thing):
        yield from (_raw(v) for v in thing.variables)
        return
    if depth == 0:
        return
    if isinstance(thing, list | tuple):
        for item in thing:
            yield from _reach(item, depth - 1)
    elif isinstance(thing, dict):
        yield from _reach(list(thing.values()), depth)
    else:
        yield from _reach_inside(thing, depth - 1)


def _reach_inside(thing: Any, depth: int) -> Iterator[Any]:
    for name in ("__self__", "__wrapped__", "python_function", "func"):
        inner = getattr(thing, name, None)
        if inner is not None and inner is not thing and not isinstance(inner, type(tf)):
            yield from _reach(inner, depth)
    code = getattr(thing, "__code__", None)
    if code is None:
        return
    for cell in getattr(thing, "__closure__", None) or ():
        yield from _reach(_content(cell), depth)
    known = getattr(thing, "__globals__", {})
    for name in code.co_names:
        if isinstance(known.get(name), tf.Variable | tf.Module) or _is_layer(known.get(name)):
            yield from _reach(known[name], depth)


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


def _raw(variable: Any) -> Any:
    return (
        getattr(variable, "value", variable) if not isinstance(variable, tf.Variable) else variable
    )


def _read(variable: Any) -> Any:
    return np.array(tf.convert_to_tensor(variable))


def _floats(array: Any) -> bool:
    return array.dtype.kind in "fc"


def seeded(run: Callable[[], Any], seed: int) -> Any:
    """Run with TensorFlow's and NumPy's global random numbers at a fixed start."""
    before = np.random.get_state()
    np.random.seed(seed)
    tf.random.set_seed(seed)
    try:
        return run()
    finally:
        np.random.set_state(before)
