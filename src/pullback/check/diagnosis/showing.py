"""A finding as it is shown: one entry of the gradient in numbers, the smallest failing input, and a picture."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from pullback.check import numbers as n
from pullback.check.budget import Spent
from pullback.check.diagnosis.draws import Draw, Truth
from pullback.check.diagnosis.shrink import PLAIN, PLAINEST, Failing, smallest
from pullback.check.probe import Array, OutsideDomain, RuleFault
from pullback.check.report import Finding, Picture
from pullback.check.search.domain import NAMED
from pullback.check.subject import Layout
from pullback.check.verdict.course import Course
from pullback.check.verdict.trial import weighted

# Findings about places, which a table shows better than a line.
PLACES = ("transposed", "reversed", "shifted", "places", "axis", "element", "swapped")


def shown(
    course: Course,
    truth: Truth,
    failing: Failing,
    finding: Finding,
    *,
    explain: bool,
    same: Callable[[Failing], bool] = lambda _: True,
) -> Finding:
    """The finding with its numbers and, if calls may be spent on it, the smallest failing input and a picture.

    Of a smaller input the `same` must be said.
    """
    layout, found = course.subject.inputs, failing.x
    keep = not finding.made_up and layout.size <= n.FEW
    # a slip here or in a picture must not cost the finding
    try:
        for fill in (PLAINEST, PLAIN) if explain else ():
            small = smallest(course, truth, failing, keep=keep, fill=fill)
            if np.array_equal(small.x, failing.x) or same(small):
                failing = small
                break
    except Spent:
        pass  # then it is shown as it was found
    except Exception as error:
        course.record.note(f"no smaller input could be sought: {type(error).__name__}: {error}")
    finding = replace(
        finding,
        entry=_entry(layout, failing.entry),
        got=failing.r,
        wanted=failing.g,
        error=failing.error,
        at=_by_name(layout, failing.x),
        upstream={} if (failing.w == 1).all() else _by_name(course.subject.outputs, failing.w),
        exclude=_exclusion(course, failing) if finding.made_up else "",
    )
    try:
        picture = _picture(course, truth, failing, found, finding) if explain else None
    except Spent:
        return finding
    except Exception as error:
        course.record.note(f"there is no picture: {type(error).__name__}: {error}")
        return finding
    return replace(finding, picture=picture)


def _entry(layout: Layout, position: int) -> str:
    which = layout.leaf_of(position)
    if not layout.leaves[which].is_complex:
        return layout.element(position)
    part = "imaginary" if (position - layout.span(which).start) % 2 else "real"
    return f"{layout.element(position)}, {part} part"


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
    named = {repr(name): ends for name, ends in NAMED.items()}
    return named | {f"({low:g}, {high:g})": (low, high)}


def _picture(
    course: Course, truth: Truth, failing: Failing, found: Array, finding: Finding
) -> Picture | None:
    """The picture, unless it takes too long; tables are of where the error was found, before zeros were put there."""
    began, layout = time.monotonic(), course.subject.inputs
    draw = truth.draw(found, failing.w)
    if draw is None or (time.monotonic() - began) * n.PICTURE_POINTS > n.SECONDS:
        return None
    span = layout.span(layout.leaf_of(failing.entry))
    gap, live = draw.gap[span], (draw.g[span] != 0) | (draw.r[span] != 0)
    some = finding.kind != "condition" and not finding.made_up and (gap[live] == 0).any()
    if gap.size > 1 and (finding.kind in PLACES or some):
        return _table(course, draw, failing.entry)
    is_small = finding.kind == "term" and not finding.made_up and truth.own
    if is_small and max(gap.size, course.subject.outputs.size) <= n.PICTURE_CELLS:
        return _jacobian(course, truth, found, failing.entry)
    return _line(course, truth, failing)


def _line(course: Course, truth: Truth, failing: Failing) -> Picture:
    """One element moved through its range: the slope, and what the rule gives."""
    layout, entry, here = course.subject.inputs, failing.entry, float(failing.x[failing.entry])
    # slopes that are all zero confirm nothing: those at the given arguments may
    if not truth.is_cheap:
        truth = Truth(course.subject, course.start, failing.w, truth.entries)
    known = np.append(course.start[layout.span(layout.leaf_of(entry))], here)
    low, high = float(np.nanmin(known)), float(np.nanmax(known))
    room = max((high - low) / 4, abs(here) / 2, n.NEAR)
    along = np.linspace(low - room, high + room, n.PICTURE_POINTS)
    along = np.unique(np.append(along, here))
    y, r, g, error = np.array([_on_line(course, truth, failing, value) for value in along]).T
    if not truth.is_cheap:  # the slopes that the values themselves have, to either side
        steps = np.diff(y) / np.diff(along)
        after, before = np.append(steps, np.nan), np.append(np.nan, steps)
        g, apart = (after + before) / 2, np.abs(after - before) / 2
        error = np.fmax(np.fmax(apart, np.append(apart[1:], 0)), np.append(0, apart[:-1]))
    name = f"{layout.leaves[layout.leaf_of(entry)].name}{layout.element(entry)}"
    return Picture(f"the gradient for {name} as {name} moves", g, r, error, along, here)


def _on_line(course: Course, truth: Truth, failing: Failing, value: float) -> list[float]:
    """⟨w, f⟩, and the entry of the gradient by the rule and by the function with its error, for another value."""
    x, w, entry = failing.x.copy(), failing.w, failing.entry
    x[entry] = value
    try:
        y, r = course.subject.pull(x, w)
    except (OutsideDomain, RuleFault):
        return [np.nan] * 4
    if not np.array_equal(course.domain.into(x), x):
        return [np.nan] * 4
    # by differences of its own each value would cost too much
    g, error = truth.vjp(x, w) if truth.is_cheap else (r * np.nan, r * np.nan)
    return [weighted(y, w), float(r[entry]), float(g[entry]), float(error[entry])]


def _table(course: Course, draw: Draw, entry: int) -> Picture:
    """The gradient of one input: around the wrong element, where it is large."""
    layout = course.subject.inputs
    leaf, span = layout.leaves[layout.leaf_of(entry)], layout.span(layout.leaf_of(entry))
    columns = 2 if leaf.is_complex else leaf.shape[-1]
    place = divmod(entry - span.start, columns)
    tables = [v[span].reshape(-1, columns) for v in (draw.g, draw.r, draw.floor)]
    part = tuple(_window(*pair) for pair in zip(tables[0].shape, place, strict=True))
    title = f"the gradient for {leaf.name}"
    if tables[0][part].size < tables[0].size:
        title += ", " + " × ".join(f"{one.start}–{one.stop - 1}" for one in part)
    truth, rule, error = (table[part] for table in tables)
    return Picture(title, truth, rule, error)


def _window(size: int, around: int) -> slice:
    start = max(0, min(around - n.PICTURE_CELLS // 2, size - n.PICTURE_CELLS))
    return slice(start, min(size, start + n.PICTURE_CELLS))


def _jacobian(course: Course, truth: Truth, x: Array, entry: int) -> Picture:
    """The derivative of every output by every element of one input."""
    inputs, outputs = course.subject.inputs, course.subject.outputs
    leaf, span = inputs.leaves[inputs.leaf_of(entry)], inputs.span(inputs.leaf_of(entry))
    draws = [truth.draw(x, w) for w in np.eye(outputs.size)]
    kept = np.array([(d.g[span], d.r[span], d.floor[span]) for d in draws if d is not None])
    names = ", ".join(output.name for output in outputs.leaves)
    title = f"the derivative of every output by every element of {leaf.name}"
    return Picture(title, kept[:, 0], kept[:, 1], kept[:, 2], rows=names, columns=leaf.name)
