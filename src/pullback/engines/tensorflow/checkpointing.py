"""Recomputation: a call whose inputs are kept, and which runs again when its gradient is asked for.

- What runs is hidden from all tapes; variables that are read, and tensors that are closed over, are sources.
- Everything that would differ in the second run is replayed: see `replaying`.
- Keras' context of the call, such as whether it is training, is that of the first run; losses that layers add are
  results of the call, so that they have a gradient. Masks of tensors come as arguments and go as results: a function
  gets other handles on the tensors, which have none.
- In a graph, what is computed again would be merged with what was computed before, or be computed early: it is made to
  depend on the upstream gradient, by a number that is 0, which no optimiser knows.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import recomputed_values, values
from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach import closed_over
from pullback.engines.tensorflow.keras_support import losses
from pullback.engines.tensorflow.replaying import FirstRun, Keep, SecondRun
from pullback.engines.tensorflow.tf_private import auditing, keras_models, overriding
from pullback.extend import Kind, flatten, unflatten


def checkpointed(
    fn: Callable[..., Any], args: Any, kwargs: Any, keep: Keep | None
) -> tuple[Callable[..., Any], Callable[..., Any], tuple[list[Any], ...], Callable[[Any], Any]]:
    """How a call runs, its rule, what it takes beside arguments and keywords, and how its outputs are had.

    It takes what the function closes over, and the masks of the arguments. Of its operations nothing is kept for the
    gradient but what `keep` says.
    """
    run = _Run(fn, keep)
    leaves = flatten((args, kwargs))[0]
    run.captured = run.closed_over(leaves)
    return run.forward, run.rule, (run.captured, _masks_of(leaves)), run.outputs


@functools.cache
def operations_like(name: str) -> list[str]:
    """The types of operations with this name, or with the names nearest to it."""
    if auditing.op_definition(name) is not None:
        return [name]
    return difflib.get_close_matches(name, dir(tf.raw_ops), n=1)


class _Run:
    """One call: its first run, and what is known of it in the second."""

    def __init__(self, fn: Callable[..., Any], keep: Keep | None) -> None:
        self.fn, self.keep = fn, keep
        self.captured: list[Any] = []  # as the function reads them, not as it is given them
        self.first: Any = None  # known once the call has run
        self.context = keras_models.call_context()
        self.samples: Any = None  # of what the first run gave, where it ran at once
        self.layers: list[Any] = []  # that have added to the loss

    def closed_over(self, leaves: Sequence[Any]) -> list[Any]:
        """The tensors that the function reads by name, and that a gradient may be asked for."""
        if tf.executing_eagerly():
            return closed_over.watched_tensors(self.fn, leaves)
        found = closed_over.tensors_of(self.fn, leaves)
        given = {id(leaf) for leaf in leaves}
        symbolic = [t for t in found if not isinstance(t, private.EagerTensor)]
        return [t for t in symbolic if values.flows(t) and id(t) not in given]

    def forward(self, args: Any, kwargs: Any, captured: Any, masks: Any) -> Any:
        """The first run, of which no tape learns anything."""
        del captured
        leaves = flatten((args, kwargs))[0]
        _set_masks(leaves, masks)
        expected = [*leaves, *self.captured]
        self.first = FirstRun(self.keep, expected)
        hiding = private.stop_recording() if tf.executing_eagerly() else contextlib.nullcontext()
        with hiding, self.first.seeing(), losses.collected() as added:
            outputs = self._call(args, kwargs)
        self.first.require_all_known()
        self.layers = [layer for layer, _ in added]
        results = outputs, [loss for _, loss in added]
        self.samples = recomputed_values.samples_of(results) if tf.executing_eagerly() else None
        return *results, _masks_of(flatten(outputs)[0])

    def outputs(self, results: Any) -> Any:
        """The outputs of the function, with their masks; losses are added where they would have been."""
        outputs, added, masks = results
        _set_masks(flatten(outputs)[0], masks)
        for layer, loss in zip(self.layers, added, strict=True):
            layer.add_loss(loss)
        return outputs

    def rule(self, *upstream: Any, inputs: Any, variables: Any) -> Any:
        """The second run, and its ordinary gradient."""
        leaves, structure = flatten((inputs[0], inputs[1]))
        captured, masks = self.captured, list(inputs[3])
        given = [dy for dy in flatten(upstream)[0] if dy is not None]
        never = None if tf.executing_eagerly() else _never(given)
        if never is not None:
            leaves = [_and_never(leaf, never) for leaf in leaves]
            masks = [_and_never(mask, never) for mask in masks]
        _set_masks(leaves, masks)
        flowing = values.differentiable(leaves)
        sources = [*(values.gradient_tensor(leaves[i]) for i in flowing), *captured]
        again = SecondRun(self.first)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            with (
                again.seeing(),
                keras_models.in_call_context(self.context),
                losses.collected() as added,
            ):
                outputs = self._call(*unflatten(structure, leaves))
        again.require_end()
        results = outputs, [loss for _, loss in added]
        if self.samples is not None and tf.executing_eagerly():
            now = recomputed_values.samples_of(results)
            recomputed_values.require_same_samples(self.samples, now)
        masked = *results, [None] * len(flatten(outputs)[0])
        found = _gradients(tape, masked, upstream, [*sources, *variables])
        if never is not None:
            found = _apart(found, never)
        flat: list[Any] = [None] * len(leaves)
        for index, gradient in zip(flowing, found, strict=False):
            flat[index] = gradient
        args, kwargs = unflatten(structure, flat)
        count = len(flowing)
        to_captured = found[count : count + len(captured)]
        gradients = {
            "args": args,
            "kwargs": kwargs,
            "captured": to_captured,
            "masks": [None] * len(masks),
        }
        return gradients, found[count + len(captured) :]

    def _call(self, args: Any, kwargs: Any) -> Any:
        fn = self.fn
        if not tf.executing_eagerly() and (inspect.isfunction(fn) or inspect.ismethod(fn)):
            fn = overriding.converted(fn, body=True)
        return fn(*args, **kwargs)


def _masks_of(leaves: Sequence[Any]) -> list[Any]:
    return [keras_models.mask_of(x) if isinstance(x, tf.Tensor) else None for x in leaves]


def _set_masks(leaves: Sequence[Any], masks: Sequence[Any]) -> None:
    for leaf, mask in zip(leaves, masks, strict=True):
        if mask is not None:
            keras_models.set_mask(leaf, mask)


def _gradients(
    tape: Any, outputs: Any, upstream: Sequence[Any], sources: Sequence[Any]
) -> list[Any]:
    """The ordinary gradients, for an upstream per output or per leaf of the outputs."""
    made, given = flatten(outputs)[0], flatten(upstream)[0]
    pairs = [
        (values.gradient_tensor(y), dy)
        for y, dy in zip(made, given, strict=True)
        if dy is not None and values.kind(y) is Kind.DIFFERENTIABLE
    ]
    if not pairs:
        return [None] * len(sources)
    targets, weights = zip(*pairs, strict=True)
    return list(tape.gradient(list(targets), list(sources), list(weights)))


def _never(upstream: Sequence[Any]) -> Any:
    """A condition that is never true, which is not known before the upstream is there, nor to Grappler or XLA."""
    numbers = [dy for dy in upstream if values.flows(dy)]
    if not numbers:
        return None
    entry = tf.math.real(tf.reduce_sum(tf.reshape(values.dense(numbers[0]), [-1])[:1]))
    entry = tf.stop_gradient(entry)
    return tf.math.is_nan(entry) & tf.math.is_finite(entry)


def _and_never(leaf: Any, never: Any) -> Any:
    """A leaf of which nothing can be computed before the upstream is there."""
    if not isinstance(leaf, tf.Tensor):
        return leaf
    if leaf.dtype == tf.bool:
        return leaf | never
    numeric = leaf.dtype.is_floating or leaf.dtype.is_integer or leaf.dtype.is_complex
    return leaf + tf.cast(never, leaf.dtype) if numeric else leaf


def _apart(gradients: Sequence[Any], never: Any) -> list[Any]:
    """Gradients that are summed up before they are added to those of other calls.

    Grappler makes one sum of a sum of sums, and XLA one loop, for which they wait with all of the terms. A product is
    enough to keep Grappler from it; for XLA it takes a branch, of which it does not know that it is never taken.
    """
    found = list(gradients)
    there = [i for i, g in enumerate(found) if isinstance(g, tf.Tensor)]
    own = [found[i] for i in there]
    if own and private.is_compiled_by_xla(tf.compat.v1.get_default_graph()):
        own = tf.cond(never, lambda: [g + g for g in own], lambda: [tf.identity(g) for g in own])
    else:
        own = [g * (1 + tf.cast(never, g.dtype)) for g in own]
    for index, gradient in zip(there, own, strict=True):
        found[index] = gradient
    return found
