"""What one can ask about: arguments, variables that were read, tensors that the function closes over."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.closed_over import inside, tensors_of
from pullback.engines.tensorflow.explaining.subject import Subject
from pullback.engines.tensorflow.values import is_variable
from pullback.errors import ExplainError
from pullback.extend import describe, flow, sources, walk

_UNNAMED = "Variable"  # what TensorFlow calls a variable without a name


Met = Callable[[Any], tuple[int, ...]]  # the values that a thing is, if it was met


class Sources:
    """The sources of a run, and which values stand for them."""

    def __init__(
        self, subject: Subject, variables: Sequence[Any], wrt: Sequence[Any] | None
    ) -> None:
        self.subject, self.wrt = subject, wrt
        self.asked_for = [
            values.underlying(w) if is_variable(w) else w
            for w in wrt or ()
            if not isinstance(w, str)
        ]
        _require_sources(self.asked_for)
        asked = [v for v in self.asked_for if isinstance(v, tf.Variable)]
        self.variables = list({id(v): v for v in [*variables, *asked]}.values())
        self.keras = _keras_variables(subject.fn)
        self._helpers = _variables_of_helpers(subject.fn)
        self.outside = _outside_of(subject.fn)
        self._names = {id(thing): name for name, thing in self.outside.items()}
        arguments = {id(leaf.tensor) for leaf in subject.leaves}
        given = [t for t in self.asked_for if isinstance(t, private.EagerTensor)]
        tensors = {id(t): t for t in [*_closed_over(subject), *given] if id(t) not in arguments}
        self.tensors = list(tensors.values())
        self.given = [*(leaf.tensor for leaf in subject.leaves), *self.tensors]

    def watched(self) -> list[Any]:
        """What the tape is told to watch: variables it finds by itself."""
        given = [
            leaf.tensor for leaf in self.subject.leaves if not isinstance(leaf.tensor, tf.Variable)
        ]
        return [t for t in [*given, *self.tensors] if values.flows(t)]

    def entries(
        self,
        watched: Iterable[Any],
        met: Met,
        is_read: Callable[[Any], bool],
        more: Iterable[Any] = (),
    ) -> list[sources.Entry]:
        """The sources, once it is known what was met; `more` are sources that the function itself asks about."""
        found = [self._argument(leaf) for leaf in self.subject.leaves]
        more = [t for t in more if t is not None]
        read = [v for v in self.variables if self._may_be_asked(v, is_read)]
        variables = [*watched, *read, *(t for t in more if isinstance(t, tf.Variable))]
        found += [self._variable(v) for v in _new(variables, found)]
        tensors = [*self.tensors, *(t for t in more if not isinstance(t, tf.Variable))]
        for tensor in _new(tensors, found):
            name = self._names.get(id(tensor), f"a tensor of shape {tuple(tensor.shape)}")
            found.append(_entry(tensor, name, "tensor", [tensor]))
        for entry in found:
            entry.values = met(entry.thing)
        sources.number_equal_names(found)
        return found

    def _argument(self, leaf: Any) -> sources.Entry:
        entry = _entry(leaf.tensor, leaf.name, "argument", [leaf.given, leaf.tensor])
        entry.path, entry.position = leaf.path, leaf.position
        return entry

    def _may_be_asked(self, variable: Any, is_read: Callable[[Any], bool]) -> bool:
        """Whether somebody may ask about a variable: not of those of optimizers and metrics, nor of random states."""
        if any(variable is a for a in self.asked_for):
            return True
        read = is_read(variable) and id(variable) not in self._helpers
        return values.flows(variable) and bool(variable.trainable or read)

    def _variable(self, variable: Any) -> sources.Entry:
        kept = self.keras.get(id(variable))
        objects = [variable] if kept is None else [variable, kept]
        entry = _entry(variable, self._variable_name(variable), "variable", objects)
        entry.trainable = bool(variable.trainable if kept is None else kept.trainable)
        if kept is not None:
            entry.layer = tuple(kept.path.split("/")[:-1])
        if not variable.trainable:
            entry.hints.append(flow.Hint.NOT_TRAINABLE)
        elif not entry.trainable:
            entry.hints.append(flow.Hint.FROZEN)
        return entry

    def _variable_name(self, variable: Any) -> str:
        kept = self.keras.get(id(variable))
        if kept is not None:
            return kept.path
        name = variable.name.removesuffix(":0")
        return self._names.get(id(variable), name) if name == _UNNAMED else name

    def wanted(self, entries: list[sources.Entry]) -> list[sources.Entry]:
        """The sources that `wrt` takes in."""
        if self.wrt is None:
            return entries
        found: set[sources.Entry] = set()
        for wanted in self.wrt:
            meant = [e for e in entries if _is_meant(e, wanted)]
            if not meant:
                offered = ", ".join(e.name for e in entries) or "there are none"
                raise ExplainError(
                    f"wrt={wanted!r} names no source of {self.subject.name}. Those are: {offered}."
                )
            found.update(meant)
        return [e for e in entries if e in found]


def _is_meant(entry: sources.Entry, wanted: Any) -> bool:
    if not isinstance(wanted, str):
        wanted = values.underlying(wanted) if is_variable(wanted) else wanted
        return any(wanted is each for each in [*entry.objects, entry.thing])
    names = {entry.name, entry.path, entry.name.partition("[")[0]}
    return wanted in names


def _require_sources(things: Sequence[Any]) -> None:
    for thing in things:
        if not isinstance(thing, (tf.Tensor, tf.Variable, np.ndarray, tf.RaggedTensor)):
            raise ExplainError(
                f"wrt takes names, tensors and variables; got {describe(thing)}. Write `wrt='x'` or `wrt=[variable]`."
            )


def _entry(
    thing: Any, name: str, kind: Literal["argument", "variable", "tensor"], objects: list[Any]
) -> sources.Entry:
    shape, dtype, flows = tuple(thing.shape), thing.dtype.name, values.flows(thing)
    is_variable = isinstance(thing, tf.Variable)
    return sources.Entry(thing, name, kind, shape, dtype, flows, objects, is_variable=is_variable)


def _new(things: Iterable[Any], entries: Iterable[sources.Entry]) -> list[Any]:
    known = {id(entry.thing) for entry in entries}
    return [t for k, t in {id(t): t for t in things}.items() if k not in known]


def _keras_variables(fn: Any) -> dict[int, Any]:
    """Keras' variables that a function can reach, by the TensorFlow variable in them."""
    reached = [
        t
        for t in walk(fn, stop=_is_end, inside=inside)
        if isinstance(t, (keras.Layer, keras.Variable))
    ]
    found = [v for t in reached for v in ([t] if isinstance(t, keras.Variable) else t.variables)]
    return {id(values.underlying(v)): v for v in found}


def _is_end(thing: Any) -> bool:
    return isinstance(thing, (keras.Layer, keras.Variable, tf.Variable, tf.Tensor))


def _variables_of_helpers(fn: Any) -> frozenset[int]:
    """Those of optimizers and metrics, by identity."""
    kinds = (keras.Optimizer, keras.Metric, keras.Model)
    reached = [t for t in walk(fn, stop=_is_end, inside=inside) if isinstance(t, kinds)]
    models = [t for t in reached if isinstance(t, keras.Model)]
    helpers = [t for t in reached if not isinstance(t, keras.Model)]
    helpers += [m.optimizer for m in models if getattr(m, "optimizer", None) is not None]
    helpers += [metric for m in models for metric in m.metrics]
    return frozenset(id(values.underlying(v)) for helper in helpers for v in helper.variables)


def _closed_over(subject: Subject) -> list[Any]:
    fn = subject.fn
    if isinstance(getattr(fn, "__self__", fn), keras.Layer):
        return []
    function = inspect.unwrap(getattr(fn, "python_function", fn))
    found = tensors_of(function, ())
    return [t for t in found if isinstance(t, private.EagerTensor) and values.flows(t)]


def _outside_of(fn: Any) -> dict[str, Any]:
    """What a function closes over, and what it names of its module, by these names."""
    function = inspect.unwrap(getattr(fn, "python_function", fn))
    owner = getattr(function, "__self__", None)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return {}
    names = [n for each in _codes_in(code) for n in each.co_names]
    outside = {n: function.__globals__[n] for n in names if n in function.__globals__}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            outside[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    outside |= {} if owner is None else {"self": owner}
    return {n: values.underlying(v) if is_variable(v) else v for n, v in outside.items()}


def _codes_in(code: Any) -> list[Any]:
    """The code of a function and of those that are written in it."""
    nested = [c for c in code.co_consts if inspect.iscode(c)]
    return [code, *(inner for each in nested for inner in _codes_in(each))]
