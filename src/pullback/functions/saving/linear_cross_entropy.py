"""The cross-entropy of a linear layer, without its logits in memory.

Logits are computed block by block, once in the forward pass for their log-sum-exp and once more in the backward pass;
what is held between the passes is one number per token. Of a mean or a sum whose gradient will be asked for, gradients
are made in the forward pass, as their upstream is known but for one factor: no logit is computed twice.
"""

from __future__ import annotations

from typing import Any

from pullback._project import describe
from pullback.errors import ArgumentError
from pullback.functions._arguments import (
    arrays_for,
    in_models,
    require_number,
    require_rank,
    with_own_gradient,
)
from pullback.functions.saving.linear_blocks import (
    Given,
    Options,
    backward,
    forward,
    forward_and_backward,
)

_NAME = "linear_cross_entropy"
# With as many logits, a program is worth compiling, which takes about a second.
_WORTH_COMPILING = 2**22


@in_models
def linear_cross_entropy(
    x: Any,
    weights: Any,
    labels: Any,
    bias: Any = None,
    *,
    class_axis: int = -1,
    class_weights: Any = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = -100,
    soft_cap: float | None = None,
    z_loss: float | None = None,
    shift: bool = False,
    reduction: str = "mean",
    return_logsumexp: bool = False,
) -> Any:
    """The cross-entropy of the logits `x @ weights + bias` and labels, where the logits never are in memory.

    Use it as the last layer and loss of a language model, or of any model with many classes: the logits of 8192 tokens
    and 32k classes take 1 GiB, several times over when they are differentiated.

    - `x` is `[..., depth]`, `labels` are class numbers `[...]`.
    - `weights` are `[depth, classes]`, as the kernel of a layer; with `class_axis=0` they are `[classes, depth]`, as a
      table of embeddings whose weights are tied. `bias` is `[classes]`.
    - `class_weights` (constants, one per class), `label_smoothing` and `ignore_index` mean what they do in PyTorch: the
      mean is by the weights of the labels, and of ignored tokens alone it is 0.
    - `soft_cap` makes logits `cap · tanh(logit / cap)`.
    - `shift=True`: the label of a token is the next one along the last axis of `labels`; the last token has none, and
      is left out where there is one number per token.
    - `reduction` is `"mean"`, `"sum"` or `"none"` (one loss per token, 0 for ignored ones).
    - With `z_loss` the result is `(loss, z)`, where `z` is `z_loss · logsumexp²`, reduced like the loss, to be added to
      it or not. With `return_logsumexp` the log-sum-exp of each token comes last (0 for ignored ones). Each of them
      has its gradient.

    >>> import pullback as pb, tensorflow as tf
    >>> x, weights = tf.constant([[1.0, 0.0], [0.0, 2.0]]), tf.eye(2)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(weights)
    ...     loss = pb.functions.linear_cross_entropy(x, weights, [0, 1])
    >>> f"{loss:.4f}", tape.gradient(loss, weights).numpy().astype(float).round(3).tolist()
    ('0.2201', [[-0.134, 0.134], [0.119, -0.119]])
    """
    xp = arrays_for(x, weights, labels)
    if isinstance(class_axis, bool) or class_axis not in (-2, -1, 0, 1):
        raise ArgumentError(
            f"pb.functions.{_NAME} got class_axis={class_axis!r}; wanted 0 for weights as [classes, depth], or 1."
        )
    x, weights, bias, labels = _arrays(xp, x, weights, bias, labels, class_axis % 2)
    _require_options(label_smoothing, soft_cap, z_loss, reduction, shift, labels)
    labels, skipped = xp.next_along_last_axis(labels) if shift else (labels, None)
    shape = xp.shape_of(labels)
    labels = xp.reshape(labels, [-1])
    valid = xp.chosen_labels(labels, ignore_index, skipped)
    classes = xp.extent(weights, class_axis)
    labels = xp.require_classes(labels, valid, classes, _NAME)
    labels = xp.astype(labels, "int32")
    scale = _class_weights(xp, class_weights, classes, x)
    rows = xp.reshape(x, [-1, xp.extent(x, -1)])
    options = Options(class_axis % 2, label_smoothing, soft_cap, ignore_index is not None or shift)
    arrays = (rows, weights, bias, labels, valid, scale)
    counts = xp.astype(valid, xp.wide(x).dtype)
    weighted = counts if scale is None else counts * xp.rows_at(scale, labels)
    alone = reduction != "none" and z_loss is None and not return_logsumexp
    if alone and _is_pulled_once(xp, x, weights, bias):
        upstream = counts
        if reduction == "mean":
            upstream = xp.divide_or_zero(counts, xp.sum(weighted))
        return _total(*arrays, xp.stop_gradient(upstream), options=options)
    losses, sums = _tokens(*arrays, options=options)
    parts = [(losses, weighted)]
    if z_loss is not None:
        parts.append((xp.square(sums) * z_loss, counts))
    results = [_reduced(xp, values, by, reduction, shape, shift) for values, by in parts]
    if return_logsumexp:
        results.append(_reduced(xp, sums, counts, "none", shape, shift))
    return results[0] if len(results) == 1 else tuple(results)


def _is_pulled_once(xp: Any, x: Any, weights: Any, bias: Any) -> bool:
    """Whether a gradient of first order will be asked for, and can be made in the dtype of all arrays."""
    arrays = [a for a in (x, weights, bias) if a is not None]
    one = all(a.dtype == xp.wide(x).dtype for a in arrays)
    return one and xp.gradient_order(arrays) == 1


def _reduced(xp: Any, values: Any, weights: Any, reduction: str, shape: Any, shift: bool) -> Any:
    if reduction == "none":
        values = xp.reshape(values, shape)
        return values[..., :-1] if shift else values
    total = xp.sum(values)
    return xp.divide_or_zero(total, xp.sum(weights)) if reduction == "mean" else total


@with_own_gradient
def _total(
    x: Any,
    weights: Any,
    bias: Any,
    labels: Any,
    valid: Any,
    scale: Any,
    upstream: Any,
    *,
    options: Options,
) -> Any:
    """The losses of all tokens, each times its upstream, together."""
    xp = arrays_for(x)
    given, order, back = _ordered(xp, x, weights, bias, labels, valid, scale, options)
    upstream = upstream if order is None else xp.rows_at(upstream, order)
    run = _program(xp, forward_and_backward, given, options)
    losses, dx, dweights, dbias = run(given, upstream)
    dx = dx if order is None else xp.rows_at(dx, back)

    def linear_cross_entropy_pullback(dtotal: Any) -> Any:
        found = {"x": dx, "weights": dweights, "bias": dbias}
        return {name: None if g is None else g * dtotal for name, g in found.items()}

    return xp.sum(losses * upstream), linear_cross_entropy_pullback


@with_own_gradient
def _tokens(
    x: Any,
    weights: Any,
    bias: Any,
    labels: Any,
    valid: Any,
    scale: Any,
    *,
    options: Options,
) -> Any:
    """The loss of each token and the log-sum-exp of its logits; 0 for ignored ones."""
    xp = arrays_for(x)
    given, order, back = _ordered(xp, x, weights, bias, labels, valid, scale, options)
    losses, sums = xp.program(forward, options=options)(given)

    def linear_cross_entropy_pullback(dlosses: Any, dsums: Any) -> Any:
        if order is not None:
            dlosses, dsums = xp.rows_at(dlosses, order), xp.rows_at(dsums, order)
        run = xp.program(backward, options=options)
        dx, dweights, dbias = run(given, sums, dlosses, dsums)
        dx = dx if order is None else xp.rows_at(dx, back)
        return {"x": dx, "weights": dweights, "bias": dbias}

    if order is not None:
        return (xp.rows_at(losses, back), xp.rows_at(sums, back)), linear_cross_entropy_pullback
    return (losses, sums), linear_cross_entropy_pullback


def _ordered(
    xp: Any, x: Any, weights: Any, bias: Any, labels: Any, valid: Any, scale: Any, options: Options
) -> tuple[Given, Any, Any]:
    """The arrays with tokens that count first, the order in which they are then, and the way back."""
    if not options.ignores:
        return Given(x, weights, bias, labels, scale, None), None, None
    order, back, count = xp.chosen_first(valid)
    x, labels = xp.rows_at(x, order), xp.rows_at(labels, order)
    return Given(x, weights, bias, labels, scale, count), order, back


def _program(xp: Any, function: Any, given: Given, options: Options) -> Any:
    """A function of arrays as one program, compiled where that pays; loops that are compiled have no derivative."""
    logits = (given.x.shape[0], given.weights.shape[options.class_axis])
    large = None not in logits and logits[0] * logits[1] >= _WORTH_COMPILING
    return (xp.compiled if large else xp.program)(function, options=options)


def _arrays(xp: Any, x: Any, weights: Any, bias: Any, labels: Any, axis: int) -> tuple[Any, ...]:
    """The arguments as arrays, if they fit together."""
    x, weights = xp.asarray(x), weights if xp.is_array(weights) else xp.asarray(weights)
    bias = bias if bias is None or xp.is_array(bias) else xp.asarray(bias, x.dtype)
    for name, array in {"x": x, "weights": weights, "bias": bias}.items():
        if array is not None and xp.kind_of(xp.asarray(array)) != "floating":
            raise ArgumentError(
                f"pb.functions.{_NAME} got {name} as {describe(xp.asarray(array))}; wanted real floating-point "
                "numbers. Cast it before, to float32 for instance."
            )
    numbers = xp.class_numbers(labels)
    if numbers is None or xp.kind_of(xp.packed(labels)) == "floating":
        raise ArgumentError(
            f"pb.functions.{_NAME} got labels {describe(xp.packed(labels))}; wanted class numbers, as int32 or int64. "
            "Write tf.cast(labels, tf.int32)."
        )
    require_rank(_NAME, x=x, weights=weights, bias=bias, labels=numbers)
    _require_shapes(x, weights, bias, numbers, axis)
    return x, weights, bias, numbers


def _require_shapes(x: Any, weights: Any, bias: Any, labels: Any, axis: int) -> None:
    shapes = [tuple(v.shape) for v in (x, labels)]
    if len(weights.shape) != 2 or len(shapes[0]) < 1:
        form = "[depth, classes]" if axis else "[classes, depth]"
        raise ArgumentError(
            f"pb.functions.{_NAME} got x {describe(x)} and weights {describe(weights)}; wanted x as [..., depth] and "
            f"weights as {form}."
        )
    depth, classes = weights.shape[1 - axis], weights.shape[axis]
    if _differ(shapes[0][-1], depth):
        raise ArgumentError(
            f"pb.functions.{_NAME} got x of depth {shapes[0][-1]} and weights {describe(weights)} of depth {depth}. "
            f"For weights as {'[classes, depth]' if axis else '[depth, classes]'} write class_axis={0 if axis else 1}."
        )
    if len(shapes[0]) != len(shapes[1]) + 1 or any(map(_differ, shapes[0][:-1], shapes[1])):
        raise ArgumentError(
            f"pb.functions.{_NAME} got labels {describe(labels)} for x {describe(x)}; wanted one class number for each "
            "token, in the shape of x without its last axis."
        )
    if bias is not None and (len(bias.shape) != 1 or _differ(bias.shape[0], classes)):
        raise ArgumentError(
            f"pb.functions.{_NAME} got bias {describe(bias)} for {classes} classes; wanted one number for each class."
        )


def _differ(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a != b


def _class_weights(xp: Any, given: Any, classes: Any, x: Any) -> Any:
    if given is None:
        return None
    dtype = xp.wide(x).dtype
    found = xp.stop_gradient(xp.astype(xp.asarray(given, dtype), dtype))
    if len(found.shape) != 1 or (isinstance(classes, int) and _differ(found.shape[0], classes)):
        raise ArgumentError(
            f"pb.functions.{_NAME} got class_weights {describe(found)}; wanted one number for each of {classes} "
            "classes."
        )
    return found


def _require_options(
    smoothing: Any, cap: Any, z_loss: Any, reduction: Any, shift: Any, labels: Any
) -> None:
    require_number(_NAME, smoothing, "label_smoothing", 0.0, 1.0)
    for name, value in {"soft_cap": cap, "z_loss": z_loss}.items():
        if value is not None:
            require_number(_NAME, value, name, 0.0 if name == "z_loss" else 1e-30, 1e30)
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(
            f"pb.functions.{_NAME} got reduction={reduction!r}; wanted 'mean', 'sum' or 'none'."
        )
    if shift and len(labels.shape) == 0:
        raise ArgumentError(
            f"pb.functions.{_NAME} got shift=True for a single token; wanted labels with an axis of tokens."
        )
