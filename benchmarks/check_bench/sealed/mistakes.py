"""A hundred wrong custom gradients as people write them, one mistake each."""

# ruff: noqa: RUF059, ANN001, ANN002, ANN201, ANN202, E731, F841, RET504
import math

import numpy as np
import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import ITEMS, Item

_rng = np.random.RandomState(20261116)


def n(*shape):
    return tf.constant(_rng.standard_normal(shape), tf.float32)


def n64(*shape):
    return tf.constant(_rng.standard_normal(shape), tf.float64)


def u(lo, hi, *shape):
    return tf.constant(_rng.uniform(lo, hi, shape), tf.float32)


def u64(lo, hi, *shape):
    return tf.constant(_rng.uniform(lo, hi, shape), tf.float64)


def i(*values):
    return tf.constant(values, tf.int32)


def case(mistake, *args):
    """Register a function with its arguments."""

    def register(fn):
        ITEMS.append(
            Item(fn.__name__, "mistakes", lambda: (fn, args), frozenset({"wrong"}), what=mistake)
        )
        return fn

    return register


# ---------------------------------------------------------------- losses


@case(
    "The loss is a mean, but the gradient lacks the division by the number of elements.",
    n(4, 3),
    n(4, 3),
)
@tf.custom_gradient
def mse(pred, target):
    diff = pred - target

    def grad(dy):
        g = 2.0 * diff * dy
        return g, -g

    return tf.reduce_mean(diff * diff), grad


@case("In the linear part the gradient is sign(d) and lacks the factor delta.", 3 * n(8), n(8))
@tf.custom_gradient
def huber(pred, target):
    delta = 1.5
    d = pred - target
    small = tf.abs(d) <= delta
    loss = tf.where(small, 0.5 * d * d, delta * (tf.abs(d) - 0.5 * delta))

    def grad(dy):
        g = dy * tf.where(small, d, tf.sign(d))
        return g, -g

    return loss, grad


@case("The gradient for the target has the sign of that for the prediction.", n(5), n(5))
@tf.custom_gradient
def log_cosh(pred, target):
    d = pred - target
    y = d + tf.math.softplus(-2.0 * d) - math.log(2.0)

    def grad(dy):
        g = dy * tf.tanh(d)
        return g, g

    return y, grad


@case(
    "The upstream is ignored: the rule returns softmax minus labels as it is.",
    n(4, 5),
    tf.one_hot([1, 0, 4, 2], 5),
)
@tf.custom_gradient
def softmax_xent(logits, labels):
    logp = tf.nn.log_softmax(logits)
    loss = -tf.reduce_sum(labels * logp, axis=-1)

    def grad(dy):
        p = tf.exp(logp)
        return (p - labels), -dy[:, None] * logp

    return loss, grad


@case(
    "The modulating factor (1-p)^2 is treated as a constant: its own derivative is missing.",
    n64(6),
)
@pb.custom_gradient
def focal(logits):
    p = tf.sigmoid(logits)
    loss = -((1 - p) ** 2) * tf.math.log_sigmoid(logits)

    def backward(dy):
        return dy * (-((1 - p) ** 3))

    return loss, backward


@case(
    "The positive weight of the loss is missing in the gradient.",
    n(7),
    tf.constant([1.0, 0, 0, 1, 1, 0, 1]),
)
@pb.custom_gradient
def weighted_bce(logits, labels):
    w = 3.0
    loss = w * labels * tf.math.softplus(-logits) + (1 - labels) * tf.math.softplus(logits)

    def backward(dy):
        s = tf.sigmoid(logits)
        dx = s - labels
        dl = w * tf.math.softplus(-logits) - tf.math.softplus(logits)
        return dy * dx, dy * dl

    return loss, backward


@case(
    "The mask of the hinge is margin < 0 where it should be margin < 1.",
    tf.constant([0.4, -0.8, 1.7, 0.2, -2.0, 0.6]),
    tf.constant([1.0, 1.0, 1.0, -1.0, -1.0, 1.0]),
)
@tf.custom_gradient
def hinge(score, label):
    margin = score * label

    def grad(dy):
        active = tf.cast(margin < 0.0, score.dtype)
        return -dy * active * label, -dy * active * score

    return tf.nn.relu(1.0 - margin), grad


@case(
    "In the term for different pairs the sign is wrong: (margin - d) should come with a minus.",
    u(0.1, 2.0, 6),
    tf.constant([1.0, 0, 1, 0, 0, 1]),
)
@pb.custom_gradient
def contrastive(dist, same):
    gap = tf.nn.relu(1.5 - dist)
    loss = same * dist**2 + (1 - same) * gap**2

    def backward(dy):
        return dy * (2 * same * dist + 2 * (1 - same) * gap), dy * (dist**2 - gap**2)

    return loss, backward


@case(
    "The anchor only gets the gradient from the positive; the part from the negative is missing.",
    n(4, 3),
    n(4, 3),
    n(4, 3),
)
@pb.custom_gradient
def triplet(anchor, positive, negative):
    dp = anchor - positive
    dn = anchor - negative
    raw = tf.reduce_sum(dp**2 - dn**2, -1) + 1.0

    def backward(dy):
        m = (dy * tf.cast(raw > 0, dy.dtype))[:, None]
        return 2 * m * dp, -2 * m * dp, 2 * m * dn

    return tf.nn.relu(raw), backward


@case(
    "Quotient rule forgotten: the denominator is treated as a constant.",
    u(0.1, 0.9, 3, 6),
    tf.cast(u(0, 1, 3, 6) > 0.5, tf.float32),
)
@pb.custom_gradient
def dice_loss(p, t):
    inter = tf.reduce_sum(p * t, 1, keepdims=True)
    total = tf.reduce_sum(p + t, 1, keepdims=True) + 1e-3

    def backward(dy):
        dy = dy[:, None]
        dp = -dy * 2 * t / total
        dt = -dy * (2 * p / total - 2 * inter / total**2)
        return dp, dt

    return 1 - 2 * inter[:, 0] / total[:, 0], backward


@case("The forward smooths the labels, the gradient uses the hard ones.", n(3, 4))
@tf.custom_gradient
def smoothed_xent(logits):
    hard = tf.one_hot([2, 0, 3], 4, dtype=logits.dtype)
    soft = 0.9 * hard + 0.1 / 4
    loss = -tf.reduce_sum(soft * tf.nn.log_softmax(logits), -1)

    def grad(dy):
        return dy[:, None] * (tf.nn.softmax(logits) - hard)

    return loss, grad


@case(
    "The eps of the forward's logarithm is missing in the gradient's division.",
    u64(0.01, 1.0, 5),
    u64(0.5, 3.0, 5),
)
@pb.custom_gradient
def poisson_nll(rate, count):
    eps = 1e-2
    loss = rate - count * tf.math.log(rate + eps)

    def backward(dy):
        return dy * (1 - count / rate), -dy * tf.math.log(rate + eps)

    return loss, backward


@case(
    "The norm of a is treated as a constant: the projection term is missing from its gradient.",
    n(3, 4),
    n(3, 4),
)
@pb.custom_gradient
def cosine_similarity(a, b):
    na = tf.norm(a, axis=-1, keepdims=True)
    nb = tf.norm(b, axis=-1, keepdims=True)
    ah, bh = a / na, b / nb
    c = tf.reduce_sum(ah * bh, -1, keepdims=True)

    def backward(dy):
        dy = dy[:, None]
        return dy * bh / na, dy * (ah - c * bh) / nb

    return c[:, 0], backward


# ---------------------------------------------------------------- activations


@case("The derivative of the cubic term lacks its factor 3.", n64(8))
@pb.custom_gradient
def gelu_tanh(x):
    c = math.sqrt(2 / math.pi)
    t = tf.tanh(c * (x + 0.044715 * x**3))

    def backward(dy):
        inner = c * (1 + 0.044715 * x**2)
        return dy * (0.5 * (1 + t) + 0.5 * x * (1 - t**2) * inner)

    return 0.5 * x * (1 + t), backward


@case("1 - x^2 is used where it should be 1 - y^2: input in place of output.", n(5))
@tf.custom_gradient
def my_tanh(x):
    y = tf.tanh(x)
    return y, lambda dy: dy * (1.0 - x * x)


@case("The mask is taken from the sign of the upstream where it should be that of the input.", n(7))
@pb.custom_gradient
def my_leaky_relu(x):
    def backward(dy):
        return tf.where(dy > 0, dy, 0.2 * dy)

    return tf.where(x > 0, x, 0.2 * x), backward


@case(
    "Saturation is not respected: the gradient is 0.2 also where the output is clipped.",
    tf.constant([-4.0, -1.0, 0.3, 2.0, 3.5]),
)
@tf.custom_gradient
def hard_sigmoid(x):
    y = tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0)

    def grad(dy):
        return 0.2 * dy

    return y, grad


@case("The gradients of the two halves are concatenated in the wrong order.", n(3, 6))
@pb.custom_gradient
def glu(x):
    a, b = tf.split(x, 2, axis=-1)
    s = tf.sigmoid(b)

    def backward(dy):
        da = dy * s
        db = dy * a * s * (1 - s)
        return tf.concat([db, da], -1)

    return a * s, backward


@case(
    "The sum in the gradient of the softmax runs over the batch (axis 0) in place of the last axis.",
    n(4, 4),
)
@tf.custom_gradient
def my_softmax(x):
    p = tf.nn.softmax(x, axis=-1)

    def grad(dy):
        return p * (dy - tf.reduce_sum(dy * p, axis=0, keepdims=True))

    return p, grad


@case("Mean of the upstream where the sum is needed.", n(3, 5))
@pb.custom_gradient
def my_log_softmax(x):
    y = x - tf.reduce_logsumexp(x, -1, keepdims=True)

    def backward(dy):
        return dy - tf.exp(y) * tf.reduce_mean(dy, -1, keepdims=True)

    return y, backward


@case(
    "The gradient for alpha is not summed over the batch, to which it is broadcast.",
    n(4, 3),
    u(0.1, 0.4, 3),
)
@tf.custom_gradient
def prelu(x, alpha):
    pos = x > 0

    def grad(dy):
        dx = tf.where(pos, dy, alpha * dy)
        da = tf.where(pos, tf.zeros_like(x), x * dy)
        return dx, da

    return tf.where(pos, x, alpha * x), grad


# ---------------------------------------------------------------- normalisations


@case("Mean and variance are treated as constants: only dy/std is returned.", n(3, 5))
@tf.custom_gradient
def layer_norm(x):
    mean, var = tf.nn.moments(x, [-1], keepdims=True)
    inv = tf.math.rsqrt(var + 1e-5)
    xhat = (x - mean) * inv

    def grad(dy):
        return inv * dy

    return xhat, grad


@case(
    "The gradient for gamma is summed over the features (last axis) in place of the batch.",
    n(4, 4),
    u(0.5, 1.5, 4),
    n(4),
)
@pb.custom_gradient
def layer_norm_affine(x, gamma, beta):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    std = tf.sqrt(tf.reduce_mean((x - mean) ** 2, -1, keepdims=True) + 1e-5)
    xhat = (x - mean) / std

    def backward(dy):
        g = dy * gamma
        dx = (
            g
            - tf.reduce_mean(g, -1, keepdims=True)
            - xhat * tf.reduce_mean(g * xhat, -1, keepdims=True)
        ) / std
        return dx, tf.reduce_sum(dy * xhat, -1), tf.reduce_sum(dy, 0)

    return xhat * gamma + beta, backward


@case(
    "The term through the variance is missing (the one through the mean is there).",
    n(6, 3),
    u(0.5, 2.0, 3),
)
@tf.custom_gradient
def batch_norm(x, gamma):
    mean = tf.reduce_mean(x, axis=0)
    var = tf.reduce_mean(tf.square(x - mean), axis=0)
    inv = 1.0 / tf.sqrt(var + 1e-3)
    xhat = (x - mean) * inv

    def grad(dy):
        dgamma = tf.reduce_sum(dy * xhat, axis=0)
        dxhat = dy * gamma
        dx = inv * (dxhat - tf.reduce_mean(dxhat, axis=0))
        return dx, dgamma

    return gamma * xhat, grad


@case("The correction term sums over the features where it should take the mean.", n64(3, 4))
@tf.custom_gradient
def rms_norm(x):
    inv = tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6)
    y = x * inv

    def grad(dy):
        return inv * (dy - y * tf.reduce_sum(dy * y, -1, keepdims=True))

    return y, grad


@case("The projection term is divided by the norm where it should be its cube.", n(3, 4))
@pb.custom_gradient
def unit_vector(x):
    norm = tf.norm(x, axis=-1, keepdims=True)

    def backward(dy):
        return dy / norm - x * tf.reduce_sum(x * dy, -1, keepdims=True) / norm

    return x / norm, backward


@case("The two mean terms are taken over all channels in place of each group.", n(2, 6))
@tf.custom_gradient
def group_norm(x):
    b, c, groups = x.shape[0], x.shape[1], 2
    g = tf.reshape(x, [b, groups, c // groups])
    mean, var = tf.nn.moments(g, [2], keepdims=True)
    inv = tf.math.rsqrt(var + 1e-5)
    xhat = (g - mean) * inv

    def grad(dy):
        dy = tf.reshape(dy, [b, groups, c // groups])
        ax = [1, 2]
        m1 = tf.reduce_mean(dy, ax, keepdims=True)
        m2 = tf.reduce_mean(dy * xhat, ax, keepdims=True)
        return tf.reshape(inv * (dy - m1 - xhat * m2), [b, c])

    return tf.reshape(xhat, [b, c]), grad


@case(
    "The gradient for g uses v where it should use v divided by its norm.", n(4, 3), u(0.5, 2.0, 3)
)
@pb.custom_gradient
def weight_norm(v, g):
    norm = tf.norm(v, axis=0)
    vh = v / norm

    def backward(dy):
        dg = tf.reduce_sum(dy * v, 0)
        dv = g / norm * (dy - vh * tf.reduce_sum(dy * vh, 0))
        return dv, dg

    return g * vh, backward


@case("The forward divides by N-1 in the variance, the gradient by N.", n64(6))
@tf.custom_gradient
def zscore(x):
    m = tf.cast(tf.size(x), x.dtype)
    c = x - tf.reduce_mean(x)
    std = tf.sqrt(tf.reduce_sum(c * c) / (m - 1.0))
    z = c / std

    def grad(dy):
        return (dy - tf.reduce_mean(dy) - z * tf.reduce_sum(dy * z) / m) / std

    return z, grad


@case("The spectral norm is treated as a constant.", n(3, 4))
@pb.custom_gradient
def spectral_normalize(w):
    s, a, b = tf.linalg.svd(w)
    sigma = s[0]
    uv = tf.tensordot(a[:, 0], b[:, 0], 0)

    def backward(dy):
        return dy / sigma

    return w / sigma, backward


# ---------------------------------------------------------------- attention


@case("The gradient for k lacks the scale 1/sqrt(d).", n(2, 3, 4), n(2, 3, 4), n(2, 3, 4))
@tf.custom_gradient
def attention(q, k, v):
    scale = 1.0 / math.sqrt(4)
    p = tf.nn.softmax(scale * tf.matmul(q, k, transpose_b=True))

    def grad(dy):
        dv = tf.matmul(p, dy, transpose_a=True)
        dp = tf.matmul(dy, v, transpose_b=True)
        ds = p * (dp - tf.reduce_sum(dp * p, -1, keepdims=True))
        dq = scale * tf.matmul(ds, k)
        dk = tf.matmul(ds, q, transpose_a=True)
        return dq, dk, dv

    return tf.matmul(p, v), grad


@case(
    "The derivative of the softmax is taken as p * dp: the sum over the row is not subtracted.",
    n(4, 2),
    n(4, 2),
    n(4, 3),
)
@pb.custom_gradient
def causal_attention(q, k, v):
    scores = tf.matmul(q, k, transpose_b=True)
    mask = tf.linalg.band_part(tf.ones_like(scores), -1, 0)
    p = tf.nn.softmax(tf.where(mask > 0, scores, -1e9))

    def backward(dy):
        dp = tf.matmul(dy, v, transpose_b=True)
        ds = p * dp
        return ds @ k, tf.transpose(ds) @ q, tf.transpose(p) @ dy

    return p @ v, backward


@case(
    "The gradient is rotated in the same direction as the input; it should be rotated back.",
    n(3, 4),
)
@tf.custom_gradient
def rotary(x):
    t, d = x.shape[0], x.shape[1] // 2
    pos = np.arange(t)[:, None] + 1.0
    theta = pos / 10.0 ** (np.arange(d) / d)
    cos, sin = tf.constant(np.cos(theta), x.dtype), tf.constant(np.sin(theta), x.dtype)

    def rotate(z, sin):
        a, b = z[:, :d], z[:, d:]
        return tf.concat([a * cos - b * sin, a * sin + b * cos], axis=1)

    def grad(dy):
        return rotate(dy, sin)

    return rotate(x, sin), grad


@case(
    "The gradient for the bias is averaged over the batch where it should be summed.",
    n(3, 2, 2),
    n(2, 2),
)
@pb.custom_gradient
def biased_scores(scores, bias):
    p = tf.nn.softmax(scores + bias)

    def backward(dy):
        ds = p * (dy - tf.reduce_sum(dy * p, -1, keepdims=True))
        return ds, tf.reduce_mean(ds, 0)

    return p, backward


@case(
    "The normaliser in the denominator is treated as a constant in the gradient for k.",
    n(4, 3),
    n(4, 3),
    n(4, 2),
)
@tf.custom_gradient
def linear_attention(q, k, v):
    fq, fk = tf.exp(q), tf.exp(k)
    kv = tf.matmul(fk, v, transpose_a=True)
    z = tf.reduce_sum(fk, 0)
    den = tf.linalg.matvec(fq, z)[:, None]
    y = tf.matmul(fq, kv) / den

    def grad(dy):
        dnum = dy / den
        dden = -tf.reduce_sum(dy * y, 1, keepdims=True) / den
        dfq = tf.matmul(dnum, kv, transpose_b=True) + dden * z[None]
        dkv = tf.matmul(fq, dnum, transpose_a=True)
        dz = tf.reduce_sum(dden * fq, 0)
        dfk = tf.matmul(v, dkv, transpose_b=True)
        dv = tf.matmul(fk, dkv)
        return dfq * fq, dfk * fk, dv

    return y, grad


@case("The gradient for v uses the values before the tanh.", n(3, 2), n(4, 2), n(2))
@pb.custom_gradient
def additive_scores(q, k, v):
    pre = q[:, None] + k[None]
    h = tf.tanh(pre)

    def backward(dy):
        dpre = dy[..., None] * v * (1 - h**2)
        dv = tf.einsum("ijd,ij->d", pre, dy)
        return tf.reduce_sum(dpre, 1), tf.reduce_sum(dpre, 0), dv

    return tf.einsum("ijd,d->ij", h, v), backward


@case(
    "The heads are merged with a bare reshape: the transpose is missing in the gradient.",
    n(2, 3, 4),
)
@tf.custom_gradient
def split_heads(x):
    b, t, d = x.shape
    y = tf.transpose(tf.reshape(x, [b, t, 2, d // 2]), [0, 2, 1, 3])

    def grad(dy):
        return tf.reshape(dy, [b, t, d])

    return y, grad


# ---------------------------------------------------------------- linear algebra


@case("The gradient for b is dy^T a in place of a^T dy: transposed.", n(3, 3), n(3, 3))
@tf.custom_gradient
def my_matmul(a, b):
    def grad(dy):
        return tf.matmul(dy, b, transpose_b=True), tf.matmul(dy, a, transpose_a=True)

    return tf.matmul(a, b), grad


@case("The gradients for x and y are returned in the wrong order.", n(3), n(3, 3), n(3))
@pb.custom_gradient
def bilinear(x, a, y):
    ay = tf.linalg.matvec(a, y)
    xa = tf.linalg.matvec(a, x, transpose_a=True)

    def backward(dz):
        da = dz * tf.tensordot(x, y, 0)
        return dz * xa, da, dz * ay

    return tf.tensordot(x, ay, 1), backward


@case("The minus sign is missing.", n64(3, 3) + 2 * tf.eye(3, dtype=tf.float64))
@tf.custom_gradient
def my_inverse(a):
    y = tf.linalg.inv(a)

    def grad(dy):
        yt = tf.transpose(y)
        return tf.matmul(yt, tf.matmul(dy, yt))

    return y, grad


@case(
    "The gradient is the inverse where it should be the transposed inverse.",
    n64(3, 3) + 3 * tf.eye(3, dtype=tf.float64),
)
@tf.custom_gradient
def log_abs_det(a):
    y = tf.math.log(tf.abs(tf.linalg.det(a)))

    def grad(dy):
        inv = tf.linalg.inv(a)
        return dy * inv

    return y, grad


@case(
    "The gradient for b solves with A where it should solve with A^T.",
    n64(3, 3) + 3 * tf.eye(3, dtype=tf.float64),
    n64(3, 2),
)
@pb.custom_gradient
def solve(a, b):
    x = tf.linalg.solve(a, b)

    def backward(dx):
        w = tf.linalg.solve(a, dx, adjoint=True)
        da = -tf.matmul(w, x, transpose_b=True)
        return da, tf.linalg.solve(a, dx)

    return x, backward


@case("2Ax is only right for symmetric A; it should be (A + A^T)x.", n(4), n(4, 4))
@tf.custom_gradient
def quadratic_form(x, a):
    def grad(dy):
        dx = 2.0 * tf.linalg.matvec(a, x)
        return dy * dx, dy * x[:, None] * x[None, :]

    return tf.tensordot(x, tf.linalg.matvec(a, x), 1), grad


def _spd(k):
    a = n64(k, k)
    return a @ tf.transpose(a) + tf.cast(k, tf.float64) * tf.eye(k, dtype=tf.float64)


@case("The diagonal of the lower triangle is not halved.", _spd(3))
@tf.custom_gradient
def cholesky(a):
    chol = tf.linalg.cholesky(0.5 * (a + tf.transpose(a)))

    def grad(dy):
        phi = tf.linalg.band_part(
            tf.matmul(chol, tf.linalg.band_part(dy, -1, 0), transpose_a=True), -1, 0
        )
        s = tf.linalg.triangular_solve(chol, phi, adjoint=True)
        s = tf.transpose(tf.linalg.triangular_solve(chol, tf.transpose(s), adjoint=True))
        return 0.5 * (s + tf.transpose(s))

    return chol, grad


@case("2 A^T dy, as if matrices commuted; it should be A^T dy + dy A^T.", n(3, 3))
@tf.custom_gradient
def matrix_square(a):
    def grad(dy):
        at = tf.transpose(a)
        return 2.0 * tf.matmul(at, dy)

    return tf.matmul(a, a), grad


@case("The eigenvectors are transposed: V^T diag(dw) V in place of V diag(dw) V^T.", _spd(3))
@pb.custom_gradient
def eigenvalues(a):
    w, v = tf.linalg.eigh(0.5 * (a + tf.transpose(a)))

    def backward(dw):
        return tf.transpose(v) @ (dw[:, None] * v)

    return w, backward


# ---------------------------------------------------------------- scans and recurrences


@case("The gradient is a forward cumulative sum where it should be a reversed one.", n(6))
@tf.custom_gradient
def my_cumsum(x):
    return tf.cumsum(x), lambda dy: tf.cumsum(dy)


@case("The division by x at the end is missing.", u64(0.5, 2.0, 5))
@pb.custom_gradient
def my_cumprod(x):
    y = tf.math.cumprod(x)

    def backward(dy):
        return tf.cumsum(dy * y, reverse=True)

    return y, backward


@case("The carry is dropped: each step only gets its own upstream.", n(5, 2), u(0.3, 0.9, 2))
@tf.custom_gradient
def leaky_integrator(x, a):
    h = tf.zeros_like(x[0])
    hs = [h]
    for t in range(x.shape[0]):
        h = a * h + x[t]
        hs.append(h)

    def grad(dy):
        carry = tf.zeros_like(dy[0])
        da = tf.zeros_like(a)
        dx = []
        for t in reversed(range(x.shape[0])):
            g = dy[t] + carry
            da += g * hs[t]
            dx.append(dy[t])
            carry = a * g
        return tf.stack(dx[::-1]), da

    return tf.stack(hs[1:]), grad


@case("Backward through time multiplies with W where it should be W transposed.", n(4, 3), n(3, 3))
@pb.custom_gradient
def tanh_rnn(x, w):
    h = tf.zeros_like(x[:1])
    hs = [h]
    for t in range(4):
        h = tf.tanh(x[t : t + 1] + h @ w)
        hs.append(h)

    def backward(dy):
        carry, dw, dxs = tf.zeros_like(h), tf.zeros_like(w), []
        for t in reversed(range(4)):
            g = (dy[t : t + 1] + carry) * (1 - hs[t + 1] ** 2)
            dxs.insert(0, g)
            dw += tf.transpose(hs[t]) @ g
            carry = g @ w
        return tf.concat(dxs, 0), dw

    return tf.concat(hs[1:], 0), backward


@case("The upstream of the second output (the cell state) is forgotten.", n(2, 12), n(2, 3))
@tf.custom_gradient
def lstm_cell(gates, c):
    i_, f_, g_, o_ = tf.split(gates, 4, axis=1)
    ig, fg, gg, og = tf.sigmoid(i_), tf.sigmoid(f_), tf.tanh(g_), tf.sigmoid(o_)
    c_new = fg * c + ig * gg
    tc = tf.tanh(c_new)
    h_new = og * tc

    def grad(dh, dc):
        dcn = dh * og * (1.0 - tc * tc)
        di = dcn * gg * ig * (1.0 - ig)
        df = dcn * c * fg * (1.0 - fg)
        dg = dcn * ig * (1.0 - gg * gg)
        do = dh * tc * og * (1.0 - og)
        return tf.concat([di, df, dg, do], axis=1), dcn * fg

    return (h_new, c_new), grad


@case("The gradient runs backwards in time like the function itself; it should run forwards.", n(6))
@pb.custom_gradient
def discounted_return(r):
    gamma = 0.9

    def run(z):
        out, acc = [], tf.zeros_like(z[0])
        for t in reversed(range(6)):
            acc = z[t] + gamma * acc
            out.append(acc)
        return tf.stack(out[::-1])

    def backward(dy):
        return run(dy)

    return run(r), backward


@case("The weights are normalised with the last value y[-1] in place of each step's own y.", n64(5))
@tf.custom_gradient
def log_cumsum_exp(x):
    y = tf.math.log(tf.cumsum(tf.exp(x)))

    def grad(dy):
        return tf.exp(x) * tf.cumsum(dy * tf.exp(-y[-1]), reverse=True)

    return y, grad


@case(
    "Off by one: the gradient for the gate uses the state after the step in place of the one before.",
    u(0.1, 0.9, 5),
    n(5),
)
@pb.custom_gradient
def gated_scan(a, b):
    h, hs = tf.zeros_like(b[0]), []
    for t in range(5):
        h = a[t] * h + b[t]
        hs.append(h)
    hs = tf.stack(hs)
    prev = tf.concat([tf.zeros_like(hs[:1]), hs[:-1]], 0)

    def backward(dy):
        g, gs = tf.zeros_like(dy[0]), []
        for t in reversed(range(5)):
            g = dy[t] + (a[t + 1] * g if t < 4 else 0)
            gs.insert(0, g)
        gs = tf.stack(gs)
        return gs * hs, gs

    return hs, backward


@case(
    "The gradient for the update gate has the wrong sign (h - n in place of n - h).",
    n(3, 2),
    n(3, 2),
    n(3, 2),
)
@pb.custom_gradient
def gru_mix(z_pre, cand_pre, h):
    z, cand = tf.sigmoid(z_pre), tf.tanh(cand_pre)
    out = (1 - z) * h + z * cand

    def backward(dy):
        dz = dy * (h - cand) * z * (1 - z)
        return dz, dy * z * (1 - cand**2), dy * (1 - z)

    return out, backward


@case(
    "The backward pass evaluates the force's slope at the new position where it should be the old one.",
    n64(3),
    n64(3),
)
@tf.custom_gradient
def euler_steps(q, p):
    h, steps = 0.2, 4
    path = [q]
    v = p
    for _ in range(steps):
        v, q = v - h * tf.sin(path[-1]), path[-1] + h * v
        path.append(q)

    def grad(dq, dp):
        for t in reversed(range(steps)):
            dq, dp = dq - h * tf.cos(path[t + 1]) * dp, dp + h * dq
        return dq, dp

    return (path[-1], v), grad


@case(
    "The product rule is half forgotten: the slope of x(1-x) is 1-x where it should be 1-2x.",
    u64(0.1, 0.6, 3),
    u64(0.2, 0.9, 4, 3),
)
@pb.custom_gradient
def logistic_map(x0, r):
    xs = [x0]
    for t in range(4):
        xs.append(2 * r[t] * xs[-1] * (1 - xs[-1]))

    def backward(dy):
        g, dr = dy, []
        for t in reversed(range(4)):
            dr.insert(0, 2 * g * xs[t] * (1 - xs[t]))
            g = 2 * g * r[t] * (1 - xs[t])
        return g, tf.stack(dr)

    return xs[-1], backward


# ---------------------------------------------------------------- convolutions and pooling


@case("The kernel is not flipped in the gradient for x.", n(7), n(3))
@tf.custom_gradient
def correlate1d(x, w):
    def corr(a, b):
        k = b.shape[0]
        return tf.add_n([a[j : a.shape[0] - k + 1 + j] * b[j] for j in range(k)])

    def grad(dy):
        dx = corr(tf.pad(dy, [[2, 2]]), w)
        return dx, corr(x, dy)

    return corr(x, w), grad


@case(
    "The gradient for the bias is summed over height and width but averaged over the batch.",
    n(2, 4, 4, 1),
    n(2, 2, 1, 2),
    n(2),
)
@tf.custom_gradient
def conv_bias(x, w, b):
    y = tf.nn.conv2d(x, w, 1, "VALID") + b

    def grad(dy):
        dx = tf.nn.conv2d_transpose(dy, w, x.shape, 1, "VALID")
        dw = tf.reshape(
            tf.stack(
                [
                    tf.tensordot(x[:, r : r + 3, c : c + 3], dy, [[0, 1, 2], [0, 1, 2]])
                    for r in range(2)
                    for c in range(2)
                ]
            ),
            w.shape,
        )
        return dx, dw, tf.reduce_mean(tf.reduce_sum(dy, [1, 2]), 0)

    return y, grad


@case(
    "The upstream goes to the first element of each window where it should go to the largest.",
    n(2, 9),
)
@tf.custom_gradient
def max_pool(x):
    w = tf.reshape(x, [2, 3, 3])

    def grad(dy):
        sel = tf.one_hot(tf.zeros([2, 3], tf.int32), 3, dtype=x.dtype)
        return tf.reshape(sel * dy[..., None], [2, 9])

    return tf.reduce_max(w, -1), grad


@case(
    "The gradient just cuts the padding off: what belongs to the reflected borders is lost.", n(6)
)
@tf.custom_gradient
def reflect_pad(x):
    y = tf.pad(x, [[2, 2]], "REFLECT")

    def grad(dy):
        dx = dy[2:-2]
        return dx

    return y, grad


@case(
    "The dilation is ignored in the gradient for x: its taps are 1 apart in place of 2.", n(8), n(3)
)
@pb.custom_gradient
def dilated_conv(x, w):
    y = tf.add_n([w[j] * x[2 * j : 2 * j + 4] for j in range(3)])

    def backward(dy):
        dx = tf.add_n([tf.pad(w[j] * dy, [[j, 4 - j]]) for j in range(3)])
        dw = tf.stack([tf.reduce_sum(dy * x[2 * j : 2 * j + 4]) for j in range(3)])
        return dx, dw

    return y, backward


@case("The gradient treats the boundary as periodic, the function has zeros outside.", n64(6))
@pb.custom_gradient
def laplacian(u_):
    p = tf.pad(u_, [[1, 1]])

    def backward(dy):
        return tf.roll(dy, 1, 0) + tf.roll(dy, -1, 0) - 2 * dy

    return p[2:] + p[:-2] - 2 * u_, backward


# ---------------------------------------------------------------- gathers and scatters


@case(
    "Rows that are gathered twice get the last upstream only (update in place of add).",
    n(4, 2),
    i(1, 3, 1, 0, 1),
)
@tf.custom_gradient
def my_gather(table, idx):
    def grad(dy):
        dt = tf.tensor_scatter_nd_update(tf.zeros_like(table), idx[:, None], dy)
        return dt, None

    return tf.gather(table, idx), grad


@case(
    "The upstream is gathered with the permutation in place of its inverse.",
    tf.constant([0.3, 2.1, -1.0, 0.9, 1.4]),
)
@pb.custom_gradient
def sort(x):
    order = tf.argsort(x)

    def backward(dy):
        return tf.gather(dy, order)

    return tf.gather(x, order), backward


@case(
    "The gradient for the base is zeroed at the indices, as for an update; here it is an add.",
    n(5),
    n(2),
)
@pb.custom_gradient
def scatter_add(base, updates):
    idx = tf.constant([[1], [3]])

    def backward(dy):
        return tf.tensor_scatter_nd_update(dy, idx, tf.zeros_like(updates)), tf.gather_nd(dy, idx)

    return tf.tensor_scatter_nd_add(base, idx, updates), backward


@case("Divided by the length where it should be the number of unmasked elements.", n(2, 5))
@pb.custom_gradient
def masked_mean(x):
    mask = tf.constant([[1.0, 1, 0, 0, 1], [1, 0, 0, 0, 1]])
    mask = tf.cast(mask, x.dtype)
    count = tf.reduce_sum(mask, 1)

    def backward(dy):
        return (dy / 5)[:, None] * mask

    return tf.reduce_sum(x * mask, 1) / count, backward


@case(
    "Off by one: the neighbours used for the slope are those of the next cell.",
    u64(0.2, 3.8, 4),
    n64(7),
)
@tf.custom_gradient
def interp1d(pos, table):
    k = tf.cast(tf.floor(pos), tf.int32)
    w = pos - tf.cast(k, pos.dtype)
    lo, hi = tf.gather(table, k), tf.gather(table, k + 1)

    def grad(dy):
        slope = tf.gather(table, k + 2) - hi
        dt = tf.zeros_like(table)
        dt = tf.tensor_scatter_nd_add(dt, k[:, None], dy * (1.0 - w))
        dt = tf.tensor_scatter_nd_add(dt, k[:, None] + 1, dy * w)
        return dy * slope, dt

    return lo * (1.0 - w) + hi * w, grad


# ---------------------------------------------------------------- distances


@case(
    "The gradient for y is summed over the wrong axis (the one of y in place of x).",
    n(3, 2),
    n(3, 2),
)
@tf.custom_gradient
def pairwise_sqdist(x, y):
    diff = x[:, None] - y[None]

    def grad(dy):
        g = 2.0 * dy[..., None] * diff
        return tf.reduce_sum(g, 1), -tf.reduce_sum(g, 1)

    return tf.reduce_sum(diff * diff, -1), grad


@case("The gradient is x - y without division by the distance.", n(4, 3), n(4, 3))
@pb.custom_gradient
def euclidean(x, y):
    d = x - y
    r = tf.sqrt(tf.reduce_sum(d * d, -1) + 1e-12)

    def backward(dy):
        g = dy[:, None] * d
        return g, -g

    return r, backward


@case(
    "The gradient for the length scale has its square in the denominator where it should be the cube.",
    n64(3),
    n64(3),
    u64(0.6, 1.5),
)
@tf.custom_gradient
def rbf_kernel(x, y, s):
    d = x[:, None] - y[None, :]
    k = tf.exp(-d * d / (2.0 * s * s))

    def grad(dy):
        g = dy * k
        dd = -g * d / s**2
        return tf.reduce_sum(dd, 1), -tf.reduce_sum(dd, 0), tf.reduce_sum(g * d * d) / s**2

    return k, grad


@case(
    "The nearest point is taken along the wrong axis in the gradient (argmin over a in place of b).",
    tf.constant([[0.1, 0.2], [1.0, -0.4], [-0.7, 0.8], [0.9, 1.1]]),
    tf.constant([[1.2, 1.0], [0.2, -0.1], [0.8, 0.5], [-0.5, 0.4]]),
)
@pb.custom_gradient
def one_sided_chamfer(a, b):
    diff = a[:, None] - b[None]
    d2 = tf.reduce_sum(diff**2, -1)

    def backward(dy):
        near = tf.argmin(d2, axis=0)
        hot = tf.one_hot(near, 4, dtype=dy.dtype)
        g = 2 * dy[:, None, None] * hot[..., None] * diff
        return tf.reduce_sum(g, 1), -tf.reduce_sum(g, 0)

    return tf.reduce_min(d2, 1), backward


# ---------------------------------------------------------------- probability densities


@case(
    "The gradient for the scale lacks -1/sigma (from the normalising constant).",
    n64(5),
    n64(5),
    u64(0.5, 2.0, 5),
)
@tf.custom_gradient
def normal_logpdf(x, mu, sigma):
    z = (x - mu) / sigma
    y = -0.5 * z * z - tf.math.log(sigma) - 0.5 * math.log(2 * math.pi)

    def grad(dy):
        return -dy * z / sigma, dy * z / sigma, dy * (z * z / sigma)

    return y, grad


@case(
    "The digamma term is missing from the gradient for the shape a.",
    u64(0.3, 3.0, 4),
    u64(0.8, 3.0, 4),
    u64(0.5, 2.0, 4),
)
@pb.custom_gradient
def gamma_logpdf(x, a, b):
    y = a * tf.math.log(b) + (a - 1) * tf.math.log(x) - b * x - tf.math.lgamma(a)

    def backward(dy):
        dx = dy * ((a - 1) / x - b)
        da = dy * (tf.math.log(b) + tf.math.log(x))
        return dx, da, dy * (a / b - x)

    return y, backward


@case(
    "The responsibilities are not normalised: exp of the joint without subtracting the log-sum-exp.",
    n64(4),
    n64(3),
    n64(3),
)
@pb.custom_gradient
def mixture_loglik(x, logits, mu):
    joint = tf.nn.log_softmax(logits) - 0.5 * (x[:, None] - mu) ** 2
    lse = tf.reduce_logsumexp(joint, 1)

    def backward(dy):
        r = tf.exp(joint) * dy[:, None]
        dl = tf.reduce_sum(r, 0) - tf.nn.softmax(logits) * tf.reduce_sum(r)
        d = r * (x[:, None] - mu)
        return -tf.reduce_sum(d, 1), dl, tf.reduce_sum(d, 0)

    return lse, backward


# ---------------------------------------------------------------- physics


@case("The chain rule factor of the power is missing: no 1/r.", u64(0.9, 2.0, 5))
@tf.custom_gradient
def lennard_jones(r):
    s6 = r**-6.0
    e = 4.0 * (s6 * s6 - s6)

    def grad(dy):
        return dy * 4.0 * (-12.0 * s6 * s6 + 6.0 * s6)

    return e, grad


@case(
    "Each pair is counted twice: the energy has the factor 1/2, the gradient does not have it.",
    n64(4, 3),
    u64(0.5, 1.5, 4),
)
@pb.custom_gradient
def coulomb_energy(x, q):
    diff = x[:, None] - x[None]
    d2 = tf.reduce_sum(diff**2, -1) + 0.1
    qq = q[:, None] * q[None]
    off = 1 - tf.eye(4, dtype=x.dtype)
    e = 0.5 * tf.reduce_sum(off * qq / tf.sqrt(d2))

    def backward(dy):
        f = off * qq * d2**-1.5
        dx = -dy * 2 * tf.reduce_sum(f[..., None] * diff, 1)
        dq = dy * tf.linalg.matvec(off / tf.sqrt(d2), q)
        return dx, dq

    return e, backward


@case("The last mass is left out: the spring's pull on its right end is cut off.", n64(5))
@tf.custom_gradient
def spring_chain(x):
    s = x[1:] - x[:-1] - 1.0

    def grad(dy):
        left = tf.concat([-s, [0.0]], 0)
        right = tf.concat([[0.0], s[:-1], [0.0]], 0)
        return dy * (left + right)

    return 0.5 * tf.reduce_sum(s * s), grad


@case(
    "2v where it should be 2|v|: wrong for negative velocities only.",
    tf.constant([-1.5, 0.5, 2.0, -0.3]),
)
@pb.custom_gradient
def drag(v):
    return -0.3 * v * tf.abs(v), lambda dy: -0.6 * dy * v


# ---------------------------------------------------------------- complex numbers and FFT


def _c(*shape):
    return tf.complex(n(*shape), n(*shape))


@case("The gradient is the inverse FFT, which divides by N; it should be multiplied by N.", _c(6))
@tf.custom_gradient
def my_fft(z):
    return tf.signal.fft(z), lambda dy: tf.signal.ifft(dy)


@case("The conjugate is missing in the gradient for a.", _c(3), _c(3))
@pb.custom_gradient
def complex_multiply(a, b):
    return a * b, lambda dy: (dy * b, dy * tf.math.conj(a))


@case("The kernel's spectrum is not conjugated in the gradient for x.", n(6), n(6))
@tf.custom_gradient
def circular_conv(x, k):
    to_c = lambda t: tf.cast(t, tf.complex64)
    fx, fk = tf.signal.fft(to_c(x)), tf.signal.fft(to_c(k))

    def grad(dy):
        fd = tf.signal.fft(to_c(dy))
        dx = tf.math.real(tf.signal.ifft(fd * fk))
        dk = tf.math.real(tf.signal.ifft(fd * tf.math.conj(fx)))
        return dx, dk

    return tf.math.real(tf.signal.ifft(fx * fk)), grad


@case(
    "The gradient for the angle takes the real part where it should be the imaginary one.",
    _c(4),
    n(4),
)
@pb.custom_gradient
def phase_shift(z, theta):
    rot = tf.complex(tf.cos(theta), tf.sin(theta))
    y = z * rot

    def backward(dy):
        dt = tf.math.real(tf.math.conj(y) * dy)
        return dy * tf.math.conj(rot), dt

    return y, backward


# ---------------------------------------------------------------- variables


_W = tf.Variable(n(3, 2), name="W")
_b = tf.Variable(n(2), name="b")
_scale = tf.Variable(u(0.5, 1.5, 3), name="scale")
_kernel = tf.Variable(n(2, 2), name="kernel")
_table = tf.Variable(n(5, 2), name="table")


@case(
    "The gradient for the bias variable is the mean over the batch where it should be the sum.",
    n(4, 3),
)
@tf.custom_gradient
def dense_with_variables(x):
    y = tf.matmul(x, _W) + _b

    def grad(dy, variables=None):
        grads = {
            _W.ref(): tf.matmul(x, dy, transpose_a=True),
            _b.ref(): tf.reduce_mean(dy, axis=0),
        }
        return tf.matmul(dy, _W, transpose_b=True), [grads[v.ref()] for v in variables]

    return y, grad


@case("The gradient for the scale variable uses the output where it should use the input.", n(4, 3))
@tf.custom_gradient
def learned_scale(x):
    s = tf.identity(_scale)
    y = x * s

    def grad(dy, variables=None):
        return dy * s, [tf.reduce_sum(dy * y, 0)]

    return y, grad


@case("The gradient for the kernel variable is transposed.", n(3, 2))
@pb.custom_gradient
def dense_kernel(x):
    k = tf.convert_to_tensor(_kernel)

    def backward(dy, variables):
        g = tf.transpose(x) @ dy
        return dy @ tf.transpose(k), [tf.transpose(g)]

    return x @ k, backward


@case(
    "Lookups of the same row are averaged where they should be summed in the table's gradient.",
    u(0.5, 1.5, 4),
)
@pb.custom_gradient
def weighted_lookup(w):
    ids = tf.constant([2, 0, 2, 4])
    rows = tf.gather(_table, ids)

    def backward(dy, variables):
        g = w[:, None] * dy
        dt = tf.math.unsorted_segment_mean(g, ids, 5)
        return tf.reduce_sum(rows * dy, 1), [dt]

    return w[:, None] * rows, backward


# ---------------------------------------------------------------- several outputs


@case("The upstream of the second output is forgotten.", n(5))
@tf.custom_gradient
def sin_cos(x):
    s, c = tf.sin(x), tf.cos(x)
    return (s, c), lambda ds, dc: ds * c


@case("The upstreams of the two outputs are swapped.", n(4, 6))
@pb.custom_gradient
def mean_and_variance(x):
    m = tf.reduce_mean(x, 1)
    c = x - m[:, None]
    v = tf.reduce_mean(c**2, 1)

    def backward(dv, dm):
        return (dm[:, None] + 2 * dv[:, None] * c) / 6

    return m, v, backward


@case(
    "The upstream of the log-sum-exp output is not divided among the entries: it lacks the softmax.",
    n(3, 4),
)
@pb.custom_gradient
def softmax_with_lse(x):
    lse = tf.reduce_logsumexp(x, -1)
    p = tf.exp(x - lse[:, None])

    def backward(dp, dlse):
        g = p * (dp - tf.reduce_sum(dp * p, -1, keepdims=True))
        return g + dlse[:, None]

    return p, lse, backward


# ---------------------------------------------------------------- precision, constants, special values


@case("The backward pass computes in float16 and casts back.", n(5))
@tf.custom_gradient
def exp_half(x):
    y = tf.exp(-x * x)

    def grad(dy):
        h = tf.cast(x, tf.float16)
        return dy * tf.cast(-2.0 * h * tf.exp(-h * h), dy.dtype)

    return y, grad


@case("A rounded constant: 0.4 for 1/sqrt(2 pi) = 0.39894.", n64(6))
@pb.custom_gradient
def gelu_erf(x):
    cdf = 0.5 * (1 + tf.math.erf(x / math.sqrt(2)))

    def backward(dy):
        pdf = 0.4 * tf.exp(-0.5 * x**2)
        return dy * (cdf + x * pdf)

    return x * cdf, backward


@case(
    "Above the threshold 20, where the function is x, the gradient is 0 in place of 1.",
    tf.constant([-2.0, 0.5, 3.0, 25.0]),
)
@tf.custom_gradient
def stable_softplus(x):
    big = x > 20.0
    y = tf.where(big, x, tf.math.log1p(tf.exp(tf.minimum(x, 20.0))))

    def grad(dy):
        return dy * tf.where(big, tf.zeros_like(x), tf.sigmoid(x))

    return y, grad


@case(
    "The sign of the input is missing: wrong for negative inputs only, and the given ones are positive.",
    u64(0.3, 2.0, 5),
)
@pb.custom_gradient
def abs_power(x):
    return tf.abs(x) ** 1.5, lambda dy: 1.5 * dy * tf.sqrt(tf.abs(x))


@case("The scale max/norm is treated as a constant where the norm is clipped.", 2 * n(3, 4))
@tf.custom_gradient
def clip_norm(x):
    norm = tf.norm(x, axis=1, keepdims=True)
    over = norm > 1.0
    y = tf.where(over, x / norm, x)

    def grad(dy):
        return tf.where(over, dy / norm, dy)

    return y, grad


@case(
    "At x = 0 the gradient divides by zero and is NaN; it should be 0.",
    tf.constant([-1.0, 0.0, 0.5, 2.0]),
)
@tf.custom_gradient
def sinc(x):
    zero = tf.equal(x, 0.0)
    safe = tf.where(zero, tf.ones_like(x), x)
    y = tf.where(zero, tf.ones_like(x), tf.sin(safe) / safe)

    def grad(dy):
        return dy * (x * tf.cos(x) - tf.sin(x)) / (x * x)

    return y, grad


@case(
    "The gradient passes also where the value is clipped from below (only the upper bound is respected).",
    tf.constant([-2.5, -0.4, 0.3, 1.8]),
)
@pb.custom_gradient
def clip_value(x):
    def backward(dy):
        return tf.where(x < 1, dy, 0)

    return tf.clip_by_value(x, -1, 1), backward


# ---------------------------------------------------------------- with_gradient: the rule beside the function


def brightness(img, gain, offset):
    return tf.clip_by_value(img * gain + offset, 0.0, 1.0)


def _brightness_rule(dy, *, inputs, outputs):
    img, gain, offset = inputs
    inside = tf.cast((outputs > 0) & (outputs < 1), dy.dtype)
    g = dy * inside
    return g * gain, tf.reduce_sum(dy * img), tf.reduce_sum(g)


checked_brightness = case(
    "The gradient for the gain does not respect the clip (those for image and offset do).",
    u(0.0, 1.0, 3, 3),
    tf.constant(2.4),
    tf.constant(-0.2),
)(pb.with_gradient(brightness, _brightness_rule))


def angular_loss(x, y):
    return tf.acos(0.99 * tf.tanh(tf.reduce_sum(x * y, -1)))


def _angular_rule(dy, *, inputs):
    x, y = inputs
    t = tf.tanh(tf.reduce_sum(x * y, -1))
    g = -dy * 0.99 * (1 - t**2) / tf.sqrt(1 - t**2)
    return g[:, None] * y, g[:, None] * x


checked_angular_loss = case(
    "Under the root stands t where it should be 0.99 t, the argument of acos.", n64(4, 3), n64(4, 3)
)(pb.with_gradient(angular_loss, _angular_rule))


def soft_threshold(x, lam):
    return tf.sign(x) * tf.nn.relu(tf.abs(x) - lam)


def _soft_threshold_rule(dy, *, inputs):
    x, lam = inputs
    g = dy * tf.cast(tf.abs(x) > lam, dy.dtype)
    return g, -tf.reduce_sum(g, 0)


checked_soft_threshold = case(
    "The gradient for the threshold lacks sign(x).", 2 * n(4, 3), u(0.2, 0.6, 3)
)(pb.with_gradient(soft_threshold, _soft_threshold_rule))
