"""The functions of TensorFlow that are replaced while an override is open: running, recording,
differentiating, tracing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.graph import exporting
from pullback.engines.tensorflow.attach.recorded import Recorded
from pullback.engines.tensorflow.override.graphs import rewritten, state_of, used_again
from pullback.engines.tensorflow.override.intercept import record_marked
from pullback.engines.tensorflow.override.scope import hook, while_open, without_callback
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import Replacement, Stack, suspended

Original = Callable[..., Any]
MOST_TRACES = 16  # per tf.function: traces made under overrides, of which the oldest is dropped


def _execute(original: Callable[..., Any]) -> Callable[..., Any]:
    """TensorFlow switches callbacks of slow-path ops by assigning this, for all threads at once; we keep ours in."""
    del original
    run = overriding.execute.quick_execute

    def execute(
        op_name: Any, num_outputs: int, inputs: Any, attrs: Any, ctx: Any, name: Any = None
    ) -> Any:
        outputs = run(op_name, num_outputs, inputs, attrs, ctx, name)
        for callback in ctx.op_callbacks:
            callback(op_name, tuple(inputs), attrs, outputs, name)
        return outputs

    return execute


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


while_open.add(Replacement(overriding.execute, "execute", _execute))
while_open.add(Replacement(overriding.execute, "record_gradient", _record_gradient))


@hook(overriding.imperative_grad, "imperative_grad")
def _backward_pass(_: Stack, original: Original, *args: Any, **kwargs: Any) -> Any:
    """The backward pass of a tape runs without our callback, which would only find that it has nothing to do."""
    with without_callback():
        return original(*args, **kwargs)


@hook(overriding.gradients_util, "_GradientsHelper")
@hook(overriding.Jvp, "dispatch")
@hook(Recorded, "forward")
def _differentiation(_: Stack, original: Original, *args: Any, **kwargs: Any) -> Any:
    """Differentiation is not overridden itself."""
    with suspended():
        return original(*args, **kwargs)


def trace_key(stack: Stack) -> tuple[Any, ...]:
    """Equal where a trace can be used again."""
    return (*stack.key, stack.traits, exporting.get())


class Under(NamedTuple):
    """The part of a tf.function's cache key that says which overrides were open."""

    scope_type: Any
    key: tuple[Any, ...]


@hook(overriding.function_context, "make_function_context")
def _make_function_context(stack: Stack, original: Original, *args: Any, **kwargs: Any) -> Any:
    """Functions are traced anew under an override; the trace made without it is kept."""
    made = original(*args, **kwargs)
    return made._replace(scope_type=Under(made.scope_type, trace_key(stack)))


@hook(overriding.FunctionCache, "add")
def _add_trace(_: Stack, original: Original, cache: Any, *args: Any, **kwargs: Any) -> None:
    """Rules made afresh for each call must not fill a long-lived function's cache without bound."""
    original(cache, *args, **kwargs)
    ours = [c for c in overriding.contexts_in(cache) if isinstance(c.scope_type, Under)]
    for context in ours[: max(0, len(ours) - MOST_TRACES)]:
        overriding.drop_context(cache, context)


@hook(private.FuncGraph, "__init__")
def _init_graph(stack: Stack, original: Original, graph: Any, *args: Any, **kwargs: Any) -> None:
    """A graph knows which overrides it was traced under."""
    original(graph, *args, **kwargs)
    state_of(graph).key = trace_key(stack)


@hook(overriding.ConcreteFunction, "_call_flat")
def _call_flat(stack: Stack, original: Original, function: Any, *args: Any, **kwargs: Any) -> Any:
    """A trace used again is counted; a graph that was not traced under these overrides is rewritten."""
    mine = state_of(function.graph)
    if mine.key != trace_key(stack):
        return original(rewritten(stack, function), *args, **kwargs)
    if not mine.fresh:
        used_again(stack, function.graph)
    mine.fresh = False
    return original(function, *args, **kwargs)
