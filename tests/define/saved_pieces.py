"""A module of functions with their own gradients, to be written as a SavedModel, and what must come out of it.

The reading side of this file runs in a process that has never heard of the library.
"""

import numpy as np

X = np.array([0.5, -1.5, 2.0], np.float32)
W = np.array([2.0, 3.0, 4.0], np.float32)
Y = 10 * X

# name -> (gradient of the sum of the output, gradient of the sum of squares of that gradient)
WANTED = {
    "constant": (7 + 0 * X, None),
    "from_input": (X**3, 2 * X**3 * 3 * X**2),
    "from_intermediate": (np.exp(X), 2 * np.exp(X) * np.exp(X)),
    "from_output": (5 * np.tanh(X), 2 * 5 * np.tanh(X) * 5 / np.cosh(X) ** 2),
    "original": (1.5 * X**2, 2 * 1.5 * X**2 * 3 * X),
    # The gradient of the variable depends on x, so that TensorFlow differentiates it too: by zeros.
    "captured": (7 + 0 * X, 0 * X),
    "asks_for_variables": (7 + 0 * X, None),
    "in_cond": (7 + 0 * X, None),
    "in_loop": (3 * 2.0**3 / 3 + 0 * X, None),
    "structures": (3 + 0 * X, None),
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
        wanted = [first, second, VARIABLE_GRADIENT.get(name)]
        if not all(map(agree, found, wanted)):
            wrong.append(f"{name}: {found} is not {wanted}")
    return wrong


def agree(found, wanted):
    if found is None or wanted is None:
        return found is None and wanted is None
    return found.shape == np.shape(wanted) and np.allclose(found, wanted, rtol=1e-4)


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
    return [None if g is None else g.numpy() for g in (first, second, of_variable)]
