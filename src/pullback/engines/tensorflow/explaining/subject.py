"""What is run: a function, a layer, a model with its loss, at which arguments, and where gradients start."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.probing.arguments import is_variable, outputs_of
from pullback.errors import ExplainError
from pullback.extend import describe, flatten, paths_and_names, unflatten


@dataclasses.dataclass(slots=True)
class Leaf:
    """A tensor or variable among the arguments."""

    name: str
    given: Any  # as the caller has it
    tensor: Any  # as it is passed: an eager tensor or a TensorFlow variable


@dataclasses.dataclass(slots=True)
class Subject:
    """A call to be explained."""

    fn: Any
    name: str
    leaves: list[Leaf]
    run: Callable[[], Any]  # gives the result
    given: str  # the arguments, for messages


def subject_of(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], loss: Any) -> Subject:  # noqa: ARG001
    """The call of `fn` with its arguments as tensors."""
    name = _name_of(fn)
    leaves, structure = flatten((tuple(args), dict(kwargs)))
    named = [name for _, name in paths_and_names(fn, args, kwargs)]
    taken: list[Any] = []
    found: list[Leaf] = []
    seen: set[int] = set()
    for label, leaf in zip(named, leaves, strict=True):
        passed, tensor = _as_passed(leaf, seen)
        taken.append(passed)
        if tensor is not None:
            found.append(Leaf(label, leaf, tensor))
    call_args, call_kwargs = unflatten(structure, taken)
    text = ", ".join(f"{n}: {describe(v)}" for n, v in zip(named, leaves, strict=True))
    return Subject(fn, name, found, lambda: fn(*call_args, **call_kwargs), text)


def _name_of(fn: Any) -> str:
    if not callable(fn):
        raise ExplainError(
            f"the first argument of explain is what to run: a function, layer or model; got {describe(fn)}. "
            "Write `pb.explain(fn, *args)`."
        )
    name = getattr(fn, "__name__", None) or getattr(fn, "name", None) or type(fn).__name__
    return name.decode() if isinstance(name, bytes) else str(name)


def _as_passed(leaf: Any, seen: set[int]) -> tuple[Any, Any]:
    """A leaf as it is passed, and the tensor or variable of it that can be asked about."""
    if is_variable(leaf):
        return leaf, values.underlying(leaf)
    tensor = values.gradient_tensor(leaf)
    if isinstance(tensor, (np.ndarray, np.generic)) and tensor.dtype.kind in "fciub":
        tensor = tf.constant(np.asarray(tensor))
    if not isinstance(tensor, private.EagerTensor):
        return leaf, None
    if id(tensor) in seen:
        tensor = private.detached(tensor)  # two arguments are two things to ask about
    seen.add(id(tensor))
    if isinstance(leaf, (np.ndarray, np.generic)) or leaf is tensor:
        return tensor, tensor
    return values.with_gradient_tensor(leaf, tensor), tensor


def starts_of(subject: Subject, result: Any) -> list[Any]:
    """The tensors from which gradients start."""
    found = list(outputs_of(result).values())
    if not found:
        left = isinstance(result, float | complex | np.ndarray | np.generic)
        what = f"{type(result).__name__}, which left TensorFlow and its gradient behind"
        raise ExplainError(
            f"{subject.name} returns no floating-point tensor, so it has no gradient; it returned "
            f"{what if left else describe(result)}. Return the tensor to differentiate, such as the loss."
        )
    return found


def keras_parts(fn: Any) -> list[Any]:
    """The layer or model that is explained, if it is one."""
    owner = getattr(fn, "__self__", fn)
    return [owner] if isinstance(owner, keras.Layer) else []
