"""Whether TensorFlow and Keras still have the private parts that the engine builds on: one table, run at first use."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.autograph.impl import conversion
from tensorflow.python.ops import control_flow_util_v2

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.tf_private import (
    explaining,
    explaining_hooks,
    keras_models,
    recording,
    saving,
    transposing,
)
from pullback.engines.tensorflow.versions import unsupported

_lock = threading.Lock()
_here = threading.local()  # `is_canary`: in the thread in which the checks run


def require() -> bool:
    """Have it proven, once for all threads; whether it is.

    A program may have replaced functions of TensorFlow, which the checks use, by ours: these calls have no answer yet.
    """
    if getattr(_here, "is_canary", False):
        return False
    with _lock:
        prove()
    return True


@functools.cache
def prove() -> None:
    """Raise an `EngineError` that names the parts that have changed, if there are any."""
    if changed := changed_parts():
        raise unsupported(", ".join(changed))


def changed_parts() -> list[str]:
    """What is not as it was in the TensorFlow that the engine was written for."""
    missing = [
        f"{name} in {code.co_name}"
        for code, names in transposing.USED_NAMES.items()
        for name in names
        if name not in (*code.co_varnames, *code.co_names)
    ]
    # A thread of its own has neither the caller's tapes nor the graph that the caller may be building.
    with (
        private.functions_run_eagerly.kept(),  # as some programs set it, to debug
        concurrent.futures.ThreadPoolExecutor(1, initializer=_begin) as thread,
    ):
        tf.config.run_functions_eagerly(False)
        return missing + [name for name in CHECKS if not thread.submit(_works, name).result()]


def _begin() -> None:
    _here.is_canary = True


def _works(name: str) -> bool:
    try:
        with private.eager_mode():
            return CHECKS[name]()
    except (AttributeError, KeyError, TypeError):
        return False


def _operations_are_recorded() -> bool:
    x = tf.constant([1.0, 2.0], tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(x)
        watched = private.possible_gradient_types([x])
        y = private.detached(x)
        private.record_operation("canary", [y], [x], _sevenfold, None)
    gradient: Any = tape.gradient(y, x)
    found = (watched, gradient.numpy().tolist(), private.concrete_shape(x), private.data_type(x))
    return found == (1, [7.0, 7.0], (2,), tf.float32.as_datatype_enum)


def _sevenfold(upstream: Any) -> list[Any]:
    return [7.0 * upstream]


def _tapes_tell_what_they_are_asked_for() -> bool:
    x, asked = tf.constant(1.0, tf.float32), list[Any]()

    def noting(upstream: Any) -> list[Any]:
        asked.append(private.numbers_asked_for())
        return [upstream]

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = private.detached(x)
        private.record_operation("canary", [y], [x], noting, None)
    tape.gradient(y, x)
    return asked == [{private.number_of(x)}]


def _gradients_stop_at_calls() -> bool:
    with tf.Graph().as_default() as graph:
        x = tf.constant(1.0, tf.float32)
        called = tf.function(tf.negative)(x)
        found = private.gradients_across(
            [called * x], [x], [called], graph, [tf.constant(1.0, tf.float32)]
        )
        return found[0].op.type == "Mul"  # and no sum with what comes through the call


def _accumulators_are_seen() -> bool:
    x, other = tf.constant(1.0, tf.float32), tf.constant(2.0, tf.float32)
    before = transposing.accumulator_is_open()
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0, tf.float32)):
        tangents = (transposing.have_tangents([other]), transposing.have_tangents([other, x]))
        inside = transposing.accumulator_is_open()
    return (before, inside, *tangents) == (False, True, False, True)


def _callbacks_see_ops() -> bool:
    seen: list[str] = []

    def callback(op_type: Any, _: Any, __: Any, outputs: Any, *___: Any, **____: Any) -> Any:
        seen.append(tf.compat.as_str(op_type))
        if isinstance(outputs, list):
            outputs[0] = outputs[0]._copy_nograd()
        return outputs

    x = tf.constant([1.0, -1.0], tf.float32)
    private.set_op_callbacks([callback])
    y = tf.nn.relu(x)
    private.set_op_callbacks([])
    return y.numpy().tolist() == [1.0, 0.0] and "Relu" in seen


def _custom_gradients_are_known() -> bool:
    return private.is_custom_gradient(recording.custom_gradient(_identity))


def _custom_gradients_are_seen() -> bool:
    seen: list[Any] = []
    with recording.custom_gradients_seen(lambda *call: seen.append(call)):
        recording.custom_gradient(_identity)(tf.constant(1.0, tf.float32))
    return [call[0] for call in seen] == [_identity]


def _identity(x: Any) -> Any:
    return x, _sevenfold


def _layers_are_listed() -> bool:
    layer = keras.layers.Flatten()
    return len(keras_models.layers_inside(keras.Sequential([keras.Sequential([layer])]))) == 3


def _variables_are_seen() -> bool:
    seen, layer = list[Any](), keras.layers.Dense(1, kernel_initializer="ones")
    traced: Any = tf.function(layer, autograph=False)
    with keras_models.variables_seen(lambda made: seen.extend(v.numpy().tolist() for v in made)):
        traced(tf.constant([[2.0]]))
    return seen == [[[1.0]], [0.0]]


def _runs_are_seen() -> bool:
    """What `explain` replaces while it looks on."""
    x, names = tf.constant([0.5], tf.float32), list[str]()
    traced = tf.function(tf.sin)
    with tf.GradientTape() as tape, explaining_hooks.functions_interpreted(_interpreted(names)):
        tape.watch(x)
        y = traced(x)
    gradient: Any = tape.gradient(y, x)
    return names == ["Sin", "Identity"] and gradient.numpy().tolist() == tf.cos(x).numpy().tolist()


def _interpreted(names: list[str]) -> Callable[..., list[Any]]:
    def run(function: Any, inputs: Any, count: int) -> list[Any]:
        value = inputs[0]
        for operation in function.graph.get_operations()[1:]:
            attrs = explaining.attributes_of(operation)
            (found,) = explaining.run_op(operation.type, count, [value], attrs)
            explaining.record_gradient(operation.type, [value], attrs, [found])
            names.append(operation.type)
            value = found
        return [value]

    return run


def _buffers_are_seen() -> bool:
    variable = tf.Variable(tf.constant([1.0, 2.0], tf.float32))
    at = {explaining.address(explaining.value_behind(variable.handle, tf.float32)) for _ in "ab"}
    return len(at) == 1 and 0 not in at


def _calls_are_told() -> bool:
    traced, seen = tf.function(tf.negative), list[str]()
    traced(tf.constant(1.0, tf.float32))
    with recording.calls_seen(seen.append):
        traced(tf.constant(2.0, tf.float32))
    wanted = frozenset(["Neg", "Abs"])
    return [private.types_in_function(name, wanted) for name in seen] == [["Neg"]]


def _loops_are_wrapped() -> bool:
    made = control_flow_util_v2.run_as_function_for_tape_gradients.__code__.co_consts
    return private.WRAPPER in made


def _captures_are_known_to_tapes() -> bool:
    variable, other = (tf.Variable(tf.constant(start)) for start in ([1.0, 2.0], [3.0, 4.0]))

    def translate(tensor: Any) -> Any:
        return other.handle if tensor is variable.handle else tensor

    graph = private.FuncGraph("captures")
    with graph.as_default(), tf.GradientTape() as tape, private.capturing(graph, translate):
        row = tf.gather(variable, [1])
        found: Any = tape.gradient(row, variable)
    return found is not None


def _recording_can_go_on() -> bool:
    x = tf.constant(3.0, tf.float32)
    with private.stop_recording(), private.recording_again(), tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    gradient: Any = tape.gradient(y, x)
    return gradient.numpy() == 6.0 and not private.recording_is_stopped()


def _graphs_are_read_and_changed() -> bool:
    variable, found = tf.Variable(tf.constant([1.0], tf.float32)), list[Any]()

    def traced(x: Any) -> Any:
        handle = tf.compat.v1.get_default_graph().capture(variable.handle)
        outside = private.outside_of(handle)
        found.extend([outside is variable.handle, private.dtype_of_handle(outside)])
        y = tf.add(x, tf.constant(10.0, tf.float32))
        private.set_input(y.op, 1, x)
        return y

    doubled = tf.function(traced, autograph=False)(tf.constant(2.0, tf.float32))
    return doubled.numpy() == 4.0 and found == [True, tf.float32]


def _functions_of_a_graph_are_listed() -> bool:
    with tf.Graph().as_default() as graph:
        tf.function(tf.negative)(tf.constant(1.0, tf.float32))
        inside = [op.type for g in saving.graphs_in(graph) for op in g.get_operations()]
    return "Neg" in inside


def _blocks_are_replaced_by_xla() -> bool:
    with tf.Graph().as_default():
        replaced = private.xla_dynamic_update_slice(tf.zeros([3]), tf.ones([1]), [1])
    return replaced.op.type == "XlaDynamicUpdateSlice" and replaced.shape == [3]


def _trust_is_known() -> bool:
    found = [saving.is_trusted()]
    for is_safe in (False, True):
        with saving.SafeModeScope(is_safe):
            found.append(saving.is_trusted())
    return found == [False, True, False]


def _writing_is_seen() -> bool:
    with saving.ObjectSharingScope():
        inside = saving.is_writing()
    return inside and not saving.is_writing()


CHECKS: dict[str, Callable[[], bool]] = {
    "recording of operations": _operations_are_recorded,
    "sources in imperative_grad": _tapes_tell_what_they_are_asked_for,
    "_SymGrad in _GradientsHelper": _gradients_stop_at_calls,
    "TFE_Py_PackJVPs": _accumulators_are_seen,
    "AutoGraph's list of packages to leave alone": lambda: conversion.is_allowlisted(_works),
    "the mark of tf.custom_gradient": _custom_gradients_are_known,
    "the calls of tf.custom_gradient": _custom_gradients_are_seen,
    "Keras' list of the layers in a layer": _layers_are_listed,
    "Keras' Variable._initialize": _variables_are_seen,
    "op callbacks": _callbacks_see_ops,
    "calls of traced functions": _runs_are_seen,
    "buffers of tensors": _buffers_are_seen,
    "Context.call_function": _calls_are_told,
    "the function around a loop": _loops_are_wrapped,
    "Tensor._record_tape": _captures_are_known_to_tapes,
    "TFE_Py_TapeSetRestartOnThread": _recording_can_go_on,
    "captures and inputs of a graph's ops": _graphs_are_read_and_changed,
    "the functions of a graph": _functions_of_a_graph_are_listed,
    "XlaDynamicUpdateSlice": _blocks_are_replaced_by_xla,
    "Keras' safe mode": _trust_is_known,
    "Keras' writing of files": _writing_is_seen,
}
