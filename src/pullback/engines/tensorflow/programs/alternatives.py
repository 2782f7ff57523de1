"""Other ways to take an operation: with other options or axes, its operands in another order, another of its family."""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, combinations, permutations
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.programs.alone import otherwise
from pullback.extend import Alternative, Node

_FLAGS = (
    *("transpose_a", "transpose_b", "adj_x", "adj_y", "adjoint"),
    *("reverse", "exclusive", "lower"),
)
_PADDINGS = (("padding", ("SAME", "VALID")), ("mode", ("REFLECT", "SYMMETRIC")))
_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "Any", "All")
_ALONG_ONE = ("Cumsum", "Cumprod", "ReverseV2", "GatherV2", "ArgMax", "ArgMin", "ConcatV2")
# Operations that are taken for one another: of the same operands and the same results.
_ALIKE = (
    ("Sum", "Mean", "Max", "Min", "Prod"),
    ("Real", "Imag"),
    ("Sin", "Cos", "Tan"),
    ("Sinh", "Cosh", "Tanh", "Sigmoid"),
    ("AddV2", "Sub"),
    ("Mul", "RealDiv"),
    ("Maximum", "Minimum"),
    ("Greater", "GreaterEqual", "Less", "LessEqual"),
    ("LogicalAnd", "LogicalOr"),
    ("Floor", "Ceil", "Round", "Rint"),
    ("Sqrt", "Rsqrt", "Square", "Reciprocal"),
    ("Exp", "Expm1", "Log", "Log1p"),
    ("FFT", "IFFT"),
    ("FFT2D", "IFFT2D"),
    ("Cumsum", "Cumprod"),
    ("ArgMax", "ArgMin"),
    ("ZerosLike", "OnesLike"),
    ("TensorScatterAdd", "TensorScatterUpdate", "TensorScatterSub"),
    ("SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd"),
    ("UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"),
)
# Operations with two operands that may have been swapped.
_ORDERED = {
    **dict.fromkeys(["RealDiv", "Pow", "MatMul", "BatchMatMulV2", "Atan2"], (0, 1)),
    **dict.fromkeys(["Select", "SelectV2"], (1, 2)),
}
# Operands of several axes are put into another order of these: of more there are too many.
_MOST_AXES = 4

Run = Callable[[list[Any]], list[Any]]


def alternatives(node: Node, inputs: Sequence[Any]) -> list[Alternative]:
    """In words, and what runs them; `inputs` are those of one run."""
    return [Alternative(how, run) for how, run in _alternatives(node, inputs)]


def _alternatives(node: Node, inputs: Sequence[Any]) -> Iterator[tuple[str, Run]]:
    op, rank = node.op, len(inputs[0].shape) if inputs else 0
    for options in _other_flags(node):
        said = " and ".join(f"{name}={value}" for name, value in options.items())
        yield f"{said} in {{}}", otherwise(node, options=options)
    if op in _ORDERED:
        swapped = functools.partial(_swapped, otherwise(node), *_ORDERED[op])
        yield "its operands in the other order in {}", swapped
    for family in _ALIKE:
        for other in family if op in family else ():
            if other != op:
                yield f"{other} in place of {{}}", otherwise(node, other)
    if op in _REDUCTIONS:
        yield from _other_axes(node, inputs, list(_subsets(rank)), "axis {} in {{}}")
    if op in _ALONG_ONE:
        yield from _other_axes(node, inputs, [[k] for k in range(rank)], "axis {} in {{}}")
    yield from _other_places(node, inputs, rank)


def _other_places(node: Node, inputs: Sequence[Any], rank: int) -> Iterator[tuple[str, Run]]:
    """The same for what puts things into places."""
    op = node.op
    if op == "Transpose" and rank <= _MOST_AXES:
        orders = [list(p) for p in permutations(range(rank))]
        yield from _other_axes(node, inputs, orders, "axes in the order {} in {{}}")
    if op in ("Pack", "ConcatV2"):
        yield from _other_orders(node, len(inputs) - (op == "ConcatV2"))
    if op == "Roll":
        call = otherwise(node)
        yield "the other direction in {}", lambda taken: call([taken[0], -taken[1], taken[2]])
        yield "zeros moved in, where the ends are joined, in {}", lambda taken: [_shifted(*taken)]


def _other_orders(node: Node, count: int) -> Iterator[tuple[str, Run]]:
    """Operands that are put together in another order: reversed, or two of them swapped."""
    usual = list(range(count))
    orders = [
        usual[::-1],
        *(
            [*usual[:a], b, *usual[a + 1 : b], a, *usual[b + 1 :]]
            for a, b in combinations(usual, 2)
        ),
    ]
    for order in orders[: 1 + _MOST_AXES**2] if count > 1 else ():
        said = f"{order} in place of {usual}"
        yield (
            f"its operands in the order {said} in {{}}",
            functools.partial(_ordered, otherwise(node), order),
        )


def _ordered(call: Run, order: list[int], taken: list[Any]) -> list[Any]:
    return call([*(taken[k] for k in order), *taken[len(order) :]])


def _swapped(call: Run, a: int, b: int, taken: list[Any]) -> list[Any]:
    taken[a], taken[b] = taken[b], taken[a]
    return call(taken)


def _other_flags(node: Node) -> Iterator[dict[str, Any]]:
    """Other values of options that are true or false, or of how something is padded; of an equation, other letters."""
    options = node.raw.attributes
    flags = [name for name in options if name in _FLAGS]
    for some in chain.from_iterable(combinations(flags, k) for k in (1, 2)):
        yield {flag: not options[flag] for flag in some}
    for name, ways in _PADDINGS:
        now = tf.compat.as_str(options[name]) if name in options else None
        yield from ({name: way} for way in ways if now in ways and way != now)
    if node.op == "Einsum":
        equation = tf.compat.as_str(options["equation"])
        yield from ({"equation": other} for other in _other_equations(equation))


def _other_equations(equation: str) -> Iterator[str]:
    """Equations with the letters of one term in another order."""
    terms = re.split(r"(,|->)", equation)
    for k, term in enumerate(terms):
        if term.isalpha() and len(term) <= _MOST_AXES:
            for letters in permutations(term):
                if "".join(letters) != term:
                    yield "".join([*terms[:k], "".join(letters), *terms[k + 1 :]])


def _subsets(rank: int) -> Iterator[list[int]]:
    for axes in chain.from_iterable(combinations(range(rank), k) for k in range(1, rank + 1)):
        yield list(axes)


def _other_axes(
    node: Node, inputs: Sequence[Any], ways: list[list[int]], text: str
) -> Iterator[tuple[str, Run]]:
    """Another last operand, which says along which axes."""
    last, rank = inputs[-1], len(inputs[0].shape)
    usual = [int(a) % max(rank, 1) for a in np.ravel(last.numpy())]
    for axes in ways:
        if axes != usual and (last.shape.rank or len(axes) == 1):
            value = np.array(axes if last.shape.rank else axes[0], last.dtype.as_numpy_dtype)
            said, was = (str(a[0]) if len(a) == 1 else str(a) for a in (axes, usual or ["another"]))
            yield (
                text.format(f"{said} in place of {was}"),
                functools.partial(_with_last, otherwise(node), value),
            )


def _with_last(call: Run, value: Any, taken: list[Any]) -> list[Any]:
    return call([*taken[:-1], tf.constant(value)])


def _shifted(x: Any, shift: Any, axis: Any) -> Any:
    """What a roll would be without what comes in at the other end."""
    for by, along in zip(np.ravel(shift), np.ravel(axis), strict=True):
        size = x.shape[int(along)]
        index = np.arange(size) - int(by)
        kept = np.reshape(
            (index >= 0) & (index < size),
            [-1] + [1] * (x.shape.rank - int(along) % x.shape.rank - 1),
        )
        x = tf.roll(x, int(by), int(along)) * tf.cast(kept, x.dtype)
    return x
