"""The rows of a flow: as many layers as there is room for, in the order of the backward pass."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from pullback.explain.views.layers import Child, Group, GroupKind
from pullback.explain.views.marks import WORDS, Mark, joined
from pullback.explain.views.statistics import Statistics, Survey


@dataclass(frozen=True, slots=True)
class Row:
    """A group or an operation."""

    depth: int
    name: str
    count: int  # of a repeat: how many blocks
    norm: float | None
    norms: tuple[float | None, ...]  # of a repeat: those of its blocks
    marks: tuple[Mark, ...]
    seconds: float
    bytes: int
    statistics: Statistics | None = None  # of a group
    line: str = ""  # of an operation
    is_finite: bool = True  # what arrived
    breaks: bool = False  # whether the first NaN or Inf comes of it


def outline(root: Group, survey: Survey, most: int, first: int | None = None) -> list[Row]:
    """Rows for what is inside a tree; the outermost groups are opened first while there is room.

    `first` is the operation at which NaN or Inf starts.
    """
    opened = opened_groups(root, survey, most)
    rows: list[Row] = []
    waiting: list[tuple[int, Child]] = [(0, c) for c in visible(root, survey)]
    while waiting:  # what ran last comes first
        depth, child = waiting.pop()
        if isinstance(child, int):
            rows.append(replace(_of_node(child, survey, depth), breaks=child == first))
            continue
        row = _of_group(child, survey, depth)
        # what is inside an open group speaks for itself
        is_open = child.path in opened
        breaks = not is_open and first is not None and first in child.nodes()
        rows.append(replace(row, marks=() if is_open else row.marks, breaks=breaks))
        if is_open:
            waiting.extend((depth + 1, inner) for inner in visible(child, survey))
    return rows


def opened_groups(
    root: Group, survey: Survey, most: int, closed: Collection[GroupKind] = ()
) -> set[tuple[str, ...]]:
    """The paths of groups to show open, level by level, so that no more than `most` things show."""
    opened = {root.path}
    shown, level = len(visible(root, survey)), [root]
    while level:
        inner = [g for one in level for g in one.groups if g.kind not in closed and _opens(g)]
        more = sum(len(visible(g, survey)) for g in inner)
        if shown + more > most:
            break
        opened.update(g.path for g in inner)
        shown, level = shown + more, inner
    return opened


def _opens(group: Group) -> bool:
    """A layer without layers in it is read as a whole; a function is as good as its operations."""
    return bool(group.groups) or group.kind in ("function", "inside")


def visible(group: Group, survey: Survey) -> list[Child]:
    """The children of a group that a gradient has to do with."""
    return [child for child in group.children if not survey.is_aside(child)]


def _of_group(group: Group, survey: Survey, depth: int) -> Row:
    stats = survey.of(group)
    blocks = group.children if group.kind == "repeat" else ()
    norms = tuple(_norm(block, survey) for block in reversed(blocks))
    return Row(
        depth,
        group.name,
        group.count,
        stats.norm,
        norms,
        stats.marks,
        stats.seconds,
        stats.bytes,
        stats,
        is_finite=stats.is_finite,
    )


def _norm(child: Child, survey: Survey) -> float | None:
    if isinstance(child, Group):
        return survey.of(child).norm
    return joined(survey.marks.arrived(survey.flow.nodes[child]))


def _of_node(index: int, survey: Survey, depth: int) -> Row:
    node = survey.flow.nodes[index]
    held = sum(v.bytes for v in map(survey.flow.values.__getitem__, node.outputs) if v.held)
    marks = survey.marks.of_node(index)
    return Row(
        depth,
        survey.flow.op(node.type).call.strip("`"),
        1,
        _norm(index, survey),
        (),
        tuple(mark for mark in WORDS if mark in marks),
        node.seconds,
        held,
        is_finite=all(size.is_finite for size in survey.marks.arrived(node)),
        line=f"{Path(node.place.file).name}:{node.place.line}" if node.place else "",
    )
