"""Rules that change what flows, whatever it flows through."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from pullback._rule import unscaled
from pullback._tree import flatten, unflatten
from pullback.errors import RuleError
from pullback.rules._ready import (
    each,
    engine_for,
    ordinary,
    ready,
    ready_as_is,
    ready_for_all,
    require_number,
)

Rule = Callable[..., Any]


@ready
def scale(k: Any, *, weights: bool = False) -> Rule:
    """The gradient times `k`: a number, or a tensor or variable of one, which is read anew at every backward pass.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.rules.scale(0.5)(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [0.5, 0.5]
    """
    del weights  # as for all rules here that take it
    require_number("scale", "k", k)

    def scaled(*dy: Any, original: Any) -> Any:
        gradients = ordinary(original, dy, "scale")
        return each(engine_for(gradients, dy).arrays.times(k), gradients)

    return scaled


@ready
def reverse(k: Any = 1.0, *, weights: bool = False) -> Rule:
    """The gradient times `-k`, as between a feature extractor and a domain classifier.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.rules.reverse(2.0)(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [-2.0, -2.0]
    """
    del weights
    require_number("reverse", "k", k)

    def reversed_(*dy: Any, original: Any) -> Any:
        gradients = ordinary(original, dy, "reverse")
        arrays = engine_for(gradients, dy).arrays
        return each(lambda g: arrays.times(-1.0)(arrays.times(k)(g)), gradients)

    return reversed_


@ready
def clip(
    value: Any = None, norm: Any = None, global_norm: Any = None, *, weights: bool = False
) -> Rule:
    """The gradient clipped: each entry to ±`value`, each tensor to a length of `norm`, all of a call to `global_norm`.

    Of a layer, it is what flows back to its inputs; with `weights=True`, the gradients of its weights as well.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([3.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     y = tf.reduce_sum(pb.rules.clip(norm=2.5)(x) * [3.0, 4.0])
    >>> tape.gradient(y, x).numpy().tolist()
    [1.5, 2.0]
    """
    del weights
    given = {"value": value, "norm": norm, "global_norm": global_norm}
    wanted = {name: limit for name, limit in given.items() if limit is not None}
    if not wanted:
        raise RuleError(
            "pb.rules.clip got no limit. Write clip(value=…), clip(norm=…) or clip(global_norm=…)."
        )
    for name, limit in wanted.items():
        require_number("clip", name, limit, above=0.0)

    @unscaled
    def clipped(*dy: Any, original: Any) -> Any:
        gradients = ordinary(original, dy, "clip")
        arrays = engine_for(gradients, dy).arrays
        leaves, structure = flatten(gradients)
        where = [i for i, g in enumerate(leaves) if g is not None]
        found = [leaves[i] for i in where]
        if value is not None:
            found = [arrays.clip(g, value) for g in found]
        if norm is not None:
            found = [arrays.shorten([g], norm)[0] for g in found]
        if global_norm is not None:
            found = arrays.shorten(found, global_norm)
        for i, g in zip(where, found, strict=True):
            leaves[i] = g
        return unflatten(structure, leaves)

    return clipped


@ready_as_is
def stop(*dy: Any, op: Any) -> Any:
    """No gradient.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable(1.0)
    >>> with tf.GradientTape() as tape:
    ...     y = pb.rules.stop(x)
    >>> tape.gradient(y, x) is None
    True
    """
    del dy, op
    return {}  # of no input


@ready_as_is
def passthrough(*dy: Any, inputs: Any) -> Any:
    """The upstream gradient as it is, as if the operation were not there.

    Each output's is that of the tensor in its place among the inputs; their shapes must agree.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([0.2, 1.7])
    >>> with tf.GradientTape() as tape:
    ...     y = pb.with_gradient(tf.round, pb.rules.passthrough)(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [1.0, 1.0]
    """
    names = [name for name, value in inputs.items() if hasattr(value, "dtype")]
    if len(names) < len(dy):
        raise RuleError(
            f"pb.rules.passthrough got {len(dy)} upstream gradients, one for each output, and there are "
            f"{len(names)} tensors among the inputs to hand them to. Write a rule that says what becomes of each."
        )
    return dict(zip(names, dy, strict=False))


@ready
def noise(stddev: Any, seed: int | None = None, *, weights: bool = False) -> Rule:
    """The gradient with Gaussian noise of this standard deviation added, drawn anew at every backward pass.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable(tf.zeros(1000))
    >>> with tf.GradientTape() as tape:
    ...     y = pb.rules.noise(0.1, seed=1)(x)
    >>> bool(0.09 < tf.math.reduce_std(tape.gradient(y, x)) < 0.11)
    True
    """
    del weights
    require_number("noise", "stddev", stddev, least=0.0)

    @unscaled
    def noisy(*dy: Any, original: Any) -> Any:
        gradients = ordinary(original, dy, "noise")
        arrays = engine_for(gradients, dy).arrays
        return each(lambda g: arrays.with_noise(g, stddev, seed), gradients)

    return noisy


@ready_for_all
def nan_to_zero(*dy: Any, original: Any) -> Any:
    """The gradient with zeros in place of what is not finite.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable([0.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     y = tf.sqrt(pb.rules.nan_to_zero(x))
    >>> tape.gradient(y, x).numpy().tolist()
    [0.0, 0.25]
    """
    gradients = ordinary(original, dy, "nan_to_zero")
    engine = engine_for(gradients, dy)
    if engine.adapts_loss_scale():
        _warn_of_scale("nan_to_zero", "It hides from the optimizer that the scale is too large")
    return each(engine.arrays.nan_to_zero, gradients)


@ready_for_all
def raise_on_nan(*dy: Any, original: Any, op: Any) -> Any:
    """The gradient as it is; where it is not finite, an error that names the place, wherever the program runs.

    >>> import pullback as pb, tensorflow as tf
    >>> x = tf.Variable(0.0)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.sqrt(pb.rules.raise_on_nan(x))
    >>> tape.gradient(y, x)
    Traceback (most recent call last):
    tensorflow.python.framework.errors_impl.InvalidArgumentError: the gradient of ... is not finite; it arrives so
    """
    gradients = ordinary(original, dy, "raise_on_nan")
    engine = engine_for(gradients, dy)
    if engine.adapts_loss_scale():
        _warn_of_scale("raise_on_nan", "It raises where the optimizer would lower the scale")
    came, arrays = [g for g in flatten(dy)[0] if g is not None], engine.arrays
    return each(lambda g: arrays.require_finite(g, _where_from(op), came), gradients)


def _warn_of_scale(rule: str, why: str) -> None:
    warnings.warn(
        f"pb.rules.{rule} runs while a LossScaleOptimizer scales the loss, where gradients that are not finite are "
        f"how a scale is found. {why}. Scale by a fixed number, `keras.optimizers.SGD(loss_scale_factor=1024.0)`, or "
        "leave this to the optimizer, which skips such steps.",
        stacklevel=2,
    )


def _where_from(op: Any) -> str:
    line = f" at {op.source}" if op.source else ""
    layer = f" in layer {op.layer!r}" if op.layer and op.layer != op.name else ""
    return f"the gradient of {op.name} ({op.type}){layer}{line} is not finite"


@ready
def tap(callback: Any, of: str = "gradient") -> Rule:
    """The gradient as it is, shown to `callback(value, op)` when it flows; a list gets `(op, value)` appended, and a
    variable is assigned the value.

    `of="norm"` shows its length alone, which is cheap enough for training. `op` has name, type, layer and line. In a
    traced program the callback runs each time the program does. A program compiled by XLA, or vectorised, cannot call
    it, and raises; a variable works in those compiled by XLA as well.

    >>> import pullback as pb, tensorflow as tf
    >>> seen = []
    >>> x = tf.Variable([3.0, 4.0])
    >>> with tf.GradientTape() as tape:
    ...     y = tf.reduce_sum(pb.rules.tap(seen, of="norm")(x) * [3.0, 4.0])
    >>> gradient = tape.gradient(y, x)
    >>> float(seen[0][1])
    5.0
    """
    if of not in ("gradient", "norm"):
        raise RuleError(f'pb.rules.tap got of={of!r}; there are "gradient" and "norm".')
    if not callable(callback) and not hasattr(callback, "append") and not _is_variable(callback):
        raise RuleError(
            f"pb.rules.tap got {callback!r}; wanted a function of the gradient and its place, a list to append to, "
            "or a variable to assign to."
        )

    @unscaled
    def shown(*dy: Any, original: Any, op: Any) -> Any:
        gradients = ordinary(original, dy, "tap")
        arrays = engine_for(gradients, dy).arrays
        measure = arrays.length if of == "norm" else arrays.dense
        if _is_variable(callback):
            return each(lambda g: arrays.stored(g, callback, measure), gradients)
        return each(lambda g: arrays.tapped(g, _watcher(callback, op), measure), gradients)

    return shown


def _is_variable(callback: Any) -> bool:
    return hasattr(callback, "assign")


def _watcher(callback: Any, op: Any) -> Callable[[Any], None]:
    def see(value: Any) -> None:
        if callable(callback):
            callback(value, op)
        else:
            callback.append((op, value))

    return see
