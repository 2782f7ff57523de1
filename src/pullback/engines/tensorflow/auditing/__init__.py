"""TensorFlow and Keras for an audit: what they differentiate, calls of it, and reproductions."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.auditing import listing
from pullback.engines.tensorflow.auditing.calls import arguments, function_of, gradient_of
from pullback.engines.tensorflow.auditing.calls import cases as cases
from pullback.engines.tensorflow.auditing.calls import operations as _operations
from pullback.engines.tensorflow.auditing.design import by_design as by_design
from pullback.engines.tensorflow.auditing.design import mended_by as mended_by
from pullback.engines.tensorflow.auditing.listing import listed_as as listed_as
from pullback.engines.tensorflow.auditing.scripts import script as script
from pullback.extend import Case

version = f"TensorFlow {tf.__version__} and Keras {keras.__version__}"


def names() -> list[str]:
    """Everything that is to be audited."""
    return list(listing.catalogue())


def aliases(name: str) -> Sequence[str]:
    """Other names of the same function."""
    return listing.aliases().get(name, [])


def function(case: Case, *, second: bool = False) -> tuple[Any, Sequence[Any]]:
    """A call, or its gradient, as a function and its arguments."""
    made = function_of(case)
    return gradient_of(made) if second else made, arguments(case.inputs)


def operations(case: Case) -> Sequence[str]:
    """The ops that a call runs."""
    return [f"tf.raw_ops.{op}" for op in _operations(case)]
