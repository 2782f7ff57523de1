"""Which operations draw random numbers and write variables, and what can be done about them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private

STATELESS = {
    "RandomUniform": tf.random.stateless_uniform,
    "RandomStandardNormal": tf.random.stateless_normal,
    "TruncatedNormal": tf.random.stateless_truncated_normal,
}
# Kept as they are: there is no stateless operation for them.
DRAWN = frozenset(
    [
        "RandomUniformInt",
        "Multinomial",
        "RandomGamma",
        "RandomPoissonV2",
        "RandomShuffle",
        "ParameterizedTruncatedNormal",
        "NonDeterministicInts",
        "AllCandidateSampler",
        "FixedUnigramCandidateSampler",
        "LearnedUnigramCandidateSampler",
        "LogUniformCandidateSampler",
        "UniformCandidateSampler",
        "SampleDistortedBoundingBoxV2",
    ]
)
# Of a tf.random.Generator, whose state is a variable: what they give is kept, a few numbers for the first one.
SKIPS = frozenset(["RngReadAndSkip", "RngSkip"])
GENERATORS = SKIPS | {
    "StatefulUniform",
    "StatefulUniformInt",
    "StatefulUniformFullInt",
    "StatefulStandardNormalV2",
    "StatefulTruncatedNormal",
    "StatefulRandomBinomial",
}
RANDOM = GENERATORS | DRAWN | set(STATELESS)
WRITES = frozenset(["AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp"])
GATHERS = frozenset(["ResourceGather", "ResourceGatherNd"])
READS = GATHERS | {"ReadVariableOp", "VariableShape", "VarIsInitializedOp", "Identity"}
STATEFUL = RANDOM | WRITES | GATHERS | {"ReadVariableOp"}
CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])
# Operations that a graph has once, however often they are asked for, and with which accumulators make zeros.
UNCOUNTED = frozenset(
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

# Of what TensorFlow puts into a function of its own for them, as gradients of several orders may be asked for.
_WRAPPED = frozenset(["While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"])

_scanned: weakref.WeakKeyDictionary[Any, tuple[int, dict[int, int]]] = weakref.WeakKeyDictionary()


def text(kind: Any) -> str:
    """The name of an operation or of its type, which comes as bytes at times."""
    return kind.decode() if isinstance(kind, bytes) else kind


def key_of(handle: Any) -> int:
    """The same for one variable in every graph."""
    return id(private.outside_of(handle))


def drawn(kind: str, inputs: Any, outputs: Any, seed: Any) -> Any:
    """Random numbers from a seed in place of those that an operation drew."""
    found = STATELESS[kind](inputs[0], seed, dtype=outputs[0].dtype)
    found.set_shape(outputs[0].shape)
    outputs = outputs if isinstance(outputs, list) else list(outputs)
    outputs[0] = found
    return outputs


def is_counted(kind: str, graph: Any, of_run: Any) -> bool:
    """Whether an operation is one of a run in a graph, and not of something inside of it."""
    if kind in _WRAPPED:
        graph = private.unwrapped(graph)
    return kind not in UNCOUNTED and graph is of_run


def read(handle: Any) -> Any:
    """The value of a variable."""
    return tf.raw_ops.ReadVariableOp(resource=handle, dtype=private.dtype_of_handle(handle))


def copied(value: Any) -> Any:
    """A value in memory of its own: some operations change a variable where it is, also under what was read of it."""
    return tf.raw_ops.DeepCopy(x=value)


def assign(pairs: Iterable[tuple[Any, Any]]) -> None:
    """Give variables values, unseen."""
    with private.stop_recording(), private.with_op_callbacks([]):
        for handle, value in pairs:
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)


def changed(values: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any, Any]]:
    """Variables that may have been assigned since they were read, with their values then and now."""
    found = [(handle, then, read(handle)) for handle, then in values]
    return [one for one in found if not _is_one_buffer(one[1], one[2])]


def _is_one_buffer(a: Any, b: Any) -> bool:
    """Whether two tensors are surely the same memory. What is not in the machine's own would have to be copied."""
    if not all(t.device.endswith("CPU:0") and t.shape.num_elements() for t in (a, b)):
        return False
    return np.asarray(a).__array_interface__["data"] == np.asarray(b).__array_interface__["data"]


def last_writes(graph: Any) -> dict[int, int]:
    """The number of the last operation of a graph that came to each variable and did not merely read it."""
    seen, found = _scanned.get(graph, (0, {}))
    operations = graph.get_operations()
    for number in range(seen, len(operations)):
        operation = operations[number]
        if operation.type not in READS:
            handles = [t for t in operation.inputs if t.dtype == tf.resource]
            found.update((key_of(handle), number) for handle in handles)
    _scanned[graph] = len(operations), found
    return found


def refusing_state(
    function: Callable[..., Any], refuse: Callable[[str], Exception]
) -> Callable[..., Any]:
    """A function that may not draw random numbers nor write variables, but for those that it makes."""

    def run(*args: Any) -> Any:
        making = False

        def make(variable: Callable[..., Any], **options: Any) -> Any:
            nonlocal making
            before, making = making, True
            try:
                return variable(**options)
            finally:
                making = before

        def see(kind: Any, inputs: Any, attrs: Any, outputs: Any, *more: Any, **named: Any) -> Any:
            del inputs, attrs, more, named
            kind = text(kind)
            if not making and (kind in RANDOM or kind in WRITES):
                raise refuse(kind)
            return outputs

        with tf.variable_creator_scope(make), private.ops_seen_by(see):
            return function(*args)

    return run
