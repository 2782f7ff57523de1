"""Writing a function or model with its overridden gradient as a SavedModel that needs no pullback
to load.

TensorFlow saves the gradient of an identity in a function of its own, wherever that function is
called. So, for export, each rule is put on such an identity in a small function around the op or
region. What was written is loaded again and compared before it is moved to its place.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from pullback.engines.tensorflow.attach.graph import exporting
from pullback.engines.tensorflow.override.apply import under
from pullback.engines.tensorflow.override.graphs import state_of
from pullback.engines.tensorflow.tf_private.keras_models import input_structure
from pullback.errors import ExportError, PullbackError
from pullback.extend import set_for

_PURE = (
    "A rule that is exported must consist of TensorFlow operations: "
    "no NumPy, no py_function, no tensors from outside."
)
_SIGNATURE = "Write `pb.export(overridden, path, signature=[tf.TensorSpec([None, 3])])`."


def export(
    overridden: Any, path: str, *, signature: Sequence[Any] | None = None, check: bool = True
) -> None:
    """Write a SavedModel whose gradient is the overridden one, with `serve` and `__call__` as its function."""
    run, activation, variables, specs = _parts(overridden, signature)
    if Path(path).exists() and any(Path(path).iterdir()):
        raise ExportError(f"{path!r} exists already. Remove it, or export to another place.")
    module = _module(run, activation, variables, specs)
    with tempfile.TemporaryDirectory() as folder:
        written = str(Path(folder) / "model")
        _save(module, written)
        if check:
            _compare(overridden, written, specs)
        shutil.copytree(written, path, dirs_exist_ok=True)


def _parts(
    overridden: Any, signature: Sequence[Any] | None
) -> tuple[Any, Any, list[Any], list[Any]]:
    if isinstance(overridden, keras.Layer):
        link = overridden._pullback_link
        variables = [v.value for v in link.source.variables]
        return link.source, link.activation, variables, list(signature or _specs_of(link.source))
    specs = signature or getattr(overridden.__wrapped__, "input_signature", None)
    if not specs:
        raise ExportError(
            f"the shapes and dtypes of the arguments are needed to write a function. {_SIGNATURE}"
        )
    return overridden.__wrapped__, overridden.activation, [], list(specs)


def _specs_of(model: Any) -> list[Any]:
    inputs = getattr(model, "inputs", None)
    if not inputs or not all(isinstance(t, keras.KerasTensor) for t in inputs):
        raise ExportError(
            f"{model.name!r} does not tell the shapes of its inputs, as a subclassed model does not. {_SIGNATURE}"
        )
    structure = input_structure(model)
    return [keras.tree.map_structure(_spec_of, structure)]


def _spec_of(tensor: Any) -> tf.TensorSpec:
    return tf.TensorSpec(tensor.shape, tensor.dtype, tensor.name)


def _module(run: Any, activation: Any, variables: list[Any], specs: list[Any]) -> Any:
    module: Any = tf.Module()
    module.own_variables = variables

    def serve(*args: Any) -> Any:
        with set_for(exporting, True):
            return under(activation, run, *args)

    module.serve = tf.function(serve, input_signature=specs, autograph=False)
    module.__call__ = module.serve
    try:
        concrete = module.serve.get_concrete_function()
    except PullbackError:
        raise
    except Exception as error:
        raise ExportError(f"the function cannot be traced for export: {error}") from error
    module._pullback_alive = tuple(state_of(concrete.graph).alive)
    # Variables that the function reads must be among those that are saved.
    module.read_variables = list(concrete.graph.variables)
    return module


def _save(module: Any, path: str) -> None:
    try:
        tf.saved_model.save(module, path, signatures={"serving_default": module.serve})
    except (ValueError, AssertionError, TypeError, LookupError) as error:
        raise ExportError(
            f"the gradient cannot be written: {error.__cause__ or error}. {_PURE}"
        ) from error
    _refuse_python(path)


_PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc", "NumpyFunction"})


def _refuse_python(path: str) -> None:
    """Python functions work in this process only."""
    saved = saved_model_pb2.SavedModel.FromString((Path(path) / "saved_model.pb").read_bytes())
    for function in saved.meta_graphs[0].graph_def.library.function:
        for node in function.node_def:
            if node.op in _PYTHON_OPS:
                raise ExportError(
                    f"{function.signature.name!r} calls back into Python ({node.op}), which a file cannot keep. {_PURE}"
                )


def _compare(overridden: Any, path: str, specs: list[Any]) -> None:
    loaded = tf.saved_model.load(path)
    args = tf.nest.map_structure(_example, specs)
    try:
        wanted = _gradients(overridden, args)
        found = _gradients(loaded.serve, args)
    except tf.errors.OpError:
        return  # the made-up arguments are not good for this function
    for one, other in zip(wanted, found, strict=True):
        if not _is_same(one, other):
            raise ExportError(
                "the gradient of the written model differs from the overridden one "
                f"({_short(one)} became {_short(other)}), so it was not kept. A rule that is not pure may be the cause."
            )


def _is_same(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return np.allclose(one, other, 1e-3, 1e-5, True)


def _gradients(function: Callable[..., Any], args: list[Any]) -> list[Any]:
    sources = [t for t in tf.nest.flatten(args) if t.dtype.is_floating]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        outputs = [t for t in tf.nest.flatten(function(*args)) if t.dtype.is_floating]
        total = tf.add_n([tf.reduce_sum(tf.cast(t, tf.float32)) for t in outputs])
    found: list[Any] = tape.gradient(total, sources)
    return [g if g is None else np.asarray(tf.convert_to_tensor(g)) for g in found]


def _example(spec: tf.TensorSpec) -> tf.Tensor:
    shape = [2 if size is None else size for size in spec.shape]
    if not spec.dtype.is_floating:
        return tf.zeros(shape, spec.dtype)
    return tf.cast(tf.random.stateless_normal(shape, (3, 5)), spec.dtype)


def _short(gradient: Any) -> str:
    return "nothing" if gradient is None else np.array2string(np.ravel(gradient)[:4], precision=4)
