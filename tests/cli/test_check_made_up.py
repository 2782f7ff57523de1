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
    (
        """
        @tf.custom_gradient
        def log_dets(a):
            '''log|det a| for a batch of square matrices [batch, n, n]'''
            inverse = tf.linalg.inv(tf.transpose(a, [0, 2, 1]))
            return tf.linalg.slogdet(a)[1], lambda dy: dy[:, None, None] * inverse
        """,
        "log_dets", "right", "calls", "a float32[3, 4, 4] (docstring)",
    ),
    (
        ("@tf.custom_gradient\ndef unsaid_log_dets(a):\n    inverse = tf.linalg.inv(tf.transpose(a, [0, 2, 1]))\n"
        "    return tf.linalg.slogdet(a)[1], lambda dy: dy[:, None, None] * inverse\n"),
        "unsaid_log_dets", "right", "calls", "a float32[3, 4, 4] (source)",
    ),
    (
        """
        @tf.custom_gradient
        def triplets(anchor, other, third):
            '''Triplet loss per example for batches of embeddings.'''
            def grad(dy):
                s = 2.0 * dy[:, None]
                return s * (third - other), s * (other - anchor), s * (anchor - third)
            loss = tf.reduce_sum((anchor - other) ** 2, -1) - tf.reduce_sum((anchor - third) ** 2, -1)
            return loss, grad
        """,
        "triplets", "right", "calls", "anchor float32[3, 4] (tried)",
    ),
    (
        ("@tf.custom_gradient\ndef unit(x):\n    n = tf.norm(x, axis=-1)\n"
        "    return n, lambda dy: dy * x / n\n"),
        "unit", "undecided", "right at these inputs; with x float32[3, 5] (tried), the rule raises", "x float32[5]",
    ),
    (
        "@tf.custom_gradient\ndef two_results(a):\n    return (a, a ** 2), lambda dy: dy\n",
        "two_results", "wrong", "takes 1 positional argument but 2 were given", "",
    ),
    (
        ("W = tf.Variable(2.0)\n@tf.custom_gradient\ndef hidden_variable(x):\n"
        "    return x * W, lambda dy: dy * W\n"),
        "hidden_variable", "wrong", "the framework raises at every call: TypeError", "x float32[3, 4] (tried)",
    ),
    (
        ("@tf.custom_gradient\ndef volume(cov):\n"
        "    return tf.math.log(tf.linalg.det(cov)), lambda dy: dy * tf.linalg.inv(cov)\n"),
        "volume", "right", "calls", "cov float32[3, 3] (name)",
    ),
    (
        """
        @tf.custom_gradient
        def form(x, A):
            '''x^T A x for a vector x and an n x n matrix A (Gauss, 1809).'''
            y = tf.linalg.matvec(A, x)
            both = y + tf.linalg.matvec(A, x, transpose_a=True)
            return tf.reduce_sum(x * y), lambda dy: (dy * both, dy * tf.tensordot(x, x, 0))
        """,
        "form", "right", "calls", "x float32[3] (docstring), A float32[3, 3] (docstring)",
    ),
    (
        """
        @tf.custom_gradient
        def solved(A, b):
            '''Solves A x = b; A an n x n matrix, b a vector of n.'''
            x = tf.linalg.solve(A, b[:, None])[:, 0]
            def grad(dy):
                g = tf.linalg.solve(A, dy[:, None], adjoint=True)[:, 0]
                return -g[:, None] * x[None, :], g
            return x, grad
        """,
        "solved", "right", "calls", "A float32[3, 3] (docstring), b float32[3] (docstring)",
    ),
    (
        """
        @tf.custom_gradient
        def weighed(x, scale, weight, mask):
            '''Errors; `scale` > 0 has the shape of `x`, weight is a scalar; mask is boolean with the shape of x.'''
            m = tf.cast(mask, x.dtype)
            def grad(dy):
                d = dy * m / scale
                return d * weight, -d * weight * x / scale, tf.reduce_sum(d * x), None
            return m * weight * x / scale, grad
        """,
        "weighed", "right", "calls",
        "scale float32[3, 4] (docstring), weight float32[] (docstring), mask bool[3, 4] (docstring)",
    ),
    (
        """
        @tf.custom_gradient
        def correlated(signal, kernel):
            '''Correlation of a signal of shape (length,) with a kernel of shape (width,), width <= length.'''
            n, k = signal.shape[0] - kernel.shape[0] + 1, kernel.shape[0]
            w = tf.stack([signal[i : i + k] for i in range(n)])
            def grad(dy):
                rows = [dy[i] * tf.pad(kernel, [[i, n - 1 - i]]) for i in range(n)]
                return tf.add_n(rows), tf.linalg.matvec(w, dy, transpose_a=True)
            return tf.linalg.matvec(w, kernel), grad
        """,
        "correlated", "right", "calls", "signal float32[5] (docstring), kernel float32[3] (docstring)",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("made_up"), HEAD, FORMS)


@pytest.mark.parametrize("form", FORMS, ids=[form[1] for form in FORMS])
def test_each_has_its_line(results, form):
    assert_line(results[form[1]], form)


def test_the_kind_of_a_matrix_that_was_made_up_is_said(results):
    assert results["volume"]["notes"] == ["tested for definite matrices"]


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
