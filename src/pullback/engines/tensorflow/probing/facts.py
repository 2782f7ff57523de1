"""Constants that function and rule compare their values with, read from a trace of both."""

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.attach.closed_over import is_framework_code
from pullback.engines.tensorflow.probing.margins import turns
from pullback.engines.tensorflow.probing.modes import Untraceable, traced_inside
from pullback.engines.tensorflow.tf_private import registered_gradient
from pullback.extend import Arrays, Facts

_COMPARING = {"Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "NotEqual"}
_CLIPPING = {"Maximum", "Minimum", "ClipByValue"}
_CHOOSING = {"Select", "SelectV2", "If", "StatelessIf", "Case"}
_PASSING = frozenset(
    ["Identity", "Cast", "ExpandDims", "BroadcastTo", "Fill", "StopGradient", "ReadVariableOp"]
)
_KINKED = {
    "Relu6": (0.0, 6.0),
    **dict.fromkeys(["Relu", "LeakyRelu", "Elu", "Selu", "Abs", "Sign"], (0.0,)),
}
# More constants than this, or larger ones, are not thresholds that a check should go to.
_MOST, _LARGEST = 12, 1e12
# How many ops may lie between a comparison and its constant, and between it and the input that it is about.
_OPS_TO_CONSTANT, _OPS_TO_INPUT = 4, 6

_HALF = {tf.float16.as_datatype_enum, tf.bfloat16.as_datatype_enum}

Node = Any


def facts_of(probe: Any, xs: Arrays, ws: Arrays) -> Facts:
    """Constants in the comparisons of function and rule, from a trace of both."""
    try:
        program = _program_of(probe, xs, ws)
    except Untraceable as error:
        return Facts(notes=(f"not traced, so no thresholds were looked for: {error}",))
    graph = program.graph.as_graph_def()
    bodies = [graph.node, *(function.node_def for function in graph.library.function)]
    found = [constant for nodes in bodies for constant in _constants_in(nodes)]
    kept = dict.fromkeys(round(c, 12) for c in found if math.isfinite(c) and abs(c) < _LARGEST)
    return Facts(
        tuple(kept)[:_MOST],
        branches=_branches(bodies),
        branches_on_sign=any(c <= 0 for c in kept),
        custom=any(_is_somebodys(node) for nodes in bodies for node in nodes),
        short=any(
            a.type in _HALF for nodes in bodies for node in nodes for a in node.attr.values()
        ),
        margins=any(turns(program.graph, program.graph.inputs)),
    )


def _branches(bodies: Iterable[Iterable[Node]]) -> bool:
    tables = [{node.name: node for node in nodes} for nodes in bodies]
    return any(
        node.op in _CHOOSING or node.op in _KINKED or _compares_values(node, table)
        for table in tables
        for node in table.values()
    )


def _is_somebodys(node: Node) -> bool:
    """Whether a node has a gradient that neither TensorFlow nor Keras wrote."""
    if "_gradient_op_type" not in node.attr:
        return False
    return _is_written_by_user(registered_gradient(node.attr["_gradient_op_type"].s.decode()))


def _is_written_by_user(function: Any, depth: int = 3) -> bool:
    """Whether there is a function of others among those that a registered gradient calls."""
    if not is_framework_code(function):
        return True
    cells = getattr(function, "__closure__", None) or ()
    inside = [cell.cell_contents for cell in cells if _is_filled(cell)]
    return depth > 0 and any(_is_written_by_user(f, depth - 1) for f in inside if callable(f))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _program_of(probe: Any, xs: Arrays, ws: Arrays) -> Any:
    """The program at the precision of the arguments, or else at that of the check."""
    try:
        return traced_inside(probe.as_given or probe, xs, ws)
    except Untraceable:
        return traced_inside(probe, xs, ws)


def _constants_in(nodes: Iterable[Node]) -> list[float]:
    table = {node.name: node for node in nodes}
    found: list[float] = []
    for node in table.values():
        if _compares_values(node, table):
            found += _compared(node, table)
        elif node.op in _KINKED:
            found += _KINKED[node.op]
    return found


def _compares_values(node: Node, table: dict[str, Node]) -> bool:
    """A comparison of numbers, or of integers made of numbers: others count loops, lengths and classes."""
    if node.op not in _COMPARING and node.op not in _CLIPPING:
        return False
    operands = [_node(name, table) for name in node.input if not name.startswith("^")]
    return not _has_integers(node, "T") or any(_is_rounded(one, table) for one in operands)


def _has_integers(node: Node, attribute: str) -> bool:
    return node.attr[attribute].type > 0 and tf.as_dtype(node.attr[attribute].type).is_integer


def _is_rounded(node: Node | None, table: dict[str, Node], depth: int = _OPS_TO_INPUT) -> bool:
    """Whether an integer was made of a number a few ops before."""
    if node is None or depth == 0:
        return False
    if node.op == "Cast":
        return tf.as_dtype(node.attr["SrcT"].type).is_floating
    operands = [_node(name, table) for name in node.input if not name.startswith("^")]
    return any(_is_rounded(one, table, depth - 1) for one in operands)


def _compared(node: Node, table: dict[str, Node]) -> list[float]:
    inputs = [_node(name, table) for name in node.input if not name.startswith("^")]
    values = [_constant(source, table) for source in inputs]
    moving = [source for source, value in zip(inputs, values, strict=True) if value is None]
    constants = [value for value in values if value is not None]
    if not moving or not constants:
        return []
    return [c for value in constants for c in (value, _back(moving[0], value, table))]


def _node(name: str, table: dict[str, Node]) -> Node | None:
    return table.get(name.split(":")[0])


def _constant(
    node: Node | None, table: dict[str, Node], depth: int = _OPS_TO_CONSTANT
) -> float | None:
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
    "Neg": operator.neg,
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
    "Mul": operator.truediv,
    "AddV2": operator.sub,
    "Sub": operator.add,
    "RealDiv": operator.mul,
}


def _back(
    node: Node | None, value: float, table: dict[str, Node], depth: int = _OPS_TO_INPUT
) -> float:
    """The input value at which an element-wise chain meets `value`, as far as it can be undone."""
    try:
        step = None if node is None or depth == 0 else _undone(node, value, table)
    except (ValueError, ZeroDivisionError, OverflowError):
        return value
    return value if step is None else _back(*step, table, depth - 1)


def _undone(node: Node, value: float, table: dict[str, Node]) -> tuple[Node | None, float] | None:
    """The operand that moves, and where it must be for the op to give `value`; `None` for other ops."""
    operands = [_node(name, table) for name in node.input]
    if node.op in _PASSING:
        return operands[0], value
    if node.op in _INVERSE:
        return operands[0], _INVERSE[node.op](value)
    if node.op == "Mul" and node.input[0] == node.input[1]:
        return operands[0], math.sqrt(value)
    if node.op not in _WITH_CONSTANT:
        return None
    undo = _WITH_CONSTANT[node.op]
    match [_constant(operand, table) for operand in operands[:2]]:
        case [_, float(constant)]:
            return operands[0], undo(value, constant)
        case [float(constant), None]:
            return operands[1], constant - value if node.op == "Sub" else undo(value, constant)
        case _:
            return None
