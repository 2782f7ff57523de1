"""The scale of the loss in mixed precision, for rules that must see gradients without it.

An optimizer multiplies the loss by `scale_loss`. The result passes through an identity, whose gradient is the first of
the backward pass and tells all that follow. A function that is called in the pass has a backward pass of its own, which
may have been traced before, for any use: it captures a tensor that stands for the scale, in whose place each call gives
it the scale that is in force. Until a loss is scaled, nothing but `scale_loss` is replaced.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.splice import splice
from pullback.engines.tensorflow.tf_private import loss_scaling, transposing
from pullback.errors import UnsupportedError
from pullback.extend import PatchedFunction, Spec, set_for

_HALF = (tf.float16, tf.bfloat16)


class _Scaling(NamedTuple):
    """The scale of the loss whose backward pass runs here."""

    read: Callable[[], Any]  # computes it anew, in whichever graph
    optimizer: Any  # whose it is; `None` where losses scaled by several meet
    graph: Any  # of the backward pass; `None` for eager code
    value: Any  # in that graph


_now: ContextVar[_Scaling | None] = ContextVar("pullback_loss_scale", default=None)
# Whether a backward pass runs here: what is noted in it is forgotten when it ends.
_in_pass: ContextVar[bool] = ContextVar("pullback_in_backward_pass", default=False)
# Whether gradients are without the scale here, as in a rule that asks for that.
_undone: ContextVar[bool] = ContextVar("pullback_loss_scale_undone", default=False)


class LossScale:
    """A scale as rules are freed of it."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def undone(self, gradient: Any) -> Any:
        """A gradient without it; in float32 where there are fewer bits."""

        def without(g: Any) -> Any:
            g = tf.cast(g, tf.float32) if g.dtype in _HALF else g
            return g / tf.cast(self._value, g.dtype)

        return _on_values(without, gradient)

    def redone(self, gradient: Any, dtype: Any) -> Any:
        """The gradient with it again."""

        def scaled(g: Any) -> Any:
            return tf.cast(g * tf.cast(self._value, g.dtype), dtype or g.dtype)

        return _on_values(scaled, gradient)

    def wide(self, spec: Spec) -> Spec:
        """The spec of a gradient without it."""
        return spec._replace(dtype=tf.float32) if spec.dtype in _HALF else spec

    def in_force(self, value: bool) -> contextlib.AbstractContextManager[None]:
        """A block in which gradients have it in them, or do not."""
        return set_for(_undone, not value)


def _on_values(function: Callable[[Any], Any], gradient: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = function(gradient.values)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return function(tf.convert_to_tensor(gradient))


def loss_scale() -> LossScale | None:
    """The scale in the gradients of the backward pass that runs here, where the loss was scaled or may have been."""
    if _undone.get():
        return None
    value = _noted()
    if value is None:
        inside, graph = _around()
        if not _may_be_scaled(graph):
            return None
        if transposing.accumulator_is_open():
            # TensorFlow refuses a backward pass with more to capture where it differentiates a function forward. There
            # rules have to be linear, and to a linear one the scale makes no difference.
            return None
        value = _captured(inside, graph.capture(_stand_in()))[0]
    return LossScale(value)


def adapts_loss_scale() -> bool:
    """Whether the optimizer that scaled the loss scales it by less once gradients are not finite."""
    now = _now.get()
    return now is not None and isinstance(now.optimizer, keras.optimizers.LossScaleOptimizer)


def _noted() -> Any:
    """The scale that is known here, as a tensor of the current graph; `None` where none is."""
    now = _now.get()
    if now is None:
        return None
    if now.optimizer is None:
        raise UnsupportedError(
            "losses that were scaled by two optimizers meet in one backward pass, so a rule that needs gradients "
            "without the scale cannot have them. Take the gradient of each loss by itself."
        )
    inside, graph = _around()
    return _captured(inside, now.value) if graph is now.graph else None


def _around() -> tuple[list[Any], Any]:
    """The loops and branches that are built here, and the graph around them; `None` for it in eager code."""
    if private.executing_eagerly():
        return [], None
    inside: list[Any] = []
    now, graph = _now.get(), tf.compat.v1.get_default_graph()
    while private.is_control_flow(graph) and not (now and graph is now.graph):
        inside.append(graph)
        graph = graph.outer_graph
    return inside, graph


def _captured(inside: list[Any], tensor: Any) -> Any:
    for graph in reversed(inside):
        tensor = graph.capture(tensor)
    return tensor


def _may_be_scaled(graph: Any) -> bool:
    """Whether a graph is part of backward passes that are not known yet, or of the one that runs."""
    if not isinstance(graph, private.FuncGraph):
        return False
    return _now.get() is not None or loss_scaling.is_backward(graph)


@functools.cache
def _stand_in() -> Any:
    """What a function captures in place of a scale that its calls will tell: so large that it becomes no constant."""
    with private.eager_mode():
        return tf.ones([loss_scaling.LARGEST_CONSTANT + 1])


def install() -> None:
    """Notice every loss that is scaled, from now on."""
    for function in loss_scaling.SCALING:
        PatchedFunction.of(function, _on_scaling).install()


@functools.cache
def _install_rest() -> None:
    for function in loss_scaling.PASSES:
        PatchedFunction.of(function, _on_pass).install()
    PatchedFunction.of(loss_scaling.call_function, _on_function_call).install()


def _on_scaling(patched: PatchedFunction, args: Any, kwargs: Any) -> Any:
    """A loss is about to be scaled; the result tells, in the backward pass, by how much."""
    result = patched.run(*args, **kwargs)
    if not isinstance(result, tf.Tensor) or any(
        result is given for given in (*args, *kwargs.values())
    ):
        return result
    _install_rest()
    optimizer = args[0]
    read = functools.partial(patched.run, optimizer, 1.0)
    scale = tf.cast(read(), tf.float32)

    def backward(upstream: Any) -> list[Any]:
        _note(read, optimizer, tf.identity(scale))
        return [upstream]

    return splice("loss_scale", [result], [result], backward, lambda tangent: [tangent])[0]


def _note(read: Callable[[], Any], optimizer: Any, value: Any) -> None:
    eager, now = private.executing_eagerly(), _now.get()
    graph = None if eager else tf.compat.v1.get_default_graph()
    owner = optimizer if now is None or now.optimizer is optimizer else None
    if _in_pass.get():
        _now.set(_Scaling(read, owner, graph, value))
    if graph is not None:
        graph._pullback_scaling = read, optimizer


def _on_pass(patched: PatchedFunction, args: Any, kwargs: Any) -> Any:
    with backward_pass():
        return patched.run(*args, **kwargs)


@contextlib.contextmanager
def backward_pass() -> Generator[None]:
    """What is noted in a backward pass is true until it ends."""
    with set_for(_now, _now.get()), set_for(_in_pass, True):
        yield


def _on_function_call(patched: PatchedFunction, args: Any, kwargs: Any) -> Any:
    """A function gets the scale that is in force where it is called; it may be the one that scaled the loss."""
    function, inputs, captured = (
        patched.binder(as_method=False).signature.bind(*args, **kwargs).args
    )
    if any(each is _stand_in() for each in captured):
        scale = _for_call()
        captured = [scale if each is _stand_in() else each for each in captured]
    result = patched.run(function, inputs, captured)
    noted = getattr(function.graph, "_pullback_scaling", None)
    if noted is not None and loss_scaling.is_backward(function.graph):
        read, optimizer = noted
        _note(read, optimizer, tf.cast(read(), tf.float32))
    return result


def _for_call() -> Any:
    stand_in = _stand_in()
    value = tf.ones([]) if _undone.get() else _noted()
    return stand_in if value is None else tf.fill(stand_in.shape, value)
