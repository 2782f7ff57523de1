"""An engine on NumPy arrays that remember where they came from: the core without any framework.

Arrays carry their own graph, gradients are arrays again, so that derivatives of any order follow. It keeps what a rule
asks for and nothing else, as an engine must.
"""

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback._engine import Kind
from pullback._project import describe, shape_text, unbroadcast_axes
from pullback._pullback import Gradients, Job, Pullback, Ran

FRAMEWORK = "fake_framework"
Vjp = Callable[[Sequence[Any]], Sequence[Any]]


class Node:
    """A step of a computation: which arrays went in and how gradients come back."""

    def __init__(self, inputs: Sequence["Array"], vjp: Vjp, count: int = 1) -> None:
        self.inputs = list(inputs)
        self.vjp = vjp
        self.count = count


class Array:
    """A NumPy array that remembers where it came from."""

    def __init__(self, data: Any, node: Node | None = None, position: int = 0) -> None:
        self.data = np.asarray(data)
        self.node = node
        self.position = position

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    def __add__(self, other: Any) -> "Array":
        other = as_array(other)
        vjp = _fitted(self, other, lambda dy: (dy, dy))
        return Array(self.data + other.data, Node([self, other], vjp))

    def __mul__(self, other: Any) -> "Array":
        other = as_array(other)
        vjp = _fitted(self, other, lambda dy: (dy * other, dy * self))
        return Array(self.data * other.data, Node([self, other], vjp))

    __radd__ = __add__
    __rmul__ = __mul__

    def __getitem__(self, key: Any) -> "Array":
        return Array(self.data[key])

    def __repr__(self) -> str:
        return f"Array({self.data.tolist()})"


class Parameter(Array):
    """A named array that functions read without being given it."""

    def __init__(self, data: Any, name: str) -> None:
        super().__init__(data)
        self.name = name


Array.__module__ = Parameter.__module__ = FRAMEWORK


def as_array(value: Any) -> Array:
    return value if isinstance(value, Array) else Array(value)


def sum_axes(value: Array, axes: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(value.shape))

    def vjp(upstream: Sequence[Any]) -> Sequence[Any]:
        return [spread(upstream[0], kept, value.shape)]

    return Array(value.data.sum(axes).reshape(shape), Node([value], vjp))


def spread(value: Array, kept: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    axes = unbroadcast_axes(shape, kept)

    def vjp(upstream: Sequence[Any]) -> Sequence[Any]:
        return [sum_axes(upstream[0], axes, value.shape)]

    return Array(np.broadcast_to(value.data.reshape(kept), shape), Node([value], vjp))


def total(value: Array) -> Array:
    return sum_axes(value, tuple(range(len(value.shape))), ())


def sine(x: Array) -> Array:
    return Array(np.sin(x.data), Node([x], lambda upstream: [upstream[0] * cosine(x)]))


def cosine(x: Array) -> Array:
    return Array(np.cos(x.data), Node([x], lambda upstream: [upstream[0] * (-1.0 * sine(x))]))


def gradient(output: Array, sources: Sequence[Array]) -> list[Any]:
    """The gradient of the sum of an output."""
    return pull_back([output], sources, [Array(np.ones(output.shape, output.dtype))])


def pull_back(
    outputs: Sequence[Array], sources: Sequence[Array], upstream: Sequence[Any]
) -> list[Any]:
    """Upstream gradients of the outputs, brought back to the sources; `None` where nothing flows."""
    found: dict[Any, Any] = {}
    order: list[Node] = []
    for output, dy in zip(outputs, upstream, strict=True):
        _visit(output.node, order, {id(s) for s in sources})
        _accumulate(found, output, dy)
    for node in reversed(order):
        keys = [(id(node), i) for i in range(node.count)]
        if any(key in found for key in keys):
            for array, dx in zip(node.inputs, node.vjp([found.get(k) for k in keys]), strict=True):
                _accumulate(found, array, dx)
    return [found.get(_key(s)) for s in sources]


def _key(array: Array) -> Any:
    return id(array) if array.node is None else (id(array.node), array.position)


def _accumulate(found: dict[Any, Any], array: Array, dy: Any) -> None:
    if dy is not None:
        key = _key(array)
        found[key] = found[key] + dy if key in found else dy


def _visit(node: Node | None, order: list[Node], stops: set[int]) -> None:
    if node is None or any(node is known for known in order):
        return
    for array in node.inputs:
        if id(array) not in stops:
            _visit(array.node, order, stops)
    order.append(node)


def _fitted(a: Array, b: Array, rule: Callable[[Array], tuple[Any, Any]]) -> Vjp:
    """A gradient rule of two broadcast operands, each part summed to its operand's shape."""

    def vjp(upstream: Sequence[Any]) -> Sequence[Any]:
        parts = zip(rule(upstream[0]), (a, b), strict=True)
        axes = [(d, unbroadcast_axes(d.shape, x.shape), x.shape) for d, x in parts]
        return [sum_axes(d, found, shape) if found else d for d, found, shape in axes]

    return vjp


class FakeEngine:
    """The engine protocol on these arrays."""

    name = "fake"

    def __init__(self) -> None:
        self.attached: list[Job] = []

    def kind(self, leaf: Any) -> Kind:
        if isinstance(leaf, Array):
            return Kind.DIFFERENTIABLE if leaf.dtype.kind in "fc" else Kind.TENSOR
        number = isinstance(leaf, (int, float, np.ndarray)) and not isinstance(leaf, bool)
        return Kind.NUMBER if number else Kind.STATIC

    def attach(self, job: Job, leaves: Sequence[Any]) -> Any:
        self.attached.append(job)
        kinds = [self.kind(leaf) for leaf in leaves]
        inner = [
            Array(leaf.data) if k is Kind.DIFFERENTIABLE else leaf
            for leaf, k in zip(leaves, kinds, strict=True)
        ]
        ran = job.run(inner)
        call = _Call(Pullback(ran, kinds, [self.like(leaf) for leaf in leaves]), leaves, inner)
        return ran.outputs(call.fresh)

    def like(self, leaf: Any) -> Any:
        return (leaf.shape, leaf.dtype) if self.kind(leaf) is Kind.DIFFERENTIABLE else None

    def fits(self, gradient: Any, like: Any) -> bool:
        return isinstance(gradient, Array) and (gradient.shape, gradient.dtype) == like

    def project(self, gradient: Any, like: Any, blame: Callable[[str], Exception]) -> Any:
        shape, dtype = like
        number = isinstance(gradient, (int, float, Array)) and not isinstance(gradient, bool)
        if not number:
            raise blame(f"{describe(gradient)}; wanted a gradient {dtype.name}{shape_text(shape)}")
        array = as_array(gradient)
        axes = unbroadcast_axes(array.shape, shape)
        if axes is None:
            raise blame(f"{describe(array)}; wanted a gradient {dtype.name}{shape_text(shape)}")
        fitted = sum_axes(array, axes, shape) if axes else array
        real = fitted.data.real if dtype.kind == "f" else fitted.data
        return Array(real.astype(dtype), fitted.node, fitted.position)

    def multiply(self, upstream: Any, partial: Any, blame: Callable[[str], Exception]) -> Any:
        partial = as_array(partial)
        extra = len(partial.shape) - len(upstream.shape)
        if extra <= 0:
            return upstream * partial
        if partial.shape[: len(upstream.shape)] != upstream.shape:
            raise blame(f"has shape {shape_text(partial.shape)}")
        return spread(upstream, upstream.shape + (1,) * extra, partial.shape) * partial

    def same_variable(self, key: Any, variable: Any) -> bool:
        return key is variable

    def wrap(self, target: Any, define: Any, make: Any) -> Any | None:
        return None


class _Call:
    """One call with its rule: fresh outputs whose gradient is the rule's."""

    def __init__(self, pullback: Pullback, leaves: Sequence[Any], inner: Sequence[Any]) -> None:
        self.pullback = pullback
        self.leaves = leaves
        self.inner = inner
        ran = pullback.ran
        self.plain = list(ran.leaves)
        self.flowing = [i for i, k in enumerate(pullback.kinds) if k is Kind.DIFFERENTIABLE]
        self.parameters = _parameters(self.plain)
        sources = [leaves[i] for i in self.flowing] + self.parameters
        node = Node(sources, self.vjp, len(self.plain))
        self.fresh = [
            Array(leaf.data, node, i) if isinstance(leaf, Array) else leaf
            for i, leaf in enumerate(self.plain)
        ]

    def vjp(self, upstream: Sequence[Any]) -> list[Any]:
        filled = [
            Array(np.zeros(leaf.shape, leaf.dtype))
            if dy is None and isinstance(leaf, Array)
            else dy
            for dy, leaf in zip(upstream, self.plain, strict=True)
        ]
        given: Gradients = self.pullback(filled, self._offers(filled))
        ordinary = pull_back(self._arrays(self.plain), self.parameters, self._arrays(filled))
        return [given.leaves[i] for i in self.flowing] + (given.variables or ordinary)

    def _offers(self, upstream: Sequence[Any]) -> dict[str, Any]:
        ran: Ran = self.pullback.ran
        job, wants = ran.job, ran.job.wants | ran.rule.wants
        available = {
            "inputs": lambda: job.inputs(self.leaves),
            "outputs": lambda: ran.outputs(self.fresh),
            "original": lambda: self._original,
            "variables": lambda: self.parameters,
            "op": lambda: job.name,
        }
        offers = {name: make() for name, make in available.items() if name in wants}
        return offers | (
            {"ordinary": lambda: self._ordinary(upstream)} if "original" in wants else {}
        )

    def _original(self, *upstream: Any) -> Any:
        return self.pullback.ran.job.form(self._ordinary(upstream), self.pullback.kinds)

    def _ordinary(self, upstream: Sequence[Any]) -> list[Any]:
        sources = [self.inner[i] for i in self.flowing]
        found = iter(pull_back(self._arrays(self.plain), sources, self._arrays(upstream)))
        return [next(found) if i in self.flowing else None for i in range(len(self.leaves))]

    def _arrays(self, values: Sequence[Any]) -> list[Any]:
        return [v for v, leaf in zip(values, self.plain, strict=True) if isinstance(leaf, Array)]


def _parameters(outputs: Sequence[Any]) -> list[Parameter]:
    found: dict[int, Parameter] = {}
    todo = [o for o in outputs if isinstance(o, Array)]
    while todo:
        array = todo.pop()
        if isinstance(array, Parameter):
            found[id(array)] = array
        todo += array.node.inputs if array.node else []
    return sorted(found.values(), key=lambda p: p.name)


def install(monkeypatch: Any) -> FakeEngine:
    """Make these arrays the only framework that the core knows."""
    from pullback import _engine

    engine = FakeEngine()
    monkeypatch.setitem(sys.modules, FRAMEWORK, types.ModuleType(FRAMEWORK))
    monkeypatch.setattr(_engine, "TABLE", {FRAMEWORK: "never imported"})
    monkeypatch.setattr(_engine, "_loaded", {FRAMEWORK: engine})
    monkeypatch.setattr(_engine, "_engine_of_type", {})
    return engine
