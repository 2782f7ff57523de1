"""Mistakes about the size of a batch, at inputs that are made up."""

import json

import pytest
from typer.testing import CliRunner

from pullback.cli import app

# Means over the batch, each with a rule that forgets to divide, or that divides twice.
LOSSES = """
import tensorflow as tf


@tf.custom_gradient
def dense(x, w, b):
    y = x @ w + b
    def grad(dy):
        g = 2 * dy * y
        return g @ tf.transpose(w), tf.transpose(x) @ g, tf.reduce_sum(g, 0)
    return tf.reduce_mean(tf.reduce_sum(y**2, -1)), grad


@tf.custom_gradient
def sequence(x, w):
    y, n = tf.einsum("btd,de->bte", x, w), tf.cast(tf.shape(x)[0], x.dtype)
    def grad(dy):
        g = dy * tf.cos(y) / n / n
        return tf.einsum("bte,de->btd", g, w), tf.einsum("btd,bte->de", x, g)
    return tf.reduce_sum(tf.sin(y)) / n, grad


@tf.custom_gradient
def pictures(x):
    y = tf.nn.avg_pool2d(x, 2, 2, "VALID")
    def grad(dy):
        g = tf.repeat(tf.repeat(dy * tf.cos(y) / 4, 2, 1), 2, 2)
        return g
    return tf.reduce_sum(tf.sin(y)) / tf.cast(tf.shape(x)[0], x.dtype), grad
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    file = tmp_path_factory.mktemp("batch") / "losses.py"
    file.write_text(LOSSES, encoding="utf-8")
    done = CliRunner().invoke(app, ["check", str(file), "--no-isolate", "--json", "-"])
    return {one["name"]: one["text"] for one in json.loads(done.stdout)["results"]}


@pytest.mark.parametrize("name", ["dense", "sequence", "pictures"])
def test_the_size_of_the_batch_is_named(told, name):
    assert "(3 is the size of axis 0 of `x`)" in told[name]
