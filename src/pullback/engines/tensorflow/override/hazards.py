"""Places where an override would be lost without a word: each is made to work, or is told apart in
the audit.

Other people's custom gradients hide what runs in them. recompute_grad and py_function run code
later. tf.vectorized_map turns ops into other ops. import_graph_def makes ops that nobody is told
about. Building a Keras model runs nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach import recorded as records
from pullback.engines.tensorflow.override.graphs import note
from pullback.engines.tensorflow.override.intercept import MODEL_WAS_BUILT, mark_imported
from pullback.engines.tensorflow.override.scope import PatchedFunction, hook, while_open
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import (
    Call,
    ForwardResult,
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


@hook(overriding.script_ops, "_internal_py_func")
def _py_function(stack: Stack, original: Original, func: Any, *args: Any, **kwargs: Any) -> Any:
    """A tf.py_function in a graph runs later, in another thread: it takes the override along."""
    takes_it = callable(func) and not kwargs.get("is_grad_func")
    return original(_under(stack, func) if takes_it else func, *args, **kwargs)


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


def _on_import(stack: Stack, patched: PatchedFunction, args: Any, kwargs: Any) -> Any:
    """Ops that come from a graph definition are marked after the fact."""
    graph = overriding.ops.get_default_graph()
    before = len(graph.get_operations())
    result = patched.run(*args, **kwargs)
    for operation in graph.get_operations()[before:]:
        mark_imported(stack, operation)
    return result


while_open.add(PatchedFunction.of(overriding.import_graph_def(), _on_import))
