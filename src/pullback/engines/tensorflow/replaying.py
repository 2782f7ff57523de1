"""Two runs of one function that do the same: what the first one drew and read is noted, and replayed in the second.

Random operations are replaced by stateless ones, whose seeds are kept. A variable that the function writes is read in
the second run as in the first, and not written again. Operations come in the same order in both runs; where they do
not, an error names the first that differs.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.errors import RecomputationError, UnsupportedError
from pullback.extend import set_for

Keep = Callable[[Any], bool]
_in_first_run = contextvars.ContextVar("pullback_in_first_run", default=False)

_STATELESS = {
    "RandomUniform": tf.random.stateless_uniform,
    "RandomStandardNormal": tf.random.stateless_normal,
    "TruncatedNormal": tf.random.stateless_truncated_normal,
}
# Kept as they are: there is no stateless operation for them.
_DRAWN = frozenset(
    [
        "RandomUniformInt",
        "Multinomial",
        "RandomGamma",
        "RandomPoissonV2",
        "RandomShuffle",
        "ParameterizedTruncatedNormal",
    ]
)
_WRITES = frozenset(["AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"])
_CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])
# Operations that a graph has once, however often they are asked for, and with which accumulators make zeros.
_UNCOUNTED = frozenset(
    [
        "Const",
        "Placeholder",
        "NoOp",
        "Identity",
        "ReadVariableOp",
        "VarHandleOp",
        "Fill",
        "ZerosLike",
    ]
)


class Operation(NamedTuple):
    """An operation of the first run, as a policy sees it."""

    type: str
    name: str
    shape: tuple[int | None, ...] | None  # of its first output
    bytes: int | None  # of all outputs, where that is known


def _text(kind: Any) -> str:
    return kind.decode() if isinstance(kind, bytes) else kind


def _key(handle: Any) -> int:
    """The same for one variable in every graph."""
    return id(private.outside_of(handle))


class FirstRun:
    """What is noted of a first run."""

    def __init__(self, keep: Keep | None, expected: Sequence[Any]) -> None:
        self.keep = None if tf.executing_eagerly() else keep
        self.types: list[tuple[str, str]] = []
        self.drawn: list[Any] = []  # a seed, or what was drawn
        self.reads: dict[int, list[Any]] = {}
        self.written: dict[int, Any] = {}
        self.kept: dict[int, list[Any]] = {}
        self.graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
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
            return self._note(_text(kind), inputs, outputs, op_name, graph)
        finally:
            self._busy = False

    def _note(self, kind: str, inputs: Any, outputs: Any, name: Any, graph: Any) -> Any:
        if graph is None:
            self._note_reads(inputs)
        if kind == "ReadVariableOp":
            self.reads.setdefault(_key(inputs[0]), []).append(outputs[0])
        elif kind in _WRITES:
            self._require_outside_of_loops(kind, graph, "writes a variable")
            self.written[_key(inputs[0])] = private.outside_of(inputs[0])
        elif kind in _STATELESS or kind in _DRAWN:
            self._require_outside_of_loops(kind, graph, "draws random numbers")
            outputs = self._draw(kind, inputs, outputs)
        elif kind in _CALLS and graph is not None:
            _require_stateless(graph.get_operations()[-1].get_attr("f").name)
        if kind not in _UNCOUNTED and graph is self.graph:
            self.types.append((kind, _text(name or "")))
            if self.keep and self.keep(_described(kind, name, outputs)):
                self.kept[len(self.types) - 1] = list(outputs)
        return outputs

    def _draw(self, kind: str, inputs: Any, outputs: Any) -> Any:
        if kind in _DRAWN:
            self.drawn.append(list(outputs))
            return outputs
        low, high = tf.int32.limits
        self.drawn.append(tf.random.uniform([2], low, high, tf.int32))
        return _drawn(kind, inputs, outputs, self.drawn[-1])

    def _note_reads(self, inputs: Any) -> None:
        for tensor in inputs:
            older = private.number_of(tensor) < self._start
            if older and id(tensor) not in self._expected and values.flows(tensor):
                self._unknown.append(tensor)

    @contextlib.contextmanager
    def seeing(self) -> Generator[None]:
        """Note what runs in this block, but for the making of variables: in the second run they are there."""
        making = tf.variable_creator_scope(self._make)
        with set_for(_in_first_run, self.graph is None), private.ops_seen_by(self.see), making:
            yield

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


def _drawn(kind: str, inputs: Any, outputs: Any, seed: Any) -> Any:
    """Random numbers from a seed in place of those that an operation drew."""
    found = _STATELESS[kind](inputs[0], seed, dtype=outputs[0].dtype)
    found.set_shape(outputs[0].shape)
    outputs = outputs if isinstance(outputs, list) else list(outputs)
    outputs[0] = found
    return outputs


def _described(kind: str, name: Any, outputs: Any) -> Operation:
    tensors = [t for t in outputs if isinstance(t, tf.Tensor)]
    shapes: list[Any] = [t.shape for t in tensors]
    known = all(shape.is_fully_defined() for shape in shapes)
    size = sum(t.shape.num_elements() * t.dtype.size for t in tensors) if known else None
    ranked = bool(shapes) and shapes[0].rank is not None
    return Operation(kind, _text(name or ""), tuple(shapes[0]) if ranked else None, size)


def _require_stateless(called: str) -> None:
    """Refuse the call of a traced function that draws random numbers or writes variables."""
    bad = private.types_in_function(called, frozenset([*_STATELESS, *_DRAWN, *_WRITES]))
    if bad:
        raise UnsupportedError(
            f"a function under pb.functions.checkpoint calls a tf.function that runs {', '.join(bad)}, which cannot be "
            "replayed. Call its `python_function`, or put the checkpoint inside of it."
        )


def _see_call(name: str) -> None:
    if _in_first_run.get():
        _require_stateless(name)


private.see_calls(_see_call)


class SecondRun:
    """The second run: what it draws and reads is what the first one did."""

    def __init__(self, first: FirstRun) -> None:
        self.first = first
        self.graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self.count = self.draws = 0
        self.reads: dict[int, int] = {}
        self.current: dict[int, Any] = {}
        self._busy = False

    @contextlib.contextmanager
    def seeing(self) -> Generator[None]:
        """Replay in this block; variables that are written have afterwards the values that they had before."""
        with private.stop_recording():
            for key, handle in self.first.written.items():
                dtype = self.first.reads[key][0].dtype if key in self.first.reads else None
                dtype = dtype or private.dtype_of_handle(handle)
                self.current[key] = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        try:
            with private.ops_seen_by(self.see):
                yield
        finally:
            if tf.executing_eagerly():
                for key, handle in self.first.written.items():
                    tf.raw_ops.AssignVariableOp(resource=handle, value=self.current[key])

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
            return self._replay(_text(kind), inputs, outputs, op_name, graph)
        finally:
            self._busy = False

    def _replay(self, kind: str, inputs: Any, outputs: Any, name: Any, graph: Any) -> Any:
        first = self.first
        if kind == "ReadVariableOp":
            key = _key(inputs[0])
            if key in first.written:
                outputs = _replaced(outputs, [self._read_before(key)])
        elif kind in _WRITES and graph is not None:
            self._undo(kind, graph, inputs)
        elif kind in _DRAWN or kind in _STATELESS:
            self._require(self.draws < len(first.drawn), kind, name)
            known = first.drawn[self.draws]
            self.draws += 1
            outputs = (
                _replaced(outputs, known)
                if kind in _DRAWN
                else _drawn(kind, inputs, outputs, known)
            )
        if kind not in _UNCOUNTED and graph is self.graph:
            there = self.count < len(first.types) and first.types[self.count][0] == kind
            self._require(there, kind, name)
            kept = first.kept.get(self.count)
            self.count += 1
            if kept is not None:
                outputs = _replaced(outputs, kept)
        return outputs

    def _read_before(self, key: int) -> Any:
        number = self.reads.get(key, 0)
        self.reads[key] = number + 1
        known = self.first.reads.get(key, [])
        return known[number] if number < len(known) else self.current[key]

    def _undo(self, kind: str, graph: Any, inputs: Any) -> None:
        """Let an operation that writes a variable write what is there."""
        operation = graph.get_operations()[-1]
        current = self.current[_key(inputs[0])]
        value = current if kind == "AssignVariableOp" else tf.zeros_like(current)
        private.set_input(operation, 1, graph.capture(value) if value.graph is not graph else value)

    def require_end(self) -> None:
        """Refuse a second run that ends before the first one did."""
        if self.count < len(self.first.types):
            kind, name = self.first.types[self.count]
            raise _differs(f"ended before operation {self.count + 1} of the first run", kind, name)

    def _require(self, same: bool, kind: str, name: Any) -> None:
        if not same:
            number = self.count
            was = self.first.types[number][0] if number < len(self.first.types) else "no more"
            raise _differs(
                f"came to operation {number + 1}, which was {was} in the first run,",
                kind,
                _text(name or ""),
            )


def _differs(what: str, kind: str, name: str) -> RecomputationError:
    at = f"{kind} ({name})" if name else kind
    return RecomputationError(
        f"the second run of a function under pb.functions.checkpoint {what} and found {at}. It must do the same each "
        "time: take what changes (a Python counter, a time, a random choice of Python) out of it, and pass it in."
    )


def _replaced(outputs: Any, others: Sequence[Any]) -> Any:
    """Others in place of outputs, recorded as coming from them, so that gradients go on."""
    found = outputs if isinstance(outputs, list) else list(outputs)
    for index, other in enumerate(others):
        if tf.executing_eagerly():
            fresh = private.detached(other)
            private.record_operation("Identity", [fresh], [found[index]], _pass, None)
            found[index] = fresh
        else:
            found[index] = other
    return found


def _pass(upstream: Any) -> list[Any]:
    return [upstream]
