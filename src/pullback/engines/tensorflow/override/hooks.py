"""The functions of TensorFlow and Keras that are replaced while an override is open.

First how ops run, are recorded, differentiated and traced. Then the places where an override would be lost without a
word, each of which is made to work, or is reported in the audit: other people's custom gradients hide what runs in
them, recompute_grad runs code later, tf.vectorized_map turns ops into other ops, import_graph_def makes ops without a
callback, and building a Keras model runs nothing. What outlives a block is in `runs_after_block`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import keras

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach import recorded as records
from pullback.engines.tensorflow.attach.graph import exporting
from pullback.engines.tensorflow.override.graphs import note, rewritten, state_of, used_again
from pullback.engines.tensorflow.override.intercept import (
    MODEL_WAS_BUILT,
    mark_imported,
    record_marked,
)
from pullback.engines.tensorflow.override.regions import on_call
from pullback.engines.tensorflow.override.runs_after_block import differentiated, traced_here
from pullback.engines.tensorflow.override.scope import (
    PatchedFunction,
    hook,
    while_open,
    without_callback,
)
from pullback.engines.tensorflow.tf_private import explaining_hooks, keras_losses, overriding
from pullback.extend import (
    Call,
    ForwardResult,
    Replacement,
    ScopedRule,
    Stack,
    gathering,
    hidden,
    location_of,
    postponed,
    reactivate,
    set_for,
    suspended,
)

Original = Callable[..., Any]
MOST_TRACES = 16  # per tf.function: traces made under overrides, of which the oldest is dropped


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


while_open.add(Replacement(overriding.execute, "execute", explaining_hooks.calling_callbacks))
while_open.add(Replacement(overriding.execute, "record_gradient", _record_gradient))


@hook(overriding.imperative_grad, "imperative_grad")
def _backward_pass(_: Stack, original: Original, *args: Any, **kwargs: Any) -> Any:
    """The backward pass of a tape runs without our callback, which would only find that it has nothing to do."""
    differentiated()
    with without_callback():
        return original(*args, **kwargs)


@hook(overriding.gradients_util, "_GradientsHelper")
@hook(overriding.Jvp, "dispatch")
@hook(records.Recorded, "forward")
def _differentiation(_: Stack, original: Original, *args: Any, **kwargs: Any) -> Any:
    """Differentiation is not overridden itself."""
    differentiated()
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
    """Functions are traced again under an override; the trace made without it is kept."""
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
    mine = state_of(graph)
    mine.key, mine.fresh = trace_key(stack), stack.activation


@hook(overriding.ConcreteFunction, "_call_flat")
def _call_flat(
    stack: Stack, original: Original, function: Any, inputs: Any, captured_inputs: Any
) -> Any:
    """A trace used again is counted; a graph that was not traced under these overrides is rewritten."""
    mine = state_of(function.graph)
    if mine.key != trace_key(stack):
        traced = traced_here(stack, function)
        if traced is not None:
            return _call_flat(stack, original, traced, inputs, traced.captured_inputs)
        return original(rewritten(stack, function), inputs, captured_inputs)
    if mine.fresh is not stack.activation:
        used_again(stack, function.graph)
    mine.fresh = None
    return original(function, inputs, captured_inputs)


@hook(overriding.custom_gradient, "_eager_mode_decorator")
@hook(overriding.custom_gradient, "_graph_mode_decorator")
def _custom_gradient(stack: Stack, original: Original, f: Any, *args: Any, **kwargs: Any) -> Any:
    """A function under tf.custom_gradient has the gradient that it defines, whatever runs inside."""
    role = overriding.recompute_role(f)
    if role == "forward":
        f = _recomputed(f, stack)
    elif role is None:
        f = _hiding(f)
    return original(f, *args, **kwargs)


def _hiding(f: Any) -> Any:
    name = getattr(f, "__name__", "a function")
    reason = (
        f"it runs inside {name} ({location_of(f)}), which has a custom gradient of its own, and that one is used. "
        f"Override the function around it as one unit: target {name} itself or what calls it"
    )

    @functools.wraps(f)
    def hiding(*args: Any, **kwargs: Any) -> Any:
        with set_for(hidden, reason):
            return f(*args, **kwargs)

    return hiding


def _recomputed(f: Any, stack: Stack) -> Any:
    """The second run under recompute_grad is the one that is differentiated, so it is overridden."""

    @functools.wraps(f)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        with set_for(postponed, True):
            result, grad = f(*args, **kwargs)
        return result, _under(stack, grad)

    return recomputed


def _under(stack: Stack, function: Any) -> Any:
    """A function that takes the overrides along to where it runs."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        with reactivate(stack):
            return function(*args, **kwargs)

    return run


@hook(records, "run")
def _run_body(
    stack: Stack, original: Original, call: Call, leaves: Any, adapt: Any = None
) -> ForwardResult:
    """What runs inside a function with a gradient of ours has an effect only through `original` and variables."""
    del stack
    definition = call.definition
    if isinstance(definition.rule, ScopedRule) or "original" in definition.kept:
        return original(call, leaves, adapt)
    with gathering() as gathered, private.VariableWatcher() as watcher:
        result = original(call, leaves, adapt)
    reason = None
    if not watcher.watched_variables():
        reason = f"it runs inside {call.title}, whose own gradient is used. Override {call.title} as one unit"
    for chain, where, mode, recorded in gathered:
        note(chain, where, mode, recorded=recorded, hidden_by=reason)
    return result


@hook(overriding.control_flow_ops, "_pfor_impl")
def _pfor(stack: Stack, original: Original, loop_fn: Any, *args: Any, **kwargs: Any) -> Any:
    """The loop body is traced under the override; turning it into batched ops is not."""
    if overriding.takes_pfor_config(loop_fn):
        return original(loop_fn, *args, **kwargs)

    def loop_body(i: Any) -> Any:
        with reactivate(stack):
            return overriding.converted(loop_fn)(i)

    with suspended():
        return original(loop_body, *args, **kwargs)


@hook(keras.Operation, "symbolic_call")
@hook(keras.Layer, "symbolic_call")
def _symbolic_call(stack: Stack, original: Original, *args: Any, **kwargs: Any) -> Any:
    """Keras works out the shapes of a model that is being built; nothing of it is ever differentiated."""
    for activation in stack.activations:
        activation.unreachable = MODEL_WAS_BUILT
    with suspended():
        return original(*args, **kwargs)


@hook(overriding.ops.Graph, "gradient_override_map")
@contextlib.contextmanager
def _gradient_override_map(
    stack: Stack, original: Original, graph: Any, op_types: Any
) -> Generator[None]:
    """The innermost wins: a graph remembers inside how many overrides such a map was opened."""
    mine = state_of(graph)
    with original(graph, op_types):
        before = mine.mapped
        mine.mapped = before | dict.fromkeys(op_types, len(stack.activations))
        try:
            yield
        finally:
            mine.mapped = before


def _on_import(stack: Stack, patched: PatchedFunction, args: Any, kwargs: Any) -> Any:
    """Ops that come from a graph definition are marked after the fact."""
    graph = overriding.ops.get_default_graph()
    before = len(graph.get_operations())
    result = patched.run(*args, **kwargs)
    for operation in graph.get_operations()[before:]:
        mark_imported(stack, operation)
    return result


while_open.add(PatchedFunction.of(overriding.import_graph_def(), _on_import))
for setting_logits in keras_losses.SETTING_LOGITS:
    while_open.add(PatchedFunction.of(setting_logits, on_call))
