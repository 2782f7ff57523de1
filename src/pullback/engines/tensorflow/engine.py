"""The TensorFlow engine, as the core sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import keras

from pullback._engine import Kind
from pullback._pullback import Job, Ran
from pullback._rule import Rule, location_of
from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach import eager, graph
from pullback.engines.tensorflow.keras_support import objects as keras_objects
from pullback.errors import RuleResultError


class Place(NamedTuple):
    """What is being differentiated."""

    name: str
    type: str
    layer: Any
    source: str


class TensorFlowEngine:
    """Tapes, accumulators, graphs and Keras."""

    name = "tensorflow"
    kind = staticmethod(values.kind)
    like = staticmethod(values.like)
    fits = staticmethod(values.fits)
    project = staticmethod(values.project)
    multiply = staticmethod(values.multiply)
    same_variable = staticmethod(values.same_variable)

    def __init__(self, prove: Callable[[], None]) -> None:
        self._prove = prove
        self.attach = self._attach_first  # type: ignore[method-assign]  # until the engine is proven

    def _attach_first(self, job: Job, leaves: Sequence[Any]) -> Any:
        self._prove()
        del self.attach
        return self.attach(job, leaves)

    def attach(self, job: Job, leaves: Sequence[Any]) -> Any:
        """Run the job's function so that its own pullback is used for it."""
        kinds = [values.kind(leaf) for leaf in leaves]
        eagerly = private.executing_eagerly()
        for leaf in leaves:
            if type(leaf) is not values.EagerTensor:
                return self._attach_any(job, leaves, kinds, eagerly)
        return eager.attach(job, leaves, kinds) if eagerly else graph.attach(job, leaves, kinds)

    def _attach_any(
        self, job: Job, leaves: Sequence[Any], kinds: Sequence[Kind], eagerly: bool
    ) -> Any:
        if any(isinstance(leaf, keras.KerasTensor) for leaf in leaves):
            return keras_objects.attach_symbolic(job, leaves)
        flowing = zip(leaves, kinds, strict=True)
        leaves = [values.read(leaf) if k is Kind.DIFFERENTIABLE else leaf for leaf, k in flowing]
        return eager.attach(job, leaves, kinds) if eagerly else graph.attach(job, leaves, kinds)

    def wrap(self, target: Any, define: Callable[[Any], Any], make: tuple[Any, ...]) -> Any | None:
        """A layer or model whose call has the definition."""
        return keras_objects.wrapped(target, define, make)

    @property
    def overrides(self) -> Any:
        """Overrides, loaded when the first one is made."""
        from pullback.engines.tensorflow.override import overrides

        return overrides

    @property
    def probes(self) -> Any:
        """Probes, loaded at the first check."""
        from pullback.engines.tensorflow import probing

        return probing

    def describe_call(self, job: Job) -> Any:
        """Name, type, layer and source line of the call, for a rule that asks for `op`."""
        return Place(job.name, "function", None, location_of(job.definition.function))

    def jvp_error(self, jvp: Rule, ran: Ran, came: str) -> Exception:
        """The error for tangents that do not fit the outputs."""
        return RuleResultError(
            f"jvp {jvp} of `{ran.job.name}` returned {came}; wanted one tangent for each of the "
            f"{ran.count} outputs, in their structure."
        )
