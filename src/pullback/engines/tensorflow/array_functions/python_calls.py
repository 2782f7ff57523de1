"""Python code as part of a program: called at once, or by the program when it runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.attach.graph import exporting
from pullback.engines.tensorflow.tf_private import saving
from pullback.errors import ExportError, ExternalError, UnsupportedError
from pullback.extend import Replacement

_NAME = "pullback_external"


def spec_of(shape: Sequence[int | None], dtype: Any) -> tf.TensorSpec:
    """A shape and a dtype."""
    return tf.TensorSpec(list(shape), tf.as_dtype(dtype))


def spec_like(array: Any) -> tf.TensorSpec:
    """Shape and dtype of an array, as far as they are known."""
    return tf.TensorSpec(array.shape, array.dtype)


def zeros_of(spec: tf.TensorSpec) -> Any:
    """Zeros of a shape that is known."""
    return tf.zeros(spec.shape, spec.dtype)


def require_python(what: str) -> None:
    """Complain where no Python can run when the program does."""
    if tf.executing_eagerly():
        return
    if private.is_compiled_by_xla(tf.compat.v1.get_default_graph()):
        raise UnsupportedError(
            f"{what} cannot run in a program compiled by XLA, from which no Python is called. Run it without "
            "jit_compile=True, or call it outside of the compiled part."
        )
    if exporting.get():
        raise ExportError(_no_export(what))


def _no_export(what: str) -> str:
    return (
        f"{what} cannot be exported: a file keeps operations, not Python code. Export the parts before and after it, "
        "or write it in TensorFlow's operations."
    )


def python_call(
    function: Callable[..., Sequence[Any]],
    inputs: Sequence[Any],
    specs: Sequence[tf.TensorSpec],
    title: str,
) -> list[Any]:
    """What a function of NumPy arrays returns, as tensors of these shapes and dtypes."""
    run = functools.partial(_fitted, function, specs, title)
    if tf.executing_eagerly():
        return [tf.convert_to_tensor(a) for a in run(*(x.numpy() for x in inputs))]
    _refuse_saving()
    with tf.name_scope(_NAME):
        found = tf.numpy_function(run, list(inputs), [s.dtype for s in specs])
    for tensor, spec in zip(found, specs, strict=True):
        tensor.set_shape(spec.shape)
    return list(found)


def _fitted(
    function: Callable[..., Sequence[Any]], specs: Sequence[tf.TensorSpec], title: str, *arrays: Any
) -> list[Any]:
    """The results in the promised dtypes; a shape that was not promised is an error, and so is a dtype of another kind.

    Precision may be lost, as NumPy computes in float64 by default; fractions, signs and imaginary parts may not.
    """
    found = [np.asarray(a) for a in function(*arrays)]
    wanted = ", ".join(str(s.shape) for s in specs)
    fits = len(found) == len(specs) and all(
        s.shape.is_compatible_with(a.shape) for a, s in zip(found, specs, strict=True)
    )
    if not fits:
        came = ", ".join(str(a.shape) for a in found)
        raise ExternalError(
            f"{title} returned arrays of shapes {came}; wanted {wanted}. Say so by out=..., the shape of one result or "
            "a list of them (for batch='loop' and 'threads' that of one example)."
        )
    for a, s in zip(found, specs, strict=True):
        if not np.can_cast(a.dtype, s.dtype.as_numpy_dtype, "same_kind"):
            raise ExternalError(
                f"{title} returned {a.dtype}; wanted {s.dtype.name}, as of the first input or of out=..., which cannot "
                f"hold it. Write out=(shape, {_held_by(a.dtype)!r}), or cast it in the function."
            )
    return [np.asarray(a, s.dtype.as_numpy_dtype) for a, s in zip(found, specs, strict=True)]


def _held_by(dtype: np.dtype[Any]) -> str:
    """The dtype to ask for: of floating and complex numbers the one that is usual here."""
    return {"float64": "float32", "complex128": "complex64"}.get(dtype.name, dtype.name)


@functools.cache
def _refuse_saving() -> None:
    """Look at what TensorFlow is about to save, from now on: what is loaded would fail in words that help nobody."""
    Replacement(saving.save, "_trace_gradient_functions", _refusing).install()


def _refusing(original: Callable[..., Any]) -> Callable[..., Any]:
    def trace_gradient_functions(graph: Any, *args: Any, **kwargs: Any) -> Any:
        for function in [graph, *saving.graphs_in(graph)]:
            for operation in function.get_operations():
                if _NAME in operation.name:
                    raise ExportError(
                        _no_export(f"the op {operation.name!r} under pb.functions.external")
                    )
        return original(graph, *args, **kwargs)

    return trace_gradient_functions
