"""The program of a rule at the draws of a case, what a change of it gives, and what its parts are called."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation
from pullback.check.probe import Array, Arrays, OutsideDomain
from pullback.check.programs.rule import RuleProgram, RuleStep
from pullback.program.run import Run

# An operand of a step of the rule.
Edge = tuple[int, int]
Change = Callable[[Array], Array]
Changes = Callable[[Arrays], Mapping[Edge, Change]]


@dataclass(frozen=True)
class Repair:
    """What to write in the rule, how operands change given all tensors, and the steps that are taken in another way."""

    text: str
    operands: Changes = lambda _: {}
    options: Mapping[int, int] = field(default_factory=dict[int, int])


class Rule:
    """The rule's program at the draws of a case."""

    def __init__(self, case: Case, program: RuleProgram) -> None:
        self.case, self.program, self.last = case, program, len(program.steps)
        self.runs: dict[Draw, Run] = {}
        self.known: dict[Draw, list[Array]] = {}
        self.made = {t for step in program.steps for t in step.outputs}
        self.here = self.at(case.draws.fit[0])
        which = range(len(program.gradients)) if case.which is None else [case.which]
        self.steps = self._leading_to([program.gradients[k] for k in which])
        returned = [(self.last, j, program.gradients[j]) for j in which]
        self.edges = [
            (k, j, t)
            for k, step in self.steps.items()
            for j, t in enumerate(step.inputs)
            if step.line and t >= 0
        ] + [(k, j, t) for k, j, t in returned if t is not None and t >= 0]

    def _leading_to(self, tensors: list[int | None]) -> dict[int, RuleStep]:
        """The steps that these tensors come from."""
        wanted, found = set(tensors), list[int]()
        for k in reversed(range(self.last)):
            if wanted & set(self.program.steps[k].outputs):
                wanted |= set(self.program.steps[k].inputs)
                found.insert(0, k)
        return {k: self.program.steps[k] for k in found}

    def at(self, draw: Draw) -> list[Array]:
        """Every tensor at a draw."""
        if draw not in self.known:
            subject = self.case.subject
            xs, ws = subject.inputs.split(draw.x), subject.upstream(draw.w)
            made = self.runs[draw] = self.program.at(xs, ws)
            self.known[draw] = self.program.arrays(made)
        return self.known[draw]

    def gradients(self, draw: Draw, repair: Repair) -> Array:
        """What the changed rule gives, if it can be run."""
        values = self.at(draw)
        found = self.program.run(self.runs[draw], repair.operands(values), repair.options)
        return self.case.layout.join(found)

    def changed(self, draw: Draw, repair: Repair) -> Array:
        """What the changed rule gives; not a number where it cannot be run, or spoils what was right."""
        nothing = np.full(draw.r.size, np.nan)
        self.case.subject.go_on()
        try:
            joined = self.gradients(draw, repair)
        except OutsideDomain:  # shapes or types that do not fit: not what was meant
            return nothing
        size = np.abs(draw.g) + np.max(np.abs(draw.g), initial=0.0, where=np.isfinite(draw.g))
        near = np.abs(joined - draw.g) <= n.UNITS**2 * self.program.epsilon * size
        joined = np.where(near, draw.g, joined)
        off = np.abs(joined - draw.g) > n.AGREE * np.abs(draw.g) + draw.floor
        return nothing if (off & (draw.gap == 0)).any() else joined

    def explanation(self, repair: Repair) -> Explanation:
        """As a prediction: the rule is off by as much as the changed rule is right."""

        def predict(draw: Draw) -> Array:
            return self.case.part(draw.r + (self.changed(draw, repair) - draw.g))

        edges = [*repair.operands(self.here), *((k, 0) for k in repair.options)]
        steps = [self.program.steps[k] for k, _ in edges[:1] if k < self.last]
        place, code = next(((step.place, step.line) for step in steps), ("", ""))
        return Explanation("repair", f"would be right with {repair.text}", predict, place, code)

    # words

    def line(self, k: int, word: str = "in") -> str:
        """Where a step is."""
        if k == self.last:
            return "in what the rule returns"
        line = self.program.steps[k].line.removeprefix("return ")
        return f"{word} `{line}`"

    def name(self, tensor: int, within: int) -> str:
        """What a tensor is called; its line is said if it is another than that of the step at hand."""
        name, line = self.program.names[tensor], self.program.lines[tensor]
        known = not name.startswith("the result") or not line
        if known:
            return name
        if within < self.last and self.program.steps[within].line == line:
            return name if tensor in self.made else f"{name} in the function"
        return f"{name} in `{line.removeprefix('return ')}`"

    # what can be changed

    def groups(self) -> Iterator[tuple[int, list[Edge]]]:
        """Tensors and the operands that they are: all at once, one by one, and all of the runs of a line."""
        used: dict[int, list[Edge]] = {}
        runs: dict[object, list[tuple[int, Edge]]] = {}
        for k, j, t in self.edges:
            used.setdefault(t, []).append((k, j))
            if k < self.last:
                step = self.program.steps[k]
                runs.setdefault((step.line, step.op, j), []).append((t, (k, j)))
        yield from used.items()
        yield from ((t, [edge]) for t, every in used.items() if len(every) > 1 for edge in every)
        for run in runs.values():
            if len({t for t, _ in run}) > 1:
                yield run[-1][0], [edge for _, edge in run]

    def decides(self, k: int) -> bool:
        """Whether a step gives conditions."""
        made = self.program.steps[k].outputs if k < self.last else ()
        return any(self.here[t].dtype.kind == "b" for t in made if t >= 0)

    def numbers(self) -> Iterator[tuple[int, list[Edge]]]:
        """The same, of tensors that hold numbers with a fraction."""
        return ((t, edges) for t, edges in self.groups() if self.here[t].dtype.kind in "fc")

    def known_at(self, k: int) -> list[int]:
        """Tensors that there are where a step is; those with a name in the source first."""
        end = len(self.here) if k == self.last else min(self.program.steps[k].outputs, default=0)
        names = self.program.names
        some = [t for t in range(end) if t not in self.program.copies]
        return sorted(some, key=lambda t: not names[t].startswith("`"))

    def edit(self, t: int, edges: list[Edge], how: str, change: Change) -> Repair:
        """Operands changed, in words that have a place for their name."""
        k = edges[0][0]
        text = f"{how.format(self.name(t, k))} {self.line(k)}"
        return Repair(text, lambda _: dict.fromkeys(edges, change))

    def put(self, q: int, edges: list[Edge], text: str) -> Repair:
        """A tensor in the place of operands."""
        return Repair(text, lambda values: dict.fromkeys(edges, lambda _: values[q]))


def rule_of(case: Case) -> Rule | None:
    here, known = case.draws.fit[0], case.draws.rule
    if case.which not in known:
        program = case.subject.rule_program(here.x, here.w)
        known[case.which] = None if program is None else Rule(case, program)
    return known[case.which]
