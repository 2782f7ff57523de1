"""One function as f: Rⁿ → Rᵐ: leaves joined into one real vector, complex entries as pairs."""

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from pullback.check import numbers as n
from pullback.check.budget import Budget
from pullback.check.probe import (
    Array,
    Arrays,
    Facts,
    Leaf,
    OutsideDomain,
    Probe,
    Traced,
    Unsupported,
)
from pullback.check.probe.vectors import blocks
from pullback.check.programs.facts import Margins, facts_of
from pullback.check.programs.rule import RuleProgram
from pullback.check.programs.steps import Steps, own_gradients
from pullback.check.programs.wrong import WrongOperations, wrong_in_rule, wrong_operations

_Made = TypeVar("_Made")


class Layout:
    """Where each leaf lies in the joined vector."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self.leaves = tuple(leaves)
        widths = [leaf.size * (2 if leaf.is_complex else 1) for leaf in leaves]
        self.ends = np.cumsum([0, *widths])
        self.size = int(self.ends[-1])

    def span(self, which: int) -> slice:
        """The part of the vector that leaf `which` takes."""
        return slice(int(self.ends[which]), int(self.ends[which + 1]))

    def split(self, vector: Array) -> list[Array]:
        """Leaf arrays of a joined vector."""
        return [self._leaf(vector[self.span(k)], leaf) for k, leaf in enumerate(self.leaves)]

    def join(self, arrays: Sequence[Array | None]) -> Array:
        """The joined vector of leaf arrays; `None` is zero. A single array is not copied."""
        if len(arrays) == 1 and arrays[0] is not None:
            return _real(arrays[0], self.leaves[0])
        out = np.zeros(self.size)
        for k, array in enumerate(arrays):
            if array is not None:
                out[self.span(k)] = _real(array, self.leaves[k])
        return out

    def fill(self, numbers: Sequence[float]) -> Array:
        """The vector that holds one number all over each leaf; not to be written to."""
        if len(numbers) == 1:
            return np.broadcast_to(np.float64(numbers[0]), (self.size,))
        return np.repeat(np.asarray(numbers, float), np.diff(self.ends))

    def symmetric(self, vector: Array, which: Sequence[int]) -> Array:
        """The vector, made symmetric in the matrices of the leaves `which`."""
        parts = self.split(vector)
        for k in which:
            parts[k] = (parts[k] + np.swapaxes(parts[k], -1, -2).conj()) / 2
        return self.join(parts)

    def leaf_of(self, position: int) -> int:
        """Which leaf a position of the vector belongs to."""
        return int(np.searchsorted(self.ends, position, side="right")) - 1

    def locate(self, position: int) -> str:
        """`args[0]["w"][2,3]` for a position of the vector."""
        return self.leaves[self.leaf_of(position)].path + self.element(position)

    def element(self, position: int) -> str:
        """`[2,3]`: the index alone, nothing for a scalar."""
        index = self.index(position)
        return f"[{','.join(map(str, index))}]" if index else ""

    def index(self, position: int) -> tuple[int, ...]:
        """The element's index within its leaf."""
        which = self.leaf_of(position)
        leaf = self.leaves[which]
        inside = position - int(self.ends[which])
        flat = inside // 2 if leaf.is_complex else inside
        return tuple(int(i) for i in np.unravel_index(flat, leaf.shape)) if leaf.shape else ()

    @staticmethod
    def _leaf(part: Array, leaf: Leaf) -> Array:
        if leaf.is_complex:
            part = np.ascontiguousarray(part).view(np.complex128)
        return part.reshape(leaf.shape)


@dataclass(frozen=True)
class RuleOutput:
    """`Claims` joined: what the rule says at one point, along one direction, for one upstream."""

    values: Array
    r: Array
    jvp: Array | None
    second: Array | None
    none: tuple[int, ...]
    no_second: Unsupported | None

    def without_values(self) -> "RuleOutput":
        """The same without what first order alone needs: long vectors would fill the memory."""
        return replace(self, values=np.empty(0), jvp=None)


class Subject:
    """The function whose derivative is wanted and the rule that claims to be it, at the calls that the probes count."""

    def __init__(self, rule: Probe, truth: Probe, reference: Probe | None = None) -> None:
        self.rule, self.truth, self.reference = rule, truth, reference
        self.inputs, self.outputs = Layout(rule.inputs), Layout(rule.outputs)
        # the size of values and of gradients where the user is: what is saturated elsewhere is rounded at that size
        self.scale, self.rule_scale = np.zeros(self.outputs.size), 0.0
        self.unit: float | None = None
        # entries that cannot be moved, and whether their gradient is anything but zero
        held = ~np.isfinite(self.start())
        self.held, self.flows_to_held = (held if held.any() else None), False
        # leaves that hold symmetric matrices and are moved within those
        self.symmetric: tuple[int, ...] = ()
        self._upstream: tuple[Array, list[Array]] | None = None

    @property
    def calls(self) -> int:
        """How often the function has run, since its probe was made."""
        return self.rule.calls.made

    def within(self, calls: int, seconds: float = float("inf")) -> AbstractContextManager[Budget]:
        """No more than so many calls and seconds are spent in the block, whatever may be spent around it."""
        return self.rule.calls.within(calls, seconds)

    def may_spend(self, calls: int) -> bool:
        """Whether so many calls are left."""
        return self.rule.calls.may_spend(calls)

    def go_on(self) -> None:
        """What works long without a call asks whether it may: `Spent` is raised where it may not."""
        self.rule.calls.spend(0)

    @property
    def epsilon(self) -> float:
        """Rounding unit of the function's values."""
        return self.truth.value_epsilon

    @property
    def is_rule_rounded(self) -> bool:
        """Whether the rule runs in a shorter format than the values: what it rounds is no mistake."""
        return self.rule.rule_epsilon > n.UNITS * self.epsilon

    def start(self) -> Array:
        """The point the user gave, which nobody may write to."""
        return self.inputs.join(self.rule.start())

    def known(self, r: Array) -> Array:
        """A gradient without that of entries that are infinite as given, of which differences tell nothing."""
        if self.held is None:
            return r
        self.flows_to_held |= bool((r[self.held] != 0).any())
        return np.where(self.held, 0.0, r)

    def felt(self, r: Array) -> Array:
        """The part of a gradient that moves within the domain can tell from others: a symmetric one."""
        return self.inputs.symmetric(r, self.symmetric) if self.symmetric else r

    def keep_held(self, x: Array, otherwise: Array | float) -> Array:
        """The vector, with something else at entries that are infinite as given."""
        return x if self.held is None else np.where(self.held, otherwise, x)

    def upstream(self, w: Array) -> list[Array]:
        """The leaf arrays of `w`: the same list as last time for the same vector."""
        if self._upstream is None or self._upstream[0] is not w:
            self._upstream = (w, self.outputs.split(w))
        return self._upstream[1]

    def value(self, x: Array) -> Array:
        """f(x)."""
        return self.outputs.join(self.truth.values(self.inputs.split(x)))

    def value_or_nan(self, x: Array) -> Array:
        """f(x), not a number where the function raises."""
        try:
            return self.value(x)
        except OutsideDomain:
            return np.full(self.outputs.size, np.nan)

    def gives(self, y: Array, x: Array) -> bool:
        """Whether f(x) is `y`, up to rounding."""
        unit = n.ROUNDINGS * max(self.epsilon, float(np.finfo(y.dtype).eps))
        again = self.value(x)
        return all(
            np.allclose(again[part], y[part], unit, unit * self.scale[part], equal_nan=True)
            for part in blocks(y.size)
        )

    def pull(self, x: Array, w: Array) -> tuple[Array, Array]:
        """f(x), and the rule's gradient for the upstream `w`."""
        values, r = self.rule.vjp(self.inputs.split(x), self.upstream(w))
        y = self.outputs.join(values) if self.rule is self.truth else self.value(x)
        return y, self.known(self.inputs.join(r))

    def pull_or_nan(self, x: Array, w: Array) -> tuple[Array, Array]:
        """The same, not a number where the function raises."""
        try:
            return self.pull(x, w)
        except OutsideDomain:
            return np.full(w.size, np.nan), np.full(x.size, np.nan)

    def own_vjp(self, x: Array, w: Array) -> Array | None:
        """The gradient by the program's own derivative, custom gradients left out, where it can be had."""
        traced = self._function
        if traced is None:
            return None
        try:
            found = own_gradients(traced, self.inputs.split(x), self.upstream(w))
        except Exception:  # of the engine's operations any may have no gradient, or none that runs
            self._function = None
            return None
        return self.known(self.inputs.join(found))

    @functools.cached_property
    def _function(self) -> Traced | None:
        """The function as a program that does the same in every run, where it can be had."""
        found = self.truth.traced_function()
        return None if isinstance(found, Unsupported) or not found.repeats else found

    def reference_vjp(self, x: Array, w: Array) -> Array:
        """The gradient that the reference rule gives."""
        reference = self.reference or self.rule
        return self.inputs.join(reference.vjp(self.inputs.split(x), self.upstream(w))[1])

    def steps(self) -> Steps | None:
        """The program whose derivative `own_vjp` gives, operation by operation, where it can be had."""
        return self._steps

    @functools.cached_property
    def _steps(self) -> Steps | None:
        try:
            return self._function and Steps(self._function, self.truth.start())
        except Exception:  # as above
            return None

    def wrong_operations(self, x: Array, order: int) -> WrongOperations:
        """The engine's own operations whose derivative of this order is wrong at `x`, where that can be told."""
        traced = self.rule.traced_function()
        if isinstance(traced, Unsupported):
            return WrongOperations()
        try:
            return wrong_operations(traced, self.inputs.split(x), (), order)
        except Exception:  # whom to blame is a help, never a verdict
            return WrongOperations()

    def wrong_in_rule(self, x: Array, w: Array) -> tuple[str, ...]:
        """Those that function or rule are made of, whose derivative is wrong: it spoils that of a right rule."""
        place = self.inputs.split(x), self.upstream(w)
        traced = self.rule.traced(*place)
        if isinstance(traced, Unsupported):
            return ()
        try:
            return wrong_in_rule(traced, *place)
        except Exception:  # as above
            return ()

    def rule_program(self, x: Array, w: Array) -> RuleProgram | None:
        """Function and rule as one program, where it can be had."""
        return _first_of(self.rule, RuleProgram, self.inputs.split(x), self.upstream(w))

    def pull_after(self, x: Array, other: Array, w: Array) -> Array:
        """The rule's gradient at `x`, run after another call of the function at `other`."""
        split = self.inputs.split
        r = self.rule.vjp_after(split(x), split(other), self.upstream(w))
        return self.known(self.inputs.join(r))

    def facts(self, x: Array, w: Array) -> Facts:
        """What the programs of rule and function compare their values with."""
        place = self.inputs.split(x), self.upstream(w)
        found = _facts(self.rule, *place)
        if self.truth is self.rule:
            return found
        other = _facts(self.truth, *place)
        return Facts(
            tuple(dict.fromkeys([*found.constants, *other.constants])),
            found.branches or other.branches,
            found.branches_on_sign or other.branches_on_sign,
            found.custom,
            found.short or other.short,
            found.margins or other.margins,
            tuple(dict.fromkeys([*found.notes, *other.notes])),
        )

    def margins(self, x: Array, w: Array) -> "list[JoinedMargins]":
        """The comparisons of rule and function whose margins can be had."""
        place = self.inputs.split(x), self.upstream(w)
        probes = dict.fromkeys([self.rule, self.truth])
        found = [_first_of(probe, Margins, *place) for probe in probes]
        return [JoinedMargins(self, one) for one in found if one is not None]

    def evaluate_rule(self, x: Array, w: Array, u: Array, *, second: bool = False) -> RuleOutput:
        """What the rule says at `x`."""
        split = self.inputs.split
        claims = self.rule.claims(split(x), self.upstream(w), split(u), second=second)
        no_second = claims.second if isinstance(claims.second, Unsupported) else None
        none = tuple(k for k, r in enumerate(claims.vjp) if r is None)
        values, r = self.outputs.join(claims.values), self.known(self.inputs.join(claims.vjp))
        jvp, again = _joined(self.outputs, claims.jvp), _joined(self.inputs, claims.second)
        again = None if again is None else self.felt(self.keep_held(again, 0.0))
        return RuleOutput(values, r, jvp, again, none, no_second)


class JoinedMargins:
    """`Margins` as functions of the joined vector, each entry one comparison."""

    def __init__(self, subject: Subject, margins: Margins) -> None:
        self.subject, self.margins, self.inputs = subject, margins, subject.inputs
        self.exact, self.epsilon = margins.exact, margins.epsilon

    def values(self, x: Array) -> list[Array]:
        """The margins of each comparison, as vectors."""
        return [np.ravel(one) for one in self.margins.values(self.inputs.split(x))]

    def slope(self, x: Array, which: int, entry: int) -> Array:
        """The derivative of one entry of a margin."""
        return self.inputs.join(self.margins.slope(self.inputs.split(x), which, entry))


def _first_of(
    probe: Probe, make: Callable[[Traced, Arrays, Arrays], _Made], xs: Arrays, ws: Arrays
) -> _Made | None:
    """What is made of the program; of that at the arguments' precision, where the other one cannot be run."""
    for as_given in (False, True):  # constants of the arguments' format may not trace in another
        traced = probe.traced(xs, ws, as_given=as_given)
        if isinstance(traced, Unsupported) or not traced.repeats:
            continue
        try:
            return make(traced, xs, ws)
        except (OutsideDomain, *traced.engine.refusals):
            continue
    return None


def _facts(probe: Probe, xs: Arrays, ws: Arrays) -> Facts:
    """What the program of a probe compares its values with; that at the precision of the arguments first."""
    traced = probe.traced(xs, ws, as_given=True)
    if isinstance(traced, Unsupported):
        traced = probe.traced(xs, ws)
    if isinstance(traced, Unsupported):
        return Facts(notes=(f"not traced, so no thresholds were looked for: {traced.reason}",))
    return facts_of(traced)


def _joined(layout: Layout, answer: Sequence[Array | None] | Unsupported) -> Array | None:
    return None if isinstance(answer, Unsupported) else layout.join(answer)


def _real(array: Array, leaf: Leaf) -> Array:
    if not leaf.is_complex:
        return np.real(array).reshape(-1)
    return np.ascontiguousarray(array, dtype=np.complex128).reshape(-1).view(np.float64)
