"""Attaching a rule to a call that runs at once.

- Nothing stays on the tapes but what the rule holds: the body runs on detached handles of its inputs, which no
  tape watches.
- What the body captures gets its ordinary gradient: the body's outputs are sources too, and the upstream passes
  through to them.
- Where a second derivative can be asked for, the body is recorded in full, so that what the rule holds is known to
  the tapes; the ordinary gradient of what was captured then comes from a tape of our own.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach import body
from pullback.engines.tensorflow.attach.closed_over import Reads, closed_over
from pullback.engines.tensorflow.attach.recorded import Recorded
from pullback.engines.tensorflow.attach.variables import Variables
from pullback.extend import Call, ForwardResult, Kind, Spec

_USUAL = frozenset({"inputs", "outputs"})  # what costs nothing to keep


def attach(
    call: Call,
    leaves: Sequence[Any],
    kinds: Sequence[Kind],
    flowing: Sequence[int],
    tensors: Sequence[Any],
) -> Any:
    """Run the call now and record it with its own gradient."""
    order = private.possible_gradient_types(tensors)
    kept = call.definition.kept
    if order == 0 and "variables" not in kept:
        result = body.run(call, leaves)
        outputs = result.form.rebuild(values.outputs(result.leaves))
    elif order == 1 and not kept:
        outputs = _attach_usual(call, leaves, kinds, flowing, tensors)
    else:
        outputs = _attach(call, leaves, kinds, flowing, tensors, order)
    if call.definition.kept is not kept:
        # The body has only now told what its rule asks for; from here on it is known beforehand.
        return attach(call, leaves, kinds, flowing, tensors)
    return outputs


def _attach_usual(
    call: Call,
    leaves: Sequence[Any],
    kinds: Sequence[Kind],
    flowing: Sequence[int],
    tensors: Sequence[Any],
) -> Any:
    """The usual call: one tape, and a rule that asks for no more than inputs and outputs."""
    inner = list(map(private.detached, tensors))
    plain = tensors is leaves
    result = body.run(
        call, inner if plain else values.with_gradient_tensors(leaves, flowing, inner)
    )
    output, rule = result.leaves[0] if result.leaves else None, result.rule
    usual = (
        plain
        and result.form.count == 1
        and type(output) is private.EagerTensor
        and rule.kept <= _USUAL
        and call.definition.jvp is None
        and private.data_type(output) in values.FLOWING
        and not private.possible_gradient_types(result.leaves)
    )
    if not usual:
        return _record(_PLAIN, call, result, leaves, kinds, flowing, tensors, inner)
    specs = [Spec(private.concrete_shape(t), t.dtype) for t in tensors]
    recorded = Recorded(call, rule, result.form, kinds, specs)
    fresh = private.detached(output)
    recorded.flowing = flowing
    recorded.references = list(map(weakref.ref, tensors))
    recorded.links = _links(inner, tensors)
    requested = rule.requested
    if requested:
        recorded.inputs = leaves if "inputs" in requested else None
        recorded.outputs = [fresh] if "outputs" in requested else None
    recorded.values = result.leaves
    private.record_operation(
        call.definition.name, [fresh], tensors, recorded.backward, recorded.forward
    )
    recorded.values = ()
    return result.form.rebuild([fresh])


def _links(inner: list[Any], tensors: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The detached inputs that the rule holds, by weak references, each with the input it stands for."""
    references = list(map(weakref.ref, inner))
    inner.clear()
    return [(r, t) for r, t in zip(references, tensors, strict=True) if r() is not None]


def _attach(
    call: Call,
    leaves: Sequence[Any],
    kinds: Sequence[Kind],
    flowing: Sequence[int],
    tensors: Sequence[Any],
    order: int,
) -> Any:
    recording = order > 1
    keeper = _KeptBody(call, tensors, leaves, recording)
    if recording and len(tensors) > 1:
        tensors = values.distinct(list(tensors))
    inner = list(tensors) if recording else list(map(private.detached, tensors))
    result = keeper.run(call, values.with_gradient_tensors(leaves, flowing, inner), inner)
    return _record(keeper, call, result, leaves, kinds, flowing, tensors, inner, recording)


def _record(
    keeper: _PlainBody | _KeptBody,
    call: Call,
    result: ForwardResult,
    leaves: Sequence[Any],
    kinds: Sequence[Kind],
    flowing: Sequence[int],
    tensors: Sequence[Any],
    inner: list[Any],
    recording: bool = False,
) -> Any:
    recorded = body.record(call, result, leaves, kinds, flowing)
    captured = keeper.describe(recorded, inner)
    if recording:
        recorded.tensors = tensors
    elif captured and private.possible_gradient_types([*tensors, *recorded.values]) > 1:
        # One tape watches the inputs and another what was captured: mixed derivatives need the record.
        return _attach(call, leaves, kinds, flowing, tensors, 2)
    else:
        recorded.references = list(map(weakref.ref, tensors))
        recorded.links = _links(inner, tensors)
    return body.finish(recorded, result, leaves, [*tensors, *captured])


class _PlainBody:
    """The usual body: the upstream passes through to whatever it captures."""

    def describe(self, recorded: Recorded, inner: Sequence[Any]) -> list[Any]:
        """The captured sources: the body's own outputs, if any tape knows them."""
        del inner
        if not private.possible_gradient_types(recorded.values):
            return []
        recorded.captured = list
        return list(recorded.values)


_PLAIN = _PlainBody()


class _KeptBody:
    """A body whose ordinary gradient is kept on a tape of our own, for the rule or for what the body captures."""

    def __init__(
        self, call: Call, given: Sequence[Any], leaves: Sequence[Any], recording: bool
    ) -> None:
        self.original = "original" in call.definition.kept
        self.asks_variables = "variables" in call.definition.kept
        # Where no tape knows the inputs that the body gets, the upstream can pass through to what it captures.
        self.passes = not recording and not self.asks_variables
        self.repeated = False
        self.given = given
        self.foreign = (
            [] if self.passes else self._tracked(closed_over(call.definition.function, leaves))
        )

    def _tracked(self, tensors: Sequence[Any]) -> list[Any]:
        known = {id(t) for t in self.given}
        return [t for t in tensors if id(t) not in known and private.possible_gradient_types([t])]

    def run(self, call: Call, leaves: Sequence[Any], inner: Sequence[Any]) -> ForwardResult:
        """Run the body, watched as far as is needed."""
        self.variables = Variables() if self.asks_variables else None
        self.tape = tf.GradientTape(
            persistent=True, watch_accessed_variables=not (self.passes or self.asks_variables)
        )
        missed = contextlib.nullcontext([]) if self.passes else Reads([*inner, *self.foreign])
        with self.tape, missed as found, self.variables or contextlib.nullcontext():
            self.tape.watch([*self.foreign, *(inner if self.original else ())])
            result = body.run(call, leaves)
        # A captured tensor showed only when it was used, too late to watch it; or variables were made,
        # and only those are temporary that are made again: once more, now that this is known.
        made = self.variables is not None and self.variables.made and not self.repeated
        if not (found or made):
            return result
        self.foreign += found
        self.repeated = True
        return self.run(call, leaves, inner)

    def describe(self, recorded: Recorded, inner: Sequence[Any]) -> list[Any]:
        """Tell the record where ordinary gradients come from; the captured sources."""
        tape, outputs = self.tape, list(recorded.values)

        def differentiate(sources: Sequence[Any]) -> Any:
            sources = list(sources)
            return lambda upstream: tape.gradient(outputs, sources, list(upstream))

        if self.original:
            recorded.keep_ordinary(differentiate(inner))
        if self.passes:
            return _PLAIN.describe(recorded, inner)
        if self.variables:
            recorded.variables = self.variables.found()
        read = list(tape.watched_variables())
        captured = [*self.foreign, *(v.handle for v in read)]
        if captured:
            recorded.captured = differentiate([*self.foreign, *read])
        return [*captured, *(v.handle for v in recorded.variables)]
