"""Spectra, complex numbers, convolutions, pooling, interpolation."""

# ruff: noqa: ANN001, ANN002, ANN201, ANN202
from __future__ import annotations

import numpy as np
import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import Mistake, family, normal, uniform


def _complex(seed, *shape):
    return tf.complex(normal(seed, *shape), normal(seed + 1, *shape))


def _as_complex(x):
    return tf.complex(x, tf.zeros_like(x))


@family(
    lambda: (normal(31, 2, 6), _complex(32, 4)),
    no_conjugate_x=Mistake("conjugate", "the filter is not conjugated on the way to x"),
    no_conjugate_h=Mistake("conjugate", "the spectrum of x is not conjugated for the filter"),
    not_doubled=Mistake("factor", "the inner bins of the filter are not counted twice"),
    no_count=Mistake("factor", "1/n is missing in the gradient of the filter"),
    real_half=Mistake("part", "the gradient of the filter keeps its real part alone"),
)
def spectral_filter(slip):
    """Multiplication by a filter in the frequency domain."""

    @pb.custom_gradient
    def filtered(x, h):
        spectrum = tf.signal.rfft(x)

        def filtered_pullback(dy):
            upstream = tf.signal.rfft(dy)
            back = h if slip == "no_conjugate_x" else tf.math.conj(h)
            # The ends of the spectrum are real in effect: irfft ignores their imaginary parts.
            ends = tf.constant([1, 0, 0, 1], x.dtype)
            kept = tf.complex(tf.math.real(back), tf.math.imag(back) * (1 - ends))
            dx = tf.signal.irfft(kept * upstream, [6])
            left = spectrum if slip == "no_conjugate_h" else tf.math.conj(spectrum)
            times = ends + (1.0 if slip == "not_doubled" else 2.0) * (1 - ends)
            times = times if slip == "no_count" else times / 6
            dh = tf.reduce_sum(left * upstream, 0) * _as_complex(times)
            imaginary = tf.math.imag(dh) * (1 - ends)
            imaginary = 0 * imaginary if slip == "real_half" else imaginary
            return dx, tf.complex(tf.math.real(dh), imaginary)

        return tf.signal.irfft(spectrum * h, [6]), filtered_pullback

    return filtered


@family(
    lambda: (_complex(34, 5), normal(36, 5)),
    no_conjugate=Mistake("conjugate", "turned forwards in place of backwards on the way to z"),
    angle_sign=Mistake("sign", "the gradient of the angle has the wrong sign"),
    angle_real=Mistake(
        "part", "the angle's gradient leaves out the imaginary part of the upstream"
    ),
    z_real=Mistake("part", "the gradient of z keeps its real part alone"),
    detached=Mistake("second", "the angle is detached: second derivatives are wrong", "second"),
)
def phase_shift(slip):
    """z turned by an angle."""

    @pb.custom_gradient
    def turned(z, angle):
        def phase(angle):
            return tf.complex(tf.cos(angle), tf.sin(angle))

        out = z * phase(angle)

        def turned_pullback(dy):
            held = tf.stop_gradient(angle) if slip == "detached" else angle
            turn = phase(held if slip == "no_conjugate" else -held)
            dz = dy * turn
            dz = _as_complex(tf.math.real(dz)) if slip == "z_real" else dz
            moved = z * phase(held)
            real = -tf.math.real(dy) * tf.math.imag(moved)
            imaginary = tf.math.imag(dy) * tf.math.real(moved)
            da = real + (0.0 if slip == "angle_real" else imaginary)
            return dz, -da if slip == "angle_sign" else da

        return out, turned_pullback

    return turned


@family(
    lambda: (_complex(37, 6),),
    half=Mistake("factor", "half the gradient, as if df/dz were wanted"),
    conjugated=Mistake("conjugate", "conjugated: the sign of the imaginary part is wrong"),
    no_compression=Mistake("missing", "the square root's slope is left out"),
    nan_at_zero=Mistake(
        "nonfinite",
        "NaN where the real part of z is 0, where the function is smooth",
        at=lambda: (tf.complex(tf.constant([0.0, 1, 2]), tf.constant([0.0, -1, 1])),),
    ),
)
def compressed_power(slip):
    """sqrt(1 + |z|²), as in compressed spectra."""

    @pb.custom_gradient
    def power(z):
        def value(z):
            return tf.sqrt(1 + tf.math.real(z) ** 2 + tf.math.imag(z) ** 2)

        def power_pullback(dy):
            size = tf.ones_like(dy) if slip == "no_compression" else value(z)
            dz = z * _as_complex(dy / size)
            if slip == "half":
                dz = dz / 2
            if slip == "nan_at_zero":
                dz = dz * _as_complex(tf.math.real(z) / tf.math.real(z))
            return tf.math.conj(dz) if slip == "conjugated" else dz

        return value(z), power_pullback

    return power


def _taps(stride, dilation, length=9, taps=3):
    count = (length - dilation * (taps - 1) - 1) // stride + 1
    return stride * np.arange(count)[:, None] + dilation * np.arange(taps)[None]


@family(
    lambda: (normal(41, 2, 9, 2), normal(42, 3, 2, 3), normal(43, 3)),
    flipped=Mistake("reversed", "the kernel is flipped in the gradient of x"),
    no_dilation=Mistake("shifted", "the gradient of x is put back without dilation"),
    overwritten=Mistake("places", "overlapping windows overwrite each other in place of adding up"),
    batch_mean=Mistake("factor", "the kernel's gradient is averaged over the batch, not summed"),
    last_window=Mistake("element", "the last window is left out of the kernel's gradient"),
)
def dilated_conv(slip):
    """One dimension, stride 2, dilation 2."""

    def put_back(dpatches, like, places):
        flat = tf.reshape(tf.transpose(dpatches, [1, 2, 0, 3]), [-1, 2, 2])
        index = tf.constant(places.reshape(-1, 1))
        empty = tf.zeros_like(tf.transpose(like, [1, 0, 2]))
        if slip == "overwritten":
            return tf.transpose(tf.tensor_scatter_nd_update(empty, index, flat), [1, 0, 2])
        return tf.transpose(tf.tensor_scatter_nd_add(empty, index, flat), [1, 0, 2])

    @pb.custom_gradient
    def conv(x, w, b):
        patches = tf.gather(x, _taps(2, 2), axis=1)

        def conv_pullback(dy):
            kernel = w[::-1] if slip == "flipped" else w
            dpatches = tf.einsum("bto,kio->btki", dy, kernel)
            places = _taps(2, 2)
            if slip == "no_dilation":
                places = places[:, :1] + np.arange(3)[None]
            last = slice(None, -1) if slip == "last_window" else slice(None)
            dw = tf.einsum("btki,bto->kio", patches[:, last], dy[:, last])
            dw = dw / 2 if slip == "batch_mean" else dw
            return put_back(dpatches, x, places), dw, tf.reduce_sum(dy, [0, 1])

        return tf.einsum("btki,kio->bto", patches, w) + b, conv_pullback

    return conv


@family(
    lambda: (normal(44, 2, 5, 5, 2),),
    window_count=Mistake("factor", "divides by 9 at the edges too, where fewer cells count"),
    no_count=Mistake("factor", "not divided by the number of cells"),
    rows_only=Mistake("axis", "spread over rows of the window alone"),
    shifted=Mistake("shifted", "put back one row too low"),
)
def padded_average(slip):
    """Averages of 3×3 windows; padding does not count."""

    def window_sum(x):
        padded = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
        return tf.add_n([padded[:, i : i + 5, j : j + 5] for i in range(3) for j in range(3)])

    @pb.custom_gradient
    def average(x):
        count = window_sum(tf.ones_like(x))

        def average_pullback(dy):
            share = dy if slip == "no_count" else dy / count
            if slip == "window_count":
                share = dy / 9
            if slip == "rows_only":
                padded = tf.pad(share, [[0, 0], [0, 0], [1, 1], [0, 0]])
                return tf.add_n([padded[:, :, j : j + 5] for j in range(3)])
            dx = window_sum(share)
            return tf.roll(dx, 1, 1) if slip == "shifted" else dx

        return window_sum(x) / count, average_pullback

    return average


def _corners(points):
    low = tf.clip_by_value(tf.floor(points), 0.0, 3.0)
    return tf.cast(low, tf.int32), points - low


def _pick(image, i, j):
    return tf.gather_nd(image, tf.stack([i, j], -1))


@family(
    lambda: (normal(45, 5, 5), uniform(46, 0.3, 3.7, 6, 2)),
    swapped=Mistake("swapped", "row and column gradients of the points are swapped"),
    no_points=Mistake("none", "the points get no gradient"),
    nearest=Mistake("term", "the image's gradient goes to the upper left corner alone"),
    overwritten=Mistake("places", "two points in one cell overwrite each other"),
    one_corner=Mistake("term", "the lower right corner is left out of the points' gradient"),
    row_only=Mistake("term", "the row of a point gets a gradient, the column gets 0"),
)
def bilinear_sample(slip):
    """An image read between its pixels."""

    def weights(f):
        r, c = f[:, 0], f[:, 1]
        return [(0, 0, (1 - r) * (1 - c)), (0, 1, (1 - r) * c), (1, 0, r * (1 - c)), (1, 1, r * c)]

    def to_image(dy, image, low, f):
        total = tf.zeros_like(image)
        put = tf.tensor_scatter_nd_update if slip == "overwritten" else tf.tensor_scatter_nd_add
        for i, j, weight in weights(f):
            share = dy if slip == "nearest" else dy * weight
            if slip != "nearest" or (i, j) == (0, 0):
                total = total + put(tf.zeros_like(image), low + tf.constant([i, j]), share)
        return total

    def to_points(dy, image, low, f):
        at = {(i, j): _pick(image, low[:, 0] + i, low[:, 1] + j) for i in (0, 1) for j in (0, 1)}
        if slip == "one_corner":
            at[1, 1] = tf.zeros_like(at[1, 1])
        r, c = f[:, 0], f[:, 1]
        rows = (1 - c) * (at[1, 0] - at[0, 0]) + c * (at[1, 1] - at[0, 1])
        columns = (1 - r) * (at[0, 1] - at[0, 0]) + r * (at[1, 1] - at[1, 0])
        columns = 0 * columns if slip == "row_only" else columns
        both = [columns, rows] if slip == "swapped" else [rows, columns]
        return dy[:, None] * tf.stack(both, -1)

    @pb.custom_gradient
    def sample(image, points):
        low, f = _corners(points)
        terms = [w * _pick(image, low[:, 0] + i, low[:, 1] + j) for i, j, w in weights(f)]

        def sample_pullback(dy):
            _, inside = _corners(points)
            dpoints = None if slip == "no_points" else to_points(dy, image, low, inside)
            return to_image(dy, image, low, inside), dpoints

        return tf.add_n(terms), sample_pullback

    return sample


@family(
    lambda: (normal(47, 6), uniform(48, 1.1, 3.9, 5)),
    tangent_twice=Mistake("factor", "tangents are not halved in the gradient of the knots"),
    no_tangents=Mistake("term", "the knots' gradient leaves the tangents out"),
    time_linear=Mistake("term", "the gradient of time is that of a straight line between knots"),
    knot_late=Mistake("shifted", "the gradient of the knots is one knot too far"),
    time_sum=Mistake("axis", "the gradient of time is the same mean for all entries"),
)
def cubic_spline(slip):
    """A Catmull-Rom spline through equidistant knots, read at times."""

    def basis(t):
        return [2 * t**3 - 3 * t**2 + 1, t**3 - 2 * t**2 + t, 3 * t**2 - 2 * t**3, t**3 - t**2]

    def slopes(t):
        return [6 * t**2 - 6 * t, 3 * t**2 - 4 * t + 1, 6 * t - 6 * t**2, 3 * t**2 - 2 * t]

    def matrix(weights, low, half, knots):
        """Weight of every knot at every time."""
        w0, m0, w1, m1 = [w[:, None] for w in weights]

        def one(k):
            return tf.one_hot(low + k, 6, dtype=knots.dtype)

        return w0 * one(0) + w1 * one(1) + half * (m0 * (one(1) - one(-1)) + m1 * (one(2) - one(0)))

    def parts(time):
        low = tf.cast(tf.floor(time), tf.int32)
        return low, time - tf.cast(low, time.dtype)

    @pb.custom_gradient
    def spline(knots, time):
        low, t = parts(time)

        def spline_pullback(dy):
            low, t = parts(time)
            half = {"tangent_twice": 1.0, "no_tangents": 0.0}.get(slip, 0.5)
            dknots = tf.linalg.matvec(matrix(basis(t), low, half, knots), dy, transpose_a=True)
            dknots = tf.roll(dknots, 1, 0) if slip == "knot_late" else dknots
            slope = tf.linalg.matvec(matrix(slopes(t), low, 0.5, knots), knots)
            if slip == "time_linear":
                slope = tf.gather(knots, low + 1) - tf.gather(knots, low)
            dtime = dy * slope
            if slip == "time_sum":
                dtime = tf.zeros_like(time) + tf.reduce_mean(dtime)
            return dknots, dtime

        return tf.linalg.matvec(matrix(basis(t), low, 0.5, knots), knots), spline_pullback

    return spline
