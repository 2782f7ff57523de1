"""Two flows side by side: what of the gradient differs, and whose rules."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

from pullback.explain.data import FlowData, Node, Rule
from pullback.explain.sketch import cosine
from pullback.explain.views.layers import grouped
from pullback.explain.views.statistics import Survey, finite_or_nan

SAME = 1e-3  # relative: rounding, and another order of sums, stay below this
SAME_DIRECTION = 1 - 1e-4  # the cosine where what differs is about a hundredth of the whole


@dataclass(frozen=True, slots=True)
class Pair:
    """A layer, an operation or a source in both flows, with the norm of what it hands on, or of its gradient.

    A norm is None where there is no gradient or no such thing, NaN where it is not finite.
    """

    kind: Literal["layer", "operation", "source"]
    name: str
    left: float | None
    right: float | None
    only: Literal["", "left", "right"] = ""  # where it is in one of them alone
    cosine: float | None = None  # of the angle between the gradients of a source, estimated

    @property
    def ratio(self) -> float | None:
        """Right by left; None where either is missing or the left one is zero."""
        if self.left is None or self.right is None or (not self.left and self.right):
            return None
        return self.right / self.left if self.left else 1.0

    @property
    def is_turned(self) -> bool:
        """Whether it points elsewhere."""
        return self.cosine is not None and self.cosine < SAME_DIRECTION

    @property
    def differs(self) -> bool:
        """In size or direction, by more than rounding."""
        if self.left is None or self.right is None:
            return self.left is not self.right
        if math.isnan(self.left) or math.isnan(self.right):
            return math.isnan(self.left) is not math.isnan(self.right)
        return self.is_turned or not math.isclose(self.left, self.right, rel_tol=SAME)


@dataclass(frozen=True, slots=True)
class RuleChange:
    """Operations of one type at which another rule ran."""

    type: str
    left: Rule | None
    right: Rule | None
    count: int
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Two flows side by side. Print it, or read its pairs."""

    left: str
    right: str
    layers: tuple[
        Pair, ...
    ]  # in the order of the backward pass; operations where there are no layers
    sources: tuple[Pair, ...]
    rules: tuple[RuleChange, ...]

    @property
    def labels(self) -> tuple[str, str]:
        """What to call the two beside each other."""
        return (self.left, self.right) if self.left != self.right else ("left", "right")

    @property
    def differing(self) -> tuple[Pair, ...]:
        """Everything whose gradient is another one."""
        return tuple(pair for pair in (*self.sources, *self.layers) if pair.differs)

    def show(self, file: IO[str] | None = None) -> None:
        """Print rules and gradients that differ."""
        from pullback.explain.views.compare_text import show

        show(self, file)

    def save(self, path: str | Path) -> None:
        """Write a file: `.json` for the data, `.html` for a page."""
        from pullback.explain.views.files import save_comparison

        save_comparison(self, Path(path))

    def to_dict(self) -> dict[str, Any]:
        """All of it as lists, dicts, texts and numbers."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        from pullback.explain.views.compare_text import as_text

        return as_text(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterable[Any]:
        """For rich: what `show` prints."""
        from pullback.explain.views.compare_text import rendered

        del console, options
        return [rendered(self)]

    def _repr_html_(self) -> str:
        from pullback.explain.views.notebook import comparison_html

        return comparison_html(self)


def compare(left: FlowData, right: FlowData) -> Comparison:
    """Match layers, sources and operations of two flows by name and order."""
    layers = _paired("layer", _layer_norms(left), _layer_norms(right))
    return Comparison(
        left.name,
        right.name,
        layers or _paired("operation", _node_norms(left), _node_norms(right)),
        _paired("source", _source_norms(left), _source_norms(right)),
        tuple(_rule_changes(left, right)),
    )


# By what they are matched by: name, norm and sketch.
Norms = Mapping[Hashable, tuple[str, float | None, tuple[float, ...]]]


def _paired(
    kind: Literal["layer", "operation", "source"], left: Norms, right: Norms
) -> tuple[Pair, ...]:
    pairs: list[Pair] = []
    for key in dict.fromkeys([*left, *right]):
        name = (left.get(key) or right[key])[0]
        only = "" if key in left and key in right else "left" if key in left else "right"
        before, after = (norms[key][1] if key in norms else None for norms in (left, right))
        sketches = [norms[key][2] if key in norms else () for norms in (left, right)]
        pairs.append(Pair(kind, name, before, after, only, cosine(*sketches)))
    return tuple(pairs)


def _layer_norms(flow: FlowData) -> Norms:
    """What the innermost layers hand on, those that ran last first: the first that differs is where it begins."""
    survey, outer = Survey(flow), _shared_layer(flow)
    layers = [g for g in grouped(flow).innermost_layers() if not survey.is_aside(g)]
    names = [(layer, layer.path[outer:]) for layer in reversed(layers)]
    return {path: ("/".join(path), survey.of(layer).out, ()) for layer, path in names}


def _shared_layer(flow: FlowData) -> int:
    """1 if there is a layer around all others, whose name is that of the model and no part of theirs; else 0."""
    layers = [node.layer for node in flow.nodes if node.layer]
    nested = any(len(layer) > 1 for layer in layers)
    return int(nested and len({layer[0] for layer in layers}) == 1)


def _node_norms(flow: FlowData) -> Norms:
    survey = Survey(flow)
    shown = [(key, n) for key, n in _by_place(flow).items() if not survey.marks.is_aside(n.id)]
    return {
        key: (n.type, finite_or_nan([g for g in n.gradients if g]), ())
        for key, n in reversed(shown)
    }


def _source_norms(flow: FlowData) -> Norms:
    seen = Counter[str]()
    found: dict[Hashable, tuple[str, float | None, tuple[float, ...]]] = {}
    for _, source in map(flow.flow_of, flow.sources):
        norm = finite_or_nan([source.gradient] if source.gradient is not None else [])
        found[source.name, seen[source.name]] = (source.name, norm, source.sketch)
        seen[source.name] += 1
    return found


def _by_place(flow: FlowData) -> dict[Hashable, Node]:
    """Operations by layer, surroundings and type, those of one kind counted."""
    outer, seen = _shared_layer(flow), Counter[Hashable]()
    found: dict[Hashable, Node] = {}
    for node in flow.nodes:
        key = (node.layer[outer:], node.inside, node.type)
        found[*key, seen[key]] = node
        seen[key] += 1
    return found


def _rule_changes(left: FlowData, right: FlowData) -> Iterable[RuleChange]:
    places = _by_place(left), _by_place(right)
    changes: dict[tuple[str, Rule | None, Rule | None], list[Node]] = {}
    for key in dict.fromkeys([*places[1], *places[0]]):
        nodes = [place[key] for place in places if key in place]
        before, after = (place[key].rule if key in place else None for place in places)
        if before != after and _is_told(before, after):
            changes.setdefault((nodes[-1].type, before, after), []).append(nodes[-1])
    for (kind, before, after), nodes in changes.items():
        layers = dict.fromkeys(node.layer[-1] for node in nodes if node.layer)
        yield RuleChange(kind, before, after, len(nodes), tuple(layers))


def _is_told(left: Rule | None, right: Rule | None) -> bool:
    """An operation that only one flow has is told if its rule is somebody's own."""
    rules = [rule for rule in (left, right) if rule is not None]
    return len(rules) == 2 or rules[0].kind in ("custom", "pullback", "override")
