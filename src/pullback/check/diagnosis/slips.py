"""One slip in the derivative of one operation of the program: which, and what was done to it.

A slip changes the cotangent of one input of one operation: an edge. It is tested by products with a few directions, and
if it passes, entry by entry at all draws.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Explanation
from pullback.check.diagnosis.inside import At, Change, Inside
from pullback.check.diagnosis.moves import FORMS, forms, moves
from pullback.check.diagnosis.whole import lies_over
from pullback.check.probe import Array
from pullback.check.programs.steps import Edge, Slips
from pullback.check.report import FindingKind


def scaled(inside: Inside, *, unlike: bool = False) -> Iterator[Explanation]:
    """What flows back along one edge, through one operation, or along two edges, is left out or has a factor.

    `unlike`: along two edges, with a factor of its own each.
    """
    found: list[tuple[bool, bool, float, list[tuple[Edge, ...]], list[float]]] = []
    back = inside.at(inside.here).back
    product_of = {(s, j): inside.product((s, j), back[s][j]) for s, j in inside.edges()}
    for groups in _scalable(inside, product_of):
        products = np.array([np.sum([product_of[e] for e in g], axis=0) for g in groups]).T
        off = np.linalg.lstsq(products, inside.target)[0] if np.any(products) else np.zeros(1)
        numbers = [words.plain_number(1 + float(number)) for number in off]
        if 1 in numbers or (len(set(numbers)) > 1) != unlike:
            continue
        if inside.fits(products @ (np.array(numbers) - 1)):
            oddity = max(map(words.oddity, numbers))
            found.append((any(numbers), len(groups) > 1, oddity, groups, numbers))
    for *_, groups, numbers in sorted(found, key=lambda one: one[:3]):
        text = words.scaled([[(inside.steps[s], j) for s, j in g] for g in groups], numbers)
        factors = {e: number for g, number in zip(groups, numbers, strict=True) for e in g}
        kind = "slip" if any(numbers) else "term"
        if len(groups) > 1 and inside.is_whole:  # one of them may lie on the way from the other

            def change(_: At, w: Slips, s: int, factors: dict[Edge, float] = factors) -> None:
                w.factors.update((edge, f) for edge, f in factors.items() if edge[0] == s)

            yield inside.swept(kind, text, {s for s, _ in factors}, change)
        elif not unlike:
            changes = {e: lambda a, _, e=e, c=c: c * a.back[e[0]][e[1]] for e, c in factors.items()}
            yield inside.explanation(kind, text, changes)


def _scalable(inside: Inside, product_of: dict[Edge, Array]) -> Iterator[list[tuple[Edge, ...]]]:
    """Edges one by one, all of an operation, and every two that are not the same in effect."""
    edges, operations = inside.groups()
    yield from ([tuple(group)] for group in (*edges, *operations))
    distinct: list[tuple[tuple[Edge, ...], Array]] = []
    for group in edges:
        product = np.sum([product_of[edge] for edge in group], axis=0)
        if np.any(product) and not any(_parallel(product, other) for _, other in distinct):
            distinct.append((tuple(group), product))
    yield from map(list, combinations([group for group, _ in distinct], 2))


def _parallel(a: Array, b: Array) -> bool:
    return bool(np.allclose(a * (b @ b), b * (a @ b), n.AGREE))


def optioned(inside: Inside) -> Iterator[Explanation]:
    """An option of one operation taken wrongly: another axis, the other direction, an operand transposed."""
    at = inside.at(inside.here)
    found = inside.program.misread(at.point)
    for s, made in enumerate(found):
        for v, (how, back) in enumerate(made):

            def change(a: At, _: Draw, j: int, s: int = s, v: int = v) -> Array:
                return inside.program.misread(a.point)[s][v][1][j]

            yield from _fitting(inside, s, how, back, change)


def _fitting(
    inside: Inside,
    s: int,
    how: str,
    back: Sequence[Array],
    change: Callable[[At, Draw, int], Array],
) -> Iterator[Explanation]:
    """One operation differentiated otherwise by one of its inputs, or by all."""
    at = inside.at(inside.here)
    products = [inside.product((s, j), b - at.back[s][j]) for j, b in enumerate(back)]
    every = list(range(len(products)))
    for which in [[j] for j in every] + ([every] if len(every) > 1 else []):
        if inside.fits(np.sum([products[j] for j in which], axis=0)):
            text = words.slip(inside.steps[s], which[0] if len(which) == 1 else None, how)
            yield inside.explanation(
                "slip", text, {(s, j): lambda a, d, j=j: change(a, d, j) for j in which}
            )


def taken_for(inside: Inside) -> Iterator[Explanation]:
    """The derivative of one operation taken for something else, or what flows back put into other places."""
    at = inside.at(inside.here)
    bent = inside.local(
        inside.here, [[(1 + n.NEAR) * a for a in e] for e in at.inputs], at.cotangents
    )
    found: list[tuple[int, Explanation]] = []
    for s, j in inside.edges():
        linear = np.allclose(bent[s][j], at.back[s][j])
        for oddity, kind, text, change in _alterations(inside, at, s, j, linear=linear):
            if inside.fits(inside.product((s, j), change(at, inside.here) - at.back[s][j])):
                found.append((oddity, inside.explanation(kind, text, {(s, j): change})))
    for _, explanation in sorted(found, key=lambda one: one[0]):
        yield explanation


def _alterations(
    inside: Inside, at: At, s: int, j: int, *, linear: bool
) -> Iterator[tuple[int, FindingKind, str, Change]]:
    """How odd it is, and what is done; the derivative of a linear operation is taken for nothing but a number."""
    shape, step = at.back[s][j].shape, inside.steps[s]
    wide = next(_spreads(at.cotangents[s][0].shape, shape), None)
    if wide is not None and len(at.outputs[s]) == 1:
        for number in (1, -1, 0.5, 2):
            text = words.slip(step, j, f"taken as {words.short(number)}")

            def change(a: At, _: Draw, c: float = number) -> Array:
                return c * np.broadcast_to(a.cotangents[s][0].reshape(wide), shape)

            yield 0, "slip", text, change
    for move in moves(shape):
        text = words.flows_back(step, j, f"is {move.how}")
        yield (
            3 if move.kind in ("axis", "shifted") else 1,
            move.kind,
            text,
            lambda a, _, m=move: m.apply(a.back[s][j]),
        )
    if wide == shape and not linear and not np.iscomplexobj(at.back[s][j]):
        yield from _formed(inside, at, s, j)


def _formed(
    inside: Inside, at: At, s: int, j: int
) -> Iterator[tuple[int, FindingKind, str, Change]]:
    """Some form of an operand or of the result in the place of a derivative."""
    step = inside.steps[s]
    named = [(words.result(step), lambda a: a.outputs[s][0])]
    named += [
        (words.operand(step, i), lambda a, i=i: a.inputs[s][i]) for i in range(len(step.inputs))
    ]
    several = len(step.inputs) > 1
    rank = 4 + several * len(FORMS)
    for name, of in named:
        if lies_over(of(at).shape, at.back[s][j].shape):
            for k, (text, form) in enumerate(forms(name, few=several)):
                how = words.slip(step, j, f"taken as {text}")
                yield rank + k, "slip", how, lambda a, _, q=of, f=form: f(q(a)) * a.cotangents[s][0]


def _spreads(shape: tuple[int, ...], over: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The shapes in which an array can be laid over one with an axis more, or of greater sizes."""
    wider = [shape, *((*shape[:k], 1, *shape[k:]) for k in range(len(shape) + 1))]
    return (w for w in wider if len(w) == len(over) and lies_over(w, over))


def factors(inside: Inside) -> Iterator[Explanation]:
    """The whole gradient has a factor that is some form of a tensor of the program."""
    at, case = inside.at(inside.here), inside.case
    for s, step in sorted(enumerate(inside.steps), key=lambda one: not one[1].output):
        name, where = words.tensor(step)
        for wide in _spreads(at.outputs[s][0].shape, case.shape):
            for text, form in (*forms(name), (f"{name}[0]/{name}", lambda q: q[:1] / q)):

                def predict(d: Draw, s: int = s, w: Any = wide, f: Any = form) -> Array:
                    return f(inside.at(d).outputs[s][0].reshape(w)) * case.g(d)

                yield Explanation("factor", words.named_factor(text) + where, predict)
