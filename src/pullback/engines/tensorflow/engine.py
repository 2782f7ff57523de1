"""The TensorFlow engine, as the core sees it."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach import linear
from pullback.engines.tensorflow.attach.eager import attach
from pullback.engines.tensorflow.keras_support import objects as keras_objects
from pullback.errors import UnsupportedError
from pullback.extend import Attach, Call, Definition, Engine

_ROOTS = frozenset({"tensorflow", "keras"})  # Keras runs on TensorFlow here: it is ours


class TensorFlowEngine(Engine):
    """Tapes, accumulators, graphs and Keras."""

    name = "tensorflow"
    kind = staticmethod(values.kind)
    spec_of = staticmethod(values.spec_of)
    fits = staticmethod(values.fits)
    as_array = staticmethod(values.as_array)
    shape = staticmethod(values.shape)
    cast = staticmethod(values.cast)
    sum_to = staticmethod(values.sum_to)
    sum_to_dynamic = staticmethod(values.sum_to_dynamic)
    zeros = staticmethod(values.zeros)
    multiply = staticmethod(values.multiply)
    same_variable = staticmethod(values.same_variable)
    linearity_probes = staticmethod(linear.linearity_probes)
    require_additive = staticmethod(linear.require_additive)
    wrap = staticmethod(keras_objects.wrapped)
    origin_of_line = staticmethod(private.origin_of_line)

    def __init__(self, prove: Callable[[], None]) -> None:
        self._prove = prove
        self._proven = False
        self._overrides: Any = None

    def owns_class(self, kind: type) -> bool:
        """Whether TensorFlow or Keras has made this class, or one that it inherits from."""
        return any(base.__module__.partition(".")[0] in _ROOTS for base in kind.__mro__)

    def owns(self, target: Any) -> bool:
        """Whether TensorFlow or Keras has made this function or class, or the class of this object."""
        if isinstance(target, (type, types.FunctionType, types.BuiltinFunctionType)):
            module = getattr(target, "__module__", None) or ""
            return module.partition(".")[0] in _ROOTS
        return self.owns_class(type(target))

    def prepare(self, definition: Definition) -> Attach:
        """Calls are run at once or traced, as the context says; the canary runs before the first one."""
        del definition
        return attach if self._proven else self._attach_first

    def _attach_first(self, call: Call, leaves: Sequence[Any]) -> Any:
        self._prove()
        self._proven = True
        call.definition.prepared.clear()
        return attach(call, leaves)

    @property
    def overrides(self) -> Any:
        """Overrides, loaded when the first one is made."""
        if self._overrides is None:
            from pullback.engines.tensorflow.overrides import Overrides

            self._overrides = Overrides(self)
        return self._overrides

    @property
    def probes(self) -> Any:
        """Probes, loaded at the first check."""
        from pullback.engines.tensorflow import probing

        return probing

    @contextlib.contextmanager
    def precision(self, dtype: str) -> Iterator[None]:
        """Tensors of every precision can be had everywhere; which ones there are is all there is to say."""
        if not hasattr(tf, dtype):
            raise UnsupportedError(f"TensorFlow has no dtype {dtype!r}.")
        yield

    def trace(self, function: Callable[..., Any], *args: Any) -> Sequence[Any]:
        """The ops that a call runs, as nodes of the graph it is traced into."""
        traced = tf.function(function, autograph=False).get_concrete_function(*args)
        return traced.graph.get_operations()
