"""Implicit gradients beside autodiff through all the steps: an equilibrium layer, and Kepler's equation.

Memory is that of one step of training above what is held before it, in a process of its own; CPU time is taken in
turns.
"""

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measure import alone, compare, peak_mib, print_amounts, quiet, resident_mib

quiet()

STEPS = 100
ROWS, WIDTH, ORBITS = 512, 384, 10**6
MODES = ("eager", "graph", "XLA")
BARS = {
    "equilibrium": {"memory": (0.045, 0.035, 0.037), "time": (0.40, 0.35, 0.30)},
    "kepler": {"memory": (0.01, 0.01, 0.01), "time": (0.33, 0.30, 0.16)},
}


def case(name: str, who: str, mode: str) -> Callable[[], Any]:
    """One forward and backward pass."""
    import numpy as np
    import tensorflow as tf

    import pullback as pb

    draw = np.random.default_rng(0)

    def layer(z: Any, w: Any, x: Any) -> Any:
        return tf.tanh(tf.matmul(z, w) + x)

    def newton(x: Any, e: Any, m: Any) -> Any:
        return x - (x - e * tf.sin(x) - m) / (1 - e * tf.cos(x))

    def repeated(step: Any, x: Any, *args: Any) -> Any:
        if mode == "eager" or name == "equilibrium":
            for _ in range(STEPS):
                x = step(x, *args)
            return x

        # Unrolled, a hundred of these steps take XLA many minutes to compile.
        def body(x: Any) -> Any:
            return (step(x, *args),)

        return tf.while_loop(lambda x: True, body, (x,), maximum_iterations=STEPS)[0]

    fixed: Any = {"tolerance": None, "max_steps": STEPS}
    functions: Any = {
        ("equilibrium", "autodiff"): lambda w, x: repeated(layer, tf.zeros_like(x), w, x),
        ("equilibrium", "ours"): lambda w, x: pb.functions.fixed_point(
            layer, tf.zeros_like(x), w, x, **fixed
        ),
        ("kepler", "autodiff"): lambda e, m: repeated(newton, m, e, m),
        ("kepler", "ours"): lambda e, m: pb.functions.root(
            lambda x, e, m: x - e * tf.sin(x) - m, m, e, m, step=newton, batch_dims=1, **fixed
        ),
    }
    if name == "equilibrium":
        w = draw.normal(size=[WIDTH, WIDTH]) * 0.4 / WIDTH**0.5
        args = [w, 0.5 * draw.normal(size=[ROWS, WIDTH])]
    else:
        args = [draw.uniform(0.1, 0.7, ORBITS), draw.uniform(0.0, 6.0, ORBITS)]
    tensors = [tf.constant(a, tf.float32) for a in args]
    function = functions[name, who]

    def step(*xs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            loss = tf.reduce_sum(function(*xs) ** 2)
        return tape.gradient(loss, xs)

    run: Any = step if mode == "eager" else tf.function(step, jit_compile=mode == "XLA")
    return lambda: run(*tensors)


def memory(name: str, who: str, mode: str) -> float:
    """MiB above what is held, at the peak of a steady step."""
    run = case(name, who, mode)
    for _ in range(2):
        run()
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = resident_mib()
    run()
    return peak_mib() - before


def times(name: str, mode: str) -> list[Any]:
    """The ratio of CPU times, with its quartiles."""
    cases = {who: case(name, who, mode) for who in ("autodiff", "ours")}
    ours = compare(cases, turns=5, calls=1)[1]
    return [ours.median, ours.low, ours.high, ours.micros]


def main(names: list[str]) -> bool:
    good = True
    rows: list[str] = []
    for name in names:
        found: dict[str, list[float]] = {"plain": [], "ours": [], "memory": [], "time": []}
        for mode in MODES:
            plain, ours = (alone(memory, name, who, mode) for who in ("autodiff", "ours"))
            found["plain"].append(plain)
            found["ours"].append(ours)
            found["memory"].append(ours / plain)
            found["time"].append(alone(times, name, mode, timed=True)[0])
        for what in ("memory", "time"):
            bars = BARS[name][what]
            amounts = [
                (m, 100 * r, 100 * b) for m, r, b in zip(MODES, found[what], bars, strict=True)
            ]
            good &= print_amounts(f"{name}: {what}, ours / autodiff", amounts, "%")
        rows.append(_row(name, found))
    print("\n".join(rows))
    return good


def _row(name: str, found: dict[str, list[float]]) -> str:
    """The line of the table in the docs."""
    cells = [
        " / ".join(f"{v:.0f}" for v in found["plain"]),
        " / ".join(f"{v:.1f}" for v in found["ours"]),
    ]
    cells += [
        " / ".join(f"{v:.3f}" for v in found["memory"]),
        " / ".join(f"{v:.2f}" for v in found["time"]),
    ]
    return f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(not main(sys.argv[1:] or list(BARS)))
