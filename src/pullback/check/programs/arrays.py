"""Tensors of an engine as the arrays that a check compares."""

from typing import Any

import numpy as np

from pullback.check.probe import Array
from pullback.program.protocol import ProgramEngine


def as_array(engine: ProgramEngine, tensor: Any) -> Array:
    """The numbers of a tensor in float64 or complex128."""
    array = np.asarray(engine.array(tensor))
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64, copy=False)
