"""Why a gradient is zero, or tiny."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from pullback.explain import words
from pullback.explain.data import Node, Role, Size, Source, Value
from pullback.explain.graph import Cut, Graph, passed_on
from pullback.explain.missing import cause_at

# The smallest numbers that are not flushed to zero; below, what is not zero becomes zero.
_SMALLEST = {"float16": 6e-8, "bfloat16": 1.2e-38, "float32": 1.2e-38, "float64": 2.2e-308}
_FLAT = 4.0  # beyond this the slope of a saturating function is below a hundredth
_UNEVEN = "Take a loss that tells its entries apart, such as a cross-entropy, not their sum"
_REARRANGE = ("join", "copy", "gather", "add", "sum", "mean")
_SHRINKS = 0.1  # a node that passes on more than this is not worth naming


def zero(graph: Graph, source: Source) -> str:
    """The sentence for a gradient of zeros."""
    way = graph.way(source.values)
    cuts = graph.cuts(way, source.values, _is_lost)
    zeros = [cut for cut in cuts if passed_on(cut.node, cut.input) is not None] or cuts
    lead = "has a gradient, but it is zero throughout"
    if not zeros:
        return f"{lead}: {_cancelled(graph, source)}"
    return f"{lead}: {_at_zero(graph, _maker_of_zeros(graph, zeros[-1]))}"


def _maker_of_zeros(graph: Graph, cut: Cut) -> Cut:
    """The node that made the zeros: one that only rearranges numbers has got them from another."""
    if graph.role(cut.node) not in _REARRANGE or cut.node.rule.kind in words.CUSTOM:
        return cut
    way = graph.leading_out(graph.downstream(cut.node.outputs, bool))
    for node in (graph.flow.nodes[n] for n in sorted(way)):
        if graph.role(node) not in _REARRANGE and graph.adds_zeros(node, way, cut.node.outputs):
            return Cut(node, graph.on_way(node, way, cut.node.outputs)[0])
    return cut


def _is_lost(size: Size | None) -> bool:
    return size is None or size.is_zero


def _cancelled(graph: Graph, source: Source) -> str:
    flow, way = graph.flow, graph.way(source.values)
    sums = [v for n in way for v in flow.nodes[n].inputs if _cancels(graph, flow.values[v])]
    readers = [flow.nodes[n] for v in sums[:1] for n in graph.readers(v)]
    lines = list(dict.fromkeys(words.called(flow, node) for node in readers))
    return "what comes back from its uses adds up to zero" + (
        f": {', '.join(lines[:2])}" if lines else ""
    )


def _cancels(graph: Graph, value: Value) -> bool:
    """Whether gradients that are not zero meet here and add up to zero."""
    if value.gradient is None or not value.gradient.is_zero:
        return False
    nodes = [graph.flow.nodes[n] for n in graph.readers(value.id)]
    edges = [
        passed_on(node, k) for node in nodes for k, v in enumerate(node.inputs) if v == value.id
    ]
    return sum(not _is_lost(size) for size in edges) > 1


def _at_zero(graph: Graph, cut: Cut) -> str:
    """Why a node turns what arrives into zeros."""
    flow, node = graph.flow, cut.node
    if passed_on(node, cut.input) is None:
        cause = cause_at(graph, cut)
        return f"{cause.text}. {cause.remedy}"
    called = words.called(flow, node)
    if node.rule.kind in words.CUSTOM:
        return f"{words.rule_of(node)} returned zeros"
    how = _how(graph, cut)
    return f"{called} {_said(graph, cut, how)}. {_remedy(graph, cut, how)}"


How = Role | Literal["underflow", "even", "single"]
_SAID: Mapping[How, str] = {
    "gate": "is off: its input is nowhere positive, in {all} (dead)",
    "saturating": "is saturated{up_to}, where its slope is 0 in {dtype}",
    "softmax": "is saturated{up_to}, where its slope is 0 in {dtype}",
    "clip": "clips all {all}: none lies within the limits, and beyond them it is constant",
    "select": "takes nothing from this branch (its {branch}): the condition selects the other everywhere",
    "square": "is at its lowest point: its input is zero in all {all}",
    "abs": "is at its lowest point: its input is zero in all {all}",
    "peak": "takes another value: none of these is the largest (or smallest), and the others get no gradient",
    "step": "is constant between its jumps, where its derivative is 0",
    "exp": "underflows{up_to}: what it passes on is too small for {dtype}",
    "single": "is over a single entry, which is 1 whatever comes in",
    "underflow": "underflows: what it passes on is too small for {dtype}",
    "even": "adds up to 1 whatever comes in, and what comes back to it is the same for all of its entries",
    "multiply": "multiplies it by numbers that are zero wherever a gradient comes back",
    "": "has the derivative 0 at all {all}",
}


def _how(graph: Graph, cut: Cut) -> How:
    """What makes zeros of what arrives: the role of the node, or what it is here."""
    role, value = graph.role(cut.node), _input(graph, cut)
    if role == "softmax" and value.shape[-1:] == (1,):
        return "single"
    if _is_even(graph, cut):
        return "even"
    is_scaling = role in ("multiply", "divide", "") and _zero_factor(graph, cut) is None
    return "underflow" if role == "cast" or (is_scaling and _underflows(graph, cut)) else role


def _said(graph: Graph, cut: Cut, how: How) -> str:
    value = _input(graph, cut)
    factor = _zero_factor(graph, cut) if how in ("multiply", "divide") else None
    if factor is not None:
        return f"multiplies it by zero{_made_by(graph, factor)}"
    return _SAID.get(how, _SAID[""]).format(
        all=words.many(math.prod(value.shape)),
        dtype=value.dtype,
        up_to=f" (inputs up to ±{words.number(value.size.max)})" if value.size else "",
        branch={1: "first", 2: "second"}.get(cut.input, "condition"),
    )


def _remedy(graph: Graph, cut: Cut, how: How) -> str:
    flow = graph.flow
    if how == "even":
        return _UNEVEN
    if how == "single":
        return flow.op("single softmax").remedy
    return flow.op("underflow" if how == "underflow" else cut.node.type).remedy


def _is_even(graph: Graph, cut: Cut) -> bool:
    """Whether this is a softmax that is not saturated: what arrives is the same for all of its entries."""
    size = _input(graph, cut).size
    return graph.role(cut.node) == "softmax" and size is not None and size.max < _FLAT


def _zero_factor(graph: Graph, cut: Cut) -> Value | None:
    """The other factor of a product, where it is zero throughout."""
    others = [graph.flow.values[v] for k, v in enumerate(cut.node.inputs) if k != cut.input]
    return next((v for v in others if v.size is not None and v.size.is_zero), None)


def _made_by(graph: Graph, value: Value) -> str:
    named = [s.name for s in graph.flow.sources if value.id in s.values]
    if name := value.variable or next(iter(named), ""):
        return f" (`{name}` is all zeros)"
    maker = graph.flow.nodes[value.node] if value.node is not None else None
    return f", which {words.called(graph.flow, maker)} made" if maker and maker.place else ""


def _underflows(graph: Graph, cut: Cut) -> bool:
    """Whether arriving gradients times the numbers of the node are not zero, but smaller than any number."""
    arrived = max((s.max for s in graph.arrived(cut.node)), default=1.0)
    others = [graph.flow.values[v].size for v in cut.node.inputs + cut.node.outputs]
    factors = [s.max for s in others if s and s.max > 0]
    smallest = _SMALLEST.get(_input(graph, cut).dtype, 0.0)
    return arrived > 0 and arrived * min(factors, default=math.inf) < smallest


def _input(graph: Graph, cut: Cut) -> Value:
    return graph.flow.values[cut.node.inputs[cut.input]]


def shrinks_at(graph: Graph, source: Source) -> str:
    """The node on the way at which the gradient shrinks most, or the operation that makes it shrink again and again."""
    flow, way = graph.flow, graph.way(source.values)
    nodes = [flow.nodes[n] for n in sorted(way)]
    ratios = [(r, n) for n in nodes if (r := _ratio(graph, n, way, source)) is not None]
    ratio, node = min(ratios, key=lambda each: each[0], default=(1.0, None))
    if node is not None and ratio <= _SHRINKS:
        called = words.called(flow, node)
        return f"it shrinks most at {called}, by a factor of {words.number(1 / ratio)}"
    together: dict[str, list[float]] = {}
    for each, n in ratios:
        together.setdefault(n.type, []).append(each)
    kind = min(together, key=lambda kind: math.prod(together[kind]), default="")
    ratio = math.prod(together.get(kind, ()))
    if ratio > _SHRINKS:
        return ""
    last = words.called(flow, next(n for _, n in reversed(ratios) if n.type == kind))
    times = f"in {len(together[kind])} steps at {last} and its like"
    return words.sentence(
        f"it shrinks {times}, by a factor of {words.number(1 / ratio)} in all", flow.op(kind).remedy
    )


def _ratio(graph: Graph, node: Node, way: set[int], source: Source) -> float | None:
    arrived = [s.norm for s in graph.arrived(node) if s.is_finite and s.norm > 0]
    inputs = graph.on_way(node, way, source.values)
    passed = [s.norm for k in inputs if (s := passed_on(node, k)) and s.norm > 0]
    return max(passed) / max(arrived) if arrived and passed else None
