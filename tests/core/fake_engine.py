"""The engine of the fake framework: the worked example of docs/engines.md."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from pullback.extend import Attach, Call, Definition, Engine, Gradients, Kind, Pullback, Spec
from tests.core import fake_framework as fake
from tests.core.fake_framework import Array as Array
from tests.core.fake_framework import Node as Node
from tests.core.fake_framework import Origin as Origin
from tests.core.fake_framework import Parameter as Parameter
from tests.core.fake_framework import gradient as gradient
from tests.core.fake_framework import pull_back as pull_back
from tests.core.fake_framework import sine as sine
from tests.core.fake_framework import sum_axes as sum_axes
from tests.core.fake_framework import total as total
from tests.core.fake_framework import transpose as transpose

FRAMEWORK = fake.__name__


class FakeEngine(Engine):
    """What pullback needs to know of these arrays."""

    name = "fake"
    cannot: Mapping[str, str] = MappingProxyType(
        {
            "override": "nothing stands between a caller and a NumPy function",
            "layers": "there are none in this framework",
        }
    )

    def owns_class(self, kind: type) -> bool:
        return issubclass(kind, Array)

    def owns(self, target: Any) -> bool:
        return getattr(target, "__module__", None) == FRAMEWORK

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
        return None if self.kind(gradient) is Kind.STATIC else fake.as_array(gradient)

    def shape(self, array: Any) -> tuple[int, ...]:
        return array.shape

    def cast(self, array: Any, dtype: Any) -> Array:
        return fake.cast(array, dtype)

    def sum_to(self, array: Any, axes: tuple[int, ...], shape: Any) -> Array:
        return sum_axes(array, axes, shape)

    def zeros(self, spec: Spec) -> Array:
        return Array(np.zeros(spec.shape, spec.dtype))

    def multiply(self, upstream: Any, partial: Any, new_axes: tuple[int, ...]) -> Array:
        kept = np.expand_dims(upstream.data, new_axes).shape
        return fake.spread(upstream, kept, kept) * partial

    def require_linear(self, results: Any, rule: Any, at: Any, errors: Any) -> list[Any]:
        random = np.random.default_rng(0)
        u, v = ([Array(random.normal(size=x.shape).astype(x.dtype)) for x in at] for _ in range(2))
        small, other = rule([x * 2.0**-20 for x in u]), rule(v)
        large = rule([x * 2.0**20 + y * 2.0**20 for x, y in zip(u, v, strict=True)])
        for a, b, both in zip(small, other, large, strict=True):
            if not np.allclose(a.data * 2.0**20 + b.data, both.data * 2.0**-20, 1e-4, 1e-4):
                raise errors[0]
        back = transpose(rule, at, other)
        one = sum((g.data * g.data).sum() for g in other)
        two = sum((x.data * t.data).sum() for x, t in zip(v, back, strict=True) if t is not None)
        if not np.allclose(one, two, 1e-4, 1e-4):
            raise errors[1]
        return list(results)

    def prepare(self, definition: Definition) -> Attach:
        return self._attach  # nothing of a definition is worth preparing here

    def _attach(self, call: Call, leaves: Sequence[Any]) -> Any:
        """Run the function on copies of its inputs, and give its outputs the rule as their vjp."""
        before = next(Node.numbers)
        kinds = [self.kind(leaf) for leaf in leaves]
        copies = [_copy(x) if self.spec_of(x) else x for x in leaves]
        result = call.run(copies)
        outputs = result.leaves
        specs = [self.spec_of(leaf) for leaf in leaves]
        pullback = Pullback(call, result.rule, result.form, kinds, specs)
        returned = {i: y for i, y in enumerate(outputs) if self.spec_of(y)}
        kept = Recorded(pullback, leaves, copies, returned, before)
        node = Node(kept.sources, kept.vjp, [y.data for y in returned.values()], kept.jvp)
        for position, (i, y) in enumerate(returned.items()):
            outputs[i] = Array(y.data, node, position)
        # What neither the rule nor the jvp asks for is not kept.
        requested = result.rule.requested | (kept.explicit.requested if kept.explicit else set())
        pullback.inputs = leaves if "inputs" in requested else None
        pullback.outputs = outputs if "outputs" in requested else None
        return result.form.rebuild(outputs)


def _copy(x: Array) -> Array:
    """A copy that is told apart from the input, though gradients find their way back to it."""
    return fake.record(x.data, x, lambda dy: dy)


class Recorded:
    """What is kept of a call until gradients or tangents are asked for."""

    def __init__(
        self, pullback: Pullback, leaves: Any, copies: Any, returned: dict[int, Array], before: int
    ) -> None:
        self.pullback = pullback
        self.explicit = pullback.call.definition.jvp
        self.flowing = [i for i, spec in enumerate(pullback.specs) if spec is not None]
        self.specs = {i: Spec(y.shape, y.dtype) for i, y in returned.items()}
        ends = [y.origin for y in returned.values()]
        starts = [copies[i].origin for i in self.flowing]
        captured = _captured(ends, starts, before)
        if pullback.call.definition.is_whole:
            captured = {origin for origin in captured if origin[0].owner is not None}
        if "variables" in pullback.rule.requested:
            owners = [origin[0].owner for origin in captured if origin[0].owner is not None]
            pullback.variables = sorted(owners, key=lambda variable: variable.name)
        self.captured = list(captured - {v.origin for v in pullback.variables})
        self.ends = ends if self.captured else []
        variables = [v.origin for v in pullback.variables]
        if "original" in pullback.rule.kept:
            pullback.ordinary = functools.partial(self._ordinary, ends, [*starts, *variables])
        self.sources = [*(leaves[i].origin for i in self.flowing), *self.captured, *variables]

    def _ordinary(self, ends: Any, sources: Any, upstream: Sequence[Any]) -> list[Any]:
        """The framework's own gradient, per leaf of the inputs and then per variable."""
        found, count = (
            pull_back(ends, sources, [upstream[i] for i in self.specs]),
            len(self.flowing),
        )
        return [*self._scatter(found[:count]), *found[count:]]

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

    def _run(self, upstream: Sequence[Any]) -> Gradients:
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


def _captured(ends: Sequence[Origin], starts: Sequence[Origin], before: int) -> set[Origin]:
    """What the function reads without being given it: what is older than the call."""
    read = [origin for node in fake.between(ends, starts) for origin in node.inputs]
    return {origin for origin in (*read, *ends) if origin[0].number < before}


def install(monkeypatch: Any, engine: Engine | None = None) -> Any:
    """Make these arrays the only framework that the core knows."""
    from pullback import _engine

    engine = engine or FakeEngine()
    monkeypatch.setattr(_engine, "TABLE", {FRAMEWORK: "never imported"})
    monkeypatch.setattr(_engine, "_loaded", {FRAMEWORK: engine})
    monkeypatch.setattr(_engine, "_engine_of_class", {})
    return engine
