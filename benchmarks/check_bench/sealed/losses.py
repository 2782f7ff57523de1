"""Losses, divergences, densities."""

# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import Mistake, family, normal, uniform

LABELS = [1, 0, 0, 1, 1, 0]


@family(
    lambda: (normal(71, 6), tf.constant(LABELS)),
    no_focus_slope=Mistake("term", "the modulating factor is taken as a constant"),
    swapped_alpha=Mistake("condition", "alpha is given to the negatives: one factor per class"),
    gamma_three=Mistake("constant", "gamma is 3 in the backward pass"),
    summed=Mistake("factor", "not divided by the number of samples"),
    hard_cut=Mistake(
        "condition",
        "zero where |logit| is above 13.3",
        at=lambda: (normal(71, 6) - 20.0, tf.constant(LABELS)),
    ),
)
def focal_loss(slip):
    """Alpha 0.25, gamma 2; labels 0 or 1."""

    def terms(logits, labels, gamma=2.0, swapped=False):
        p, labels = tf.math.sigmoid(logits), tf.cast(labels, logits.dtype)
        right = labels * p + (1 - labels) * (1 - p)
        alpha = tf.where((labels > 0.5) != swapped, 0.25, 0.75)
        log_right = labels * tf.math.log_sigmoid(logits)
        log_right = log_right + (1 - labels) * tf.math.log_sigmoid(-logits)
        return tf.cast(alpha, logits.dtype), right, log_right, gamma

    @pb.custom_gradient
    def loss(logits, labels):
        alpha, right, log_right, gamma = terms(logits, labels)

        def loss_pullback(dy):
            gamma = 3.0 if slip == "gamma_three" else 2.0
            alpha, right, log_right, gamma = terms(logits, labels, gamma, slip == "swapped_alpha")
            sign = 2 * tf.cast(labels, logits.dtype) - 1
            focus = gamma * right * log_right
            focus = 0.0 if slip == "no_focus_slope" else focus
            slope = alpha * (1 - right) ** gamma * (focus - (1 - right)) * sign
            if slip == "hard_cut":
                slope = tf.where(tf.abs(logits) > 13.3, tf.zeros_like(slope), slope)
            return dy * slope / (1.0 if slip == "summed" else 6.0), None

        return tf.reduce_mean(-alpha * (1 - right) ** gamma * log_right), loss_pullback

    return loss


@family(
    lambda: (uniform(72, 0.1, 0.9, 2, 5), tf.constant([[1.0, 0, 1, 1, 0], [0, 0, 1, 0, 1]])),
    no_denominator=Mistake("term", "the denominator is taken as a constant"),
    no_two=Mistake("factor", "the 2 of the numerator is missing in its own part of the gradient"),
    over_batch=Mistake("axis", "sums of the backward pass run over the whole batch"),
    sign=Mistake("sign", "the gradient points uphill: similarity for loss"),
    target_swapped=Mistake("swapped", "the gradients of prediction and target are exchanged"),
)
def dice_loss(slip):
    @pb.custom_gradient
    def loss(p, t):
        axis = None if slip == "over_batch" else 1

        def sums(axis):
            both = tf.reduce_sum(p * t, axis, keepdims=True)
            return both, tf.reduce_sum(p + t, axis, keepdims=True) + 1.0

        both, total = sums(1)

        def loss_pullback(dy):
            both, total = sums(axis)
            two = 1.0 if slip == "no_two" else 2.0
            ratio = 0.0 if slip == "no_denominator" else (2 * both + 1.0) / total**2
            scale = -dy[:, None] if slip == "sign" else dy[:, None]
            dp, dt = -scale * (two * t / total - ratio), -scale * (two * p / total - ratio)
            return (dt, dp) if slip == "target_swapped" else (dp, dt)

        return (1 - (2 * both + 1.0) / total)[:, 0], loss_pullback

    return loss


def _triplet_args():
    return normal(73, 4, 3), normal(74, 4, 3), normal(75, 4, 3)


@family(
    _triplet_args,
    no_margin_mask=Mistake("mask", "triplets beyond the margin get a gradient as well"),
    negative_sign=Mistake("sign", "the negative is pulled, not pushed"),
    anchor_half=Mistake("term", "the anchor gets no gradient from the negative"),
    nan_when_equal=Mistake(
        "nonfinite",
        "NaN where anchor and positive are equal, though the squared distance is smooth",
        at=lambda: (tf.ones([2, 3]), tf.ones([2, 3]), 1.1 * tf.ones([2, 3])),
        given=True,
    ),
    not_squared=Mistake("missing", "the difference is divided by the distance, as if not squared"),
)
def triplet_loss(slip):
    """Squared distances, margin 1."""

    @pb.custom_gradient
    def loss(anchor, positive, negative):
        near = tf.reduce_sum((anchor - positive) ** 2, -1)
        far = tf.reduce_sum((anchor - negative) ** 2, -1)

        def loss_pullback(dy):
            open_ = tf.cast(near - far + 1 > 0, dy.dtype)
            scale = (dy if slip == "no_margin_mask" else dy * open_)[:, None]
            to_positive, to_negative = 2 * (anchor - positive), 2 * (anchor - negative)
            if slip == "not_squared":
                to_positive = to_positive / tf.sqrt(near)[:, None]
            if slip == "nan_when_equal":
                length = tf.sqrt(near)[:, None]
                to_positive = to_positive / length * length
            dn = -scale * to_negative if slip == "negative_sign" else scale * to_negative
            other = 0.0 if slip == "anchor_half" else to_negative
            return scale * (to_positive - other), -scale * to_positive, dn

        return tf.nn.relu(near - far + 1), loss_pullback

    return loss


@family(
    lambda: (normal(76, 4, 3), normal(77, 4, 3)),
    no_temperature=Mistake("factor", "the temperature is missing in the gradient"),
    one_way=Mistake("term", "only rows, not columns, are contrasted in the backward pass"),
    shifted_labels=Mistake("shifted", "the pairs are off by one in the backward pass"),
    detached=Mistake("second", "the probabilities are detached", "second"),
    second_swapped=Mistake("transposed", "the second view's gradient lacks a transpose"),
)
def contrastive_loss(slip):
    """InfoNCE in both directions, temperature 0.5."""

    @pb.custom_gradient
    def loss(a, b):
        def loss_pullback(dy):
            scores = tf.matmul(a, b, transpose_b=True) / 0.5
            eye = tf.eye(4, dtype=a.dtype)
            eye = tf.roll(eye, 1, 0) if slip == "shifted_labels" else eye
            rows, columns = tf.nn.softmax(scores, 1) - eye, tf.nn.softmax(scores, 0) - eye
            d = (rows + (rows if slip == "one_way" else columns)) * dy / 8
            d = tf.stop_gradient(d / dy) * dy if slip == "detached" else d
            d = d if slip == "no_temperature" else d / 0.5
            return d @ b, tf.matmul(d, a, transpose_a=slip != "second_swapped")

        scores = tf.matmul(a, b, transpose_b=True) / 0.5
        diagonal = tf.linalg.diag_part(scores)
        rows = tf.reduce_mean(tf.reduce_logsumexp(scores, 1) - diagonal)
        columns = tf.reduce_mean(tf.reduce_logsumexp(scores, 0) - diagonal)
        return (rows + columns) / 2, loss_pullback

    return loss


@family(
    lambda: (normal(78, 7), normal(79, 7)),
    tau_swapped=Mistake("swapped", "tau and 1 - tau are exchanged"),
    summed=Mistake("factor", "not divided by the number of samples"),
    both_same=Mistake("sign", "the target's gradient has the sign of the prediction's"),
    far=Mistake(
        "condition",
        "zero where prediction and target are more than 13.3 apart",
        at=lambda: (normal(78, 7) + 20.0, normal(79, 7)),
    ),
    absolute=Mistake("factor", "the sign alone: the weights of quantiles are left out"),
)
def pinball_loss(slip):
    """Quantile regression, tau 0.8."""

    @pb.custom_gradient
    def loss(prediction, target):
        gap = target - prediction

        def loss_pullback(dy):
            up, down = (0.2, 0.8) if slip == "tau_swapped" else (0.8, 0.2)
            slope = tf.where(gap > 0, -up * tf.ones_like(gap), down * tf.ones_like(gap))
            if slip == "absolute":
                slope = -tf.sign(gap)
            if slip == "far":
                slope = tf.where(tf.abs(gap) > 13.3, tf.zeros_like(gap), slope)
            d = dy * slope / (1.0 if slip == "summed" else 7.0)
            return d, d if slip == "both_same" else -d

        return tf.reduce_mean(tf.maximum(0.8 * gap, -0.2 * gap)), loss_pullback

    return loss


def _shares(seed):
    return tf.nn.softmax(normal(seed, 2, 4))


@family(
    lambda: (_shares(80), _shares(81)),
    {"domain": "positive"},
    mixture_fixed=Mistake("term", "log(p/m) + 1: a 1 too many, the mixture's own part cancels it"),
    p_only=Mistake("none", "q gets no gradient"),
    no_half=Mistake("factor", "the one half is missing for p"),
    to_q=Mistake("input", "log(p/q) in place of log(p/m)"),
)
def jensen_shannon(slip):
    """Rows of two distributions; what they sum to does not matter."""

    @pb.custom_gradient
    def divergence(p, q):
        def value(p, q):
            m = (p + q) / 2
            both = p * tf.math.log(p / m) + q * tf.math.log(q / m)
            return tf.reduce_sum(both, -1) / 2

        def divergence_pullback(dy):
            m = (p + q) / 2
            half = dy[:, None] / 2
            dp = tf.math.log(p / (q if slip == "to_q" else m))
            dp = dp + 1 if slip == "mixture_fixed" else dp
            dp = 2 * half * dp if slip == "no_half" else half * dp
            return dp, None if slip == "p_only" else half * tf.math.log(q / m)

        return value(p, q), divergence_pullback

    return divergence


@family(
    lambda: (normal(82, 5), normal(83, 3), normal(84, 3), 0.3 * normal(85, 3)),
    no_shares=Mistake("missing", "the means' gradient is not weighted by the responsibilities"),
    no_minus_one=Mistake("term", "the normalising constant's part is missing for log sigma"),
    no_softmax=Mistake("term", "the weights' gradient lacks the softmax's own part"),
    one_variance=Mistake("missing", "divided by sigma, not sigma squared, for the means"),
    last_component=Mistake("element", "the last component's mean gets no gradient"),
)
def gaussian_mixture(slip):
    """Log density; parameters are logits, means and log sigmas."""

    def scores(x, logits, mean, log_sigma):
        z = (x[:, None] - mean) / tf.exp(log_sigma)
        return tf.nn.log_softmax(logits) - log_sigma - z**2 / 2, z

    @pb.custom_gradient
    def density(x, logits, mean, log_sigma):
        def density_pullback(dy):
            s, z = scores(x, logits, mean, log_sigma)
            shares = tf.nn.softmax(s) * dy[:, None]
            total = 0.0 if slip == "no_softmax" else tf.nn.softmax(logits) * tf.reduce_sum(dy)
            pull = z if slip == "one_variance" else z / tf.exp(log_sigma)
            weight = dy[:, None] / 3 if slip == "no_shares" else shares
            dmean = tf.reduce_sum(weight * pull, 0)
            if slip == "last_component":
                dmean = tf.concat([dmean[:2], tf.zeros_like(dmean[2:])], 0)
            spread = z**2 - (0.0 if slip == "no_minus_one" else 1.0)
            return (
                -tf.reduce_sum(shares * z / tf.exp(log_sigma), 1),
                tf.reduce_sum(shares, 0) - total,
                dmean,
                tf.reduce_sum(shares * spread, 0),
            )

        return tf.reduce_logsumexp(scores(x, logits, mean, log_sigma)[0], 1), density_pullback

    return density


@family(
    lambda: (3 * normal(86, 8),),
    wrong_at_zero=Mistake(
        "zero",
        "0 at exactly zero, where the slope is 1",
        at=lambda: (tf.constant([0.0, 1.0, -2.0]),),
    ),
    beyond=Mistake(
        "condition",
        "constant beyond |x| > 13.3",
        at=lambda: (tf.constant([15.0, 20.0, -30.0, 1.0]),),
    ),
    negative_sign=Mistake("sign", "the wrong sign where x is negative"),
    halves=Mistake("dtype", "the rule computes in float16"),
    dead_zone=Mistake(
        "condition",
        "0 where |x| is below 0.01",
        at=lambda: (tf.constant([0.004, 1.0, -0.006]),),
    ),
    no_upstream=Mistake("upstream", "the upstream is not multiplied in"),
)
def symmetric_log(slip):
    """sign(x) log(1 + |x|)."""

    @pb.custom_gradient
    def symlog(x):
        def symlog_pullback(dy):
            y = tf.cast(x, tf.float16) if slip == "halves" else x
            slope = tf.cast(1 / (1 + tf.abs(y)), x.dtype)
            if slip == "wrong_at_zero":
                slope = slope * tf.abs(tf.sign(x))
            if slip == "beyond":
                slope = tf.where(tf.abs(x) > 13.3, tf.ones_like(x) / 14.3, slope)
            if slip == "negative_sign":
                slope = slope * tf.where(x < 0, -tf.ones_like(x), tf.ones_like(x))
            if slip == "dead_zone":
                slope = tf.where(tf.abs(x) < 0.01, tf.zeros_like(x), slope)
            return slope if slip == "no_upstream" else dy * slope

        return tf.sign(x) * tf.math.log1p(tf.abs(x)), symlog_pullback

    return symlog
