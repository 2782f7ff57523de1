"""The loss of a large vocabulary: what waits in memory for the backward pass, before and after."""

import numpy as np
import tensorflow as tf

import pullback as pb
from pullback.tour import Line, Story

TOKENS, WIDTH, VOCABULARY = 64, 16, 4096
draw = np.random.default_rng(0)
x = tf.constant(draw.normal(size=[TOKENS, WIDTH]), tf.float32)
weights = tf.constant(draw.normal(size=[WIDTH, VOCABULARY]), tf.float32)
labels = tf.constant(draw.integers(0, VOCABULARY, TOKENS))


def by_logits(x, weights):
    logits = x @ weights
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def without_logits(x, weights):
    return pb.functions.linear_cross_entropy(x, weights, labels)


def exact_loss():
    logits = x.numpy().astype(float) @ weights.numpy().astype(float)
    chosen = logits[np.arange(TOKENS), labels.numpy()]
    return np.mean(np.log(np.sum(np.exp(logits), -1)) - chosen)


def as_large_as_logits(loss):
    """How many tensors of the size of the logits, or more, are kept for the backward pass."""
    kept = pb.explain(loss, x, weights).residuals()
    return sum(each.bytes >= TOKENS * VOCABULARY * 4 for each in kept)


story = Story(
    "Memory before and after: what does a loss over a large vocabulary keep?",
    stock=by_logits,
    ours=without_logits,
    lines=[
        Line("loss", lambda loss: loss(x, weights), exact_loss()),
        Line("tensors as large as the logits", as_large_as_logits, 0),
    ],
    moral="A backward pass may compute again what it needs, part by part: the logits never are in memory at once.",
)

if __name__ == "__main__":
    story.show()
