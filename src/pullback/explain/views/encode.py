"""A flow as the compact data of a page: columns of short arrays, texts and sizes named once and counted."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from pathlib import PurePath
from typing import Any

from pullback.explain.data import FlowData, Place, Rule, Size, Source
from pullback.explain.residuals import residuals
from pullback.explain.views.findings import Answer, Findings, findings
from pullback.explain.views.layers import Child, Group, grouped
from pullback.explain.views.marks import STARTS_HERE, WORDS, Mark, of_source
from pullback.explain.views.outline import opened_groups
from pullback.explain.views.statistics import Survey
from pullback.explain.views.terminal import sign, verdict

OPEN_AT_FIRST = 40  # what fits on a screen
MOST_BARS = 400
MOST_HELD = 200
_MARKS: tuple[Mark, ...] = tuple(WORDS)


class Table:
    """Things by number, each once."""

    def __init__(self) -> None:
        self.rows: list[Any] = []
        self._known: dict[Hashable, int] = {}

    def add(self, row: Any, key: Hashable = None) -> int:
        """The number of a row."""
        key = row if key is None else key
        if key not in self._known:
            self._known[key] = len(self.rows)
            self.rows.append(row)
        return self._known[key]


def encoded(flow: FlowData) -> dict[str, Any]:
    """What the script of the page reads."""
    return _Encoder(flow).data()


class _Encoder:
    def __init__(self, flow: FlowData) -> None:
        self._flow = flow
        self._survey = Survey(flow)
        self._root = grouped(flow)
        self._groups = [group for _, group in self._root.walk()]
        self._index = {group.path: k for k, group in enumerate(self._groups)}
        self._around = self._ways()
        self._texts, self._sizes, self._places, self._rules = Table(), Table(), Table(), Table()

    def data(self) -> dict[str, Any]:
        flow, found = self._flow, findings(self._flow)
        types = {node.type for node in flow.nodes}
        opened = opened_groups(self._root, self._survey, OPEN_AT_FIRST, ("repeat", "part"))
        return {
            "name": flow.name,
            "verdict": verdict(found),
            "ok": found.all_is_well,
            "sign": sign(found)[0],
            "calls": {t: c for t in types if (c := flow.op(t).call.strip("`")) and c != t},
            "engine": flow.engine,
            "seconds": _short(flow.seconds),
            "start": _short(self._survey.marks.start),
            "nonfinite": found.nonfinite,
            "nonfiniteNode": -1 if found.node is None else found.node,
            "notes": list(found.notes),
            "words": list(WORDS.items()),
            "startsHere": STARTS_HERE,
            "nodes": [self._node(k) for k in range(len(flow.nodes))],
            "values": [self._value(k) for k in range(len(flow.values))],
            "outputs": list(flow.outputs),
            "sources": self._sources(found),
            "groups": [self._group(group) for group in self._groups],
            "open": [self._index[path] for path in opened if path in self._index],
            "bars": self._bars(),
            "held": self._held(),
            "rules": self._rules.rows,
            "places": self._places.rows,
            "sizes": self._sizes.rows,
            "texts": self._texts.rows,
        }

    def _ways(self) -> dict[int, tuple[int, ...]]:
        """For each node the groups around it, outermost first."""
        found: dict[int, tuple[int, ...]] = {}
        ways: list[tuple[int, ...]] = [(0,)] * len(self._groups)
        for k, group in enumerate(self._groups):  # each after the one around it
            for child in group.children:
                if isinstance(child, int):
                    found[child] = ways[k]
                else:
                    inner = self._index[child.path]
                    ways[inner] = (*ways[k], inner)
        return found

    def _node(self, index: int) -> list[Any]:
        node, marks = self._flow.nodes[index], self._survey.marks
        return [
            self._texts.add(node.type),
            self._texts.add(node.name),
            self._place(node.place),
            self._rule(node.rule),
            list(node.inputs),
            list(node.outputs),
            [self._size(g) for g in node.gradients],
            round(node.seconds * 1e6),
            _bits(marks.of_node(index)),
            int(marks.is_aside(index)),
            self._texts.add(" › ".join(node.inside)),
        ]

    def _value(self, index: int) -> list[Any]:
        value = self._flow.values[index]
        spec = f"{value.dtype}[{','.join(map(str, value.shape))}]"
        broken = value.size is not None and not value.size.is_finite
        return [
            self._texts.add(spec),
            value.bytes,
            int(value.held),
            self._size(value.gradient),
            -1 if value.node is None else value.node,
            self._texts.add(value.variable),
            self._size(value.size) if broken else -1,
        ]

    def _size(self, size: Size | None) -> int:
        if size is None:
            return -1
        row = [_short(size.norm), _short(size.max), _short(size.zeros)]
        row += [] if size.is_finite else [size.nan, size.inf]
        return self._sizes.add(row, tuple(row))

    def _place(self, place: Place | None) -> int:
        if place is None:
            return -1
        texts = [self._texts.add(t) for t in (place.file, place.code.strip(), place.function)]
        return self._places.add([place.line, *texts], place)

    def _rule(self, rule: Rule) -> int:
        texts = [self._texts.add(t) for t in (rule.kind, rule.name, rule.target)]
        return self._rules.add([*texts, self._place(rule.place)], rule)

    def _group(self, group: Group) -> list[Any]:
        stats = self._survey.of(group)
        return [
            self._texts.add(group.name),
            self._texts.add(group.kind),
            group.count,
            [self._child(child) for child in group.children],
            *(_short(norm) for norm in (stats.arriving, stats.passed, stats.weights)),
            round(stats.seconds * 1e6),
            stats.bytes,
            [[self._texts.add(kind), n] for kind, n in stats.rules.items()],
            _bits(stats.marks),
            int(self._survey.is_aside(group)),
            stats.operations,
            int(not stats.is_finite),
        ]

    def _child(self, child: Child) -> int:
        """A node by its number, a group by minus its own."""
        return child if isinstance(child, int) else -self._index[child.path]

    def _sources(self, found: Findings) -> list[list[Any]]:
        return [
            [
                self._texts.add(a.source.name),
                self._texts.add(a.source.kind),
                self._texts.add(f"{a.source.dtype}[{','.join(map(str, a.source.shape))}]"),
                self._size(a.source.gradient),
                self._texts.add(" › ".join(a.source.layer)),
                int(a.source.trainable),
                a.why,
                list(a.source.values),
                self._home(a.source),
                _bits(self._marks_of(a, found)),
            ]
            for a in found.answers
        ]

    def _marks_of(self, answer: Answer, found: Findings) -> set[Mark]:
        if answer in found.stopped:
            return {"stopped"}
        return of_source(answer.source) if answer.expected else set()

    def _home(self, source: Source) -> int:
        """The innermost group around all that read a variable; anything else is drawn outside."""
        ways = [self._around[n] for v in source.values for n in self._survey.readers(v)]
        if source.kind != "variable" or not ways:
            return 0
        shared = [steps[0] for steps in zip(*ways, strict=False) if len(set(steps)) == 1]
        return shared[-1]

    def _bars(self) -> list[int]:
        """What has a bar in the chart, in the order of the backward pass: the innermost layers, else operations."""
        layers = [g for g in self._root.innermost_layers() if not self._survey.is_aside(g)]
        marks = self._survey.marks
        nodes = [n.id for n in self._flow.nodes if not marks.is_aside(n.id)]
        return ([-self._index[g.path] for g in layers] or nodes)[::-1][:MOST_BARS]

    def _held(self) -> list[list[Any]]:
        return [
            [
                one.bytes * many,
                f"{one.op}  {one.dtype}[{','.join(map(str, one.shape))}]{f'  ×{many}' if many > 1 else ''}",
                " · ".join(filter(None, (one.layer, PurePath(one.line).name))),
            ]
            for one, many in residuals(self._flow).alike[:MOST_HELD]
        ]


def _bits(marks: Sequence[Mark] | frozenset[Mark] | set[Mark]) -> int:
    return sum(1 << k for k, mark in enumerate(_MARKS) if mark in marks)


def _short(number: float | None) -> float | None:
    """Three digits; what JSON has no word for becomes the largest number."""
    if number is None or math.isnan(number):
        return None
    if math.isinf(number):
        return 1e308
    short = float(f"{number:.3g}")
    return int(short) if short == int(short) and abs(short) < 1000 else short
