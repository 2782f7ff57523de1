"""The one change to the rule that makes it right: another operand, option, axis, place or number in one of its lines.

Where slips in the function's derivative predict what a rule gives, a repair looks at the rule itself: it holds if the
changed rule is the derivative at every draw, and nothing that was right is spoilt.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, permutations, product

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation
from pullback.check.diagnosis.moves import moves
from pullback.check.diagnosis.rule import Change, Edge, Repair, Rule, rule_of
from pullback.check.diagnosis.whole import lies_over
from pullback.check.probe import Array, Arrays, OutsideDomain
from pullback.program.words import Word


def cancelled(case: Case) -> Iterator[Explanation]:
    """The rule is off by no more than the rounding of numbers whose difference it takes."""
    rule = rule_of(case)
    if rule is None:
        return
    for k, step in rule.steps.items():
        is_sum = step.word in (Word.ADD, Word.SUBTRACT) and step.line and min(step.inputs) >= 0
        if is_sum and all(_is_noise(rule, draw, k) for draw in case.draws.tested):
            text = (
                f"loses its digits in {step.name} {rule.line(k, 'of')}: nearly equal numbers cancel"
            )
            yield Explanation("precision", text, case.r)


def _is_noise(rule: Rule, draw: Draw, k: int) -> bool:
    """Whether the error at a draw is what some units of rounding of an operand of a sum make."""
    values, step = rule.at(draw), rule.program.steps[k]
    a, c = values[step.inputs[0]], values[step.outputs[0]]
    if a.dtype.kind != "f" or not np.any(np.abs(c) < n.NEAR * np.abs(a)):
        return False
    unit = float(np.finfo(a.dtype).eps)
    moved = Repair("", lambda _: {(k, 0): lambda v: v * np.asarray(1 + unit, v.dtype)})
    noise = n.UNITS * np.abs(rule.gradients(draw, moved) - draw.r)
    return bool(np.all(rule.case.part(draw.gap) <= rule.case.part(noise)))


def options(case: Case) -> Iterator[Explanation]:
    """A branch of the rule that is never to be taken, or an operation of it taken in another way, makes it right."""
    yield from _that_mend(case, _branches, _options)


def repairs(case: Case) -> Iterator[Explanation]:
    """Another operand makes the rule right; the plain before the complex."""
    yield from _that_mend(
        case, _numbers, _factors, _indices, _left_out, _others, _neighbours, _moved, _joined, _pairs
    )


def _that_mend(case: Case, *kinds: Callable[[Rule], Iterator[Repair]]) -> Iterator[Explanation]:
    here, rule = case.draws.fit[0], rule_of(case)
    if rule is None:
        return
    for kind in kinds:
        for repair in islice(kind(rule), n.MANY * n.FEW):
            explanation = rule.explanation(repair)
            if case.agrees(explanation.predict, here) and all(
                # near one point a condition that is changed may as well be left out
                case.agrees(explanation.predict, draw)
                for draw in case.draws.smooth
            ):
                yield explanation


def _branches(rule: Rule) -> Iterator[Repair]:
    """A condition that is to hold everywhere, or nowhere."""
    for t, edges in rule.groups():
        if rule.here[t].dtype.kind == "b":
            yield rule.edit(t, edges, "{} taken as false everywhere", np.zeros_like)
            yield rule.edit(t, edges, "{} taken as true everywhere", np.ones_like)


def _options(rule: Rule) -> Iterator[Repair]:
    """A step taken in another way; or all steps of its type."""
    for k, step in rule.steps.items():
        for v, how in enumerate(step.options):
            yield Repair(f"{how.format(step.name)} {rule.line(k, 'of')}", options={k: v})
    for op in dict.fromkeys(step.op for step in rule.steps.values()):
        same = {k: s.options for k, s in rule.steps.items() if s.op == op and s.options}
        for how in next(iter(same.values()), ()) if len(same) > 1 else ():
            if all(how in ways for ways in same.values()):
                every = {k: ways.index(how) for k, ways in same.items()}
                yield Repair(f"{how.format(op)}, wherever the rule has it", options=every)


def _numbers(rule: Rule) -> Iterator[Repair]:
    """Another constant."""
    for t, edges in rule.numbers():
        value = rule.here[t]
        if t not in rule.program.constants or value.size != 1 or value.dtype.kind != "f":
            continue
        if any(rule.decides(k) for k, _ in edges):  # many other bounds would do as well
            continue

        def change(number: float) -> Change:
            return lambda v: np.full_like(v, number)

        now = float(value.ravel()[0])
        some = [
            now + 1,
            now - 1,
            -now,
            2 * now,
            now / 2,
            0.0,
            1.0,
            *_fitted(rule, edges, change, now),
        ]
        for number in dict.fromkeys(some):
            how = f"{words.short(number)} in place of {words.short(now)}"
            yield rule.edit(t, edges, how, change(number))


def _fitted(
    rule: Rule, edges: list[Edge], change: Callable[[float], Change], now: float
) -> list[float]:
    """The number with which the rule is right, if what it gives is a straight line in it."""
    case, here = rule.case, rule.case.draws.fit[0]
    try:
        moved = Repair("", lambda _: dict.fromkeys(edges, change(now + 1)))
        found = rule.gradients(here, moved)
    except OutsideDomain:  # shapes or types that do not fit
        return []
    slope, gap = case.part(found) - case.r(here), case.g(here) - case.r(here)
    known = np.isfinite(slope) & np.isfinite(gap)
    size = float(np.sum(slope[known] ** 2))
    return [words.plain_number(now + float(np.sum((slope * gap)[known])) / size)] if size else []


def _factors(rule: Rule) -> Iterator[Repair]:
    """A factor at a tensor."""

    def change(number: float) -> Change:
        return lambda v: np.asarray(number * v, v.dtype)

    for t, edges in rule.numbers():
        fits = t not in rule.program.constants and not any(rule.decides(k) for k, _ in edges)
        for number in _fitted(rule, edges, change, 1.0) if fits else ():
            said = {-1.0: "the other sign of {}", 0.0: "zero in place of {}"}
            how = said.get(number, f"a factor {words.short(number)} at {{}}")
            yield rule.edit(t, edges, how, change(number))


# Of indices, shifts, bounds; the latter ones of several.
_INDICES: dict[str, Change] = {
    "{} one larger": lambda v: v + 1,
    "{} one smaller": lambda v: v - 1,
    "{} negated": lambda v: -v,
    "the inverse permutation of {}": lambda v: np.argsort(v, axis=-1),
    "{} in the other order": lambda v: np.flip(v, -1),
}


def _indices(rule: Rule) -> Iterator[Repair]:
    """Other indices, shifts, bounds, or another condition."""
    for t, edges in rule.groups():
        value = rule.here[t]
        if value.dtype.kind == "b":
            yield rule.edit(t, edges, "the opposite of {}", np.logical_not)
        if value.dtype.kind in "iu":
            for how, change in list(_INDICES.items())[: None if value.ndim else 3]:
                yield rule.edit(t, edges, how, change)
    slices: dict[str, list[int]] = {}
    for k, step in rule.steps.items():
        if step.word is Word.SLICE and step.line:
            slices.setdefault(step.line, []).append(k)
    for every in slices.values():
        for ks in [[k] for k in every] + ([every] if len(every) > 1 else []):
            for how, by in (("one later", 1), ("one earlier", -1)):
                ends = [(k, j) for k in ks for j in (1, 2)]
                text = f"the slice {how} {rule.line(ks[0])}"
                yield Repair(text, lambda _, e=ends, b=by: dict.fromkeys(e, lambda v: v + b))


def _others(rule: Rule) -> Iterator[Repair]:
    """Another tensor of function or rule in the place of an operand: those of its shape first."""
    for alike in (True, False):
        for t, edges in rule.groups():
            here, k = rule.here[t], edges[0][0]
            for q in rule.known_at(k):
                other = rule.here[q]
                counts = here.dtype.kind in "iu" and q in rule.program.constants
                same = other.dtype == here.dtype and (other.shape == here.shape) == alike
                if q != t and same and not counts and _broadcast(here, other):
                    text = f"{rule.name(q, k)} in place of {rule.name(t, k)} {rule.line(k)}"
                    yield rule.put(q, edges, text)


def _broadcast(a: Array, b: Array) -> bool:
    return lies_over(a.shape, b.shape) or lies_over(b.shape, a.shape)


def _left_out(rule: Rule) -> Iterator[Repair]:
    """An operation left out: one of its operands in the place of what it gives."""
    for k, step in rule.steps.items():
        for t in step.outputs if step.line else ():
            edges = [(i, j) for i, j, used in rule.edges if used == t]
            for q in step.inputs if edges else ():
                if q >= 0 and rule.here[q].dtype == rule.here[t].dtype:
                    yield rule.put(q, edges, _without(rule, k, q))


def _without(rule: Rule, k: int, q: int) -> str:
    """In words: what is left out, or that all of an operation is."""
    step, line = rule.program.steps[k], rule.line(k, "of")
    rest = [t for t in step.inputs if t != q and t >= 0]
    if len(step.inputs) == 2 and len(rest) == 1:
        return f"{rule.name(rest[0], k)} left out of {step.name} {line}"
    return f"{rule.name(q, k)} alone in place of {step.name} {line}"


def _neighbours(rule: Rule) -> Iterator[Repair]:
    """In every run of a line the tensor of the run before or after, in the place of an operand."""
    kinds, lines = rule.program.kinds, rule.program.lines
    series: dict[object, list[int]] = {}
    for t, here in enumerate(rule.here):
        series.setdefault((kinds[t], lines[t], here.shape, here.dtype), []).append(t)
    of = {t: (every, p) for every in series.values() for p, t in enumerate(every) if len(every) > 1}
    tensor = {(k, j): t for k, j, t in rule.edges}
    for t, edges in rule.groups():
        if len(edges) < n.SEVERAL or len({tensor[edge] for edge in edges}) < n.SEVERAL:
            continue
        if not all(tensor[edge] in of for edge in edges) or rule.here[t].dtype.kind not in "fc":
            continue
        for word, by in (("before", -1), ("after", 1)):

            def changes(
                values: Arrays, edges: list[Edge] = edges, by: int = by
            ) -> Mapping[Edge, Change]:
                found: dict[Edge, Change] = {}
                for edge in edges:
                    every, p = of[tensor[edge]]
                    there = 0 <= p + by < len(every)
                    found[edge] = (lambda _, q=every[p + by]: values[q]) if there else np.zeros_like
                return found

            k = edges[0][0]
            text = (
                f"{rule.name(t, k)} of the run {word} in place of that of each run {rule.line(k)}"
            )
            yield Repair(text, changes)


_FORMS: dict[str, Change] = {
    "{} squared": lambda q: q * q,
    "the root of {}": np.sqrt,
    "1/{}": lambda q: 1 / q,
    "1 − {}": lambda q: 1 - q,
    "1 + {}": lambda q: 1 + q,
    "the exponential of {}": np.exp,
    "the logarithm of {}": np.log,
    "the absolute value of {}": np.abs,
    "the complex conjugate of {}": np.conj,
}
_OF_MATRICES: dict[str, Change] = {
    "{} with its diagonal halved": lambda q: q * (1 - np.eye(q.shape[-1]) / 2),
    "{} with its diagonal doubled": lambda q: q * (1 + np.eye(q.shape[-1])),
    "the lower triangle of {}": np.tril,
    "the upper triangle of {}": np.triu,
    "{} without its diagonal": lambda q: q * (1 - np.eye(q.shape[-1])),
    "the diagonal of {}": lambda q: q * np.eye(q.shape[-1]),
    "the mean of {} and its transpose": lambda q: (q + np.swapaxes(q, -1, -2)) / 2,
    "the sum of {} and its transpose": lambda q: q + np.swapaxes(q, -1, -2),
}


def _moved(rule: Rule) -> Iterator[Repair]:
    """An operand in other places, or in another form."""
    for t, edges in rule.numbers():
        shape = rule.here[t].shape
        for how, change in _rearrangements(shape):
            yield rule.edit(t, edges, how, change)
        if len(shape) > 1 and shape[-1] == shape[-2]:
            for how, change in _OF_MATRICES.items():
                yield rule.edit(t, edges, how, change)
    for t, edges in rule.numbers():
        for how, change in _FORMS.items():
            if "conjugate" not in how or rule.here[t].dtype.kind == "c":
                yield rule.edit(t, edges, how, change)


def _rearrangements(shape: tuple[int, ...]) -> Iterable[tuple[str, Change]]:
    for move in moves(shape):
        yield f"{{}} {move.how}", move.apply
    for axes in permutations(range(len(shape))) if 2 < len(shape) <= n.FEW_ELEMENTS else ():
        how = f"{{}} with its axes in the order {list(axes)}"
        yield how, lambda q, a=axes: np.transpose(q, a)


_TWO: dict[str, Callable[[Array, Array], Array]] = {
    "{} times {}": np.multiply,
    "{} divided by {}": np.divide,
    "{} plus {}": np.add,
    "{} minus {}": np.subtract,
}
_WHERE: dict[str, Callable[[Array, Array], Array]] = {
    "{} only where {} holds": lambda v, q: np.where(q, v, np.zeros_like(v)),
    "{} only where {} does not hold": lambda v, q: np.where(q, np.zeros_like(v), v),
}


def _joined(rule: Rule) -> Iterator[Repair]:
    """An operand multiplied with another tensor, divided by it, that added or taken off; or masked."""
    for how, join in (_TWO | _WHERE).items():
        for t, edges in rule.numbers():
            here, k = rule.here[t], edges[0][0]
            for q in rule.known_at(k):
                other = rule.here[q]
                fits = other.dtype == (np.bool_ if how in _WHERE else here.dtype)
                constant = q in rule.program.constants and other.size == 1
                for axis in _axes(other.shape, here.shape) if fits and not constant else ():
                    yield _with(rule, t, (q, axis), edges, how, join)


def _axes(shape: tuple[int, ...], over: tuple[int, ...]) -> list[int | None]:
    """Where an axis may be added for an array to lie over another; nothing added where it does by itself."""
    if lies_over(shape, over) or lies_over(over, shape):
        return [None]
    wide = {k: (*shape[:k], 1, *shape[k:]) for k in range(len(shape) + 1)}
    return [k for k, wider in wide.items() if len(wider) == len(over) and lies_over(wider, over)]


def _with(
    rule: Rule,
    t: int,
    other: tuple[int, int | None],
    edges: list[Edge],
    how: str,
    change: Callable[[Array, Array], Array],
) -> Repair:
    k, (q, axis) = edges[0][0], other
    spread = "" if axis is None else f" (spread along axis {axis})"
    text = f"{how.format(rule.name(t, k), rule.name(q, k) + spread)} {rule.line(k)}"

    def join(v: Array, q: Array) -> Array:
        return change(v, q if axis is None else np.expand_dims(q, axis))

    return Repair(text, lambda values: dict.fromkeys(edges, lambda v: join(v, values[q])))


def _pairs(rule: Rule) -> Iterator[Repair]:
    """Both operands of a step replaced."""
    for k, step in rule.steps.items():
        if len(step.inputs) != 2 or not step.line or min(step.inputs) < 0:
            continue
        here = [rule.here[t] for t in step.inputs]
        if any(v.dtype.kind not in "fc" for v in here):
            continue
        fitting = [
            [
                q
                for q in rule.known_at(k)
                if rule.here[q].shape == v.shape and q not in step.inputs[j : j + 1]
            ]
            for j, v in enumerate(here)
        ]
        for a, b in product(*(some[: n.FEW] for some in fitting)):
            names = f"{rule.name(a, k)} and {rule.name(b, k)}"
            text = f"{names} as the operands of {step.name} {rule.line(k, 'of')}"
            yield Repair(
                text,
                lambda values, k=k, a=a, b=b: {
                    (k, 0): lambda _: values[a],
                    (k, 1): lambda _: values[b],
                },
            )
