"""`fixed_point`, `root` and `argmin`: solutions of equations as functions of what the equations are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

from pullback._tree import flatten
from pullback.errors import ArgumentError
from pullback.functions._arguments import arrays_for, require_number
from pullback.functions.implicit.equation import (
    Equation,
    equation_of,
    solution_of,
)
from pullback.functions.implicit.iterations import anderson, descended, iterated, newton, stepped
from pullback.functions.implicit.linear_solvers import Solved, lowest_curvature
from pullback.functions.implicit.solve_options import OnFailure, Options, SolveLog

Tolerance = float | Literal["auto"] | None
Function = Callable[..., Any]


def fixed_point(
    f: Function,
    x0: Any,
    *args: Any,
    method: Literal["iteration", "anderson"] = "iteration",
    tolerance: Tolerance = "auto",
    max_steps: int = 100,
    damping: float = 1.0,
    memory: int = 5,
    solver: str = "auto",
    solver_tolerance: Tolerance = "auto",
    solver_steps: int = 100,
    batch_dims: int = 0,
    on_failure: OnFailure = "raise",
    log: SolveLog | None = None,
) -> Any:
    """The x with x = f(x, *args), found from x0, with its gradient towards all that f reads.

    Use it for equilibrium layers and other iterations that converge: however many steps it takes, the gradient needs
    the memory of one. x0, any structure of arrays, has no gradient, as the result does not depend on it.

    `method="anderson"` mixes the last `memory` steps; `damping` below 1 goes only a part of each. `tolerance=None`
    takes exactly `max_steps`. Backwards a linear system is solved by `solver`: "neumann" (the default of large
    systems: it converges where plain iteration does), "gmres", "bicgstab", "cg" or "dense" (the default up to 256
    unknowns). With `batch_dims`, leading axes count systems that do not depend on each other. Whatever ends without
    reaching its tolerance is an error (`on_failure="raise"`; "nan", as in programs compiled by XLA, or "accept"). A
    `SolveLog` given as `log` collects the residuals of both solves.

    >>> import pullback as pb, tensorflow as tf
    >>> a = tf.constant(2.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(a)
    ...     x = pb.functions.fixed_point(lambda x, a: 0.5 * (x + a / x), tf.constant(1.0), a)
    >>> print(f"{float(x):.4f} {float(tape.gradient(x, a)):.4f}")  # √2, and 1 / (2 √2)
    1.4142 0.3536
    """
    options = Options(
        "fixed_point", tolerance, max_steps, solver, solver_tolerance, solver_steps, batch_dims, on_failure, log
    )  # fmt: skip
    _require_functions("fixed_point", f=f)
    if method not in ("iteration", "anderson"):
        raise ArgumentError(
            f"pb.functions.fixed_point got method={method!r}; wanted 'iteration' or 'anderson'."
        )
    require_number("fixed_point", damping, "damping", 1e-6, 1.0)
    require_number("fixed_point", memory, "memory", 1, 100)

    def make(equation: Equation) -> Function:
        return lambda x, params: [
            a - b for a, b in zip(x, _image(equation, f, x, params), strict=True)
        ]

    def forward(equation: Equation, rows: Any, params: Any) -> Solved:
        layout, limits = equation.layout, (equation.tolerance, max_steps, damping)
        image = _on_rows(layout, lambda x: _image(equation, f, x, params))
        if method == "anderson":
            return anderson(equation.xp, image, rows, *limits, int(memory))
        return iterated(equation.xp, image, rows, *limits)

    kind = "gmres" if method == "anderson" or damping < 1.0 else "neumann"
    return _solution(options, x0, args, make, forward, kind)


def root(
    f: Function,
    x0: Any,
    *args: Any,
    step: Function | None = None,
    tolerance: Tolerance = "auto",
    max_steps: int = 100,
    solver: str = "auto",
    solver_tolerance: Tolerance = "auto",
    solver_steps: int = 100,
    batch_dims: int = 0,
    on_failure: OnFailure = "raise",
    log: SolveLog | None = None,
) -> Any:
    """The x with f(x, *args) = 0, found from x0 by Newton's method, with its gradient towards all that f reads.

    Use it for implicit equations: Kepler's, equations of state, inverses of functions. f returns the structure of x.
    `step(x, *args)`, if given, takes the place of Newton's: any way to a better x, of which nothing is differentiated.
    Where each entry has an equation of its own, say so by `batch_dims`, the number of axes of x: it saves most of the
    work. The other options are those of `pb.functions.fixed_point`; `solver` serves both passes.

    >>> import pullback as pb, tensorflow as tf
    >>> a = tf.constant([2.0, 3.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(a)
    ...     x = pb.functions.root(lambda x, a: x**3 - a, tf.ones(2), a, batch_dims=1)
    >>> print([f"{v:.4f}" for v in x], [f"{g:.4f}" for g in tape.gradient(x, a)])
    ['1.2599', '1.4422'] ['0.2100', '0.1602']
    """
    options = Options(
        "root", tolerance, max_steps, solver, solver_tolerance, solver_steps, batch_dims, on_failure, log
    )  # fmt: skip
    _require_functions("root", f=f, **({} if step is None else {"step": step}))

    def make(equation: Equation) -> Function:
        return functools.partial(_image, equation, f)

    def forward(equation: Equation, rows: Any, params: Any) -> Solved:
        if step is not None:
            return _stepped(equation, step, rows, params)
        alone = equation.layout.count == 1
        direction = _newton_direction(equation, params, "gmres", symmetric=alone)
        return newton(equation.xp, direction, rows, equation.tolerance, max_steps)

    return _solution(options, x0, args, make, forward, "gmres")


def argmin(
    f: Function,
    x0: Any,
    *args: Any,
    step: Function | None = None,
    tolerance: Tolerance = "auto",
    max_steps: int = 100,
    solver: str = "auto",
    solver_tolerance: Tolerance = "auto",
    solver_steps: int = 100,
    batch_dims: int = 0,
    on_failure: OnFailure = "raise",
    log: SolveLog | None = None,
) -> Any:
    """The x at which the number f(x, *args) is smallest near x0, with its gradient towards all that f reads.

    Use it for inner problems: hyper-parameters of a regression, projections, energies. f has to be twice
    differentiable, with a Hessian that can be inverted at the minimum. Newton's directions are taken with a line
    search; `step(x, *args)`, if given, takes their place. A maximum or a saddle is a failure. The other options are
    those of `pb.functions.fixed_point`, and of large systems the solver is "cg".

    >>> import pullback as pb, tensorflow as tf
    >>> a = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(a)
    ...     x = pb.functions.argmin(lambda x, a: tf.reduce_sum(tf.cosh(x - a) + x**2), tf.zeros(2), a)
    >>> print([f"{v:.3f}" for v in x], [f"{g:.3f}" for g in tape.gradient(x, a)])
    ['0.349', '0.776'] ['0.379', '0.480']
    """
    options = Options(
        "argmin", tolerance, max_steps, solver, solver_tolerance, solver_steps, batch_dims, on_failure, log
    )  # fmt: skip
    _require_functions("argmin", f=f, **({} if step is None else {"step": step}))

    def make(equation: Equation) -> Function:
        return functools.partial(_gradient, equation, f)

    def forward(equation: Equation, rows: Any, params: Any) -> Solved:
        xp, layout, limits = equation.xp, equation.layout, (equation.tolerance, max_steps)

        def value_of(rows: Any) -> Any:
            return xp.wide(_value(equation, f, layout.unpack(rows), params))

        if step is None:
            direction = _newton_direction(equation, params, "cg", symmetric=True)
            found = descended(xp, value_of, direction, rows, *limits)
        else:
            found = _stepped(equation, step, rows, params)
        _, product = _residual_at(equation, params, found.solution)
        return found._replace(curvature=lowest_curvature(xp, product, found.solution))

    return _solution(options, x0, args, make, forward, "cg")


def _solution(options: Options, x0: Any, args: Any, make: Any, forward: Any, kind: str) -> Any:
    xp = arrays_for(x0, args)
    if xp.is_symbolic(flatten((x0, args))[0]):
        return xp.as_node(
            lambda x0, *args: _solution(options, x0, args, make, forward, kind), x0, *args
        )
    equation = equation_of(options, x0, args, make)
    way = functools.partial(forward, equation)
    return solution_of(equation, way, kind)


def _require_functions(name: str, **functions: Any) -> None:
    for role, function in functions.items():
        if not callable(function):
            raise ArgumentError(
                f"pb.functions.{name} got {role}={function!r}; wanted a function of x and of the further arguments."
            )


def _image(equation: Equation, f: Function, x: Any, params: Any) -> list[Any]:
    return equation.leaves_like_x(equation.call(equation.xp.runnable(f), x, params))


def _value(equation: Equation, f: Function, x: Any, params: Any) -> Any:
    value = equation.call(equation.xp.runnable(f), x, params)
    if not equation.xp.is_number_of(value, equation.layout.dtype):
        raise ArgumentError(
            f"pb.functions.argmin got a function that returns {value!r}; wanted one number of the dtype of x0. Sum it "
            "up, or cast it."
        )
    return value


def _gradient(equation: Equation, f: Function, x: Any, params: Any) -> list[Any]:
    xp = equation.xp
    (value,), pull = xp.pullback_of(lambda at: [_value(equation, f, at, params)], x)
    return pull([xp.ones_like(value)])


def _on_rows(layout: Any, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda rows: layout.pack(function(layout.unpack(rows)))


def _stepped(equation: Equation, step: Function, rows: Any, params: Any) -> Solved:
    """The solution by steps of the user's."""
    residual = _on_rows(equation.layout, lambda x: equation.residual(x, params))
    better = _on_rows(equation.layout, lambda x: _image(equation, step, x, params))
    limits = equation.tolerance, equation.options.max_steps
    return stepped(equation.xp, residual, better, rows, *limits)


def _residual_at(equation: Equation, params: Any, rows: Any) -> tuple[Any, Function]:
    """The residual at some rows, and the product with the transpose of its derivative."""
    xp, layout = equation.xp, equation.layout
    residual, pull = xp.pullback_of(lambda x: equation.residual(x, params), layout.unpack(rows))
    return layout.pack(residual), lambda w: layout.pack(pull(layout.unpack(w)))


def _newton_direction(equation: Equation, params: Any, kind: str, *, symmetric: bool) -> Function:
    """What gives the residual at some rows, and Newton's way from there: the solution d of F_x d = −F."""
    xp, options = equation.xp, equation.options
    solver, limits = equation.solver_for(kind), (equation.solver_tolerance, options.solver_steps)

    def direction(rows: Any) -> tuple[Any, Any]:
        residual, transposed = _residual_at(equation, params, rows)

        def itself(v: Any) -> Any:
            return pull_again([v])[0]

        pull_again: Any = None
        if not symmetric:
            _, pull_again = xp.pullback_of(lambda w: [transposed(w[0])], [xp.zeros_like(rows)])
        product = transposed if symmetric else itself
        return residual, -solver(xp, product, residual, *limits).solution

    return direction
