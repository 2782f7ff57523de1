"""Recomputation: a call whose inputs are kept, and which runs again when its gradient is asked for.

- What runs is hidden from all tapes; variables that are read, and tensors that are closed over, are sources.
- Everything that would differ in the second run is replayed. Random operations are replaced by stateless ones, whose
  seeds are kept. A variable that the call writes is read in the second run as in the first, and not written again.
- In a graph, what is computed again would be merged with what was computed before, or be computed early: it is made to
  depend on the upstream gradient, by a number that is 0, which no optimiser knows.
- Operations come in the same order in both runs; where they do not, an error names the first that differs.
"""

from __future__ import annotations

import contextlib
import contextvars
import inspect
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from pullback import with_gradient
from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach import closed_over
from pullback.engines.tensorflow.tf_private import overriding
from pullback.errors import RecomputationError, UnsupportedError
from pullback.extend import Kind, flatten, set_for, unflatten

Keep = Callable[[Any], bool]
_in_first_run = contextvars.ContextVar("pullback_in_first_run", default=False)

_STATELESS = {
    "RandomUniform": lambda shape, seed, attrs: tf.random.stateless_uniform(
        shape, seed, dtype=attrs["dtype"]
    ),
    "RandomStandardNormal": lambda shape, seed, attrs: tf.random.stateless_normal(
        shape, seed, dtype=attrs["dtype"]
    ),
    "TruncatedNormal": lambda shape, seed, attrs: tf.random.stateless_truncated_normal(
        shape, seed, dtype=attrs["dtype"]
    ),
}
# Kept as they are: there is no stateless operation for them.
_DRAWN = frozenset(
    ["RandomUniformInt", "Multinomial", "RandomGamma", "RandomPoissonV2", "RandomShuffle", "ParameterizedTruncatedNormal"]
)
_WRITES = frozenset(["AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"])
_CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])
# Operations that a graph has once, however often they are asked for.
_UNCOUNTED = frozenset(["Const", "Placeholder", "NoOp", "Identity", "ReadVariableOp", "VarHandleOp"])


class Operation(NamedTuple):
    """An operation of the first run, as a policy sees it."""

    type: str
    name: str
    shape: tuple[int | None, ...] | None  # of its first output
    bytes: int | None  # of all outputs, where that is known


def checkpointed(fn: Callable[..., Any], args: Any, kwargs: Any, keep: Keep | None) -> Any:
    """Call a function so that of its operations nothing is kept for the gradient but what `keep` says."""
    run = _Run(fn, keep)
    leaves = flatten((args, kwargs))[0]
    run.captured = run.closed_over(leaves)
    return with_gradient(run.forward, run.rule)(args, kwargs, run.captured)


class _Run:
    """One call: its first run, and what is known of it in the second."""

    def __init__(self, fn: Callable[..., Any], keep: Keep | None) -> None:
        self.fn, self.keep = fn, keep
        self.captured: list[Any] = []  # as the function reads them, not as it is given them
        self.first: _First | None = None

    def closed_over(self, leaves: Sequence[Any]) -> list[Any]:
        """The tensors that the function reads by name, and that a gradient may be asked for."""
        if tf.executing_eagerly():
            return closed_over.watched_tensors(self.fn, leaves)
        found = closed_over.tensors_of(self.fn, leaves)
        given = {id(leaf) for leaf in leaves}
        symbolic = [t for t in found if not isinstance(t, private.EagerTensor)]
        return [t for t in symbolic if values.flows(t) and id(t) not in given]

    def forward(self, args: Any, kwargs: Any, captured: Any) -> Any:
        """The first run, of which no tape learns anything."""
        del captured
        expected = [*flatten((args, kwargs))[0], *self.captured]
        self.first = _First(self.keep, expected)
        hiding = private.stop_recording() if tf.executing_eagerly() else contextlib.nullcontext()
        with hiding, set_for(_in_first_run, tf.executing_eagerly()), _seen_by(self.first.see):
            outputs = self._call(args, kwargs)
        self.first.require_all_known()
        return outputs

    def rule(self, *upstream: Any, inputs: Any, variables: Any) -> Any:
        """The second run, and its ordinary gradient."""
        leaves, structure = flatten((inputs[0], inputs[1]))
        captured = self.captured
        given = [dy for dy in flatten(upstream)[0] if dy is not None]
        never = None if tf.executing_eagerly() else _never(given)
        if never is not None:
            leaves = [_and_never(leaf, never) for leaf in leaves]
        flowing = values.differentiable(leaves)
        sources = [*(values.gradient_tensor(leaves[i]) for i in flowing), *captured]
        again = _Second(self.first)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            with again.restoring(), _seen_by(again.see):
                outputs = self._call(*unflatten(structure, leaves))
        again.require_end()
        found = _gradients(tape, outputs, upstream, [*sources, *variables])
        if never is not None:
            found = _apart(found, never)
        flat: list[Any] = [None] * len(leaves)
        for index, gradient in zip(flowing, found, strict=False):
            flat[index] = gradient
        args, kwargs = unflatten(structure, flat)
        count = len(flowing)
        to_captured = found[count : count + len(captured)]
        gradients = {"args": args, "kwargs": kwargs, "captured": to_captured}
        return gradients, found[count + len(captured) :]

    def _call(self, args: Any, kwargs: Any) -> Any:
        fn = self.fn
        if not tf.executing_eagerly() and (inspect.isfunction(fn) or inspect.ismethod(fn)):
            fn = overriding.converted(fn, body=True)
        return fn(*args, **kwargs)


def _gradients(tape: Any, outputs: Any, upstream: Sequence[Any], sources: Sequence[Any]) -> list[Any]:
    """The ordinary gradients, for an upstream per output or per leaf of the outputs."""
    made, given = flatten(outputs)[0], flatten(upstream)[0]
    pairs = [
        (values.gradient_tensor(y), dy)
        for y, dy in zip(made, given, strict=True)
        if dy is not None and values.kind(y) is Kind.DIFFERENTIABLE
    ]
    if not pairs:
        return [None] * len(sources)
    targets, weights = zip(*pairs, strict=True)
    return list(tape.gradient(list(targets), list(sources), list(weights)))


def _never(upstream: Sequence[Any]) -> Any:
    """A condition that is never true, which is not known before the upstream is there, nor to Grappler or XLA."""
    numbers = [dy for dy in upstream if values.flows(dy)]
    if not numbers:
        return None
    entry = tf.math.real(tf.reduce_sum(tf.reshape(values.dense(numbers[0]), [-1])[:1]))
    entry = tf.stop_gradient(entry)
    return tf.math.is_nan(entry) & tf.math.is_finite(entry)


def _and_never(leaf: Any, never: Any) -> Any:
    """A leaf of which nothing can be computed before the upstream is there."""
    if not isinstance(leaf, tf.Tensor):
        return leaf
    if leaf.dtype == tf.bool:
        return leaf | never
    numeric = leaf.dtype.is_floating or leaf.dtype.is_integer or leaf.dtype.is_complex
    return leaf + tf.cast(never, leaf.dtype) if numeric else leaf


def _apart(gradients: Sequence[Any], never: Any) -> list[Any]:
    """Gradients that are summed up before they are added to those of other calls.

    Grappler makes one sum of a sum of sums, and XLA one loop, for which they wait with all of the terms. A product is
    enough to keep Grappler from it; for XLA it takes a branch, of which it does not know that it is never taken.
    """
    found = list(gradients)
    there = [i for i, g in enumerate(found) if isinstance(g, tf.Tensor)]
    own = [found[i] for i in there]
    if own and private.is_compiled_by_xla(tf.compat.v1.get_default_graph()):
        own = tf.cond(never, lambda: [g + g for g in own], lambda: [tf.identity(g) for g in own])
    else:
        own = [g * (1 + tf.cast(never, g.dtype)) for g in own]
    for index, gradient in zip(there, own, strict=True):
        found[index] = gradient
    return found


@contextlib.contextmanager
def _seen_by(see: Callable[..., Any]) -> Generator[None]:
    """Let a function see every operation of this block; it gives the outputs, or others in their place."""
    before = private.op_callbacks()
    private.set_op_callbacks([*before, see])
    try:
        yield
    finally:
        private.set_op_callbacks(before)


def _text(kind: Any) -> str:
    return kind.decode() if isinstance(kind, bytes) else kind


def _key(handle: Any) -> int:
    """The same for one variable in every graph."""
    return id(private.outside_of(handle))


class _First:
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
        self, kind: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> Any:
        """Note one operation."""
        if self._busy:
            return outputs
        self._busy = True
        try:
            return self._note(_text(kind), inputs, attrs, outputs, op_name, graph)
        finally:
            self._busy = False

    def _note(
        self, kind: str, inputs: Any, attrs: Any, outputs: Any, name: Any, graph: Any
    ) -> Any:
        if graph is None:
            self._note_reads(inputs)
        if kind == "ReadVariableOp":
            self.reads.setdefault(_key(inputs[0]), []).append(outputs[0])
        elif kind in _WRITES:
            self._require_outside_of_loops(kind, graph, "writes a variable")
            self.written[_key(inputs[0])] = private.outside_of(inputs[0])
        elif kind in _STATELESS or kind in _DRAWN:
            self._require_outside_of_loops(kind, graph, "draws random numbers")
            outputs = self._draw(kind, inputs, attrs, outputs)
        elif kind in _CALLS and graph is not None:
            _require_stateless(graph.get_operations()[-1].get_attr("f").name)
        if kind not in _UNCOUNTED and graph is self.graph:
            self.types.append((kind, _text(name or "")))
            if self.keep and self.keep(_described(kind, name, outputs)):
                self.kept[len(self.types) - 1] = list(outputs)
        return outputs

    def _draw(self, kind: str, inputs: Any, attrs: Any, outputs: Any) -> Any:
        if kind in _DRAWN:
            self.drawn.append(list(outputs))
            return outputs
        low, high = tf.int32.limits
        self.drawn.append(tf.random.uniform([2], low, high, tf.int32))
        return _drawn(kind, inputs, attrs, outputs, self.drawn[-1])

    def _note_reads(self, inputs: Any) -> None:
        for tensor in inputs:
            older = private.number_of(tensor) < self._start
            if older and id(tensor) not in self._expected and values.flows(tensor):
                self._unknown.append(tensor)

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


def _drawn(kind: str, inputs: Any, attrs: Any, outputs: Any, seed: Any) -> Any:
    """Random numbers from a seed in place of those that an operation drew."""
    found = _STATELESS[kind](inputs[0], seed, {"dtype": outputs[0].dtype})
    found.set_shape(outputs[0].shape)
    outputs = outputs if isinstance(outputs, list) else list(outputs)
    outputs[0] = found
    return outputs


def _described(kind: str, name: Any, outputs: Any) -> Operation:
    tensors = [t for t in outputs if isinstance(t, tf.Tensor)]
    shape = tensors[0].shape if tensors else tf.TensorShape(None)
    known = all(t.shape.is_fully_defined() for t in tensors)
    size = sum(t.shape.num_elements() * t.dtype.size for t in tensors) if known else None
    return Operation(kind, _text(name or ""), None if shape.rank is None else tuple(shape), size)


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


class _Second:
    """The second run: what it draws and reads is what the first one did."""

    def __init__(self, first: _First) -> None:
        self.first = first
        self.graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self.count = self.draws = 0
        self.reads: dict[int, int] = {}
        self.current: dict[int, Any] = {}
        self._busy = False

    @contextlib.contextmanager
    def restoring(self) -> Generator[None]:
        """Variables that are written have afterwards the values that they had before."""
        with private.stop_recording():
            for key, handle in self.first.written.items():
                dtype = self.first.reads[key][0].dtype if key in self.first.reads else None
                dtype = dtype or private.dtype_of_handle(handle)
                self.current[key] = tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
        try:
            yield
        finally:
            if tf.executing_eagerly():
                for key, handle in self.first.written.items():
                    tf.raw_ops.AssignVariableOp(resource=handle, value=self.current[key])

    def see(
        self, kind: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None
    ) -> Any:
        """Put in place of what one operation gave what it has given in the first run."""
        if self._busy:
            return outputs
        self._busy = True
        try:
            return self._replay(_text(kind), inputs, attrs, outputs, op_name, graph)
        finally:
            self._busy = False

    def _replay(
        self, kind: str, inputs: Any, attrs: Any, outputs: Any, name: Any, graph: Any
    ) -> Any:
        first = self.first
        if kind == "ReadVariableOp":
            key = _key(inputs[0])
            if key in first.written:
                outputs = _replaced(outputs, [self._read_before(key)])
        elif kind in _WRITES and graph is not None:
            self._undo(kind, graph, outputs, inputs, name)
        elif kind in _DRAWN or kind in _STATELESS:
            self._require(self.draws < len(first.drawn), kind, name)
            known = first.drawn[self.draws]
            self.draws += 1
            outputs = (
                _replaced(outputs, known)
                if kind in _DRAWN
                else _drawn(kind, inputs, attrs, outputs, known)
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

    def _undo(self, kind: str, graph: Any, outputs: Any, inputs: Any, name: Any) -> None:
        """Let an operation that writes a variable write what is there."""
        del outputs, name
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
            raise _differs(f"came to operation {number + 1}, which was {was} in the first run,", kind, _text(name or ""))


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
            private.record_operation("Identity", [fresh], [found[index]], lambda dy: [dy], None)
            found[index] = fresh
        else:
            found[index] = other
    return found
