"""The first thing that a process does with pullback may happen in a graph."""

import subprocess
import sys

import pytest

PROGRAM = """
import tensorflow as tf
import pullback as pb

def times_seven(dy):
    return -7.0 * dy

def by_override(x):
    with pb.override({"Relu": times_seven}):
        return tf.nn.relu(x)

def by_definition(x):
    return pb.custom_gradient(lambda a: (tf.nn.relu(a), times_seven))(x)

def in_graph(function):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        x = tf.constant([1.0, -1.0])
        return session.run(tf.gradients(function(x), x)[0])

def in_function(function):
    traced = tf.function(lambda x: tf.gradients(function(x), x)[0])
    return traced(tf.constant([1.0, -1.0])).numpy()

def without_eager_execution(function):
    tf.compat.v1.disable_eager_execution()
    return in_graph(function)

print(PLACE(FUNCTION).tolist())
"""


@pytest.mark.parametrize("place", ["in_graph", "in_function", "without_eager_execution"])
@pytest.mark.parametrize("function", ["by_override", "by_definition"])
def test_in_a_graph(function: str, place: str) -> None:
    program = PROGRAM.replace("PLACE", place).replace("FUNCTION", function)
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert ran.stdout.strip() == "[-7.0, -7.0]", ran.stderr
