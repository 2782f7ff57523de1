"""Keras layers that pass their inputs on and change the gradient, or that quantise them; each is a ready-made rule.

What may change during training is a weight that is not trained, so that it is read anew in every step, also by programs
that are traced already, and is saved with the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from pullback import rules, with_gradient

_registered = keras.saving.register_keras_serializable("pullback")


class _OnInputs(keras.Layer):
    """A layer whose outputs are its inputs."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        """As they came."""
        return input_shape

    def _number(self, name: str, value: Any) -> Any:
        """A number that may be changed while the model trains."""
        start = keras.initializers.Constant(_number_above(type(self).__name__, name, value))
        return self.add_weight(
            shape=(), initializer=start, trainable=False, name=name, dtype="float32"
        )


def _number_above(layer: str, name: str, value: Any) -> float:
    found = np.asarray(value)
    if found.shape != () or found.dtype.kind not in "iuf" or not np.isfinite(found):
        raise ValueError(f"{layer} got {name}={value!r}; wanted one number.")
    return float(found)


@_registered
class GradientReversal(_OnInputs):
    """Its inputs; the gradient times `-k`. `layer.k.assign(...)` changes it while the model trains.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.keras.GradientReversal(0.5)(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [-0.5, -0.5]
    """

    def __init__(self, k: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.k = self._number("k", k)

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        return rules.reverse(self.k)(inputs)

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again; the weight is saved as such."""
        return {**super().get_config(), "k": float(self.k)}


@_registered
class GradientScale(_OnInputs):
    """Its inputs; the gradient times `k`, which `layer.k.assign(...)` changes while the model trains."""

    def __init__(self, k: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.k = self._number("k", k)

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        return rules.scale(self.k)(inputs)

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        return {**super().get_config(), "k": float(self.k)}


@_registered
class GradientClip(_OnInputs):
    """Its inputs; the gradient clipped, as by `pb.rules.clip`."""

    def __init__(
        self,
        value: float | None = None,
        norm: float | None = None,
        global_norm: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.limits = {"value": value, "norm": norm, "global_norm": global_norm}
        self._rule = rules.clip(**self.limits)

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        return self._rule(inputs)

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        return {**super().get_config(), **self.limits}


@_registered
class StraightThrough(_OnInputs):
    """A function of its inputs, such as `"round"`, whose gradient is the upstream, or that of a surrogate.

    Both may be names of activations or functions of `keras.ops`, or functions that Keras can save.
    """

    def __init__(self, function: Any = "round", surrogate: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function, self.surrogate = function, surrogate
        forward, smooth = _function(function), surrogate and _function(surrogate)
        self._run = with_gradient(_one_argument(forward), rules.straight_through(smooth))

    def call(self, inputs: Any) -> Any:
        """The function of the inputs."""
        return self._run(inputs)

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        return {
            **super().get_config(),
            "function": _saved(self.function),
            "surrogate": _saved(self.surrogate),
        }


@_registered
class Spike(_OnInputs):
    """One where the inputs are above the threshold, else zero; the gradient is a surrogate's (`pb.rules.surrogate`)."""

    def __init__(
        self,
        surrogate: str = "atan",
        slope: float | None = None,
        threshold: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.options = {"surrogate": surrogate, "slope": slope, "threshold": threshold}
        self._run = with_gradient(_step, rules.surrogate(surrogate, slope))

    def call(self, inputs: Any) -> Any:
        """The spikes."""
        return self._run(inputs - self.options["threshold"])

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        return {**super().get_config(), **self.options}


@_registered
class Tap(_OnInputs):
    """Its inputs; the gradient is shown to a callback, or to a list, as by `pb.rules.tap`. Saved without it."""

    def __init__(self, callback: Any = None, of: str = "norm", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seen: list[Any] = []
        self.of = of
        self._rule = rules.tap(self.seen if callback is None else callback, of)

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        return self._rule(inputs)

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again: with a list of its own."""
        return {**super().get_config(), "of": self.of}


def _step(x: Any) -> Any:
    return keras.ops.cast(x > 0, x.dtype)


def _one_argument(function: Callable[..., Any]) -> Callable[[Any], Any]:
    def of_inputs(x: Any) -> Any:
        return function(x)

    return of_inputs


def _function(named: Any) -> Callable[..., Any]:
    if callable(named):
        return named
    if isinstance(named, dict):
        return keras.saving.deserialize_keras_object(named)
    found = getattr(keras.ops, str(named), None) or getattr(keras.activations, str(named), None)
    if found is None:
        raise ValueError(
            f"StraightThrough got {named!r}; wanted a function, or the name of one in keras.ops or keras.activations."
        )
    return found


def _saved(named: Any) -> Any:
    return keras.saving.serialize_keras_object(named) if callable(named) else named


_KINDS: dict[str, Callable[..., Any]] = {
    "uniform": rules.quantizers.uniform,
    "power_of_two": rules.quantizers.power_of_two,
    "ternary": lambda _, **options: rules.quantizers.ternary(**options),
    "binary": lambda _, **options: rules.quantizers.binary(**options),
}


@_registered
class Quantize(_OnInputs):
    """Its inputs, quantised: with a learned step (`"lsq"`), `"uniform"`, `"power_of_two"`, `"ternary"` or `"binary"`.

    Further options are those of `pb.rules.quantizers`. The learned step is a weight, which stays positive;
    `layer.start(x)` sets it from numbers like those that will come.
    """

    def __init__(
        self, bits: int = 8, kind: str = "lsq", signed: bool = True, **kwargs: Any
    ) -> None:
        options = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
        super().__init__(**kwargs)
        self.bits, self.kind, self.signed, self.options = bits, kind, signed, options
        if kind == "lsq":
            self._run = rules.quantizers.lsq(bits, signed)
            self.step = self.add_weight(
                shape=(), initializer="ones", name="step", dtype="float32", constraint=_Positive()
            )
        elif kind in _KINDS:
            self._run = _KINDS[kind](bits, **options)
        else:
            known = ", ".join(map(repr, ("lsq", *_KINDS)))
            raise ValueError(f"Quantize got kind={kind!r}; there are {known}.")

    def start(self, x: Any) -> None:
        """Set the learned step from numbers like those that will come."""
        self.step.assign(
            rules.quantizers.lsq_start(keras.ops.convert_to_tensor(x), self.bits, self.signed)
        )

    def call(self, inputs: Any) -> Any:
        """The inputs, rounded."""
        if self.kind != "lsq":
            return self._run(inputs)
        return self._run(inputs, keras.ops.cast(self.step, inputs.dtype))

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        own = {"bits": self.bits, "kind": self.kind, "signed": self.signed}
        return {**super().get_config(), **own, **self.options}


_OPTIONS = ("low", "high", "largest", "threshold", "clip", "swish")


@_registered
class _Positive(keras.constraints.Constraint):
    """A step of zero would have no way back."""

    def __call__(self, w: Any) -> Any:
        return keras.ops.maximum(w, 1e-8)
