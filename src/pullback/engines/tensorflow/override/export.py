"""Writing a function or model with its overridden gradient as a SavedModel that needs no pullback
to load.

TensorFlow saves the gradient of an identity in a function of its own, wherever that function is
called. So, for export, each rule is put on such an identity in a small function around the op or
region. What was written is loaded again and compared before it is moved to its place.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from pullback.engines.tensorflow.attach.graph import exporting
from pullback.engines.tensorflow.override.graphs import state_of
from pullback.engines.tensorflow.tf_private import overriding, saving
from pullback.engines.tensorflow.tf_private.keras_models import input_structure
from pullback.errors import ExportError, PullbackError
from pullback.extend import Replacement, set_for

_PURE = (
    "A rule that is exported must consist of TensorFlow operations: "
    "no NumPy, no py_function, no tensors from outside."
)
_SIGNATURE = "Write `pb.export(overridden, path, signature=[tf.TensorSpec([None, 3])])`."


def export(
    target: Any, path: str, *, signature: Sequence[Any] | None = None, check: bool = True
) -> None:
    """Write a SavedModel whose gradient is the overridden one, with `serve` and `__call__` as its function."""
    variables, specs = _parts(target, signature)
    if Path(path).exists() and any(Path(path).iterdir()):
        raise ExportError(f"{path!r} exists already. Remove it, or export to another place.")
    module = _module(target, variables, specs)
    with tempfile.TemporaryDirectory() as folder:
        written = str(Path(folder) / "model")
        _save(module, written)
        if check:
            _compare(target, written, specs, module.takes_gradients)
        shutil.copytree(written, path, dirs_exist_ok=True)


def _parts(target: Any, signature: Sequence[Any] | None) -> tuple[list[Any], list[Any]]:
    if isinstance(target, keras.Layer):
        specs = list(signature or _specs_of(target))
        return [v.value for v in target.variables], specs
    if not callable(target):
        raise ExportError(
            f"wanted a function or model that runs under an override; got {target!r}."
        )
    own = getattr(target, "input_signature", None)
    specs = signature or own or getattr(_wrapped(target), "input_signature", None)
    if not specs:
        raise ExportError(
            "the shapes and dtypes of the arguments are needed to write a function that runs under an override. "
            f"{_SIGNATURE}"
        )
    return [], list(specs)


def _wrapped(target: Any) -> Any:
    return getattr(target, "__wrapped__", None)


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


def _module(target: Any, variables: list[Any], specs: list[Any]) -> Any:
    module: Any = tf.Module()
    module.own_variables = variables

    def serve(*args: Any) -> Any:
        with for_export():
            return overriding.converted(target, body=True)(*args)

    module.serve = tf.function(serve, input_signature=specs, autograph=False)
    module.__call__ = module.serve
    try:
        concrete = module.serve.get_concrete_function()
    except PullbackError:
        raise
    except Exception as error:
        raise ExportError(f"the function cannot be traced for export: {error}") from error
    if not state_of(concrete.graph).hits:
        raise ExportError(
            f"{target!r} carries no override, and calls nothing that does. Write "
            "`pb.export(pb.override({...})(model_or_function), path)`."
        )
    module.takes_gradients = _takes_gradients(concrete)
    # Variables that the function reads must be among those that are saved.
    module.read_variables = list(concrete.graph.variables)
    return module


def _takes_gradients(concrete: Any) -> bool:
    """Whether a function differentiates, as far as the names of what it runs tell."""
    definitions = overriding.reachable_definitions(concrete)
    names = [node.name for definition in definitions for node in definition.node_def]
    return any(not _OF_GRADIENTS.isdisjoint(name.split("/")) for name in names)


_OF_GRADIENTS = frozenset({"gradient_tape", "gradients"})


def _with_key(original: Callable[..., Any]) -> Callable[..., Any]:
    """Functions that were traced before are traced again: their gradients have another form in a file."""

    def make_function_context(*args: Any, **kwargs: Any) -> Any:
        made = original(*args, **kwargs)
        return (
            made._replace(scope_type=(made.scope_type, "for export")) if exporting.get() else made
        )

    return make_function_context


_traced_anew = Replacement(overriding.function_context, "make_function_context", _with_key)


@contextlib.contextmanager
def for_export() -> Generator[None]:
    """What is traced in this block has its gradients in the form that a file can hold, where it is to hold them."""
    with _traced_anew, set_for(exporting, not saving.is_for_inference()):
        yield


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


def _compare(target: Any, path: str, specs: list[Any], takes_gradients: bool) -> None:
    loaded = tf.saved_model.load(path)
    args = tf.nest.map_structure(_example, specs)
    # A function that differentiates gives gradients itself; those of gradients are not what it is written for.
    look = _outputs if takes_gradients else _gradients
    try:
        wanted, found = look(target, args), look(loaded.serve, args)
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


def _outputs(function: Callable[..., Any], args: list[Any]) -> list[Any]:
    return [np.asarray(t) for t in tf.nest.flatten(function(*args)) if t.dtype.is_floating]


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
