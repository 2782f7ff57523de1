"""Keras layers that pass their inputs on, or a function of them, and change the gradient: ready-made rules as layers.

What may change during training is a weight that is not trained, so that it is read anew in every step, also by programs
that are traced already, and is saved with the model.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from pullback.engines.tensorflow.keras_support.saving import function_in, kept_function
from pullback.engines.tensorflow.names_in_files import keras_object, operation_of_keras
from pullback.extend import rules, with_gradient

registered = keras.saving.register_keras_serializable("pullback")


class OnInputs(keras.Layer):
    """A layer whose outputs are its inputs."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True

    def compute_output_shape(self, input_shape: Any) -> Any:
        """As they came."""
        return input_shape

    def number(self, name: str, value: Any) -> Any:
        """A number that may be changed while the model trains."""
        start = keras.initializers.Constant(_one_number(type(self).__name__, name, value))
        return self.add_weight(
            shape=(),
            initializer=start,
            trainable=False,
            name=name,
            dtype="float32",
            autocast=False,
            aggregation="mean",  # what replicas assign, each for its part of a batch
        )


def _one_number(layer: str, name: str, value: Any) -> float:
    found = np.asarray(value)
    if found.shape != () or found.dtype.kind not in "iuf" or not np.isfinite(found):
        raise ValueError(f"{layer} got {name}={value!r}; wanted one number.")
    return float(found)


@registered
class GradientReversal(OnInputs):
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
        self.k = self.number("k", k)
        self._rule = rules.reverse(self.k)

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        return on_each(self._rule, inputs)

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again; the weight is saved as such."""
        return {**super().get_config(), "k": number_in(self.k)}


@registered
class GradientScale(OnInputs):
    """Its inputs; the gradient times `k`, which `layer.k.assign(...)` changes while the model trains.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.keras.GradientScale(0.1)(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.10000000149011612, 0.10000000149011612]
    """

    def __init__(self, k: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.k = self.number("k", k)
        self._rule = rules.scale(self.k)

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        return on_each(self._rule, inputs)

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        return {**super().get_config(), "k": number_in(self.k)}


@registered
class GradientClip(OnInputs):
    """Its inputs; the gradient clipped, as by `pb.rules.clip`. Of several inputs `global_norm` is that of all together.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([3.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     y = tf.reduce_sum(pb.keras.GradientClip(norm=2.5)(x) * [3.0, 4.0])
    >>> tape.gradient(y, x).numpy().tolist()
    [1.5, 2.0]
    """

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
        leaves: list[Any] = keras.tree.flatten(inputs)
        passed = self._rule(*leaves)
        return keras.tree.pack_sequence_as(inputs, passed if len(leaves) > 1 else [passed])

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        return {**super().get_config(), **self.limits}


@registered
class StraightThrough(OnInputs):
    """A function of its inputs, such as `"round"`, whose gradient is the upstream, or that of a surrogate.

    Both may be names of activations or functions of `keras.ops`, or functions. A model is saved with functions that
    loading can find: those of a module, as `tf.round`, or registered with Keras.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([0.4, 1.6])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.keras.StraightThrough("round")(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 2.0], [1.0, 1.0])
    """

    def __init__(self, function: Any = "round", surrogate: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function, self.surrogate = function, surrogate
        forward, smooth = _function(function), surrogate and _function(surrogate)
        self._run = with_gradient(_one_argument(forward), rules.straight_through(smooth))

    def call(self, inputs: Any) -> Any:
        """The function of the inputs."""
        return on_each(self._run, inputs)

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        return {
            **super().get_config(),
            "function": _saved(self.function, f"the function of StraightThrough {self.name!r}"),
            "surrogate": _saved(self.surrogate, f"the surrogate of StraightThrough {self.name!r}"),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The layer of a configuration, with its functions."""
        functions = {name: function_in(config.get(name)) for name in ("function", "surrogate")}
        return super().from_config({**config, **functions})


@registered
class Spike(OnInputs):
    """One where the inputs are above the threshold, else zero; the gradient is a surrogate's (`pb.rules.surrogate`).

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([0.5, 1.0, 1.5])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.keras.Spike("triangular", threshold=1.0)(x)
    >>> y.numpy().tolist(), tape.gradient(y, x).numpy().tolist()
    ([0.0, 0.0, 1.0], [0.5, 1.0, 0.5])
    """

    def __init__(
        self,
        surrogate: str = "atan",
        slope: float | None = None,
        threshold: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        _one_number("Spike", "threshold", threshold)
        self.options = {"surrogate": surrogate, "slope": slope, "threshold": threshold}
        self._run = with_gradient(_step, rules.surrogate(surrogate, slope))

    def call(self, inputs: Any) -> Any:
        """The spikes."""
        return self._run(inputs - self.options["threshold"])

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        return {**super().get_config(), **self.options}


@registered
class Tap(OnInputs):
    """Its inputs; the length of the gradient that flows back through it is kept in the weight `norm`.

    That is cheap, and works in every program, also one compiled by XLA; `pb.keras.GradientNorms` logs it in `fit`. With
    a `callback` the gradient is shown to that instead, or appended to a list, as by `pb.rules.tap`. A model is saved
    with a callback that loading can find: a function of a module, or one that is registered with Keras.

    >>> import pullback as pb, tensorflow as tf
    >>> x, tap = tf.Variable([3.0, 4.0]), pb.keras.Tap()
    >>> with tf.GradientTape() as tape:
    ...     y = tf.reduce_sum(tap(x) * [3.0, 4.0])
    >>> gradient = tape.gradient(y, x)
    >>> float(tap.norm)
    5.0
    """

    def __init__(self, callback: Any = None, of: str = "norm", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if callback is None and of != "norm":
            raise ValueError(f'Tap got of={of!r} and no callback; it keeps the "norm" alone.')
        self.of = of
        self.norm = self.number("norm", 0.0)
        # Not as attributes of Keras', which would make a list of its own out of a list.
        object.__setattr__(self, "_callback", callback)
        object.__setattr__(
            self, "_rule", rules.tap(self.norm if callback is None else callback, of)
        )

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        return on_each(self._rule, inputs)

    def get_config(self) -> dict[str, Any]:
        """Keras' way to make it again."""
        config = {**super().get_config(), "of": self.of}
        if self._callback is not None:
            config["callback"] = kept_function(self._callback, f"the callback of Tap {self.name!r}")
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The tap of a configuration, with its callback."""
        return super().from_config({**config, "callback": function_in(config.get("callback"))})


def number_in(weight: Any) -> float:
    """The number that a weight holds, on whichever devices."""
    number: Any = keras.ops.convert_to_numpy(weight)
    return float(number)


def on_each(rule: Callable[[Any], Any], inputs: Any) -> Any:
    """A rule or function on each tensor of a structure."""
    return keras.tree.map_structure(rule, inputs)


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
        return keras_object(named)
    found = operation_of_keras(str(named))
    if found is None:
        raise ValueError(
            f"StraightThrough got {named!r}; wanted a function, or the name of one in keras.ops or keras.activations."
        )
    return found


def _saved(function: Any, what: str) -> Any:
    if not callable(function):
        return function
    name = getattr(function, "__name__", "")
    if operation_of_keras(name) is function:
        return name
    if hasattr(function, "get_config"):
        return keras.saving.serialize_keras_object(function)
    return kept_function(function, what)
