"""Layer-wise relevance propagation through any model: a composite of rules for its layers, and rules for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf

from pullback.engines.tensorflow.array_functions import sum_of_each
from pullback.engines.tensorflow.linear_layers import CONVOLUTIONS, DENSE, SEPARABLE
from pullback.engines.tensorflow.relevance import Sharing
from pullback.extend import (
    Audit,
    Composite,
    Inside,
    absorbed,
    flatten,
    lrp_epsilon,
    lrp_rules,
    running,
    set_for,
    unflatten,
)

_layers = keras.layers
# Layers that divide by a norm of their input, which counts as a constant (Ali et al., 2022).
_NORMS: Final = tuple(
    kind
    for name in ("LayerNormalization", "GroupNormalization", "RMSNormalization")
    if (kind := getattr(_layers, name, None)) is not None
)
# Layers that only change the unit of pixels: their relevance is that of what they give.
_UNITS_OF_PIXELS: Final = (_layers.Rescaling, _layers.Normalization)
# For positive factors, of which f(k·x) = k·f(x), the gradient hands all relevance on.
_HOMOGENEOUS: Final = {"Relu": None, "LeakyRelu": None, "Abs": None}


class LayerRules(Sharing):
    """A block in which layers have the rules of a composite, and what is not linear besides them that of its kind."""

    def __init__(self, composite: Composite) -> None:
        self.composite = composite
        self._first: Any = None
        lines: dict[Any, Any] = dict.fromkeys((*CONVOLUTIONS, *DENSE, *SEPARABLE), self._of_layer)
        lines[_layers.BatchNormalization] = lrp_epsilon()  # which counts it in
        if composite.gives_relevance:
            lines |= dict.fromkeys(_UNITS_OF_PIXELS, _as_it_is)
        for norm in _NORMS:
            lines |= {Inside(norm, "Rsqrt"): _nothing, Inside(norm, "Mul"): _gradient}
        super().__init__(lrp_rules(), {**_HOMOGENEOUS, **lines})

    def _of_layer(self, dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
        """The rule of a layer, by its kind and position."""
        layer = op.object
        rule = self.composite.dense if isinstance(layer, DENSE) else self.composite.convolution
        if layer is self._first and self.composite.first is not None:
            rule = self.composite.first
        elif isinstance(layer, SEPARABLE) and rule is not None:
            rule = lrp_epsilon()  # two kernels in one layer
        if rule is None:
            return original(dy)
        return rule(dy, inputs=inputs, outputs=outputs, original=original, op=op)

    def _is_outside(self, where: Any) -> bool:
        """Whether a line may match; each layer is seen here when it is called."""
        owner, now = where.owner, running.get()
        is_call = owner is not None and bool(now) and now[-1] is owner
        if is_call and self._first is None and isinstance(owner, (*CONVOLUTIONS, *DENSE)):
            self._first = owner
        return super()._is_outside(where)

    def __enter__(self) -> LayerRules:
        self._first = None
        super().__enter__()
        return self


class Relevances(NamedTuple):
    """What of the score of each example is due to each entry of its input."""

    values: Any  # in the structure of x; nothing for inputs that are not floating
    gap: Any  # of each example: score − inputs − biases − stabilisers, in units of the score
    audit: Audit
    scores: Any
    absorbed: Mapping[
        str, tuple[Any, Any]
    ]  # of each layer what went to its bias and its stabiliser


def relevances(
    function: Callable[[Any], Any], x: Any, select: Callable[[Any], Any], composite: Composite
) -> Relevances:
    """LRP: share out the scores of x. `select` gets what the function returns, and gives one number for each example."""
    leaves, structure = flatten(x)
    leaves = [tf.identity(tf.convert_to_tensor(leaf)) for leaf in leaves]
    moving = [i for i, leaf in enumerate(leaves) if leaf.dtype.is_floating]
    rules, lost = LayerRules(composite), _Lost()
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch([leaves[i] for i in moving])
        with rules:
            scores = select(function(unflatten(structure, leaves)))
    with set_for(absorbed, lost):
        gradients: Any = tape.gradient(
            scores, [leaves[i] for i in moving], unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
    values: list[Any] = [None] * len(leaves)
    for i, gradient in zip(moving, gradients, strict=True):
        gradient = tf.convert_to_tensor(gradient)
        values[i] = gradient if composite.gives_relevance else leaves[i] * gradient
    scores = tf.cast(scores, tf.float64)
    total = tf.add_n([sum_of_each(values[i]) for i in moving] + lost.all())
    gap = tf.math.divide_no_nan(scores - total, tf.abs(scores))
    return Relevances(unflatten(structure, values), gap, rules.audit, scores, lost.by_layer)


class _Lost:
    """What biases and stabilisers took."""

    def __init__(self) -> None:
        self.by_layer: dict[str, tuple[Any, Any]] = {}

    def __call__(self, op: Any, bias: Any, stabiliser: Any) -> None:
        name = op.layer or op.name
        parts = zip(self.by_layer.get(name, (None, None)), (bias, stabiliser), strict=True)
        old_bias, old_stabiliser = (_plus(old, new) for old, new in parts)
        self.by_layer[name] = (old_bias, old_stabiliser)

    def all(self) -> list[Any]:
        return [part for parts in self.by_layer.values() for part in parts if part is not None]


def _plus(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _nothing(dy: Any, *, inputs: Any) -> Any:
    del dy, inputs
    return {}


def _gradient(dy: Any, *, original: Any) -> Any:
    return original(dy)


def _as_it_is(dy: Any, *, inputs: Any) -> Any:
    return {inputs.names[0]: dy}
