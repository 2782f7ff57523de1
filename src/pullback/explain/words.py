"""How places, sizes and operations are said in a sentence."""

from __future__ import annotations

from pathlib import PurePath

from pullback.explain.data import FlowData, Node, Place, Size

TINY = 1e-7  # of the size of float32's rounding: beside a weight of 1, a step of this size is lost
HUGE = (
    1e4  # a step of this size, times a common learning rate of 0.001, throws a weight of 1 far off
)
CUSTOM = ("custom", "pullback", "override")  # kinds of rules that somebody wrote
MOST_CODE = 80  # letters of a line of code that a sentence can hold


def where(place: Place | None) -> str:
    """`file:line` with the code, as part of a sentence; empty where no line is known."""
    if place is None:
        return ""
    name = f"{PurePath(place.file).name}:{place.line}"
    code = place.code.strip()
    short = code if len(code) <= MOST_CODE else code[: MOST_CODE - 1] + "…"
    return f"{name}, `{short}`" if short else name


def at(node: Node, flow: FlowData | None = None) -> str:
    """Layer and line of a node, in brackets; where it has neither, the layer before it."""
    layer = f"layer {node.layer[-1]}" if node.layer else ""
    inside = node.inside[-1] if node.inside else ""
    parts = [part for part in (layer, inside, where(node.place)) if part]
    if not parts and flow is not None:
        parts = [f"after layer {name}" for name in layers_before(flow, node)[-1:]]
    return f" ({'; '.join(parts)})" if parts else ""


def layers_before(flow: FlowData, node: Node) -> tuple[str, ...]:
    """The layers around the operation that made the first input, looking past those without a layer."""
    while not node.layer:
        made = [flow.values[v].node for v in node.inputs[:1]]
        if not made or made[0] is None:
            return ()
        node = flow.nodes[made[0]]
    return node.layer


def called(flow: FlowData, node: Node) -> str:
    """An operation as users write it, with its place."""
    return f"{flow.op(node.type).call}{at(node, flow)}"


def rule_of(node: Node) -> str:
    """Whose rule it is, where it is written, and where it is used."""
    rule = node.rule
    overrides = f"the override of {rule.target}" if rule.target else "the override"
    whose = overrides if rule.kind == "override" else "the custom gradient"
    name = f" `{rule.name}`" if rule.name else ""
    place = f" ({where(rule.place)})" if rule.place else ""
    return f"{whose}{name}{place}, used{at(node) or f' by {node.type}'},"


def size_of(size: Size) -> str:
    """A gradient in few words."""
    zeros = f", {percent(size.zeros)} zeros" if size.zeros else ""
    if size.count == 1:
        return f"of size {number(size.max)}"
    return f"of norm {number(size.norm)}, largest entry {number(size.max)}{zeros}"


def number(x: float) -> str:
    """Three digits."""
    return f"{x:.3g}"


def percent(share: float) -> str:
    """A share, not rounded to none or all."""
    whole = min(max(round(100 * share), 1), 99) if 0 < share < 1 else round(100 * share)
    return f"{whole} %"


def many(count: int, what: str = "entry", plural: str = "entries") -> str:
    """`1 entry`, `3 entries`."""
    return f"{count:,} {what if count == 1 else plural}"


def sentence(*parts: str) -> str:
    """Parts that are not empty, each a sentence."""
    said = [part.strip().rstrip(".") for part in parts if part.strip()]
    return " ".join(
        f"{part[0].upper()}{part[1:]}." if k else f"{part}." for k, part in enumerate(said)
    )


def of_all(names: str, count: int, text: str) -> str:
    """A sentence about one source, said of as many as share it.

    >>> of_all("`a`, `b`", 2, "has a gradient of size 1.")
    '`a`, `b`: have a gradient of size 1.'
    """
    verb, _, rest = text.partition(" ")
    plural = {"has": "have", "gets": "get"}.get(verb)
    return f"{names}: {plural} {rest}" if plural and count > 1 else f"{names}: {text}"
