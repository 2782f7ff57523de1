"""Attention and normalisation."""

# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import Mistake, family, normal, uniform


def _attention_args():
    rows = [[1, 1, 0, 1], [1, 0, 1, 1], [0, 1, 1, 1], [1, 1, 1, 0]]
    return normal(1, 4, 3), normal(2, 4, 3), normal(3, 4, 3), tf.constant(rows) == 1


@family(
    _attention_args,
    no_mask=Mistake("mask", "the backward pass forgets the mask when it recomputes the weights"),
    no_scale=Mistake("factor", "1/sqrt(d) is missing in the gradients of q and k"),
    no_row_sum=Mistake("term", "softmax's row-sum term is dropped for q and k"),
    k_transposed=Mistake("transposed", "dk uses dS in place of its transpose"),
    v_transposed=Mistake("transposed", "dv uses P in place of its transpose"),
    last_query=Mistake("element", "the last query gets no gradient"),
)
def masked_attention(slip):
    def weights(q, k, mask):
        scores = tf.einsum("id,jd->ij", q, k) / 3**0.5
        return tf.nn.softmax(tf.where(mask, scores, -1e9))

    @pb.custom_gradient
    def attention(q, k, v, mask):
        def attention_pullback(dy):
            P = weights(q, k, tf.ones_like(mask) if slip == "no_mask" else mask)
            dv = tf.matmul(P, dy, transpose_a=slip != "v_transposed")
            dP = tf.matmul(dy, v, transpose_b=True)
            total = tf.reduce_sum(P * dP, -1, keepdims=True)
            dS = P * (dP - (0.0 if slip == "no_row_sum" else total))
            dS = dS if slip == "no_scale" else dS / 3**0.5
            dq = dS @ k
            if slip == "last_query":
                dq = tf.concat([dq[:-1], tf.zeros_like(dq[-1:])], 0)
            return dq, tf.matmul(dS, q, transpose_a=slip != "k_transposed"), dv

        return weights(q, k, mask) @ v, attention_pullback

    return attention


@family(
    lambda: (normal(4, 2, 3, 4), uniform(5, 0.5, 1.5, 4), normal(6, 4)),
    no_mean_term=Mistake("term", "the term through the mean is dropped for x"),
    no_gamma=Mistake("factor", "gamma is not multiplied in for x (one factor per channel)"),
    all_channels=Mistake("axis", "the statistics in the backward pass run over all channels"),
    eps_outside=Mistake("small", "divides by std + eps in place of sqrt(var + eps)"),
    gamma_raw=Mistake("missing", "the gradient of gamma takes x in place of normalised x"),
)
def group_norm(slip):
    """Channels in two groups."""

    def split(x, groups):
        return tf.reshape(x, [2, 3, groups, 4 // groups])

    def normalised(x, groups=2, outside=False):
        parts = split(x, groups)
        mean = tf.reduce_mean(parts, [1, 3], keepdims=True)
        var = tf.reduce_mean((parts - mean) ** 2, [1, 3], keepdims=True)
        inverse = 1 / (tf.sqrt(var) + 1e-3) if outside else 1 / tf.sqrt(var + 1e-3)
        return tf.reshape((parts - mean) * inverse, tf.shape(x)), inverse

    @pb.custom_gradient
    def norm(x, gamma, beta):
        def norm_pullback(dy):
            groups = 1 if slip == "all_channels" else 2
            n, inverse = normalised(x, groups, slip == "eps_outside")
            g = split(dy if slip == "no_gamma" else dy * gamma, groups)
            m = split(n, groups)
            mean = tf.reduce_mean(g, [1, 3], keepdims=True)
            slope = tf.reduce_mean(g * m, [1, 3], keepdims=True)
            inner = g - (0.0 if slip == "no_mean_term" else mean) - m * slope
            dx = tf.reshape(inner * inverse, tf.shape(x))
            by = x if slip == "gamma_raw" else n
            return dx, tf.reduce_sum(dy * by, [0, 1]), tf.reduce_sum(dy, [0, 1])

        return normalised(x)[0] * gamma + beta, norm_pullback

    return norm


@family(
    lambda: (normal(7, 2, 5, 3),),
    unbiased=Mistake("factor", "n - 1 in place of n in the term through the variance"),
    no_variance=Mistake("term", "the variance is taken as a constant"),
    over_channels=Mistake("axis", "means of the backward pass run over channels, not positions"),
    detached=Mistake("second", "1/std is detached: the second derivative is wrong", "second"),
    first_instance=Mistake("element", "every instance uses the 1/std of the first one"),
)
def instance_norm(slip):
    def parts(x):
        centred = x - tf.reduce_mean(x, 1, keepdims=True)
        return centred, tf.math.rsqrt(tf.reduce_mean(centred**2, 1, keepdims=True) + 1e-5)

    @pb.custom_gradient
    def norm(x):
        def norm_pullback(dy):
            centred, inverse = parts(x)
            if slip == "detached":
                inverse = tf.stop_gradient(inverse)
            n = centred * inverse
            axis = 2 if slip == "over_channels" else 1
            mean = tf.reduce_mean(dy, axis, keepdims=True)
            slope = tf.reduce_mean(dy * n, axis, keepdims=True)
            slope = {"unbiased": slope * 5 / 4, "no_variance": 0 * slope}.get(slip, slope)
            scale = inverse[:1] if slip == "first_instance" else inverse
            return (dy - mean - n * slope) * scale

        centred, inverse = parts(x)
        return centred * inverse, norm_pullback

    return norm


@family(
    lambda: (normal(8, 4, 3), uniform(9, 0.5, 2.0, 4)),
    no_projection=Mistake("term", "the part along v is not taken out of the gradient of v"),
    length_squared=Mistake("missing", "the gradient of v is divided by |v|² in place of |v|"),
    g_unnormalised=Mistake("missing", "the gradient of g is <dw, v>, not divided by |v|"),
    columns=Mistake("axis", "lengths of columns in place of rows in the projection"),
    no_g=Mistake("factor", "g is not multiplied in: one factor per row"),
)
def weight_norm(slip):
    """Rows of v scaled to length g."""

    @pb.custom_gradient
    def weight(v, g):
        length = tf.norm(v, axis=1, keepdims=True)
        unit = v / length

        def weight_pullback(dw):
            along = tf.reduce_sum(dw * unit, 1, keepdims=True)
            if slip == "columns":
                other = v / tf.norm(v, axis=0, keepdims=True)
                inner = dw - other * tf.reduce_sum(dw * other, 0, keepdims=True)
            else:
                inner = dw - (0.0 if slip == "no_projection" else unit * along)
            inner = inner / length if slip == "length_squared" else inner
            scale = 1.0 if slip == "no_g" else g[:, None]
            dg = tf.reduce_sum(dw * (v if slip == "g_unnormalised" else unit), 1)
            return scale * inner / length, dg

        return g[:, None] * unit, weight_pullback

    return weight
