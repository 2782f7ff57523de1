"""What the documentation advises and changes for a whole process, each in a process of its own."""

import subprocess
import sys

import pytest

# Every program says what it expects by `expect(found, wanted)`.
HEAD = """
import numpy as np
import tensorflow as tf
import pullback as pb

X = np.array([0.5, -1.5], np.float32)

def gradient(function, x=X):
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x).numpy()

def expect(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-6)

def triple(dy):
    return 3.0 * dy
"""

# All that a program may put in the place of TensorFlow's, and what is done afterwards.
SWAPPED = """
register = tf.RegisterGradient
tf.RegisterGradient = lambda name: register(name)
tf.recompute_grad = pb.functions.checkpoint
tf.identity = pb.with_gradient(tf.identity, lambda dy: 7.0 * dy)
tf.nn.relu = pb.with_gradient(tf.nn.relu, lambda dy: 5.0 * dy)
tf.custom_gradient = pb.custom_gradient

@tf.custom_gradient
def rounded(x, by=1.0):
    return tf.round(x) * by, triple

@tf.RegisterGradient("Quadruple")
def quadruple(op, dy):
    return 4.0 * dy

@tf.function
def mapped(x):
    with tf.compat.v1.get_default_graph().gradient_override_map({"Sin": "Quadruple"}):
        return tf.sin(x)

for wrap in (lambda f: f, tf.function):
    expect(gradient(wrap(lambda x: rounded(x=x, by=2.0))), [3.0, 3.0])
    expect(gradient(wrap(tf.nn.relu)), [5.0, 5.0])
    expect(gradient(wrap(tf.identity)), [7.0, 7.0])
    expect(gradient(wrap(tf.recompute_grad(lambda x: rounded(x) * x))), 3.0 * X + np.round(X))
expect(gradient(mapped), [4.0, 4.0])
with pb.override({"Sin": triple}):
    expect(gradient(tf.sin), [3.0, 3.0])
assert pb.check(rounded, tf.constant(X), against=lambda x: 3.0 * x).ok
assert not pb.check(rounded, tf.constant(X)).ok
assert "has a gradient" in str(pb.explain(lambda x: rounded(tf.sin(x)), tf.constant(X)).why("x"))
"""

PROGRAMS = {
    "decorators replaced before the first call": SWAPPED,
    "decorators replaced after the first call": """
expect(gradient(pb.with_gradient(tf.sin, triple)), [3.0, 3.0])
"""
    + SWAPPED,
    "an override first, under a replaced decorator": """
from tensorflow.python.ops import custom_gradient
tf.custom_gradient = custom_gradient.custom_gradient = pb.custom_gradient
with pb.override({tf.nn.relu: triple}) as tripled:
    expect(gradient(tf.nn.relu), [3.0, 3.0])
assert tripled.audit.effective == 1
""",
    "a replaced decorator, first called by two threads": """
import threading
tf.custom_gradient = pb.custom_gradient
rounded = tf.custom_gradient(lambda x: (tf.round(x), triple))
start, found = threading.Barrier(2), []

def run():
    start.wait()
    found.append(gradient(rounded))

threads = [threading.Thread(target=run) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
expect(found, [[3.0, 3.0]] * 2)
""",
    "eager execution disabled": """
tf.compat.v1.disable_eager_execution()

@pb.custom_gradient
def scaled(x):
    scale = tf.compat.v1.get_variable("scale", initializer=2.0)
    def backward(dy, *, variables):
        return 3.0 * dy, [tf.constant(11.0) for _ in variables]
    return scale * x, backward

x = tf.constant(X)
y = scaled(x)
with pb.override({"Sin": triple}):
    z = tf.sin(x)
wanted = [*tf.gradients(y, [x, *tf.compat.v1.trainable_variables()]), *tf.gradients(z, x)]
with tf.compat.v1.Session() as session:
    session.run(tf.compat.v1.global_variables_initializer())
    of_x, of_scale, of_sin = session.run(wanted)
expect(of_x, [3.0, 3.0])
expect(of_scale, 11.0)
expect(of_sin, [3.0, 3.0])
""",
    "functions run eagerly before the first use": """
tf.config.run_functions_eagerly(True)
expect(gradient(tf.function(pb.with_gradient(tf.sin, triple))), [3.0, 3.0])
with pb.override({tf.nn.relu: triple}):
    expect(gradient(tf.nn.relu), [3.0, 3.0])
assert tf.config.functions_run_eagerly()
""",
    "policies, precision and eager functions": """
import keras

def reverse(dy):  # three times as much overflows float16, whose loss is scaled
    return -dy

def fitted(dtype):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, "relu", use_bias=False)])
    model.layers[0].kernel.assign([[1.0], [1.0]])
    model.compile(keras.optimizers.SGD(1.0), "mae")
    before = model.get_weights()[0].copy()
    with pb.override({keras.activations.relu: reverse}):
        model.fit(np.ones([4, 2]), np.zeros([4, 1]), verbose=0)
    assert model.compute_dtype == dtype, model.compute_dtype
    return before - model.get_weights()[0]

rounded = pb.custom_gradient(lambda x: (tf.round(x), triple))
expect(fitted("float32"), [[-1.0], [-1.0]])
keras.config.set_dtype_policy("mixed_float16")
expect(fitted("float16"), [[-1.0], [-1.0]])
keras.config.set_floatx("float64")
keras.config.set_dtype_policy("float64")
expect(fitted("float64"), [[-1.0], [-1.0]])
expect(keras.layers.Lambda(rounded)(X).dtype.size, 8)
tf.config.run_functions_eagerly(True)
expect(fitted("float64"), [[-1.0], [-1.0]])
expect(gradient(tf.function(rounded)), [3.0, 3.0])
tf.debugging.enable_check_numerics()
expect(gradient(rounded), [3.0, 3.0])
with pb.override({"Sin": triple}):
    expect(gradient(tf.sin), [3.0, 3.0])
assert pb.explain(lambda x: rounded(tf.sin(x)), tf.constant(X)).first_nonfinite() is None
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_changes_its_process_works(name: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", HEAD + PROGRAMS[name]],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,  # it used to hang
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
