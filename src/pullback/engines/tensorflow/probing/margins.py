"""How far the comparisons of function and rule are from turning: the difference of what they compare, and its slope.

Only comparisons that somebody wrote count, and of those the ones of something that was computed from the arguments, or
that ask for equality: other thresholds are constants, which `facts` reads. Loops, branches and calls of other traced
functions are not looked into.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.arguments import to_array
from pullback.engines.tensorflow.probing.callee import described, plain_line
from pullback.engines.tensorflow.probing.programs import traced
from pullback.extend import Array, Arrays, OutsideDomain, Unsupported

_EXACT = frozenset(["Equal", "NotEqual"])
_TURNING = _EXACT | {"Greater", "GreaterEqual", "Less", "LessEqual", "Maximum", "Minimum"}
_PASSING = frozenset(["Identity", "Cast", "ExpandDims", "BroadcastTo", "StopGradient", "Reshape"])
_GIVEN = frozenset(["Placeholder", "ReadVariableOp"])
# Functions whose least value is at zero: what is compared with them may be meant for that place.
_EVEN = frozenset(["Abs", "Square"])
_HERE = str(Path(__file__).parent)
_FRAMEWORKS = tuple(str(Path(str(module.__file__)).parent) for module in (tf, keras))


class _Turn(NamedTuple):
    """Two tensors of a graph that are compared, and whether the place where they are equal is meant."""

    left: Any
    right: Any
    exact: bool

    @property
    def margin(self) -> Any:
        return tf.cast(self.left, tf.float64) - tf.cast(self.right, tf.float64)


class Margins:
    """A program that gives the margins of a probe's comparisons, made once."""

    def __init__(self, probe: Any, xs: Arrays, ws: Arrays) -> None:
        self.probe, self.epsilon = probe, probe.rule_epsilon
        self.upstream = probe.upstream_tensors(ws)
        self.exact: tuple[bool, ...] = ()
        self.program = traced(self._margins, probe.tensors(xs), self.upstream)

    def values(self, xs: Arrays) -> list[Array]:
        """The margins of all comparisons."""
        return [to_array(margin) for margin in self._run(self.probe.tensors(xs))]

    def slope(self, xs: Arrays, which: int, entry: int) -> list[Array | None]:
        """The derivative of one entry of one margin by the inputs."""
        tensors = self.probe.tensors(xs)
        with tf.GradientTape() as tape:
            watched = self.probe.watch(tape, tensors)
            margin = tf.reshape(self._run(tensors)[which], [-1])[entry]
        return [None if g is None else to_array(g) for g in tape.gradient(margin, watched)]

    def _run(self, tensors: list[Any]) -> list[Any]:
        self.probe.calls.spend()
        try:
            return self.program(tensors, self.upstream)
        except tf.errors.OpError as error:
            raise OutsideDomain(plain_line(error)) from error

    def _margins(self, tensors: list[Any], upstream: list[Any]) -> list[Any]:
        self.probe.pull(tensors, upstream)
        moved = [*tensors, *(v.handle for v in self.probe.variables if hasattr(v, "handle"))]
        found = list(turns(tf.compat.v1.get_default_graph(), moved))
        self.exact = tuple(turn.exact for turn in found)
        return [turn.margin for turn in found]


def margins_of(probe: Any, xs: Arrays, ws: Arrays) -> Margins | Unsupported:
    """The margins of a probe's comparisons, or why they cannot be had."""
    if probe.seed is not None:
        return Unsupported("its random numbers would differ")
    found = Unsupported("there are none")
    for one in (
        probe,
        probe.as_given,
    ):  # constants of the arguments' format may not trace in another
        try:
            return Margins(one, xs, ws) if one else found
        except Exception as error:
            found = Unsupported(described(error))
    return found


def turns(graph: Any, moved: Sequence[Any]) -> Iterator[_Turn]:
    """The comparisons of a graph that turn where a computed value, or one that is asked for exactly, is met."""
    active, known = {t.ref() for t in moved}, set[Any]()
    operations = graph.get_operations()
    for op in operations:
        if op.type in _GIVEN and any(_captured(graph, t) in active for t in op.outputs):
            active |= {t.ref() for t in op.outputs}
        if any(t.ref() in active for t in op.inputs):
            active |= {t.ref() for t in op.outputs}
    for op in (op for op in operations if op.type in _TURNING and _is_somebodys(op)):
        left, right = map(_origin, op.inputs)
        moving = [t for t in (left, right) if t.ref() in active]
        if not moving or (left.ref(), right.ref()) in known or not _are_numbers(op):
            continue
        known.add((left.ref(), right.ref()))
        exact = op.type in _EXACT
        if len(moving) > 1 or moving[0].op.type not in _GIVEN or (exact and not _is_zero(op)):
            yield _Turn(op.inputs[0], op.inputs[1], exact)
        inner = [t.op.inputs[0] for t in moving if _is_even(t.op)]
        yield from (_Turn(t, tf.zeros([], t.dtype), True) for t in inner)


def _captured(graph: Any, tensor: Any) -> Any:
    """The tensor outside the graph that a placeholder stands for."""
    return next((outer.ref() for outer, inner in graph.captures if inner is tensor), None)


def _origin(tensor: Any) -> Any:
    while tensor.op.type in _PASSING:
        tensor = tensor.op.inputs[0]
    return tensor


def _is_even(op: Any) -> bool:
    return op.type in _EVEN or (op.type == "Mul" and op.inputs[0] is op.inputs[1])


def _is_zero(op: Any) -> bool:
    """Whether a side is the constant zero, to which every check goes."""
    constants = [tf.get_static_value(t) for t in op.inputs]
    return any(c is not None and not np.any(c) for c in constants)


def _are_numbers(op: Any) -> bool:
    return all(t.dtype.is_floating for t in op.inputs)


def _is_somebodys(op: Any) -> bool:
    """Whether a line of neither the framework nor this package made an operation."""
    for frame in reversed(list(op.traceback or ())):
        if frame.filename.startswith(_HERE):
            return False
        if not frame.filename.startswith((*_FRAMEWORKS, _HERE.split("engines")[0], "<")):
            return True
    return False
