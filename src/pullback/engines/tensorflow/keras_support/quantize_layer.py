"""A Keras layer that quantises its inputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

import keras

from pullback.engines.tensorflow.keras_support.gradient_layers import OnInputs, on_each, registered
from pullback.extend import rules

_LEARNED: Final = "lsq"
_LEAST_STEP: Final = 1e-8
_KINDS: Final[Mapping[str, Callable[..., Any]]] = {
    name: getattr(rules.quantizers, name)
    for name in ("uniform", "power_of_two", "ternary", "binary")
}


@registered
class Quantize(OnInputs):
    """Its inputs, quantised: with a learned step (`"lsq"`), `"uniform"`, `"power_of_two"`, `"ternary"` or `"binary"`.

    Further options are those of `pb.rules.quantizers`. The learned step is a weight that stays positive. It starts from
    the first batch on which the model is trained, or from numbers like those that will come: `layer.start(x)`.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([-2.0, 0.3, 0.9])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.keras.Quantize(bits=2, kind="uniform", low=0.0, high=0.75)(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 0.25, 0.75], [0.0, 1.0, 0.0])
    """

    def __init__(
        self, bits: int = 8, kind: str = _LEARNED, signed: bool = True, **kwargs: Any
    ) -> None:
        options = {name: kwargs.pop(name) for name in _OPTIONS if name in kwargs}
        super().__init__(**kwargs)
        self.bits, self.kind, self.signed, self.options = bits, kind, signed, options
        self.is_starting = False  # from what it is called with
        self._run = _made(kind, bits, signed, options)
        if kind == _LEARNED:
            self.step = self.add_weight(
                shape=(),
                initializer="zeros",  # which is a step that has not been started
                name="step",
                dtype="float32",
                autocast=False,
                constraint=Positive(),
                aggregation="mean",
            )

    def start(self, x: Any) -> None:
        """Set the learned step, or the range, from numbers like those that will come."""
        if self.kind == _LEARNED:
            self.step.assign(self._first_step(keras.ops.convert_to_tensor(x)))
        elif self.kind == "uniform":
            largest: Any = keras.ops.max(keras.ops.abs(x))
            high = float(largest) or 1.0
            self.options = {"low": -high if self.signed else 0.0, "high": high}
            self._run = _made(self.kind, self.bits, self.signed, self.options)
        else:
            raise ValueError(
                f'Quantize of kind {self.kind!r} has nothing to start: "lsq" has a step, "uniform" a range.'
            )

    def call(self, inputs: Any, training: bool = False) -> Any:
        """The inputs, rounded."""
        if self.is_starting and self.kind in (_LEARNED, "uniform"):
            self.start(keras.tree.flatten(inputs)[0])
        return on_each(lambda x: self._quantized(x, training), inputs)

    def _quantized(self, x: Any, training: Any) -> Any:
        if self.kind != _LEARNED:
            return self._run(x)
        step: Any = keras.ops.convert_to_tensor(self.step)
        step = keras.ops.cond(step > _LEAST_STEP, lambda: step, lambda: self._first_step(x))
        if training is True:
            self.step.assign(step)
            step = keras.ops.convert_to_tensor(self.step)
        return self._run(x, step)

    def _first_step(self, x: Any) -> Any:
        found = rules.quantizers.step_from(keras.ops.stop_gradient(x), self.bits, self.signed)
        return keras.ops.cast(found, "float32")

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        own = {"bits": self.bits, "kind": self.kind, "signed": self.signed}
        return {**super().get_config(), **own, **self.options}


@registered
class Positive(keras.constraints.Constraint):
    """A step of zero would have no way back."""

    def __call__(self, w: Any) -> Any:
        """The step, kept away from zero."""
        return keras.ops.maximum(w, _LEAST_STEP)


def _made(kind: str, bits: int, signed: bool, options: Mapping[str, Any]) -> Any:
    if kind != _LEARNED and kind not in _KINDS:
        known = ", ".join(map(repr, (_LEARNED, *_KINDS)))
        raise ValueError(f"Quantize got kind={kind!r}; there are {known}.")
    taken = _options_of(kind)
    strange = sorted(set(options) - taken)
    if strange:
        wanted = f"it takes {', '.join(sorted(taken))}" if taken else "it takes no further options"
        raise ValueError(f"Quantize of kind {kind!r} got {', '.join(strange)}; {wanted}.")
    if kind == _LEARNED:
        return rules.quantizers.lsq(bits, signed)
    if kind == "uniform" and not signed:
        options = {"low": 0.0, **options}
    has_bits = "bits" in inspect.signature(_KINDS[kind]).parameters
    return _KINDS[kind](**({"bits": bits} if has_bits else {}), **options)


def _options_of(kind: str) -> set[str]:
    return set(inspect.signature(_KINDS[kind]).parameters) - {"bits"} if kind in _KINDS else set()


_OPTIONS: Final = sorted(set().union(*map(_options_of, _KINDS)))
