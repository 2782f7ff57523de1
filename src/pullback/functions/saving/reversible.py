"""`reversible`: blocks whose inputs are computed from their outputs, so that a stack keeps the last one alone."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

from pullback._define import custom_gradient
from pullback._project import describe
from pullback._tree import flatten
from pullback.errors import ArgumentError, UnsupportedError
from pullback.functions._arguments import arrays_for

Arrays = Sequence[Any]
_ASSIGNED = (
    "pb.functions.reversible reads a variable that was assigned between the forward pass and the gradient: its inputs "
    "cannot be computed back. Take the gradient first, or use pb.functions.checkpoint, which uses the values of the "
    "forward pass."
)


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
        before = _outputs_of.get(x1, x2)
        x1, x2 = _halves(xp, x1, x2)
        own = _Block(xp, _checked(xp, "f", f), _checked(xp, "g", g), before)
        return own.run(x1, x2)

    return block


class _Outputs:
    """The outputs of a block: kept as they are, until the next block can compute them from its own."""

    def __init__(self) -> None:
        self.kept: Arrays | None = None
        self.computed: Callable[[], Arrays] | None = None

    def take(self) -> Arrays:
        """The arrays, for the one time that they are needed."""
        if self.computed is None:
            return self.kept or ()
        found, self.kept = self.kept or self.computed(), None
        return found


class _OutputsByArrays:
    """Finds out that two arrays are the outputs of one block."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], _Outputs]] = {}

    def get(self, *arrays: Any) -> _Outputs | None:
        found = [self._known.get(id(a)) for a in arrays]
        known = [f[1] for f, a in zip(found, arrays, strict=True) if f and f[0]() is a]
        same = len(known) == len(arrays) and all(k is known[0] for k in known)
        return known[0] if same else None

    def add(self, outputs: _Outputs, arrays: Arrays) -> None:
        for array in arrays:
            number = id(array)
            gone = weakref.ref(array, lambda _, number=number: self._known.pop(number, None))
            self._known[number] = gone, outputs


_outputs_of = _OutputsByArrays()


class _Block:
    """One call of a block."""

    def __init__(self, xp: Any, f: Any, g: Any, before: _Outputs | None) -> None:
        self.xp, self.f, self.g, self.before = xp, f, g, before
        self.outputs = _Outputs()
        self.are_unchanged: Callable[[], Any] = bool

    def run(self, x1: Any, x2: Any) -> Any:
        xp = self.xp
        sources = xp.sources_of(lambda xs: self._forward(*xs)[1:], [x1, x2], run=False)
        self.are_unchanged = xp.noted_values(sources)
        at_once = xp.runs_at_once()
        once = at_once and xp.gradient_order([x1, x2, *sources]) == 1
        if at_once and not once:
            self.before = (
                None  # in derivatives of higher order, tapes have to know what the rule reads
            )
        rule = self._rule_of_kept if once else self._rule_of_outputs

        @custom_gradient
        def reversible_block(x1: Any, x2: Any, own_sources: list[Any]) -> Any:
            del own_sources
            found = xp.untracked(lambda xs: self._forward(*xs), [x1, x2], sources)
            return tuple(found), rule(sources)

        ys = reversible_block(x1, x2, sources)
        if once:
            self.outputs.kept = list(ys)
            if self.before is not None:
                self.before.kept, self.before.computed = None, self._inputs
        if once or not at_once:
            _outputs_of.add(self.outputs, ys)
        return ys

    def _forward(self, x1: Any, x2: Any) -> list[Any]:
        y1 = x1 + self.f(x2)
        return [y1, x2 + self.g(y1)]

    def _inputs(self) -> Arrays:
        y1, y2 = self.outputs.take()
        x2 = y2 - self.g(y1)
        return [y1 - self.f(x2), x2]

    def _rule_of_kept(self, sources: Arrays) -> Callable[..., Any]:
        def reversible_pullback(dy1: Any, dy2: Any) -> Any:
            return self._pull(self.outputs.take(), sources, dy1, dy2)

        return reversible_pullback

    def _rule_of_outputs(self, sources: Arrays) -> Callable[..., Any]:
        def reversible_pullback(dy1: Any, dy2: Any, *, outputs: Any) -> Any:
            computed, xp = self.outputs.kept, self.xp
            usable = (
                computed is not None
                and xp.in_scope(computed)
                and xp.gradient_order(computed) == xp.gradient_order(outputs)
            )
            return self._pull(computed if usable else outputs, sources, dy1, dy2)

        return reversible_pullback

    def _pull(self, ys: Any, sources: Arrays, dy1: Any, dy2: Any) -> dict[str, Any]:
        (y1, y2), xp = ys, self.xp
        # Going back with other weights than forward would give other inputs, and wrong gradients.
        unchanged = self.are_unchanged()
        dy1, dy2 = (xp.require(unchanged, dy, _ASSIGNED) for dy in (dy1, dy2))
        (at_g,), pull_g = xp.pullback_of(lambda at: [self.g(at[0])], [y1], sources)
        x2 = y2 - at_g
        through, *of_g = pull_g([dy2])
        d1 = dy1 + through
        (at_f,), pull_f = xp.pullback_of(lambda at: [self.f(at[0])], [x2], sources)
        through, *of_f = pull_f([d1])
        found = [a + b for a, b in zip(of_g, of_f, strict=True)]
        if self.before is not None:
            self.before.kept = xp.after([y1 - at_f, x2], found)
        return {"x1": d1, "x2": dy2 + through, "own_sources": found}


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
