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
from pullback.engines.tensorflow.override import patching, scope
from pullback.engines.tensorflow.override.graphs import note
from pullback.engines.tensorflow.override.intercept import batching, mark_imported
from pullback.engines.tensorflow.override.scope import MODEL_WAS_BUILT, current, hook
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import (
    Call,
    ForwardResult,
    ScopedRule,
    gathering,
    hidden,
    location_of,
    postponed,
    set_for,
    suspended,
)


@hook(overriding.custom_gradient, "_eager_mode_decorator")
@hook(overriding.custom_gradient, "_graph_mode_decorator")
def _custom_gradient(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function under tf.custom_gradient has the gradient that it defines, whatever runs inside."""

    def decorated(f: Any, args: Any, kwargs: Any) -> Any:
        stack = current()
        if stack is None:
            return original(f, args, kwargs)
        kind = overriding.recompute_role(f)
        wrap = {"forward": _recomputed, "backward": _as_it_is}.get(kind, _hiding)
        return original(wrap(f, stack), args, kwargs)

    return decorated


def _as_it_is(f: Any, stack: Any) -> Any:
    del stack
    return f


def _hiding(f: Any, stack: Any) -> Any:
    del stack
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


def _recomputed(f: Any, stack: Any) -> Any:
    """The second run under recompute_grad is the one that is differentiated, so it is overridden."""

    @functools.wraps(f)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        with set_for(postponed, True):
            result, grad = f(*args, **kwargs)

        def grad_again(*upstream: Any, variables: Any = None) -> Any:
            more = {} if variables is None else {"variables": variables}
            with scope.reactivate(stack):
                return grad(*upstream, **more)

        return result, grad_again

    return recomputed


@hook(records, "run")
def _run_body(original: Callable[..., Any]) -> Callable[..., Any]:
    """What runs inside a function with a gradient of ours has an effect only through `original` and variables."""

    def run(call: Call, leaves: Any, adapt: Any = None) -> ForwardResult:
        definition = call.definition
        of_override = isinstance(definition.rule, ScopedRule)
        if current() is None or of_override or "original" in definition.kept:
            return original(call, leaves, adapt)
        with gathering() as gathered, private.VariableWatcher() as watcher:
            result = original(call, leaves, adapt)
        reason = None
        if not watcher.watched_variables():
            reason = f"it runs inside {call.title}, whose own gradient is used. Override {call.title} as one unit"
        for chain, where, mode, recorded in gathered:
            note(chain, where, mode, recorded=recorded, hidden_by=reason)
        return result

    return run


@hook(overriding.script_ops, "_internal_py_func")
def _py_function(original: Callable[..., Any]) -> Callable[..., Any]:
    """A tf.py_function in a graph runs later, in another thread: it takes the override along."""

    @functools.wraps(original)
    def internal_py_func(func: Any, *args: Any, **kwargs: Any) -> Any:
        stack = current()
        if stack is None or kwargs.get("is_grad_func") or not callable(func):
            return original(func, *args, **kwargs)

        @functools.wraps(func)
        def under_override(*inner: Any, **named: Any) -> Any:
            with scope.reactivate(stack):
                return func(*inner, **named)

        return original(under_override, *args, **kwargs)

    return internal_py_func


@hook(overriding.control_flow_ops, "_pfor_impl")
def _pfor(original: Callable[..., Any]) -> Callable[..., Any]:
    """The loop body is traced under the override; turning it into batched ops is not."""

    def pfor_impl(loop_fn: Any, *args: Any, **kwargs: Any) -> Any:
        stack = current()
        if stack is None or overriding.takes_pfor_config(loop_fn):
            return original(loop_fn, *args, **kwargs)

        def loop_body(i: Any) -> Any:
            convert = overriding.autograph_api.tf_convert
            with scope.reactivate(stack), set_for(batching, True):
                return convert(loop_fn, overriding.autograph_context.control_status_ctx())(i)

        with suspended():
            return original(loop_body, *args, **kwargs)

    return pfor_impl


@hook(keras.Operation, "symbolic_call")
@hook(keras.Layer, "symbolic_call")
def _symbolic_call(original: Callable[..., Any]) -> Callable[..., Any]:
    """Keras works out the shapes of a model that is being built; nothing of it is ever differentiated."""

    @functools.wraps(original)
    def symbolic_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        stack = current()
        if stack is None:
            return original(self, *args, **kwargs)
        for activation in stack.activations():
            activation.unreachable = MODEL_WAS_BUILT
        with suspended():
            return original(self, *args, **kwargs)

    return symbolic_call


class _Import:
    """`tf.graph_util.import_graph_def`, held while an override is open."""

    @property
    def held(self) -> Any:
        """Nothing is held yet."""
        return None

    @held.setter
    def held(self, dispatch: Any) -> None:
        function = overriding.import_graph_def()
        if dispatch is None:
            patching.release(function)
        else:
            patching.acquire(function, dispatch)


@hook(_Import(), "held")
def _import(original: None) -> Callable[..., Any]:
    del original
    return _on_import


def _on_import(
    held: patching.PatchedFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Ops that come from a graph definition are marked after the fact."""
    stack = current()
    if stack is None:
        return held.run(*args, **kwargs)
    graph = overriding.ops.get_default_graph()
    before = len(graph.get_operations())
    result = held.run(*args, **kwargs)
    for operation in graph.get_operations()[before:]:
        mark_imported(stack, operation)
    return result
