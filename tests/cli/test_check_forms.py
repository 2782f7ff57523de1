"""Custom gradients in the forms of released code: all are found, get inputs, and are told apart."""

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from tests.cli.forms import assert_line, results_of

HEAD = "import functools\nimport keras\nimport tensorflow as tf\nimport pullback as pb\n"
FORMS = [
    (
        """
        def make_power(order):
            @tf.custom_gradient
            def power(x):
                return x**order, lambda dy: dy * order * x ** (order - 1)
            return power
        """,
        "make_power.power", "right", "calls", "x float32[3, 4] (tried)",
    ),
    (
        """
        def shifted(x, *, axis):
            @tf.custom_gradient
            def roll(x):
                return tf.roll(x, 1, axis), lambda dy: tf.roll(dy, 1, axis)
            return roll(x)
        """,
        "shifted.roll", "wrong", "swapped", "x float32[3, 4] (by shifted)",
    ),
    (
        """
        class Quantize(keras.layers.Layer):
            def __init__(self, bits, **kwargs):
                super().__init__(**kwargs)
                self.bits = bits
            def call(self, inputs, training=False):
                if not training:
                    return inputs
                @tf.custom_gradient
                def quantize(x):
                    return tf.round(x * 2.0**self.bits) / 2.0**self.bits, lambda dy: dy
                return quantize(inputs)
        """,
        "Quantize.call.quantize", "undecided", "straight-through", "x float32[3, 4] (by Quantize)",
    ),
    (
        """
        def surrogate(v, width):
            @tf.custom_gradient
            def spike(v):
                return tf.cast(v > 0, v.dtype), lambda dy: dy * tf.exp(-tf.abs(v) * width)
            return spike(v)
        """,
        "surrogate.spike", "undecided", "a surrogate", "(by surrogate)",
    ),
    (
        "@tf.custom_gradient\ndef reverse(x):\n    return tf.identity(x), lambda dy: -0.3 * dy\n",
        "reverse", "undecided", "reverses the gradient: -0.3 times the upstream. If it is meant, say so", "",
    ),
    (
        ("def norm_clip(c):\n    @tf.custom_gradient\n    def clipped(x):\n"
        "        return tf.identity(x), lambda dy: tf.clip_by_norm(dy, c)\n    return clipped\n"),
        "norm_clip.clipped", "undecided", "changes the upstream", "",
    ),
    (
        ("@tf.custom_gradient\ndef guided(x):\n"
        "    return tf.nn.relu(x), lambda dy: tf.where((dy > 0) & (x > 0), dy, 0.0)\n"),
        "guided", "undecided", "treats positive and negative upstreams differently", "",
    ),
    (
        """
        class Affine(tf.Module):
            def __init__(self, start):
                super().__init__()
                self.w = tf.Variable(start)
            def __call__(self, x):
                @tf.custom_gradient
                def affine(x):
                    def grad(dy, variables=None):
                        return dy * self.w, [tf.reduce_sum(dy)]
                    return self.w * x, grad
                return affine(x)
        """,
        "Affine.__call__.affine", "wrong", "Variable", "(by Affine)",
    ),
    (
        """
        def activation(kind="relu"):
            if kind == "relu":
                return tf.nn.relu
            @tf.custom_gradient
            def elu(x):
                return tf.nn.elu(x), lambda dy: dy * tf.where(x > 0, 1.0, tf.exp(x))
            return elu
        """,
        "activation.elu", "right", "calls", "",
    ),
    (
        """
        def reversible(f, g):
            @tf.custom_gradient
            def block(a, b):
                y = a + f(b)
                def grad(dy, dz):
                    with tf.GradientTape() as tape:
                        tape.watch(b)
                        fb = f(b)
                    return dy, dz + tape.gradient(fb, b, dy)
                return (y, b), grad
            return block
        """,
        "reversible.block", "right", "calls", "a float32[3, 4] (tried), b float32[3, 4] (tried)",
    ),
    (
        """
        @tf.custom_gradient
        def cross_entropy(logits, labels):
            loss = tf.nn.softmax_cross_entropy_with_logits(labels, logits)
            return loss, lambda dy: (dy[:, None] * (tf.nn.softmax(logits) - labels), None)
        """,
        "cross_entropy", "right", "calls", "labels float32[3, 4] (name)",
    ),
    (
        """
        @tf.custom_gradient
        def sparse_cross_entropy(labels, logits):
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            hot = tf.one_hot(labels, tf.shape(logits)[-1])
            return loss, lambda dy: (None, dy[:, None] * (tf.nn.softmax(logits) - hot))
        """,
        "sparse_cross_entropy", "right", "calls", "labels int32[3] (name)",
    ),
    (
        "@tf.custom_gradient\ndef scaled(x, alpha):\n    return x * alpha, lambda dy: (dy * alpha, None)\n",
        "scaled", "undecided", "no gradient for `alpha`", "alpha float32[] (name)",
    ),
    (
        ("@tf.custom_gradient\ndef dense(x, w, b):\n"
        "    return x @ w + b, lambda dy: (dy @ tf.transpose(w), tf.transpose(x) @ dy, tf.reduce_sum(dy, 0))\n"),
        "dense", "right", "calls", "x float32[3, 4] (tried), w float32[4, 5] (tried), b float32[5] (tried)",
    ),
    (
        "@tf.custom_gradient\ndef log(x):\n    return tf.math.log(x), lambda dy: dy / x\n",
        "log", "right", "calls", "x float32[3, 4] (tried)",
    ),
    (
        """
        @tf.custom_gradient
        def shaped(x: 'Float[tf.Tensor, "batch time dim"]', w: 'Float[tf.Tensor, "dim out"]'):
            grad = lambda dy: (tf.einsum("bto,do->btd", dy, w), tf.einsum("btd,bto->do", x, dy))
            return tf.einsum("btd,do->bto", x, w), grad
        """,
        "shaped", "right", "calls", "x float32[3, 4, 5] (annotation), w float32[5, 2] (annotation)",
    ),
    (
        ("@tf.custom_gradient\ndef prelu(x, alpha):\n    neg = tf.minimum(x, 0.0)\n"
        "    return tf.maximum(x, 0.0) + alpha * neg, lambda dy: (dy * tf.where(x > 0, 1.0, alpha), dy * neg)\n"),
        "prelu", "undecided", "a gradient of shape [3, 4] for []", "alpha float32[3, 4] (name)",
    ),
    (
        ("def lost(x, w):\n    @tf.custom_gradient\n    def inner(x):\n"
        "        return x * w, lambda dy: dy * w\n    return inner(x)\n"),
        "lost.inner", "undecided", "no gradient flows to `w`, which it closes over", "(by lost)",
    ),
    (
        ("@tf.custom_gradient\ndef twice(x):\n    @tf.custom_gradient\n    def grad(dy):\n"
        "        return dy * 2.0, lambda d: d * 3.0\n    return x * 2.0, grad\n"),
        "twice.grad", "wrong", "dy", "dy float32[3, 4] (by twice)",
    ),
    (
        """
        @tf.custom_gradient
        def binary_cross_entropy(y_true, y_pred):
            p = tf.clip_by_value(y_pred, 1e-7, 1 - 1e-7)
            loss = -(y_true * tf.math.log(p) + (1 - y_true) * tf.math.log(1 - p))
            return loss, lambda dy: (None, dy * (p - y_true) / (p * (1 - p)))
        """,
        "binary_cross_entropy", "undecided", "right for inputs between 0 and 1, but else", "",
    ),
    (
        ("@tf.custom_gradient\ndef hard_sigmoid(x):\n"
        "    return tf.clip_by_value(2.0 * x + 0.5, 0.0, 1.0), lambda dy: dy * 2.0\n"),
        "hard_sigmoid", "wrong", "should be zero there", "",
    ),
    (
        ("@tf.custom_gradient\ndef nearly(x):\n"
        "    return tf.sin(x), lambda dy: dy * (tf.sin(x + 1e-3) - tf.sin(x - 1e-3)) / 2e-3\n"),
        "nearly", "undecided", "right to 1%, but", "",
    ),
    (
        """
        def normalised(x, axis=1):
            @tf.custom_gradient
            def shares(x):
                p = tf.nn.softmax(x, axis=axis)
                return p, lambda dp: p * (dp - tf.reduce_sum(dp * p, axis=-1, keepdims=True))
            return shares(x)
        """,
        "normalised.shares", "wrong", "right at these inputs; with x float32[3, 2, 4]", "x float32[3, 4]",
    ),
    (
        """
        def along(x, axis=1):
            @tf.custom_gradient
            def centred(x):
                mean = lambda t: t - tf.reduce_mean(t, axis=axis, keepdims=True)
                return mean(x), mean
            return centred(x)
        """,
        "along.centred", "right", "calls", "x float32[3, 4]",
    ),
    (
        """
        @tf.custom_gradient
        def log_volume(cov):
            "Args:\\n  cov: [batch, n, n] covariance matrices."
            both = 0.5 * (cov + tf.linalg.matrix_transpose(cov))
            diagonal = tf.linalg.diag_part(tf.linalg.cholesky(both))
            value = 2.0 * tf.reduce_sum(tf.math.log(diagonal), -1)
            return value, lambda dy: dy[:, None, None] * tf.linalg.inv(both)
        """,
        "log_volume", "right", "calls", "cov float32[3, 4, 4] (docstring)",
    ),
    (
        "tanh = tf.custom_gradient(lambda x: (tf.tanh(x), lambda dy: dy * (1 - tf.tanh(x) ** 2)))\n",
        "tanh", "right", "calls", "",
    ),
    (
        ("@keras.ops.custom_gradient\ndef keras_relu(x):\n    def grad(*args, upstream=None):\n"
        "        dy = args[0] if upstream is None else upstream\n        return dy * keras.ops.cast(x > 0, x.dtype)\n"
        "    return keras.ops.relu(x), grad\n"),
        "keras_relu", "right", "calls", "",
    ),
    (
        """
        @tf.RegisterGradient("DoubledRelu")
        def _doubled(op, dy):
            return 2 * tf.where(op.inputs[0] > 0, dy, 0.0)
        """,
        "_doubled", "wrong", "2× too large", "features float32[3, 4] (tried)",
    ),
    (
        "@tf.RegisterGradient('Mystery')\ndef _mystery(op, dy):\n    return dy\n",
        "_mystery", "undecided", "which type of op 'Mystery' is for cannot be told", "",
    ),
    (
        "def relu(x):\n    return tf.nn.relu(x)\nhalved = pb.override({tf.nn.relu: pb.rules.scale(0.5)})(relu)\n",
        "halved", "wrong", "2× too small", "",
    ),
    (
        """
        class Needy:
            def __init__(self, handle):
                self.wheel = handle.wheel
            def call(self, x):
                @tf.custom_gradient
                def deep(x):
                    return x, lambda dy: dy
                return deep(x)
        """,
        "Needy.call.deep", "undecided", "needs inputs: write pullback_inputs = {'Needy.call.deep'", "",
    ),
    (
        ("@tf.custom_gradient\ndef absolute_error(y_true, y_pred):\n    e = y_pred - y_true\n"
        "    return tf.abs(e), lambda dy: (dy * tf.sign(e), dy * tf.sign(e))\n"),
        "absolute_error", "wrong", "`y_true` has the wrong sign", "",
    ),
    (
        ("@pb.inputs(tf.constant([0.3, 1.7]), against=tf.identity)\n@tf.custom_gradient\n"
        "def declared(x):\n    return tf.round(x), lambda dy: dy\n"),
        "declared", "right", "calls", "x float32[2] (@pb.inputs)",
    ),
    (
        ("@pb.inputs(against=tf.identity, kwargs={'x': tf.constant([0.3, 1.7])})\n@pb.custom_gradient\n"
        "def by_name(x):\n    return tf.round(x), lambda dy: dy\n"),
        "by_name", "right", "calls", "x float32[2] (@pb.inputs)",
    ),
    (
        ("def made(k):\n    @pb.inputs(ignore='a surrogate')\n    @tf.custom_gradient\n"
        "    def inner(x):\n        return tf.round(x), lambda dy: dy\n    return inner\n"),
        "made.inner", "ignored", "ignored: a surrogate", "",
    ),
    (
        ("@tf.custom_gradient\ndef ranked(x):\n    axes = [k for k, _ in enumerate(x.shape) if len(x.shape) > k]\n"
        "    return tf.reduce_sum(x, axes), lambda dy: dy * tf.ones_like(x)\n"),
        "ranked", "right", "calls", "x float32[3, 4] (tried)",
    ),
    (
        ("@tf.custom_gradient\ndef gone_through(x):\n    total = sum(row for row in x)\n"
        "    return total * tf.rank(x).numpy(), lambda dy: tf.rank(x).numpy() * tf.ones_like(x) * dy\n"),
        "gone_through", "right", "calls", "",
    ),
    (
        ("@tf.custom_gradient\ndef turned_by(v, axis):\n    n = axis.shape[-1]\n    return v * axis * n, "
        "lambda dy: (dy * axis * n, dy * v * n)\n"),
        "turned_by", "right", "calls", "axis float32[3, 4] (tried)",
    ),
    (
        ("@tf.custom_gradient\ndef moved(image, flow):\n    b, h, w, c = image.shape\n"
        "    by = tf.reshape(flow, [b, h, w, 2])[..., :1] + float(h > w)\n"
        "    def grad(dy):\n        rest = tf.zeros_like(flow[..., 1:])\n"
        "        return dy * by, tf.concat([tf.reduce_sum(dy * image, -1, True), rest], -1)\n"
        "    return image * by, grad\n"),
        "moved", "right", "calls", "image float32[3, 6, 5, 2] (name), flow float32[3, 6, 5, 2] (name)",
    ),
    (
        ("@tf.custom_gradient\ndef squared(z):\n    '''z: complex tensor of shape [batch, 3].'''\n"
        "    return z * z, lambda dy: dy * tf.math.conj(2 * z)\n"),
        "squared", "right", "calls", "z complex64[3, 3] (docstring)",
    ),
    (
        ("@tf.custom_gradient\ndef turned(z):\n    '''z: complex tensor of shape [batch, 3].'''\n"
        "    return tf.identity(z), lambda dy: dy * tf.constant(1j, dy.dtype)\n"),
        "turned", "undecided", "turns the gradient: 0+1j times the upstream", "",
    ),
    (
        ("@tf.custom_gradient\ndef capped(x):\n"
        "    return tf.sin(x), lambda dy: tf.clip_by_norm(dy * tf.cos(x), 1e4)\n"),
        "capped", "undecided", "once that is large, as no derivative is (clipped by norm?)", "",
    ),
    (
        """
        class Sine(keras.layers.Layer):
            @tf.custom_gradient
            def call(self, x):
                return tf.sin(x), lambda dy: dy * tf.cos(x)
        """,
        "Sine.call", "right", "calls", "",
    ),
    (
        """
        class Built(keras.layers.Layer):
            def build(self, shape):
                @tf.custom_gradient
                def op(x):
                    return tf.sin(x), lambda dy: dy * tf.sin(x)
                self.op = op
            def call(self, x):
                return self.op(x)
        """,
        "Built.build.op", "wrong", "", "(by Built)",
    ),
    (
        """
        class Net(keras.Model):
            def call(self, x):
                @tf.custom_gradient
                def net(x):
                    return tf.sin(x), lambda dy: dy * tf.cos(x)
                return net(x)
        """,
        "Net.call.net", "right", "calls", "(by Net)",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("forms"), HEAD, FORMS)


@pytest.mark.parametrize("form", FORMS, ids=[form[1] for form in FORMS])
def test_each_form_has_its_line(results, form):
    assert_line(results[form[1]], form)


def test_nothing_else_has_a_line(results):
    assert set(results) == {form[1] for form in FORMS} | {"twice"}


LIMITED = """
@tf.custom_gradient
def limited(x, alpha):
    y = tf.clip_by_value(x, 0.0, alpha)
    def grad(dy):
        over, inside = x >= alpha, (x > 0.0) & (x < alpha)
        return tf.where(inside, dy, 0.0), tf.reduce_sum(tf.where(over, dy, 0.0))
    return y, grad
"""


def test_a_setting_that_is_not_meant_to_be_negative(tmp_path):
    (tmp_path / "limited.py").write_text(HEAD + LIMITED, encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--no-isolate"])
    assert "? " in done.output
    assert "right for alpha > 0, but else" in done.output
