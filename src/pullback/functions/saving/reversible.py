"""`reversible`: blocks whose inputs are computed from their outputs, so that a stack keeps the last one alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pullback._define import custom_gradient
from pullback._project import describe
from pullback._tree import flatten
from pullback.errors import ArgumentError, UnsupportedError
from pullback.functions._arguments import arrays_for


def reversible(f: Callable[[Any], Any], g: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A block of two halves: y1 = x1 + f(x2), y2 = x2 + g(y1), which keeps its outputs and not its inputs.

    Use it for deep stacks whose activations do not fit: backwards, x2 = y2 − g(y1) and x1 = y1 − f(x2) are computed
    again. What that loses to rounding grows with the depth: bfloat16 and float16 are refused. f and g must be the same
    function each time: one that draws random numbers (dropout) or writes variables (the statistics of a batch) is an
    error. Variables that they read have their gradients.

    >>> import pullback as pb, tensorflow as tf
    >>> block = pb.functions.reversible(tf.sin, tf.cos)
    >>> x = tf.constant([1.0]), tf.constant([2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y1, y2 = block(*x)
    >>> print([f"{float(g[0]):.4f}" for g in tape.gradient(y1, x)])  # 1, and cos 2
    ['1.0000', '-0.4161']
    """
    for name, half in (("f", f), ("g", g)):
        if not callable(half):
            raise ArgumentError(
                f"pb.functions.reversible got {name}={half!r}; wanted a function of one array."
            )

    def block(x1: Any, x2: Any) -> Any:
        """The two outputs of the block."""
        xp = arrays_for(x1, x2)
        if xp.is_symbolic([x1, x2]):
            return xp.as_node(block, x1, x2)
        x1, x2 = _halves(xp, x1, x2)
        run_f, run_g = _checked(xp, "f", f), _checked(xp, "g", g)
        sources = xp.sources_of(lambda xs: [run_g(xs[0] + run_f(xs[1]))], [x1, x2])
        return _block(xp, run_f, run_g, sources)(x1, x2, sources)

    return block


def _block(xp: Any, f: Any, g: Any, own_sources: Any) -> Callable[..., Any]:
    @custom_gradient
    def reversible_block(x1: Any, x2: Any, sources: list[Any]) -> Any:
        del sources

        def compute() -> list[Any]:
            y1 = x1 + f(x2)
            return [y1, x2 + g(y1)]

        def reversible_pullback(dy1: Any, dy2: Any, *, outputs: Any) -> Any:
            y1, y2 = outputs
            at_g, pull_g = xp.pullback_of(lambda at: [g(at[0])], [y1], own_sources)
            x2 = y2 - at_g[0]
            through, *of_g = pull_g([dy2])
            d1 = dy1 + through
            _, pull_f = xp.pullback_of(lambda at: [f(at[0])], [x2], own_sources)
            through, *of_f = pull_f([d1])
            found = [a + b for a, b in zip(of_g, of_f, strict=True)]
            return {"x1": d1, "x2": dy2 + through, "sources": found}

        return tuple(xp.untracked(compute, [x1, x2, *own_sources])), reversible_pullback

    return reversible_block


def _halves(xp: Any, x1: Any, x2: Any) -> tuple[Any, Any]:
    halves = [xp.asarray(x) for x in (x1, x2)]
    came = ", ".join(map(describe, halves))
    if any(xp.kind_of(x) != "floating" for x in halves) or len(flatten((x1, x2))[0]) != 2:
        raise ArgumentError(
            f"pb.functions.reversible got {came}; wanted two arrays of real numbers."
        )
    if halves[0].dtype != halves[1].dtype or not xp.fits(*halves):
        raise ArgumentError(
            f"pb.functions.reversible got {came}; wanted two halves of one shape and dtype. Split an array in two, or "
            "pad one of them."
        )
    if any(xp.eps_of(x.dtype) > 1e-4 for x in halves):
        raise ArgumentError(
            f"pb.functions.reversible got {came}: the inputs cannot be had back from outputs of so few digits. Cast to "
            "float32 around the block, or use pb.functions.checkpoint, which keeps its inputs."
        )
    return halves[0], halves[1]


def _checked(xp: Any, name: str, half: Any) -> Callable[[Any], Any]:
    def refuse(operation: str) -> Exception:
        return UnsupportedError(
            f"pb.functions.reversible got a function {name} that draws random numbers or writes a variable "
            f"({operation}): computed again, it would not give the inputs back. Use pb.functions.checkpoint, which "
            "replays both, or leave it out (dropout with training=False)."
        )

    def run(x: Any) -> Any:
        y = xp.refusing_state(xp.runnable(half), refuse)(x)
        if not xp.fits(y, x):
            raise ArgumentError(
                f"pb.functions.reversible got a function {name} that returns {describe(y)} for {describe(x)}; wanted "
                "the shape and dtype of the half that it is added to."
            )
        return y

    return run
