"""The usual eager call: tensors in, one tensor out, one tape, and a rule that asks for no more than inputs and outputs.

Everything rarer is left to `Recorded`, which is made only when it is needed.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from pullback._engine import Kind
from pullback._pullback import Pullback, Ran, split_second
from pullback._tree import LEAF
from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.recorded import Recorded
from pullback.engines.tensorflow.values import EagerTensor, Like, fits, kind, like

_OFFERED = frozenset({"inputs", "outputs"})


def is_usual(ran: Ran) -> bool:
    """Whether a call that has just run is of the usual kind."""
    return (
        ran.count == 1
        and (ran.structure is LEAF or not ran.single)
        and type(ran.leaves[0]) is EagerTensor
        and ran.rule.wants <= _OFFERED
        and ran.job.definition.jvp is None
        and kind(ran.leaves[0]) is Kind.DIFFERENTIABLE
        and not private.possible_gradient_types(ran.leaves)
    )


def record(
    ran: Ran,
    kinds: Sequence[Kind],
    leaves: Sequence[Any],
    flowing: Sequence[int],
    tensors: list[Any],
    inner: Sequence[Any],
) -> Any:
    """Record the call and give its output."""
    (value,) = ran.take()
    fresh = private.detached(value)
    links = [(r, t) for r, t in zip(inner, tensors, strict=True) if r() is not None]
    call = Quick(ran, kinds, flowing, [like(t) for t in tensors], links)
    call.references = [weakref.ref(t) for t in tensors]
    wants = ran.rule.wants
    if wants:
        call.inputs = leaves if "inputs" in wants else None
        call.outputs = [fresh] if "outputs" in wants else None
    call.value = value
    private.record_operation(ran.job.definition.name, [fresh], tensors, call.backward, call.forward)
    call.value = None
    return ran.outputs([fresh])


class Quick:
    """What is kept of a usual call."""

    __slots__ = (
        "flowing",
        "inputs",
        "kinds",
        "likes",
        "links",
        "outputs",
        "ran",
        "references",
        "value",
    )

    def __init__(
        self,
        ran: Ran,
        kinds: Sequence[Kind],
        flowing: Sequence[int],
        likes: Sequence[Like | None],
        links: Sequence[Any],
    ) -> None:
        self.ran = ran
        self.flowing = flowing
        self.kinds = kinds
        self.likes = likes
        self.links = links
        self.inputs: Sequence[Any] | None = None
        self.outputs: Sequence[Any] | None = None

    def backward(self, dy: Any) -> list[Any]:
        """One gradient per input."""
        if type(dy) is not EagerTensor or private.could_possibly_record():
            return self._recorded().backward(dy)
        ran, likes = self.ran, self.likes
        rule = ran.rule
        rule.check_upstream(1)
        returned = rule.function(dy, **self._offers()) if rule.wants else rule.function(dy)
        given = returned if type(returned) is tuple else (returned,)
        if len(given) == len(likes) and all(map(fits, given, likes)):
            return list(given)
        fitted = self._pullback().fit(split_second(returned)[0], {})
        return [fitted[i] for i in self.flowing]

    def forward(self, *tangents: Any) -> list[Any]:
        """The tangent of the output."""
        recorded = self._recorded()
        recorded.values = [self.value]
        return recorded.forward(*tangents)

    def _offers(self) -> dict[str, Any]:
        offers: dict[str, Any] = {}
        if self.inputs is not None:
            offers["inputs"] = self.ran.job.inputs(self.inputs)
        if self.outputs is not None:
            offers["outputs"] = self.ran.outputs(self.outputs)
        return offers

    def _recorded(self) -> Recorded:
        recorded = Recorded(self._pullback(), self.flowing, [0])
        recorded.links, recorded.references = self.links, self.references
        recorded.inputs, recorded.outputs = self.inputs, self.outputs
        return recorded

    def _pullback(self) -> Pullback:
        likes: list[Any] = [None] * len(self.kinds)
        for index, wanted in zip(self.flowing, self.likes, strict=True):
            likes[index] = wanted
        return Pullback(self.ran, self.kinds, likes)
