"""Keras layers that are linear but for their activation, with other weights: what rules of relevance ask for.

A BatchNormalization that is all that follows a layer is one linear layer with it. That it is shows in the backward
pass: what it passes on arrives at the layer as it is, with a mark, and not summed with anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf

from pullback.errors import RuleError

_layers = keras.layers
_LAST: Final = (_layers.Dense, _layers.Conv1D, _layers.Conv2D, _layers.Conv3D)
_TRANSPOSED: Final = (_layers.Conv1DTranspose, _layers.Conv2DTranspose, _layers.Conv3DTranspose)
_DEPTHWISE: Final = (_layers.DepthwiseConv1D, _layers.DepthwiseConv2D)
CONVOLUTIONS: Final = (*_LAST[1:], *_TRANSPOSED, *_DEPTHWISE)
SEPARABLE: Final = (_layers.SeparableConv1D, _layers.SeparableConv2D)
DENSE: Final = (_layers.Dense, _layers.EinsumDense)
# Activations after which an output is what it was before, or zero, and then has no relevance.
_UNCHANGED: Final = (None, keras.activations.linear, keras.activations.relu)
# Operations that give nothing negative, and those that do not where their inputs are not.
_NONNEGATIVE: Final = frozenset(
    {"Abs", "Exp", "Relu", "Relu6", "Sigmoid", "Softmax", "Softplus", "Sqrt", "Square"}
)
_KEEPS_SIGN: Final = frozenset(
    {"AddV2", "AvgPool", "ConcatV2", "ExpandDims", "Identity", "MaxPool", "Mean", "Mul", "Pad", "Reshape", "Squeeze",
     "StridedSlice", "Sum", "Transpose"}
)  # fmt: skip
_MARK: Final = "_pullback_batch_norm"


class _BatchNorm(NamedTuple):
    layer: Any
    upstream: Any
    outputs: Any
    fold: Callable[[], None]  # called when a layer counts it in


class Linear:
    """The linear part of a layer at some inputs: with its own weights, or with others made of them."""

    def __init__(
        self, layer: Any, dtype: Any, norm: Any = None, *, has_activation: bool = True
    ) -> None:
        self._layer = layer
        self._dtype = dtype
        self._has_activation = has_activation
        self.kernel = _cast(getattr(layer, "kernel", None), dtype)
        self.bias = _cast(getattr(layer, "bias", None), dtype)
        if norm is not None:
            scale, shift = (tf.cast(each, dtype) for each in _scale_and_shift(norm))
            self.kernel = _scaled(layer, self.kernel, scale)
            self.bias = shift if self.bias is None else self.bias * scale + shift

    @property
    def added(self) -> Any:
        """The bias in the shape in which it is added to outputs."""
        first = getattr(self._layer, "data_format", None) == "channels_first"
        if self.bias is None or not first:
            return self.bias
        return tf.reshape(self.bias, [-1, *[1] * (self._layer.rank)])

    def __call__(self, x: Any, kernel: Any, bias: Any) -> Any:
        """The layer without activation, with these weights."""
        kind = getattr(self._layer, "__pullback_class__", type(self._layer))
        twin = object.__new__(kind)
        other: dict[str, Any] = {"activation": None}
        if kernel is not None:
            other |= {
                "_kernel": kernel,
                "kernel": kernel,
                "bias": bias,
                "use_bias": bias is not None,
            }
            other |= {"lora_enabled": False}
        twin.__dict__.update({**vars(self._layer), **other})
        return kind.call(twin, x)

    def pullback(
        self, x: Any, change: Callable[[Any], Any], *, with_bias: bool = True
    ) -> tuple[Any, Callable[[Any], Any]]:
        """The output with changed weights, and what takes gradients of outputs to those of inputs."""
        if self.kernel is None:
            raise RuleError(
                f"the layer {self._layer.name!r} ({type(self._layer).__name__}) has no kernel of its own that this "
                "rule could change. Use pb.rules.lrp_epsilon for it."
            )
        bias = None if self.bias is None or not with_bias else change(self.bias)
        return _pullback(lambda at: self(at, change(self.kernel), bias), x)

    def pulled(self, x: Any, upstream: Any) -> Any:
        """The ordinary gradient of the linear part."""
        return _pullback(lambda at: self(at, self.kernel, self.bias), x)[1](upstream)

    def before_activation(self, x: Any, outputs: Any) -> Any:
        """The outputs of the linear part."""
        return self(x, self.kernel, self.bias) if self._has_activation else outputs


def linear_layer(
    layer: Any, x: Any, outputs: Any, upstream: Any, rule: str
) -> tuple[Linear, Any, Any]:
    """The linear part of a layer, with the normalisation behind it counted in: it, and upstream and outputs of both."""
    if not isinstance(layer, (*CONVOLUTIONS, *DENSE, *SEPARABLE)):
        raise RuleError(
            f"pb.rules.{rule} is a rule for dense layers and convolutions, and BatchNormalization behind them; got the "
            f"layer {layer.name!r} ({type(layer).__name__}). What is linear needs no rule; for activations and others, "
            "use rules of their own."
        )
    has_activation = not _is_unchanged(layer)
    norm: _BatchNorm | None = getattr(upstream, _MARK, None)
    if norm is None or not _can_fold(layer, norm.layer):
        return Linear(layer, x.dtype, has_activation=has_activation), upstream, outputs
    norm.fold()
    linear = Linear(layer, x.dtype, norm.layer, has_activation=False)
    return linear, norm.upstream, norm.outputs


def is_nonnegative(x: Any) -> bool:
    """Whether no entry is negative: looked at, or in a program known by how it is made."""
    if hasattr(x, "numpy"):
        return bool(tf.reduce_all(x >= 0))
    waiting, passed = [x], {x.op}
    while waiting:
        operation = waiting.pop().op
        if operation.type in _NONNEGATIVE:
            continue
        if operation.type not in _KEEPS_SIGN:
            return False
        more = [t for t in operation.inputs if t.dtype.is_floating and t.op not in passed]
        if not more:
            return False
        passed.update(t.op for t in more)
        waiting += more
    return True


def is_batch_norm(layer: Any) -> bool:
    """Whether it is a BatchNormalization."""
    return isinstance(layer, _layers.BatchNormalization)


def passed_by(
    gradient: Any, layer: Any, upstream: Any, outputs: Any, fold: Callable[[], None]
) -> Any:
    """A gradient with the mark of the normalisation that passes it on."""
    gradient = tf.identity(gradient)
    setattr(gradient, _MARK, _BatchNorm(layer, upstream, outputs, fold))
    return gradient


def shift_of(layer: Any, like: Any) -> Any:
    """What a normalisation adds, in the shape of its outputs."""
    shape = [1] * like.shape.rank
    shape[layer.axis] = -1
    return tf.reshape(tf.cast(_scale_and_shift(layer)[1], like.dtype), shape)


def _is_unchanged(layer: Any) -> bool:
    activation = getattr(layer, "activation", None)
    return any(activation is each for each in _UNCHANGED)


def _can_fold(layer: Any, norm: Any) -> bool:
    has_own_activation = getattr(layer, "activation", None) not in (None, keras.activations.linear)
    if has_own_activation or not isinstance(layer, (*_LAST, *_TRANSPOSED, *_DEPTHWISE)):
        return False
    rank = getattr(layer, "rank", None)
    first = getattr(layer, "data_format", None) == "channels_first"
    channels = (1,) if first else (-1,) if rank is None else (-1, rank + 1)
    return norm.axis in channels


def _scale_and_shift(norm: Any) -> tuple[Any, Any]:
    scale = tf.math.rsqrt(tf.convert_to_tensor(norm.moving_variance) + norm.epsilon)
    scale = scale * tf.convert_to_tensor(norm.gamma) if norm.scale else scale
    shift = -tf.convert_to_tensor(norm.moving_mean) * scale
    return scale, shift + tf.convert_to_tensor(norm.beta) if norm.center else shift


def _scaled(layer: Any, kernel: Any, scale: Any) -> Any:
    """The kernel of a layer whose outputs are scaled by channel."""
    if isinstance(layer, _DEPTHWISE):
        return kernel * tf.reshape(scale, kernel.shape[-2:])
    return kernel * (scale[:, None] if isinstance(layer, _TRANSPOSED) else scale)


def _cast(variable: Any, dtype: Any) -> Any:
    return None if variable is None else tf.cast(tf.convert_to_tensor(variable), dtype)


def _pullback(function: Callable[[Any], Any], x: Any) -> tuple[Any, Callable[[Any], Any]]:
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(x)
        y = function(x)
    return y, lambda upstream: tape.gradient(y, x, output_gradients=upstream)
