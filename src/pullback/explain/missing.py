"""Why a gradient is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from pullback.explain import words
from pullback.explain.data import Hint, Node, Role, Size, Source
from pullback.explain.graph import Cut, Graph, carries

_NO_GRADIENT = "gets no gradient"


def missing(graph: Graph, source: Source) -> str:
    """The sentence for a source without a gradient."""
    flow = graph.flow
    for look in (
        _dtype,
        _frozen,
        _target,
        _not_watched,
        _cut,
        _read_before,
        _detour,
        _not_run,
        _shape_only,
        _unused,
    ):
        if text := look(graph, source):
            return words.sentence(f"{_NO_GRADIENT}: {text}")
    return words.sentence(f"{_NO_GRADIENT}, and {flow.name} does not show why")


def _dtype(graph: Graph, source: Source) -> str:
    if Hint.NOT_A_TENSOR in source.hints:
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
    if Hint.FROZEN in source.hints and source.layer:
        layer = f"; its layer {source.layer[-1]} is frozen"
        return f"it is not trainable (`trainable=False`){layer}. {graph.flow.op('frozen').remedy}"
    return "it is not trainable (`trainable=False`), as running statistics are. Make it so if it is to be trained"


def _not_watched(graph: Graph, source: Source) -> str:
    if Hint.NOT_WATCHED not in source.hints:
        return ""
    return f"the tape that is asked{_on(source)} does not watch it. {graph.flow.op('not watched').remedy}"


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
    cuts = graph.cuts(way, source.values, _is_none)
    found = [cause for cut in cuts for cause in _causes(graph, cut, way, source)]
    # In a traced function what ran first may stand below.
    found.sort(key=lambda cause: cause.node.place.line if cause.node.place else cause.node.id)
    causes = list({cause.text: cause for cause in found}.values())
    if not causes:
        return ""
    others = list(dict.fromkeys(words.called(graph.flow, cause.node) for cause in causes[1:]))
    before = _cut_before(graph, source, way, [cause.node for cause in causes])
    also = (
        [f"so does {others[0]}" + (f" and {len(others) - 1} more" if others[1:] else "")]
        if others
        else before
    )
    return f"{'; '.join([causes[0].text, *also])}. {causes[0].remedy}"


def is_stopped(graph: Graph, source: Source) -> bool:
    """Whether nothing but stops that the code asks for keeps the gradient from a source."""
    way = graph.way(source.values)
    cuts = graph.cuts(way, source.values, _is_none) if source.gradient is None else []
    causes = [cause.node for cut in cuts for cause in _causes(graph, cut, way, source)]
    return bool(causes) and all(graph.role(node) == "stop" for node in causes)


def _is_none(size: Size | None) -> bool:
    return size is None


@dataclass(frozen=True, slots=True)
class Cause:
    """What cuts a gradient off, and what to write."""

    node: Node
    text: str
    remedy: str


def _cut_before(graph: Graph, source: Source, way: set[int], said: Sequence[Node]) -> list[str]:
    """What would cut the gradient off before it gets to the source, were the first cut mended."""
    first = min(node.id for node in said)
    before = [graph.flow.nodes[n] for n in sorted(way) if n < first]
    found = [node for node in before if _always_cuts(graph, node, way, source)]
    return [f"{words.called(graph.flow, node)} would cut it off as well" for node in found[:1]]


def _always_cuts(graph: Graph, node: Node, way: set[int], source: Source) -> bool:
    """Whether a node makes integers of numbers, is a step or a stop."""
    values = graph.flow.values
    inputs = [values[node.inputs[k]] for k in graph.on_way(node, way, source.values)]
    whole = bool(node.outputs) and not any(carries(values[v]) for v in node.outputs)
    return (whole and any(map(carries, inputs))) or graph.role(node) in ("step", "stop", "python")


def _causes(graph: Graph, cut: Cut, way: set[int], source: Source) -> list[Cause]:
    """What cut the gradient off; behind an input of integers, what made integers of numbers, or the assignment of what
    was read.
    """
    if cut.node.rule.kind == "engine" and (writers := graph.writers_before(cut, way)):
        return [cause_at(graph, Cut(node, 0)) for node in writers]
    if carries(graph.flow.values[cut.node.inputs[cut.input]]):
        return [cause_at(graph, cut)]
    makers = graph.makers_with_numbers(cut, way, source.values)
    return [_integers_made(graph, node) for node in makers]


def cause_at(graph: Graph, cut: Cut) -> Cause:
    """Why a node passes nothing on to an input of numbers."""
    flow, node = graph.flow, cut.node
    called, role, many = words.called(flow, node), graph.role(node), len(node.inputs) > 1
    if node.raised:
        return Cause(node, f"the gradient of {called} raises {node.raised}", "Mend the rule")
    if node.rule.kind in words.CUSTOM:
        text = f"{words.rule_of(node)} returned None for it"
        return Cause(node, text, "Return a gradient there, zeros if that is meant")
    if node.rule.kind == "unrecorded" and role != "assign":
        outside = node.rule.name == "outside"
        how = (
            "outside of the block of the tape, not recorded"
            if outside
            else "while recording was stopped"
        )
        remedy = flow.op("outside" if outside else "unrecorded").remedy
        return Cause(node, f"{called} ran {how}", remedy)
    towards = f" for its input {cut.input + 1}" if many and node.rule.kind == "engine" else ""
    said = "" if role == "index" else role  # a gradient arrived: not at indices
    text = _SAID.get(said, "{call} has no gradient{towards}").format(call=called, towards=towards)
    return Cause(node, text, flow.op(node.type).remedy or flow.op("no gradient").remedy)


_SAID: Mapping[Role, str] = {
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


def _integers_made(graph: Graph, node: Node) -> Cause:
    said = _SAID.get(graph.role(node), "{call} makes integers of it, which have no gradient")
    text = said.format(call=words.called(graph.flow, node), towards="")
    remedy = graph.flow.op(node.type).remedy or graph.flow.op("integers made").remedy
    return Cause(node, text, remedy)


def _read_before(graph: Graph, source: Source) -> str:
    if Hint.READ_BEFORE not in source.hints:
        return ""
    remedy = graph.flow.op(Hint.READ_BEFORE).remedy
    return f"it was read before the run, and only its value came in{_on(source)}. {remedy}"


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
    if Hint.RENAMED in source.hints:
        return f"its name gets another value before it is used{_on(source)}. Use another name there"
    if Hint.SHAPE in source.hints:
        return f"only its shape is used{_on(source)}. Use its values if a gradient is wanted"
    if Hint.NAMED in source.hints:
        return (
            f"nothing that reaches the result is computed from it, though it is named{_on(source)}. "
            f"{graph.flow.op('not used').remedy}"
        )
    decided = source.decided_at
    by = f", chosen at {PurePath(str(decided)).name}" if decided else ""
    if Hint.LOOP in source.hints:
        return f"it is used only in the body of a loop that never ran{_on(source)}{by}. Let it run at least once"
    zeros = (
        "; as the branch is traced, a tape gives zeros for it" if Hint.ZEROS in source.hints else ""
    )
    return (
        f"it is used only in a branch that was not taken{_on(source)}{by}{zeros}. "
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
    flow = graph.flow
    nodes = [flow.nodes[n] for n in sorted(graph.downstream(source.values, _any))]
    if not nodes:
        return f"{flow.name} does not use it. {flow.op('not used').remedy}"
    computing = [node for node in nodes if graph.role(node) != "read"] or nodes
    last = next((node for node in reversed(computing) if node.place), computing[-1])
    return (
        f"it is used, but what is made of it does not reach the result: the last to use it is "
        f"{words.called(flow, last)}. Return that, or compute the result from it"
    )


_any: Callable[[Node], bool] = bool


def _on(source: Source) -> str:
    return f" ({words.where(source.place)})" if source.place else ""


def _article(noun: str) -> str:
    return f"{'an' if noun[:1] in 'aeiou' else 'a'} {noun}"
