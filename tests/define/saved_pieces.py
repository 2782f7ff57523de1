"""A module of functions with their own gradients, to be written as a SavedModel, and what must come out of it.

The reading side of this file runs in a process that has never heard of the library.
"""

import numpy as np

X = np.array([0.5, -1.5, 2.0], np.float32)
W = np.array([2.0, 3.0, 4.0], np.float32)
Y = 10 * X

# name -> (gradient of the sum of the output, gradient of the sum of squares of that gradient)
WANTED = {
    "constant": (7 + 0 * X, 0 * X),
    "from_input": (X**3, 2 * X**3 * 3 * X**2),
    "from_intermediate": (np.exp(X), 2 * np.exp(X) * np.exp(X)),
    "from_output": (5 * np.tanh(X), 2 * 5 * np.tanh(X) * 5 / np.cosh(X) ** 2),
    "original": (1.5 * X**2, 2 * 1.5 * X**2 * 3 * X),
    "captured": (7 + 0 * X, 0 * X),
    "asks_for_variables": (7 + 0 * X, 0 * X),
    "in_cond": (7 + 0 * X, 0 * X),
    "in_loop": (3 * 2.0**3 / 3 + 0 * X, 0 * X),
    "structures": (3 + 0 * X, 0 * X),
    "unknown_shape": (X**3, 2 * X**3 * 3 * X**2),
    "partials": (np.cos(X), 2 * np.cos(X) * -np.sin(X)),
    "inner_function": (X**3, 2 * X**3 * 3 * X**2),
}
VARIABLE_GRADIENT = {"captured": X, "asks_for_variables": 10 + 0 * X}


def check(path: str) -> list[str]:
    """The names whose gradients are not what they must be, in a SavedModel."""
    import tensorflow as tf

    module = tf.saved_model.load(path)
    wrong = []
    for name, (first, second) in WANTED.items():
        found = gradients(getattr(module, name), module.w)
        wanted = [first, second, VARIABLE_GRADIENT.get(name, 0 * X)]
        if not all(np.allclose(f, w, rtol=1e-4) for f, w in zip(found, wanted, strict=True)):
            wrong.append(f"{name}: {found} is not {wanted}")
    return wrong


def gradients(function, variable):
    import tensorflow as tf

    x = tf.constant(X)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            total = tf.reduce_sum(function(x))
        first, of_variable = inner.gradient(total, [x, variable])
        square = tf.reduce_sum(first**2)
    second = outer.gradient(square, x)
    return [0 * X if g is None else g.numpy() for g in (first, second, of_variable)]
