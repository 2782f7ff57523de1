"""A framework of NumPy arrays that remember where they came from, and the engine for it: the worked example.

The first half is the framework, as small as it can be: nothing in it knows pullback. Gradients are arrays again, so
that derivatives of any order follow. The second half is the engine; docs/engines.md explains it.
"""

from __future__ import annotations

import itertools
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.extend import Attach, Call, Definition, Engine, Kind, Pullback, Spec

FRAMEWORK = "fake_framework"
Origin = tuple["Node", int]  # a step, and which of its outputs
Linear = Callable[[Sequence[Any]], Sequence[Any]]  # `None` stands for zeros on both sides


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
        self.specs = [Spec(y.shape, y.dtype) for y in outputs]
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


Array.__module__ = Parameter.__module__ = FRAMEWORK


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
    for node in reversed(_between(ys, xs)):
        incoming = [found.get((node, i)) for i in range(len(node.specs))]
        if any(dy is not None for dy in incoming):
            for origin, dx in zip(node.inputs, node.vjp(incoming), strict=True):
                _accumulate(found, origin, dx)
    return [found.get(x) for x in xs]


def push_forward(ys: Sequence[Origin], xs: Sequence[Origin], tangents: Sequence[Any]) -> list[Any]:
    """Tangents of the sources, carried on to the outputs; `None` where nothing flows."""
    found: dict[Origin, Any] = dict(zip(xs, tangents, strict=True))
    for node in _between(ys, xs):
        incoming = [found.get(origin) for origin in node.inputs]
        if any(t is not None for t in incoming):
            found |= {(node, i): t for i, t in enumerate(node.jvp(incoming))}
    return [found.get(y) for y in ys]


def transpose(linear: Linear, specs: Sequence[Spec], tangents: Sequence[Any]) -> list[Any]:
    """A linear function of arrays with these specs, transposed and applied."""
    at = [Array(np.zeros(spec.shape, spec.dtype)) for spec in specs]
    pairs = [(g, t) for g, t in zip(linear(at), tangents, strict=True) if None not in (g, t)]
    return pull_back([g.origin for g, _ in pairs], [x.origin for x in at], [t for _, t in pairs])


def _accumulate(found: dict[Origin, Any], origin: Origin, dy: Any) -> None:
    if dy is not None:
        found[origin] = found[origin] + dy if origin in found else dy


def _between(ys: Sequence[Origin], xs: Sequence[Origin]) -> list[Node]:
    """The steps from sources to outputs, in the order in which they ran."""
    known: set[Node] = set()
    todo = list(ys)
    while todo:
        origin = todo.pop()
        if origin not in xs and origin[0] not in known:
            known.add(origin[0])
            todo += origin[0].inputs
    return sorted(known, key=lambda node: node.number)


# The engine


class FakeEngine(Engine):
    """What pullback needs to know of these arrays."""

    name = "fake"
    cannot = {
        "override": "nothing stands between a caller and a NumPy function",
        "layers": "there are none in this framework",
    }

    def owns_class(self, kind: type) -> bool:
        return issubclass(kind, Array)

    def owns(self, target: Any) -> bool:
        return getattr(target, "__module__", None) == __name__

    def kind(self, leaf: Any) -> Kind:
        if isinstance(leaf, Array):
            return Kind.DIFFERENTIABLE if leaf.dtype.kind in "fc" else Kind.TENSOR
        number = isinstance(leaf, (int, float, np.ndarray)) and not isinstance(leaf, bool)
        return Kind.NUMBER if number else Kind.STATIC

    def spec_of(self, leaf: Any) -> Spec | None:
        return Spec(leaf.shape, leaf.dtype) if self.kind(leaf) is Kind.DIFFERENTIABLE else None

    def fits(self, gradient: Any, spec: Spec) -> bool:
        return isinstance(gradient, Array) and (gradient.shape, gradient.dtype) == spec[:2]

    def as_array(self, gradient: Any, spec: Spec) -> Array | None:
        return None if self.kind(gradient) is Kind.STATIC else as_array(gradient)

    def shape(self, array: Any) -> tuple[int, ...]:
        return array.shape

    def cast(self, array: Any, dtype: Any) -> Array:
        return cast(array, dtype)

    def sum_to(self, array: Any, axes: tuple[int, ...], shape: Any) -> Array:
        return sum_axes(array, axes, shape)

    def zeros(self, spec: Spec) -> Array:
        return Array(np.zeros(spec.shape, spec.dtype))

    def multiply(self, upstream: Any, partial: Any, new_axes: int) -> Array:
        kept = upstream.shape + (1,) * new_axes
        return spread(upstream, kept, kept) * partial

    def linearity_probes(self, at: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        random = np.random.default_rng(0)
        a, b = ([Array(random.normal(size=x.shape).astype(x.dtype)) for x in at] for _ in range(2))
        return a, b, [x + y for x, y in zip(a, b, strict=True)]

    def require_additive(self, parts: Any, results: Any, at: Any, error: Exception) -> list[Any]:
        for a, b, both in zip(*parts, strict=True):
            if not np.allclose(a.data + b.data, both.data, 1e-4, 1e-4):
                raise error
        return list(results)

    def prepare(self, definition: Definition) -> Attach:
        return attach


def attach(call: Call, leaves: Sequence[Any]) -> Any:
    """Run the function on copies of its inputs, and give its outputs the rule as their vjp."""
    engine = call.engine
    kinds = [engine.kind(leaf) for leaf in leaves]
    before = next(Node.numbers)
    copies = [
        record(x.data, x, lambda dy: dy) if kind is Kind.DIFFERENTIABLE else x
        for x, kind in zip(leaves, kinds, strict=True)
    ]
    result = call.run(copies)
    outputs = result.leaves
    pullback = Pullback(call, result.rule, result.form, kinds, list(map(engine.spec_of, leaves)))
    returned = {i: y for i, y in enumerate(outputs) if engine.kind(y) is Kind.DIFFERENTIABLE}
    recorded = Recorded(pullback, leaves, copies, returned, before)
    node = Node(recorded.sources, recorded.vjp, [y.data for y in returned.values()], recorded.jvp)
    for position, (i, y) in enumerate(returned.items()):
        outputs[i] = Array(y.data, node, position)
    # What the rule does not ask for is not kept.
    asked = result.rule.requested | (recorded.explicit.requested if recorded.explicit else set())
    pullback.inputs = leaves if "inputs" in asked else None
    pullback.outputs = outputs if "outputs" in asked else None
    return result.form.rebuild(outputs)


class Recorded:
    """What is kept of a call until gradients or tangents are asked for."""

    def __init__(
        self, pullback: Pullback, leaves: Any, copies: Any, returned: dict[int, Array], before: int
    ) -> None:
        self.pullback = pullback
        self.explicit = pullback.call.definition.jvp
        self.flowing = [i for i, spec in enumerate(pullback.specs) if spec is not None]
        self.specs = {i: Spec(y.shape, y.dtype) for i, y in returned.items()}
        ends, starts = (
            [y.origin for y in returned.values()],
            [copies[i].origin for i in self.flowing],
        )
        # Where the function reads more than its arguments, that is older than the call.
        steps = _between(ends, starts)
        captured = {o for n in steps for o in n.inputs if o[0].number < before and o not in starts}
        captured |= {end for end in ends if end[0].number < before}
        if "variables" in pullback.rule.requested:
            owned = [o[0].owner for o in captured if o[0].owner is not None]
            pullback.variables = sorted(owned, key=lambda variable: variable.name)
        self.captured = list(captured - {v.origin for v in pullback.variables})
        self.ends = ends if self.captured else []
        if "original" in pullback.rule.kept:
            pullback.ordinary = lambda dys: self._scatter(
                pull_back(ends, starts, [dys[i] for i in self.specs])
            )
        variables = [v.origin for v in pullback.variables]
        self.sources = [*(leaves[i].origin for i in self.flowing), *self.captured, *variables]

    def vjp(self, upstream: Sequence[Any]) -> list[Any]:
        """One gradient per source: inputs by the rule, what was captured by ordinary means, variables by the rule."""
        zeros = self.pullback.call.engine.zeros
        specs = self.specs.values()
        dys = [zeros(s) if dy is None else dy for dy, s in zip(upstream, specs, strict=True)]
        detached = [Array(dy.data) for dy in dys] if self.explicit else dys
        leaves, variables, second = self._run(detached)
        gradients = [leaves[i] for i in self.flowing]
        if self.explicit or second:
            gradients = self._with_derivatives(dys, gradients, second)
        return [*gradients, *self._captured(dys), *variables]

    def jvp(self, tangents: Sequence[Any]) -> list[Any]:
        """The tangents of the outputs: by the explicit jvp, or by the rule, transposed, if it is linear."""
        specs, count = list(self.specs.values()), len(self.flowing)
        if self.explicit is None:
            at = [self.pullback.call.engine.zeros(spec) for spec in specs]
            found = transpose(self.vjp, specs, tangents)
            return self.pullback.require_linear(found, self._all_gradients, at)
        captured = transpose(self._captured, specs, tangents[count:])
        pairs = zip(self._explicit_tangents(tangents[:count]), captured, strict=True)
        return [t if c is None else t + c for t, c in pairs]

    def _run(self, upstream: Sequence[Any]) -> Any:
        by_leaf = dict(zip(self.specs, upstream, strict=True))
        return self.pullback.run([by_leaf.get(i) for i in range(self.pullback.form.count)])

    def _all_gradients(self, upstream: Sequence[Any]) -> list[Any]:
        leaves, variables, _ = self._run(upstream)
        return [g for g in (*leaves, *variables) if g is not None]

    def _captured(self, upstream: Sequence[Any]) -> list[Any]:
        return pull_back(self.ends, self.captured, upstream) if self.captured else []

    def _scatter(self, values: Sequence[Any]) -> list[Any]:
        """One entry per leaf of the inputs."""
        by_leaf = dict(zip(self.flowing, values, strict=True))
        return [by_leaf.get(i) for i in range(len(self.pullback.kinds))]

    def _explicit_tangents(self, tangents: Sequence[Any]) -> list[Any]:
        found = self.pullback.tangents(self.explicit, self._scatter(tangents), self.specs)
        return list(found.values())

    def _with_derivatives(self, dys: Any, gradients: list[Any], second: Any) -> list[Any]:
        """The gradients with explicit derivatives: along the upstream by `jvp`, along the inputs by `second`."""
        present = {i: g for i, g in enumerate(gradients) if g is not None}
        inputs = self.sources[: len(gradients)] if second else [g.origin for g in present.values()]

        def rule(upstream: Sequence[Any]) -> list[Any]:
            leaves = self._run(upstream)[0]
            return [leaves[i] for i in self.flowing]

        def derivative(doubled: Sequence[Any]) -> list[Any]:
            by_input = dict(zip(present, doubled, strict=True))
            full = [by_input.get(i) for i in range(len(gradients))]
            specs = list(self.specs.values())
            along = self._explicit_tangents(full) if self.explicit else transpose(rule, specs, full)
            if second is None:
                return [*along, *doubled]
            fitted = self.pullback.second(second, self._scatter(full))
            return [*along, *(fitted[i] for i in self.flowing)]

        origins = [*(dy.origin for dy in dys), *inputs]
        node = Node(origins, derivative, [g.data for g in present.values()])
        fresh = {i: Array(g.data, node, n) for n, (i, g) in enumerate(present.items())}
        return [fresh.get(i) for i in range(len(gradients))]


def install(monkeypatch: Any, engine: Engine | None = None) -> Any:
    """Make these arrays the only framework that the core knows."""
    from pullback import _engine

    engine = engine or FakeEngine()
    monkeypatch.setitem(sys.modules, FRAMEWORK, types.ModuleType(FRAMEWORK))
    monkeypatch.setattr(_engine, "TABLE", {FRAMEWORK: "never imported"})
    monkeypatch.setattr(_engine, "_loaded", {FRAMEWORK: engine})
    monkeypatch.setattr(_engine, "_engine_of_class", {})
    return engine
