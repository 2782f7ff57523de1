"""What defining a gradient costs: eager, in a tf.function, in memory, and over time.

python benchmarks/define.py [eager] [graph] [memory] [leak]
"""

import gc
import sys
from collections.abc import Callable

from _measure import alone, compare, print_amounts, print_ratios, quiet, resident_mib, seconds

quiet()

import tensorflow as tf
from tensorflow.python.eager import record
from tensorflow.python.framework import func_graph, ops

import pullback as pb

Function = Callable[[tf.Tensor], tf.Tensor]
x = tf.constant([0.1, 0.2, 0.3])


def exp_and_backward(x: tf.Tensor) -> tuple[tf.Tensor, Function]:
    y = tf.exp(x)

    def backward(dy: tf.Tensor) -> tf.Tensor:
        return dy * y

    return y, backward


def recorded_exp(x: tf.Tensor) -> tf.Tensor:
    """The least that recording a rule can cost."""
    with record.stop_recording():
        y = tf.exp(x)
    record.record_operation("exp", [y], [x], lambda dy: [dy * y])
    return y


def exp_rule(dy: tf.Tensor, *, outputs: tf.Tensor) -> tf.Tensor:
    return dy * outputs


EXP = {
    "tf.exp": tf.exp,
    "tf.custom_gradient": tf.custom_gradient(exp_and_backward),
    "record_operation": recorded_exp,
    "pb.custom_gradient": pb.custom_gradient(exp_and_backward),
    "pb.with_gradient": pb.with_gradient(tf.exp, exp_rule),
}
OURS = ("pb.custom_gradient", "pb.with_gradient")


def bars(limit: float) -> dict[str, float]:
    return dict.fromkeys(OURS, limit)


def forward_and_backward(fn: Function) -> tf.Tensor:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = fn(x)
    return tape.gradient(y, x)


def hundred_forward(fn: Function) -> None:
    with tf.GradientTape() as tape:
        tape.watch(x)
        for _ in range(100):
            fn(x)


def eager() -> bool:
    forward = {name: lambda fn=fn: fn(x) for name, fn in EXP.items()}
    watched = {name: lambda fn=fn: hundred_forward(fn) for name, fn in EXP.items()}
    both = {name: lambda fn=fn: forward_and_backward(fn) for name, fn in EXP.items()}
    return all(
        [
            print_ratios("eager, tiny op: forward", compare(forward, bars=bars(2.0), calls=500)),
            print_ratios("the same, watched, × 100", compare(watched, bars=bars(2.0), calls=5)),
            print_ratios("eager, tiny op: forward + backward", compare(both, bars=bars(1.15))),
        ]
    )


def chain(fn: Function, length: int = 40) -> Function:
    def run(x: tf.Tensor) -> tf.Tensor:
        for _ in range(length):
            x = fn(x * 0.1)
        return x

    return run


def with_gradient_inside(fn: Function) -> Function:
    def run(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = fn(x)
        return tape.gradient(y, x)

    return run


def trace(fn: Function) -> object:
    return tf.function(fn, autograph=False).get_concrete_function(tf.TensorSpec([3], tf.float32))


def graph() -> bool:
    plain = {name: chain(fn) for name, fn in EXP.items() if name != "record_operation"}
    inside = {name: with_gradient_inside(fn) for name, fn in plain.items()}
    verdicts = []
    for title, functions in {"forward": plain, "forward + backward": inside}.items():
        traced = {name: tf.function(fn) for name, fn in functions.items()}
        running = {name: lambda fn=fn: fn(x) for name, fn in traced.items()}
        tracing = {name: lambda fn=fn: trace(fn) for name, fn in functions.items()}
        runs = compare(running, bars=bars(1.02), turns=40)
        traces = compare(tracing, bars=bars(1.3), turns=15, calls=1)
        verdicts += [
            print_ratios(f"tf.function, 40 ops: run, {title}", runs),
            print_ratios(f"tf.function, 40 ops: trace, {title}", traces),
        ]
    return all(verdicts)


def sines(x: tf.Tensor) -> tf.Tensor:
    for _ in range(20):
        x = tf.sin(x)
    return x


def sines_and_backward(x: tf.Tensor) -> tuple[tf.Tensor, Function]:
    return sines(x), lambda dy: dy


def held_mib(kind: str) -> float:
    """What the tape keeps alive of 20 sines of a 4 MB tensor, the input and the output left out."""
    functions = {
        "plain": sines,
        "stock": tf.custom_gradient(sines_and_backward),
        "pullback": pb.custom_gradient(sines_and_backward),
    }
    x = tf.ones([1024, 1024])
    functions[kind](tf.ones([2]))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = sines(tf.stop_gradient(x))
        gc.collect()
        before = resident_mib()
        y = None
        y = functions[kind](x)
        gc.collect()
        held = resident_mib() - before
    del y
    return held


def memory() -> bool:
    limits = {"plain": None, "stock": None, "pullback": 1.0}
    rows = [(kind, alone(held_mib, kind), limit) for kind, limit in limits.items()]
    return print_amounts(
        "held after 20 sines of a 4 MB tensor; the rule holds nothing", rows, "MiB"
    )


def growth(kind: str) -> dict[str, float]:
    """What 200 traces and 2,000 eager calls leave behind."""
    decorate = {"stock": tf.custom_gradient, "pullback": pb.custom_gradient}[kind]
    fn = decorate(exp_and_backward)

    def work(traces: int, calls: int) -> None:
        seconds(lambda: trace(with_gradient_inside(fn)), traces)
        seconds(lambda: forward_and_backward(fn), calls)
        gc.collect()

    work(20, 200)
    before = _counts()
    work(200, 2000)
    return {name: count - before[name] for name, count in _counts().items()}


def _counts() -> dict[str, float]:
    graphs = sum(isinstance(thing, func_graph.FuncGraph) for thing in gc.get_objects())
    registered = len(ops.gradient_registry._registry)
    return {"live FuncGraphs": graphs, "registry entries": registered, "MiB": resident_mib()}


def leak() -> bool:
    limits = {"live FuncGraphs": 0.0, "registry entries": 0.0, "MiB": 5.0}
    rows = []
    for kind in ("stock", "pullback"):
        left = alone(growth, kind)
        rows += [
            (f"{kind}: {name}", left[name], limit if kind == "pullback" else None)
            for name, limit in limits.items()
        ]
    return print_amounts("left behind by 200 traces and 2,000 eager calls", rows, "more")


PARTS = {"eager": eager, "graph": graph, "memory": memory, "leak": leak}

if __name__ == "__main__":
    verdicts = [PARTS[name]() for name in sys.argv[1:] or PARTS]
    sys.exit(not all(verdicts))
