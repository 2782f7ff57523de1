"""The pullback of one call as TensorFlow runs it: from upstream tensors to one gradient per source.

It serves functions and ops, on tapes, accumulators and in graphs. The sources of a call are its differentiable inputs,
then whatever the body captured, then the variables that the rule asked for.
"""

from __future__ import annotations

import contextvars
import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.registry import TRANSPOSABLE
from pullback.engines.tensorflow.attach.splice import capture_ahead, splice
from pullback.engines.tensorflow.attach.transposing import (
    is_transposed,
    runs_user_code,
    seen_by_tapes,
    transposed,
    where_present,
)
from pullback.engines.tensorflow.projecting import spec_of
from pullback.errors import UnsupportedError
from pullback.extend import (
    Call,
    ForwardResult,
    Gradients,
    Kind,
    Pullback,
    Rule,
    describe,
    scatter,
    set_for,
)

FlatGradient = Callable[[Sequence[Any]], Any]  # upstream -> one gradient per source
# The backward pass of a call that runs here, for gradients that are asked for twice in it.
_passing: contextvars.ContextVar[_Passing | None] = contextvars.ContextVar(
    "pullback_passing", default=None
)


class Recorded(Pullback):
    """A pullback, and what is kept of its call for the sake of tapes and graphs."""

    flowing: Sequence[int] = ()  # which leaves of the inputs are sources
    returned: Sequence[int] = (0,)  # which leaves of the outputs carry gradients
    jvp: Rule | None = None
    captured: FlatGradient | None = None  # upstream -> ordinary gradient per captured source
    links: Sequence[tuple[Any, Any]] = ()  # (weak reference to a detached input, the input)
    tensors: Sequence[Any] | None = None  # the inputs, for second derivatives
    references: Sequence[Any] = ()  # weak ones to them, where no tape asks for that yet
    values: Sequence[Any] = ()  # the outputs, while the call is being recorded
    wrappers: Mapping[int, Any] = MappingProxyType({})  # composite leaves of the outputs

    def backward(self, *upstream: Any) -> list[Any]:
        """One gradient per source."""
        if type(upstream[0]) is private.EagerTensor and self._is_simple():
            leaves = self.run(upstream).leaves
            return leaves if len(self.flowing) == len(leaves) else [leaves[i] for i in self.flowing]
        return self._backward(upstream, checked=self.jvp is None and is_transposed())

    def _is_simple(self) -> bool:
        """Whether all that is asked for are the gradients of one output: nothing to link, check or pass on."""
        return (
            self.form.count == 1
            and self.captured is None
            and not self.variables
            and not self.wrappers
            and not private.could_possibly_record()
        )

    def _backward(self, upstream: Sequence[Any], *, checked: bool) -> list[Any]:
        self._relink()
        upstream = [values.dense(dy) for dy in upstream]
        if self.captured is None or self.ordinary is None:
            return self._gradients(upstream, checked=checked)
        with set_for(_passing, _Passing(upstream)):
            return self._gradients(upstream, checked=checked)

    def _gradients(self, upstream: Sequence[Any], *, checked: bool) -> list[Any]:
        given = self.run_rule(upstream)
        gradients = [given.leaves[i] for i in self.flowing]
        if self.jvp or given.second:
            gradients = self._with_derivatives(upstream, gradients, given.second)
        if checked:
            gradients = self._if_linear(gradients, upstream)
        rest = self.captured(upstream) if self.captured else []
        everything = [*gradients, *rest, *given.variables]
        if tf.executing_eagerly():
            return everything
        return tf.nest.map_structure(_of_this_graph, everything, expand_composites=True)

    @seen_by_tapes
    def forward(self, *tangents: Any) -> list[Any]:
        """The tangents of the outputs for tangents of all sources."""
        # Not zeros, where a rule that is linear may be written so that it has no derivative.
        at = [tf.ones_like(value) for value in self.values]
        count = len(self.flowing)
        if self.jvp is None:
            out = transposed(lambda dy: self._backward(dy, checked=False), at, tangents)
            if private.could_possibly_record() and self.run_rule(at).second:
                out = self._with_second(at, tangents)
            return self._if_linear(out, at)
        out = self._explicit_tangents(self.jvp, tangents[:count], self.values)
        if self.captured is None:
            return out
        through = transposed(self.captured, at, tangents[count:])
        return [a + b for a, b in zip(out, through, strict=True)]

    def _with_second(self, at: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """The tangents Rᵀt of a rule u → Ru with an explicit second: it differentiates ⟨Ru, t⟩, which is ⟨u, Rᵀt⟩."""
        count = len(self.flowing)
        others = transposed(
            lambda dy: self._backward(dy, checked=False)[count:], at, tangents[count:]
        )
        along = list(tangents[:count])
        plain = transposed(lambda dy: self._backward(dy, checked=False)[:count], at, along)
        there = [i for i, t in enumerate(along) if t is not None]

        def derivative(*upstream: Any) -> list[Any]:
            given = self.run_rule(upstream)
            towards = [given.leaves[i] for i in self.flowing]
            second = self._explicit_second(given.second, along) if given.second else ()
            return [*(towards[i] for i in there), *second]

        sources = [*(along[i] for i in there), *self._inputs_alive()]
        fresh = splice("tangent", plain, sources, derivative)
        return [a + b for a, b in zip(fresh, others, strict=True)]

    @runs_user_code
    def run_rule(self, upstream: Sequence[Any]) -> Gradients:
        """Run the rule for upstream gradients of the outputs that carry them."""
        leaves = scatter(self.form.count, self.returned, upstream)
        for index, leaf in self.wrappers.items():
            leaves[index] = values.with_gradient_tensor(leaf, leaves[index])
        return self.run(leaves)

    def _if_linear(self, results: Sequence[Any], upstream: Sequence[Any]) -> list[Any]:
        """The results, if all gradients of the rule are linear in the upstream; an error otherwise."""
        present, rule = where_present(upstream, self.run_rule)

        def gradients(some: Sequence[Any]) -> list[Any]:
            given = rule(some)
            return values.tensors_in((*given.leaves, *given.variables))

        return self.require_linear(results, gradients, present)

    def keep_both(
        self, differentiate: Callable[[Sequence[Any]], FlatGradient], *sources: Sequence[Any]
    ) -> None:
        """Offer the ordinary gradient towards the first sources, and pass it on to the second, which were captured.

        With the upstream of the whole call both are computed at once: what runs inside is differentiated once.
        """
        count, both = len(sources[0]), differentiate([*sources[0], *sources[1]])

        def towards(part: slice, alone: FlatGradient) -> FlatGradient:
            def gradient(upstream: Sequence[Any]) -> list[Any]:
                now = _passing.get()
                if now is None or not now.is_of(upstream):
                    return list(alone(upstream))
                if both not in now.found:
                    now.found[both] = list(both(upstream))
                return now.found[both][part]

            return gradient

        self.keep_ordinary(towards(slice(count), differentiate(sources[0])))
        self.captured = towards(slice(count, None), differentiate(sources[1]))

    def keep_ordinary(self, differentiate: FlatGradient) -> None:
        """Offer the ordinary gradient, out of what gives it per source for the outputs that carry gradients."""

        def ordinary(upstream: Sequence[Any]) -> list[Any]:
            given = [values.gradient_tensor(upstream[i]) for i in self.returned]
            found, count = list(differentiate(given)), len(self.flowing)
            leaves = scatter(len(self.kinds), self.flowing, found[:count])
            for i, spec in enumerate(self.specs):
                if spec is not None and spec.form is not None:  # slices would be taken for its own
                    leaves[i] = values.dense(leaves[i])
            return [*leaves, *found[count:]]

        self.ordinary = ordinary

    def _relink(self) -> None:
        """Tell tapes opened since the call that the rule's detached inputs are the caller's inputs."""
        if self.links and private.could_possibly_record():
            for reference, source in self.links:
                inner = reference()
                if inner is not None:
                    private.record_operation("Identity", [inner], [source], _pass, None)

    def _with_derivatives(
        self, upstream: Sequence[Any], gradients: list[Any], second: Callable[..., Any] | None
    ) -> list[Any]:
        """The gradients with an explicit derivative: towards the upstream by `jvp`, the inputs by `second`."""
        jvp, (along, rule) = self.jvp, where_present(upstream, self.run_rule)
        present = [i for i, g in enumerate(gradients) if g is not None]
        plain = [tf.convert_to_tensor(gradients[i]) for i in present]
        sources = self._inputs_alive() if second else plain

        def flowing(some: Sequence[Any]) -> list[Any]:
            found = rule(some).leaves
            return [found[i] for i in self.flowing]

        def spread_second(doubled: Sequence[Any]) -> list[Any]:
            spread = scatter(len(gradients), present, doubled)
            return self._explicit_second(second, spread)[: len(sources)] if second else []

        def derivative(*doubled: Any) -> list[Any]:
            spread = scatter(len(gradients), present, doubled)
            if second is None:
                # The rule's own derivative reaches the upstream by itself: this is what the jvp says beyond it.
                by_jvp, by_rule = towards_upstream(spread), transposed(flowing, along, spread)
                return [*(a - b for a, b in zip(by_jvp, by_rule, strict=True)), *doubled]
            return [*towards_upstream(spread), *spread_second(doubled)]

        def towards_upstream(spread: Sequence[Any]) -> list[Any]:
            if jvp is None:
                return transposed(flowing, along, spread)
            return self._explicit_tangents(jvp, spread, upstream)

        @seen_by_tapes
        def forward(*tangents: Any) -> list[Any]:
            moved, rest = flowing(tangents[: len(along)]), tangents[len(along) :]
            if second:
                rest = transposed(spread_second, [tf.ones_like(g) for g in plain], rest)
            return [moved[i] + t for i, t in zip(present, rest, strict=True)]

        fresh = splice("gradient", plain, [*along, *sources], derivative, forward)
        if not tf.executing_eagerly():
            capture_ahead(tf.compat.v1.get_default_graph(), derivative, plain)
        return scatter(len(gradients), present, fresh)

    @runs_user_code
    def _explicit_tangents(
        self, jvp: Rule, tangents: Sequence[Any], outputs: Sequence[Any]
    ) -> list[Any]:
        """What the user's jvp gives, fitted to the outputs or to what has their form."""
        specs = {i: spec_of(y) for i, y in zip(self.returned, outputs, strict=True)}
        flat = scatter(len(self.kinds), self.flowing, tangents)
        found = self.tangents(jvp, flat, {i: spec for i, spec in specs.items() if spec})
        return [found[i] for i in self.returned]

    @runs_user_code
    def _explicit_second(self, second: Callable[..., Any], doubled: Sequence[Any]) -> list[Any]:
        fitted = self.second(second, scatter(len(self.kinds), self.flowing, doubled))
        return [fitted[i] for i in self.flowing]

    def _inputs_alive(self) -> Sequence[Any]:
        if self.tensors is not None:
            return self.tensors
        if not private.could_possibly_record():
            return ()
        alive = [reference() for reference in self.references]
        if any(tensor is None for tensor in alive):
            raise UnsupportedError(
                f"the explicit second-order rule of {self.call.title} is asked for by a "
                "tape that did not watch its inputs while it ran, and these are gone by now. Let the "
                "outer tape watch them before calling the function, or keep them."
            )
        return alive


class _Passing:
    """One backward pass of a call: its upstream, and the gradients that were computed from that already."""

    def __init__(self, upstream: Sequence[Any]) -> None:
        self.upstream = upstream
        self.found: dict[FlatGradient, list[Any]] = {}

    def is_of(self, upstream: Sequence[Any]) -> bool:
        """Whether this is the upstream of the whole pass."""
        mine = self.upstream
        return len(mine) == len(upstream) and all(map(operator.is_, mine, upstream))


def _of_this_graph(gradient: Any) -> Any:
    """A gradient that is a tensor of the forward pass, unchanged, must be captured to be an output here."""
    if gradient is None:
        return None
    eager = isinstance(gradient, private.EagerTensor)
    outside = eager or gradient.graph is not tf.compat.v1.get_default_graph()
    return tf.identity(gradient) if outside else gradient


def _pass(upstream: Any) -> list[Any]:
    return [upstream]


class Given(NamedTuple):
    """A call with its leaves, which of them flow, and the tensors in which their gradients live."""

    call: Call
    leaves: Sequence[Any]
    kinds: Sequence[Kind]
    flowing: Sequence[int]
    tensors: Sequence[Any]
    dense: bool = False  # known to be concrete tensors, and nothing else but `None`

    def around(self, tensors: Sequence[Any]) -> list[Any]:
        """The leaves around other tensors."""
        return values.with_gradient_tensors(self.leaves, self.flowing, tensors)


def run(
    call: Call, leaves: Sequence[Any], adapt: Callable[[Any], Any] | None = None
) -> ForwardResult:
    """Run the user's function. Overrides that are open replace this, to tell what has an effect inside."""
    return call.run(leaves, adapt)


def record(given: Given, result: ForwardResult) -> Recorded:
    """The record of a call that has run; its outputs are tensors from here on."""
    specs = [spec_of(leaf) for leaf in given.leaves]
    recorded = Recorded(given.call, result.rule, result.form, given.kinds, specs)
    result.leaves = values.outputs(result.leaves)
    recorded.flowing = given.flowing
    recorded.returned = values.differentiable(result.leaves)
    recorded.values = [values.gradient_tensor(result.leaves[i]) for i in recorded.returned]
    recorded.jvp = given.call.definition.jvp
    if given.flowing and not recorded.returned and given.call.definition.owner is not None:
        raise _of_integers(recorded, result)
    return recorded


def _of_integers(recorded: Recorded, result: ForwardResult) -> UnsupportedError:
    """The rule would never run, and the gradient be `None` without a word."""
    came = ", ".join(map(describe, result.leaves)) or "nothing"
    return UnsupportedError(
        f"{recorded.call.title} returned {came}, through which no gradient can flow, so that its rule {recorded.rule} "
        "would never run. Return outputs of a floating dtype, or leave the rule away."
    )


def finish(recorded: Recorded, given: Given, result: ForwardResult, sources: Sequence[Any]) -> Any:
    """Splice the rule in behind the body and give the outputs in their structure."""
    jvp, name = recorded.jvp, given.call.name
    requested = recorded.rule.requested | jvp.requested if jvp else recorded.rule.requested
    outputs, result.leaves = result.leaves, []
    recorded.inputs = given.leaves if "inputs" in requested else None
    recorded.outputs = outputs if "outputs" in requested else None
    recorded.wrappers = {
        index: outputs[index]
        for index, value in zip(recorded.returned, recorded.values, strict=True)
        if outputs[index] is not value
    }

    def ready(fresh: Sequence[Any]) -> None:
        outputs[:] = values.with_gradient_tensors(outputs, recorded.returned, fresh)

    # The name tells, also in a file, that the tangents come from the transposed rule, which must be linear.
    name = name if jvp else f"{name}_{TRANSPOSABLE}"
    splice(name, recorded.values, sources, recorded.backward, recorded.forward, ready)
    recorded.values = ()
    return recorded.form.rebuild(outputs)
