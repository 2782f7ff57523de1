"""Where gradients start at a model's outputs, if nobody says what its loss is.

They are summed, as a tape does. Of some outputs the sum is the same whatever comes in: it is 1 for a softmax and 0 for
what is normalised. A gradient of zeros, or of what rounding leaves of them, is then no fault of the model, and the
outputs are summed with unequal weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.array_functions.programs import eps_of
from pullback.engines.tensorflow.explaining.subject import Subject
from pullback.engines.tensorflow.tf_private import explaining, overriding
from pullback.extend import flow

NOTE = (
    "no loss was given, and the plain sum of the outputs is (nearly) constant, as the sum of a softmax is: here they "
    "are summed with the weights 1 + cos(k) / 2, k = 0, 1, …; pb.explain(model, x, y, loss=...) explains your loss"
)
_ROUNDING = 1e3  # times what the dtype resolves: a gradient below may be nothing but rounding
_MUCH = 30.0  # times larger: not what weights between 0.5 and 1.5 do to a sum that varies


def upstream_of(output: Any, *, weighted: bool) -> Any:
    """What the gradient of one output starts with."""
    if not weighted:
        return tf.ones_like(output)
    weights = 1 + np.cos(np.arange(int(tf.size(output)))) / 2
    return tf.cast(weights.reshape(output.shape), output.dtype)


def is_model(subject: Subject) -> bool:
    """Whether this is a model or layer without a loss; of a function, its user takes the gradient of the sum."""
    fn = subject.fn
    kinds = (keras.Layer, tf.Module, overriding.ConcreteFunction)
    is_loaded = hasattr(fn, "signatures") or bool(explaining.name_of_loaded(fn))
    return not subject.has_loss and (isinstance(fn, kinds) or is_loaded)


def is_worth_it(outputs: Sequence[Any], told: flow.Flow) -> bool:
    """Whether there are several numbers to weigh, and a gradient is zero or of the size of rounding."""
    floats = [y for y in outputs if values.flows(y)]
    if sum(int(tf.size(y)) for y in floats) < 2:
        return False
    limit = _ROUNDING * max(eps_of(y.dtype) for y in floats)
    sizes = [source.gradient for source in told.sources]
    return any(size is not None and size.is_finite and size.max < limit for size in sizes)


def shows_more(weighted: flow.Flow, plain: flow.Flow) -> bool:
    """Whether some gradient is there once outputs are weighted."""
    before = {source.name: source.gradient for source in plain.sources}
    pairs = [(source.gradient, before.get(source.name)) for source in weighted.sources]
    return any(a and b and a.is_finite and a.max > _MUCH * b.max for a, b in pairs)
