"""State of a checked function: variables it reads or writes, random numbers it draws."""

import contextlib
import random
import threading
from collections.abc import Generator, Iterable
from contextvars import ContextVar
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import stateful_operations as ops
from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.closed_over import inside
from pullback.engines.tensorflow.tf_private import explaining, keras_models
from pullback.engines.tensorflow.tf_private.recording import calls_seen
from pullback.engines.tensorflow.values import is_variable, underlying
from pullback.extend import Setting, walk

TRACED = "a function traced before, whose random numbers may not be held"
_HOLDERS = (tf.Module, keras.Layer, keras.Metric, keras.Optimizer)


class State:
    """Variables that a call may change, with the values they had.

    Every run of the function begins with these values, and so does every program traced from it: what an earlier run
    wrote is put back by the run itself. Nothing is put back between a run and its gradient, as nobody does.
    """

    def __init__(self, variables: Iterable[Any]) -> None:
        self.saved: dict[int, tuple[Any, Any]] = {}
        self.add(variables)

    def add(self, variables: Iterable[Any]) -> bool:
        """Watch over these as well, with the values they have now; whether any of them is new."""
        new = {id(v): (v, _read(v)) for v in variables if id(v) not in self.saved}
        self.saved |= new
        return bool(new)

    def changed(self) -> list[Any]:
        """The variables whose value differs from the saved one."""
        return [v for v, old in self.saved.values() if not _same(_read(v), old)]

    def restore(self, only: Iterable[Any] | None = None) -> None:
        """Write the saved values back, to all variables or to these only; in a graph, whenever it runs."""
        known = self.saved if only is None else [id(v) for v in only]
        for variable, old in map(self.saved.__getitem__, known):
            variable.assign(old)


def variables_of(*things: Any) -> list[Any]:
    """All variables that a call of these may write, with those that random numbers are drawn from."""
    drawn_from = [*private.global_generator_state(), *keras_models.global_seeds()]
    return [*reachable_variables(*things), *drawn_from]


def reachable_variables(*things: Any) -> list[Any]:
    """Variables that functions, layers, methods or other objects can get at by name."""
    found = list(walk(*things, stop=_is_end, inside=inside))
    held = [v for thing in found if isinstance(thing, _HOLDERS) for v in _variables_of(thing)]
    variables = map(underlying, [*filter(is_variable, found), *held])
    return list({id(v): v for v in variables}.values())


def _variables_of(holder: Any) -> list[Any]:
    """Those of a model's optimizer and metrics, and what recurrent layers carry on, are not among its own."""
    optimizer = getattr(holder, "optimizer", None)
    own = [] if optimizer is None or not optimizer.built else optimizer.variables
    carried = carried_on(holder)
    return [*holder.variables, *own, *carried, *getattr(holder, "metrics_variables", ())]


def carried_on(holder: Any) -> list[Any]:
    """The states that recurrent layers inside take from one call to the next."""
    layers = keras_models.layers_inside(holder)
    states = tf.nest.flatten([getattr(layer, "states", None) or () for layer in layers])
    return list(filter(is_variable, states))


def _is_end(thing: Any) -> bool:
    return is_variable(thing) or isinstance(thing, (*_HOLDERS, tf.Tensor, tf.DType))


def _read(variable: Any) -> Any:
    """The value, not a copy of it: a variable is assigned another buffer while a tensor holds this one."""
    with private.stop_recording():
        return tf.convert_to_tensor(variable)


def _same(one: Any, other: Any) -> bool:
    if explaining.address(one) == explaining.address(other) != 0:
        return True
    floating = other.dtype.is_floating or other.dtype.is_complex
    return np.array_equal(one, other, equal_nan=floating)


_SEEN: ContextVar[set[str] | None] = ContextVar("draws seen", default=None)
_numpys = Setting(np.random.get_state, np.random.set_state)
_pythons = Setting(random.getstate, random.setstate)


@contextlib.contextmanager
def python_random_kept() -> Generator[None]:
    """What the block draws of the global random numbers of NumPy and Python is drawn again by what follows."""
    with _numpys.kept(), _pythons.kept():
        yield


def random_state_kept(seed: int) -> contextlib.ExitStack:
    """Until this is closed, the global random numbers of TensorFlow, NumPy and Python are others.

    Those of NumPy and Python start at a seed. To seed TensorFlow's as well empties its cache of kernels.
    """
    stack = contextlib.ExitStack()
    stack.enter_context(python_random_kept())
    stack.enter_context(private.global_seed_kept(random.Random()))
    stack.enter_context(keras_models.global_seeds_kept())
    np.random.seed(seed % 2**32)
    random.seed(seed)
    return stack


@contextlib.contextmanager
def draws_seen() -> Generator[set[str]]:
    """What draws random numbers while the block runs: operations, also of functions traced before, NumPy and Python."""
    seen = set[str]()

    def see_op(kind: Any, *_: Any, **_more: Any) -> None:
        seen.update({tf.compat.as_str(kind)} & ops.RANDOM)

    thread = threading.get_ident()

    def see_call(name: str) -> None:
        if threading.get_ident() == thread:
            found = private.types_in_function(name, ops.RANDOM)
            seen.update(found, [TRACED] * bool(found))

    token = _SEEN.set(seen)
    try:
        with calls_seen(see_call), private.ops_seen_by(see_op, first=True):
            yield seen
    finally:
        _SEEN.reset(token)


@contextlib.contextmanager
def seeded(seed: int) -> Generator[None]:
    """Let the global random numbers of TensorFlow, NumPy and Python be those from a fixed start."""
    with random_state_kept(seed):
        tf.random.set_seed(seed)
        seen = _SEEN.get()
        before = None if seen is None else _pythons_and_numpys()
        yield
        if seen is not None and _pythons_and_numpys() != before:
            seen.add("random")


def _pythons_and_numpys() -> Any:
    return random.getstate(), str(np.random.get_state())
