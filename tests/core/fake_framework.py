"""A framework as small as it can be: NumPy arrays that remember where they came from. Nothing in it knows pullback.

Gradients and tangents are arrays again, so that derivatives of any order follow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Origin = tuple["Node", int]  # a step, and which of its outputs
Linear = Callable[[Sequence[Any]], Sequence[Any]]  # `None` stands for zeros on both sides


class Shaped(NamedTuple):
    """Shape and dtype of an array."""

    shape: tuple[int, ...]
    dtype: np.dtype


class Node:
    """A step of a computation: where its inputs came from, how gradients come back and tangents go on."""

    numbers = itertools.count()

    owner: Any = None

    def __init__(
        self, inputs: Sequence[Origin], vjp: Linear, outputs: Sequence[np.ndarray], jvp: Any = None
    ) -> None:
        self.inputs = (
            inputs  # where arrays came from, not the arrays: a vjp that needs them holds them
        )
        self.vjp = vjp
        self.specs = [Shaped(y.shape, y.dtype) for y in outputs]
        self.jvp: Linear = jvp or (lambda tangents: transpose(vjp, self.specs, tangents))
        self.number = next(Node.numbers)


class Array:
    """A NumPy array that remembers where it came from."""

    def __init__(self, data: Any, node: Node | None = None, position: int = 0) -> None:
        self.data = np.asarray(data)
        self.origin = (node or Node([], lambda _: [], [self.data]), position)

    shape = property(lambda self: self.data.shape)
    dtype = property(lambda self: self.data.dtype)

    def __add__(self, other: Any) -> Array:
        other = as_array(other, self)
        return broadcast(self.data + other.data, (self, other), lambda dy: (dy, dy))

    def __mul__(self, other: Any) -> Array:
        other = as_array(other, self)
        return broadcast(self.data * other.data, (self, other), lambda dy: (dy * other, dy * self))

    __radd__ = __add__
    __rmul__ = __mul__

    def __getitem__(self, key: Any) -> Array:
        return Array(self.data[key])

    def __repr__(self) -> str:
        return f"Array({self.data.tolist()})"


class Parameter(Array):
    """A named array that functions read without being given it."""

    def __init__(self, data: Any, name: str) -> None:
        super().__init__(data)
        self.name = name
        self.origin[0].owner = self


def as_array(value: Any, like: Array | None = None) -> Array:
    weak = like is not None and isinstance(value, (int, float))
    return (
        value
        if isinstance(value, Array)
        else Array(np.asarray(value, like.dtype if weak else None))
    )


def record(data: Any, x: Array, vjp: Callable[[Array], Any]) -> Array:
    return Array(data, Node([x.origin], lambda upstream: [vjp(upstream[0])], [np.asarray(data)]))


def broadcast(data: Any, xs: Sequence[Array], vjp: Callable[[Array], Sequence[Array]]) -> Array:
    """The result of an operation on broadcast operands; each gradient is summed to its operand's shape."""
    shapes = [x.shape for x in xs]

    def summed(upstream: Sequence[Any]) -> Sequence[Any]:
        return [_unbroadcast(dx, shape) for dx, shape in zip(vjp(upstream[0]), shapes, strict=True)]

    return Array(data, Node([x.origin for x in xs], summed, [np.asarray(data)]))


def _unbroadcast(dx: Array, shape: tuple[int, ...]) -> Array:
    extra = len(dx.shape) - len(shape)
    stretched = [extra + i for i, size in enumerate(shape) if dx.shape[extra + i] != size]
    axes = (*range(extra), *stretched)
    return sum_axes(dx, axes, shape) if axes else dx


def sum_axes(x: Array, axes: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    full = x.shape
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(full))
    return record(x.data.sum(axes).reshape(shape), x, lambda dy: spread(dy, kept, full))


def spread(x: Array, kept: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    axes = tuple(i for i, (a, b) in enumerate(zip(kept, shape, strict=True)) if a != b)
    small = x.shape
    data = np.broadcast_to(x.data.reshape(kept), shape)
    return record(data, x, lambda dy: sum_axes(dy, axes, small))


def total(x: Array) -> Array:
    return sum_axes(x, tuple(range(len(x.shape))), ())


def sine(x: Array) -> Array:
    return record(np.sin(x.data), x, lambda dy: dy * cosine(x))


def cosine(x: Array) -> Array:
    return record(np.cos(x.data), x, lambda dy: dy * (-1.0 * sine(x)))


def cast(x: Array, dtype: Any) -> Array:
    before, real = x.dtype, np.dtype(dtype).kind != "c"
    data = (x.data.real if real else x.data).astype(dtype)
    return record(data, x, lambda dy: cast(dy, before))


def gradient(output: Array, sources: Sequence[Array]) -> list[Any]:
    """The gradient of the sum of an output."""
    ones = Array(np.ones(output.shape, output.dtype))
    return pull_back([output.origin], [x.origin for x in sources], [ones])


def pull_back(ys: Sequence[Origin], xs: Sequence[Origin], upstream: Sequence[Any]) -> list[Any]:
    """Upstream gradients of the outputs, brought back to the sources; `None` where nothing flows."""
    found: dict[Origin, Any] = {}
    for y, dy in zip(ys, upstream, strict=True):
        _accumulate(found, y, dy)
    for node in reversed(between(ys, xs)):
        incoming = [found.get((node, i)) for i in range(len(node.specs))]
        if any(dy is not None for dy in incoming):
            for origin, dx in zip(node.inputs, node.vjp(incoming), strict=True):
                _accumulate(found, origin, dx)
    return [found.get(x) for x in xs]


def push_forward(ys: Sequence[Origin], xs: Sequence[Origin], tangents: Sequence[Any]) -> list[Any]:
    """Tangents of the sources, carried on to the outputs; `None` where nothing flows."""
    found: dict[Origin, Any] = dict(zip(xs, tangents, strict=True))
    for node in between(ys, xs):
        incoming = [found.get(origin) for origin in node.inputs]
        if any(t is not None for t in incoming):
            found |= {(node, i): t for i, t in enumerate(node.jvp(incoming))}
    return [found.get(y) for y in ys]


def transpose(linear: Linear, specs: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """A linear function of arrays with these specs, transposed and applied."""
    at = [Array(np.zeros(spec.shape, spec.dtype)) for spec in specs]
    pairs = [(g, t) for g, t in zip(linear(at), tangents, strict=True) if None not in (g, t)]
    return pull_back([g.origin for g, _ in pairs], [x.origin for x in at], [t for _, t in pairs])


def _accumulate(found: dict[Origin, Any], origin: Origin, dy: Any) -> None:
    if dy is not None:
        found[origin] = found[origin] + dy if origin in found else dy


def between(ys: Sequence[Origin], xs: Sequence[Origin]) -> list[Node]:
    """The steps from sources to outputs, in the order in which they ran."""
    known: set[Node] = set()
    todo = list(ys)
    while todo:
        origin = todo.pop()
        if origin not in xs and origin[0] not in known:
            known.add(origin[0])
            todo += origin[0].inputs
    return sorted(known, key=lambda node: node.number)
