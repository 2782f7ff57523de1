"""The program of a function at the draws of a case: values, cotangents, and what a change of them does.

What a change of a cotangent adds to the gradient is linear in it, so its product with a direction is the change times
the tangent of that input: a slip is dismissed by a few products, and only what is left is pulled back to the inputs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from pullback.check import numbers as n
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation
from pullback.check.probe import Array, OutsideDomain
from pullback.check.programs.steps import At as Point
from pullback.check.programs.steps import Edge, Nested, Slips, Steps
from pullback.check.report import FindingKind
from pullback.check.search import directions


@dataclass(frozen=True)
class At:
    """The program at one draw, and `back`, the cotangents of inputs."""

    point: Point
    back: Nested

    @property
    def inputs(self) -> Nested:
        """Of every step."""
        return self.point.inputs

    @property
    def outputs(self) -> Nested:
        """Of every step."""
        return self.point.outputs

    @property
    def cotangents(self) -> Nested:
        """Of the results of every step."""
        return self.point.cotangents

    @property
    def held(self) -> Nested:
        """Operands that do not depend on the arguments."""
        return self.point.held


# A changed cotangent: of a step's input number j, given the program at a draw.
Change = Callable[[At, Draw], Array]


class Inside:
    """The program at the draws of a case, and the equations that a slip must fulfil."""

    def __init__(self, case: Case, steps: Steps) -> None:
        self.case, self.program, self.steps = case, steps, steps.steps
        self.known: dict[Draw, At] = case.draws.inside
        self.here, rng = case.draws.fit[0], np.random.default_rng(3)
        gap = np.where(np.isfinite(self.here.g), self.here.r - self.here.g, 0.0)
        self.tangents: list[Nested] = []
        target: list[float] = []
        for _ in range(n.FEW_ELEMENTS):
            u = np.zeros(gap.size)
            u[case.span] = directions.generic(rng, case.layout, self.here.x)[case.span]
            self.tangents.append(steps.tangents(self.at(self.here).point, case.layout.split(u)))
            target.append(float(np.sum(gap * u)))
        self.target = np.array(target)

    def at(self, draw: Draw) -> At:
        """The program at a draw, run once."""
        if draw not in self.known:
            found = self.program.at(self._xs(draw), self.case.subject.upstream(draw.w))
            back = self.program.local(found, found.inputs, found.cotangents)
            self.known[draw] = At(found, back)
        return self.known[draw]

    def local(self, draw: Draw, inputs: Nested, cotangents: Nested) -> Nested:
        """What every step makes of other values and cotangents."""
        return self.program.local(self.at(draw).point, inputs, cotangents)

    def altered(self, draw: Draw, held: Nested) -> Array:
        """The gradient of the program with other operands."""
        self.case.subject.go_on()
        found = self.program.altered(self.at(draw).point, held)
        return self.case.part(self.case.layout.join(found))

    def product(self, edge: Edge, change: Array) -> Array:
        """What a change at an edge adds to the gradient, along each direction."""
        s, j = edge
        return np.array([np.sum(np.real(np.conj(change) * t[s][j])) for t in self.tangents])

    def fits(self, product: Array) -> bool:
        """Whether a change may be the one."""
        self.case.subject.go_on()
        size = np.max(np.abs(self.target)) + np.max(np.abs(product))
        return bool(np.max(np.abs(product - self.target)) <= n.AGREE * size)

    def edges(self) -> list[Edge]:
        """Every input of every step, those with a name in the source first."""
        found = [(s, j) for s, step in enumerate(self.steps) for j in range(len(step.inputs))]
        return sorted(found, key=lambda edge: not self.steps[edge[0]].inputs[edge[1]])

    def groups(self) -> tuple[list[list[Edge]], list[list[Edge]]]:
        """Edges one by one, two that come from one tensor as one; then all edges of one operation."""
        every = [[(s, j) for j in range(len(step.inputs))] for s, step in enumerate(self.steps)]
        twins = [group for group in every if len(set(self.steps[group[0][0]].origins)) < len(group)]
        alone = [[edge] for edge in self.edges() if not any(edge in group for group in twins)]
        return [*alone, *twins], [group for group in every if len(group) > 1 and group not in twins]

    def explanation(self, kind: FindingKind, text: str, changes: dict[Edge, Change]) -> Explanation:
        """The gradient with these cotangents changed."""

        def predict(draw: Draw) -> Array:
            at = self.at(draw)
            added = {
                (s, j): np.asarray(change(at, draw) - at.back[s][j], at.back[s][j].dtype)
                for (s, j), change in changes.items()
            }
            pulled = self.program.pull(self.at(draw).point, added)
            return self.case.g(draw) + self.case.part(self.case.layout.join(pulled))

        return Explanation(kind, text, predict)

    @property
    def is_whole(self) -> bool:
        """Whether no step is left out: only then can the program be swept through."""
        return all(origin[0] != -2 for step in self.steps for origin in step.origins)

    def swept(
        self,
        kind: FindingKind,
        text: str,
        steps: Iterable[int],
        change: Callable[[At, Slips, int], None],
    ) -> Explanation:
        """The gradient with slips in several steps that depend on one another."""

        def predict(draw: Draw) -> Array:
            at, slips = self.at(draw), Slips()
            for s in steps:
                change(at, slips, s)
            try:
                pulled = self.program.slipped(self.at(draw).point, slips)
            except OutsideDomain:  # shapes that do not fit
                return np.full(self.case.shape, np.nan)
            return self.case.part(self.case.layout.join(pulled))

        return Explanation(kind, text, predict)

    def _xs(self, draw: Draw) -> list[Array]:
        return self.case.layout.split(draw.x)
