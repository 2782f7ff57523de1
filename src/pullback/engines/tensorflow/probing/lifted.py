"""The values of a function that computes in short formats, as if it computed in float64.

The derivative that is meant is that of the formula, which rounding to eleven or eight bits turns into stairs. The
program of the function is run with float64 for every other format in it.
"""

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.extend import Unsupported, run_program

SHORT = (tf.float16, tf.bfloat16)
_DRAWN = ("Random", "TruncatedNormal")


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
    traced = probe.traced_function()
    if isinstance(traced, Unsupported):
        return None

    def values(xs: Sequence[Any]) -> list[Any]:
        probe.calls.spend()
        inputs = list(map(tf.constant, xs))
        return run_program(traced.engine, traced.program, inputs, dtype="float64").results

    return values
