"""Two runs of one function that do the same: what the first one drew and read is noted, and replayed in the second.

Random operations are replaced by stateless ones, whose seeds are kept. A variable is read in the second run as in the
first, whatever was written to it since, and what the function writes is not written again; the state of a generator is
such a variable. Operations come in the same order in both runs, with the same constants; where they do not, an error
names the first that differs.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from pullback.engines.tensorflow import recomputed_values, values
from pullback.engines.tensorflow import stateful_operations as ops
from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.tf_private import transposing
from pullback.engines.tensorflow.tf_private.recording import calls_seen
from pullback.errors import UnsupportedError
from pullback.extend import set_for

Keep = Callable[[Any], bool]
_in_first_run = contextvars.ContextVar("pullback_in_first_run", default=False)
_around: contextvars.ContextVar[FirstRun | SecondRun | None] = contextvars.ContextVar(
    "pullback_run_around", default=None
)


class Operation(NamedTuple):
    """An operation of the first run, as a policy sees it."""

    type: str
    name: str
    shape: tuple[int | None, ...] | None  # of its first output
    bytes: int | None  # of all outputs, where that is known


class FirstRun:
    """What is noted of a first run."""

    def __init__(self, keep: Keep | None, expected: Sequence[Any]) -> None:
        self.keep = None if tf.executing_eagerly() else keep
        self.types: list[tuple[str, str]] = []
        self.drawn: list[Any] = []  # a seed, or what was drawn
        self.reads: dict[tuple[str, int], list[Any]] = {}
        self.written: dict[int, Any] = {}
        self.values: dict[
            int, tuple[Any, Any]
        ] = {}  # variables that are read at once, and their values
        self.moved: set[int] = set()  # states of generators that are changed where they are
        self._gathered: set[int] = set()
        self.kept: dict[int, list[Any]] = {}
        self.constants: list[Any] = []  # of each operation of a graph
        self.around = _around.get()
        self.graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self.size = 0  # of the graph, once the run has ended
        self._expected = {id(t) for t in expected}
        self._start = private.next_number()
        self._unknown: list[Any] = []
        self._busy = False

    def see(
        self,
        kind: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> Any:
        """Note one operation."""
        del attrs
        if self._busy:
            return outputs
        self._busy = True
        try:
            return self._note(ops.text(kind), inputs, outputs, op_name, graph)
        finally:
            self._busy = False

    def _note(self, kind: str, inputs: Any, outputs: Any, name: Any, graph: Any) -> Any:
        if graph is None:
            self._note_reads(inputs)
        if kind in ops.READS and inputs[0].dtype == tf.resource and graph is self.graph:
            self._note_variable(kind, inputs[0], outputs)
        elif kind in ops.WRITES:
            self._require_outside_of_loops(kind, graph, "writes a variable")
            self.written[ops.key_of(inputs[0])] = private.outside_of(inputs[0])
        elif kind in ops.RANDOM:
            self._require_outside_of_loops(kind, graph, "draws random numbers")
            with private.with_op_callbacks([]):  # what is done here is no part of a run around
                outputs = self._draw(kind, inputs, outputs)
        elif kind in ops.CALLS and graph is not None:
            _require_stateless(graph.get_operations()[-1].get_attr("f").name)
        if ops.is_counted(kind, graph, self.graph):
            self.types.append((kind, ops.text(name or "")))
            self.constants.append(recomputed_values.constants_of(inputs) if graph else ())
            if self.keep and self.keep(_described(kind, name, outputs)):
                self.kept[len(self.types) - 1] = list(outputs)
        return outputs

    def _note_variable(self, kind: str, handle: Any, outputs: Any) -> None:
        key = ops.key_of(handle)
        if self.graph is not None or kind == "ReadVariableOp":
            self.reads.setdefault((kind, key), []).append(outputs[0])
        if kind in ops.GATHERS:
            self._gathered.add(key)
        elif kind == "ReadVariableOp" and self.graph is None:
            self.values[key] = handle, outputs[0]

    def _draw(self, kind: str, inputs: Any, outputs: Any) -> Any:
        if kind in ops.GENERATORS:
            key = ops.key_of(inputs[0])
            self.written[key] = private.outside_of(inputs[0])
            self.moved |= set() if kind in ops.SKIPS else {key}
        if kind not in ops.STATELESS:
            self.drawn.append(list(outputs))
            return outputs
        if self.around is not None:  # which has drawn these numbers before, or replayed them
            self.drawn.append(self.around.last_drawn())
            return outputs
        low, high = tf.int32.limits
        self.drawn.append(tf.random.uniform([2], low, high, tf.int32))
        return ops.drawn(kind, inputs, outputs, self.drawn[-1])

    def last_drawn(self) -> Any:
        """The last seed."""
        return self.drawn[-1]

    def _note_reads(self, inputs: Any) -> None:
        for tensor in inputs:
            older = private.number_of(tensor) < self._start
            if older and id(tensor) not in self._expected and values.flows(tensor):
                self._unknown.append(tensor)

    @contextlib.contextmanager
    def seeing(self) -> Generator[None]:
        """Note what runs in this block, but for the making of variables: in the second run they are there."""
        making = tf.variable_creator_scope(self._make)
        at_once = self.graph is None
        with (
            set_for(_in_first_run, at_once),
            set_for(_around, self),
            calls_seen(_see_call) if at_once else contextlib.nullcontext(),
            private.ops_seen_by(self.see),
            making,
            private.VariableWatcher() as watcher,
        ):
            yield
        if self.graph is None:
            self._keep_values(watcher.watched_variables())
        else:
            self.size = len(self.graph.get_operations())

    def _keep_values(self, variables: Sequence[Any]) -> None:
        """Keep the values of variables that were read at once.

        A value that was read is the variable's own buffer: it takes no memory until another is assigned. Operators
        read without being seen. A table of which rows were gathered is not read as a whole, which may copy it.
        """
        with private.stop_recording(), private.with_op_callbacks([]):
            for variable in variables:
                handle = private.value_of(variable).handle
                key = ops.key_of(handle)
                if key not in self.values and key not in self._gathered:
                    self.values[key] = handle, ops.read(handle)
        self.values = {k: v for k, v in self.values.items() if k not in self.written}

    def _make(self, make: Callable[..., Any], **options: Any) -> Any:
        before, self._busy = self._busy, True
        try:
            return make(**options)
        finally:
            self._busy = before

    def require_all_known(self) -> None:
        """Refuse tensors that a tape knows and that were not found beforehand: their gradient would be lost."""
        lost = [t for t in self._unknown if private.possible_gradient_types([t])]
        self._unknown.clear()
        if lost:
            raise UnsupportedError(
                f"a function under pb.functions.checkpoint reads a tensor of shape {tuple(lost[0].shape)} that is "
                "differentiated and is neither an argument nor found by name in the function: its gradient would be "
                "lost. Pass it as an argument."
            )

    def _require_outside_of_loops(self, kind: str, graph: Any, does: str) -> None:
        if graph is not self.graph:
            raise UnsupportedError(
                f"a function under pb.functions.checkpoint {does} ({kind}) inside a tf.while_loop, tf.cond or "
                "tf.function of its own, where it cannot be replayed. Put the checkpoint inside of that, or do it "
                "before and pass the result."
            )


def _described(kind: str, name: Any, outputs: Any) -> Operation:
    tensors = [t for t in outputs if isinstance(t, tf.Tensor)]
    shapes: list[Any] = [t.shape for t in tensors]
    known = all(shape.is_fully_defined() for shape in shapes)
    size = sum(t.shape.num_elements() * t.dtype.size for t in tensors) if known else None
    ranked = bool(shapes) and shapes[0].rank is not None
    return Operation(kind, ops.text(name or ""), tuple(shapes[0]) if ranked else None, size)


def _require_stateless(called: str) -> None:
    """Refuse the call of a traced function that draws random numbers or writes variables."""
    bad = private.types_in_function(called, ops.RANDOM | ops.WRITES)
    if bad:
        raise UnsupportedError(
            f"a function under pb.functions.checkpoint calls a tf.function that runs {', '.join(bad)}, which cannot be "
            "replayed. Call its `python_function`, or put the checkpoint inside of it."
        )


def _see_call(name: str) -> None:
    if _in_first_run.get():
        _require_stateless(name)
        for variable in transposing.variables_of_call():
            private.variable_accessed(variable)  # TensorFlow does it only where tapes record


class SecondRun:
    """The second run: what it draws and reads is what the first one did."""

    def __init__(self, first: FirstRun) -> None:
        self.first = first
        self.graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self.count = self.draws = 0
        self.reads: dict[tuple[str, int], int] = {}
        self.current: dict[int, Any] = {}
        self._busy = False

    @contextlib.contextmanager
    def seeing(self) -> Generator[None]:
        """Replay in this block; variables have afterwards the values that they had before."""
        first = self.first
        with private.stop_recording(), private.with_op_callbacks([]):
            for key, handle in first.written.items():
                value = ops.read(handle)
                self.current[key] = ops.copied(value) if key in first.moved else value
            changed = ops.changed(first.values.values()) if tf.executing_eagerly() else []
        try:
            ops.assign([(handle, then) for handle, then, _ in changed])
            with set_for(_around, self), private.ops_seen_by(self.see):
                yield
        finally:
            ops.assign([(handle, now) for handle, _, now in changed])
            if tf.executing_eagerly():
                ops.assign([(handle, self.current[key]) for key, handle in first.written.items()])

    def see(
        self,
        kind: Any,
        inputs: Any,
        attrs: Any,
        outputs: Any,
        op_name: Any = None,
        graph: Any = None,
    ) -> Any:
        """Put in place of what one operation gave what it has given in the first run."""
        del attrs
        if self._busy:
            return outputs
        self._busy = True
        try:
            return self._replay(ops.text(kind), inputs, outputs, op_name, graph)
        finally:
            self._busy = False

    def _replay(self, kind: str, inputs: Any, outputs: Any, name: Any, graph: Any) -> Any:
        if kind in ops.STATEFUL:
            with private.with_op_callbacks([]):
                outputs = self._as_before(kind, inputs, outputs, name, graph)
        if ops.is_counted(kind, graph, self.graph):
            outputs = self._count(kind, inputs, outputs, name)
        return outputs

    def _as_before(self, kind: str, inputs: Any, outputs: Any, name: Any, graph: Any) -> Any:
        """What an operation gave in the first run; it changes nothing."""
        if kind in ops.RANDOM:
            self._require(self.draws < len(self.first.drawn), kind, name)
            self.draws += 1
            if kind in ops.GENERATORS and graph is not None:
                self._undo_draw(kind, graph, inputs)
            known = self.last_drawn()
            seeded = kind in ops.STATELESS
            return ops.drawn(kind, inputs, outputs, known) if seeded else _replaced(outputs, known)
        key = ops.key_of(inputs[0])
        if kind in ops.WRITES:
            if graph is not None:
                self._undo(kind, graph, inputs)
        elif self._may_have_changed(kind, key, graph):
            return _replaced(outputs, [self._read_before(kind, key, outputs[0])])
        return outputs

    def _count(self, kind: str, inputs: Any, outputs: Any, name: Any) -> Any:
        """The next operation, which must be that of the first run."""
        first, number = self.first, self.count
        self._require(number < len(first.types) and first.types[number][0] == kind, kind, name)
        if self.graph is not None and first.graph is not None:
            now = recomputed_values.constants_of(inputs)
            if not recomputed_values.same_constants(first.constants[number], now):
                raise recomputed_values.differs(
                    f"came to operation {number + 1}, {_at(kind, name)}, with another constant than the first"
                )
        self.count += 1
        return _replaced(outputs, first.kept[number]) if number in first.kept else outputs

    def last_drawn(self) -> Any:
        """The last seed, or what was drawn."""
        return self.first.drawn[self.draws - 1]

    def _may_have_changed(self, kind: str, key: int, graph: Any) -> bool:
        """Whether a variable may have another value than in the first run, so that what was read then must be used."""
        if key in self.first.written:
            return True
        if graph is None or graph is not self.graph or (kind, key) not in self.first.reads:
            return False  # at once, the variable itself has the value of before
        if self.graph is not self.first.graph:
            # Of a loop, XLA would keep a copy for each round.
            looped = private.is_in_control_flow(self.first.graph)
            return not (looped and private.is_compiled_by_xla(self.graph))
        return ops.last_writes(self.graph).get(key, -1) >= self.first.size

    def _read_before(self, kind: str, key: int, now: Any) -> Any:
        number = self.reads.get((kind, key), 0)
        self.reads[kind, key] = number + 1
        known = self.first.reads.get((kind, key), [])
        if number < len(known):
            return known[number]
        if kind in ops.GATHERS:
            return now
        return self.current[key] if key in self.first.written else known[-1]

    def _undo(self, kind: str, graph: Any, inputs: Any) -> None:
        """Let an operation that writes a variable write what is there."""
        operation = graph.get_operations()[-1]
        current = self.current[ops.key_of(inputs[0])]
        value = current if kind == "AssignVariableOp" else tf.zeros_like(current)
        private.set_input(operation, 1, graph.capture(value) if value.graph is not graph else value)

    def _undo_draw(self, kind: str, graph: Any, inputs: Any) -> None:
        """Let an operation that moves a generator on leave it where it is, or put it back."""
        operation = graph.get_operations()[-1]
        if kind in ops.SKIPS:
            private.set_input(operation, 2, tf.zeros([], inputs[2].dtype))
            return
        current = self.current[ops.key_of(inputs[0])]
        with tf.control_dependencies([current]):
            private.set_input(operation, 2, tf.identity(inputs[2]))
        with tf.control_dependencies([operation]):
            tf.raw_ops.AssignVariableOp(resource=inputs[0], value=current)

    def require_end(self) -> None:
        """Refuse a second run that ends before the first one did."""
        if self.count < len(self.first.types):
            kind, name = self.first.types[self.count]
            raise recomputed_values.differs(
                f"ended before operation {self.count + 1} of the first run and found {_at(kind, name)}"
            )

    def _require(self, same: bool, kind: str, name: Any) -> None:
        if not same:
            number = self.count
            was = self.first.types[number][0] if number < len(self.first.types) else "no more"
            raise recomputed_values.differs(
                f"came to operation {number + 1}, which was {was} in the first run, and found {_at(kind, name)}"
            )


def _at(kind: str, name: Any) -> str:
    return f"{kind} ({ops.text(name)})" if name else kind


def _replaced(outputs: Any, others: Sequence[Any]) -> Any:
    """Others in place of outputs, recorded as coming from them, so that gradients go on."""
    found = outputs if isinstance(outputs, list) else list(outputs)
    for index, other in enumerate(others):
        if tf.executing_eagerly():
            fresh = private.detached(other)
            private.record_operation("Identity", [fresh], [found[index]], _pass, None)
            found[index] = fresh
        else:
            with private.stop_recording():  # it is recorded as what the operation gave
                found[index] = tf.identity(other)
    return found


def _pass(upstream: Any) -> list[Any]:
    return [upstream]
