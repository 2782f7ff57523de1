"""What NaN and Inf come of, recognised by the roles and numbers of operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pullback.explain import words
from pullback.explain.data import Node, Role, Situation, Size, Value
from pullback.explain.graph import Graph

_LARGEST = {"float16": "65504", "bfloat16": "3.4e38", "float32": "3.4e38", "float64": "1.8e308"}
_MASKS = ("select", "clip", "gather", "multiply", "peak", "gate")


@dataclass(frozen=True, slots=True)
class Cause:
    """What happened, and what to write."""

    text: str
    rewrite: str


# Forward


def forward_cause(graph: Graph, node: Node, turned: Node | None = None) -> Cause:
    """Why a node made NaN or Inf; `turned` is the node that made NaN of its Inf later."""
    kind = "NaN" if _nan(graph, node) else "Inf"
    said, rewrite = _forward(graph, node)
    text = f"{words.called(graph.flow, node)} gives {kind}{f': {said}' if said else ''}"
    if turned is not None and turned.id != node.id and kind == "Inf":
        text += f"; {words.called(graph.flow, turned)} makes NaN of it"
    return Cause(text, rewrite)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with the numbers of an operation; the situation that it is, where that has a rewrite of its own."""

    text: str = ""
    situation: Situation | None = None


def _forward(graph: Graph, node: Node) -> tuple[str, str]:
    fault = _FORWARD.get(graph.role(node), _overflow)(graph, node)
    return fault.text, _rewrite(graph, node, fault.situation)


# In texts of engines, numbers of which it depends on the format how small or large they can be.
_NUMBERS: Mapping[str, Mapping[str, str]] = {
    "{tiny}": {"float16": "1e-3", "": "1e-12"},  # the slopes of its logarithm and roots are finite
    "{near}": {"float16": "1e-3", "bfloat16": "1e-2", "": "1e-6"},  # 1 less that is not 1
    "{steep}": {"float16": "10.0", "": "80.0"},  # its exponential is finite
}


def _rewrite(graph: Graph, node: Node, situation: Situation | None = None) -> str:
    """What to write, with numbers of the format in which the operation computes."""
    flow = graph.flow
    text = (flow.op(situation).rewrite if situation else "") or flow.op(node.type).rewrite
    dtypes = [flow.values[v].dtype for v in (*node.outputs, *node.inputs)]
    dtype = next((d for d in dtypes if d in _LARGEST), "")
    for name, numbers in _NUMBERS.items():
        text = text.replace(name, numbers.get(dtype, numbers[""]))
    return text


def _overflow(graph: Graph, node: Node) -> Fault:
    inputs = [graph.flow.values[v].size for v in node.inputs]
    if any(size and not size.is_finite for size in inputs):
        return Fault("it meets Inf or NaN")
    dtype = _output(graph, node).dtype
    limit = _LARGEST.get(dtype)
    largest = max((size.max for size in inputs if size), default=0.0)
    if not limit or (_nan(graph, node) and largest <= float(limit) ** 0.25):
        return Fault("it has no value at some of its inputs" if _nan(graph, node) else "")
    too_large = f"beyond {limit}, the largest {dtype}, the result is too large"
    if largest > 1 and graph.role(node) != "exp":
        too_large = f"its inputs go up to {words.number(largest)}; {too_large}"
    return Fault(too_large, "float16" if dtype == "float16" else "overflow")


def _sqrt(graph: Graph, node: Node) -> Fault:
    if _nan(graph, node):
        return Fault("its input has negative numbers")
    zeros = _has_zeros(graph, node, 0)
    return Fault(f"its input is 0 in {_zeros(_size(graph, node, 0))}" if zeros else "")


def _log(graph: Graph, node: Node) -> Fault:
    if _nan(graph, node):
        return Fault("its input has negative numbers")
    k = len(node.inputs) - 1
    if _has_zeros(graph, node, k):
        if _sums_exponentials_of_nothing(graph, node):
            return Fault("a row of what is exponentiated is -Inf throughout", "masked softmax")
        return Fault(f"its input is 0 in {_zeros(_size(graph, node, k))} (log(0) = -Inf)")
    return Fault("its input reaches the end of where it has a value")


def _sums_exponentials_of_nothing(graph: Graph, node: Node) -> bool:
    """Whether this is the logarithm of a sum of exponentials of -Inf."""
    total = _maker(graph, node, 0)
    power = _maker(graph, total, 0) if total and graph.role(total) == "sum" else None
    size = _size(graph, power, 0) if power and graph.role(power) == "exp" else None
    return bool(size and size.inf)


_BEYOND: Mapping[Role, str] = {
    "pole": "it has no value at 0 and at negative whole numbers",
    "from one": "its input has numbers below 1",
    "quantile": "its input reaches 0 or 1, or lies beyond",
}


def _beyond(graph: Graph, node: Node) -> Fault:
    return Fault(_BEYOND[graph.role(node)])


def _exp(graph: Graph, node: Node) -> Fault:
    size = _size(graph, node, 0)
    up_to = f"its input goes up to {words.number(size.max)}, and " if size else ""
    return Fault(up_to + _overflow(graph, node).text)


def _divide(graph: Graph, node: Node) -> Fault:
    below = len(node.inputs) - 1
    if not _has_zeros(graph, node, below):
        return _overflow(graph, node)
    divisor = f"its divisor is 0 in {_zeros(_size(graph, node, below))}"
    return Fault(f"{divisor} {'(0/0)' if _nan(graph, node) else '(division by zero)'}")


def _pow(graph: Graph, node: Node) -> Fault:
    if _nan(graph, node):
        return Fault(
            "its base has negative numbers, of which powers that are not whole do not exist"
        )
    if _has_zeros(graph, node, 0):
        return Fault(f"its base is 0 in {_zeros(_size(graph, node, 0))}, with a negative power")
    return _overflow(graph, node)


def _softmax(graph: Graph, node: Node) -> Fault:
    size = _size(graph, node, 0)
    if size and size.inf:
        text = "a row of its input is -Inf throughout (everything masked), or has +Inf"
        return Fault(text, "masked softmax")
    return Fault()


def _arc(graph: Graph, node: Node) -> Fault:
    size = _size(graph, node, 0)
    if size and size.max <= 1:
        return Fault("its input reaches ±1, where it is infinite")
    return Fault(f"its input goes up to ±{size.max:.8g}, beyond ±1" if size else "")


def _mean(graph: Graph, node: Node) -> Fault:
    size = _size(graph, node, 0)
    return Fault("its input is empty (0/0)") if size and not size.count else _overflow(graph, node)


def _multiply(graph: Graph, node: Node) -> Fault:
    sizes = [graph.flow.values[v].size for v in node.inputs]
    if not any(size and size.inf for size in sizes):
        return _overflow(graph, node)
    is_mask = any(size and size.inf == size.count for size in sizes)
    text = "0 · Inf, as one factor has 0 and the other Inf"
    return Fault(text, "infinite factor" if is_mask else None)


def _subtract(graph: Graph, node: Node) -> Fault:
    sizes = [graph.flow.values[v].size for v in node.inputs]
    return (
        Fault("Inf - Inf") if any(size and size.inf for size in sizes) else _overflow(graph, node)
    )


_FORWARD: Mapping[Role, Callable[[Graph, Node], Fault]] = {
    "sqrt": _sqrt,
    "rsqrt": _sqrt,
    "log": _log,
    "pole": _beyond,
    "exp": _exp,
    "divide": _divide,
    "pow": _pow,
    "softmax": _softmax,
    "arc": _arc,
    "from one": _beyond,
    "quantile": _beyond,
    "mean": _mean,
    "multiply": _multiply,
    "subtract": _subtract,
    "add": _subtract,
}


# Backward


def backward_cause(graph: Graph, node: Node, made: Node | None) -> Cause:
    """Why a node passed on NaN or Inf; `made` is the node that made Inf or NaN forward, hidden from the result."""
    bad = _bad_gradient(node)
    mask = masked_by(graph, made or node) if bad.nan else None
    if made is not None:
        said, rewrite = _forward(graph, made)
        kind = "NaN" if _nan(graph, made) else "Inf"
        text = f"{words.called(graph.flow, made)} gives {kind}{f' ({said})' if said else ''}"
        return _masked(
            graph, text, mask, rewrite, "" if made.id == node.id else words.called(graph.flow, node)
        )
    if node.rule.kind in words.CUSTOM:
        text = f"{words.rule_of(node)} returned {_kind(bad)}"
        return Cause(text, graph.flow.op("bad rule").rewrite)
    said, rewrite = _slope(graph, node)
    text = f"the gradient of {words.called(graph.flow, node)} is {_kind(bad)}{f': {said}' if said else ''}"
    return _masked(graph, text, mask, rewrite, "")


def _masked(graph: Graph, text: str, mask: Node | None, rewrite: str, at: str) -> Cause:
    """With the node that hides the bad entries from the result, but not from the gradient."""
    if mask is None:
        return Cause(text + (f"; its gradient is not finite at {at}" if at else ""), rewrite)
    if graph.role(mask) == "select":
        hidden = f"{words.called(graph.flow, mask)} does not select it, but its gradient is 0 · Inf, which is NaN"
        return Cause(f"{text}; {hidden}", _rewrite(graph, mask) or rewrite)
    hidden = (
        f"{words.called(graph.flow, mask)} leaves it out, but its gradient is 0 · Inf, which is NaN"
    )
    return Cause(f"{text}; {hidden}", rewrite)


def masked_by(graph: Graph, node: Node) -> Node | None:
    """The node that takes some entries of this one out of the result: it adds zeros to what it passes back."""
    later = graph.leading_out(graph.downstream(node.outputs, bool))
    masks = [n for m in sorted(later) if graph.role(n := graph.flow.nodes[m]) in _MASKS]
    masks = [m for m in masks if graph.adds_zeros(m, later, node.outputs)]
    return next((m for m in masks if graph.role(m) == "select"), masks[0] if masks else None)


def _slope(graph: Graph, node: Node) -> tuple[str, str]:
    """What is bad about the slope of an operation, and what to write."""
    role = graph.role(node)
    situation = _composite(graph, node) if role == "sqrt" else None
    rewrite = _rewrite(graph, node, situation)
    zeros = _zeros(_size(graph, node, 0)) if node.inputs and _has_zeros(graph, node, 0) else ""
    if situation and zeros:
        return f"{_COMPOSITES[situation]}, where its slope is infinite", rewrite
    said: Mapping[Role, str] = {
        "sqrt": f"its input is 0 in {zeros}, where its slope is infinite",
        "rsqrt": f"its input is 0 in {zeros}, where its slope is infinite",
        "norm": "a vector of zeros comes in, where a norm has no slope",
        "log": f"its input is 0 in {zeros}, where its slope is infinite",
        "pow": f"its base is 0 in {zeros}, where a power below 1 has an infinite slope",
        "divide": f"its divisor is 0 in {zeros}",
        "angle": f"both inputs are 0 in {zeros}, where an angle has no slope",
    }
    if role in said and (zeros or role == "norm"):
        return said[role], rewrite
    if role in ("arc", "from one", "quantile"):
        return f"its input has {_ENDS[role]}, where its slope is infinite", rewrite
    too_large = _gradient_overflow(graph, node)
    general = "float16" if " float16" in too_large else "overflow"
    return too_large, _rewrite(graph, node, general) if too_large or not rewrite else rewrite


def _gradient_overflow(graph: Graph, node: Node) -> str:
    dtypes = [graph.flow.values[v].dtype for v in node.inputs]
    limit = _LARGEST.get(dtypes[0], "") if dtypes else ""
    inf_only = not _bad_gradient(node).nan
    return f"beyond {limit}, the largest {dtypes[0]}, it is too large" if limit and inf_only else ""


_ENDS: Mapping[Role, str] = {"arc": "1 or -1", "from one": "1", "quantile": "0 or 1"}
_COMPOSITES: Mapping[Situation, str] = {
    "norm": "this is the norm of a vector of zeros",
    "std": "this is the standard deviation of equal numbers",
    "root mean square": "this is the root of a mean of squares that are all 0",
}


def _composite(graph: Graph, node: Node) -> Situation | None:
    """Of a square root: a norm, a standard deviation, a root mean square."""
    total = _maker(graph, node, 0)
    if total is None or graph.role(total) not in ("sum", "mean"):
        return None
    square = _maker(graph, total, 0)
    if square is None or graph.role(square) not in ("square", "multiply"):
        return None
    if graph.role(total) == "sum":
        return "norm"
    less = (
        square
        if len(square.inputs) == 2 and graph.role(square) == "square"
        else _maker(graph, square, 0)
    )
    means = [_maker(graph, less, k) for k in range(len(less.inputs))] if less else []
    return "std" if any(m and graph.role(m) == "mean" for m in means) else "root mean square"


def _maker(graph: Graph, node: Node, k: int) -> Node | None:
    """The node that made an input, seen through copies."""
    while True:
        if k >= len(node.inputs):
            return None
        maker = graph.flow.values[node.inputs[k]].node
        if maker is None:
            return None
        node, k = graph.flow.nodes[maker], 0
        if graph.role(node) != "copy":
            return node


# Compiled


def compiled_cause(graph: Graph, node: Node) -> Cause:
    """Why compiled code makes NaN or Inf where op by op there is none."""
    said, rewrite = _slope(graph, node)
    mask = masked_by(graph, node)
    text = f"compiled code alone (`jit_compile=True`) makes the gradient of {words.called(graph.flow, node)} not finite"
    return _masked(graph, f"{text}{f': {said}' if said else ''}", mask, rewrite, "")


# Numbers


def _bad_gradient(node: Node) -> Size:
    return next(size for size in node.gradients + node.compiled if size and not size.is_finite)


def _kind(size: Size) -> str:
    return "NaN" if size.nan else "Inf"


def _output(graph: Graph, node: Node) -> Value:
    return graph.flow.values[node.outputs[0]]


def _nan(graph: Graph, node: Node) -> bool:
    sizes = [graph.flow.values[v].size for v in node.outputs]
    return any(size and size.nan for size in sizes)


def _size(graph: Graph, node: Node, k: int) -> Size | None:
    return graph.flow.values[node.inputs[k]].size


def _has_zeros(graph: Graph, node: Node, k: int) -> bool:
    size = _size(graph, node, k)
    return bool(size and size.zeros)


def _zeros(size: Size | None) -> str:
    """How many entries are 0."""
    if size is None or size.count == 1:
        return "its only entry"
    return f"{round(size.zeros * (size.count - size.nan - size.inf)):,} of {words.many(size.count)}"
