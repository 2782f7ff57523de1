"""Constants that function and rule compare their values with, read from a trace of both."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.modes import Untraceable, traced_inside
from pullback.extend import Arrays, Facts

_COMPARING = {"Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual"}
_CLIPPING = {"Maximum", "Minimum", "ClipByValue"}
_PASSING = frozenset(
    ["Identity", "Cast", "ExpandDims", "BroadcastTo", "Fill", "StopGradient", "ReadVariableOp"]
)
_KINKED = {"Relu6": 6.0}
_MOST = 12

Node = Any


def facts_of(probe: Any, xs: Arrays, ws: Arrays) -> Facts:
    """Trace function and rule together and look at their comparisons."""
    try:
        program = _program(probe, xs, ws)
    except Untraceable as error:
        return Facts(notes=(f"not traced, so no thresholds were looked for: {error}",))
    found: list[float] = []
    for nodes in [program.node, *(f.node_def for f in program.library.function)]:
        found += _constants_in(nodes)
    kept = dict.fromkeys(round(c, 12) for c in found if math.isfinite(c) and abs(c) < 1e12)
    return Facts(constants=tuple(kept)[:_MOST])


def _program(probe: Any, xs: Arrays, ws: Arrays) -> Any:
    try:
        return traced_inside(probe.as_given or probe, xs, ws).graph.as_graph_def()
    except Untraceable:
        return traced_inside(probe, xs, ws).graph.as_graph_def()


def _constants_in(nodes: Iterable[Node]) -> list[float]:
    table = {node.name: node for node in nodes}
    found: list[float] = []
    for node in table.values():
        if node.op in _COMPARING or node.op in _CLIPPING:
            found += _compared(node, table)
        elif node.op in _KINKED:
            found.append(_KINKED[node.op])
    return found


def _compared(node: Node, table: dict[str, Node]) -> list[float]:
    inputs = [_node(name, table) for name in node.input if not name.startswith("^")]
    values = [_constant(source, table) for source in inputs]
    moving = [source for source, value in zip(inputs, values, strict=True) if value is None]
    constants = [value for value in values if value is not None]
    if not moving or not constants:
        return []
    return [c for value in constants for c in (value, _back(moving[0], value, table, 6))]


def _node(name: str, table: dict[str, Node]) -> Node | None:
    return table.get(name.split(":")[0])


def _constant(node: Node | None, table: dict[str, Node], depth: int = 4) -> float | None:
    if node is None or depth == 0:
        return None
    if node.op == "Const":
        return _scalar(node)
    if node.op in _PASSING and node.input:
        names = node.input[1:2] if node.op == "Fill" else node.input[:1]
        return _constant(_node(names[0], table), table, depth - 1) if names else None
    return None


def _scalar(node: Node) -> float | None:
    value = np.asarray(tf.make_ndarray(node.attr["value"].tensor))
    if value.dtype.kind not in "fiuV" or value.size == 0:
        return None
    flat = value.ravel()
    # str() gives 0.1 for the float32 nearest to it, which is what the author wrote
    return float(str(flat[0])) if np.all(flat == flat[0]) else None


def _logit(c: float) -> float:
    return math.log(c / (1 - c))


_INVERSE: dict[str, Callable[[float], float]] = {
    "Neg": lambda c: -c,
    "Abs": abs,
    "Square": math.sqrt,
    "Sqrt": lambda c: c * c,
    "Exp": math.log,
    "Log": math.exp,
    "Tanh": math.atanh,
    "Sigmoid": _logit,
    "Reciprocal": lambda c: 1 / c,
}
_WITH_CONSTANT: dict[str, Callable[[float, float], float]] = {
    "Mul": lambda c, k: c / k,
    "AddV2": lambda c, k: c - k,
    "Sub": lambda c, k: c + k,
    "RealDiv": lambda c, k: c * k,
}


def _back(node: Node | None, value: float, table: dict[str, Node], depth: int) -> float:
    """The input value at which an element-wise chain meets `value`, as far as it can be undone."""
    if node is None or depth == 0:
        return value
    try:
        if node.op in _PASSING:
            return _back(_node(node.input[0], table), value, table, depth - 1)
        if node.op in _INVERSE:
            before = _INVERSE[node.op](value)
            return _back(_node(node.input[0], table), before, table, depth - 1)
        return _back_binary(node, value, table, depth)
    except (ValueError, ZeroDivisionError, OverflowError):
        return value


def _back_binary(node: Node, value: float, table: dict[str, Node], depth: int) -> float:
    if node.op not in _WITH_CONSTANT or len(node.input) < 2:
        return value
    if node.op == "Mul" and node.input[0] == node.input[1]:
        return _back(_node(node.input[0], table), math.sqrt(value), table, depth - 1)
    left, right = _node(node.input[0], table), _node(node.input[1], table)
    constant = _constant(right, table)
    if constant is not None:
        return _back(left, _WITH_CONSTANT[node.op](value, constant), table, depth - 1)
    constant = _constant(left, table)
    if constant is None:
        return value
    before = constant - value if node.op == "Sub" else _WITH_CONSTANT[node.op](value, constant)
    return _back(right, before, table, depth - 1)
