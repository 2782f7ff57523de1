"""Everything that ran, in order: each op with its tensors, and each operation that was recorded with a gradient."""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.registry import TRANSPOSABLE
from pullback.engines.tensorflow.explaining.sizes import size_of
from pullback.engines.tensorflow.override.op_calls import carries_gradient
from pullback.engines.tensorflow.programs import rules
from pullback.engines.tensorflow.programs.lines import Lines
from pullback.engines.tensorflow.tf_private import explaining_hooks
from pullback.extend import flow

Layers = tuple[str, ...]
_WITHOUT_SIZE = frozenset({tf.resource, tf.variant, tf.string})
_STOPPING = frozenset({"StopGradient", "PreventGradient"})


@dataclasses.dataclass(slots=True)
class Known:
    """A tensor of the run: what will be a value of the flow."""

    node: int | None
    output: int
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    size: flow.Size | None
    variable: str = ""
    gradient: flow.Size | None = None


@dataclasses.dataclass(slots=True)
class Record:
    """An operation that ran, with its tensors for as long as its gradient may be asked for."""

    type: str
    name: str
    layer: Layers
    inside: tuple[str, ...]
    place: flow.Place | None
    inputs: list[int]  # values
    outputs: list[int]
    rule: flow.Rule
    attrs: Any = ()
    tensors: Sequence[Any] = ()  # inputs
    results: Sequence[Any] = ()
    backward: Callable[..., Any] | None = None  # where it is not the one registered for the type
    ends: list[int] | None = (
        None  # the outputs whose gradients `backward` takes, where that is not all of them
    )
    tapes: tuple[Any, ...] = ()  # that were recording
    gradients: tuple[flow.Size | None, ...] = ()
    seconds: float = 0.0
    compiled: tuple[flow.Size | None, ...] = ()

    def let_go(self) -> None:
        """Forget the tensors."""
        self.tensors = self.results = self.attrs = ()
        self.backward = None


class Stream:
    """What is seen of a run."""

    keeps = True  # the tensors, and what they are in few numbers

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self.records: list[Record] = []
        self.values: list[Known] = []
        self.assigned: list[
            tuple[int, int]
        ] = []  # (value of a variable's handle, value given to it)
        self.inside: tuple[str, ...] = ()
        self.frozen = True  # while nothing is to be noted: before and after the run, and where we run ops ourselves
        self.tapes: list[Any] = []
        self._turns: list[
            tuple[Any, int]
        ] = []  # tapes as they are opened and closed, and after how many records
        self._layers: list[str] = []
        self.known_layers: dict[int, Any] = {}  # by identity
        self._value_of: dict[int, int] = {}  # the number of a tensor -> its value
        self.layers_of_graph: weakref.WeakKeyDictionary[Any, dict[str, Layers]]
        self.layers_of_graph = weakref.WeakKeyDictionary()
        self.on_unknown: Callable[[Any, int], None] = (
            _nothing  # tells of tensors that nobody made here
        )

    # tensors

    def value(self, tensor: Any) -> int:
        """The value that a tensor is."""
        number = private.number_of(tensor)
        found = self._value_of.get(number)
        if found is None or found >= len(self.values):
            found = self._add(tensor, None, 0)
            self.on_unknown(tensor, found)
        return found

    def known(self, tensor: Any) -> int | None:
        """The value that a tensor is, if it was met."""
        found = self._value_of.get(private.number_of(tensor))
        return found if found is None or found < len(self.values) else None

    def _add(self, tensor: Any, node: int | None, output: int) -> int:
        shape = tuple(private.concrete_shape(tensor))
        dtype = tensor.dtype
        size = size_of(tensor) if self.keeps else None
        width = 0 if dtype in _WITHOUT_SIZE else dtype.size
        count = 1
        for length in shape:
            count *= length
        self.values.append(Known(node, output, shape, dtype.name, count * width, size))
        self._value_of[private.number_of(tensor)] = len(self.values) - 1
        return len(self.values) - 1

    def numbers_of(self, found: set[int]) -> set[int]:
        """The numbers of the tensors that these values are."""
        return {number for number, value in self._value_of.items() if value in found}

    def position(self) -> tuple[int, int]:
        """How many records and values there are."""
        return len(self.records), len(self.values)

    def cut(self, position: tuple[int, int]) -> None:
        """Forget what ran after a position."""
        del self.records[position[0] :]
        del self.values[position[1] :]

    # what is seen

    def on_op(
        self,
        op_type: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> Any:
        """The op callback."""
        if graph is not None:
            self._traced(graph, outputs)
        elif not self.frozen:
            kind = op_type.decode() if type(op_type) is bytes else op_type
            name = op_name.decode() if type(op_name) is bytes else op_name or kind
            place = self.lines.here(explaining_hooks.calling_frame(1))
            self.ran(kind, name, inputs, attrs, outputs, place, tuple(self._layers))
        return outputs

    def ran(
        self,
        op_type: str,
        name: str,
        inputs: Iterable[Any],
        attrs: Any,
        outputs: Iterable[Any],
        place: flow.Place | None,
        layer: Layers,
        own: flow.Rule | None = None,
        backward: Callable[..., Any] | None = None,
    ) -> Record:
        """Note an op that ran."""
        inputs, outputs = list(inputs), list(outputs)
        given = [self.value(t) for t in inputs]
        number = len(self.records)
        made = [self._add(t, number, k) for k, t in enumerate(outputs)]
        rule = own or self._rule(op_type)
        record = Record(op_type, name, layer, self.inside, place, given, made, rule)
        record.tapes = tuple(self.tapes)
        if self.keeps and any(map(carries_gradient, outputs)):
            record.attrs, record.backward = attrs, backward
            record.tensors, record.results = inputs, outputs
        self.records.append(record)
        if op_type in rules.ASSIGNING and len(given) > 1:
            self.assigned.append((given[0], given[1]))
        return record

    def _rule(self, op_type: str) -> flow.Rule:
        if op_type in _STOPPING:
            return rules.STOPPED
        if private.recording_is_stopped():
            return rules.UNRECORDED
        return rules.of_type(op_type)

    def on_record(self, name: Any, outputs: Any, inputs: Any, backward: Any) -> None:
        """An operation was recorded with a backward function: it is what made its outputs from here on."""
        outputs, inputs = list(outputs), list(inputs)
        if self.frozen or not outputs or not isinstance(outputs[0], private.EagerTensor):
            return
        if not all(isinstance(t, (private.EagerTensor, tf.Variable)) for t in inputs):
            return
        inputs = [getattr(t, "handle", t) for t in inputs]
        rule = rules.of_recorded(name, backward)
        last = self.records[-1] if self.records else None
        if rule.kind == "override" and last is not None and self._is_same_op(last, name, inputs):
            self._replace(last, outputs, rule, backward)
            return
        before = [v for v in (self.known(t) for t in outputs) if v is not None]
        place, layer = self.lines.here(explaining_hooks.calling_frame(2)), tuple(self._layers)
        title = rules.title_of(rule) or _text(name)
        record = self.ran(title, title, inputs, (), outputs, place, layer, rule, backward)
        # The body led to these as well, by a way that gradients do not take.
        record.inputs += [v for v in before if v not in record.inputs]

    def _is_same_op(self, last: Record, name: Any, inputs: Sequence[Any]) -> bool:
        return last.type == _text(name) and last.inputs == [self.known(t) for t in inputs]

    def _replace(self, last: Record, outputs: list[Any], rule: flow.Rule, backward: Any) -> None:
        """The last op again, with other handles on its outputs and with another rule."""
        last.rule, last.backward, last.results = rule, backward, outputs
        carried = [v for v in last.outputs if _carries(self.values[v].dtype)]
        last.ends = carried
        for tensor, value in zip(outputs, carried, strict=True):
            self._value_of[private.number_of(tensor)] = value

    def _traced(self, graph: Any, outputs: Any) -> None:
        """An op was put into a graph: its layers are remembered for when it runs."""
        if self._layers and outputs:
            known = self.layers_of_graph.setdefault(graph, {})
            known[outputs[0].op.name] = tuple(self._layers)

    # around

    def _tape_opened(self, tape: Any) -> None:
        self.tapes.append(tape)
        self._turns.append((tape, len(self.records)))

    def _tape_closed(self, tape: Any) -> None:
        self.tapes.remove(tape)
        self._turns.append((tape, len(self.records)))

    def block_of(self, tape: Any) -> tuple[int, int]:
        """The records between the first opening and the last closing of a tape."""
        seen = [at for known, at in self._turns if known is tape] or [0]
        return seen[0], seen[-1]

    @contextlib.contextmanager
    def within(self, *where: str) -> Generator[None]:
        """What runs in this block is inside of a function, loop or branch."""
        before, self.inside = self.inside, (*self.inside, *where)
        try:
            yield
        finally:
            self.inside = before

    @contextlib.contextmanager
    def paused(self) -> Generator[None]:
        """What runs in this block is ours."""
        before, self.frozen = self.frozen, True
        try:
            yield
        finally:
            self.frozen = before

    def enter_layer(self, layer: Any) -> None:
        """A Keras layer begins to run."""
        self._layers.append(layer.name)
        self.known_layers[id(layer)] = layer

    def leave_layer(self) -> None:
        """It has run."""
        self._layers.pop()

    @property
    def layers(self) -> Layers:
        """The layers that are running."""
        return tuple(self._layers)

    @contextlib.contextmanager
    def open(self) -> Generator[None]:
        """See everything that runs in this block."""
        with (
            explaining_hooks.callbacks_on_slow_path(),
            explaining_hooks.records_seen(self.on_record),
            explaining_hooks.layer_calls_seen(self.enter_layer, self.leave_layer),
            explaining_hooks.control_flow_seen(self.within),
            explaining_hooks.tapes_seen(self._tape_opened, self._tape_closed),
            private.ops_seen_by(self.on_op, first=True),
        ):
            self.frozen = False
            try:
                yield
            finally:
                self.frozen = True


def _nothing(tensor: Any, value: int) -> None:
    del tensor, value


def _text(name: Any) -> str:
    """The name of an operation, without the mark by which ours are known to forward mode."""
    text = name.decode() if isinstance(name, bytes) else str(name)
    return text.removesuffix(f"_{TRANSPOSABLE}")


def _carries(dtype: str) -> bool:
    found = tf.as_dtype(dtype)
    return found.is_floating or found.is_complex or dtype in ("resource", "variant")
