"""The values of a function that computes in short formats, as if it computed in float64.

The derivative that is meant is that of the formula, which rounding to eleven or eight bits turns into stairs. The
traced program is copied with float64 for every shorter format in it: arguments, results, constants, casts.
"""

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.probing.modes import Point
from pullback.engines.tensorflow.probing.precision import double, lifted
from pullback.engines.tensorflow.tf_private import overriding

SHORT = (tf.float16, tf.bfloat16)
_DRAWN = ("Random", "TruncatedNormal")
_LIFTED = {dtype.as_datatype_enum: tf.float64.as_datatype_enum for dtype in (*SHORT, tf.float32)}


@contextlib.contextmanager
def short_formats_seen() -> Generator[set[tf.DType]]:
    """The short formats of what operations give while the block runs; random numbers are what they are in any."""
    seen: set[tf.DType] = set()

    def notice(kind: Any, _inputs: Any, _attrs: Any, outputs: Any, *_: Any, **_more: Any) -> None:
        if not any(drawn in tf.compat.as_str(kind) for drawn in _DRAWN):
            seen.update(y.dtype for y in outputs if getattr(y, "dtype", None) in SHORT)

    with private.ops_seen_by(notice, first=True):
        yield seen


def lifted_values(probe: Any) -> Callable[[Sequence[Any]], list[Any]] | None:
    """The function in float64 by its program, if that can be had: without variables or random numbers."""
    if probe.seed is not None or probe.variables:
        return None
    at = Point(probe, probe.start())
    traced = tf.function(lambda *tensors: at.outputs(*tensors), autograph=False)
    function = traced.get_concrete_function(*at.tensors)
    captured = [lifted(tensor, double) for tensor in function.captured_inputs]
    library = overriding.new_library()
    library.function.extend(overriding.reachable_definitions(function))
    for definition in library.function:
        _lift(definition)
    name = function.function_def.signature.name
    program = overriding.load_library(library)[name]
    dtypes = [double(y.dtype) for y in function.outputs]

    def values(xs: Sequence[Any]) -> list[Any]:
        probe.calls.spend()
        taken = [tf.constant(x) for x in xs] + captured
        return list(tf.raw_ops.PartitionedCall(args=taken, Tout=dtypes, f=program))

    return values


def _lift(definition: Any) -> None:
    """Write float64 for every other floating-point format in the definition of a function."""
    for arg in [*definition.signature.input_arg, *definition.signature.output_arg]:
        arg.type = _LIFTED.get(arg.type, arg.type)
    for node in definition.node_def:
        for attr in node.attr.values():
            match attr.WhichOneof("value"):
                case "type":
                    attr.type = _LIFTED.get(attr.type, attr.type)
                case "list":
                    attr.list.type[:] = [_LIFTED.get(kind, kind) for kind in attr.list.type]
                case "tensor" if attr.tensor.dtype in _LIFTED:
                    number = tf.make_ndarray(attr.tensor)
                    attr.tensor.CopyFrom(tf.make_tensor_proto(number.astype(np.float64)))
                case _:
                    pass
