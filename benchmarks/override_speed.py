"""What overriding costs: eager, in a tf.function, on a loaded model, and over time.

python benchmarks/override_speed.py [eager] [graph] [model] [loaded] [flat]
"""

import gc
import statistics
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from _measure import alone, compare, print_amounts, print_ratios, quiet, resident_mib, seconds

quiet()

import keras
import tensorflow as tf
from tensorflow.python.autograph.impl import api as autograph
from tensorflow.python.framework import func_graph, ops

import pullback as pb

Function = Callable[[tf.Tensor], tf.Tensor]
x = tf.ones([4])


def chain(x: tf.Tensor, pairs: int = 20) -> tf.Tensor:
    """Half of the ops are ReLUs."""
    for _ in range(pairs):
        x = tf.nn.relu(x) * 2.0
    return x


def long_chain(x: tf.Tensor) -> tf.Tensor:
    return chain(x, 150)


def differentiated(fn: Function) -> Function:
    def run(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = fn(x)
        return tape.gradient(y, x)

    return run


def as_before(dy: tf.Tensor, *, original: Any) -> tf.Tensor:
    return original(dy)


def passed_on(dy: tf.Tensor) -> tf.Tensor:
    return dy


def under(
    override: pb.Override, fn: Function, times: int = 10, before: Function | None = None
) -> Callable[[], None]:
    """One block around several calls, as it is used; `before` runs once in it."""

    def run() -> None:
        with override:
            if before:
                before(x)
            for _ in range(times):
                fn(x)

    return run


def plainly(fn: Function, times: int = 10) -> Callable[[], None]:
    def run() -> None:
        for _ in range(times):
            fn(x)

    return run


def eager() -> bool:
    nothing = pb.override({"Exp": passed_on})
    verdicts = []
    for title, fn in {"forward": chain, "forward + backward": differentiated(chain)}.items():
        cases = {
            "plain": plainly(fn),
            "nothing matched": under(nothing, fn, before=tf.exp),
            "half, by op type, rule(dy)": under(pb.override({"Relu": passed_on}), fn),
            "half, by function, rule(dy)": under(pb.override({tf.nn.relu: passed_on}), fn),
            "half, by op type, original": under(pb.override({"Relu": as_before}), fn),
            "half, by function, original": under(pb.override({tf.nn.relu: as_before}), fn),
            "outside any block": plainly(fn),
        }
        bars = {name: 1.6 for name in cases if name.startswith("half")}
        bars |= {"nothing matched": 1.2, "outside any block": 1.03}
        found = compare(cases, bars=bars, turns=15, calls=10)
        verdicts.append(print_ratios(f"eager, 40 tiny ops: {title}", found))
    return all(verdicts)


def trace(fn: Function) -> object:
    return tf.function(fn, autograph=False).get_concrete_function(tf.TensorSpec([4], tf.float32))


def graph() -> bool:
    changed = {
        "op type": pb.override({"Relu": as_before}),
        "function": pb.override({tf.nn.relu: as_before}),
    }
    verdicts = []
    for title, wrap in {"forward": _same, "forward + backward": differentiated}.items():
        plain = tf.function(chain)
        running = {"plain": lambda f=wrap(plain): f(x)}
        for name, override in changed.items():
            running[f"override(tf.function), {name}"] = lambda f=wrap(override(plain)): f(x)
            running[f"tf.function(override), {name}"] = (
                lambda f=wrap(tf.function(override(chain))): f(x)
            )
        bars = dict.fromkeys(running, 1.02)
        verdicts.append(
            print_ratios(f"tf.function, 40 ops: {title}", compare(running, bars=bars, turns=40))
        )
        tracing = {"plain": lambda f=wrap(long_chain): trace(f)}
        for name, override in changed.items():
            tracing[name] = lambda f=wrap(override(long_chain)): trace(f)
        found = compare(tracing, bars=dict.fromkeys(tracing, 1.3), turns=11, calls=1)
        verdicts.append(print_ratios(f"trace 300 ops, 150 matched: {title}", found))
    return all(verdicts)


def _same(fn: Function) -> Function:
    return fn


def mobile(blocks: int = 12) -> keras.Model:
    """About 50 layers in the manner of MobileNet, and small."""
    inputs = outputs = keras.Input([16, 16, 3])
    for _ in range(blocks):
        outputs = keras.layers.DepthwiseConv2D(3, padding="same")(outputs)
        outputs = keras.layers.Conv2D(4, 1)(outputs)
        outputs = keras.layers.BatchNormalization()(outputs)
        outputs = keras.layers.ReLU()(outputs)
    pooled = keras.layers.GlobalAveragePooling2D()(outputs)
    return keras.Model(inputs, keras.layers.Dense(2)(pooled))


def first_trace(backward: bool) -> dict[str, float]:
    """The first trace of an overridden model against one of the plain model, in a process that has traced no override.

    AutoGraph keeps what it has converted, so that a second trace would not show it.
    """
    plain, image = mobile(), tf.ones([1, 16, 16, 3])
    conversions = 0
    transform = autograph._TRANSPILER.transform

    def counting(*args: Any) -> Any:
        nonlocal conversions
        conversions += 1
        return transform(*args)

    autograph._TRANSPILER.transform = counting

    def run(model: keras.Model) -> Callable[[], object]:
        def call(x: tf.Tensor) -> tf.Tensor:
            return model(x)

        fn = differentiated(call) if backward else call
        return lambda: tf.function(fn).get_concrete_function(image)

    gc.disable()  # a collection takes as long as a trace
    before = statistics.median(seconds(run(plain), 1) for _ in range(5))
    overridden = run(pb.override({tf.nn.relu: passed_on})(plain))
    conversions = 0
    first = seconds(overridden, 1)
    return {"first trace": first / before, "conversions": conversions}


def model() -> bool:
    rows = []
    for title, backward in {"forward": False, "forward + backward": True}.items():
        runs = [alone(first_trace, backward) for _ in range(3)]
        for name, limit in {"first trace": 1.3, "conversions": 3.0}.items():
            amount = statistics.median(run[name] for run in runs)
            rows.append((f"{title}: {name}", amount, limit))
    return print_amounts(
        "first trace of a Keras model of 50 layers, ReLU overridden, in a user's tf.function",
        rows,
        "× plain, or count",
    )


class Long(tf.Module):
    """A thousand ops, to be saved."""

    @tf.function(input_signature=[tf.TensorSpec([4])])
    def run(self, x: tf.Tensor) -> tf.Tensor:
        return chain(x, 500)


def loaded() -> bool:
    folder = tempfile.mkdtemp()
    tf.saved_model.save(Long(), folder)
    override = pb.override({"Relu": passed_on})

    def first_gradient(wrap: Callable[[Any], Any]) -> None:
        differentiated(wrap(tf.saved_model.load(folder).run))(x)

    cases = {"plain": lambda: first_gradient(_same), "overridden": lambda: first_gradient(override)}
    found = compare(cases, bars={"overridden": 1.1}, turns=7, calls=1)
    return print_ratios("load 1,000 ops and take the first gradient", found)


def growth(kind: str) -> dict[str, float]:
    """What many gradients under rules made afresh leave behind."""
    function = tf.function(chain)

    def fresh() -> pb.Override:
        def rule(dy: tf.Tensor) -> tf.Tensor:
            return dy * 2.0

        return pb.override({tf.nn.relu if kind == "function" else "Relu": rule})

    def work(calls: int, traces: int) -> None:
        for _ in range(calls):
            under(fresh(), differentiated(tf.nn.relu), 1)()
        for _ in range(traces):
            under(fresh(), differentiated(function), 1)()
        gc.collect()

    work(500, 60)
    before = _counts()
    start = seconds(lambda: work(100, 0), 1)
    work(5000, 200)
    left = {name: count - before[name] for name, count in _counts().items()}
    return {**left, "time, last ÷ first": seconds(lambda: work(100, 0), 1) / start}


def _counts() -> dict[str, float]:
    graphs = sum(isinstance(thing, func_graph.FuncGraph) for thing in gc.get_objects())
    registered = len(ops.gradient_registry._registry)
    return {"live FuncGraphs": graphs, "registry entries": registered, "MiB": resident_mib()}


def flat() -> bool:
    limits = {
        "live FuncGraphs": 8.0,
        "registry entries": 8.0,
        "MiB": 10.0,
        "time, last ÷ first": 1.3,
    }
    rows = []
    for kind in ("op type", "function"):
        left = alone(growth, kind)
        rows += [(f"{kind}: {name}", left[name], limit) for name, limit in limits.items()]
    return print_amounts(
        "left behind by 5,000 eager gradients and 200 traces, each with a new rule", rows, "more"
    )


PARTS = {"eager": eager, "graph": graph, "model": model, "loaded": loaded, "flat": flat}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(PARTS)
    sys.exit(not all([PARTS[name]() for name in wanted]))
