"""What one can ask about: arguments, variables that were read, tensors that the function closes over."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.closed_over import inside, tensors_of
from pullback.engines.tensorflow.explaining.sizes import size_of, sketch_of_gradient
from pullback.engines.tensorflow.explaining.stream import Stream
from pullback.engines.tensorflow.explaining.subject import Leaf, Subject
from pullback.engines.tensorflow.tf_private import explaining
from pullback.engines.tensorflow.values import is_variable
from pullback.errors import ExplainError
from pullback.extend import describe, flow, walk

# Two sums of the same numbers in another order differ by no more than this, relative to the largest.
_SAME = {"float64": 1e-9, "complex128": 1e-9, "float16": 3e-2, "bfloat16": 1e-1}
_SAME_FLOAT32 = 1e-3
_UNNAMED = "Variable"  # what TensorFlow calls a variable without a name


@dataclasses.dataclass(slots=True, eq=False)
class Entry:
    """A source while it is put together."""

    thing: Any  # a tensor or TensorFlow's variable
    name: str
    kind: Literal["argument", "variable", "tensor"]
    objects: list[Any]  # that the caller may ask with
    path: str = ""
    values: list[int] = dataclasses.field(default_factory=list[int])
    layer: tuple[str, ...] = ()
    trainable: bool = True
    leaf: Leaf | None = None
    truth: Any = None  # the gradient that TensorFlow gives
    gradient: flow.Size | None = None
    moves: bool | None = None
    place: flow.Place | None = None
    hints: list[flow.Hint] = dataclasses.field(default_factory=list[flow.Hint])
    sketch: tuple[float, ...] = ()
    chosen: flow.Place | None = None

    def told(self) -> flow.Source:
        """The source as data."""
        shape, dtype = tuple(self.thing.shape), self.thing.dtype.name
        return flow.Source(
            self.name, self.kind, tuple(self.values), shape, dtype, self.gradient, self.layer,
            self.trainable, self.moves, self.place, tuple(self.hints), self.sketch, self.chosen,
        )  # fmt: skip


class Sources:
    """The sources of a run, and which values stand for them."""

    def __init__(
        self, subject: Subject, stream: Stream, variables: Sequence[Any], wrt: Sequence[Any] | None
    ) -> None:
        self.subject, self.stream, self.wrt = subject, stream, wrt
        self.asked_for = [
            values.underlying(w) if is_variable(w) else w
            for w in wrt or ()
            if not isinstance(w, str)
        ]
        _require_sources(self.asked_for)
        asked = [v for v in self.asked_for if isinstance(v, tf.Variable)]
        self.variables = list({id(v): v for v in [*variables, *asked]}.values())
        self.tape: Any = None
        self.start = private.next_number()
        self.keras = _keras_variables(subject.fn)
        self._helpers = _variables_of_helpers(subject.fn)
        self.outside = _outside_of(subject.fn)
        self._names = {id(thing): name for name, thing in self.outside.items()}
        self._read: dict[int, list[int]] = {}  # id of a variable -> values read of it out of sight
        arguments = {id(leaf.tensor) for leaf in subject.leaves}
        given = [t for t in self.asked_for if isinstance(t, private.EagerTensor)]
        tensors = {id(t): t for t in [*_closed_over(subject), *given] if id(t) not in arguments}
        self.tensors = list(tensors.values())
        self.entries: list[Entry] = []
        for tensor in [leaf.tensor for leaf in subject.leaves] + self.tensors:
            stream.value(getattr(tensor, "handle", tensor))
        stream.on_unknown = self._on_unknown

    def watched(self) -> list[Any]:
        """What the tape is told to watch: variables it finds by itself."""
        given = [
            leaf.tensor for leaf in self.subject.leaves if not isinstance(leaf.tensor, tf.Variable)
        ]
        return [t for t in [*given, *self.tensors] if values.flows(t)]

    def _on_unknown(self, tensor: Any, value: int) -> None:
        """A tensor that no op was seen to make may be what the fast path has read of a variable."""
        count = tensor.shape.num_elements() if values.flows(tensor) else 0
        if private.number_of(tensor) < self.start or not count:
            return
        if count == 1 and not private.possible_gradient_types([tensor]):
            return  # TensorFlow keeps single numbers, which variables were made of
        known = {id(v): v for v in [*self.variables, *self.tape.watched_variables()]}
        at = explaining.address(tensor)
        for variable in known.values():
            same = variable.dtype == tensor.dtype and variable.shape == tensor.shape
            if same and self._address(variable) == at:
                self._read.setdefault(id(variable), []).append(value)
                self.stream.values[value].variable = self._variable_name(variable)
                return

    def _address(self, variable: Any) -> int:
        with self.stream.paused():
            return explaining.address(explaining.value_behind(variable.handle, variable.dtype))

    # the run is over

    def finish(self, more: Iterable[Any] = ()) -> None:
        """Which variables were read is known; `more` are sources that the function itself asks about."""
        names = self._names
        self.entries = [
            Entry(
                leaf.tensor, leaf.name, "argument", [leaf.given, leaf.tensor], leaf.path, leaf=leaf
            )
            for leaf in self.subject.leaves
        ]
        more = [t for t in more if t is not None]
        read = [v for v in self.variables if self._may_be_asked(v)]
        watched = [*self.tape.watched_variables(), *read]
        variables = [*watched, *(t for t in more if isinstance(t, tf.Variable))]
        for variable in self._new(variables):
            self.entries.append(self._variable(variable))
        for tensor in self._new(
            [*self.tensors, *(t for t in more if not isinstance(t, tf.Variable))]
        ):
            name = names.get(id(tensor), f"a tensor of shape {tuple(tensor.shape)}")
            self.entries.append(Entry(tensor, name, "tensor", [tensor]))
        for entry in self.entries:
            entry.values = self._values_of(entry.thing)
            for value in entry.values if isinstance(entry.thing, tf.Variable) else ():
                self.stream.values[value].variable = entry.name
        _number_equal_names(self.entries)

    def _may_be_asked(self, variable: Any) -> bool:
        """Whether somebody may ask about a variable: not of those of optimizers and metrics, nor of random states."""
        if any(variable is a for a in self.asked_for):
            return True
        read = self._values_of(variable) and id(variable) not in self._helpers
        return values.flows(variable) and bool(variable.trainable or read)

    def _is_of_interest(self, tensor: Any) -> bool:
        """Whether a tensor that the function can reach was read, is named in it, or is asked for."""
        value = self._values_of(tensor)
        read = any(v in record.inputs for record in self.stream.records for v in value)
        return read or id(tensor) in self._names or any(tensor is a for a in self.asked_for)

    def _new(self, things: Iterable[Any]) -> list[Any]:
        known = {id(entry.thing) for entry in self.entries}
        return [t for k, t in {id(t): t for t in things}.items() if k not in known]

    def _variable(self, variable: Any) -> Entry:
        kept = self.keras.get(id(variable))
        objects = [variable] if kept is None else [variable, kept]
        entry = Entry(variable, self._variable_name(variable), "variable", objects)
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

    def _values_of(self, thing: Any) -> list[int]:
        known = self.stream.known(getattr(thing, "handle", thing))
        found = [*([] if known is None else [known]), *self._read.get(id(thing), [])]
        return [v for v in found if v < len(self.stream.values)]

    @property
    def values(self) -> set[int]:
        """All values that stand for a source."""
        return {v for entry in self.entries for v in entry.values}

    def differentiable(self) -> list[Entry]:
        """The sources that can have a gradient."""
        return [entry for entry in self.entries if values.flows(entry.thing)]

    def numbers(self) -> frozenset[int]:
        """The numbers of the tensors that gradients are taken of."""
        return frozenset(
            private.number_of(getattr(e.thing, "handle", e.thing)) for e in self.entries
        )

    def compare(
        self,
        totals: Mapping[int, Any],
        asked: Sequence[Any] | None,
        place: flow.Place | None = None,
    ) -> list[str]:
        """Take over the gradients, and say where the sweep does not agree with TensorFlow.

        `asked` are the sources that the function itself asks about, at `place`; TensorFlow says nothing of others then.
        """
        notes: list[str] = []
        largest = max((v.gradient.max for v in self.stream.values if v.gradient), default=0.0)
        short = {v.dtype for v in self.stream.values} & {"float16", "bfloat16"}
        least = max(
            (_SAME[dtype] for dtype in short), default=0.0
        )  # what is computed so is no better
        for entry in self.differentiable():
            swept = _sum(totals, entry.values)
            known = asked is None or any(entry.thing is t for t in asked)
            gradient = entry.truth if known else swept
            entry.gradient = None if gradient is None else size_of(gradient)
            entry.sketch = () if entry.gradient is None else sketch_of_gradient(gradient)
            if not known or not differ(swept, entry.truth, largest, least):
                continue
            if entry.truth is None and flow.Hint.NOT_TRAINABLE in entry.hints:
                continue
            if entry.truth is None and asked is not None:
                entry.hints.append(flow.Hint.NOT_WATCHED)
                entry.place = place
                continue
            notes.append(
                f"the gradient of {entry.name} that is told here differs from the one that TensorFlow gives"
            )
        return notes

    def wanted(self) -> list[Entry]:
        """The sources that `wrt` takes in."""
        if self.wrt is None:
            return self.entries
        found: set[Entry] = set()
        for wanted in self.wrt:
            meant = [e for e in self.entries if _is_meant(e, wanted)]
            if not meant:
                offered = ", ".join(e.name for e in self.entries) or "there are none"
                raise ExplainError(
                    f"wrt={wanted!r} names no source of {self.subject.name}. Those are: {offered}."
                )
            found.update(meant)
        return [e for e in self.entries if e in found]


def _is_meant(entry: Entry, wanted: Any) -> bool:
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


def _number_equal_names(entries: Sequence[Entry]) -> None:
    seen: dict[str, int] = {}
    for entry in entries:
        count = seen[entry.name] = seen.get(entry.name, 0) + 1
        entry.name += "" if count == 1 else f"#{count}"


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


def _sum(totals: Mapping[int, Any], met: Iterable[int]) -> Any:
    found = [totals[v] for v in met if v in totals]
    return explaining.sum_of(found) if found else None


def differ(swept: Any, truth: Any, largest: float, least: float = 0.0) -> bool:
    """Whether two gradients are not the same but for the order of sums."""
    if swept is None or truth is None:
        return (swept is None) != (truth is None)
    one, other = (np.asarray(values.dense(g)) for g in (swept, truth))
    if one.shape != other.shape:
        return True
    if np.array_equal(one, other):
        return False
    wide = np.complex128 if np.iscomplexobj(one) else np.float64
    one, other = one.astype(wide), other.astype(wide)
    scale = np.max(np.abs(other[np.isfinite(other)]), initial=0.0)
    same = max(least, _SAME.get(truth.dtype.name, _SAME_FLOAT32))
    allowed = same * scale + same / 1000 * largest
    return not np.allclose(one, other, rtol=0, atol=allowed, equal_nan=True)
