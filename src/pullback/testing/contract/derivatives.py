"""Cases: gradients of gradients, and tangents, where the rule says more than its own numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import pullback as pb
from pullback.testing.contract.adapter import Adapter, Function
from pullback.testing.contract.case import case
from pullback.testing.contract.results import ONE, X, Y, product, triple


# For a gradient g(x) that acts entry by entry, the sum of squares has the gradient 2 g(x) g'(x).
@case("second order of a rule that asks for inputs", [X], [5 * X**2], second=[100 * X**3])
def _of_inputs(a: Adapter) -> Function:
    return pb.with_gradient(a.sin, lambda dy, *, inputs: 5.0 * dy * inputs[0] * inputs[0])


@case("second order of a rule that holds a residual", [X], [2 * X**3], second=[24 * X**5])
def _of_residual(a: Adapter) -> Function:
    @pb.custom_gradient
    def function(x: Any) -> Any:
        cubed = x * x * x

        def function_pullback(dy: Any) -> Any:
            return 2.0 * dy * cubed

        return a.sin(x), function_pullback

    return function


# The rule says that the derivative of the output is the output: so it is, then, of the gradient as well.
@case(
    "second order of a rule that asks for outputs",
    [X],
    [np.sin(X)],
    second=[2 * np.sin(X) ** 2],
)
def _of_outputs(a: Adapter) -> Function:
    return pb.with_gradient(a.sin, lambda dy, *, outputs: dy * outputs)


@case("second order of original", [X], [0.5 * np.cos(X)], second=[-0.5 * np.cos(X) * np.sin(X)])
def _of_original(a: Adapter) -> Function:
    return pb.with_gradient(a.sin, lambda dy, *, original: 0.5 * original(dy))


@case("second order of partials", [X], [3 * X**2], second=[36 * X**3])
def _of_partials(a: Adapter) -> Function:
    def wave(x: Any) -> Any:
        return a.sin(x)

    return pb.with_partials(wave, x=lambda x: 3.0 * x * x)


@case("second order of a constant gradient", [X], [3 * ONE], second=[None])
def _of_constant(a: Adapter) -> Function:
    return pb.with_gradient(a.sin, triple)


# g = (2x, 3y). The explicit second derivative swaps: (ddx, ddy) -> (5 ddy, 7 ddx), here of (2·2x, 2·3y).
@case("an explicit second derivative", [X, Y], [2 * X, 3 * Y], second=[30 * Y, 28 * X])
def _explicit_second(_: Adapter) -> Function:
    @pb.custom_gradient
    def function(x: Any, y: Any) -> Any:
        def function_pullback(dz: Any) -> Any:
            def second(ddx: Any, ddy: Any) -> Any:
                return 5.0 * ddy, 7.0 * ddx

            return (2.0 * dz * x, 3.0 * dz * y), second

        return x * y, function_pullback

    return function


# y = f(x)², f' given as 3x, g = 6 x sin(x); with the explicit second derivative 11 of f, the part of g' that comes by
# the upstream 2 f(x) is 6x · 3x, and the one by `second` is 11 · (upstream of g): in all 2g · (18x² + 11).
@case(
    "an explicit second derivative behind operations",
    [X],
    [6 * X * np.sin(X)],
    second=[12 * X * np.sin(X) * (18 * X**2 + 11)],
)
def _explicit_behind(a: Adapter) -> Function:
    @pb.custom_gradient
    def function(x: Any) -> Any:
        return a.sin(x), lambda dy: (3.0 * dy * x, lambda ddx: 11.0 * ddx)

    def squared(x: Any) -> Any:
        y = function(x)
        return y * y

    return squared


@case("an explicit jvp", [X, Y], [3 * ONE, 4 * ONE], forward=[Y, 11 * ONE])
def _explicit_jvp(_: Adapter) -> Function:
    def product_jvp(dx: Any, dy: Any, *, inputs: Any, outputs: Any) -> Any:
        assert outputs.shape == inputs["x"].shape
        return dx * inputs["y"] + 11.0 * dy

    return pb.with_gradient(product, lambda dz: (3.0 * dz, 4.0 * dz), jvp=product_jvp)


@case("an explicit jvp of a rule that is not linear", [X], [ONE], forward=[7 * ONE])
def _jvp_not_linear(a: Adapter) -> Function:
    return pb.with_gradient(a.sin, lambda dy: dy * dy, jvp=lambda dx: 7.0 * dx)
