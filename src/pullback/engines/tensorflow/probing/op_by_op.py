"""Whose gradient is wrong: every op of the traced function by itself, against differences of its own.

It is asked for when a gradient is wrong and no custom gradient is at work, so that the blame lies with TensorFlow; and
of what a rule is made of, where it is right and its own derivative is not.
"""

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.lines import line_of
from pullback.engines.tensorflow.probing.modes import Point, traced_inside
from pullback.extend import Array, Arrays

# Steps of differences relative to an op's inputs, in powers of the rounding unit; and a mismatch that is no rounding.
_STEPS = (1 / 4, 1 / 3)
_MISMATCH = 1e-2
_CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])


def wrong_ops(probe: Any, xs: Arrays, order: int) -> tuple[str, ...]:
    """The types of ops whose gradient, or the gradient of that for order 2, is not that of their values at `xs`."""
    at = Point(probe, xs)
    traced = tf.function(lambda *tensors: at.outputs(*tensors), autograph=False)
    probe.assign(at.tensors)
    concrete = traced.get_concrete_function(*at.tensors)
    wrong = _wrong_in(probe, concrete, at.arguments, order)
    # nothing but what was stopped on purpose: right to first order, as in the variance of `tf.nn.moments`
    stopped = [op for op in concrete.graph.get_operations() if op.type == "StopGradient"]
    wrong = [name for name in wrong if name != "StopGradient"]
    return tuple(wrong or map(_stopping, stopped[:1]))


def _stopping(op: Any) -> str:
    """The line in which a user stops a gradient; the type of the op where the engine does."""
    text, place = line_of(op)
    return f"{place} (tf.stop_gradient)" if "stop_gradient" in text else op.type


def wrong_in_rule(probe: Any, xs: Arrays, ws: Arrays) -> tuple[str, ...]:
    """The types of ops in function and rule whose gradient is wrong at `xs`: with them the derivative of a rule is."""
    at = Point(probe, xs)
    probe.assign(at.tensors)
    upstream = probe.upstream_tensors(ws)
    found = _wrong_in(probe, traced_inside(probe, xs, ws), [*at.tensors, *upstream], 1)
    return tuple(name for name in found if name != "StopGradient")  # which is there to do this


def _wrong_in(probe: Any, concrete: Any, inputs: list[Any], order: int) -> list[str]:
    captures = [outer for outer, _ in concrete.graph.captures]
    for symmetric in (True, False):
        probe.calls.spend()
        found = _Interpreter(order, symmetric, probe.put_back)
        found.run(concrete.graph, [*inputs, *captures][: len(concrete.graph.inputs)])
        if found.wrong:
            return found.wrong
    return []


class _Interpreter:
    """Runs the ops of a graph one by one and tests each on the way."""

    def __init__(self, order: int, symmetric: bool, put_back: Callable[[], None]) -> None:
        self.order, self.symmetric, self.put_back = order, symmetric, put_back
        self.wrong: list[str] = []

    def run(self, graph: Any, inputs: list[Any]) -> None:
        values = {inner.ref(): outer for inner, outer in zip(graph.inputs, inputs, strict=False)}
        moving = set(values)  # what depends on the arguments
        for op in graph.get_operations():
            if op.type == "Placeholder":
                continue
            try:
                taken = [values[tensor.ref()] for tensor in op.inputs]
                results = _as_list(_call(op, taken))
            except (
                Exception
            ):  # what cannot be run by itself is not blamed, nor is what depends on it
                continue
            values |= {out.ref(): y for out, y in zip(op.outputs, results, strict=True)}
            which = [k for k, tensor in enumerate(op.inputs) if tensor.ref() in moving]
            moving |= {out.ref() for out in op.outputs if which}
            if op.type not in self.wrong and self._is_wrong(op, taken, which, results):
                self.wrong.append(op.type)

    def _is_wrong(self, op: Any, taken: list[Any], which: list[int], results: list[Any]) -> bool:
        which = [k for k in which if _is_real(taken[k])]
        if not which or not any(out.dtype.is_floating for out in op.outputs):
            return False
        if not all(np.isfinite(value).all() for value in [*taken, *results] if _is_real(value)):
            return False  # what is not finite came from elsewhere
        try:
            alone = _Alone(op, taken, which, symmetric=self.symmetric, put_back=self.put_back)
            return alone.is_wrong(self.order)
        except LookupError:
            return True  # there is no gradient to be had
        except Exception:
            return False


class _Alone:
    """One op as a function of its floating-point inputs, weighted to one number, always from the same state.

    Matrices that are symmetric are moved within those if they shall stay so.
    """

    def __init__(
        self,
        op: Any,
        taken: list[Any],
        which: list[int],
        *,
        symmetric: bool,
        put_back: Callable[[], None],
    ) -> None:
        self.op, self.taken, self.which = op, taken, which
        self.symmetric, self.put_back = symmetric, put_back
        self.rng = np.random.default_rng(0)
        self.start = [tf.identity(taken[k]) for k in which]  # each by itself, also in x · x
        self.u, self.v = self._direction(), self._direction()
        outputs = self._outputs(taken)
        self.w = [tf.constant(self.rng.uniform(0.5, 1.5, y.shape), y.dtype) for y in outputs]

    def is_wrong(self, order: int) -> bool:
        """Whether the claimed derivative along a line is not what differences say, at both of two steps."""
        of = self.value if order == 1 else self.slope
        along = self.u if order == 1 else self.v
        terms = self._terms(self._weighted if order == 1 else self._slope, self.start, along)
        claimed, usual = float(sum(map(tf.reduce_sum, terms))), sum(_size(t) for t in terms)
        epsilon = max(float(ml_dtypes.finfo(t.dtype.as_numpy_dtype).eps) for t in self.start)
        gaps = []
        for power in _STEPS:
            h = float(epsilon**power)
            above, below = (of(self._moved(along, s * h)) for s in (1, -1))
            measured = (above - below) / (2 * h)
            size = abs(measured) + usual + abs(above) * epsilon ** (1 - power)
            gaps.append(abs(measured - claimed) / size if size else 0.0)
        return not min(gaps) <= _MISMATCH

    def value(self, moved: list[Any]) -> float:
        return float(self._weighted(moved))

    def slope(self, moved: list[Any]) -> float:
        return float(self._slope(moved))

    def _slope(self, moved: list[Any]) -> Any:
        terms = self._terms(self._weighted, moved, self.u)
        return tf.add_n([tf.reduce_sum(t) for t in terms]) if terms else tf.constant(0.0)

    def _terms(self, of: Any, moved: list[Any], along: list[Any]) -> list[Any]:
        """The derivative along a direction, entry by entry, before it is summed."""
        with tf.GradientTape() as tape:
            tape.watch(moved)
            value = of(moved)
        gradients: list[Any] = tape.gradient(value, moved)
        pairs = zip(gradients, along, strict=True)
        return [tf.convert_to_tensor(g) * u for g, u in pairs if g is not None]

    def _weighted(self, moved: list[Any]) -> Any:
        taken = list(self.taken)
        for k, tensor in zip(self.which, moved, strict=True):
            taken[k] = tensor
        pairs = zip(self.w, self._outputs(taken), strict=True)
        return tf.add_n([tf.reduce_sum(w * y) for w, y in pairs])

    def _outputs(self, taken: list[Any]) -> list[Any]:
        self.put_back()
        return [y for y in _as_list(_call(self.op, taken)) if _is_real(y)]

    def _moved(self, along: list[Any], t: float) -> list[Any]:
        return [x + tf.cast(t, x.dtype) * u for x, u in zip(self.start, along, strict=True)]

    def _direction(self) -> list[Any]:
        return [tf.constant(self._like(x.numpy()), x.dtype) for x in self.start]

    def _like(self, x: Array) -> Array:
        size = np.abs(x) + (np.mean(np.abs(x)) or 1.0)
        made = size * self.rng.uniform(0.5, 1.5, x.shape) * self.rng.choice([-1, 1], x.shape)
        is_square = x.ndim > 1 and x.shape[-1] == x.shape[-2]
        if self.symmetric and is_square and np.allclose(x, np.swapaxes(x, -1, -2)):
            return (made + np.swapaxes(made, -1, -2)) / 2
        return made


def _size(terms: Any) -> float:
    return float(tf.reduce_sum(tf.abs(terms)))


def _is_real(value: Any) -> bool:
    return isinstance(value, tf.Tensor) and value.dtype.is_floating


def _as_list(results: Any) -> list[Any]:
    if results is None or isinstance(results, tf.Operation):
        return []
    if isinstance(results, tf.Tensor):
        return [results]
    return [y for result in results for y in (result if isinstance(result, list) else [result])]


def _call(op: Any, taken: list[Any]) -> Any:
    """The op run by itself on other tensors."""
    if op.type == "Const":
        return tf.constant(tf.make_ndarray(op.get_attr("value")))
    if op.type in _CALLS:
        return op.graph._get_function(op.get_attr("f").name)(*taken)
    inferred = {arg.type_attr for arg in op.op_def.input_arg}
    inferred |= {arg.number_attr or arg.type_list_attr for arg in op.op_def.input_arg}
    attrs = {a.name: _attr(op, a) for a in op.op_def.attr if a.name not in inferred}
    return getattr(tf.raw_ops, op.type)(**dict(_arguments(op, taken)), **attrs)


def _arguments(op: Any, taken: list[Any]) -> Iterator[tuple[str, Any]]:
    rest = iter(taken)
    for arg in op.op_def.input_arg:
        if arg.number_attr:
            yield arg.name, [next(rest) for _ in range(op.get_attr(arg.number_attr))]
        elif arg.type_list_attr:
            yield arg.name, [next(rest) for _ in op.get_attr(arg.type_list_attr)]
        else:
            yield arg.name, next(rest)


def _attr(op: Any, attr: Any) -> Any:
    value = op.get_attr(attr.name)
    return value.decode() if isinstance(value, bytes) else value
