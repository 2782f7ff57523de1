"""A finding as it is shown: one entry of the gradient in numbers, the smallest failing input, and a picture."""

import contextlib
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis.draws import Truth
from pullback.check.diagnosis.pictures import picture_of
from pullback.check.diagnosis.shrink import Failing, smallest
from pullback.check.probe import Array
from pullback.check.report import Finding
from pullback.check.subject import Layout
from pullback.check.verdict.course import Course


def shown(
    course: Course, truth: Truth, failing: Failing, finding: Finding, *, explain: bool
) -> Finding:
    """The finding with its numbers and, if calls may be spent on it, the smallest failing input and a picture."""
    layout, found = course.subject.inputs, failing.x
    keep = not finding.made_up and layout.size <= n.FEW
    # a slip here or in a picture must not cost the finding
    with contextlib.suppress(Exception):
        failing = smallest(course, truth, failing, keep=keep) if explain else failing
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
    with contextlib.suppress(Exception):
        picture = picture_of(course, truth, failing, found, finding) if explain else None
        return replace(finding, picture=picture)
    return finding


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
    named = {"'positive'": (0.0, np.inf), "'negative'": (-np.inf, 0.0), "'unit'": (0.0, 1.0)}
    return {**named, f"({low:g}, {high:g})": (low, high)}
