"""Losses made of the same pieces as the cross-entropies: focal, Kullback–Leibler, Gaussian."""

from __future__ import annotations

import math
from typing import Any

from pullback.errors import ArgumentError
from pullback.functions._arguments import (
    arrays_for,
    axes_of,
    broadcasting_arrays,
    dtype_of,
    real_arrays,
    require_number,
    with_axes,
    with_own_gradient,
)
from pullback.functions._units import in_units
from pullback.functions.stable.cross_entropy import labels_like
from pullback.functions.stable.exponentials import sigmoids, softpluses
from pullback.functions.stable.quotients import log_of_ratio, quotient


@with_own_gradient
def binary_focal_cross_entropy(
    y_true: Any, y_pred: Any, alpha: float | None = None, gamma: float = 2.0, axis: Any = -1
) -> Any:
    """The focal loss of logits: cross-entropy times (1 − p of the label) to the power `gamma`; the mean over `axis`.

    `alpha` weighs the label 1, and 1 − alpha the label 0. Use it in place of Keras' on logits: nothing is clipped, so a
    sample that is wrong with certainty keeps its gradient, and one that is right keeps its small one.

    >>> import pullback as pb, tensorflow as tf
    >>> z = tf.constant([-100.0, 20.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(z)
    ...     loss = pb.functions.binary_focal_cross_entropy([1.0, 1.0], z, axis=None)
    >>> [f"{g:.4g}" for g in tape.gradient(loss, z)]
    ['-1', '-2.627e-26']
    """
    name = "binary_focal_cross_entropy"
    require_number(name, gamma, "gamma", 0.0, math.inf)
    require_number(name, 0.5 if alpha is None else alpha, "alpha", 0.0, 1.0)
    xp, z = real_arrays(name, y_pred=y_pred)
    labels = labels_like(xp, name, y_true, z)
    axes = () if axis is None else axes_of(name, z, axis)
    weights = (1.0, 1.0) if alpha is None else (float(alpha), 1.0 - alpha)
    loss, pullback = in_units(
        xp,
        _focal,
        labels,
        z,
        apart=("y_true", "y_pred"),
        axes=axes,
        weights=weights,
        gamma=float(gamma),
    )
    return xp.astype(loss, dtype_of(xp, y_pred)), pullback


def _focal(
    labels: Any, z: Any, *, axes: tuple[int, ...], weights: tuple[float, float], gamma: float
) -> Any:
    xp, dtype = arrays_for(z), z.dtype
    # A power has many times the error of what it is one of.
    labels, z = xp.widest(labels), xp.widest(z)

    def focal_pullback(dy: Any) -> Any:
        dy = with_axes(xp, xp.widest(dy), axes, keepdims=False) / xp.size(z, axes)
        one, zero = _focal_terms(z, gamma=gamma)
        to_one, to_zero = _focal_slopes(z, gamma=gamma)
        to_logits = weights[1] * (1.0 - labels) * to_zero - weights[0] * labels * to_one
        to_labels = xp.times_or_zero(weights[0] * one - weights[1] * zero, dy)
        found = {"y_true": to_labels, "y_pred": dy * to_logits}
        return {name: xp.astype(gradient, dtype) for name, gradient in found.items()}

    one, zero = _focal_terms(z, gamma=gamma)
    losses = xp.times_or_zero(one, weights[0] * labels)
    losses += xp.times_or_zero(zero, weights[1] * (1.0 - labels))
    return xp.astype(xp.mean(losses, axes), dtype), focal_pullback


def _weighed(xp: Any, z: Any, gamma: float) -> tuple[Any, Any]:
    """Both probabilities, to the power that weighs the loss of the other label."""
    both = sigmoids(z)
    weights = [xp.square(p) if gamma == 2.0 else xp.power(p, gamma) for p in both]
    return both, (weights[1], weights[0])


@with_own_gradient
def _focal_terms(z: Any, *, gamma: float) -> Any:
    """The loss with the label 1 and with the label 0."""
    xp = arrays_for(z)
    _, (weigh_one, weigh_zero) = _weighed(xp, z, gamma)
    hit, miss = softpluses(z)

    def focal_terms_pullback(to_one: Any, to_zero: Any) -> Any:
        one, zero = _focal_slopes(z, gamma=gamma)
        return xp.times_or_zero(zero, to_zero) - xp.times_or_zero(one, to_one)

    return weigh_one * miss, weigh_zero * hit, focal_terms_pullback


@with_own_gradient
def _focal_slopes(z: Any, *, gamma: float) -> Any:
    """The sizes of the slopes of both losses: sums of positive terms."""
    xp = arrays_for(z)
    (up, down), (weigh_one, weigh_zero) = _weighed(xp, z, gamma)
    # Of infinite logits, the smaller probability is 0 and outweighs the loss.
    hit, miss = softpluses(z)
    miss, hit = xp.times_or_zero(miss, up), xp.times_or_zero(hit, down)

    def focal_slopes_pullback(to_one: Any, to_zero: Any) -> Any:
        flat = (2.0 * gamma + 1.0) * up * down
        one = weigh_one * (gamma * (gamma * up - down) * miss + flat)
        zero = weigh_zero * (gamma * (gamma * down - up) * hit + flat)
        return xp.times_or_zero(zero, to_zero) - xp.times_or_zero(one, to_one)

    return weigh_one * (gamma * miss + down), weigh_zero * (gamma * hit + up), focal_slopes_pullback


@with_own_gradient
def kl_divergence(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """Σ y_true · log(y_true / y_pred) along `axis`, of probabilities as they are; a term whose y_true is 0 is 0.

    Use it in place of `keras.losses.kl_divergence`, which clips both: small probabilities keep their gradient here.
    Where both are 0, their gradients are 0.

    >>> import pullback as pb, tensorflow as tf
    >>> p, q = tf.constant([0.25, 0.75]), tf.constant([1e-12, 1.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(q)
    ...     loss = pb.functions.kl_divergence(p, q)
    >>> [f"{g:.4g}" for g in tape.gradient(loss, q)]
    ['-2.5e+11', '-0.75']
    """
    xp, p, q = real_arrays("kl_divergence", y_true=y_true, y_pred=y_pred)
    axes = axes_of("kl_divergence", q, axis, one=True)
    labels_like(xp, "kl_divergence", p, q)

    def kl_pullback(dy: Any) -> Any:
        dy = with_axes(xp, xp.wide(dy), axes, keepdims=False)
        nothing = (p == 0) & (q == 0)
        to_true, to_pred = log_of_ratio(p, q) + 1.0, -quotient(p, q)
        found = {"y_true": to_true, "y_pred": to_pred}
        # Slopes may be infinite, also where nobody asks for them.
        return {
            name: xp.times_or_zero(xp.where(nothing, xp.zeros_like(q), slope), dy)
            for name, slope in found.items()
        }

    loss = xp.sum(xp.times_or_zero(log_of_ratio(p, q), p), axes)
    return xp.astype(loss, dtype_of(xp, y_true, y_pred)), kl_pullback


@with_own_gradient
def _one_less_square(x: Any) -> Any:
    def one_less_square_pullback(dy: Any) -> Any:
        return -2.0 * x * dy

    return (1.0 - x) * (1.0 + x), one_less_square_pullback


@with_own_gradient
def gaussian_nll(y_true: Any, mean: Any, log_scale: Any, full: bool = False) -> Any:
    """−log of the normal density of y_true, one per entry, by mean and log of the standard deviation.

    `full` adds log √2π. Use it for networks that predict their uncertainty: the scale is positive by itself, errors
    are divided before they are squared, and the gradient of the scale is right near its optimum.

    >>> import pullback as pb, tensorflow as tf
    >>> s = tf.constant(69.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(s)
    ...     loss = pb.functions.gaussian_nll(tf.constant(1e30), 0.0, s)
    >>> float(tape.gradient(loss, s))
    -0.1677...
    """
    if full not in (True, False):
        raise ArgumentError(f"pb.functions.gaussian_nll got full={full!r}; wanted True or False.")
    xp, y, m, s = broadcasting_arrays("gaussian_nll", y_true=y_true, mean=mean, log_scale=log_scale)
    shrink = xp.exp(-s)
    error = (y - m) * shrink

    def gaussian_nll_pullback(dz: Any) -> Any:
        dz = xp.wide(dz)
        to_y = dz * error * shrink
        return {"y_true": to_y, "mean": -to_y, "log_scale": dz * _one_less_square(error)}

    loss = 0.5 * xp.square(error) + s + (0.5 * math.log(2.0 * math.pi) if full else 0.0)
    return xp.astype(loss, dtype_of(xp, y_true, mean, log_scale)), gaussian_nll_pullback
