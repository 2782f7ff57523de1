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
from pullback.functions.stable.exponentials import sigmoids
from pullback.functions.stable.quotients import log, log_of_rest, quotient
from pullback.functions.stable.softmax import (
    Shares,
    below_largest,
    excess,
    less_constant,
    minus_log_softmax,
)


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
        y_true,
        y_pred,
        from_logits=from_logits,
        label_smoothing=label_smoothing,
        axis=axis,
        of_labels=arrays_for(y_pred).may_be_watched(y_true),
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
        y_true,
        y_pred,
        from_logits=from_logits,
        label_smoothing=label_smoothing,
        axis=axis,
        of_labels=arrays_for(y_pred).may_be_watched(y_true),
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


@with_own_gradient
def _binary(
    y_true: Any,
    y_pred: Any,
    *,
    from_logits: bool,
    label_smoothing: float,
    axis: Any,
    of_labels: bool,
) -> Any:
    name = "binary_cross_entropy"
    require_number(name, label_smoothing, "label_smoothing", 0.0, 1.0)
    xp, z = real_arrays(name, y_pred=y_pred)
    given = labels_like(xp, name, y_true, z)
    smoothed = bool(label_smoothing)
    labels = given * (1.0 - label_smoothing) + 0.5 * label_smoothing if smoothed else given
    axes = () if axis is None else axes_of(name, z, axis)
    of = _of_one_logit if from_logits else _of_one_probability
    losses, to_predictions, to_labels = of(xp, labels, z)

    def binary_cross_entropy_pullback(dy: Any) -> Any:
        dy = with_axes(xp, xp.wide(dy), axes, keepdims=False)
        dy = dy / xp.size(z, axes) if axes else dy
        # Slopes may be infinite, also where nobody asks for them.
        found = {"y_pred": xp.times_or_zero(to_predictions(), dy)}
        if of_labels:
            found["y_true"] = xp.times_or_zero(to_labels(), dy * (1.0 - label_smoothing))
        return found

    losses = xp.mean(losses, axes) if axes else losses
    return xp.astype(losses, dtype_of(xp, y_pred)), binary_cross_entropy_pullback


def _of_one_logit(xp: Any, labels: Any, z: Any) -> tuple[Any, Any, Any]:
    """The losses, and how to get what they pass on. All terms are positive, so that nothing cancels."""
    size, others = xp.magnitude(z), 1.0 - labels
    small = xp.exp(-size)
    certain = xp.times_or_zero(size, xp.where(z < 0, labels, others))

    def to_logits() -> Any:
        up, down = sigmoids(z, xp.stop_gradient(small))
        return (1.0 - labels) * up - labels * down

    return certain + xp.log1p(small), to_logits, lambda: -z


def _of_one_probability(xp: Any, labels: Any, p: Any) -> tuple[Any, Any, Any]:
    """The same; a term whose label is 0 is 0, whatever its logarithm."""
    one, zero = xp.times_or_zero(xp.log(p), labels), xp.times_or_zero(xp.log1p(-p), 1.0 - labels)
    return (
        -one - zero,
        lambda: quotient(1.0 - labels, 1.0 - p) - quotient(labels, p),
        lambda: log_of_rest(p) - log(p),
    )


@with_own_gradient
def _categorical(
    y_true: Any,
    y_pred: Any,
    *,
    from_logits: bool,
    label_smoothing: float,
    axis: int,
    of_labels: bool,
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
        apart=("y_true", "y_pred") if of_labels else ("y_pred",),
        from_logits=bool(from_logits),
        label_smoothing=float(label_smoothing),
        axes=axes,
        of_labels=of_labels,
    )
    return xp.astype(loss, dtype_of(xp, y_pred)), pullback


def _among(
    labels: Any,
    z: Any,
    *,
    from_logits: bool,
    label_smoothing: float,
    axes: tuple[int, ...],
    of_labels: bool,
) -> Any:
    xp = arrays_for(z)
    if label_smoothing:
        labels = labels * (1.0 - label_smoothing) + label_smoothing / xp.size(z, axes)
    of = _of_logits if from_logits else _of_probabilities
    loss, to_predictions, to_labels = of(xp, labels, z, axes)

    def categorical_cross_entropy_pullback(dy: Any) -> Any:
        dy = with_axes(xp, xp.wide(dy), axes, keepdims=False)
        # Slopes may be infinite, also where nobody asks for them.
        found = {"y_pred": xp.times_or_zero(to_predictions(), dy)}
        if of_labels:
            found["y_true"] = xp.times_or_zero(to_labels(), dy) * (1.0 - label_smoothing)
        return found

    return loss, categorical_cross_entropy_pullback


def _of_logits(xp: Any, labels: Any, z: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The loss, and how to get what it passes on to logits and labels."""
    shares = Shares(xp, z, axes)
    loss = xp.squeeze(shares.log_of_whole, axes) * xp.sum(labels, axes) - xp.sum(
        xp.times_or_zero(shares.shifted, labels), axes
    )
    return loss, lambda: excess(labels, z, axes=axes), lambda: minus_log_softmax(z, axes=axes)


def _of_probabilities(xp: Any, labels: Any, p: Any, axes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    loss = -xp.sum(xp.times_or_zero(xp.log(p), labels), axes)
    return loss, lambda: -quotient(labels, p), lambda: -log(p)


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
        _, shifted, rest = below_largest(xp, classes_last, (len(z.shape) - 1,))
        parts = xp.exp(shifted) * (1.0 + rest)
        loss, slopes = xp.sparse_cross_entropy(labels, shifted, parts)
    else:
        loss, slopes = xp.sparse_log_loss(labels, classes_last), None
    loss = xp.where(known, loss, xp.nan_like(loss))

    def sparse_categorical_cross_entropy_pullback(dy: Any) -> Any:
        found = (
            -quotient(xp.one_hot(labels, classes_last), classes_last)
            if slopes is None
            else less_constant(xp.stop_gradient(slopes), classes_last, axes=(len(z.shape) - 1,))
        )
        found = xp.where(xp.expand_dims(known, -1), found, xp.nan_like(found))
        dz = xp.times_or_zero(found, xp.expand_dims(xp.wide(dy), -1))
        return {"y_pred": xp.move_last(dz, axis, back=True)}

    return loss, sparse_categorical_cross_entropy_pullback
