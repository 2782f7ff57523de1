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

from pullback._engine import Kind
from pullback._pullback import Job, Pullback, Ran
from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach import quick
from pullback.engines.tensorflow.attach.closed_over import Reads, closed_over
from pullback.engines.tensorflow.attach.recorded import Recorded, finish
from pullback.engines.tensorflow.attach.variables import Variables
from pullback.engines.tensorflow.values import core, distinct, kind, like, with_core
from pullback.engines.tensorflow.values import outputs as outputs_of


def attach(job: Job, leaves: Sequence[Any], kinds: Sequence[Kind]) -> Any:
    """Run the job now and record it with its own gradient."""
    flowing = [i for i, k in enumerate(kinds) if k is Kind.DIFFERENTIABLE]
    tensors = [core(leaves[i]) for i in flowing]
    order = private.possible_gradient_types(tensors)
    keeps = job.definition.keeps
    if order == 0 and "variables" not in keeps:
        ran = job.run(leaves)
        outputs = ran.outputs(outputs_of(ran.leaves))
    else:
        outputs = _attach(job, leaves, kinds, flowing, tensors, order)
    if job.definition.keeps is not keeps:
        # The body has only now told what its rule asks for; from here on it is known beforehand.
        return attach(job, leaves, kinds)
    return outputs


def _attach(
    job: Job,
    leaves: Sequence[Any],
    kinds: Sequence[Kind],
    flowing: list[int],
    tensors: list[Any],
    order: int,
) -> Any:
    recording = order > 1
    kept = recording or job.definition.keeps
    body = _KeptBody(job, tensors, leaves, recording) if kept else _PLAIN
    if recording and len(tensors) > 1:
        tensors = distinct(tensors)
    inner = tensors if recording else [private.detached(t) for t in tensors]
    ran = body.run(job, _with_cores(leaves, flowing, inner), inner)
    if body is _PLAIN and quick.is_usual(ran):
        references = [weakref.ref(t) for t in inner]
        del inner
        return quick.record(ran, kinds, leaves, flowing, tensors, references)
    ran.leaves = outputs_of(ran.leaves)
    returned = [i for i, leaf in enumerate(ran.leaves) if kind(leaf) is Kind.DIFFERENTIABLE]
    values = [core(ran.leaves[i]) for i in returned]
    recorded = Recorded(Pullback(ran, kinds, [like(leaf) for leaf in leaves]), flowing, returned)
    captured = body.describe(recorded, inner, values)
    if recording:
        recorded.cores = tensors
    elif captured and private.possible_gradient_types([*tensors, *values]) > 1:
        # One tape watches the inputs and another what was captured: mixed derivatives need the record.
        return _attach(job, leaves, kinds, flowing, tensors, 2)
    else:
        recorded.references = [weakref.ref(t) for t in tensors]
        references = [weakref.ref(t) for t in inner]
        del inner
        recorded.links = [
            (r, t) for r, t in zip(references, tensors, strict=True) if r() is not None
        ]
    return finish(recorded, leaves, values, [*tensors, *captured])


class _PlainBody:
    """The usual body: it runs as it is, and the upstream passes through to whatever it captures."""

    def run(self, job: Job, leaves: Sequence[Any], inner: Sequence[Any]) -> Ran:
        """Run the body."""
        del inner
        return job.run(leaves)

    def describe(
        self, recorded: Recorded, inner: Sequence[Any], values: Sequence[Any]
    ) -> list[Any]:
        """The captured sources: the body's own outputs, if any tape knows them."""
        del inner
        if not private.possible_gradient_types(values):
            return []
        recorded.captured = list
        return list(values)


_PLAIN = _PlainBody()


class _KeptBody:
    """A body whose ordinary gradient is kept on a tape of our own, for the rule or for what the body captures."""

    def __init__(
        self, job: Job, given: Sequence[Any], leaves: Sequence[Any], recording: bool
    ) -> None:
        self.original = "original" in job.wants
        self.asks_variables = "variables" in job.wants
        # Where no tape knows the inputs that the body gets, the upstream can pass through to what it captures.
        self.passes = not recording and not self.asks_variables
        self.repeated = False
        self.given = given
        self.foreign = (
            [] if self.passes else self._tracked(closed_over(job.definition.function, leaves))
        )

    def _tracked(self, tensors: Sequence[Any]) -> list[Any]:
        known = {id(t) for t in self.given}
        return [t for t in tensors if id(t) not in known and private.possible_gradient_types([t])]

    def run(self, job: Job, leaves: Sequence[Any], inner: Sequence[Any]) -> Ran:
        """Run the body, watched as far as is needed."""
        self.variables = Variables() if self.asks_variables else None
        self.tape = tf.GradientTape(
            persistent=True, watch_accessed_variables=not (self.passes or self.asks_variables)
        )
        missed = contextlib.nullcontext([]) if self.passes else Reads([*inner, *self.foreign])
        with self.tape, missed as found, self.variables or contextlib.nullcontext():
            self.tape.watch([*self.foreign, *(inner if self.original else ())])
            ran = job.run(leaves)
        # A captured tensor showed only when it was used, too late to watch it; or variables were made,
        # and only those are temporary that are made again: once more, now that this is known.
        made = self.variables is not None and self.variables.made and not self.repeated
        if not (found or made):
            return ran
        self.foreign += found
        self.repeated = True
        return self.run(job, leaves, inner)

    def describe(
        self, recorded: Recorded, inner: Sequence[Any], values: Sequence[Any]
    ) -> list[Any]:
        """Tell the record where ordinary gradients come from; the captured sources."""
        if self.original:
            recorded.ordinary = _from_tape(self.tape, values, inner, recorded)
        if self.passes:
            return _PLAIN.describe(recorded, inner, values)
        if self.variables:
            recorded.variables = self.variables.found()
        read = list(self.tape.watched_variables())
        captured = [*self.foreign, *(v.handle for v in read)]
        if captured:
            tape, sources, values = self.tape, [*self.foreign, *read], list(values)
            recorded.captured = lambda upstream: tape.gradient(values, sources, list(upstream))
        return [*captured, *(v.handle for v in recorded.variables)]


def _from_tape(tape: Any, values: Sequence[Any], inner: Sequence[Any], recorded: Recorded) -> Any:
    values, inner = list(values), list(inner)
    flowing, count = recorded.flowing, len(recorded.pullback.kinds)

    def ordinary(upstream: Sequence[Any]) -> list[Any]:
        flat: list[Any] = [None] * count
        for index, gradient in zip(
            flowing, tape.gradient(values, inner, list(upstream)), strict=True
        ):
            flat[index] = gradient
        return flat

    return ordinary


def _with_cores(leaves: Sequence[Any], flowing: Sequence[int], cores: Sequence[Any]) -> list[Any]:
    inner = list(leaves)
    for index, tensor in zip(flowing, cores, strict=True):
        inner[index] = with_core(inner[index], tensor)
    return inner
