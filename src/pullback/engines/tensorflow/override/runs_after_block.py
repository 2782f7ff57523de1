"""What is made in a block and runs after it: concrete functions, functions of tf.data, and tf.py_function.

A block ends, and with it the override. So a concrete function that is asked for in a block is traced without it, and
once more under whatever is open where it is called. TensorFlow runs the functions of a tf.data pipeline by itself,
in a block or not: they are left as they are, and the audit says so. A tf.py_function belongs to the trace that it is
in, and takes the override along.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable
from typing import Any

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.override.graphs import enclosing, note, state_of
from pullback.engines.tensorflow.override.intercept import inert
from pullback.engines.tensorflow.override.scope import PatchedFunction, hook, while_open
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import (
    IDLE,
    Stack,
    gathering,
    hidden,
    package_of,
    reactivate,
    set_for,
    suspended,
)

Original = Callable[..., Any]
ONLY_TRACED = (
    "a concrete function was made here and not called, so nothing ran, and once the block is over it is as without "
    "the block. Call it in the block, or make it of an overridden function: "
    "`tf.function(pb.override({...})(fn)).get_concrete_function(...)`."
)
IN_PIPELINE = (
    "it runs in a function of a tf.data pipeline, which TensorFlow runs by itself, in this block or after it. "
    "Apply the override to that function: `dataset.map(pb.override({...})(fn))`"
)
# Filled when something is differentiated, where somebody wants to know.
_differentiations: contextvars.ContextVar[list[bool] | None] = contextvars.ContextVar(
    "pullback_differentiations", default=None
)


def differentiated() -> None:
    """Something is differentiated here."""
    found = _differentiations.get()
    if found is not None:
        found.append(True)


@hook(overriding.Function, "get_concrete_function")
def _get_concrete_function(
    stack: Stack, original: Original, function: Any, *args: Any, **kwargs: Any
) -> Any:
    """A concrete function that is asked for in a block is the one of outside the block."""
    if inert.get():
        return original(function, *args, **kwargs)
    with suspended():
        concrete = original(function, *args, **kwargs)
    python_function = overriding.python_function_of(function)
    if python_function is not None and package_of(python_function) != "pullback":
        concrete._pullback_source = (original, function)
        _only_traced(stack, ONLY_TRACED)
    return concrete


def traced_here(stack: Stack, function: Any) -> Any:
    """A concrete function that was asked for in a block, traced again under what is open here; `None` for others."""
    source = getattr(function, "_pullback_source", None)
    if source is None or overriding.has_lost_its_object(source[1]):
        return None
    get_concrete_function, source = source
    _only_traced(stack, None)
    fixed = source.input_signature is not None
    args, kwargs = ((), {}) if fixed else function.structured_input_signature
    return get_concrete_function(source, *args, **kwargs)


def _only_traced(stack: Stack, reason: str | None) -> None:
    for activation in stack.activations:
        if activation.unreachable in (None, ONLY_TRACED):
            activation.unreachable = reason


def _on_wrap(stack: Stack, patched: PatchedFunction, args: Any, kwargs: Any) -> Any:
    """As a concrete function; it has no Python source, so its graph is rewritten where it is called."""
    _only_traced(stack, ONLY_TRACED)
    with suspended():
        return patched.run(*args, **kwargs)


while_open.add(PatchedFunction.of(overriding.wrap_function(), _on_wrap))


@hook(overriding.DataFunction, "__init__")
def _data_function(stack: Stack, original: Original, *args: Any, **kwargs: Any) -> None:
    """A function of a tf.data pipeline; what matches in it matters where it differentiates."""
    del stack
    differentiations: list[bool] = []
    with (
        set_for(inert, True),
        set_for(_differentiations, differentiations),
        gathering() as gathered,
    ):
        original(*args, **kwargs)
    reason = IN_PIPELINE if differentiations else IDLE
    for chain, where, mode, recorded in gathered:
        note(chain, where, mode, recorded=recorded, hidden_by=reason)


@hook(overriding.script_ops, "_internal_py_func")
def _py_function(stack: Stack, original: Original, func: Any, *args: Any, **kwargs: Any) -> Any:
    """A tf.py_function in a graph runs later, in another thread: it takes the override along."""
    if callable(func) and not kwargs.get("is_grad_func") and not inert.get():
        func = _Later(func, stack)
    return original(func, *args, **kwargs)


class _Later:
    """A function that runs under the overrides that were open where it was handed to TensorFlow."""

    def __init__(self, function: Any, stack: Stack) -> None:
        functools.update_wrapper(self, function)
        self._function, self._stack, self._hidden = function, stack, hidden.get()
        if private.executing_eagerly():
            return
        for activation in stack.activations:
            activation.later.add(self)
        for graph in enclosing(overriding.ops.get_default_graph()):
            state_of(graph).later.append(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stack = self._stack
        with reactivate(stack), set_for(hidden, self._hidden):
            result = self._function(*args, **kwargs)
        for activation in stack.activations:
            activation.has_run(self)
        return result

    def used_under(self, stack: Stack) -> None:
        """The trace that it is in is used again, in another block of an equal override: that one counts it."""
        if stack.key == self._stack.key:
            self._stack = stack

    def is_to_come(self) -> bool:
        """In eager code whatever was called has run by the end of the block; a graph runs later."""
        return not private.executing_eagerly()
