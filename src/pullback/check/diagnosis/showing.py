"""A finding as it is shown: one entry of the gradient in numbers, the smallest failing input, and a picture."""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis.draws import Draw, Truth
from pullback.check.diagnosis.shrink import Failing, smallest
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.report import Finding, Picture
from pullback.check.search.points import Point
from pullback.check.subject import Layout
from pullback.check.verdict.course import Course
from pullback.check.verdict.trial import weighted

# Findings about places, which a table shows better than a line.
PLACES = frozenset(
    {"transposed", "reversed", "shifted", "places", "axis", "element", "swapped", "region"}
)


def shown(
    course: Course, point: Point, truth: Truth, failing: Failing, finding: Finding
) -> Finding:
    """The finding with its numbers, and what a user needs to see it for himself."""
    layout, given = course.subject.inputs, point.is_given
    keep = given and layout.size <= n.FEW_NUMBERS
    # a slip here or in a picture must not cost the finding
    with contextlib.suppress(Exception):
        failing = smallest(course, truth, failing, keep=keep)
    finding = replace(
        finding,
        entry=layout.element(failing.entry),
        got=failing.r,
        wanted=failing.g,
        error=failing.error,
        at=_by_name(layout, failing.x),
        upstream={} if (failing.w == 1).all() else _by_name(course.subject.outputs, failing.w),
        made_up=not given,
        exclude="" if given else _exclusion(course, failing),
    )
    with contextlib.suppress(Exception):
        return replace(finding, picture=_picture(course, truth, failing, finding.kind))
    return finding


def _by_name(layout: Layout, x: Array) -> dict[str, Array]:
    parts = layout.split(x.copy())
    return {leaf.name: part for leaf, part in zip(layout.leaves, parts, strict=True)}


def _exclusion(course: Course, failing: Failing) -> str:
    """The `domain=` in which the given arguments lie and the failing input does not, if there is one."""
    layout = course.subject.inputs
    own = layout.leaf_of(failing.entry)
    for k in [own, *(k for k in range(len(layout.leaves)) if k != own)]:
        given, made = course.start[layout.span(k)], failing.x[layout.span(k)]
        made = failing.x[[failing.entry]] if k == own else made[(made != 0) & (made != 1)]
        if layout.leaves[k].is_complex or not given.size:
            continue
        for name, (low, high) in _intervals(given).items():
            if ((given > low) & (given < high)).all() and ((made <= low) | (made >= high)).any():
                return f"domain={{{layout.leaves[k].name!r}: {name}}}"
    return ""


def _intervals(given: Array) -> Mapping[str, tuple[float, float]]:
    """Named domains, and the range of the given values with some room."""
    room = max(float(np.ptp(given)), float(np.max(np.abs(given)))) / 2
    low, high = (float(f"{v:.2g}") for v in (np.min(given) - room, np.max(given) + room))
    named = {"'positive'": (0.0, np.inf), "'negative'": (-np.inf, 0.0), "'unit'": (0.0, 1.0)}
    return {**named, f"({low:g}, {high:g})": (low, high)}


# pictures


def _picture(course: Course, truth: Truth, failing: Failing, kind: str) -> Picture | None:
    """The picture that fits, unless it takes too long."""
    began = time.monotonic()
    draw = _drawn(course, truth, failing.x, failing.w)
    if draw is None or (time.monotonic() - began) * n.PICTURE_POINTS > n.SECONDS:
        return None
    wrong = draw.gap[course.subject.inputs.span(course.subject.inputs.leaf_of(failing.entry))]
    some = wrong.size > 1 and (kind in PLACES or (kind != "condition" and (wrong == 0).any()))
    if some and np.isfinite(failing.r):
        return _table(course, draw, failing)
    jacobian = _jacobian(course, truth, failing) if kind == "term" else None
    return jacobian or _line(course, truth, failing)


def _drawn(course: Course, truth: Truth, x: Array, w: Array) -> Draw | None:
    try:
        y, r = course.subject.pull(x, w)
    except (OutsideDomain, RuleFault):
        return None
    g, floor = truth.vjp(x, w)
    return Draw(x, w, y, g, r, floor)


def _line(course: Course, truth: Truth, failing: Failing) -> Picture:
    """One element moved through its range: the slope, and what the rule gives."""
    layout, entry = course.subject.inputs, failing.entry
    if layout.size > n.LARGE_INPUT:
        return None
    if (
        not truth.own
    ):  # where all slopes are zero nothing is confirmed: it may be at the given arguments
        truth = Truth(course.subject, course.start, failing.w, truth.entries)
    leaf = layout.leaves[layout.leaf_of(entry)]
    given = course.start[layout.span(layout.leaf_of(entry))]
    known = np.append(given[np.isfinite(given)], failing.x[entry])
    low, high = float(known.min()), float(known.max())
    room = max((high - low) / 4, abs(failing.x[entry]) / 2, n.NEAR)
    along = np.linspace(low - room, high + room, n.PICTURE_POINTS)
    along = np.unique(np.append(along, failing.x[entry]))
    moved = np.repeat(failing.x[None], along.size, axis=0)
    moved[:, entry] = along
    numbers = [_on_line(course, truth, course.domain.into(x), failing) for x in moved]
    y, r, g, error = np.array(numbers).T
    if not truth.own:  # the slopes that the values themselves have, to either side
        steps = np.diff(y) / np.diff(along)
        after, before = np.append(steps, np.nan), np.append(np.nan, steps)
        g, apart = (after + before) / 2, np.abs(after - before) / 2
        error = np.fmax(np.fmax(apart, np.append(apart[1:], 0)), np.append(0, apart[:-1]))
    name = f"{leaf.name}{layout.element(entry)}"
    return Picture(
        f"the gradient for {name} as {name} moves", g, r, error, along, float(failing.x[entry])
    )


def _on_line(course: Course, truth: Truth, x: Array, failing: Failing) -> tuple[float, ...]:
    """⟨w, f⟩, and the entry of the gradient by the rule and by the function with its error."""
    try:
        y, r = course.subject.pull(x, failing.w)
    except (OutsideDomain, RuleFault):
        return (np.nan,) * 4
    g, error = truth.vjp(x, failing.w) if truth.own else (r * np.nan, r * np.nan)
    return (weighted(y, failing.w), *(float(v[failing.entry]) for v in (r, g, error)))


def _table(course: Course, draw: Draw, failing: Failing) -> Picture:
    """The gradient of one input: around the wrong element, where it is large."""
    layout = course.subject.inputs
    which = layout.leaf_of(failing.entry)
    leaf, span = layout.leaves[which], layout.span(which)
    shape = (*leaf.shape, 2) if leaf.is_complex else leaf.shape
    columns = shape[-1] if len(shape) > 1 else leaf.size
    row, column = divmod(failing.entry - span.start, columns)
    parts = [v[span].reshape(-1, columns) for v in (draw.g, draw.r, draw.floor)]
    rows_, columns_ = _window(parts[0].shape[0], row), _window(columns, column)
    truth, rule, error = (part[rows_, columns_] for part in parts)
    shape_ = f"rows {rows_.start}–{rows_.stop - 1}, columns {columns_.start}–{columns_.stop - 1}"
    whole = truth.size == parts[0].size
    title = f"the gradient for {leaf.name}" + ("" if whole else f", {shape_}")
    return Picture(title, truth, rule, error)


def _window(size: int, around: int) -> slice:
    start = max(0, min(around - n.PICTURE_CELLS // 2, size - n.PICTURE_CELLS))
    return slice(start, min(size, start + n.PICTURE_CELLS))


def _jacobian(course: Course, truth: Truth, failing: Failing) -> Picture | None:
    """The derivative of every output by every element of one input, where these are few."""
    inputs, outputs = course.subject.inputs, course.subject.outputs
    which = inputs.leaf_of(failing.entry)
    span, leaf = inputs.span(which), inputs.leaves[which]
    if not truth.own or max(span.stop - span.start, outputs.size) > n.PICTURE_CELLS:
        return None
    draws = [_drawn(course, truth, failing.x, w) for w in np.eye(outputs.size)]
    kept = [d for d in draws if d is not None]
    truths, rules, errors = (
        np.array([getattr(d, name)[span] for d in kept]) for name in ("g", "r", "floor")
    )
    title = f"the derivative of every output by every element of {leaf.name}"
    names = ", ".join(output.name for output in outputs.leaves)
    return Picture(title, truths, rules, errors, rows=names, columns=leaf.name)
