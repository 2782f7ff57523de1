"""Solutions of equations F(x, θ) = 0, differentiated by the implicit function theorem: dx = −F_x⁻¹ F_θ dθ.

Backwards one linear system is solved, F_xᵀ w = x̄, and w is pulled back to θ. Nothing of the iterations is kept. The
linear solution has a gradient of its own, the solution of the transposed system, so that it can be differentiated
again.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from pullback._define import custom_gradient
from pullback._project import describe
from pullback._scope import rehearsing, set_for
from pullback._tree import flatten, unflatten
from pullback.errors import ArgumentError, NotConverged, UnsupportedError
from pullback.functions._arguments import arrays_for
from pullback.functions.implicit.layout import Layout
from pullback.functions.implicit.linear_solvers import SOLVERS, Solved
from pullback.functions.implicit.solve_options import (
    Options,
    Solve,
    SolveLog,
    not_a_minimum,
    not_converged,
)

Arrays = Sequence[Any]
_depth: ContextVar[int] = ContextVar("depth", default=0)  # of rules inside of rules
_level: ContextVar[int] = ContextVar(
    "level", default=0
)  # of solutions that are gradients of solutions
_ORDER = 2  # of forward mode
_DENSE = 256  # unknowns of one system, up to which its matrix is made


class Equation:
    """An equation in one structure of arrays, given by a function that is to be zero."""

    def __init__(
        self,
        xp: Any,
        options: Options,
        make: Callable[[Equation], Callable[..., Arrays]],
        x0: Any,
        args: Any,
    ) -> None:
        self.xp, self.options = xp, options
        leaves, self.structure = flatten(x0)
        # Without a gradient: it is no source of the solution, unless the user's function reads it itself.
        self.start = [xp.stop_gradient(real_array(xp, options, leaf)) for leaf in leaves]
        self.like = [xp.spec_of(leaf.shape, leaf.dtype) for leaf in self.start]
        if not leaves:
            raise ArgumentError(
                f"pb.functions.{options.name} got {options.unknown}0 without any array. Give it at least one."
            )
        self.layout = Layout(xp, options, self.start)
        self._args, self._args_structure = flatten(args)
        self._places = [i for i, leaf in enumerate(self._args) if xp.carries_gradient(leaf)]
        self.residual = make(self)
        given = options.tolerance, options.solver_tolerance
        self._rounding = auto = float(xp.eps_of(self.layout.dtype)) ** 0.7
        self.tolerance, self.solver_tolerance = (auto if t == "auto" else t for t in given)

    @property
    def params(self) -> list[Any]:
        """The arguments that a gradient may be asked for."""
        return [self._args[i] for i in self._places]

    def take_start(self) -> Arrays:
        """The start, which is kept no longer."""
        start, self.start = self.start, []
        return start

    def call(self, f: Callable[..., Any], x: Arrays, params: Arrays) -> Any:
        """Call the user's function on other arrays."""
        filled = list(self._args)
        for place, value in zip(self._places, params, strict=True):
            filled[place] = value
        args = unflatten(self._args_structure, filled)
        return f(unflatten(self.structure, list(x)), *args)

    def leaves_like_x(self, result: Any) -> list[Any]:
        """What the user's function returned as flat arrays, which have to be like x."""
        leaves, structure = flatten(result)
        xs = self.like
        fits = structure == self.structure and all(
            self.xp.fits(leaf, x) for leaf, x in zip(leaves, xs, strict=True)
        )
        if not fits:
            x = self.options.unknown
            raise ArgumentError(
                f"pb.functions.{self.options.name} got a function that returns {described(leaves)} for {x} of "
                f"{described(xs)}; wanted the structure, shapes and dtypes of {x}0. Let the function keep them, or "
                f"give {x}0 as the function returns it."
            )
        return [self.xp.same_shape(leaf, x) for leaf, x in zip(leaves, xs, strict=True)]

    def solver_for(self, kind: str) -> Callable[..., Solved]:
        """The linear solver: of few unknowns dense, else the usual one of this kind of equation."""
        name = self.options.solver
        if name == "auto":
            name = "dense" if (self.layout.count or math.inf) <= _DENSE else kind
        if name == "dense" and self.layout.count is None:
            raise ArgumentError(
                f"pb.functions.{self.options.name} got solver='dense' for an x0 of {described(self.like)}: the number "
                "of unknowns has to be known. Set the shape, as with ensure_shape, or use solver='gmres'."
            )
        return SOLVERS[name]

    def checked(self, kind: str, arrays: Arrays, solved: Solved) -> list[Any]:
        """The arrays, if the solve converged; else what the user wants done."""
        options, xp = self.options, self.xp
        tolerance = self.tolerance if kind == "forward" else self.solver_tolerance
        fine = solved.residual < math.inf if tolerance is None else solved.residual <= tolerance
        curved = solved.curvature is not None and solved.curvature < -self._rounding
        if options.log is not None:
            converged = xp.logical_and(fine, xp.logical_not(curved))
            arrays = self._logged(options.log, kind, arrays, solved, converged)

        def fail(taken: Any, residual: Any) -> NotConverged:
            return NotConverged(not_converged(options, kind, residual, taken, tolerance))

        def no_minimum(curvature: Any) -> NotConverged:
            return NotConverged(not_a_minimum(options.name, curvature))

        mode = options.on_failure
        arrays = xp.with_failure(arrays, fine, fail, [solved.steps, solved.residual], mode)
        if solved.curvature is None:
            return list(arrays)
        ends_well = xp.logical_not(xp.logical_and(fine, curved))
        return xp.with_failure(arrays, ends_well, no_minimum, [solved.curvature], mode)

    def _logged(
        self, log: SolveLog, kind: str, arrays: Arrays, solved: Solved, fine: Any
    ) -> Arrays:
        if self.xp.compiled_here():
            raise ArgumentError(
                f"pb.functions.{self.options.name} got a log in a program compiled by XLA, from which no Python is "
                "called. Leave the log away, or run without jit_compile=True."
            )

        def see(residual: Any, steps: Any, converged: Any) -> None:
            log.append(Solve(kind, float(residual), int(steps), bool(converged)))

        return self.xp.shown(arrays, see, [solved.residual, solved.steps, fine])


def described(leaves: Arrays) -> str:
    """Arrays in messages."""
    return ", ".join(map(describe, leaves)) or "nothing"


def real_array(xp: Any, options: Options, value: Any) -> Any:
    """A value as an array of real numbers."""
    array = xp.asarray(value)
    if xp.kind_of(array) != "floating":
        raise ArgumentError(
            f"pb.functions.{options.name} got {options.unknown}0 with {describe(array)}; wanted real floating-point "
            "numbers. Cast it before."
        )
    return array


def solution_of(equation: Equation, forward: Callable[..., Solved], kind: str) -> Any:
    """The solution, in the structure of x0, with its implicit gradient.

    `forward` is the way to it: from the rows of a start, and the residual as a function of arrays, to a `Solved`. The
    linear systems of `kind` are those of the equation where nothing else was asked for.
    """
    xp, start = equation.xp, equation.take_start()
    unknowns = len(start)
    sources = xp.sources_of(
        lambda at: equation.residual(at[:unknowns], at[unknowns:]), [*start, *equation.params]
    )
    if xp.forward_order([*equation.params, *sources]) > _ORDER:
        raise UnsupportedError(
            f"pb.functions.{equation.options.name} got tangents of more than {_ORDER} accumulators, or of {_ORDER} in "
            f"a tape or in a traced function; wanted forward mode in derivatives of order {_ORDER} at most, and "
            f"{_ORDER} accumulators only around code that runs at once. Take the inner derivatives by tapes."
        )

    def found(start: Arrays, params: Arrays) -> list[Any]:
        def compute(at: Arrays) -> list[Any]:
            solved = forward(equation.layout.pack(at[:unknowns]), at[unknowns:])
            numbers = [n for n in solved[1:] if n is not None]
            return [*equation.layout.unpack(solved.solution), *numbers]

        found = xp.untracked(compute, [*start, *params], sources)
        return equation.checked("forward", found[:unknowns], Solved(None, *found[unknowns:]))

    def pushed(_: Any, *tangents: Any, inputs: Any, outputs: Any) -> Any:
        given = list(outputs), list(inputs["params"]), own_sources
        return _pushed_forward(equation, kind, *given, flatten(tangents)[0])

    @functools.partial(custom_gradient, jvp=_if_open(xp, pushed))
    def solution(start: list[Any], params: list[Any], sources: list[Any]) -> Any:
        del sources  # read by the function itself; here so that they have a gradient

        def solution_pullback(*upstream: Any, outputs: Any) -> Any:
            return _pulled_back(equation, kind, list(outputs), params, own_sources, upstream)

        return found(start, params), solution_pullback

    own_sources = sources
    leaves = solution(list(start), equation.params, sources)
    return unflatten(equation.structure, list(leaves))


def _pulled_back(
    equation: Equation, kind: str, x: Arrays, params: Arrays, sources: Arrays, upstream: Arrays
) -> dict[str, list[Any]]:
    xp, layout = equation.xp, equation.layout
    matrix = _Matrix.of(equation, x, params)
    reads = [*x, *params, *sources]
    w = linear_solution(equation, kind, matrix.swapped(), layout.pack(upstream), reads)
    w = _at_numbers(equation, x, w)
    _, pull = xp.pullback_of(lambda at: equation.residual(x, at), params, sources, x)
    gradients = pull(layout.unpack(-w))
    return {"params": gradients[: len(params)], "sources": gradients[len(params) :]}


def _pushed_forward(
    equation: Equation, kind: str, x: Arrays, params: Arrays, sources: Arrays, tangents: Arrays
) -> list[Any]:
    """The tangents of the solution: dx = −F_x⁻¹ F_θ dθ."""
    xp, layout = equation.xp, equation.layout
    moved = _tangent(
        xp, lambda at: [layout.pack(equation.residual(x, at))], params, sources, x, tangents
    )
    matrix = _Matrix.of(equation, x, params)
    with set_for(_depth, _depth.get() + 1):
        dx = linear_solution(equation, kind, matrix, -moved, [*x, *params, *sources])
    return layout.unpack(_at_numbers(equation, x, dx))


def _at_numbers(equation: Equation, x: Arrays, rows: Any) -> Any:
    """The rows; NaN where the solution is no number, though the equation's own derivative be one everywhere."""
    xp = equation.xp
    known = xp.all(xp.isfinite(equation.layout.pack(x)), -1, keepdims=True)
    nan = xp.nan_like(rows)
    return rows + xp.where(known, xp.zeros_like(nan), nan)  # in place


def _tangent(
    xp: Any, function: Any, xs: Arrays, others: Arrays, fixed: Arrays, tangents: Arrays
) -> Any:
    """The tangent of one array for those of what it is made of: the transpose of the pullback, which is linear."""
    (y,), pull = xp.pullback_of(function, xs, others, fixed)
    there = [i for i, t in enumerate(tangents) if t is not None]
    _, push = xp.pullback_of(lambda u: [pull(u)[i] for i in there], [xp.zeros_like(y)])
    return push([tangents[i] for i in there])[0]


class _Matrix(NamedTuple):
    """A matrix by what builds the product with it, and the product with its transpose."""

    build: Callable[[], Callable[[Any], Any]]
    build_transposed: Callable[[], Callable[[Any], Any]]

    @classmethod
    def of(cls, equation: Equation, x: Arrays, params: Arrays) -> _Matrix:
        """The derivative of the residual towards x."""
        xp, layout = equation.xp, equation.layout

        def transposed() -> Callable[[Any], Any]:
            _, pull = xp.pullback_of(lambda at: equation.residual(at, params), x)
            return lambda w: layout.pack(pull(layout.unpack(w)))

        def itself() -> Callable[[Any], Any]:
            product = transposed()
            zeros = xp.zeros_like(layout.pack(x))
            _, pull = xp.pullback_of(lambda at: [product(at[0])], [zeros])
            return lambda v: pull([v])[0]

        return cls(itself, transposed)

    def swapped(self) -> _Matrix:
        """The transposed matrix."""
        return _Matrix(self.build_transposed, self.build)


def linear_solution(equation: Equation, kind: str, matrix: _Matrix, b: Any, reads: Arrays) -> Any:
    """What solves A w = b, given the arrays and variables that A is made of."""
    xp = equation.xp
    if rehearsing.get():
        # All that counts is what would be read, and each solution would rehearse that of its gradient in turn.
        return matrix.build()(b)

    def solve(b: Any) -> Any:
        product, solver = matrix.build(), equation.solver_for(kind)
        limits = equation.solver_tolerance, equation.options.solver_steps
        scale = _scale_of(xp, b)
        w, residual, steps = xp.unrecorded(lambda: solver(xp, product, b / scale, *limits)[:3])
        (w,) = equation.checked("backward", [scale * w], Solved(None, residual, steps))
        return w

    if _depth.get() > 1:
        # An accumulator follows what runs for its sake, and would go on for ever.
        return solve(b)
    level = _level.get() + 1

    def pushed(db: Any, *dreads: Any, outputs: Any) -> Any:
        if level > 1 and not _depth.get():
            raise _too_deep(equation)
        tangents = flatten(dreads)[0]
        rest = 0.0 if db is None else db
        if any(t is not None for t in tangents):
            rest = rest - _tangent(
                xp, lambda _: [matrix.build()(outputs)], [], own_reads, [outputs], tangents
            )
        with set_for(_depth, _depth.get() + 1):
            return linear_solution(equation, kind, matrix, rest, own_reads)

    @functools.partial(custom_gradient, jvp=_if_open(xp, pushed))
    def linear(b: Any, reads: list[Any]) -> Any:
        del reads

        def linear_pullback(dw: Any, *, outputs: Any) -> Any:
            if level > 1 and not xp.in_scope(own_reads):
                raise _out_of_scope(equation)
            with set_for(_level, level):
                v = linear_solution(equation, kind, matrix.swapped(), dw, own_reads)
            _, pull = xp.pullback_of(lambda _: [matrix.build()(outputs)], [], own_reads, [outputs])
            return {"b": v, "reads": pull([-v])}

        return solve(b), linear_pullback

    own_reads = reads
    return linear(b, list(reads))


def _if_open(xp: Any, jvp: Callable[..., Any]) -> Callable[..., Any] | None:
    """The tangents, where an accumulator asks for them: tapes go on to any order without, and not with them.

    A gradient with explicit tangents counts its upstream as fixed, which from the third order on leaves terms out.
    """
    return jvp if xp.accumulator_is_open() else None


def _too_deep(equation: Equation) -> UnsupportedError:
    return UnsupportedError(
        f"pb.functions.{equation.options.name} got an accumulator around two derivatives, or around one of a traced "
        f"function; wanted forward mode in derivatives of order {_ORDER} at most. Take all of them by tapes."
    )


def _out_of_scope(equation: Equation) -> UnsupportedError:
    return UnsupportedError(
        f"pb.functions.{equation.options.name} got a third derivative by tapes that are outside of a traced function; "
        "wanted two such tapes at most, as TensorFlow keeps no more of what the function computed. Open the tapes "
        "inside of the tf.function."
    )


def _scale_of(xp: Any, b: Any) -> Any:
    """A power of two near the largest entry: squares of what is divided by it do not leave the range of the format."""
    largest = xp.max(xp.magnitude(b))
    usable = xp.isfinite(largest) & (largest > 0)
    return xp.power_of_two_below(xp.where(usable, largest, xp.ones_like(largest)))


def equation_of(
    options: Options, x0: Any, args: Any, make: Callable[[Equation], Callable[..., Arrays]]
) -> Equation:
    """The equation, once its options are known to make sense."""
    options.check()
    return Equation(arrays_for(x0, args), options, make, x0, args)
