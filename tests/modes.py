"""The one table of modes. Every feature that has a gradient runs through it.

A mode takes a function of tensors and its arguments, and returns the gradient of the sum of all its outputs with
respect to each argument, as float64 arrays (`None` where nothing flows), having run the function in its own way.
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

Gradients = list[np.ndarray | None]
Mode = Callable[[Callable[..., Any], Sequence[Any]], Gradients]


def total(outputs: Any) -> tf.Tensor:
    """The sum of all floating outputs."""
    parts = [
        o
        for o in tf.nest.flatten(outputs, expand_composites=True)
        if tf.as_dtype(o.dtype).is_floating
    ]
    return tf.add_n([tf.reduce_sum(tf.cast(part, tf.float64)) for part in parts])


def arrays(gradients: Any) -> Gradients:
    dense = [g if g is None else np.asarray(tf.convert_to_tensor(g), np.float64) for g in gradients]
    return list(dense)


def on_tape(fn: Callable[..., Any], xs: Sequence[Any]) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(xs)
        loss = total(fn(*xs))
    return tape.gradient(loss, list(xs))


def eager(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    return arrays(on_tape(fn, xs))


def tape_outside(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    return arrays(on_tape(tf.function(fn), xs))


def tape_outside_unknown_shapes(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    specs = [tf.TensorSpec([None] * len(x.shape), x.dtype) for x in xs]
    return arrays(on_tape(tf.function(fn, input_signature=specs), xs))


def _inside(fn: Callable[..., Any], xs: Sequence[Any], **options: Any) -> Gradients:
    flows: list[bool] = []

    def step(*args: Any) -> Any:
        gradients = on_tape(fn, args)
        flows[:] = [g is not None for g in gradients]
        return [tf.convert_to_tensor(g) for g in gradients if g is not None]

    found = iter(tf.function(step, **options)(*xs))
    return arrays([next(found) if flow else None for flow in flows])


def tape_inside(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    return _inside(fn, xs)


def xla(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    return arrays(on_tape(tf.function(fn, jit_compile=True), xs))


def xla_tape_inside(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    return _inside(fn, xs, jit_compile=True)


def tf_gradients(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    def graph_gradients(inner: Callable[..., Any], args: Sequence[Any]) -> Any:
        return tf.gradients(total(inner(*args)), list(args))

    flows: list[bool] = []

    def step(*args: Any) -> Any:
        gradients = graph_gradients(fn, args)
        flows[:] = [g is not None for g in gradients]
        return [tf.convert_to_tensor(g) for g in gradients if g is not None]

    found = iter(tf.function(step)(*xs))
    return arrays([next(found) if flow else None for flow in flows])


def nested(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    inner = tf.function(fn)

    def middle(*args: Any) -> Any:
        return inner(*args)

    return arrays(on_tape(tf.function(tf.function(middle)), xs))


def nested_tape_inside(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    return _inside(tf.function(fn), xs)


def cond(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    def branching(*args: Any) -> Any:
        always = tf.reduce_sum(tf.ones([2])) > 0.0
        return tf.cond(always, lambda: total(fn(*args)), lambda: tf.constant(0.0, tf.float64))

    return arrays(on_tape(tf.function(branching), xs))


def while_loop(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    def looping(*args: Any) -> Any:
        def body(i: Any, found: Any) -> Any:
            return i + 1, found + total(fn(*args))

        return tf.while_loop(lambda i, _: i < 1, body, (0, tf.constant(0.0, tf.float64)))[1]

    return arrays(on_tape(tf.function(looping), xs))


def _over_rows(mapper: Callable[..., Any]) -> Mode:
    def mode(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
        rows = [tf.stack([x, x]) for x in xs]

        def mapped(*args: Any) -> Any:
            return mapper(lambda row: total(fn(*row)), args)

        gradients = arrays(on_tape(mapped, rows))
        return [g if g is None else g[0] for g in gradients]

    return mode


def map_over(function: Callable[..., Any], rows: Any) -> Any:
    return tf.map_fn(function, rows, fn_output_signature=tf.float64)


def vectorized_in_function(function: Callable[..., Any], rows: Any) -> Any:
    return tf.function(lambda *r: tf.vectorized_map(function, r))(*rows)


def jacobian(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    with tf.GradientTape() as tape:
        tape.watch(xs)
        losses = tf.stack([total(fn(*xs))] * 2)
    rows = tape.jacobian(losses, list(xs))
    return arrays([g if g is None else g[0] for g in rows])


def _forward(wrap: Callable[[Any], Any]) -> Mode:
    def mode(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
        found: Gradients = []
        for position, x in enumerate(xs):
            size = int(np.prod(x.shape))
            columns = [_tangent(wrap, fn, xs, position, index) for index in range(size)]
            flows = any(c is not None for c in columns)
            values = [0.0 if c is None else float(c) for c in columns]
            found.append(np.reshape(values, x.shape) if flows else None)
        return found

    return mode


def _tangent(
    wrap: Any, fn: Callable[..., Any], xs: Sequence[Any], position: int, index: int
) -> Any:
    unit = np.zeros(int(np.prod(xs[position].shape)))
    unit[index] = 1.0
    tangent = tf.constant(np.reshape(unit, xs[position].shape), xs[position].dtype)
    with tf.autodiff.ForwardAccumulator(xs[position], tangent) as accumulator:
        loss = wrap(lambda *args: total(fn(*args)))(*xs)
    return accumulator.jvp(loss)


class Weights(keras.Model):
    """A model whose weights are the arguments and whose loss is the function."""

    def __init__(self, fn: Callable[..., Any], xs: Sequence[Any]) -> None:
        super().__init__()
        self.fn = fn
        self.ws = [self.add_weight(shape=x.shape, initializer="zeros", dtype=x.dtype) for x in xs]
        for weight, x in zip(self.ws, xs, strict=True):
            weight.assign(x)

    def call(self, rows: Any) -> Any:
        # One row is one term of the loss, so that the batch does not change the gradient.
        return tf.cast(total(self.fn(*[w.value for w in self.ws])), tf.float32) + 0.0 * rows


class Keeping(keras.optimizers.SGD):
    """Keeps the gradients and leaves the weights: an update may run before another gradient reads the weight."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        self.kept = [self.add_variable_from_reference(v, "kept") for v in variables]

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        self.assign(self.kept[self._get_variable_index(variable)], tf.convert_to_tensor(gradient))


def _take_output(y_true: Any, y_pred: Any) -> Any:
    return y_pred[:, 0] + 0.0 * y_true[:, 0]


def _fit(**options: Any) -> Mode:
    def mode(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
        model = Weights(fn, xs)
        model.compile(Keeping(1.0), loss=_take_output, **options)
        model.fit(np.zeros([2, 1], "f"), np.zeros([2, 1], "f"), batch_size=2, epochs=1, verbose=0)
        return arrays([kept.numpy() for kept in model.optimizer.kept])

    return mode


def mirrored(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    flows: list[bool] = []

    def replica(*args: Any) -> Any:
        gradients = on_tape(fn, args)
        flows[:] = [g is not None for g in gradients]
        return [tf.convert_to_tensor(g) for g in gradients if g is not None]

    per_replica = tf.function(lambda *args: strategy.run(replica, args))(*xs)
    found = iter([strategy.experimental_local_results(value)[1] for value in per_replica])
    return arrays([next(found) if flow else None for flow in flows])


MODES: dict[str, Mode] = {
    "eager": eager,
    "tape outside": tape_outside,
    "tape outside, unknown shapes": tape_outside_unknown_shapes,
    "tape inside": tape_inside,
    "tf.gradients": tf_gradients,
    "nested": nested,
    "nested, tape inside": nested_tape_inside,
    "XLA": xla,
    "XLA, tape inside": xla_tape_inside,
    "tf.cond": cond,
    "tf.while_loop": while_loop,
    "tf.map_fn": _over_rows(map_over),
    "tf.vectorized_map": _over_rows(tf.vectorized_map),
    "tf.vectorized_map in a function": _over_rows(vectorized_in_function),
    "jacobian": jacobian,
    "forward mode": _forward(lambda fn: fn),
    "forward mode through a function": _forward(tf.function),
    "fit": _fit(),
    "fit, XLA": _fit(jit_compile=True),
    "fit, eagerly": _fit(run_eagerly=True),
    "MirroredStrategy": mirrored,
}
FORWARD = frozenset({"forward mode", "forward mode through a function"})


def _second(first: Callable[..., Any], outer: Callable[[Any], Any]) -> Mode:
    """The gradient of the sum of squares of the gradient."""

    def mode(fn: Callable[..., Any], xs: Sequence[Any]) -> Gradients:
        def squares(*args: Any) -> Any:
            gradients = [g for g in first(fn, args) if g is not None]
            return [tf.square(tf.convert_to_tensor(g)) for g in gradients]

        return arrays(on_tape(outer(squares), xs))

    return mode


SECOND_ORDER: dict[str, Mode] = {
    "out/out, eager": _second(on_tape, lambda f: f),
    "out/out": _second(lambda fn, xs: on_tape(tf.function(fn), xs), lambda f: f),
    "in/out": _second(on_tape, tf.function),
    "in/in": lambda fn, xs: _inside(lambda *args: _squares(fn, args), xs),
    "in/in, XLA": lambda fn, xs: _inside(lambda *args: _squares(fn, args), xs, jit_compile=True),
}


def _squares(fn: Callable[..., Any], xs: Sequence[Any]) -> Any:
    return [tf.square(tf.convert_to_tensor(g)) for g in on_tape(fn, xs) if g is not None]


def assert_gradients(found: Gradients, wanted: Sequence[Any], rtol: float = 1e-5) -> None:
    """Compare gradients with values from mathematics; zero and nothing are the same to a source."""
    assert len(found) == len(wanted)
    for g, w in zip(found, wanted, strict=True):
        value = np.zeros_like(np.asarray(w, np.float64)) if g is None else g
        expected = 0.0 if w is None else np.asarray(w, np.float64)
        np.testing.assert_allclose(
            value, np.broadcast_to(expected, np.shape(value)), rtol=rtol, atol=1e-6
        )
