"""Whether two runs of one function came to the same values, although nothing in between is kept.

Operations of the same types may still compute something else: a Python number or an array of NumPy that changes goes
into them as a constant. At once, some entries of the outputs are compared; in a graph, the constants of both runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.errors import RecomputationError

_ENTRIES = 1024  # of each output: 4 KiB in float32, next to nothing beside what a checkpoint saves
_WHAT_TO_DO = (
    "It must do the same each time: take what changes (a Python counter, a time, a random choice of Python or NumPy) "
    "out of it, and pass it in."
)


def differs(what: str) -> RecomputationError:
    """The error of a second run that did something else."""
    return RecomputationError(
        f"the second run of a function under pb.functions.checkpoint {what}. {_WHAT_TO_DO}"
    )


def samples_of(outputs: Any) -> list[Any]:
    """Some entries of each output, spread over rows and columns."""
    with private.stop_recording(), private.with_op_callbacks([]):
        flat = tf.nest.flatten(outputs, expand_composites=True)
        return [_sample(t) for t in flat if isinstance(t, tf.Tensor) and _is_number(t)]


def _is_number(tensor: Any) -> bool:
    dtype = tensor.dtype
    return dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_bool


def _sample(tensor: Any) -> Any:
    flat: Any = tf.reshape(tensor, [-1])
    # Odd, so that a stride of whole rows, all in one column, is none of them where sizes are powers of two.
    return flat[:: (flat.shape[0] // _ENTRIES) | 1]


def require_same_samples(before: Sequence[Any], now: Sequence[Any]) -> None:
    """Refuse outputs of a second run that are not those of the first, up to rounding."""
    for number, (old, new) in enumerate(zip(before, now, strict=True)):
        if old.shape != new.shape:
            raise differs(f"gave output {number} another size than the first")
        # Kernels may add in another order; what changes a result changes half of its digits.
        a, b = _wide(old), _wide(new)
        slack = _eps(old.dtype) ** 0.5 * np.abs(a[np.isfinite(a)]).max(initial=0.0)
        same = np.isclose(b, a, rtol=0.0, atol=slack, equal_nan=True)
        if not same.all():
            at = int(np.argmin(same))
            raise differs(
                f"ran the same operations and came to other values than the first: {b[at]:.6g} where that had "
                f"{a[at]:.6g}, in output {number}"
            )


def _eps(dtype: Any) -> float:
    inexact = dtype.is_floating or dtype.is_complex
    return float(ml_dtypes.finfo(dtype.as_numpy_dtype).eps) if inexact else 0.0


def _wide(sample: Any) -> Any:
    return sample.numpy().astype(complex if sample.dtype.is_complex else float)


def constants_of(inputs: Sequence[Any]) -> tuple[bytes | None, ...]:
    """What an operation of a graph gets as constants; `None` for an input that is none."""
    return tuple(_digest(t) for t in inputs)


def _digest(tensor: Any) -> bytes | None:
    # Texts have names in them, as those of assertions do, which are new each time.
    if tensor.dtype == tf.string or tensor.op.type != "Const":
        return None
    return hashlib.blake2b(tensor.op.get_attr("value").SerializeToString(), digest_size=16).digest()


def same_constants(before: Sequence[Any], now: Sequence[Any]) -> bool:
    """Whether inputs that are constants in both runs are the same ones."""
    pairs = zip(before, now, strict=False)
    return all(a == b for a, b in pairs if a is not None and b is not None)
