"""Layer-wise relevance propagation through any model: a composite of rules for its layers, and rules for the rest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import keras
import tensorflow as tf

from pullback.engines.tensorflow.array_functions import sum_of_each
from pullback.engines.tensorflow.doubled_batches import axis_of
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
# Layers that only change the unit of pixels, or add some: before the first layer, what flows are relevances.
_UNITS_OF_PIXELS: Final = (_layers.Rescaling, _layers.Normalization)
_PADDING: Final = (_layers.ZeroPadding1D, _layers.ZeroPadding2D, _layers.ZeroPadding3D)
# For positive factors, of which f(k·x) = k·f(x), the gradient hands all relevance on.
_HOMOGENEOUS: Final = {"Relu": None, "LeakyRelu": None, "Abs": None}

_SUMS: Final = ("Add", "AddV2", "Sub", "BiasAdd")


class LayerRules(Sharing):
    """A block in which layers have the rules of a composite, and what is not linear besides them that of its kind."""

    def __init__(self, composite: Composite) -> None:
        self.composite = composite
        self._first: Any = None
        self._before: list[Any] = []  # layers that were called before the first one
        layers: dict[Any, Any] = dict.fromkeys((*CONVOLUTIONS, *DENSE, *SEPARABLE), self._of_layer)
        layers[_layers.BatchNormalization] = lrp_epsilon()  # which counts it in
        if composite.gives_relevance:
            layers |= dict.fromkeys((*_UNITS_OF_PIXELS, *_PADDING), self._of_pixels)
        by_kind = lrp_rules()
        rules: dict[Any, Any] = {**_HOMOGENEOUS, **dict.fromkeys(_SUMS, by_kind["sum"])}
        for norm in _NORMS:
            rules |= {Inside(norm, "Rsqrt"): _nothing, Inside(norm, "Mul"): _gradient}
        super().__init__(by_kind, rules, layers)

    def _of_layer(self, dy: Any, *, inputs: Any, outputs: Any, original: Any, op: Any) -> Any:
        """The rule of a layer, by its kind and position."""
        layer = op.object
        rule = self.composite.dense if isinstance(layer, DENSE) else self.composite.convolution
        if layer is self._first and self.composite.first is not None:
            rule = self.composite.first
        elif isinstance(layer, SEPARABLE):
            rule = self.composite.dense  # it has two kernels, which other rules cannot change
        return rule(dy, inputs=inputs, outputs=outputs, original=original, op=op)

    def _of_pixels(self, dy: Any, *, inputs: Any, original: Any, op: Any) -> Any:
        """Before the first layer, relevance is handed on as it is, and what falls on padding is lost there."""
        if not any(op.object is each for each in self._before):
            return original(dy)
        if isinstance(op.object, _UNITS_OF_PIXELS):
            return {inputs.names[0]: dy}
        cropped, see = original(dy), absorbed.get()
        if see is not None:
            see(op, dy, None)
            see(op, -cropped, None)
        return cropped

    def _is_outside(self, where: Any) -> bool:
        """Whether a line may match; each layer is seen here when it is called."""
        owner, now = where.owner, running.get()
        if owner is not None and now and now[-1] is owner and self._first is None:
            if isinstance(owner, (*CONVOLUTIONS, *DENSE)):
                self._first = owner
            else:
                self._before.append(owner)
        return super()._is_outside(where)

    def __enter__(self) -> LayerRules:
        self._first, self._before = None, []
        super().__enter__()
        return self


class Relevances(NamedTuple):
    """What of the score of each example is due to each entry of its input."""

    values: Any  # in the structure of x; nothing for inputs that are not floating
    # Of each example: score − inputs − biases − stabilisers, in units of the largest of these sums. Nothing if it is
    # not known, in a loop that is traced; what constants have that are as many as the examples is not counted.
    gap: Any
    audit: Audit
    scores: Any
    absorbed: Mapping[
        str, tuple[Any, Any]
    ]  # of each layer what went to its bias and its stabiliser


def relevances(
    function: Callable[[Any], Any], x: Any, select: Callable[[Any], Any], composite: Composite
) -> Relevances:
    """LRP: share out the scores of x. `select` gets what the function returns, and gives one number for each example.

    A single example is run twice: in a batch of one, what is the same for all examples cannot be told.
    """
    given, structure = flatten(x)
    leaves = [_at_least_two(tf.convert_to_tensor(leaf)) for leaf in given]
    moving = [leaf for leaf in leaves if leaf.dtype.is_floating]
    rules, lost = LayerRules(composite), _Lost(leaves[0].shape[0])
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(moving)
        with rules:
            scores = select(function(unflatten(structure, leaves)))
    with set_for(absorbed, lost):
        gradients: Any = tape.gradient(
            scores, moving, unconnected_gradients=tf.UnconnectedGradients.ZERO
        )
    found = list(map(tf.convert_to_tensor, gradients))
    if not composite.gives_relevance:
        found = [leaf * gradient for leaf, gradient in zip(moving, found, strict=True)]
    gap = lost.gap(scores, found)
    flat = iter(found)
    values = [next(flat) if leaf.dtype.is_floating else None for leaf in leaves]
    if flatten(x)[0][0].shape[0] == 1:
        scores, gap = scores[:1], None if gap is None else gap[:1]
        values = [None if value is None else value[:1] for value in values]
    return Relevances(unflatten(structure, values), gap, rules.audit, scores, lost.by_layer)


def _at_least_two(leaf: Any) -> Any:
    return tf.concat([leaf, leaf], 0) if leaf.shape[0] == 1 else tf.identity(leaf)


class _Lost:
    """What biases and stabilisers took of the relevance of each example of a batch."""

    def __init__(self, batch: int | None) -> None:
        self.by_layer: dict[str, tuple[Any, Any]] = {}
        self._batch = batch
        self._graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
        self._is_complete = True

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
        if self._graph is not None and part.graph is not self._graph:
            self._is_complete = False
            return None
        axis = axis_of(part, self._batch)
        wide = tf.cast(part, tf.float64)
        if self._batch is not None and part.shape[axis] != self._batch:  # several of an example
            return tf.reduce_sum(tf.reshape(wide, [self._batch, -1]), 1)
        return tf.reduce_sum(wide, [i for i in range(part.shape.rank) if i != axis])

    def gap(self, scores: Any, values: Sequence[Any]) -> Any:
        """Scores less all relevance, in units of the largest of what is added up; nothing if it is not known."""
        if not self._is_complete:
            return None
        parts = [p for parts in self.by_layer.values() for p in parts if p is not None]
        scores = tf.cast(scores, tf.float64)
        found, lost = tf.add_n(list(map(sum_of_each, values))), tf.add_n([scores * 0.0, *parts])
        size = tf.reduce_max(tf.abs(tf.stack([scores, found, lost])), 0)
        return tf.math.divide_no_nan(scores - found - lost, size)


def _plus(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _nothing(dy: Any, *, inputs: Any) -> Any:
    del dy, inputs
    return {}


def _gradient(dy: Any, *, original: Any) -> Any:
    return original(dy)
