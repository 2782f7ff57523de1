"""The functions of TensorFlow that are replaced while an override is open: running, recording,
differentiating, tracing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.graph import exporting
from pullback.engines.tensorflow.attach.recorded import Recorded
from pullback.engines.tensorflow.override.functions import rewritten
from pullback.engines.tensorflow.override.graphs import state_of, used_again
from pullback.engines.tensorflow.override.intercept import batching, record_marked
from pullback.engines.tensorflow.override.scope import current, hook, without_callback
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import Stack, suspended

MOST_TRACES = 16  # per tf.function: traces made under overrides, of which the oldest is dropped


@hook(overriding.execute, "execute")
def _execute(original: Callable[..., Any]) -> Callable[..., Any]:
    """TensorFlow switches callbacks of slow-path ops by assigning this, for all threads at once; we keep ours in."""
    run = overriding.execute.quick_execute

    def execute(
        op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None
    ) -> Any:
        outputs = run(op_name, num_outputs, inputs, attrs, ctx, name)
        for callback in ctx.op_callbacks:
            callback(op_name, tuple(inputs), attrs, outputs, name)
        return outputs

    del original
    return execute


@hook(overriding.execute, "record_gradient")
def _record_gradient(original: Callable[..., None]) -> Callable[..., None]:
    """Tapes inside a trace record each op here: a marked one is recorded with its rule."""

    def record_gradient(op_name: Any, inputs: Any, attrs: Any, outputs: Any) -> None:
        first = outputs[0] if isinstance(outputs, (list, tuple)) and outputs else None
        if isinstance(first, private.EagerTensor):
            if getattr(first, "_pullback_recorded", False):
                return
        elif first is not None and record_marked(getattr(first, "op", None)):
            return
        original(op_name, inputs, attrs, outputs)

    return record_gradient


def _without_overrides(original: Callable[..., Any]) -> Callable[..., Any]:
    """A backward pass is not overridden itself."""

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        with suspended():
            return original(*args, **kwargs)

    return run


@hook(overriding.imperative_grad, "imperative_grad")
def _imperative_grad(original: Callable[..., Any]) -> Callable[..., Any]:
    """The backward pass of a tape runs without our callback, which would only find that it has nothing to do."""

    @functools.wraps(original)
    def run(*args: Any, **kwargs: Any) -> Any:
        with without_callback():
            return original(*args, **kwargs)

    return run


hook(overriding.gradients_util, "_GradientsHelper")(_without_overrides)
hook(overriding.Jvp, "dispatch")(_without_overrides)
hook(Recorded, "forward")(_without_overrides)


def trace_key(stack: Stack) -> tuple[Any, ...]:
    """Equal where a trace can be used again."""
    return (*stack.key, stack.traits, batching.get(), exporting.get())


class Under(NamedTuple):
    """The part of a tf.function's cache key that says which overrides were open."""

    scope_type: Any
    key: tuple[Any, ...]


@hook(overriding.function_context, "make_function_context")
def _make_function_context(original: Callable[..., Any]) -> Callable[..., Any]:
    """Functions are traced anew under an override; the trace made without it is kept."""

    def make_function_context(scope_type: Any = None) -> Any:
        made = original(scope_type)
        stack = current()
        return (
            made
            if stack is None
            else made._replace(scope_type=Under(made.scope_type, trace_key(stack)))
        )

    return make_function_context


@hook(overriding.FunctionCache, "add")
def _add(original: Callable[..., None]) -> Callable[..., None]:
    """Rules made afresh for each call must not fill a long-lived function's cache without bound."""

    def add(cache: Any, function: Any, context: Any = None) -> None:
        original(cache, function, context)
        if current() is not None:
            _drop_oldest(cache)

    return add


def _drop_oldest(cache: Any) -> None:
    ours = [c for c in overriding.contexts_in(cache) if isinstance(c.scope_type, Under)]
    for context in ours[: max(0, len(ours) - MOST_TRACES)]:
        overriding.drop_context(cache, context)


@hook(private.FuncGraph, "__init__")
def _init_graph(original: Callable[..., None]) -> Callable[..., None]:
    """A graph knows which overrides it was traced under."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        original(self, *args, **kwargs)
        stack = current()
        if stack is not None:
            state_of(self).key = trace_key(stack)

    return __init__


@hook(overriding.ConcreteFunction, "_call_flat")
def _call_flat(original: Callable[..., Any]) -> Callable[..., Any]:
    """A trace used again is counted; a graph that was not traced under these overrides is rewritten."""

    def call_flat(self: Any, tensor_inputs: Any, captured_inputs: Any) -> Any:
        stack = current()
        if stack is None:
            return original(self, tensor_inputs, captured_inputs)
        mine = state_of(self.graph)
        if mine.key == trace_key(stack):
            if mine.fresh:
                mine.fresh = False
            else:
                used_again(stack, self.graph)
            return original(self, tensor_inputs, captured_inputs)
        return original(rewritten(stack, self), tensor_inputs, captured_inputs)

    return call_flat
