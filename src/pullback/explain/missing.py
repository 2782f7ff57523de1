"""Why a gradient is missing."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.explain import words
from pullback.explain.flow import Node, Source
from pullback.explain.graph import Cut, Graph, carries

_NO_GRADIENT = "gets no gradient"


def missing(graph: Graph, source: Source) -> str:
    """The sentence for a source without a gradient."""
    flow = graph.flow
    for look in (
        _dtype,
        _frozen,
        _target,
        _cut,
        _copied,
        _assigned,
        _detour,
        _not_run,
        _shape_only,
        _unused,
    ):
        if text := look(graph, source):
            return words.sentence(f"{_NO_GRADIENT}: {text}")
    return words.sentence(f"{_NO_GRADIENT}, and {flow.name} does not show why")


def _dtype(graph: Graph, source: Source) -> str:
    if "not a tensor" in source.hints:
        return (
            f"it is {_article(source.dtype)}, not a tensor. {graph.flow.op('not a tensor').remedy}"
        )
    if source.dtype.startswith(("float", "bfloat", "complex")):
        return ""
    remedy = graph.flow.op("integer source").remedy
    return f"it is {source.dtype}, and gradients flow to floating-point numbers only. {remedy}"


def _frozen(graph: Graph, source: Source) -> str:
    if source.trainable or source.kind != "variable":
        return ""
    layer = f"; its layer {source.layer[-1]} is frozen" if source.layer else ""
    return f"it is not trainable (`trainable=False`){layer}. {graph.flow.op('frozen').remedy}"


def _target(graph: Graph, source: Source) -> str:
    """The result itself is of integers."""
    flow = graph.flow
    outputs = [flow.values[v] for v in flow.outputs]
    if any(carries(v) for v in outputs):
        return ""
    kind = outputs[0].dtype if outputs else "nothing"
    makers = [flow.nodes[v.node] for v in outputs if v.node is not None]
    behind = [n for m in makers for n in _numbers_behind(graph, m, source)] or makers
    made = f", made by {words.called(flow, behind[-1])}" if behind else ""
    remedy = flow.op(behind[-1].type).remedy if behind else ""
    remedy = remedy or flow.op("integer target").remedy
    return f"the result is {kind}{made}, and gradients start from floating-point numbers only. {remedy}"


def _numbers_behind(graph: Graph, maker: Node, source: Source) -> list[Node]:
    way = graph.way(source.values)
    inputs = graph.on_way(maker, way, source.values)
    if any(carries(graph.flow.values[maker.inputs[k]]) for k in inputs):
        return [maker]
    return [n for k in inputs for n in graph.makers_with_numbers(Cut(maker, k), way, source.values)]


def _cut(graph: Graph, source: Source) -> str:
    way = graph.way(source.values)
    cuts = graph.cuts(way, source.values, lambda size: size is None)
    causes: dict[str, Node] = {}
    for cut in cuts:
        for node, text in _causes(graph, cut, way, source):
            causes.setdefault(text, node)
    return _first_of(list(causes))


def _first_of(causes: Sequence[str]) -> str:
    more = len(causes) - 1
    return (
        causes[0] + (f" (and {words.many(more, 'more cause', 'more causes')})" if more > 0 else "")
        if causes
        else ""
    )


def _causes(graph: Graph, cut: Cut, way: set[int], source: Source) -> list[tuple[Node, str]]:
    """What cut the gradient off; behind an input of integers, what made integers of numbers."""
    if carries(graph.flow.values[cut.node.inputs[cut.input]]):
        return [(cut.node, at_cut(graph, cut.node, cut.input))]
    makers = graph.makers_with_numbers(cut, way, source.values)
    return [(node, _at_integers(graph, node)) for node in makers]


def at_cut(graph: Graph, node: Node, k: int) -> str:
    """Why a node passes nothing on to an input of numbers."""
    flow, op = graph.flow, graph.flow.op(node.type)
    called, role = words.called(flow, node), graph.role(node)
    if node.rule.kind in words.CUSTOM:
        which = f" for input {k + 1} of {len(node.inputs)}" if len(node.inputs) > 1 else ""
        return (
            f"{words.rule_of(node.rule)} of {called} returned None{which}. "
            f"Return a gradient there, zeros if that is meant"
        )
    if node.rule.kind == "unrecorded" and role != "assign":
        return f"{called} ran while recording was stopped. {flow.op('unrecorded').remedy}"
    said = _SAID.get(role, "{call} has no gradient{towards}")
    towards = (
        f" for its input {k + 1}" if len(node.inputs) > 1 and node.rule.kind == "engine" else ""
    )
    return (
        f"{said.format(call=called, towards=towards)}. {op.remedy or flow.op('no gradient').remedy}"
    )


_SAID = {
    "stop": "{call} stops it",
    "step": "{call} is constant between its jumps and passes no gradient on",
    "assign": "it is written into a variable by {call}, and no gradient flows back through an assignment",
    "python": "{call} runs Python, of which no gradient is known",
    "bits": "{call} takes bits for other numbers and has no gradient",
    "cast": "{call} makes integers of it, which have no gradient",
    "index": "{call} gives indices, which have no gradient",
    "compare": "{call} gives true or false, which have no gradient",
    "shape": "{call} sees only its shape",
}


def _at_integers(graph: Graph, node: Node) -> str:
    op, role = graph.flow.op(node.type), graph.role(node)
    said = _SAID.get(role, "{call} makes integers of it, which have no gradient")
    text = said.format(call=words.called(graph.flow, node), towards="")
    return f"{text}. {op.remedy or graph.flow.op('no gradient').remedy}"


def _copied(graph: Graph, source: Source) -> str:
    """The result is computed from what the source was made of, not from the source."""
    if "a later copy" not in source.hints:
        return ""
    return (
        f"it is a copy of what the result was computed from. {graph.flow.op('a later copy').remedy}"
    )


def _assigned(graph: Graph, source: Source) -> str:
    """Its value came from an assignment, or was read before."""
    hints = {
        "read before": "it was read before the run, and only its value came in",
        "computed outside": "what the result depends on was computed from it before the run",
    }
    said = [
        f"{text}{_on(source)}. {graph.flow.op(h).remedy}"
        for h, text in hints.items()
        if h in source.hints
    ]
    return said[0] if said else ""


def _detour(graph: Graph, source: Source) -> str:
    if not source.moves:
        return ""
    line = _on(source) or _first_constant(graph)
    return (
        f"the result changes with it, but no operation leads there: it left the tensors (NumPy, Python){line}. "
        f"{graph.flow.op('detour').remedy}"
    )


def _first_constant(graph: Graph) -> str:
    """Where a number that no operation made, and that is no source, enters the computation."""
    flow = graph.flow
    known = {v for source in flow.sources for v in source.values}
    for node in flow.nodes:
        strange = [v for v in node.inputs if flow.values[v].node is None and v not in known]
        if node.place and any(carries(flow.values[v]) for v in strange) and graph.is_reached(node):
            return f" ({words.where(node.place)})"
    return ""


def _not_run(graph: Graph, source: Source) -> str:
    if source.place is None:
        return ""
    branch = next(
        (h.partition(": ")[2] for h in source.hints if h.startswith("branch not taken: ")), ""
    )
    by = f", chosen at {branch}" if branch else ""
    return (
        f"it is used only in a branch that was not taken{_on(source)}{by}. "
        f"Call {graph.flow.name} with arguments that take this branch"
    )


def _shape_only(graph: Graph, source: Source) -> str:
    """A way leads out, but only through its shape."""
    way = graph.way(source.values, shapes=True)
    shapes = [n for n in sorted(way) if graph.role(graph.flow.nodes[n]) == "shape"]
    if not shapes:
        return ""
    called = words.called(graph.flow, graph.flow.nodes[shapes[0]])
    return f"only its shape is used, by {called}. Use its values if a gradient is wanted"


def _unused(graph: Graph, source: Source) -> str:
    """Nothing reads it, or what is made of it is thrown away."""
    nodes = sorted(graph.downstream(source.values, _any))
    if not nodes:
        return f"{graph.flow.name} does not use it. {graph.flow.op('not used').remedy}"
    flow = graph.flow
    placed = [flow.nodes[n] for n in nodes if flow.nodes[n].place] or [flow.nodes[nodes[0]]]
    last = placed[-1]
    return (
        f"it is used, but what is made of it does not reach the result: the last to use it is "
        f"{words.called(flow, last)}. Return that, or compute the result from it"
    )


_any: Callable[[Node], bool] = bool


def _on(source: Source) -> str:
    return f" ({words.where(source.place)})" if source.place else ""


def _article(noun: str) -> str:
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"
