"""What runs in a call and can be named in an override: functions, op types, layers and layer classes.

The call runs once, forward and backward. Calls of functions and layers are seen by a profile function, which knows the
code of every public function; whether they decide anything is read off the flow of gradients. What the call changes
is put back: variables and random numbers.
"""

from __future__ import annotations

import contextlib
import inspect
import random
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.override import scope
from pullback.engines.tensorflow.override.listing.flow import Flow, Run, observed
from pullback.engines.tensorflow.override.listing.names import Names, public_functions
from pullback.engines.tensorflow.override.op_names import innermost, names_inside
from pullback.engines.tensorflow.override.targets import layer_call_function, meaning, origin
from pullback.engines.tensorflow.state import (
    State,
    python_random_kept,
    reachable_variables,
)
from pullback.engines.tensorflow.tf_private import overriding
from pullback.errors import PullbackError, TargetError
from pullback.extend import Kind, Target, flatten, original_code, unflatten

_MOST_LEAVES = 1000  # of arguments: longer structures hold numbers
# Code of these is not the user's: what they call is reached through the public functions.
_NOT_THEIRS = frozenset(
    {"absl", "keras", "ml_dtypes", "numpy", "optree", "pullback", "tensorflow", "wrapt"}
)


def targets(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], names: Mapping[str, Any]
) -> list[Target]:
    """What runs in this call and decides its gradient, each with an expression out of these names."""
    watch = _Watch(Flow(), function)
    with _state_kept(function, args, kwargs), observed(watch.flow, watch.layer):
        _differentiate(function, args, kwargs, watch)
    naming = Names(function, names)
    rows: dict[tuple[str, str], Target] = {}
    for kind, run in _deciding(watch):
        target, expression = _named(kind, run.what, naming)
        if expression and target is not function:
            _count(rows, kind, expression, target, run.layer)
    taken = {_meaning(entry.target) for o in watch.flow.overrides for entry in o.entries}
    return [replace(row, overridden=_meaning(row.target) in taken) for row in rows.values()]


def _meaning(target: Any) -> Any:
    return meaning(origin(target))


def _deciding(watch: _Watch) -> Iterator[tuple[str, Run]]:
    yield from (("function", run) for run in watch.flow.decides(watch.calls))
    yield from (("op", run) for run in watch.flow.deciding_ops())
    yield from (("layer class", run) for run in watch.flow.decides(watch.classes))
    yield from (("layer", run) for run in watch.flow.decides(watch.layers))


def _named(kind: str, what: Any, naming: Names) -> tuple[Any, str | None]:
    """The target, and an expression for it, if there is one."""
    if kind == "op":
        return what, f'"{what}"'
    if kind == "function":
        return naming.function(*what)
    return what, naming.layer(what) if kind == "layer" else naming.layer_class(what)


def _count(
    rows: dict[tuple[str, str], Target], kind: str, expression: str, target: Any, layer: str | None
) -> None:
    row = rows.get((kind, expression)) or Target(kind, expression, target, 0, ())
    where = row.where if layer is None or layer in row.where else (*row.where, layer)
    rows[kind, expression] = Target(kind, expression, target, row.count + 1, where)


def _differentiate(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any], watch: _Watch
) -> None:
    """Run the call, and the gradient of its outputs towards all that it depends on."""
    leaves, structure = flatten((list(args), dict(kwargs)))
    given = [tf.convert_to_tensor(x) if _is_array(x) else x for x in leaves]
    tensors = [values.gradient_tensor(x) for x in given if isinstance(x, tf.Tensor)]
    sources = [t for t in tensors if values.kind(t) is Kind.DIFFERENTIABLE]
    args, kwargs = unflatten(structure, given)
    with tf.GradientTape() as tape:
        tape.watch(sources)
        with _raised("the call"), watch.profiling():
            outputs = function(*args, **kwargs)
    ends = [t for t in _tensors_in(outputs) if values.kind(t) is Kind.DIFFERENTIABLE]
    watch.flow.ends(ends)
    with _raised("its gradient"):
        tape.gradient(ends, [*sources, *tape.watched_variables()])


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) and leaf.dtype.kind in "fc"


@contextlib.contextmanager
def _raised(what: str) -> Generator[None]:
    try:
        yield
    except PullbackError:
        raise
    except Exception as error:
        raise TargetError(
            f"{what} raised {type(error).__name__}: {error}. Give pb.targets the arguments with which it runs."
        ) from error


@contextlib.contextmanager
def _state_kept(*things: Any) -> Generator[None]:
    """What the block changes of variables and global random numbers is put back."""
    state = State([*reachable_variables(*things), *private.global_generator_state()])
    with contextlib.ExitStack() as undo:
        undo.callback(lambda: state.restore(state.changed()))
        undo.enter_context(python_random_kept())
        undo.enter_context(private.global_seed_kept(random.Random()))
        yield


def _tensors_in(value: Any) -> list[Any]:
    """Tensors and variables in an argument or a result."""
    found: list[Any] = []
    todo: list[Any] = [value]
    while todo and len(found) < _MOST_LEAVES:
        one = todo.pop()
        if isinstance(one, (tf.Tensor, tf.Variable, keras.Variable)):
            found.append(one)
        elif isinstance(one, (tf.RaggedTensor, tf.IndexedSlices)):
            found.append(values.gradient_tensor(one))
        elif isinstance(one, (list, tuple)):
            todo.extend(one)
        elif isinstance(one, dict):
            todo.extend(one.values())
    return found


class _Open(NamedTuple):
    """A call that is running."""

    frame: Any
    what: Any
    run: Run
    slot: int  # its place among the runs, which are in the order in which they began


class _Watch:
    """Sees the calls of functions and layers while a call runs."""

    def __init__(self, flow: Flow, root: Any) -> None:
        self.flow = flow
        self._root = root
        self.calls: list[Run] = []  # of functions: code and module
        self.layers: list[Run] = []  # of layers
        self.classes: list[Run] = []
        self._running: list[Any] = []  # layers
        self._open: list[_Open] = []
        self._layer_call = layer_call_function().__code__
        self._handing_on = overriding.codes_that_call_f()
        self._public = public_functions()
        self._known: dict[Any, tuple[Any, Any] | None] = {}
        self._names: dict[Any, frozenset[str]] = {}  # by which TensorFlow calls them for itself

    def layer(self) -> str | None:
        """The name of the layer that is running."""
        return self._running[-1].name if self._running else None

    @contextlib.contextmanager
    def profiling(self) -> Generator[None]:
        """See all calls of this block."""
        before = sys.getprofile()
        sys.setprofile(self._on_event)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _on_event(self, frame: Any, event: str, result: Any) -> None:
        if event == "call":
            what = self._called(frame)
            if what is not None and scope.current() is not None:
                self._enter(frame, what)
        elif event == "return" and self._open and self._open[-1].frame is frame:
            self._leave(result)

    def _called(self, frame: Any) -> Any:
        """The layer or function that is called in a frame, if it can be a target."""
        code = frame.f_code
        if code is self._layer_call:
            return frame.f_locals["self"]
        if code in self._handing_on:
            function = frame.f_locals["f"]
            function = inspect.unwrap(function) if callable(function) else function
            return self._known_as(getattr(function, "__code__", None), function.__module__)
        found = self._known_as(code, frame.f_globals.get("__name__"))
        names = self._names.get(code) if found is not None else None
        return None if names and overriding.is_call_of_machinery(names, frame) else found

    def _known_as(self, code: Any, module: Any) -> tuple[Any, Any] | None:
        """A public function or one of the user's, as its code and module."""
        if code is None:
            return None
        if code not in self._known:
            package = str(module).partition(".")[0]
            library = package in _NOT_THEIRS or package in sys.stdlib_module_names
            theirs = not library and not code.co_name.startswith("<")
            found = self._public.get(code)
            own = original_code(innermost(found)) if found is not None else code
            self._known[code] = (own, module) if theirs or found is not None else None
            self._names[code] = names_inside(innermost(found)) if found is not None else frozenset()
        return self._known[code]

    def _enter(self, frame: Any, what: Any) -> None:
        is_layer = isinstance(what, keras.Layer)
        given = self.flow.differentiated(_tensors_in(list(frame.f_locals.values())))
        if not is_layer and (not given or any(what == each.what for each in self._open)):
            return  # what runs inside itself is part of the same unit
        runs = self.layers if is_layer else self.calls
        run = Run(what, self.layer(), given, ())
        self._open.append(_Open(frame, what, run, len(runs)))
        runs.append(run)
        if is_layer:
            self._running.append(what)

    def _leave(self, result: Any) -> None:
        _, what, run, slot = self._open.pop()
        tensors = [t for t in _tensors_in(result) if isinstance(t, tf.Tensor)]
        run = run._replace(outputs=self.flow.outputs(tensors))
        if not isinstance(what, keras.Layer):
            self.calls[slot] = run
            return
        self._running.pop()
        self.layers[slot] = run
        kind = getattr(what, "__pullback_class__", type(what))
        if what is not self._root and not any(isinstance(r, kind) for r in self._running):
            self.classes.append(run._replace(what=kind))
