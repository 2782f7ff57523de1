"""Cross-entropies whose gradient reaches the logits.

A probability of float32 tells nothing about logits beyond ±17: sigmoid(100) is 1. So a loss is computed from logits
wherever they can be found: they are given, or the probabilities are seen to come from a sigmoid or softmax.
"""

from __future__ import annotations

from typing import Any

from pullback._project import compatible, describe
from pullback.errors import ArgumentError
from pullback.functions._arguments import (
    arrays_for,
    axes_of,
    dtype_of,
    real_arrays,
    require_number,
    require_rank,
    with_axes,
    with_own_gradient,
)
from pullback.functions._units import in_units
from pullback.functions.stable.exponentials import below_largest, sigmoids, softplus_of_minus_size


def binary_cross_entropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: Any = -1,
) -> Any:
    """Cross-entropy of labels between 0 and 1 and one logit or probability each: the mean over `axis`; `None`: no mean.

    Use it in place of `keras.losses.binary_crossentropy`, which clips probabilities: a sample that is wrong with
    certainty has the gradient 0 there, and never learns. Nothing is clipped here. With `from_logits=False` the logits
    are found if the probabilities come from `keras.activations.sigmoid` at once, or from any sigmoid in the same traced
    function, reshaped, transposed, sliced or gathered since, and then the gradient flows to them directly. Otherwise it
    is that of the probabilities as they are: of 1.0, with the label 0, the loss is infinite. So give logits where you
    have them.

    >>> import keras, pullback as pb, tensorflow as tf
    >>> z = tf.constant([100.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(z)
    ...     loss = pb.functions.binary_cross_entropy(tf.constant([0.0]), keras.activations.sigmoid(z))
    >>> float(loss), tape.gradient(loss, z).numpy().tolist()
    (100.0, [1.0])
    """
    y_pred, from_logits = _seen(y_pred, from_logits, "Sigmoid")
    return _binary(
        y_true, y_pred, from_logits=from_logits, label_smoothing=label_smoothing, axis=axis
    )


def categorical_cross_entropy(
    y_true: Any,
    y_pred: Any,
    from_logits: bool = False,
    label_smoothing: float = 0.0,
    axis: int = -1,
) -> Any:
    """Cross-entropy of a distribution over classes and logits or probabilities of these, along `axis`.

    Use it in place of `keras.losses.categorical_crossentropy`, which clips probabilities, or of TensorFlow's own from
    logits, where labels need not sum to 1 or where p ≈ 1 matters: the gradient is right there too. Probabilities are
    treated as in `binary_cross_entropy`.

    >>> import pullback as pb, tensorflow as tf
    >>> z = tf.constant([[20.0, 0.0]])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(z)
    ...     loss = pb.functions.categorical_cross_entropy([[1.0, 0.0]], z, from_logits=True)
    >>> [f"{g:.4g}" for g in tape.gradient(loss, z)[0]]
    ['-2.061e-09', '2.061e-09']
    """
    y_pred, from_logits = _seen(y_pred, from_logits, "Softmax", axis)
    return _categorical(
        y_true, y_pred, from_logits=from_logits, label_smoothing=label_smoothing, axis=axis
    )


def sparse_categorical_cross_entropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """The same with the number of the right class as the label.

    Use it in place of `keras.losses.sparse_categorical_crossentropy`; see `categorical_cross_entropy`.

    >>> import pullback as pb, tensorflow as tf
    >>> z = tf.constant([[20.0, 0.0]])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(z)
    ...     loss = pb.functions.sparse_categorical_cross_entropy([0], z, from_logits=True)
    >>> [f"{g:.4g}" for g in tape.gradient(loss, z)[0]]
    ['-2.061e-09', '2.061e-09']
    """
    y_pred, from_logits = _seen(y_pred, from_logits, "Softmax", axis)
    return _sparse(y_true, y_pred, from_logits=from_logits, axis=axis)


def _seen(y_pred: Any, from_logits: bool, operation: str, axis: Any = -1) -> tuple[Any, bool]:
    """Logits instead of probabilities, where they are known."""
    axis = axis if isinstance(axis, int) else -1
    logits = None if from_logits else arrays_for(y_pred).logits_behind(y_pred, operation, axis)
    return (y_pred, from_logits) if logits is None else (logits, True)


def labels_like(xp: Any, function: str, y_true: Any, predicted: Any) -> Any:
    """Labels as an array like the predictions, whose shape they have."""
    if not xp.is_numeric(y_true):
        raise ArgumentError(
            f"pb.functions.{function} got labels {describe(y_true)} for predictions {describe(predicted)}; wanted "
            "numbers."
        )
    labels = xp.astype(y_true, predicted.dtype)
    require_rank(function, y_true=labels, y_pred=predicted)
    came, wanted = tuple(labels.shape), tuple(predicted.shape)
    pairs = zip(came, wanted, strict=False)
    if len(came) != len(wanted) or any(None not in (c, w) and c != w for c, w in pairs):
        raise ArgumentError(
            f"pb.functions.{function} got labels {describe(labels)} for predictions {describe(predicted)}; wanted one "
            "label for each prediction. Give both one shape, as with labels[:, None]."
        )
    return labels


def binary_losses(xp: Any, labels: Any, logits: Any) -> Any:
    """One cross-entropy per logit. All terms are positive, so that nothing cancels."""
    up, down = xp.maximum(logits, 0.0), xp.maximum(-logits, 0.0)
    certain = xp.times_or_zero(up, 1.0 - labels) + xp.times_or_zero(down, labels)
    return certain + softplus_of_minus_size(xp, logits)


def of_probabilities(xp: Any, labels: Any, p: Any) -> tuple[Any, Any]:
    """One cross-entropy per probability, and its slope there; a term whose label is 0 is 0, whatever its logarithm."""
    loss = -xp.times_or_zero(xp.log(p), labels) - xp.times_or_zero(xp.log1p(-p), 1.0 - labels)
    slope = xp.times_or_zero(1.0 / (1.0 - p), 1.0 - labels) - xp.times_or_zero(1.0 / p, labels)
    return loss, slope


@with_own_gradient
def _binary(
    y_true: Any, y_pred: Any, *, from_logits: bool, label_smoothing: float, axis: Any
) -> Any:
    name = "binary_cross_entropy"
    require_number(name, label_smoothing, "label_smoothing", 0.0, 1.0)
    xp, z = real_arrays(name, y_pred=y_pred)
    given = labels_like(xp, name, y_true, z)
    labels = given * (1.0 - label_smoothing) + 0.5 * label_smoothing if label_smoothing else given
    axes = () if axis is None else axes_of(name, z, axis)
    losses, slope = (
        (binary_losses(xp, labels, z), None) if from_logits else of_probabilities(xp, labels, z)
    )

    def binary_cross_entropy_pullback(dy: Any) -> Any:
        dy = with_axes(xp, xp.wide(dy), axes, keepdims=False) / xp.size(z, axes)
        if from_logits:
            up, down = sigmoids(z)
            to_logits = (1.0 - labels) * up - labels * down
            to_labels = -z
        else:
            to_logits, to_labels = slope, xp.log1p(-z) - xp.log(z)
        return {"y_true": dy * to_labels * (1.0 - label_smoothing), "y_pred": dy * to_logits}

    return xp.astype(xp.mean(losses, axes), dtype_of(xp, y_pred)), binary_cross_entropy_pullback


@with_own_gradient
def _categorical(
    y_true: Any, y_pred: Any, *, from_logits: bool, label_smoothing: float, axis: int
) -> Any:
    name = "categorical_cross_entropy"
    require_number(name, label_smoothing, "label_smoothing", 0.0, 1.0)
    xp, z = real_arrays(name, y_pred=y_pred)
    axes = axes_of(name, z, axis, one=True)
    labels = labels_like(xp, name, y_true, z)
    loss, pullback = in_units(
        xp,
        _among,
        labels,
        z,
        apart=("y_true", "y_pred"),
        from_logits=bool(from_logits),
        label_smoothing=float(label_smoothing),
        axes=axes,
    )
    return xp.astype(loss, dtype_of(xp, y_pred)), pullback


def _among(
    labels: Any, z: Any, *, from_logits: bool, label_smoothing: float, axes: tuple[int, ...]
) -> Any:
    xp = arrays_for(z)
    if label_smoothing:
        labels = labels * (1.0 - label_smoothing) + label_smoothing / xp.size(z, axes)
    of = _of_logits if from_logits else _of_probabilities
    loss, to_predictions, to_labels = of(xp, labels, z, axes)

    def categorical_cross_entropy_pullback(dy: Any) -> Any:
        dy = with_axes(xp, xp.wide(dy), axes, keepdims=False)
        return {
            "y_true": dy * to_labels() * (1.0 - label_smoothing),
            "y_pred": dy * to_predictions(),
        }

    return loss, categorical_cross_entropy_pullback


def _of_logits(xp: Any, labels: Any, z: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The loss, and how to get what it passes on to logits and labels."""
    _, shifted, parts = below_largest(xp, z, axes)
    beside = _beside_largest(xp, shifted, parts, axes)
    whole_label = xp.sum(labels, axes)
    loss = xp.squeeze(xp.log1p(beside), axes) * whole_label - xp.sum(
        xp.times_or_zero(shifted, labels), axes
    )
    return (
        loss,
        lambda: _excess(labels, z, axes=axes),
        lambda: xp.log(xp.sum(parts, axes, keepdims=True)) - shifted,
    )


def _beside_largest(xp: Any, shifted: Any, parts: Any, axes: tuple[int, ...]) -> Any:
    """The sum of the parts but the largest, which is 1."""
    top = shifted == 0
    ones = xp.sum(xp.astype(top, shifted.dtype), axes, keepdims=True)
    return xp.sum(xp.where(top, xp.zeros_like(parts), parts), axes, keepdims=True) + (ones - 1.0)


@with_own_gradient
def _excess(labels: Any, z: Any, *, axes: tuple[int, ...]) -> Any:
    """Σ labels · softmax(z) − labels.

    One minus a probability that is nearly 1 is the sum of the others; so is the sum of labels but one.
    """
    xp = arrays_for(z)
    _, shifted, parts = below_largest(xp, z, axes)
    beside = _beside_largest(xp, shifted, parts, axes)
    whole, whole_label = 1.0 + beside, xp.sum(labels, axes, keepdims=True)
    others = xp.where(shifted == 0, beside, whole - parts)
    found = (parts * (whole_label - labels) - labels * others) / whole

    def excess_pullback(dy: Any) -> Any:
        p = parts / xp.sum(parts, axes, keepdims=True)
        mean = xp.sum(p * dy, axes, keepdims=True)
        return {"labels": mean - dy, "z": whole_label * p * (dy - mean)}

    return found, excess_pullback


def _of_probabilities(xp: Any, labels: Any, p: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    loss = -xp.sum(xp.times_or_zero(xp.log(p), labels), axes)
    return loss, lambda: -xp.times_or_zero(1.0 / p, labels), lambda: -xp.log(p)


@with_own_gradient
def _sparse(y_true: Any, y_pred: Any, *, from_logits: bool, axis: int) -> Any:
    name = "sparse_categorical_cross_entropy"
    xp, z = real_arrays(name, y_pred=y_pred)
    (axis,) = axes_of(name, z, axis, one=True)
    labels = xp.class_numbers(y_true)
    require_rank(name, y_true=labels)
    if labels is not None and len(labels.shape) == len(z.shape) and labels.shape[axis] == 1:
        labels = xp.squeeze(labels, (axis,))
    rows = (*z.shape[:axis], *z.shape[axis + 1 :])
    if labels is None or not compatible(tuple(labels.shape), rows):
        raise ArgumentError(
            f"pb.functions.{name} got labels {describe(xp.asarray(y_true))} for predictions {describe(z)}; wanted the "
            "number of a class for each row, in one axis less. For one-hot labels use categorical_cross_entropy."
        )
    labels = xp.require_classes(labels, labels == labels, xp.extent(z, axis), name, others="")
    loss, pullback = in_units(xp, _of_one, labels, z, from_logits=bool(from_logits), axis=axis)
    return xp.astype(loss, dtype_of(xp, y_pred)), pullback


def _of_one(labels: Any, z: Any, *, from_logits: bool, axis: int) -> Any:
    xp = arrays_for(z)
    classes_last, known = xp.move_last(z, axis), labels >= 0
    if from_logits:
        _, shifted, parts = below_largest(xp, classes_last, (len(z.shape) - 1,))
        loss, slopes = xp.sparse_cross_entropy(labels, shifted, parts)
    else:
        loss, slopes = xp.sparse_log_loss(labels, classes_last)
    loss = xp.where(known, loss, xp.nan_like(loss))
    slopes = xp.where(xp.expand_dims(known, -1), slopes, xp.nan_like(slopes))

    def sparse_categorical_cross_entropy_pullback(dy: Any) -> Any:
        dz = xp.expand_dims(xp.wide(dy), -1) * slopes
        return {"y_pred": xp.move_last(dz, axis, back=True)}

    return loss, sparse_categorical_cross_entropy_pullback
