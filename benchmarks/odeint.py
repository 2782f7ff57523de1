"""The adjoints of a neural differential equation beside autodiff through all the steps: memory and CPU time.

python benchmarks/odeint.py
"""

import sys
from typing import Any

from _measure import quiet
from _saving import gradients_of, in_mode, least_times, measure, peak_of, show

quiet()

import tensorflow as tf

import pullback as pb

ROWS, WIDTH, STEPS = 256, 128, 100
KINDS = ("autodiff", "continuous", "discrete")


def field(y: Any, t: Any, weights: Any) -> Any:
    del t
    return tf.tanh(tf.matmul(y, weights))


def by_autodiff(y: Any, weights: Any) -> Any:
    """The same steps of the method of Runge and Kutta, differentiated as they are."""
    h = tf.constant(1.0 / STEPS)

    def step(y: Any) -> Any:
        a = field(y, 0.0, weights)
        b = field(y + h / 2 * a, 0.0, weights)
        c = field(y + h / 2 * b, 0.0, weights)
        d = field(y + h * c, 0.0, weights)
        return (y + h / 6 * (a + 2 * b + 2 * c + d),)

    if tf.executing_eagerly():
        for _ in range(STEPS):
            (y,) = step(y)
        return y
    return tf.while_loop(lambda y: True, step, (y,), maximum_iterations=STEPS)[0]


def loss(kind: str) -> Any:
    def run(y: Any, weights: Any) -> Any:
        if kind == "autodiff":
            return tf.reduce_sum(by_autodiff(y, weights) ** 2)
        adjoint: Any = kind
        found = pb.functions.odeint(
            field, y, [0.0, 1.0], weights, method="rk4", steps=STEPS, adjoint=adjoint
        )
        return tf.reduce_sum(found[-1] ** 2)

    return run


def step(kind: str, mode: str) -> Any:
    y = tf.random.stateless_normal([ROWS, WIDTH], (1, 7))
    weights = tf.random.stateless_normal([WIDTH, WIDTH], (2, 7)) / WIDTH**0.5
    return in_mode(mode, gradients_of(loss(kind)), y, weights)


def memory(kind: str, mode: str) -> float:
    return peak_of(step(kind, mode))


def times(mode: str) -> dict[str, float]:
    return least_times({kind: step(kind, mode) for kind in KINDS}, turns=5)


if __name__ == "__main__":
    title = f"odeint, {ROWS} × {WIDTH}, {STEPS} steps of rk4"
    sys.exit(not show(title, measure(memory, times, KINDS), {}))
