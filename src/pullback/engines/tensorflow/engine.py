"""The TensorFlow engine, as the core sees it."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import projecting, values
from pullback.engines.tensorflow.attach import linear
from pullback.engines.tensorflow.attach import loss_scale as loss_scaling
from pullback.engines.tensorflow.attach.eager import attach
from pullback.engines.tensorflow.keras_support import objects as keras_objects
from pullback.engines.tensorflow.override.places import caller, user_line
from pullback.engines.tensorflow.tf_private import autograph
from pullback.errors import UnsupportedError
from pullback.extend import Attach, Call, Definition, Engine, Target, TracedOp

# A checker wants to see `self` in methods, which functions of modules do not have.
_method: Any = staticmethod
_ROOTS = frozenset({"tensorflow", "keras"})  # Keras runs on TensorFlow here: it is ours


class TensorFlowEngine(Engine):
    """Tapes, accumulators, graphs and Keras."""

    name = "tensorflow"
    kind = _method(values.kind)
    spec_of = _method(projecting.spec_of)
    fits = _method(projecting.fits)
    as_array = _method(projecting.as_array)
    shape = _method(projecting.shape)
    cast = _method(projecting.cast)
    sum_to = _method(projecting.sum_to)
    sum_to_dynamic = _method(projecting.sum_to_dynamic)
    require_shape = _method(projecting.require_shape)
    zeros = _method(projecting.zeros)
    multiply = _method(projecting.multiply)
    multiply_dynamic = _method(projecting.multiply_dynamic)
    same_variable = _method(values.same_variable)
    loss_scale = _method(loss_scaling.loss_scale)
    adapts_loss_scale = _method(loss_scaling.adapts_loss_scale)
    require_linear = _method(linear.require_linear)
    wrap = _method(keras_objects.wrapped)
    origin_of_line = _method(autograph.origin_of_line)
    caller = _method(caller)

    def __init__(self, prove: Callable[[], bool]) -> None:
        self._prove = prove
        self._proven = False

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
        self._proven = self._prove()
        call.definition.prepared.clear()
        return attach(call, leaves)

    @functools.cached_property
    def overrides(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]  # one made once
        """Overrides, loaded when the first one is made."""
        from pullback.engines.tensorflow.overrides import Overrides

        return Overrides(self)

    @property
    def probes(self) -> Any:
        """Probes, loaded at the first check."""
        from pullback.engines.tensorflow import probing

        return probing

    @property
    def recorder(self) -> Any:
        """The recorder, loaded at the first explanation."""
        from pullback.engines.tensorflow import explaining

        return explaining

    def for_keras(self, name: str) -> Any:
        """Layers and callbacks, loaded when the first one is asked for."""
        from pullback.engines.tensorflow import for_keras

        return getattr(for_keras, name)

    @property
    def arrays(self) -> Any:
        """What ready-made rules compute with."""
        from pullback.engines.tensorflow import array_functions

        return array_functions

    @property
    def saliency(self) -> Any:
        """Models run with their insides seen, loaded at the first saliency map."""
        from pullback.engines.tensorflow import saliency

        return self.overrides and saliency

    @property
    def catalogue(self) -> Any:
        """TensorFlow and Keras themselves, loaded when they are audited."""
        from pullback.engines.tensorflow import auditing

        return auditing

    def precision(self, dtype: str) -> contextlib.AbstractContextManager[None]:
        """Tensors of every precision can be had everywhere; which ones there are is all there is to say."""
        if not hasattr(tf, dtype):
            raise UnsupportedError(f"TensorFlow has no dtype {dtype!r}.")
        return contextlib.nullcontext()

    @property
    def modes(self) -> Mapping[str, Any]:
        """The ways in which TensorFlow runs a function."""
        from pullback.engines.tensorflow.modes import MODES

        return MODES

    def trace(self, function: Callable[..., Any], *args: Any) -> Sequence[TracedOp]:
        """The ops of the graph into which a call is traced, each with the line of the user's that made it."""
        traced = tf.function(function).get_concrete_function(*args)
        return [
            TracedOp(op.name, op.type, tuple(t.op.name for t in op.inputs), user_line(op))
            for op in traced.graph.get_operations()
        ]

    def targets(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        names: Mapping[str, Any],
    ) -> Sequence[Target]:
        """What runs in a call and can be overridden."""
        from pullback.engines.tensorflow.override.listing.observe import targets

        return self.overrides and targets(function, args, kwargs, names)

    def read_model(self, path: Path) -> Callable[..., Any] | None:
        """The model of a Keras file or of a SavedModel folder."""
        from pullback.engines.tensorflow.reading import read_model

        return read_model(path)

    def call_specs(self, model: Any) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """What a model says that it takes."""
        from pullback.engines.tensorflow.reading import call_specs

        return call_specs(model)
