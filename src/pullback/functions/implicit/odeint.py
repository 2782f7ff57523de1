"""`odeint`: solutions of ordinary differential equations, differentiated step by step or by the adjoint equation.

The discrete adjoint is exact for the steps that were taken: each step is a function with a gradient of its own, which
computes it again from its start, so that one state a step is all that is kept. Where the tolerance decides about the
steps, it does so beforehand, and they count as fixed parts of the intervals between the times.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from pullback._bind import signature_of
from pullback._define import custom_gradient
from pullback._tree import flatten, unflatten
from pullback.errors import ArgumentError, NotConverged
from pullback.functions._arguments import arrays_for
from pullback.functions.implicit.equation import Equation, equation_of, real_array
from pullback.functions.implicit.iterations import mean_size
from pullback.functions.implicit.runge_kutta import (
    METHODS,
    Slope,
    Tableau,
    runge_kutta,
    runge_kutta_of,
)
from pullback.functions.implicit.solve_options import OnFailure, Options, ended_early

_SLIVER = 1e-6  # of an interval, which is no step of its own


class _Plan(NamedTuple):
    """The steps: of which interval each is, where it starts, how long it is in parts of that; where intervals end."""

    interval: Any
    start: Any
    width: Any
    ends: Any  # the number of steps up to the end of each interval
    count: Any
    most: int


def odeint(
    f: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    method: Literal["euler", "midpoint", "rk4", "dopri5"] = "dopri5",
    steps: int | None = None,
    tolerance: float | Literal["auto"] = "auto",
    max_steps: int = 1000,
    adjoint: Literal["discrete", "continuous"] = "discrete",
    on_failure: OnFailure = "raise",
) -> Any:
    """The solution of dy/dt = f(y, t, *args) from y0 at t[0], at all times t, with its gradient.

    Use it for neural and physical differential equations. The result is like y0, any structure of arrays, with the
    times in front. With `steps`, each interval between two times takes so many equal steps of the method; else the
    error of each step of "dopri5" is kept below the `tolerance`, in at most `max_steps` steps.

    `adjoint="discrete"`, the default, is the exact gradient of the steps taken and keeps one state a step.
    `"continuous"` solves the adjoint equation backwards: it keeps the states at the times t alone, and is right only as
    far as the equation can be run backwards in time. Variables and tensors that f closes over are found, and have their
    gradients; so have the times, which may be of any real dtype.

    >>> import pullback as pb, tensorflow as tf
    >>> k = tf.constant(0.5)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(k)
    ...     y = pb.functions.odeint(lambda y, t: -k * y, tf.constant(2.0), [0.0, 1.0])[-1]
    >>> print(f"{float(y):.4f} {float(tape.gradient(y, k)):.4f}")  # 2 e^(−k), and its derivative
    1.2131 -1.2131
    """
    options = Options("odeint", tolerance, max_steps, "auto", "auto", 1, 0, on_failure, None)
    _check(f, method, steps, tolerance, adjoint)
    xp = arrays_for(y0, t, args)
    if xp.is_symbolic(flatten((y0, t, args))[0]):
        keep: dict[str, Any] = {
            "method": method,
            "steps": steps,
            "tolerance": tolerance,
            "max_steps": max_steps,
            "adjoint": adjoint,
            "on_failure": on_failure,
        }
        return xp.as_node(lambda y0, t, *args: odeint(f, y0, t, *args, **keep), y0, t, *args)
    equation = equation_of(options, y0, args, lambda _: lambda *_: [])
    dtype = xp.wide(equation.start[0]).dtype
    times = xp.astype(xp.asarray(t, dtype), dtype)
    count = xp.static_size(times, slice(None))
    if len(times.shape) != 1 or count is None or count < 2:
        raise ArgumentError(
            f"pb.functions.odeint got t of shape {times.shape}; wanted a vector of at least two times, whose number is "
            "known. The first one is that of y0."
        )
    solver = _Solver(equation, f, METHODS[method], count - 1, steps)
    # The equation's own start has no gradient, which is right where a solution does not depend on it.
    start = [real_array(xp, options, leaf) for leaf in flatten(y0)[0]]
    rows = solver.solution(start, times, adjoint)
    leaves = equation.layout.unpack_many(rows, count)
    return unflatten(equation.structure, leaves)


def _check(f: Any, method: Any, steps: Any, tolerance: Any, adjoint: Any) -> None:
    def refuse(name: str, value: Any, wanted: str) -> None:
        raise ArgumentError(f"pb.functions.odeint got {name}={value!r}; wanted {wanted}.")

    if not callable(f):
        refuse("f", f, "a function of y, of the time and of the further arguments")
    first = next(iter(signature_of(f).parameters), "")
    if first.strip("_") in ("t", "time"):
        refuse("f", f, f"the state before the time, as f(y, t): its first parameter is {first!r}")
    if method not in METHODS:
        refuse("method", method, " or ".join(map(repr, METHODS)))
    if not (
        steps is None or (isinstance(steps, int) and not isinstance(steps, bool) and steps > 0)
    ):
        refuse("steps", steps, "a positive whole number, or None for a tolerance")
    if steps is None and method != "dopri5":
        refuse(
            "steps", steps, f"a number of steps for each interval: method={method!r} knows no error"
        )
    if adjoint not in ("discrete", "continuous"):
        refuse("adjoint", adjoint, "'discrete' or 'continuous'")
    if tolerance is None:
        refuse(
            "tolerance",
            tolerance,
            "a positive number or 'auto'; for a fixed number of steps give steps=",
        )


class _Solver:
    """One call: an equation, a method, and how many steps to take in how many intervals."""

    def __init__(
        self, equation: Equation, f: Any, tableau: Tableau, intervals: int, steps: int | None
    ) -> None:
        self.equation, self.f, self.tableau = equation, f, tableau
        self.xp, self.layout = equation.xp, equation.layout
        self.intervals, self.steps = intervals, steps

    def slope(self, params: Any) -> Slope:
        """The right-hand side on rows."""

        def of_rows(rows: Any, time: Any) -> Any:
            run = self.xp.runnable(self.f)
            time = self.xp.astype(time, self.layout.dtype)
            found = self.equation.call(
                lambda y, *args: run(y, time, *args), self.layout.unpack(rows), params
            )
            return self.layout.pack(self.equation.leaves_like_x(found))

        return of_rows

    def sources(self, times: Any) -> list[Any]:
        """What the right-hand side reads beside its arguments."""
        start, params, pack = self.equation.start, self.equation.params, self.layout.pack
        count = len(start)

        def slope(at: Any) -> list[Any]:
            return [self.slope(at[count + 1 :])(pack(at[:count]), at[count])]

        return self.xp.sources_of(slope, [*start, times[0], *params])

    def _split(self, at: Any) -> tuple[Any, Any, Any]:
        """Parameters, start and times, out of all of them."""
        count = len(self.equation.like) + 1
        return at[count:], at[1:count], at[0]

    def plan(self, times: Any, begin: Any, params: Any, sources: Any) -> _Plan:
        """The steps to take, which do not depend on anything as far as gradients are concerned."""
        if self.steps is not None:
            return _equal_steps(self.xp, self.intervals, self.steps, times)
        xp, options = self.xp, self.equation.options

        def compute(at: Any) -> list[Any]:
            params, begin, times = self._split(at)
            return self._adapted(self.slope(params), self.layout.pack(begin), times)

        found = xp.untracked(compute, [times, *begin, *params], sources)
        interval, start, width, ends, count, whole, time = found

        def fail(taken: Any, time: Any, wanted: Any) -> NotConverged:
            return NotConverged(ended_early(taken, options.max_steps, time, wanted))

        numbers, mode = [count, time, times[-1]], options.on_failure
        (width,) = xp.with_failure([width], whole, fail, numbers, mode)
        return _Plan(interval, start, width, ends, count, options.max_steps)

    def _adapted(self, slope: Slope, y: Any, times: Any) -> list[Any]:
        """Steps as long as the tolerance lets them be; at last, whether they go all the way, and up to what time."""
        xp, most, intervals = self.xp, self.equation.options.max_steps, self.intervals
        tolerance, eps = self.equation.tolerance, xp.limits(times).eps

        def step(n: Any, k: Any, i: Any, s: Any, w: Any, y: Any, *records: Any) -> Any:
            at, starts, widths, ends = records
            t0, length = xp.entry(times, i), xp.entry(times, i + 1) - xp.entry(times, i)
            last = w >= 1.0 - s - _SLIVER
            w = xp.where(last, 1.0 - s, w)
            moved, error = runge_kutta(self.tableau, slope, y, t0 + s * length, w * length)
            scale = tolerance * (1.0 + xp.maximum(xp.magnitude(y), xp.magnitude(moved)))
            size = mean_size(xp, error / scale)
            fine = size <= 1.0
            at, starts, widths = (
                xp.where(fine, xp.with_entry(a, k, v), a)
                for a, v in ((at, i), (starts, s), (widths, w))
            )
            k = xp.where(fine, k + 1, k)
            done = xp.logical_and(fine, last)
            ends = xp.where(done, xp.with_entry(ends, i, k), ends)
            factor = xp.between(0.9 * size**-0.2, 0.2, 5.0)
            following = w * xp.where(xp.isfinite(factor), factor, 0.2 * xp.ones_like(factor))
            s = xp.where(done, xp.zeros_like(s), xp.where(fine, s + w, s))
            return (
                n + 1,
                k,
                xp.where(done, i + 1, i),
                s,
                following,
                xp.where(fine, moved, y),
                at,
                starts,
                widths,
                ends,
            )

        zeros = xp.zeros_of(xp.spec_of([most], times.dtype))
        whole = xp.zeros_of(xp.spec_of([most], "int32"))
        state = (
            0,
            0,
            0,
            0.0 * times[0],
            0.1 * xp.ones_like(times[0]),
            y,
            whole,
            zeros,
            zeros,
            whole[:intervals],
        )

        def goes_on(n: Any, k: Any, i: Any, s: Any, w: Any, *_: Any) -> Any:
            # A step that does not change the time gets nowhere, however often it is halved.
            moves = w > eps * xp.maximum(s, eps * xp.ones_like(s))
            unfinished = xp.logical_and(k < most, xp.logical_and(i < intervals, n < 4 * most))
            return xp.logical_and(unfinished, moves)

        return self._reached(times, *xp.loop(goes_on, step, state)[1:])

    def _reached(self, times: Any, k: Any, i: Any, s: Any, *rest: Any) -> list[Any]:
        """The steps that were found, for those times as well that they do not reach."""
        xp, (*_, at, starts, widths, ends) = self.xp, rest
        k = xp.maximum(k, 1)  # a step of no length, if there is none
        ends = xp.where(xp.arange(self.intervals) < i, ends, k)
        here = xp.minimum(i, self.intervals - 1)
        t0, t1 = xp.entry(times, here), xp.entry(times, here + 1)
        time = xp.where(i < self.intervals, t0 + s * (t1 - t0), t1)
        return [at, starts, widths, ends, k, xp.equal(i, self.intervals), time]

    def solution(self, start: list[Any], times: Any, adjoint: str) -> Any:
        """Rows at all times, with a gradient towards the start, the arguments, the times, and what is read."""
        xp = self.xp
        own_sources = self.sources(times)
        discrete = adjoint == "discrete"

        @custom_gradient
        def solution(start: list[Any], params: list[Any], times: Any, sources: list[Any]) -> Any:
            del sources
            plan = self.plan(times, start, params, own_sources)

            def compute(at: Any) -> list[Any]:
                params, start, times = self._split(at)
                first, slope = self.layout.pack(start), self.slope(params)
                visited = xp.visited(
                    lambda j, y: self._moved(plan, j, y, times, slope), first, plan.count, plan.most
                )
                states = xp.concat([first[None], visited], 0)
                return [
                    states if discrete else xp.rows_at(states, _places(xp, plan)),
                    _places(xp, plan),
                ]

            rows, places = xp.untracked(compute, [times, *start, *params], own_sources)

            def adjoint_pullback(upstream: Any, _: Any = None, *, outputs: Any) -> Any:
                run = self._step_by_step if discrete else self._backwards
                return run(plan, params, own_sources, times, outputs[0], upstream)

            return rows, places, adjoint_pullback

        rows, places = solution(start, self.equation.params, times, own_sources)
        return xp.rows_at(rows, places) if discrete else rows

    def _moved(self, plan: _Plan, j: Any, y: Any, times: Any, slope: Slope) -> Any:
        """The state after a step, given the one before."""
        xp = self.xp
        i = xp.entry(plan.interval, j)
        length = xp.entry(times, i + 1) - xp.entry(times, i)
        time = xp.entry(times, i) + xp.entry(plan.start, j) * length
        return runge_kutta(self.tableau, slope, y, time, xp.entry(plan.width, j) * length)[0]

    def _step_by_step(
        self, plan: _Plan, params: Any, sources: Any, times: Any, states: Any, upstream: Any
    ) -> dict[str, Any]:
        """The pullback of each step, from the last one to the first; each step is computed again from its start."""
        xp = self.xp

        def step(n: Any, a: Any, *g: Any) -> Any:
            j = plan.count - 1 - n
            a = a + xp.entry(upstream, j + 1)

            def again(at: Any) -> Any:
                return [self._moved(plan, j, at[0], at[1], self.slope(at[2:]))]

            given = [xp.entry(states, j), times, *params]
            _, pull = xp.pullback_of(again, given, sources)
            a, *more = pull([a])
            return (n + 1, a, *(x + y for x, y in zip(g, more, strict=True)))

        like = [times, *params, *sources]
        state = (0, xp.zeros_like(states[0]), *map(xp.zeros_like, like))
        _, a, dt, *g = xp.loop(lambda n, *_: n < plan.count, step, state, plan.most)
        start, count = self.layout.unpack(a + upstream[0]), len(params)
        return {"start": start, "params": g[:count], "times": dt, "sources": g[count:]}

    def _backwards(
        self, plan: _Plan, params: Any, sources: Any, times: Any, rows: Any, upstream: Any
    ) -> dict[str, Any]:
        """The adjoint equation from the last time to the first: da/dt = −f_yᵀ a, dg/dt = −f_θᵀ a."""
        xp, slope = self.xp, self.slope(params)
        like = [*params, *sources]

        def augmented(state: Sequence[Any], time: Any) -> list[Any]:
            y, a = state[:2]
            (dy,), pull = xp.pullback_of(
                lambda at: [self.slope(at[1:])(at[0], time)], [y, *params], sources, [a, time]
            )
            return [dy, *(-g for g in pull([a]))]

        def step(n: Any, y: Any, a: Any, *g: Any) -> Any:
            j = plan.count - 1 - n
            i = xp.entry(plan.interval, j)
            length = xp.entry(times, i + 1) - xp.entry(times, i)
            s, w = xp.entry(plan.start, j), xp.entry(plan.width, j)
            ends_here = xp.equal(j + 1, xp.entry(plan.ends, i))
            a = a + xp.where(ends_here, xp.entry(upstream, i + 1), xp.zeros_like(a))
            y = xp.where(ends_here, xp.entry(rows, i + 1), y)
            time = xp.entry(times, i) + (s + w) * length
            return (n + 1, *runge_kutta_of(self.tableau, augmented, [y, a, *g], time, -w * length))

        # Times that the steps do not reach have the state of the last one that they do.
        beyond = xp.arange(self.intervals) > xp.entry(plan.interval, plan.count - 1)
        late = xp.where(beyond[:, None, None], upstream[1:], xp.zeros_like(upstream[1:]))
        state = (0, rows[-1], xp.sum(late, 0), *map(xp.zeros_like, like))
        _, _, a, *g = xp.loop(lambda n, *_: n < plan.count, step, state, plan.most)
        a = a + upstream[0]
        slopes = xp.stacked([slope(rows[i], times[i]) for i in range(self.intervals + 1)])
        dt = xp.sum(slopes * upstream, (1, 2))
        start = self.layout.unpack(a)
        dt = dt - xp.unit_at(dt, 0, xp.sum(slopes[0] * a))
        count = len(params)
        return {"start": start, "params": g[:count], "times": dt, "sources": g[count:]}


def _places(xp: Any, plan: _Plan) -> Any:
    """Which of the states, the first of them included, belong to the times."""
    return xp.concat([xp.zeros_like(plan.ends[:1]), plan.ends], 0)


def _equal_steps(xp: Any, intervals: int, steps: int, like: Any) -> _Plan:
    count = intervals * steps
    both = list(itertools.product(range(intervals), range(steps)))
    whole = xp.astype(xp.packed([i for i, _ in both]), "int32")
    parts = xp.astype(xp.packed([k / steps for _, k in both]), like.dtype)
    widths = xp.astype(xp.packed([1.0 / steps] * count), like.dtype)
    ends = xp.packed([steps * (i + 1) for i in range(intervals)])
    return _Plan(whole, parts, widths, ends, count, count)
