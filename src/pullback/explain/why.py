"""`Flow.why`: the cause of a gradient that is missing or zero, in a sentence.

Decided by the graph alone. From the values of the source ways lead to the outputs; the gradient comes back on them.
The node at which it arrives and from which it is not passed on is the cause, or, where the way there is one of
integers, the node that made integers of numbers.
"""

from __future__ import annotations

from typing import Any

from pullback.errors import ExplainError
from pullback.explain import words
from pullback.explain.asked import sources_of, unknown
from pullback.explain.data import FlowData, Size, Source
from pullback.explain.graph import Graph
from pullback.explain.missing import missing
from pullback.explain.nonfinite import first_in
from pullback.explain.zero import shrinks_at, zero


def why(flow: FlowData, x: Any) -> str:
    """The cause, the line and what to write; for what has a gradient, how large it is."""
    graphs: dict[int, Graph] = {}
    said: dict[str, list[str]] = {}
    for own, source in map(flow.flow_of, sources_of(flow, x)):
        graph = graphs.setdefault(id(own), Graph(own))
        said.setdefault(_of_source(graph, source), []).append(f"`{source.name}`")
    lines = [words.of_all(", ".join(names), len(names), text) for text, names in said.items()]
    return "\n".join(lines) or _through(Graph(flow), x) or unknown(flow, x)


def _through(graph: Graph, layer: Any) -> str:
    """Of a layer without weights, what passes through it."""
    if not any(layer is each for each in graph.flow.layers):
        return ""
    name = layer.name
    if sum(each.name == name for each in graph.flow.layers) > 1:
        raise ExplainError(
            f"several layers that ran in {graph.flow.name} are called `{name}`, and a run tells them apart by name "
            "alone. Give them names of their own: `Layer(name=...)`."
        )
    inside = [node for node in graph.flow.nodes if name in node.layer]
    arrived = [size for node in reversed(inside) for size in graph.arrived(node)]
    if not inside:
        return ""
    passing = (
        f"the gradient that passes through it is {words.size_of(arrived[0])}"
        if arrived
        else "no gradient arrives"
    )
    return f"`{name}` has no weights; {passing}."


def _of_source(graph: Graph, source: Source) -> str:
    size = source.gradient
    if size is None:
        return missing(graph, source)
    text = f"has a gradient {words.size_of(size)}"
    if not size.is_finite:
        return _not_finite(graph.flow, size)
    if size.is_zero:
        text = zero(graph, source)
    elif size.max < words.TINY:
        text = words.sentence(
            f"has a gradient, but a tiny one, {words.size_of(size)}", shrinks_at(graph, source)
        )
    elif size.max > words.HUGE:
        text = words.sentence(f"has a gradient, and a huge one, {words.size_of(size)}")
    return words.sentence(text, frozen(graph.flow, source))


def _not_finite(flow: FlowData, size: Size) -> str:
    kinds = [f"{count} NaN" for count in [size.nan] if count] + [
        f"{n} Inf" for n in [size.inf] if n
    ]
    text = f"has a gradient that is not finite: {' and '.join(kinds)} in {words.many(size.count)}"
    return words.sentence(text, str(first_in(flow) or ""))


def frozen(flow: FlowData, source: Source) -> str:
    """That an optimizer and a tape leave a variable out."""
    if source.trainable or source.kind != "variable":
        return ""
    return f"It is not trainable, so that tapes and optimizers leave it out: {flow.op('frozen').remedy}"
