"""The one change to the rule that makes it right: another operand, option, axis, place or number in one of its lines.

Where slips in the function's derivative predict what a rule gives, a repair looks at the rule itself: it holds if the
changed rule is the derivative at every draw, and nothing that was right is spoilt.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, permutations, product

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation
from pullback.check.diagnosis.moves import moves
from pullback.check.diagnosis.whole import lies_over
from pullback.check.probe import Array, Arrays, RuleProgram

Edge = tuple[int, int]
Operands = Callable[[Arrays], Mapping[Edge, Array]]


@dataclass(frozen=True)
class Repair:
    """What to write in the rule, the operands that it changes, and the steps that it takes in another way."""

    text: str
    operands: Operands = lambda _: {}
    options: Mapping[int, int] | None = None


def repairs(case: Case) -> Iterator[Explanation]:
    """Each change that makes the rule right where it was found wrong, the plain before the complex."""
    here = case.draws.fit[0]
    program = case.subject.rule_program(here.x, here.w)
    if program is None or not program.steps:
        return
    rule = _Rule(case, program)
    for repair in islice(_candidates(rule), n.MANY * n.MANY):
        explanation = rule.explanation(repair)
        if case.agrees(explanation.predict, here):
            yield explanation


class _Rule:
    """The rule's program at the draws of a case."""

    def __init__(self, case: Case, program: RuleProgram) -> None:
        self.case, self.program = case, program
        self.known: dict[int, list[Array]] = {}
        self.here = self.at(case.draws.fit[0])
        which = range(len(program.gradients)) if case.which is None else [case.which]
        self.steps = self._leading_to([program.gradients[k] for k in which])
        self.last = len(program.steps)
        self.edges = [
            (k, j, t)
            for k in self.steps
            for j, t in enumerate(program.steps[k].inputs)
            if program.steps[k].line and t >= 0
        ]
        returned = [(self.last, j, program.gradients[j]) for j in which]
        self.edges += [(k, j, t) for k, j, t in returned if t is not None and t >= 0]

    def _leading_to(self, tensors: list[int | None]) -> list[int]:
        """The steps that these tensors come from."""
        wanted, found = set(tensors), list[int]()
        for k in reversed(range(len(self.program.steps))):
            if wanted & set(self.program.steps[k].outputs):
                wanted |= set(self.program.steps[k].inputs)
                found.insert(0, k)
        return found

    def at(self, draw: Draw) -> list[Array]:
        if id(draw) not in self.known:
            subject = self.case.subject
            subject.calls += 1
            xs, ws = subject.inputs.split(draw.x), subject.upstream(draw.w)
            self.known[id(draw)] = self.program.values(xs, ws)
        return self.known[id(draw)]

    def changed(self, draw: Draw, repair: Repair) -> Array:
        """What the changed rule gives; not a number where it cannot be run, or spoils what was right."""
        nothing = np.full(draw.r.size, np.nan)
        values = self.at(draw)
        try:
            found = self.program.run(values, repair.operands(values), repair.options or {})
            joined = self.case.layout.join(found)
        except Exception:  # shapes or types that do not fit: not what was meant
            return nothing
        if joined.size != draw.r.size:
            return nothing
        off = np.abs(joined - draw.g) > n.AGREE * np.abs(draw.g) + draw.floor
        spoilt = off & (draw.gap == 0) & np.isfinite(draw.g)
        return nothing if spoilt.any() else joined

    def explanation(self, repair: Repair) -> Explanation:
        """As a prediction: the rule is off by as much as the changed rule is right."""

        def predict(draw: Draw) -> Array:
            return self.case.part(draw.r + (self.changed(draw, repair) - draw.g))

        return Explanation("repair", f"would be right with {repair.text}", predict)

    # words

    def line(self, k: int) -> str:
        """Where a step is."""
        if k == self.last:
            return "in what the rule returns"
        step = self.program.steps[k]
        return f"in `{step.line}`" if step.line else f"in {step.op}"

    def name(self, tensor: int, *, within: int | None = None) -> str:
        """What a tensor is called; within a step's line the line need not be said again."""
        name, line = self.program.names[tensor], self.program.lines[tensor]
        if name:
            return name
        same = within is not None and within < self.last and self.program.steps[within].line == line
        kind = f"the result of {self.program.kinds[tensor]}"
        return kind if same or not line else f"{kind} in `{line}`"

    def groups(self) -> Iterator[tuple[int, list[Edge]]]:
        """Tensors and the operands that they are: all operands at once, then one by one."""
        used: dict[int, list[Edge]] = {}
        for k, j, t in self.edges:
            used.setdefault(t, []).append((k, j))
        yield from used.items()
        yield from ((t, [edge]) for t, every in used.items() if len(every) > 1 for edge in every)


def _candidates(rule: _Rule) -> Iterator[Repair]:
    for kind in (_options, _numbers, _factors, _whole_numbers, _others, _left_out, _moved, _joined, _pairs):
        yield from kind(rule)


def _options(rule: _Rule) -> Iterator[Repair]:
    """A step taken in another way; or all steps of its type."""
    steps = rule.program.steps
    for k in rule.steps:
        for v, how in enumerate(steps[k].options):
            yield Repair(f"{how.format(steps[k].name)} {_of(rule, k)}", options={k: v})
    for op in dict.fromkeys(steps[k].op for k in rule.steps):
        same = [k for k in rule.steps if steps[k].op == op and steps[k].options]
        common = set(steps[same[0]].options).intersection(*(steps[k].options for k in same)) if len(same) > 1 else ()
        for how in sorted(common):
            options = {k: steps[k].options.index(how) for k in same}
            yield Repair(f"{how.format(op)}, wherever the rule has it", options=options)


def _of(rule: _Rule, k: int) -> str:
    return rule.line(k).replace("in `", "of `", 1)


def _numbers(rule: _Rule) -> Iterator[Repair]:
    """Another constant."""
    for t, edges in rule.groups():
        value = rule.here[t]
        if rule.program.kinds[t] != "Const" or value.dtype.kind not in "fc" or value.size != 1:
            continue
        one = complex(value.ravel()[0]).real
        plain = [one + 1, one - 1, -one, 2 * one, one / 2, 0.0, 1.0, -1.0]
        fitted = _fitted(rule, lambda p, e=edges, v=value: _put(e, lambda _: np.full_like(v, p)), one)
        for number in dict.fromkeys([*plain, *fitted]):
            text = f"{words.short(number)} in place of {words.short(one)} {rule.line(edges[0][0])}"
            yield Repair(text, _put(edges, lambda _, v=value, c=number: np.full_like(v, c)))


def _put(edges: list[Edge], value: Callable[[Arrays], Array]) -> Operands:
    return lambda values: dict.fromkeys(edges, value(values))


def _fitted(rule: _Rule, operands: Callable[[float], Operands], now: float) -> list[float]:
    """The number with which the rule is right, if what it gives is a straight line in it."""
    case, here = rule.case, rule.case.draws.fit[0]

    def at(number: float) -> Array:
        values = rule.here
        found = rule.program.run(values, operands(number)(values), {})
        return case.part(case.layout.join(found))

    try:
        r, other = case.r(here), at(now + 1)
    except Exception:  # shapes or types that do not fit
        return []
    slope, gap = other - r, case.g(here) - r
    known = np.isfinite(slope) & np.isfinite(gap)
    size = float(np.sum(slope[known] ** 2))
    if not size:
        return []
    number = words.plain_number(now + float(np.sum((slope * gap)[known])) / size)
    return [number]


def _factors(rule: _Rule) -> Iterator[Repair]:
    """A factor at a tensor."""
    for t, edges in rule.groups():
        if rule.here[t].dtype.kind not in "fc" or rule.program.kinds[t] == "Const":
            continue

        def scaled(number: float, t: int = t, edges: list[Edge] = edges) -> Operands:
            return _put(edges, lambda values: number * values[t])

        for number in _fitted(rule, scaled, 1.0):
            name, where = rule.name(t, within=edges[0][0]), rule.line(edges[0][0])
            if number == -1:
                text = f"the other sign of {name} {where}"
            elif number == 0:
                text = f"zero in place of {name} {where}"
            else:
                text = f"a factor {words.short(number)} at {name} {where}"
            yield Repair(text, scaled(number))


_WHOLE: dict[str, Callable[[Array], Array]] = {
    "{} one larger": lambda v: v + 1,
    "{} one smaller": lambda v: v - 1,
    "{} negated": lambda v: -v,
    "the inverse permutation of {}": lambda v: np.argsort(v, axis=-1),
    "{} in the other order": lambda v: np.flip(v),
    "{} swapped": lambda v: np.flip(v, -1),
}


def _whole_numbers(rule: _Rule) -> Iterator[Repair]:
    """Other indices, shifts, bounds, or another condition."""
    for t, edges in rule.groups():
        value = rule.here[t]
        if value.dtype.kind == "b":
            yield _edit(rule, t, edges, "not {}", np.logical_not)
        if value.dtype.kind in "iu":
            for how, change in _WHOLE.items():
                if value.ndim or "permutation" not in how and "order" not in how and "swapped" not in how:
                    yield _edit(rule, t, edges, how, change)
    for k in rule.steps:  # both ends of a slice
        step = rule.program.steps[k]
        if step.op == "StridedSlice" and step.line:
            for how, by in (("one later", 1), ("one earlier", -1)):
                both = {(k, j): rule.here[step.inputs[j]] + by for j in (1, 2)}
                yield Repair(f"the slice {how} {rule.line(k)}", lambda _, b=both: b)


def _edit(rule: _Rule, t: int, edges: list[Edge], how: str, change: Callable[[Array], Array]) -> Repair:
    k = edges[0][0]
    text = f"{how.format(rule.name(t, within=k))} {rule.line(k)}"
    return Repair(text, _put(edges, lambda values: change(values[t])))


def _others(rule: _Rule) -> Iterator[Repair]:
    """Another tensor of function or rule in the place of an operand: those of its shape first."""
    for alike in (True, False):
        for t, edges in rule.groups():
            here = rule.here[t]
            for q in _candidates_for(rule, edges[0][0]):
                other = rule.here[q]
                fits = other.shape == here.shape
                if q == t or other.dtype != here.dtype or fits != alike or not _broadcast(here, other):
                    continue
                if here.dtype.kind in "iu" and rule.program.kinds[q] == "Const":
                    continue
                k = edges[0][0]
                text = f"{rule.name(q)} in place of {rule.name(t, within=k)} {rule.line(k)}"
                yield Repair(text, _put(edges, lambda values, q=q: values[q]))


def _broadcast(a: Array, b: Array) -> bool:
    return lies_over(a.shape, b.shape) or lies_over(b.shape, a.shape)


def _candidates_for(rule: _Rule, k: int) -> list[int]:
    """Tensors that are known where a step is; those with a name in the source first."""
    limit = len(rule.here) if k == rule.last else min(rule.program.steps[k].outputs, default=0)
    known = [t for t in range(limit) if rule.program.kinds[t] not in ("IdentityN", "Identity")]
    return sorted(known, key=lambda t: not rule.program.names[t])


def _left_out(rule: _Rule) -> Iterator[Repair]:
    """An operation left out: one of its operands in the place of what it gives."""
    steps = rule.program.steps
    for k in rule.steps:
        for t in steps[k].outputs if steps[k].line else ():
            edges = [(i, j) for i, j, used in rule.edges if used == t]
            for q in steps[k].inputs if edges else ():
                if q >= 0 and rule.here[q].dtype == rule.here[t].dtype and lies_over(rule.here[q].shape, rule.here[t].shape):
                    text = f"{rule.name(q, within=k)} alone in place of {steps[k].name} {_of(rule, k)}"
                    shape = rule.here[t].shape
                    yield Repair(text, _put(edges, lambda values, q=q, s=shape: values[q] + np.zeros(s, values[q].dtype)))


_FORMS: dict[str, Callable[[Array], Array]] = {
    "{} squared": lambda q: q * q,
    "the root of {}": np.sqrt,
    "1/{}": lambda q: 1 / q,
    "1 − {}": lambda q: 1 - q,
    "1 + {}": lambda q: 1 + q,
    "the exponential of {}": np.exp,
    "the logarithm of {}": np.log,
    "|{}|": np.abs,
    "the complex conjugate of {}": np.conj,
}
_OF_MATRICES: dict[str, Callable[[Array], Array]] = {
    "{} with its diagonal halved": lambda q: q * (1 - np.eye(q.shape[-1]) / 2),
    "{} with its diagonal doubled": lambda q: q * (1 + np.eye(q.shape[-1])),
    "the lower triangle of {}": np.tril,
    "the upper triangle of {}": np.triu,
    "{} without its diagonal": lambda q: q * (1 - np.eye(q.shape[-1])),
    "the diagonal of {}": lambda q: q * np.eye(q.shape[-1]),
    "the mean of {0} and its transpose": lambda q: (q + np.swapaxes(q, -1, -2)) / 2,
    "the sum of {0} and its transpose": lambda q: q + np.swapaxes(q, -1, -2),
}


def _moved(rule: _Rule) -> Iterator[Repair]:
    """An operand in other places, or in another form."""
    for t, edges in rule.groups():
        value = rule.here[t]
        if value.dtype.kind not in "fc" or not value.ndim:
            continue
        for move in moves(value.shape):
            yield _edit(rule, t, edges, f"{{}} {move.how}", move.apply)
        if 2 < value.ndim <= n.FEW_ELEMENTS:
            for axes in permutations(range(value.ndim)):
                how = f"{{}} with its axes in the order {list(axes)}"
                yield _edit(rule, t, edges, how, lambda q, a=axes: np.transpose(q, a))
        if value.ndim > 1 and value.shape[-1] == value.shape[-2]:
            for how, change in _OF_MATRICES.items():
                yield _edit(rule, t, edges, how, change)
    for t, edges in rule.groups():
        if rule.here[t].dtype.kind in "fc":
            for how, change in _FORMS.items():
                if "conjugate" not in how or rule.here[t].dtype.kind == "c":
                    yield _edit(rule, t, edges, how, change)


_TWO: dict[str, Callable[[Array, Array], Array]] = {
    "{} times {}": np.multiply,
    "{} divided by {}": np.divide,
    "{} plus {}": np.add,
    "{} minus {}": np.subtract,
}


def _joined(rule: _Rule) -> Iterator[Repair]:
    """An operand multiplied with another tensor, divided by it, or that added or taken off."""
    for how, change in _TWO.items():
        for t, edges in rule.groups():
            here, k = rule.here[t], edges[0][0]
            for q in _candidates_for(rule, k) if here.dtype.kind in "fc" else ():
                other = rule.here[q]
                if other.dtype == here.dtype and _broadcast(other, here) and (other.size > 1 or rule.program.kinds[q] != "Const"):
                    text = f"{how.format(rule.name(t, within=k), rule.name(q))} {rule.line(k)}"
                    yield Repair(text, _put(edges, lambda values, t=t, q=q, f=change: f(values[t], values[q])))


def _pairs(rule: _Rule) -> Iterator[Repair]:
    """Both operands of a step replaced."""
    for k in rule.steps:
        step = rule.program.steps[k]
        if len(step.inputs) != 2 or not step.line or min(step.inputs) < 0:
            continue
        shapes = [(rule.here[t].shape, rule.here[t].dtype) for t in step.inputs]
        fitting = [[q for q in _candidates_for(rule, k) if (rule.here[q].shape, rule.here[q].dtype) == s] for s in shapes]
        for a, b in product(*(f[: n.FEW] for f in fitting)):
            if a != step.inputs[0] and b != step.inputs[1] and rule.here[a].dtype.kind in "fc":
                text = f"{rule.name(a)} and {rule.name(b)} as operands of {step.name} {_of(rule, k)}"
                yield Repair(text, lambda values, k=k, a=a, b=b: {(k, 0): values[a], (k, 1): values[b]})
