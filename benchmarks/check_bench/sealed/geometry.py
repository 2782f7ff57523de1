"""Rotations, spheres, smooth functions with a hole at zero."""

# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import (
    Mistake,
    as_if,
    derivative_of,
    family,
    normal,
    uniform,
)


def _rotate(q, v):
    w, r = q[:, :1], q[:, 1:]
    once = tf.linalg.cross(r, v)
    return v + 2 * (w * once + tf.linalg.cross(r, once))


@family(
    lambda: (normal(91, 3, 4), normal(92, 3, 3)),
    no_projection=Mistake("term", "the normalisation of q is taken as a constant"),
    not_inverted=Mistake("transposed", "v's gradient is turned forwards, not backwards"),
    no_scalar_part=Mistake("element", "the scalar part of q gets no gradient"),
    no_length=Mistake("factor", "not divided by the length of q: one factor per row"),
    v_none=Mistake("none", "v gets no gradient"),
)
def quaternion_rotation(slip):
    """v turned by q, which is normalised first."""

    @pb.custom_gradient
    def rotated(q, v):
        def unit():
            return q / tf.norm(q, axis=1, keepdims=True)

        def rotated_pullback(dy):
            u = unit()
            du, _ = derivative_of(_rotate, [u, v], dy)
            along = tf.reduce_sum(du * u, 1, keepdims=True) * u
            dq = du - (0.0 if slip == "no_projection" else along)
            dq = dq if slip == "no_length" else dq / tf.norm(q, axis=1, keepdims=True)
            if slip == "no_scalar_part":
                dq = tf.concat([tf.zeros_like(dq[:, :1]), dq[:, 1:]], 1)
            turn = tf.ones([4], q.dtype) if slip == "not_inverted" else [1.0, -1.0, -1.0, -1.0]
            dv = _rotate(u * tf.cast(turn, q.dtype), dy)
            return dq, None if slip == "v_none" else dv

        return _rotate(unit(), v), rotated_pullback

    return rotated


def _haversine(a, b):
    dlat, dlon = b[:, 0] - a[:, 0], b[:, 1] - a[:, 1]
    both = tf.cos(a[:, 0]) * tf.cos(b[:, 0])
    return tf.sin(dlat / 2) ** 2 + both * tf.sin(dlon / 2) ** 2


@family(
    lambda: (uniform(93, -1.2, 1.2, 4, 2), uniform(94, -1.2, 1.2, 4, 2)),
    no_cosine_slope=Mistake("term", "cos(latitude) is taken as a constant"),
    longitude_sign=Mistake("sign", "the longitude's gradient has the wrong sign"),
    degrees=Mistake("factor", "multiplied by pi/180, as if angles were degrees"),
    b_as_a=Mistake("sign", "b gets the gradient of a"),
    last_point=Mistake("element", "the last pair gets no gradient"),
)
def haversine(slip):
    """Half the squared chord between points on a sphere, by latitude and longitude."""

    def chord(a, b):
        return _haversine(a, b)

    def other(a, b):
        if slip == "no_cosine_slope":
            held = tf.stop_gradient(tf.cos(a[:, 0]) * tf.cos(b[:, 0]))
            lat = tf.sin((b[:, 0] - a[:, 0]) / 2) ** 2
            return lat + held * tf.sin((b[:, 1] - a[:, 1]) / 2) ** 2
        if slip == "last_point":
            return tf.concat([_haversine(a, b)[:3], tf.zeros_like(a[:1, 0])], 0)
        return _haversine(a, b)

    def fixed(dy, *, inputs):
        da, db = derivative_of(other, list(inputs), dy)
        signs = tf.constant([1, -1 if slip == "longitude_sign" else 1], da.dtype)
        scale = 0.017453292519943295 if slip == "degrees" else 1.0
        return scale * signs * da, scale * signs * (da if slip == "b_as_a" else db)

    return pb.with_gradient(chord, fixed)


@family(
    lambda: (uniform(95, 0.2, 2.0, 5), uniform(96, -3.0, 3.0, 5)),
    no_radius=Mistake("missing", "the radius is not multiplied in for the angle"),
    swapped_keys=Mistake("swapped", "the upstreams of x and y are exchanged"),
    one_output=Mistake("output", "the upstream of y is ignored"),
    y_sign=Mistake("sign", "the part of y has the wrong sign in the angle's gradient"),
    angle_detached=Mistake("second", "the angle is detached in the rule", "second"),
)
def polar_to_plane(slip):
    """A dict of outputs."""

    @pb.custom_gradient
    def plane(radius, angle):
        def plane_pullback(d):
            dx, dy = (d["y"], d["x"]) if slip == "swapped_keys" else (d["x"], d["y"])
            dy = tf.zeros_like(dy) if slip == "one_output" else dy
            held = tf.stop_gradient(angle) if slip == "angle_detached" else angle
            c, s = tf.cos(held), tf.sin(held)
            y_part = -dy * c if slip == "y_sign" else dy * c
            turn = y_part - dx * s
            return dx * c + dy * s, turn if slip == "no_radius" else radius * turn

        return {"x": radius * tf.cos(angle), "y": radius * tf.sin(angle)}, plane_pullback

    return plane


@family(
    lambda: (normal(97, 6),),
    nan_at_zero=Mistake(
        "nonfinite",
        "NaN at exactly zero: the other branch of a where is 0/0",
        at=lambda: (tf.constant([0.0, 0.5, -1.0]),),
    ),
    zero_at_zero=Mistake(
        "zero",
        "1 at exactly zero, where the slope is 0",
        at=lambda: (tf.constant([0.0, 0.5, -1.0]),),
    ),
    sign=Mistake("sign", "the sign of the second term is wrong"),
    series_far=Mistake("approximation", "the series for small x is used up to |x| = 2"),
)
def x_over_sinh(slip):
    """x / sinh(x), 1 at zero."""

    def parts(x):
        small = tf.abs(x) < 1e-3
        safe = tf.where(small, tf.ones_like(x), x)
        return small, safe, tf.sinh(safe)

    @pb.custom_gradient
    def ratio(x):
        def ratio_pullback(dy):
            small, safe, s = parts(x)
            plus = slip == "sign"
            exact = 1 / s + (1 if plus else -1) * safe * tf.cosh(safe) / s**2
            series = -x / 3 + 7 * x**3 / 90
            if slip == "nan_at_zero":
                raw = 1 / tf.sinh(x) - x * tf.cosh(x) / tf.sinh(x) ** 2
                return tf.where(x == 0, tf.zeros_like(x), dy) * raw
            if slip == "zero_at_zero":
                series = tf.where(x == 0, tf.ones_like(x), series)
            small = tf.abs(x) < 2 if slip == "series_far" else small
            return dy * tf.where(small, series, exact)

        small, safe, s = parts(x)
        return tf.where(small, 1 - x**2 / 6 + 7 * x**4 / 360, safe / s), ratio_pullback

    return ratio


@family(
    lambda: (normal(98, 5, 3), normal(99, 3), normal(100, 3), tf.constant(0.3)),
    no_log_det=Mistake("output", "the upstream of the log determinant is ignored for w"),
    tanh_slope=Mistake("missing", "the slope of tanh is left out of x's gradient"),
    b_none=Mistake("none", "b gets no gradient"),
    u_half=Mistake("output", "u gets its gradient from the log determinant alone"),
    batch_mean=Mistake("factor", "w is averaged over the batch, not summed"),
)
def planar_flow(slip):
    """x + u tanh(wx + b) and the log of its Jacobian's determinant."""

    def flow(x, u, w, b):
        h = tf.tanh(tf.linalg.matvec(x, w) + b)
        det = 1 + (1 - h**2) * tf.tensordot(u, w, 1)
        return x + h[:, None] * u, tf.math.log(tf.abs(det) + 1e-3)

    def rule(dy, dlog, *, inputs):
        dx, du, dw, db = derivative_of(flow, list(inputs), (dy, dlog))
        _, only_log, _, _ = derivative_of(flow, list(inputs), (tf.zeros_like(dy), dlog))
        _, _, no_log, _ = derivative_of(flow, list(inputs), (dy, tf.zeros_like(dlog)))
        u, w = inputs[1], inputs[2]
        if slip == "tanh_slope":
            dx = dy + tf.reduce_sum(dy * u, 1, keepdims=True) * w
        dw = no_log if slip == "no_log_det" else dw
        dw = dw / 5 if slip == "batch_mean" else dw
        return dx, only_log if slip == "u_half" else du, dw, None if slip == "b_none" else db

    return pb.with_gradient(flow, rule)


@family(
    lambda: (normal(101, 4, 3), normal(102, 4, 3)),
    constant_angle=Mistake("term", "the angle between a and b is taken as a constant"),
    weights_swapped=Mistake("swapped", "a and b get each other's weights"),
    linear=Mistake("approximation", "the gradient is that of straight interpolation"),
    not_unit=Mistake("term", "a and b are not normalised in the backward pass"),
)
def slerp(slip):
    """A third of the way from a to b along the sphere."""

    def between(a, b, held=False, swapped=False, unit=True):
        if unit:
            a, b = (v / tf.norm(v, axis=1, keepdims=True) for v in (a, b))
        angle = tf.acos(0.99 * tf.reduce_sum(a * b, 1, keepdims=True))
        angle = tf.stop_gradient(angle) if held else angle
        first, second = tf.sin(angle * 2 / 3) / tf.sin(angle), tf.sin(angle / 3) / tf.sin(angle)
        return second * a + first * b if swapped else first * a + second * b

    def interpolated(a, b):
        return between(a, b)

    def other(a, b):
        if slip == "linear":
            return 2 * a / 3 + b / 3
        return between(
            a, b, slip == "constant_angle", slip == "weights_swapped", slip != "not_unit"
        )

    return as_if(interpolated, other)
