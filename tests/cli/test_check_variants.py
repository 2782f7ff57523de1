"""What is right with its defaults is checked with other settings; shapes are read wherever a docstring has them."""

import textwrap

import pytest
from typer.testing import CliRunner

from pullback.cli import app
from tests.cli.forms import assert_line, results_of

HEAD = "import tensorflow as tf\n"
FORMS = [
    (
        """
        @tf.custom_gradient
        def log_shares(x, axis=-1):
            y = tf.nn.log_softmax(x, axis=axis)
            return y, lambda dy: dy - tf.exp(y) * tf.reduce_sum(dy, axis=-1, keepdims=True)
        """,
        "log_shares", "wrong", "right at these inputs; with axis=0,", "x float32[3, 4] (tried)",
    ),
    (
        """
        @tf.custom_gradient
        def log_shares_along(x, axis=-1):
            y = tf.nn.log_softmax(x, axis=axis)
            return y, lambda dy: dy - tf.exp(y) * tf.reduce_sum(dy, axis=axis, keepdims=True)
        """,
        "log_shares_along", "right", "calls", "",
    ),
    (
        """
        def make_tanh(beta=1.0):
            @tf.custom_gradient
            def scaled_tanh(x):
                y = tf.tanh(beta * x)
                return y, lambda dy: dy * (1.0 - y * y)
            return scaled_tanh
        """,
        "make_tanh.scaled_tanh", "wrong", "right at these inputs; with beta=0.6,", "",
    ),
    (
        """
        def total(x, reverse=False):
            @tf.custom_gradient
            def summed(x):
                return tf.cumsum(x, 1, reverse=reverse), lambda dy: tf.cumsum(dy, 1, reverse=True)
            return summed(x)
        """,
        "total.summed", "wrong", "right at these inputs; with reverse=True,", "(by total)",
    ),
    (
        """
        def make_loss(reduction="sum"):
            @tf.custom_gradient
            def squares(x):
                total = tf.reduce_sum(x * x)
                if reduction == "mean":
                    total = total / tf.cast(tf.size(x), x.dtype)
                return total, lambda dy: 2.0 * x * dy
            return squares
        """,
        "make_loss.squares", "wrong", "right at these inputs; with reduction='mean',", "",
    ),
    (
        """
        @tf.custom_gradient
        def masked_squares(x, mask=None):
            kept = x if mask is None else x * mask
            return tf.reduce_sum(kept * kept), lambda dy: 2.0 * x * dy
        """,
        "masked_squares", "wrong", "right at these inputs; with mask float32[3, 4],", "",
    ),
    (
        """
        @tf.custom_gradient
        def sharpened(logits, temperature):
            '''Shares of logits [batch, classes].

            temperature: scalar tensor, may be learned
            '''
            y = tf.nn.softmax(logits / temperature)
            total = lambda dy: tf.reduce_sum(dy * y, -1, keepdims=True)
            return y, lambda dy: (y * (dy - total(dy)) / temperature, None)
        """,
        "sharpened", "undecided", "there is no gradient for `temperature`", "logits float32[3, 4] (docstring)",
    ),
    (
        """
        @tf.custom_gradient
        def filtered(spectrum, response):
            '''A spectrum times a response (both complex, [batch, bins]).'''
            return spectrum * response, lambda dy: (dy * response, dy * spectrum)
        """,
        "filtered", "wrong", "conj", "spectrum complex64[3, 4] (docstring), response complex64[3, 4] (docstring)",
    ),
    (
        """
        @tf.custom_gradient
        def last_steps(x, lengths):
            '''The last valid steps. x: [batch, time, features], lengths: [batch] int.'''
            hot = tf.one_hot(lengths - 1, x.shape[1])[:, :, None]
            return tf.reduce_sum(x * hot, 1), lambda dy: (dy[:, None] * hot, None)
        """,
        "last_steps", "right", "calls", "x float32[3, 4, 5] (docstring), lengths int32[3] (docstring)",
    ),
    (
        """
        @tf.custom_gradient
        def powers(x, order=2, scale=3.0):
            return scale * x**order, lambda dy: (dy * scale * order * x ** (order - 1), None, None)
        """,
        "powers", "undecided", "with `order`, `scale` left out, ", "order=2 (default), scale float32[] (default)",
    ),
    (
        """
        def make_focus(gamma=2.0):
            @tf.custom_gradient
            def focus(x):
                y = tf.abs(x) ** gamma
                return y, lambda dy: dy * 2.0 * tf.sign(x) * tf.abs(x) ** (gamma - 1.0)
            return focus
        """,
        "make_focus.focus", "wrong", "right at these inputs; with gamma=3.0,", "",
    ),
    (
        """
        @tf.custom_gradient
        def log_rest(x):
            '''log(1 - exp(x)), for x < 0.'''
            return tf.math.log(-tf.math.expm1(x)), lambda dy: -dy / tf.math.expm1(-x)
        """,
        "log_rest", "right", "calls", "x float32[3, 4] (tried)",
    ),
    (
        """
        def channels(x):
            @tf.custom_gradient
            def summed(x):
                tf.debugging.assert_less(tf.rank(x), 3)
                return tf.reduce_sum(x), lambda dy: dy * tf.ones_like(tf.reduce_sum(x, [0, 1, 2]))
            return summed(x)
        """,
        "channels.summed", "undecided", "wrong at all inputs that were tried: the rule raises", "(by channels)",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return results_of(tmp_path_factory.mktemp("variants"), HEAD, FORMS)


@pytest.mark.parametrize("form", FORMS, ids=[form[1] for form in FORMS])
def test_each_form_has_its_line(results, form):
    assert_line(results[form[1]], form)


ROOT = """
        @tf.custom_gradient
        def root(cov):
            values, basis = tf.linalg.eigh(0.5 * (cov + tf.transpose(cov)))
            roots = tf.sqrt(tf.maximum(values, 1e-12))
            def grad(dy):
                inner = tf.transpose(basis) @ (0.5 * (dy + tf.transpose(dy))) @ basis
                return basis @ (inner / (roots[:, None] + roots[None, :])) @ tf.transpose(basis)
            return (basis * roots) @ tf.transpose(basis), grad
        """


def test_a_function_of_definite_matrices_is_not_wrong_elsewhere(tmp_path):
    (tmp_path / "root.py").write_text(HEAD + textwrap.dedent(ROOT), encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(tmp_path), "--no-isolate"])
    assert "right at these inputs, which are positive definite, but else" in done.output
