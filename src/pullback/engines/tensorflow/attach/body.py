"""Running the body of a call, and finishing: what eager code and graphs have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach import registry
from pullback.engines.tensorflow.attach.recorded import Recorded
from pullback.engines.tensorflow.attach.splice import splice
from pullback.extend import Call, ForwardResult, Kind


def run(
    call: Call, leaves: Sequence[Any], adapt: Callable[[Any], Any] | None = None
) -> ForwardResult:
    """Run the user's function. Overrides that are open replace this, to tell what has an effect inside."""
    return call.run(leaves, adapt)


def record(
    call: Call,
    result: ForwardResult,
    leaves: Sequence[Any],
    kinds: Sequence[Kind],
    flowing: Sequence[int],
) -> Recorded:
    """The record of a call that has run; its outputs are tensors from here on."""
    specs = [values.spec_of(leaf) for leaf in leaves]
    recorded = Recorded(call, result.rule, result.form, kinds, specs)
    result.leaves = values.outputs(result.leaves)
    recorded.flowing = flowing
    recorded.returned = values.differentiable(result.leaves)
    recorded.values = [values.gradient_tensor(result.leaves[i]) for i in recorded.returned]
    recorded.jvp = call.definition.jvp
    return recorded


def finish(
    recorded: Recorded, result: ForwardResult, leaves: Sequence[Any], sources: Sequence[Any]
) -> Any:
    """Splice the rule in behind the body and give the outputs in their structure."""
    jvp, name = recorded.jvp, recorded.call.name
    requested = recorded.rule.requested | jvp.requested if jvp else recorded.rule.requested
    if "inputs" in requested:
        recorded.inputs = leaves
    outputs, result.leaves = result.leaves, []
    recorded.wrappers = {
        index: outputs[index]
        for index, value in zip(recorded.returned, recorded.values, strict=True)
        if outputs[index] is not value
    }

    def ready(fresh: Sequence[Any]) -> None:
        outputs[:] = values.with_gradient_tensors(outputs, recorded.returned, fresh)

    if "outputs" in requested:
        recorded.outputs = outputs
    # The name tells, also in a file, that the tangents come from the transposed rule, which must be linear.
    name = name if jvp else f"{name}_{registry.TRANSPOSABLE}"
    splice(name, recorded.values, sources, recorded.backward, recorded.forward, ready)
    recorded.values = ()
    return recorded.form.rebuild(outputs)
