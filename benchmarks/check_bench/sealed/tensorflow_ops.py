"""Gradients that TensorFlow 2.21 itself gets wrong, NaN or not at all; `verify` shows each of them."""

# ruff: noqa: ANN001, ANN002, ANN201, ANN202
from __future__ import annotations

from functools import partial

import keras
import tensorflow as tf

from benchmarks.check_bench.sealed.cases import NOT_RIGHT, entry, normal, uniform

nonfinite = partial(entry, "tensorflow", NOT_RIGHT, "nonfinite")
wrong = partial(entry, "tensorflow", NOT_RIGHT, "wrong")
missing = partial(entry, "tensorflow", NOT_RIGHT, "missing")
second = partial(entry, "tensorflow", NOT_RIGHT, "second")


def _complex(seed, *shape):
    return tf.complex(normal(seed, *shape), normal(seed + 50, *shape))


@nonfinite()
def norm_at_zero():
    """NaN at the zero vector."""
    return tf.norm, tf.zeros([3])


@nonfinite()
def euclidean_norm_at_zero():
    """NaN at the zero vector."""
    return tf.math.reduce_euclidean_norm, tf.zeros([3])


@nonfinite()
def deviation_of_equals():
    """NaN where all values are equal."""
    return tf.math.reduce_std, tf.constant([2.0, 2.0, 2.0])


@nonfinite()
def sinc_by_where():
    """NaN at 0 under where."""
    return lambda x: tf.where(x == 0, tf.ones_like(x), tf.sin(x) / x), tf.constant([0.0, 1.0])


@nonfinite()
def angle_of_origin():
    """atan2(0, 0): NaN for both."""
    return tf.atan2, tf.constant([0.0, 1.0]), tf.constant([0.0, 1.0])


@nonfinite()
def zeroth_power_at_zero():
    """x⁰ at 0: 0·x⁻¹ is NaN, the derivative is 0."""
    return lambda x: tf.pow(x, tf.cast([0.0, 2.0], x.dtype)), tf.constant([0.0, 2.0])


@nonfinite()
def squared_arc_cosine():
    """acos(x)² at 1: 0·inf."""
    return lambda x: tf.acos(x) ** 2, tf.constant([1.0, 0.5])


@nonfinite()
def keras_sinc():
    """keras.ops.sinc at 0."""
    return keras.ops.sinc, tf.constant([0.0, 0.5])


@nonfinite()
def phase_of_zero():
    """The angle of 0."""
    return tf.math.angle, tf.complex(tf.constant([0.0, 1.0]), tf.constant([0.0, 1.0]))


@wrong()
def running_product():
    """cumprod with a zero: entries after it get 0, others NaN or 0."""
    return tf.math.cumprod, tf.constant([1.0, 0.0, 3.0, 2.0])


@wrong()
def exclusive_running_product():
    """cumprod, exclusive, with a zero."""
    return lambda x: tf.math.cumprod(x, exclusive=True), tf.constant([2.0, 0.0, 3.0])


@wrong()
def root_by_eigenvectors():
    """V sqrt(L) V' of a multiple of the identity: equal eigenvalues lose their cross terms."""

    def root(a):
        values, vectors = tf.linalg.eigh((a + tf.transpose(a)) / 2)
        return vectors @ tf.linalg.diag(tf.sqrt(values)) @ tf.transpose(vectors)

    return root, 2 * tf.eye(3)


@wrong()
def polar_factor():
    """U V' of the identity: equal singular values lose their cross terms."""

    def factor(a):
        _, u, v = tf.linalg.svd(a)
        return tf.matmul(u, v, transpose_b=True)

    return factor, tf.eye(3)


@wrong()
def cross_entropy_of_weights():
    """Labels that do not sum to 1: softmax is not multiplied by their sum."""
    return tf.nn.softmax_cross_entropy_with_logits, uniform(1, 0.2, 0.8, 2, 3), normal(2, 2, 3)


@wrong()
def keras_cross_entropy_of_weights():
    """The same through Keras."""

    def loss(labels, logits):
        return keras.losses.categorical_crossentropy(labels, logits, from_logits=True)

    return loss, uniform(3, 0.2, 0.8, 2, 3), normal(4, 2, 3)


@wrong()
def modified_bessel_at_zero():
    """bessel_i1 at 0: 1 in place of 1/2."""
    return tf.math.bessel_i1, tf.constant([0.0, 1.0])


@wrong()
def fake_quantisation():
    """Straight through, by design: not the derivative of the steps."""
    return tf.quantization.fake_quant_with_min_max_args, normal(5, 5)


@wrong()
def scatter_with_duplicates():
    """The last write wins, but every update gets the gradient."""
    return (
        lambda x, u: tf.tensor_scatter_nd_update(x, [[0], [0]], u),
        normal(6, 3),
        normal(7, 2),
    )


@wrong()
def complex_euclidean_norm():
    """Not conjugated."""
    return tf.math.reduce_euclidean_norm, _complex(8, 3)


@wrong()
def complex_running_product():
    """Not conjugated."""
    return tf.math.cumprod, _complex(9, 3)


@wrong()
def complex_determinant():
    """Not conjugated."""
    return tf.linalg.det, _complex(10, 3, 3)


@wrong()
def complex_log_determinant():
    """The part of the sign is missing, the other not conjugated."""
    return tf.linalg.slogdet, _complex(11, 3, 3)


@wrong()
def complex_segment_product():
    """Not conjugated."""
    return lambda z: tf.math.unsorted_segment_prod(z, [0, 0, 1], 2), _complex(12, 3)


@wrong()
def complex_xlogy():
    """Not conjugated."""
    return tf.math.xlogy, _complex(13, 3), _complex(14, 3)


@wrong()
def complex_xlog1py():
    """Not conjugated."""
    return tf.math.xlog1py, _complex(15, 3), _complex(16, 3)


@wrong()
def complex_xdivy():
    """Not conjugated."""
    return tf.math.xdivy, _complex(17, 3), _complex(18, 3)


@wrong()
def complex_multiply_no_nan():
    """Not conjugated."""
    return tf.math.multiply_no_nan, _complex(19, 3), _complex(20, 3)


@wrong()
def complex_squared_difference():
    """Not conjugated."""
    return tf.math.squared_difference, _complex(21, 3), _complex(22, 3)


@wrong()
def complex_tridiagonal():
    """The adjoint of the matrix is not conjugated."""
    diagonals = tf.constant([[1.0, 1.0, 1.0, 0.0], [5.0] * 4, [0.0, 1.0, 1.0, 1.0]])
    a = tf.complex(diagonals, 0.3 * diagonals)
    return tf.linalg.tridiagonal_solve, a, _complex(23, 4, 1)


@wrong()
def complex_matrix_root():
    """sqrtm: not conjugated."""
    return tf.linalg.sqrtm, _complex(24, 3, 3)


@missing()
def incomplete_beta():
    """No gradient for a and b."""
    half = tf.constant([0.5, 2.0])
    return tf.math.betainc, half, half + 0.5, tf.constant([0.3, 0.4])


@missing()
def zeta_order():
    """No gradient for the order."""
    return tf.math.zeta, tf.constant([2.5, 3.0]), tf.constant([1.0, 1.5])


@missing()
def start_of_range():
    """No gradient for the start."""
    return lambda a: tf.range(a, 5.0, 1.0), tf.constant(0.2)


@missing()
def hue_to_colour():
    """hsv_to_rgb has no gradient."""
    return tf.image.hsv_to_rgb, uniform(25, 0.2, 0.8, 1, 4, 3)


@missing()
def adjusted_hue():
    """AdjustHue has no gradient."""
    return lambda x: tf.image.adjust_hue(x, 0.1), uniform(26, 0.2, 0.8, 1, 4, 3)


@missing()
def adjusted_saturation():
    """AdjustSaturation has no gradient."""
    return lambda x: tf.image.adjust_saturation(x, 0.5), uniform(27, 0.2, 0.8, 1, 4, 3)


@missing()
def adjusted_contrast():
    """AdjustContrastv2 has no gradient."""
    return lambda x: tf.image.adjust_contrast(x, 0.5), uniform(28, 0.2, 0.8, 1, 4, 3)


@missing()
def truncated_remainder():
    """TruncateMod has no gradient."""
    return tf.truncatemod, tf.constant([2.3, -1.2]), tf.constant([0.7, 0.9])


@missing()
def matrix_logarithm():
    """MatrixLogarithm has no gradient."""
    return tf.linalg.logm, tf.cast([[2.0, 0.3], [0.3, 1.0]], tf.complex64)


@missing()
def triangular_factors():
    """Lu has no gradient."""
    return lambda a: tf.linalg.lu(a)[0], normal(29, 3, 3)


@missing()
def spectrum_of_volume():
    """RFFT3D has no gradient."""
    return tf.signal.rfft3d, normal(30, 2, 2, 4)


@missing()
def least_squares():
    """lstsq with fast=False raises when differentiated."""
    return lambda a, b: tf.linalg.lstsq(a, b, fast=False), normal(31, 3, 2), normal(32, 3, 1)


@missing()
def singular_determinant():
    """det of a singular matrix: the gradient asks for the inverse and raises."""
    return tf.linalg.det, tf.constant([[1.0, 2.0], [2.0, 4.0]])


@missing()
def largest_of_sparse():
    """SparseReduceMax has no gradient."""

    def largest(v):
        return tf.sparse.reduce_max(tf.SparseTensor([[0, 0], [0, 2], [1, 1]], v, [2, 3]), 1)

    return largest, normal(33, 3)


@missing()
def larger_of_sparse():
    """The gradient of SparseSparseMaximum raises: it takes the wrong number of arguments."""

    def larger(v):
        a = tf.SparseTensor([[0, 0], [0, 2], [1, 1]], v, [2, 3])
        return tf.sparse.maximum(a, a * 2.0).values

    return larger, normal(34, 3)


@missing()
def cropped_inverse_spectrum():
    """irfft of fewer entries than the spectrum has: the gradient raises."""
    return lambda z: tf.signal.irfft(z, [4]), _complex(35, 5)


@second()
def moments():
    """The second derivative of tf.nn.moments leaves a term out."""
    return lambda x: tf.nn.moments(x, [0]), normal(36, 5, 2)


@second()
def incomplete_gamma():
    """IgammaGradA has no gradient."""
    return tf.math.igamma, tf.constant([0.5, 2.0]), tf.constant([1.0, 1.5])


@second()
def morphological_dilation():
    """Dilation2DBackpropInput has no gradient."""

    def dilated(x, w):
        return tf.nn.dilation2d(x, w, [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1])

    return dilated, normal(37, 1, 3, 3, 1), normal(38, 2, 2, 1)


@second()
def fractional_pooling():
    """FractionalMaxPoolGrad has no gradient."""

    def pooled(x):
        return tf.nn.fractional_max_pool(x, [1, 1.4, 1.4, 1], True, True, seed=3)[0]

    return pooled, normal(39, 1, 6, 6, 1)


@second()
def pooling_with_places():
    """MaxPoolGradWithArgmax has no gradient."""
    return lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME")[0], normal(40, 1, 4, 4, 1)


@second()
def bessel_at_zero():
    """bessel_j1: the second derivative is NaN at 0."""
    return tf.math.special.bessel_j1, tf.constant([0.0, 1.0])


@second()
def dilogarithm_at_one():
    """spence: the second derivative is NaN at 1."""
    return tf.math.special.spence, tf.constant([0.5, 1.0, 2.0])


@second()
def product_with_zero():
    """reduce_prod: the second derivative is wrong at a zero."""
    return tf.reduce_prod, tf.constant([1.0, 0.0, 3.0, 2.0])


@second()
def first_power_at_zero():
    """x¹ by tf.pow: the second derivative is NaN at 0."""
    return lambda x: tf.pow(x, tf.cast(1.0, x.dtype)), tf.constant([0.0, 2.0])


@second()
def segment_product_with_zero():
    """unsorted_segment_prod: the second derivative is NaN at zeros."""
    return lambda x: tf.math.unsorted_segment_prod(x, [0, 0, 1], 2), tf.constant([0.0, 2.0, 0.0])


@second()
def sparse_softmax():
    """The gradient of SparseSoftmax cannot be differentiated."""

    def soft(v):
        return tf.sparse.softmax(tf.SparseTensor([[0, 0], [0, 2], [1, 1]], v, [2, 3])).values

    return soft, normal(41, 3)


@second()
def cube_of_distance():
    """sqrt(x² + y²)³ at the origin: the second derivative is NaN, it should be 0."""
    return (
        lambda x, y: tf.sqrt(x * x + y * y) ** 3,
        tf.constant([0.0, 1.0]),
        tf.constant([0.0, 1.0]),
    )
