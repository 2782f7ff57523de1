"""Attaching a rule to a call: the way in, and calls that run at once.

- Nothing stays on the tapes but what the rule holds: the body runs on detached handles of its inputs, which no
  tape watches.
- What the body captures gets its ordinary gradient: the body's outputs are sources too, and the upstream passes
  through to them. Where the rule is the whole gradient, closed-over tensors are constant unless asked for.
- Where a second derivative can be asked for, the body is recorded in full, so that what the rule holds is known to
  the tapes; the ordinary gradient of what was captured then comes from a tape of our own.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach import closed_over, graph, recorded
from pullback.engines.tensorflow.attach.hidden_tensors import refuse_in_outputs, refuse_unseen
from pullback.engines.tensorflow.attach.recorded import FlatGradient, Given, Recorded
from pullback.extend import ONE_OUTPUT, Call, ForwardResult, Kind, Spec

_WITH_GRADIENTS = (tf.Tensor, tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices)
_USUAL = frozenset({"inputs", "outputs"})  # what costs nothing to keep


def attach(call: Call, leaves: Sequence[Any]) -> Any:
    """Run a call so that its own pullback is used for it: at once, traced, or as a node of a Keras model."""
    kinds: list[Kind] = []
    flowing: list[int] = []
    for index, leaf in enumerate(leaves):
        if leaf is None:
            kinds.append(Kind.STATIC)
        elif type(leaf) is not private.EagerTensor or private.data_type(leaf) not in values.FLOWING:
            return _attach_any(call, leaves)
        else:
            kinds.append(Kind.DIFFERENTIABLE)
            flowing.append(index)
    if not private.executing_eagerly():
        return _attach_any(call, leaves)
    tensors = leaves if len(flowing) == len(leaves) else [leaves[i] for i in flowing]
    return _attach(Given(call, leaves, kinds, flowing, tensors, dense=True))


def _attach_any(call: Call, leaves: Sequence[Any]) -> Any:
    if any(isinstance(leaf, keras.KerasTensor) for leaf in leaves):
        return graph.attach_symbolic(call, leaves)
    leaves = [values.read(leaf) for leaf in leaves]
    kinds = [values.kind(leaf) for leaf in leaves]
    flowing = [i for i, kind in enumerate(kinds) if kind is Kind.DIFFERENTIABLE]
    tensors = [values.source(leaves[i]) for i in flowing]
    given = Given(call, leaves, kinds, flowing, tensors)
    return _attach(given) if private.executing_eagerly() else graph.attach(given)


def _attach(given: Given) -> Any:
    """Run the call now and record it with its own gradient."""
    call = given.call
    order = private.possible_gradient_types(given.tensors)
    kept = call.definition.kept
    if not given.flowing:
        outputs = _record_without_inputs(given)
    elif order == 0 and "variables" not in kept:
        outputs = _plain(given, recorded.run(call, given.leaves))
    elif order == 1 and not kept:
        outputs = _record_usual(given)
    else:
        outputs = _record_kept(given, order)
    if call.definition.kept is not kept:
        # What the rule asks for is known only now that the body has run; from here on it is known beforehand.
        return _attach(given)
    return outputs


def _plain(given: Given, result: ForwardResult) -> Any:
    """The outputs of a call about which the rule has nothing to say."""
    leaf = result.leaves[0] if result.form is ONE_OUTPUT else None
    if type(leaf) is private.EagerTensor:
        return leaf
    symbolic = [leaf for leaf in result.leaves if isinstance(leaf, keras.KerasTensor)]
    if symbolic:  # of a model that is being built, and no argument was one
        refuse_unseen(given, result.rule)
    return result.form.rebuild(values.outputs(result.leaves))


def _record_without_inputs(given: Given) -> Any:
    """A call without an argument to which a gradient flows: its rule may speak of variables, and of nothing else."""
    call, kept = given.call, given.call.definition.kept
    if "variables" in kept:
        return _record_kept(given, order=0)
    if not private.could_possibly_record():
        return _plain(given, recorded.run(call, given.leaves))
    with (
        closed_over.unexpected_reads(()) as used,
        private.VariableWatcher() as watcher,
    ):
        result = recorded.run(call, given.leaves)
    if call.definition.kept is not kept:
        return None  # asked for only now: the call is run once more
    if not _is_recorded(result):
        return _plain(given, result)
    if used or not watcher.watched_variables():
        refuse_unseen(given, result.rule, used)
    return _record_kept(given, order=0) if kept else _record(given, result, [])


def _is_recorded(result: ForwardResult) -> bool:
    """Whether a tape or an accumulator knows an output."""
    outputs = [leaf for leaf in result.leaves if isinstance(leaf, _WITH_GRADIENTS)]
    return private.possible_gradient_types(list(map(values.gradient_tensor, outputs))) > 0


def _record_usual(given: Given) -> Any:
    """The usual call: one tape, and a rule that asks for no more than inputs and outputs."""
    call, leaves, kinds, flowing, tensors, dense = given
    inner = list(map(private.detached, tensors))
    result = recorded.run(call, inner if tensors is leaves else given.around(inner))
    if call.definition.kept:
        return None  # asked for only now: the call is run once more
    usual = (
        dense
        and result.form.count == 1
        and type(result.leaves[0]) is private.EagerTensor
        and private.data_type(result.leaves[0]) in values.FLOWING
        and result.rule.kept <= _USUAL
        and call.definition.jvp is None
        and not private.possible_gradient_types(result.leaves)
    )
    if not usual:
        return _record(given, result, inner)
    specs = [None if t is None else Spec(private.concrete_shape(t), t.dtype) for t in leaves]
    record = Recorded(call, result.rule, result.form, kinds, specs)
    record.flowing, record.values = flowing, result.leaves
    fresh = private.detached(result.leaves[0])
    _let_go(record, inner, tensors)
    requested = result.rule.requested
    if requested:
        record.inputs = leaves if "inputs" in requested else None
        record.outputs = [fresh] if "outputs" in requested else None
    private.record_operation(call.name, [fresh], list(tensors), record.backward, record.forward)
    record.values = ()
    return result.form.rebuild([fresh])


def _let_go(record: Recorded, inner: list[Any], tensors: Sequence[Any]) -> None:
    """Keep of the inputs no more than weak references, and those whose detached handles the rule holds."""
    record.references = list(map(weakref.ref, tensors))
    handles = list(map(weakref.ref, inner))
    inner.clear()
    record.links = [(h, t) for h, t in zip(handles, tensors, strict=True) if h() is not None]


def _record_kept(given: Given, order: int, *, holds: bool = False) -> Any:
    """A call whose ordinary gradient, variables, or second derivative may be asked for, or that holds tensors fixed."""
    kept, body = given.call.definition.kept, _KeptBody(given, order > 1, holds)
    result = body.run()
    if given.call.definition.kept is not kept:
        return None  # asked for only now: the call is run once more
    if order == 0 and not body.read:
        if not given.flowing and _is_recorded(result):
            refuse_unseen(given, result.rule, body.foreign)
        return _plain(given, result)
    return _record(body.given, result, body.inner, body)


def _record(
    given: Given, result: ForwardResult, inner: list[Any], body: _KeptBody | None = None
) -> Any:
    refuse_in_outputs(given, result)
    record = recorded.record(given, result)
    captured = body.describe(record) if body else _pass_upstream(record)
    if captured and (body is None or body.passes) and _holds(given):
        return _record_kept(given, order=1, holds=True)
    if body and body.recording:
        record.tensors = given.tensors
    elif captured and private.possible_gradient_types([*given.tensors, *record.values]) > 1:
        # One tape watches the inputs and another what was captured: mixed derivatives need the record.
        return _record_kept(given, order=2)
    else:
        _let_go(record, inner, given.tensors)
    return recorded.finish(record, given, result, [*given.tensors, *captured])


def _holds(given: Given) -> bool:
    """Whether a body closes over tensors, known to tapes, that its rule holds fixed."""
    definition = given.call.definition
    if not definition.is_whole:
        return False
    return bool(closed_over.watched_tensors(definition.function, given.leaves))


def _pass_upstream(record: Recorded) -> list[Any]:
    """Let the upstream pass through to what the body captured: its outputs are sources, if any tape knows them."""
    if not private.possible_gradient_types(record.values):
        return []
    record.captured = list
    return list(record.values)


class _KeptBody:
    """A body whose ordinary gradient is kept on a tape of our own, for the rule or for what the body captures."""

    def __init__(self, given: Given, recording: bool, holds: bool) -> None:
        definition = given.call.definition
        self.recording = recording
        self.original = "original" in definition.kept
        self.asks_variables = "variables" in definition.kept
        # Where no tape knows the inputs that the body gets, the upstream can pass through to what it captures, but
        # not beside the original, which is of the same body: what runs in it would be differentiated twice.
        self.passes = not (recording or self.asks_variables or holds or self.original)
        self.is_whole = definition.is_whole
        self.foreign: list[Any] = []
        if not self.passes:
            known = {id(t) for t in given.tensors}
            watched = closed_over.watched_tensors(definition.function, given.leaves)
            self.foreign = [t for t in watched if id(t) not in known]
        tensors = values.distinct(given.tensors) if recording else given.tensors
        self.given = given._replace(tensors=tensors)
        self.inner = list(tensors if recording else map(private.detached, tensors))

    def run(self, repeated: bool = False) -> ForwardResult:
        """Run the body, watched as far as is needed."""
        self.variables = closed_over.Variables()
        watches = self.original or not self.asks_variables
        self.tape: Any = tf.GradientTape(
            persistent=True, watch_accessed_variables=watches and not self.passes
        )
        with contextlib.ExitStack() as watching:
            watching.enter_context(self.tape)
            reads = closed_over.unexpected_reads([*self.inner, *self.foreign])
            found = [] if self.passes else watching.enter_context(reads)
            if self.asks_variables:
                watching.enter_context(self.variables)
            self.tape.watch([*self.foreign, *(self.inner if self.original else ())])
            result = recorded.run(self.given.call, self.given.around(self.inner))
        # A captured tensor showed only when it was used, too late to watch it; or variables were made,
        # and only those are temporary that are made again: once more, now that this is known.
        if not found and (repeated or not self.variables.made):
            self.read = self.variables.found(self.variables.made) if self.asks_variables else []
            return result
        self.foreign += found
        return self.run(repeated=True)

    def describe(self, record: Recorded) -> list[Any]:
        """Tell the record where ordinary gradients come from; the captured sources."""
        record.variables = self.read
        mine = [*self.inner, *self.read]
        if self.passes:
            return _pass_upstream(record)
        read = () if self.asks_variables else self.tape.watched_variables()
        captured, others = [*self.foreign, *(v.handle for v in read)], [*self.foreign, *read]
        if self.original and captured:
            record.keep_both(functools.partial(self._differentiate, record.values), mine, others)
        elif self.original:
            record.keep_ordinary(self._differentiate(record.values, mine))
        elif captured:
            record.captured = self._differentiate(record.values, others)
        if record.captured and self.is_whole:
            known = {id(tensor) for tensor in self.given.tensors}
            numbers = [None if id(t) in known else private.number_of(t) for t in self.foreign]
            record.captured = _if_asked_for(record.captured, numbers)
        return [*captured, *(v.handle for v in record.variables)]

    def _differentiate(self, outputs: Sequence[Any], sources: Sequence[Any]) -> FlatGradient:
        return functools.partial(self.tape.gradient, outputs, sources)


def _if_asked_for(ordinary: FlatGradient, numbers: Sequence[int | None]) -> FlatGradient:
    """Ordinary gradients, of closed-over tensors only where a tape is asked for those themselves, by their numbers.

    No tape tells what a tensor was computed from. It may be an argument, about which the rule has said everything.
    """

    def captured(upstream: Sequence[Any]) -> list[Any]:
        asked = private.numbers_asked_for()
        found = list(ordinary(upstream))
        kept = [g if k in asked else None for g, k in zip(found, numbers, strict=False)]
        return [*kept, *found[len(numbers) :]]

    return captured
