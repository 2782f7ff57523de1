"""Running the rules of an op: what they are offered, and how their result becomes one gradient per
input.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from pullback._bind import Inputs, signature_of
from pullback._engine import Kind
from pullback._project import Mismatch, arrange
from pullback._pullback import split_second
from pullback._rule import DEFAULT
from pullback._tree import Structure, flatten
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.transposing import (
    may_be_transposed_at_once,
    runs_user_code,
)
from pullback.engines.tensorflow.override.op_forward import linear_if_transposed, with_second
from pullback.engines.tensorflow.override.scope import Bound, resume, suspend
from pullback.engines.tensorflow.tf_private import overriding as private
from pullback.errors import RuleResultError

_HANDLES = (tf.resource, tf.variant)
_FLOATS = (tf.float16, tf.bfloat16, tf.float32, tf.float64, tf.complex64, tf.complex128)
_HANDLE = object()  # stands for an input of such a dtype, whose gradient is a tensor of some other


class OpCall:
    """One op that ran or stands in a graph: its inputs, outputs and attributes, always all of them."""

    __slots__ = ("_likes", "attributes", "inputs", "operation", "outputs", "place", "type")

    def __init__(
        self,
        op_type: str,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        attributes: Any,
        operation: Any = None,
    ) -> None:
        self.type = op_type
        self.inputs: Sequence[Any] | None = inputs
        self.outputs: Sequence[Any] | None = outputs
        self.attributes = attributes
        self.operation = operation
        self.place: Any = None
        self._likes: list[Any] | None = None

    @classmethod
    def of(cls, operation: Any) -> OpCall:
        """The call that an op of a graph stands for."""
        return cls(operation.type, list(operation.inputs), list(operation.outputs), None, operation)

    @property
    def likes(self) -> list[Any]:
        """What is remembered of each input in order to project a gradient to it."""
        if self._likes is None:
            self._likes = [_like(t) for t in self.inputs or ()]
        return self._likes

    def keep_for(self, chain: Sequence[Bound]) -> None:
        """Keep alive only what the rules ask for."""
        wishes = chain[0].entry.wishes
        for bound in chain[1:]:
            wishes = wishes | bound.entry.wishes
        if "original" in wishes:
            return
        if "outputs" not in wishes:
            self.outputs = None
        if "inputs" not in wishes:
            self._likes = [_like(t) for t in self.inputs or ()]
            self.inputs = None

    def registered(self) -> Callable[..., Any] | None:
        """TensorFlow's own gradient of this op, one value per input; `None` where there is none."""
        function = private.gradient_of_type(self.type)
        if function is None:
            return None
        operation = self.operation or private.mock_operation(
            self.type, self.attributes, self.inputs or (), self.outputs or ()
        )
        return functools.partial(_ordinary, self, function, operation)


def _ordinary(call: OpCall, function: Any, operation: Any, upstream: Sequence[Any]) -> list[Any]:
    returned = function(operation, *upstream)
    if isinstance(returned, tf.Tensor) and len(call.likes) == 1:
        return [returned]
    flat = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    return [g if like is not None else None for g, like in zip(flat, call.likes, strict=True)]


_FLOWING = frozenset(d.as_datatype_enum for d in (*_FLOATS, *_HANDLES))


def carries_gradient(tensor: Any) -> bool:
    """Whether gradients pass through a tensor of this dtype."""
    if type(tensor) is private.EagerTensor:
        return private.data_type(tensor) in _FLOWING
    return tensor.dtype.as_datatype_enum in _FLOWING


def chain_pullback(chain: tuple[Bound, ...], call: OpCall) -> Callable[..., list[Any]]:
    """The backward function of an op under one or more nested overrides."""
    outputs = call.outputs or ()
    eagerly = call.operation is None
    quiet = tuple(i for i, t in enumerate(outputs) if not carries_gradient(t))

    def op_pullback(*upstream: Any) -> list[Any]:
        dys = [dy if type(dy) is private.EagerTensor else values.dense(dy) for dy in upstream]
        for index in quiet:
            dys[index] = None
        token = suspend()
        try:
            gradients = _run(chain, 0, call, dys)
            if eagerly and not may_be_transposed_at_once():
                return gradients
            again = functools.partial(_run, chain, 0, call)
            return linear_if_transposed(again, gradients, dys, chain[0].entry.rule, call.type)
        finally:
            resume(token)

    return op_pullback


@runs_user_code
def _run(
    chain: tuple[Bound, ...],
    position: int,
    call: OpCall,
    upstream: Sequence[Any],
    *,
    explicit: bool = True,
) -> list[Any]:
    bound = chain[position]
    bound.activation.ledger.ran(bound.entry.index)
    below = _below(chain, position, call) if "original" in bound.entry.wishes else None
    returned = bound.entry.rule(upstream, _offers(bound, call, below))
    if isinstance(returned, tf.Tensor) and len(call.likes) == 1:
        return [_project(returned, call.likes[0], bound, call, 0)]
    returned, second = split_second(returned)
    fit = functools.partial(_fitted, bound, call, functools.partial(_default, below, upstream))
    if second is None or not explicit:
        return fit(returned)
    first = functools.partial(_run, chain, position, call, explicit=False)
    return with_second(
        call, fit(returned), upstream, first, functools.partial(_run_second, fit, second)
    )


@runs_user_code
def _run_second(fit: Callable[[Any], list[Any]], second: Any, *doubled: Any) -> list[Any]:
    return fit(second(*doubled))


def _fitted(
    bound: Bound, call: OpCall, default: Callable[[], list[Any] | None], returned: Any
) -> list[Any]:
    likes = call.likes
    if len(likes) == 1 and isinstance(returned, tf.Tensor):
        return [_project(returned, likes[0], bound, call, 0)]
    return _fit(bound, call, returned, default)


def _below(
    chain: tuple[Bound, ...], position: int, call: OpCall
) -> Callable[..., list[Any]] | None:
    """What would run without the rule at this position."""
    if position + 1 < len(chain):
        return functools.partial(_run, chain, position + 1, call)
    return call.registered()


def _default(below: Callable[..., list[Any]] | None, upstream: Sequence[Any]) -> list[Any] | None:
    return None if below is None else below(upstream)


def _offers(bound: Bound, call: OpCall, below: Callable[..., list[Any]] | None) -> dict[str, Any]:
    wants = bound.entry.rule.wants
    offers: dict[str, Any] = {}
    if "inputs" in wants:
        as_function = getattr(bound.line, "op_types", ())
        offers["inputs"] = (
            function_inputs(bound, call) if as_function else OpInputs(call.type, call.inputs or ())
        )
    if "outputs" in wants:
        outputs = list(call.outputs or ())
        offers["outputs"] = outputs[0] if len(outputs) == 1 else outputs
    if "attrs" in wants:
        offers["attrs"] = Attributes(call)
    if "original" in wants:
        offers["original"] = None if below is None else _Original(below, call)
    if "op" in wants:
        offers["op"] = call.place
    return offers


class _Original:
    """The gradient that would have run otherwise: a tensor for one input, a list for a list, a tuple for several."""

    def __init__(self, below: Callable[..., list[Any]], call: OpCall) -> None:
        self._below = below
        self._call = call

    def __call__(self, *upstream: Any) -> Any:
        flat = self._below(upstream)
        listed = _listed(self._call.type, len(flat))
        if listed:
            return [flat[i] for i in listed]
        return flat[0] if len(flat) == 1 else tuple(flat)


def _fit(
    bound: Bound, call: OpCall, returned: Any, default: Callable[[], list[Any] | None]
) -> list[Any]:
    likes = call.likes
    if (
        isinstance(returned, (list, tuple))
        and len(returned) == len(likes)
        and _all_fit(returned, likes)
    ):
        return list(returned)
    returned = _named_flat(returned)
    names, structure = _shape_of_inputs(call.type, len(likes))
    kinds = [Kind.TENSOR if like is None else Kind.DIFFERENTIABLE for like in likes]
    try:
        flat = arrange(returned, names, structure, kinds)
    except Mismatch as mismatch:
        raise _blame(bound, call, str(mismatch)) from None
    if any(g is DEFAULT for g in flat):
        flat = _filled(flat, default(), bound, call)
    return [
        _project(g, like, bound, call, i)
        for i, (g, like) in enumerate(zip(flat, likes, strict=True))
    ]


def _all_fit(returned: Sequence[Any], likes: Sequence[Any]) -> bool:
    return all(
        g is None or (isinstance(like, values.Like) and values.fits(g, like))
        for g, like in zip(returned, likes, strict=True)
    )


def _named_flat(returned: Any) -> Any:
    """Gradients by name, those of a list each by a name of its own."""
    if not isinstance(returned, Mapping):
        return returned
    flat: dict[str, Any] = {}
    for name, gradient in returned.items():
        if isinstance(gradient, (list, tuple)):
            flat.update({f"{name}[{i}]": g for i, g in enumerate(gradient)})
        else:
            flat[name] = gradient
    return flat


def _filled(flat: list[Any], default: list[Any] | None, bound: Bound, call: OpCall) -> list[Any]:
    if default is None:
        raise _blame(
            bound, call, f"returned pb.DEFAULT, but {call.type} has no gradient of its own"
        )
    return [default[i] if g is DEFAULT else g for i, g in enumerate(flat)]


def _project(gradient: Any, like: Any, bound: Bound, call: OpCall, index: int) -> Any:
    if gradient is None or like is None:
        return None
    if like is _HANDLE or values.fits(gradient, like):
        return gradient

    def blame(reason: str) -> Exception:
        return _blame(
            bound,
            call,
            f"returned, for the input `{argument_names(call.type, index + 1)[index]}`, {reason}",
        )

    return values.project(gradient, like, blame)


def _blame(bound: Bound, call: OpCall, reason: str) -> RuleResultError:
    return RuleResultError(
        f"rule {bound.entry.rule} of the op {call.type} ({bound.entry.label}) {reason}."
    )


def _like(tensor: Any) -> Any:
    if not carries_gradient(tensor):
        return None
    return _HANDLE if tensor.dtype in _HANDLES else values.like(tensor)


@functools.cache
def _shape_of_inputs(op_type: str, count: int) -> tuple[tuple[str, ...], Structure]:
    return argument_names(op_type, count), flatten((0,) * count)[1]


@functools.cache
def argument_names(op_type: str, count: int) -> tuple[str, ...]:
    """A name for each input tensor of an op; `values[0]`, `values[1]` for a list."""
    definition = private.op_def_registry.get(op_type)
    arguments = list(definition.input_arg) if definition else []
    lists = [a for a in arguments if a.number_attr or a.type_list_attr]
    spread = count - (len(arguments) - len(lists))
    names: list[str] = []
    for argument in arguments:
        if argument not in lists:
            names.append(argument.name)
        elif len(lists) == 1:
            names += [f"{argument.name}[{i}]" for i in range(spread)]
    return tuple(names) if len(names) == count else tuple(f"inputs[{i}]" for i in range(count))


@functools.cache
def _listed(op_type: str, count: int) -> tuple[int, ...]:
    """Which inputs of an op are elements of a list."""
    return tuple(i for i, n in enumerate(argument_names(op_type, count)) if n.endswith("]"))


class OpInputs(Inputs):
    """The input tensors of an op; a list among its arguments can be had by the list's name."""

    def __init__(self, op_type: str, tensors: Sequence[Any]) -> None:
        super().__init__(argument_names(op_type, len(tensors)), tensors)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key not in self.keys():
            listed = [v for n, v in self.items() if re.fullmatch(re.escape(key) + r"\[\d+\]", n)]
            if listed:
                return listed
        return super().__getitem__(key)


def function_inputs(bound: Bound, call: OpCall) -> Inputs:
    """The arguments of the function that an op stands for: tensors and attributes by name, else by position."""
    target = bound.entry.target
    while hasattr(target, "target"):
        target = target.target
    attributes, tensors = Attributes(call), _by_argument(call)
    known: dict[str, Any] = {}
    parameters = list(signature_of(target).parameters.values())
    for parameter in parameters:
        if parameter.name in tensors:
            known[parameter.name] = tensors.pop(parameter.name)
        elif parameter.name in attributes:
            known[parameter.name] = attributes[parameter.name]
    for parameter in parameters:
        if parameter.name not in known and tensors and parameter.name != "name":
            known[parameter.name] = tensors.pop(next(iter(tensors)))
    values_ = [known.get(p.name, None if p.default is p.empty else p.default) for p in parameters]
    return Inputs([p.name for p in parameters], values_)


def _by_argument(call: OpCall) -> dict[str, Any]:
    inputs = OpInputs(call.type, call.inputs or ())
    names = dict.fromkeys(name.partition("[")[0] for name, _ in inputs.items())
    return {name: inputs[name] for name in names}


class Attributes(Mapping[str, Any]):
    """The attributes of an op: dtypes as tf.DType, text as str, shapes as TensorShape."""

    def __init__(self, call: OpCall) -> None:
        self._operation = call.operation or private.mock_operation(
            call.type, call.attributes, (), ()
        )
        self._definition = private.op_def_registry.get(call.type)

    def __getitem__(self, name: str) -> Any:
        if name not in list(self):
            raise KeyError(f"no attribute is called {name!r}; there are {', '.join(self)}")
        try:
            value = self._operation.get_attr(name)
        except (KeyError, ValueError):
            value = None
        if value is None:
            value = self._default(name)
        return value.decode() if isinstance(value, bytes) else value

    def _default(self, name: str) -> Any:
        attribute = next(a for a in self._definition.attr if a.name == name)
        field = attribute.default_value.WhichOneof("value")
        return getattr(attribute.default_value, field) if field else None

    def __iter__(self) -> Iterator[str]:
        return iter(
            [attribute.name for attribute in self._definition.attr] if self._definition else []
        )

    def __len__(self) -> int:
        return len(list(iter(self)))
