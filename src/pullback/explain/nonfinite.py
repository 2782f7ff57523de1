"""`Flow.first_nonfinite`: where NaN or Inf starts.

A result that is not finite is followed back, over values that are not finite, to the operation that made it of finite
numbers. Where the result is finite, gradients are looked at from the result on: the first operation at which finite
ones arrive and that passes on others is the one. What is not finite but does no harm (a branch that `where` does not
take and that gets no bad gradient) is not reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pullback.explain import words
from pullback.explain.bad_ops import Cause, backward_cause, compiled_cause, forward_cause
from pullback.explain.data import FlowData, Node, Size, Source, Value
from pullback.explain.graph import Graph

Direction = Literal["input", "forward", "backward", "compiled"]


@dataclass(frozen=True, slots=True)
class NonFinite:
    """The first operation that made NaN or Inf, why, and what to write instead.

    `direction`: `forward`, in the result; `backward`, in its gradient; `compiled`, in the gradient of compiled code
    alone; `input`, it was in what came in, and there is no `node`.
    """

    direction: Direction
    node: Node | None
    op: str  # as users write it
    line: str  # of the user's
    layer: str
    cause: str
    rewrite: str

    def __str__(self) -> str:
        return words.sentence(self.cause, self.rewrite)


def first_nonfinite(flow: FlowData) -> NonFinite | None:
    """The first one; of a step that takes several gradients, of these in their order."""
    found = map(first_in, (*flow.others, flow))
    return next((one for one in found if one is not None), None)


def first_in(flow: FlowData) -> NonFinite | None:
    """The first one forward; else backward; else in compiled code."""
    graph = Graph(flow)
    return _forward(graph) or _backward(graph) or _compiled(graph)


def _is_bad(size: Size | None) -> bool:
    return size is not None and not size.is_finite


# Forward


def _forward(graph: Graph) -> NonFinite | None:
    flow = graph.flow
    bad = [flow.values[v] for v in flow.outputs if _is_bad(flow.values[v].size)]
    if not bad:
        return None
    way = values_behind(graph, bad)
    turned = _first_nan(graph, way) if any(v.size and v.size.nan for v in bad) else None
    if turned is not None and graph.role(turned) == "softmax":
        return _found(flow, "forward", turned, forward_cause(graph, turned))
    return _origin(graph, way, turned)


def values_behind(graph: Graph, bad: list[Value]) -> list[Value]:
    """Everything that is not finite and leads to these values, in the order of the run."""
    found: dict[int, Value] = {}
    todo = list(bad)
    while todo:
        value = todo.pop()
        if value.id not in found:
            found[value.id] = value
            inputs = graph.flow.nodes[value.node].inputs if value.node is not None else ()
            todo += [graph.flow.values[v] for v in inputs if v in graph.bad]
    return sorted(found.values(), key=lambda v: (-1 if v.node is None else v.node, v.id))


def _first_nan(graph: Graph, way: list[Value]) -> Node | None:
    """The first node that made NaN of numbers, Inf among them."""
    for value in way:
        if value.node is not None and value.size and value.size.nan:
            node = graph.flow.nodes[value.node]
            sizes = [graph.flow.values[v].size for v in node.inputs if v in graph.bad]
            if not any(size is None or size.nan for size in sizes):
                return node
    return None


def _origin(graph: Graph, way: list[Value], turned: Node | None) -> NonFinite | None:
    """The operation that made Inf or NaN of finite numbers; else what came in with one."""
    flow = graph.flow
    made = [flow.nodes[v.node] for v in way if v.node is not None and _from_finite(graph, v.node)]
    if made and graph.role(made[0]) == "read":
        source = next((s for s in flow.sources if set(made[0].inputs) & set(s.values)), None)
        if source is not None:
            return _came_in(flow, flow.values[made[0].outputs[0]], source)
    if made and not (turned is not None and turned.id < made[0].id):
        return _found(flow, "forward", made[0], forward_cause(graph, made[0], turned))
    given = [(v, _source_of(flow, v)) for v in way if v.node is None]
    named = [(v, source) for v, source in given if source is not None]
    if named:
        return _came_in(flow, *named[0])
    if turned is not None:
        return _found(flow, "forward", turned, forward_cause(graph, turned))
    first = next((v for v in way if v.node is not None), None)
    node = flow.nodes[first.node] if first is not None and first.node is not None else None
    return _found(flow, "forward", node, forward_cause(graph, node)) if node else None


def _from_finite(graph: Graph, node: int) -> bool:
    inputs = graph.flow.nodes[node].inputs
    return graph.bad.isdisjoint(inputs)


def _source_of(flow: FlowData, value: Value) -> Source | None:
    return next((s for s in flow.sources if value.id in s.values), None)


def _came_in(flow: FlowData, value: Value, source: Source) -> NonFinite:
    size = value.size
    kind = "NaN" if size and size.nan else "Inf"
    count = (size.nan or size.inf) if size else 0
    readers = [node for node in flow.nodes if value.id in node.inputs]
    first = readers[0] if readers else None
    read = f" It is read first by {words.called(flow, first)}" if first else ""
    cause = f"`{source.name}` itself has {kind} in {count:,} of its {words.many(size.count if size else 0)}."
    layer = source.layer or (first.layer if first else ())
    rewrite = flow.op("bad input").rewrite
    line = first.line if first else ""
    return NonFinite("input", None, source.name, line, "/".join(layer), cause + read, rewrite)


# Backward


def _backward(graph: Graph) -> NonFinite | None:
    flow = graph.flow
    for node in reversed(flow.nodes):
        if any(map(_is_bad, node.gradients)) and not any(map(_is_bad, graph.arrived(node))):
            masked = _made_before(graph, node)
            cause = backward_cause(graph, node, masked)
            return _found(flow, "backward", masked or node, cause)
    return None


def _made_before(graph: Graph, node: Node) -> Node | None:
    """The operation that made Inf or NaN going forward, out of which this one makes a bad gradient."""
    flow = graph.flow
    bad = [flow.values[v] for v in node.inputs + node.outputs if v in graph.bad]
    way = values_behind(graph, bad)
    made = [flow.nodes[v.node] for v in way if v.node is not None and _from_finite(graph, v.node)]
    return made[0] if made else None


def _compiled(graph: Graph) -> NonFinite | None:
    flow = graph.flow
    for node in reversed(flow.nodes):
        if any(map(_is_bad, node.compiled)) and not any(map(_is_bad, node.gradients)):
            return _found(flow, "compiled", node, compiled_cause(graph, node))
    return None


def _found(flow: FlowData, direction: Direction, node: Node, cause: Cause) -> NonFinite:
    call = flow.op(node.type).call
    layer = "/".join(node.layer or (() if node.place else words.layers_before(flow, node)))
    return NonFinite(direction, node, call, node.line, layer, cause.text, cause.rewrite)
