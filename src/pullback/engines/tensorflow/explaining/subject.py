"""What is run: a function, a layer, a model with its loss, at which arguments, and where gradients start."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.probing.arguments import outputs_of
from pullback.engines.tensorflow.programs.names import plain_name
from pullback.engines.tensorflow.tf_private import explaining, overriding
from pullback.engines.tensorflow.values import is_variable
from pullback.errors import ExplainError
from pullback.extend import describe, flatten, paths_and_names, signature_of, unflatten

_COMPILED = "compiled"
_NUMBERS = "fciub"  # kinds of arrays that become tensors


@dataclasses.dataclass(slots=True)
class Leaf:
    """A tensor or variable among the arguments."""

    name: str
    path: str
    given: Any  # as the caller has it
    tensor: Any  # as it is passed: an eager tensor or a TensorFlow variable
    position: int  # among all leaves


@dataclasses.dataclass(slots=True)
class Subject:
    """A call to be explained."""

    fn: Any
    name: str
    leaves: list[Leaf]
    given: str  # the arguments, for messages
    arguments: tuple[Any, Any]  # as the caller has them
    numbers: list[tuple[str, str]]  # of Python among the arguments: name and type
    has_loss: bool  # whether what `fn` returns goes into a loss
    _run: Callable[..., Any]
    _structure: Any
    _taken: list[Any]

    def run(self, moved: Mapping[int, Any] | None = None) -> Any:
        """The result, with other tensors in some places among the leaves."""
        taken = list(self._taken)
        for position, tensor in (moved or {}).items():
            taken[position] = values.with_gradient_tensor(taken[position], tensor)
        args, kwargs = unflatten(self._structure, taken)
        return self._run(*args, **kwargs)

    def eagerly(self) -> Subject | None:
        """The same by the Python function behind a traced one; `None` where there is none."""
        python = overriding.python_function_of(self.fn)
        return None if python is None else dataclasses.replace(self, _run=python)


def subject_of(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], loss: Any) -> Subject:
    """The call of `fn` with its arguments as tensors."""
    fn = _only_function(fn)
    name = _name_of(fn)
    run, labels = _with_loss(fn, args, kwargs, loss)
    leaves, structure = flatten((tuple(args), dict(kwargs)))
    taken: list[Any] = []
    found: list[Leaf] = []
    seen: set[int] = set()
    for position, ((path, label), leaf) in enumerate(zip(labels, leaves, strict=True)):
        passed, tensor = _as_passed(leaf, seen)
        taken.append(passed)
        if tensor is not None:
            found.append(Leaf(label, path, leaf, tensor, position))
    text = ", ".join(f"{n}: {describe(v)}" for (_, n), v in zip(labels, leaves, strict=True))
    numbers = [
        (label, type(leaf).__name__)
        for (_, label), leaf in zip(labels, leaves, strict=True)
        if isinstance(leaf, int | float | complex) and not isinstance(leaf, bool | np.generic)
    ]
    given = (args, kwargs)
    return Subject(
        fn, name, found, text or "no arguments", given, numbers, run is not fn, run, structure, taken,
    )  # fmt: skip


def _only_function(fn: Any) -> Any:
    """Of a loaded model that cannot be called itself, its only function."""
    signatures = getattr(fn, "signatures", None)
    if not callable(fn) and signatures is not None and len(signatures) == 1:
        return next(iter(signatures.values()))
    return fn


def _name_of(fn: Any) -> str:
    if not callable(fn):
        hint = "Write `pb.explain(fn, *args)`."
        signatures = getattr(fn, "signatures", None)
        if signatures:
            names = ", ".join(f"loaded.signatures[{name!r}]" for name in signatures)
            hint = f"A loaded model is called by one of its functions: {names}."
        raise ExplainError(
            f"the first argument of explain is what to run: a function, layer or model; got {describe(fn)}. {hint}"
        )
    if isinstance(fn, type):
        raise ExplainError(
            f"{fn.__name__} is a class, and its instances are what is called. Write "
            f"`pb.explain({fn.__name__}(...), *args)`."
        )
    loaded = explaining.name_of_loaded(fn)
    name = loaded or getattr(fn, "__name__", None) or getattr(fn, "name", None) or type(fn).__name__
    return plain_name(name.decode() if isinstance(name, bytes) else str(name))


def _labels(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The path and name of each leaf; a graph knows its parameters itself."""
    known = (
        getattr(fn, "function_type", None) if overriding.python_function_of(fn) is None else None
    )
    naming = fn if known is None else _naming(list(known.parameters))
    return list(paths_and_names(naming, args, kwargs))


# losses


def _with_loss(
    fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], loss: Any
) -> tuple[Callable[..., Any], list[tuple[str, str]]]:
    """What is run, and the path and name of each leaf of the arguments."""
    model = isinstance(fn, keras.Model)
    if loss is None and not (model and fn.compiled and len(args) == 2):
        return fn, _labels(fn, args, kwargs)
    value = _loss_of(fn, _COMPILED if loss is None else loss)
    if not _takes_truth(value):
        return lambda *a, **k: value(fn(*a, **k)), _labels(fn, args, kwargs)
    if len(args) < 2:
        raise ExplainError(
            f"loss={loss!r} compares what {_name_of(fn)} returns with what was wanted, and only {len(args)} argument "
            "was given. Write `pb.explain(model, x, y, loss=...)`."
        )
    known = signature_of(getattr(fn, "call", fn)).parameters.values()
    names = [p.name for p in known if p.kind in (0, 1)][: len(args) - 1]
    names += [f"args_{k}" for k in range(len(names), len(args) - 1)]
    labels = list(paths_and_names(_naming([*names, "y"]), args, kwargs))

    def run(*given: Any, **named: Any) -> Any:
        *inputs, truth = given
        return value(truth, fn(*inputs, **named))

    return run, labels


def _naming(names: Sequence[str]) -> Callable[..., Any]:
    """A function with these parameters."""

    def call(*args: Any) -> None:
        del args

    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(name, either) for name in names if name.isidentifier()]
    call.__dict__["__signature__"] = inspect.Signature(parameters)
    return call


def _loss_of(fn: Any, loss: Any) -> Callable[..., Any]:
    if isinstance(loss, str) and loss == _COMPILED:
        if not isinstance(fn, keras.Model) or not fn.compiled:
            raise ExplainError(
                f"{_name_of(fn)} is no compiled model, so that it has no loss of its own. Write "
                '`model.compile(loss=...)` before, or pass `loss="mse"`, a Keras loss, or a function of y and the '
                "result."
            )
        return lambda y, found: fn.compute_loss(y=y, y_pred=found)
    if isinstance(loss, str):
        try:
            named: Any = keras.losses.get(loss)
        except ValueError as error:
            raise ExplainError(
                f"Keras has no loss {loss!r}. Write its name as in keras.losses, or pass a function of y and the "
                "result."
            ) from error
        return _averaged(named)
    if not callable(loss):
        raise ExplainError(
            f"loss is a function of y and the result, a Keras loss or its name; got {describe(loss)}."
        )
    return loss


def _averaged(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A loss by its name, averaged over the samples as in `model.compile`."""

    def averaged(y: Any, found: Any) -> Any:
        return tf.reduce_mean(loss(y, found))

    return averaged


def _takes_truth(loss: Callable[..., Any]) -> bool:
    """Whether a loss takes what was wanted besides the result."""
    if isinstance(loss, keras.losses.Loss):
        return True
    required = [
        p
        for p in signature_of(loss).parameters.values()
        if p.kind in (0, 1) and p.default is p.empty
    ]
    several = any(p.kind == p.VAR_POSITIONAL for p in signature_of(loss).parameters.values())
    return several or len(required) != 1


# arguments


def _as_passed(leaf: Any, seen: set[int]) -> tuple[Any, Any]:
    """A leaf as it is passed, and the tensor or variable of it that can be asked about."""
    if is_variable(leaf):
        return leaf, values.underlying(leaf)
    tensor = values.gradient_tensor(leaf)
    if isinstance(tensor, (np.ndarray, np.generic)) and tensor.dtype.kind in _NUMBERS:
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
    found = list(outputs_of(result).values()) or _whole_numbers(result)
    if not found:
        left = isinstance(result, float | complex | np.ndarray | np.generic)
        what = f"{type(result).__name__}, which left TensorFlow and its gradient behind"
        raise ExplainError(
            f"{subject.name} returns no tensor, so it has no gradient; it returned "
            f"{what if left else describe(result)}. Return the tensor to differentiate, such as the loss."
        )
    return found


def _whole_numbers(result: Any) -> list[Any]:
    """Tensors of integers or of true and false: no gradient starts from them, of which can be told why."""
    return [leaf for leaf in flatten(result)[0] if isinstance(leaf, private.EagerTensor)]
