"""Made-up inputs are what is written of a function: sizes, axes, kinds of numbers; and they do not condemn a rule."""

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from tests.cli.forms import assert_line, results_of

HEAD = "import keras\nimport tensorflow as tf\nimport pullback as pb\n"
FORMS = [
    (
        """
        def blend(x, k):
            @tf.custom_gradient
            def mixed(x, k):
                return x * k, lambda dy: (dy * k, dy * k)
            return mixed(x, k)
        """,
        "blend.mixed", "wrong", "the gradient for `k`", "k float32[3, 4] (tried)",
    ),
    (
        ("@tf.custom_gradient\ndef axpy(num, x, b):\n"
        "    return num * x + b, lambda dy: (dy * x, dy * num, dy)\n"),
        "axpy", "right", "calls", "num float32[3, 4] (tried)",
    ),
    (
        """
        class Projection(tf.Module):
            def __init__(self, d_in, d_out):
                super().__init__()
                self.w = tf.Variable(tf.random.stateless_normal((d_in, d_out), (1, 2)))
            def __call__(self, x):
                @tf.custom_gradient
                def projected(x, w):
                    return x @ w, lambda dy: (dy @ tf.transpose(w), tf.transpose(x) @ dy)
                return projected(x, self.w)
        """,
        "Projection.__call__.projected", "right", "calls", "w float32[4, 5] (by Projection)",
    ),
    (
        """
        @tf.custom_gradient
        def pooled(x):
            '''2×2 mean pooling of (N, H, W, C) images; height and width even.'''
            n, h, w, c = x.shape
            y = tf.reduce_mean(tf.reshape(x, [n, h // 2, 2, w // 2, 2, c]), [2, 4])
            return y, lambda dy: tf.repeat(tf.repeat(dy, 2, 1), 2, 2) / 4
        """,
        "pooled", "right", "calls", "(docstring)",
    ),
    (
        """
        @tf.custom_gradient
        def halved_steps(x):
            y = tf.nn.avg_pool1d(x, 2, 2, "VALID")
            return y, lambda dy: tf.concat([tf.repeat(dy, 2, 1), 0 * x[:, 2 * y.shape[1]:]], 1)
        """,
        "halved_steps", "wrong", "2× too large", "",
    ),
    (
        """
        @tf.custom_gradient
        def shuffled(x):
            '''Channels in groups of 4, of which there must be a multiple of 4. x: [batch, channels]'''
            def turn(v):
                return tf.reshape(tf.transpose(tf.reshape(v, [v.shape[0], 4, -1]), [0, 2, 1]), v.shape)
            return turn(x), turn
        """,
        "shuffled", "wrong", "", "x float32[3, 8] (docstring)",
    ),
    (
        """
        @tf.custom_gradient
        def transformed(x):
            '''Walsh-Hadamard transform of the last axis; its length must be a power of two.'''
            n = x.shape[-1]
            assert n & (n - 1) == 0
            rows = [[1.0 - 2.0 * (bin(i & j).count("1") % 2) for j in range(n)] for i in range(n)]
            h = tf.constant(rows, x.dtype)
            return tf.linalg.matvec(h, x), lambda dy: tf.linalg.matvec(h, dy)
        """,
        "transformed", "right", "calls", "(tried)",
    ),
    (
        ("@tf.custom_gradient\ndef halves(x):\n    '''Multiplies the halves of a 1-D tensor of even length.'''\n"
        "    n = x.shape[0] // 2\n    a, b = x[:n], x[n:]\n"
        "    return a * b, lambda dy: tf.concat([dy * b, dy * a], 0)\n"),
        "halves", "right", "calls", "(docstring)",
    ),
    (
        ("@tf.custom_gradient\ndef too_few(x, w, b):\n    return x * w + b, lambda dy: dy * w\n"),
        "too_few", "wrong", "expected to return 3 gradients, but returned 1", "",
    ),
    (
        ("@tf.custom_gradient\ndef log_det(a):\n    value = tf.linalg.slogdet(a)[1]\n"
        "    return value, lambda dy: dy[..., None, None] * tf.linalg.inv(a)\n"),
        "log_det", "wrong", "transposed", "",
    ),
    (
        """
        @tf.custom_gradient
        def bi_tempered(activations, labels):
            '''Args:
              activations: A multi-dimensional tensor with last dimension `num_classes`.
              labels: A tensor with shape and dtype as activations.
            '''
            p = tf.nn.softmax(activations)
            loss = -tf.reduce_sum(labels * tf.math.log(p), -1)
            total = tf.reduce_sum(labels, -1, keepdims=True)
            return loss, lambda dy: (dy * (p * total - labels), None)
        """,
        "bi_tempered", "wrong", "the rule raises", "",
    ),
    (
        """
        @tf.custom_gradient
        def sorted_up(x):
            '''Sorts the vector x.'''
            order = tf.argsort(x)
            return tf.gather(x, order), lambda dy: tf.scatter_nd(order[:, None], dy, tf.shape(x))
        """,
        "sorted_up", "right", "calls", "x float32[5] (docstring)",
    ),
    (
        ("@tf.custom_gradient\ndef product(pair):\n    a, b = pair\n"
        "    return a * b, lambda dy: [dy * b, dy * a]\n"),
        "product", "right", "calls", "pair [float32[3, 4], float32[3, 4]] (source)",
    ),
    (
        """
        @pb.custom_gradient
        def line(params, x):
            '''params: a dict of "w" [D] and "b", a scalar; x: [N, D].'''
            y = tf.linalg.matvec(x, params["w"]) + params["b"]
            def grad(dy):
                dw = tf.linalg.matvec(x, dy, transpose_a=True)
                return {"w": dw, "b": 2.0 * tf.reduce_sum(dy)}, dy[:, None] * params["w"]
            return y, grad
        """,
        "line", "wrong", "2× too large", 'w float32[4]} (source), x float32[3, 4]',
    ),
    (
        """
        def activation(kind):
            '''kind: one of "soft", "swish".'''
            @tf.custom_gradient
            def active(x):
                if kind == "soft":
                    return tf.nn.softplus(x), lambda dy: dy * tf.sigmoid(x)
                return x * tf.sigmoid(x), lambda dy: dy * tf.sigmoid(x) * (1 + x)
            return active
        """,
        "activation.active", "wrong", "right at these inputs; with kind='swish',", "",
    ),
    (
        """
        @tf.custom_gradient
        def averaged(x, window=3):
            '''Moving average of odd width.'''
            def smooth(v):
                p, n = window // 2, v.shape[-1]
                v = tf.pad(v, [[0, 0]] * (len(v.shape) - 1) + [[p, p]])
                return sum(v[..., k : k + n] for k in range(window)) / window
            return smooth(x), lambda dy: smooth(dy)
        """,
        "averaged", "right", "calls", "",
    ),
    (
        """
        @tf.custom_gradient
        def opened(x):
            '''ReLU whose gradient stays open for negative inputs.'''
            return tf.nn.relu(x), lambda dy: tf.where(x > 0, dy, 0.1 * dy)
        """,
        "opened", "undecided", "it says “ReLU whose gradient stays open for negative inputs”", "",
    ),
    (
        ("@tf.custom_gradient\ndef private(x):\n"
        "    return tf.identity(x), lambda dy: dy + 0.1 * tf.random.normal(tf.shape(dy))\n"),
        "private", "undecided", "changes the upstream", "",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("made_up"), HEAD, FORMS)


@pytest.mark.parametrize("form", FORMS, ids=[form[1] for form in FORMS])
def test_each_has_its_line(results, form):
    assert_line(results[form[1]], form)


GUARDED = """
@tf.custom_gradient
def speed(p, m):
    '''p: [N, 3], m: [N]'''
    d = tf.maximum(m, 1e-8)
    return p / d[:, None], lambda dy: (dy / d[:, None], -tf.reduce_sum(dy * p, 1) / d**2)
"""


def test_a_guard_against_zero_is_not_blamed_on_the_rule(tmp_path):
    (tmp_path / "guarded.py").write_text(HEAD + GUARDED, encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--no-isolate"])
    assert "? " in done.output
    assert "right for inputs between 0 and 1" in done.output
