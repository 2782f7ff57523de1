"""The backward half of one call in TensorFlow: from upstream tensors to one gradient per source.

It serves tapes, accumulators and graphs alike. The sources of a call are its differentiable inputs, then whatever
the body captured, then the variables that the rule asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import tensorflow as tf

from pullback._engine import Kind
from pullback._project import describe
from pullback._pullback import Gradients, Pullback
from pullback._tree import flatten
from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.forward import refuse_nonlinear, transposed
from pullback.engines.tensorflow.attach.graph_captures import prepare
from pullback.engines.tensorflow.attach.splice import TRANSPOSABLE, splice
from pullback.engines.tensorflow.attach.transposing import is_transposed, runs_user_code
from pullback.engines.tensorflow.values import core, dense, project_tangent, with_core
from pullback.errors import UnsupportedError

FlatGradient = Callable[[Sequence[Any]], list[Any]]


class Recorded:
    """What is kept of one call for its backward pass."""

    inputs: Sequence[Any] | None = None  # leaves, kept only where asked for
    outputs: Sequence[Any] | None = None
    others: Mapping[int, Any] = MappingProxyType(
        {}
    )  # composite leaves of the outputs: how to wrap their upstream
    ordinary: FlatGradient | None = None  # upstream -> ordinary gradient per leaf of the inputs
    captured: FlatGradient | None = None  # upstream -> ordinary gradient per captured source
    variables: Sequence[Any] = ()
    links: Sequence[tuple[Any, Any]] = ()
    cores: Sequence[Any] | None = (
        None  # the inputs themselves, where a second derivative can be asked for
    )
    references: Sequence[Any] = ()  # weak ones to the inputs, otherwise
    values: Sequence[Any] = ()  # the outputs, while the call is being recorded

    def __init__(self, pullback: Pullback, flowing: Sequence[int], returned: Sequence[int]) -> None:
        self.pullback = pullback
        self.flowing = flowing  # which leaves of the inputs are differentiable
        self.returned = returned  # which leaves of the outputs are

    def backward(self, *upstream: Any) -> list[Any]:
        """One gradient per source."""
        unknown = self.pullback.ran.job.definition.jvp is None
        return self._backward(upstream, checked=unknown and is_transposed())

    def _backward(self, upstream: Sequence[Any], *, checked: bool) -> list[Any]:
        self._relink()
        upstream = tuple(dense(dy) for dy in upstream)
        job = self.pullback.ran.job
        inner = [tf.stop_gradient(dy) for dy in upstream] if job.definition.jvp else upstream
        given = self._run_rule(inner)
        gradients = [given.leaves[i] for i in self.flowing]
        if job.definition.jvp or given.second:
            gradients = self._with_derivatives(upstream, gradients, given)
        if checked:
            gradients = self._linear(gradients, upstream)
        rest = self.captured(upstream) if self.captured else []
        everything = [*gradients, *rest, *given.variables]
        return everything if tf.executing_eagerly() else [_of_this_graph(g) for g in everything]

    def forward(self, *tangents: Any) -> list[Any]:
        """The tangents of the outputs for tangents of all sources."""
        # An accumulator ignores what runs while it computes; our tape and outer accumulators must see it.
        with private.push_forwardprop_state():
            return self._forward(tangents)

    def _forward(self, tangents: Sequence[Any]) -> list[Any]:
        job = self.pullback.ran.job
        count = len(self.flowing)
        if job.definition.jvp is None:
            out = transposed(self._unchecked, self._zeros(), tangents)
            return self._linear(out, self._zeros())
        out = self._explicit_tangents(tangents[:count], self.values)
        if self.captured is None:
            return out
        captured = self.captured
        through = transposed(lambda *dy: captured(dy), self._zeros(), tangents[count:])
        return [a + b for a, b in zip(out, through, strict=True)]

    def _unchecked(self, *upstream: Any) -> list[Any]:
        return self._backward(upstream, checked=False)

    def _linear(self, results: Sequence[Any], upstream: Sequence[Any]) -> list[Any]:
        """The results, if the rule is linear in its upstream."""
        ran = self.pullback.ran
        return refuse_nonlinear(results, self._gradients_only, upstream, ran.rule, ran.job.name)

    @runs_user_code
    def _run_rule(self, upstream: Sequence[Any]) -> Gradients:
        return self.pullback(self._place(upstream), self._offers(upstream))

    def _gradients_only(self, upstream: Sequence[Any]) -> list[Any]:
        given = self._run_rule(upstream)
        return [g for g in (*given.leaves, *given.variables) if g is not None]

    def _place(self, upstream: Sequence[Any]) -> list[Any]:
        """Upstream gradients as leaves of the outputs, `None` for those that carry none."""
        ran = self.pullback.ran
        leaves: list[Any] = [None] * ran.count
        for index, dy in zip(self.returned, upstream, strict=True):
            leaves[index] = with_core(self.others[index], dy) if index in self.others else dy
        return leaves

    def _offers(self, upstream: Sequence[Any]) -> dict[str, Any]:
        job, ran = self.pullback.ran.job, self.pullback.ran
        offers: dict[str, Any] = {}
        if self.inputs is not None:
            offers["inputs"] = job.inputs(self.inputs)
        if self.outputs is not None:
            offers["outputs"] = ran.outputs(self.outputs)
        if self.ordinary is not None:
            offers["original"] = self._original
            ordinary = self.ordinary
            offers["ordinary"] = lambda: ordinary(upstream)
        if self.variables or ran.rule.requires("variables"):
            offers["variables"] = list(self.variables)
        if "op" in ran.rule.wants:
            offers["op"] = job.engine.describe_call(job)
        return offers

    def _original(self, *upstream: Any) -> Any:
        """The ordinary gradient, called and returned in the form of a rule."""
        ran = self.pullback.ran
        leaves, _ = flatten(upstream if not ran.single else upstream[0])
        flat = [core(leaves[i]) for i in self.returned]
        return ran.job.form(self.ordinary(flat), self.pullback.kinds)

    def _relink(self) -> None:
        """Tell tapes opened since the call that the rule's detached inputs are the caller's inputs."""
        if self.links and private.could_possibly_record():
            for reference, source in self.links:
                inner = reference()
                if inner is not None:
                    private.record_operation("Identity", [inner], [source], _pass, None)

    def _zeros(self) -> list[Any]:
        return [tf.zeros_like(value) for value in self.values]

    def _with_derivatives(
        self, upstream: Sequence[Any], gradients: list[Any], given: Gradients
    ) -> list[Any]:
        """The gradients with an explicit derivative: towards the upstream by `jvp`, the inputs by `second`."""
        present = [i for i, g in enumerate(gradients) if g is not None]
        values = [tf.convert_to_tensor(gradients[i]) for i in present]
        sources = self._cores() if given.second else values

        def derivative(*doubled: Any) -> list[Any]:
            spread: list[Any] = [None] * len(self.flowing)
            for index, dd in zip(present, doubled, strict=True):
                spread[index] = dd
            rest = (
                self._second(given.second, spread)[: len(sources)]
                if given.second
                else list(doubled)
            )
            return [*self._along_upstream(upstream, spread), *rest]

        fresh = splice(
            f"{self.pullback.ran.job.name}_gradient", values, [*upstream, *sources], derivative
        )
        if not tf.executing_eagerly():
            prepare(tf.compat.v1.get_default_graph(), derivative, values)
        for index, g in zip(present, fresh, strict=True):
            gradients[index] = g
        return gradients

    def _along_upstream(self, upstream: Sequence[Any], doubled: Sequence[Any]) -> list[Any]:
        if self.pullback.ran.job.definition.jvp:
            return self._explicit_tangents(doubled, upstream)

        def gradients(*dy: Any) -> list[Any]:
            given = self._run_rule(dy)
            return [given.leaves[i] for i in self.flowing]

        return transposed(gradients, upstream, doubled)

    @runs_user_code
    def _explicit_tangents(self, tangents: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """What the user's jvp gives, fitted to the outputs or to what has their form."""
        ran, jvp = self.pullback.ran, self.pullback.ran.job.definition.jvp
        flat: list[Any] = [None] * len(self.pullback.kinds)
        for index, tangent in zip(self.flowing, tangents, strict=True):
            flat[index] = tangent
        form = ran.job.form(self._filled(flat), self.pullback.kinds)
        given = form if isinstance(form, tuple) else (form,)
        jvp.check_upstream(len(given), "tangent", "input")
        result = jvp(given, self._offers(()))
        leaves, _ = flatten(result)
        if len(leaves) != ran.count:
            raise ran.job.engine.jvp_error(jvp, ran, describe(result))
        places = zip(self.returned, outputs, strict=True)
        blame = functools.partial(ran.job.engine.jvp_error, jvp, ran)
        return [project_tangent(leaves[i], output, blame) for i, output in places]

    def _filled(self, flat: list[Any]) -> list[Any]:
        likes, kinds = self.pullback.likes, self.pullback.kinds
        return [
            tf.zeros(w.shape if w.dynamic is None else w.dynamic, w.dtype)
            if v is None and k is Kind.DIFFERENTIABLE
            else v
            for v, w, k in zip(flat, likes, kinds, strict=True)
        ]

    @runs_user_code
    def _second(self, second: Any, doubled: Sequence[Any]) -> list[Any]:
        flat: list[Any] = [None] * len(self.pullback.kinds)
        for index, dd in zip(self.flowing, doubled, strict=True):
            flat[index] = dd
        form = self.pullback.ran.job.form(self._filled(flat), self.pullback.kinds)
        returned = second(*(form if isinstance(form, tuple) else (form,)))
        fitted = self.pullback.fit(returned, {})
        return [fitted[i] for i in self.flowing]

    def _cores(self) -> Sequence[Any]:
        if self.cores is not None:
            return self.cores
        if not private.could_possibly_record():
            return ()
        alive = [reference() for reference in self.references]
        if any(tensor is None for tensor in alive):
            raise UnsupportedError(
                f"the explicit second-order rule of `{self.pullback.ran.job.name}` is asked for by a "
                "tape that did not watch its inputs while it ran, and these are gone by now. Let the "
                "outer tape watch them before calling the function, or keep them."
            )
        return alive


def _of_this_graph(gradient: Any) -> Any:
    """A gradient that is a tensor of the forward pass, unchanged, must be captured to be an output here."""
    if isinstance(gradient, tf.IndexedSlices):
        parts = (gradient.values, gradient.indices, gradient.dense_shape)
        return tf.IndexedSlices(*(_of_this_graph(part) for part in parts))
    if gradient is None:
        return None
    outside = (
        isinstance(gradient, private.EagerTensor)
        or gradient.graph is not tf.compat.v1.get_default_graph()
    )
    return tf.identity(gradient) if outside else gradient


def finish(
    recorded: Recorded, leaves: Sequence[Any], values: Sequence[Any], sources: Sequence[Any]
) -> Any:
    """Splice the rule in behind the body and give the outputs in their structure."""
    ran = recorded.pullback.ran
    jvp = ran.job.definition.jvp
    wants = ran.rule.wants | jvp.wants if jvp else ran.rule.wants
    if "inputs" in wants:
        recorded.inputs = leaves
    outputs = ran.take()
    for index, value in zip(recorded.returned, values, strict=True):
        if outputs[index] is not value:
            recorded.others = {**recorded.others, index: outputs[index]}

    def ready(fresh: Sequence[Any]) -> None:
        for index, tensor in zip(recorded.returned, fresh, strict=True):
            outputs[index] = with_core(outputs[index], tensor)

    if "outputs" in wants:
        recorded.outputs = outputs
    recorded.values = values
    name = ran.job.definition.name if jvp else f"{ran.job.definition.name}_{TRANSPOSABLE}"
    splice(name, values, sources, recorded.backward, recorded.forward, ready)
    recorded.values = ()
    return ran.outputs(outputs)


def _pass(upstream: Any) -> list[Any]:
    return [upstream]
