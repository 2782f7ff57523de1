"""Layer-wise relevance propagation through any model: a composite of rules for its layers, and rules for the rest."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping, Sequence
from typing import Any, Final

import keras
import tensorflow as tf

from pullback.engines.tensorflow.doubled_batches import axis_of
from pullback.engines.tensorflow.linear_layers import CONVOLUTIONS, DENSE, SEPARABLE
from pullback.engines.tensorflow.saliency.covering import Covering
from pullback.engines.tensorflow.saliency.kinds import KINDS
from pullback.engines.tensorflow.saliency.layers import find_layer
from pullback.engines.tensorflow.saliency.unweighted import Unweighted
from pullback.errors import SaliencyError
from pullback.extend import Inside, RulesByKind, lrp_epsilon

_layers = keras.layers
# Layers that divide by a norm of their input, which counts as a constant (Ali et al., 2022).
_NORMS: Final = tuple(
    kind
    for name in ("LayerNormalization", "GroupNormalization", "RMSNormalization")
    if (kind := getattr(_layers, name, None)) is not None
)
# For positive factors, of which f(k·x) = k·f(x), the gradient hands all relevance on.
_HOMOGENEOUS: Final = ("Relu", "LeakyRelu", "Abs")
LINEAR_LAYERS: Final = (*CONVOLUTIONS, *DENSE, *SEPARABLE)


class LayerRules(Covering):
    """A block in which layers have the rules of a composite, and what is not linear besides them that of its kind."""

    def __init__(self, rules: RulesByKind, model: Any) -> None:
        self.composite = rules.composite
        self._chosen = _chosen(model, self.composite.chosen)
        self.unweighted = Unweighted()
        layers: dict[Any, Any] = dict.fromkeys(LINEAR_LAYERS, self._of_layer)
        layers[_layers.BatchNormalization] = lrp_epsilon()  # which counts it in
        targets: dict[Any, Any] = dict.fromkeys(_HOMOGENEOUS, _gradient)
        self._sum = rules.by_kind["sum"]
        targets |= dict.fromkeys((op for op, kind in KINDS.items() if kind == "sum"), self._of_sum)
        for norm in _NORMS:
            targets |= {Inside(norm, "Rsqrt"): _nothing, Inside(norm, "Mul"): _gradient}
        super().__init__(rules, targets, layers)

    def _of_sum(self, dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
        """An offset that puts the input into another unit takes nothing: relevance is the input's, in any unit."""
        if not self.unweighted.is_in_other_unit(outputs):
            return self._sum(dy, inputs=inputs, original=original, op=op)
        if self.unweighted.is_bringing:
            return original(dy)
        self.unweighted.collect(outputs, dy * outputs, op)
        gradients = original(dy)
        return type(gradients)(None if g is None else tf.zeros_like(g) for g in gradients)

    def _of_layer(self, dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
        """The rule of a layer: chosen for it, or by its kind and position."""
        is_first = inputs[0] in self.unweighted
        rule = self._rule_of(op.object, is_first)
        found = rule(dy, inputs=inputs, outputs=outputs, original=original, op=op)
        if getattr(rule, "name", None) not in _GIVE_RELEVANCE:
            return found
        if not is_first:
            raise SaliencyError(
                f"{rule!r} is for layers that read the input, rearranged, padded or in another unit at most; "
                f"{op.object.name!r} reads something else."
            )
        name = inputs.names[0]
        self.unweighted.collect(inputs[0], found[name], op)
        return {name: tf.zeros_like(found[name])}

    def _rule_of(self, layer: Any, is_first: bool) -> Any:
        for target, rule in self._chosen:
            if layer is target or (isinstance(target, type) and isinstance(layer, target)):
                return rule
        composite = self.composite
        if is_first and composite.first is not None and not isinstance(layer, SEPARABLE):
            return composite.first
        if isinstance(
            layer, (*DENSE, *SEPARABLE)
        ):  # which have two kernels: others cannot change them
            return composite.dense
        return composite.convolution


_GIVE_RELEVANCE: Final = ("lrp_z_b", "lrp_flat", "lrp_w_square")  # and not multipliers


def _chosen(model: Any, rules: Mapping[Any, Any]) -> list[tuple[Any, Any]]:
    """The layers or classes that were named, with their rules."""
    found: list[tuple[Any, Any]] = []
    for target, rule in rules.items():
        layer = target if isinstance(target, type) else find_layer(model, target)
        kind = layer if isinstance(layer, type) else type(layer)
        if not issubclass(kind, LINEAR_LAYERS):
            raise SaliencyError(
                f"composite names {target!r} ({kind.__name__}); rules of LRP are for dense layers and convolutions."
            )
        found.append((layer, rule))
    return sorted(
        found, key=lambda each: isinstance(each[0], type)
    )  # a layer itself before its class


@contextlib.contextmanager
def without_activation(layers: Sequence[Any]) -> Generator[None]:
    """A block in which these layers have no activation: that of a layer which is one unit cannot be looked through."""
    before = [layer.activation for layer in layers]
    try:
        for layer in layers:
            layer.activation = keras.activations.linear
        yield
    finally:
        for layer, activation in zip(layers, before, strict=True):
            layer.activation = activation


class Absorbed:
    """What biases and stabilisers took of the relevance of each example of a batch."""

    def __init__(self, batch: int | None) -> None:
        self.by_layer: dict[str, tuple[Any, Any]] = {}
        self._batch = batch
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self.is_complete = True

    def __call__(self, op: Any, bias: Any, stabiliser: Any) -> None:
        name = op.layer or op.name
        known = self.by_layer.get(name, (None, None))
        self.by_layer[name] = (
            _plus(known[0], self._of_each(bias)),
            _plus(known[1], self._of_each(stabiliser)),
        )

    def _of_each(self, part: Any) -> Any:
        """The sum of each example, in float64. Inside of a loop that is traced, nothing can be had."""
        if part is None:
            return None
        if getattr(part, "graph", None) is not self._graph:
            self.is_complete = False
            return None
        wide = tf.cast(part, tf.float64)
        if self._batch == 1:
            return tf.reshape(tf.reduce_sum(wide), [1])
        axis = axis_of(part, self._batch)
        if self._batch is not None and part.shape[axis] != self._batch:  # several of an example
            return tf.reduce_sum(tf.reshape(wide, [self._batch, -1]), 1)
        return tf.reduce_sum(wide, [i for i in range(part.shape.rank) if i != axis])


def _plus(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _nothing(dy: Any, *, inputs: Any) -> Any:
    del dy, inputs
    return {}


def _gradient(dy: Any, *, original: Any) -> Any:
    return original(dy)
