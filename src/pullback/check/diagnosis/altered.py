"""The gradient of another program: with another constant, mask, index or axis than the function has.

That is what a rule gives which computes the function anew, and takes something else there. A number that is not known
is found by Newton's method at one draw, and must predict all the others.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations, permutations

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Explanation
from pullback.check.diagnosis.inside import Edge, Inside
from pullback.check.diagnosis.moves import moves
from pullback.check.probe import Array, Step

# Operands that do not depend on the arguments and have one value; and what may stand in their place.
Group = Sequence[Edge]
Other = Callable[[Array], Array]
_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod")


def altered(inside: Inside) -> Iterator[Explanation]:
    """All operands of one value replaced, or those of one line; or two values by each other."""
    groups = _groups(inside)
    for group in groups:
        for how, other in _others(inside, group):
            yield _explanation(inside, words.altered(how, _steps(inside, group)), {group: other})
    for a, b in permutations(groups[: n.FEW], 2):
        one, other = _value(inside, a), _value(inside, b)
        if one.shape == other.shape and one.dtype == other.dtype and not set(a) & set(b):
            names = [words.held(_steps(inside, g), _value(inside, g)) for g in (a, b)]
            change = {a: lambda _, v=other: v}
            how = f"{names[1]} in place of {names[0]}"
            yield _explanation(inside, words.altered(how, _steps(inside, a)), change)
            how = f"{names[0]} and {names[1]} in each other's place"
            change = {**change, b: lambda _, v=one: v}
            yield _explanation(inside, words.altered(how, ()), change)


def _groups(inside: Inside) -> list[tuple[Edge, ...]]:
    found: dict[tuple[object, ...], list[Edge]] = {}
    for s, operands in enumerate(inside.at(inside.here).held):
        for i, value in enumerate(operands):
            size = np.abs(value) if value.dtype.kind == "f" else value
            kind = "axes" if _is_axes(inside.program.holders[s], value) else value.dtype.str
            key = kind, value.shape, size.tobytes()
            found.setdefault(key, []).append((s, i))
            found.setdefault((*key, inside.program.holders[s].place), []).append((s, i))
    return list(dict.fromkeys(map(tuple, found.values())))[: n.MANY]


def _steps(inside: Inside, group: Group) -> list[Step]:
    return [inside.program.holders[s] for s, _ in group]


def _value(inside: Inside, group: Group) -> Array:
    s, i = group[0]
    return inside.at(inside.here).held[s][i]


def _is_axes(step: Step, value: Array) -> bool:
    return value.dtype.kind == "i" and step.op.startswith(_REDUCTIONS)


def _others(inside: Inside, group: tuple[Edge, ...]) -> Iterator[tuple[str, Other]]:
    """What may have been taken in the place of an operand, in words."""
    steps, value = _steps(inside, group), _value(inside, group)
    name = words.held(steps, value)
    if value.dtype.kind == "f":
        number = _fitted(inside, group, float(np.abs(value).mean()))
        if number is not None:
            yield (
                f"{words.short(number)} in place of {name}",
                lambda v: np.full_like(v, number) * (np.sign(v) if v.ndim == 0 else 1),
            )
    elif value.dtype.kind == "b":
        yield f"{name} taken as true everywhere", np.ones_like
        yield f"{name} taken as false everywhere", np.zeros_like
        yield f"{name} the other way round", np.logical_not
    elif _is_axes(steps[0], value):
        some = chain.from_iterable(combinations(range(4), k) for k in (1, 2, 3))
        for axes in some:
            yield f"{steps[0].op} along axes {list(axes)}", lambda v, a=axes: np.array(a, v.dtype)
    else:
        yield f"{name} sorted", lambda v: np.sort(v, axis=None).reshape(v.shape)
        yield f"{name} one too large", lambda v: v + 1
        yield f"{name} one too small", lambda v: v - 1
    if value.ndim and not _is_axes(steps[0], value):
        for move in moves(value.shape):
            if move.kind != "axis":
                yield f"{name} {move.how}", move.apply


def _explanation(
    inside: Inside, text: str, others: Mapping[tuple[Edge, ...], Other]
) -> Explanation:
    def predict(draw: Draw) -> Array:
        held = [list(operands) for operands in inside.at(draw).held]
        for group, other in others.items():
            for s, i in group:
                held[s][i] = np.asarray(other(held[s][i]), held[s][i].dtype)
        with contextlib.suppress(Exception):  # not every program can be run
            return inside.altered(draw, held)
        return np.full(inside.case.shape, np.nan)

    return Explanation("constant", text, predict)


def _fitted(inside: Inside, group: tuple[Edge, ...], start: float) -> float | None:
    """The number in the place of an operand with which the program gives what the rule gives."""

    def off(number: float) -> Array:
        def other(v: Array) -> Array:
            return np.full_like(v, number) * (np.sign(v) if v.ndim == 0 else 1)

        return _explanation(inside, "", {group: other}).predict(inside.here) - inside.case.r(
            inside.here
        )

    number, now = start, off(start)
    first = float(np.sum(now**2))
    for k in range(n.FEW):
        step = n.EXPLAINED * (abs(number) or 1.0)
        slope = (off(number + step) - now) / step
        size = float(np.sum(slope**2))
        if not np.isfinite(size) or not size:
            return None
        move = -float(np.sum(slope * now)) / size
        number, now = number + move, off(number + move)
        if abs(move) <= n.AGREE**2 * abs(number) or (k > 2 and np.sum(now**2) > first / 4):
            break
    return words.plain_number(float(f"{number:.6g}")) if np.sum(now**2) < n.AGREE * first else None
