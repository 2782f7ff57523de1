"""In which format TensorFlow draws random numbers: a seed gives other numbers in float64 than in float32."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Generator
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import gen_random_ops as _random_ops
from tensorflow.python.ops import gen_stateless_random_ops_v2 as _stateless_random_ops

from pullback.extend import Replacement

# What `tf.random`, its generators and Keras draw real numbers with.
_DRAWING = (
    *((_random_ops, n) for n in ("random_uniform", "random_standard_normal", "truncated_normal")),
    (_stateless_random_ops, "stateless_random_uniform_v2"),
    (_stateless_random_ops, "stateless_random_normal_v2"),
    (_stateless_random_ops, "stateless_truncated_normal_v2"),
)

FormatOf = Callable[[tf.DType], tf.DType]


@contextlib.contextmanager
def drawn_in(format_of: FormatOf) -> Generator[None]:
    """While this is open, this thread draws real numbers in the format given for the wanted one, and casts them."""
    drawing = functools.partial(_drawing, threading.get_ident(), format_of)
    with contextlib.ExitStack() as undo:
        for module, name in _DRAWING:
            undo.enter_context(Replacement(module, name, drawing))
        yield


_signature = functools.cache(inspect.signature)


def _drawing(owner: int, format_of: FormatOf, op: Any) -> Any:
    signature = _signature(op)

    @functools.wraps(op)
    def draw(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != owner:
            return op(*args, **kwargs)
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        wanted = tf.as_dtype(bound.arguments["dtype"])
        bound.arguments["dtype"] = format_of(wanted)
        return tf.cast(op(*bound.args, **bound.kwargs), wanted)

    return draw
