"""One op that ran or stands in a graph, as a call with a gradient of its own: its inputs, attributes and pullback."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.recorded import Recorded
from pullback.engines.tensorflow.attach.splice import through
from pullback.engines.tensorflow.override.places import Where
from pullback.engines.tensorflow.projecting import spec_of
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import (
    ANYTHING,
    NOT_FLOATING,
    NOTHING_FLOATING,
    ONE_OUTPUT,
    Bound,
    Chain,
    Engine,
    Inputs,
    Kind,
    OpPlace,
    Place,
    Spec,
    Structure,
    flat_tuple,
    hidden,
    outputs_of_op,
    signature_of,
)

_HANDLES = frozenset(d.as_datatype_enum for d in (tf.resource, tf.variant))
_CARRYING = values.FLOWING | _HANDLES
Ordinary = Callable[[Sequence[Any]], list[Any]]


def carries_gradient(tensor: Any) -> bool:
    """Whether gradients pass through a tensor of this dtype: numbers, and handles on them."""
    if type(tensor) is private.EagerTensor:
        return private.data_type(tensor) in _CARRYING
    return tensor.dtype.as_datatype_enum in _CARRYING


def why_hidden(inputs: Sequence[Any], outputs: Sequence[Any]) -> str | None:
    """Why a rule for an op with these tensors has no effect, if that is so."""
    if not any(map(carries_gradient, outputs)):
        return NOT_FLOATING
    return hidden.get() if any(map(carries_gradient, inputs)) else NOTHING_FLOATING


def why_node_hidden(node: Any) -> str | None:
    """The same for a node of a graph that is not there."""
    inputs, outputs = overriding.data_types_of(node)
    if _CARRYING.isdisjoint(outputs):
        return NOT_FLOATING
    return NOTHING_FLOATING if _CARRYING.isdisjoint(inputs) else None


@dataclasses.dataclass(slots=True)
class Op:
    """What is known of an op: in eager code its tensors and attributes, in a graph the op itself."""

    type: str
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    attributes: Any = None
    operation: Any = None
    place: Place | None = None  # where a rule asks for it
    own: Any = None  # the gradient that this one op has, if it is not that of its type

    @classmethod
    def of(cls, operation: Any, place: Place | None = None, own: Any = None) -> Op:
        """An op of a graph."""
        place = place or getattr(operation, "_pullback_place", None)
        place = place or Place(operation.name, operation.type)
        inputs, outputs = list(operation.inputs), list(operation.outputs)
        return cls(operation.type, inputs, outputs, None, operation, place, own)

    def registered(self, specs: Sequence[Spec | None]) -> Ordinary | None:
        """The gradient that this op has otherwise, one value per input; `None` where there is none."""
        function = self.own or private.registered_gradient(self.type)
        if function is None:
            return None
        operation = self.operation or overriding.mock_operation(
            self.type, self.attributes, self.inputs, self.outputs
        )
        return functools.partial(_registered, function, operation, specs)


def _registered(
    function: Callable[..., Any],
    operation: Any,
    specs: Sequence[Spec | None],
    upstream: Sequence[Any],
) -> list[Any]:
    returned = function(operation, *upstream)
    flat = list(returned) if isinstance(returned, (list, tuple)) else [returned]
    return [None if spec is None else g for g, spec in zip(flat, specs, strict=True)]


class OpView:
    """An op as its gradient function sees it, with the tensors of another graph in place of its own."""

    def __init__(self, operation: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._operation = operation
        self.inputs = inputs
        self.outputs = outputs
        self.skip_input_indices = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._operation, name)


class OpCall:
    """The op as the call whose pullback a line of an override is."""

    __slots__ = ("_attributes", "_operation", "bound", "count", "name", "place")

    def __init__(self, op: Op, bound: Bound) -> None:
        self.name = op.type
        self.bound = bound
        self.count = len(op.inputs)
        self.place = op.place
        self._attributes = op.attributes
        self._operation = op.operation

    @property
    def engine(self) -> Engine:
        """The engine that runs it."""
        return self.bound.activation.override.engine.engine

    @property
    def names(self) -> Sequence[str]:
        """A name for each input tensor."""
        return argument_names(self.name, self.count)

    @property
    def structure(self) -> Structure:
        """The inputs have none."""
        return flat_tuple(self.count)

    @property
    def title(self) -> str:
        """The op in messages."""
        return f"the op {self.name} ({self.bound.entry.label})"

    def inputs(self, leaves: Sequence[Any]) -> Inputs:
        """The input tensors, or the arguments of the function that the op stands for."""
        tensors = OpInputs(self.names, leaves)
        target = self.bound.entry.target
        if not self.bound.line.op_types:
            return tensors
        while hasattr(target, "target"):
            target = target.target
        return _function_inputs(target, tensors, self.offer("attrs"))

    def in_rule_form(self, flat: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        """A tensor for one input, a list for a list, a tuple for several."""
        del kinds
        listed = _listed(self.name, self.count)
        if listed:
            return [flat[i] for i in listed]
        return flat[0] if len(flat) == 1 else tuple(flat)

    def offer(self, name: str) -> Any:
        """Where the op is, and its attributes."""
        if name == "op":
            return self.place
        return Attributes(self.name, self._operation, self._attributes)


def record_of(chain: Chain, op: Op, position: int = 0) -> Recorded:
    """The pullback of an op under one or more nested overrides, as TensorFlow runs it."""
    bound = chain[position]
    specs = [_spec_of(t) for t in op.inputs]
    form = outputs_of_op(len(op.outputs))
    recorded = Recorded(OpCall(op, bound), bound.rule, form, _kinds_of(specs), specs)
    recorded.flowing = _range(len(specs))
    if form is not ONE_OUTPUT:
        recorded.returned = [i for i, t in enumerate(op.outputs) if carries_gradient(t)]
    kept = bound.rule.kept
    if kept:
        recorded.inputs = op.inputs if "inputs" in kept else None
        recorded.outputs = op.outputs if "outputs" in kept else None
        if "original" in kept and position + 1 == len(chain):
            recorded.ordinary = op.registered(specs)
        elif "original" in kept:
            below = record_of(chain, op, position + 1)
            recorded.ordinary = lambda upstream: below.run(upstream).leaves
    return recorded


def chain_gradient(chain: Chain, own: Any, operation: Any, *upstream: Any) -> list[Any]:
    """The rules of nested overrides as the gradient function of a marked op of a graph."""
    op = Op.of(operation, own=own)
    recorded = record_of(chain, op)
    recorded.tensors = op.inputs
    with through(operation.graph):
        return recorded.backward(*(upstream[i] for i in recorded.returned))


def asked_place(chain: Chain, where: Where, inputs: Sequence[Any]) -> Place | None:
    """Where an op with these inputs runs, if a rule asks for it."""
    if not any("op" in bound.rule.requested for bound in chain):
        return None
    found = where.place
    return OpPlace(found.name, found.type, found.layer, found.source, tuple(map(varies, inputs)))


def varies(tensor: Any) -> bool:
    """Whether a tensor depends on what is differentiated: on what a tape watches, or on arguments of a program."""
    if not carries_gradient(tensor):
        return False
    if private.possible_gradient_types([tensor]):
        return True
    return type(tensor) is not private.EagerTensor and _depends_on_arguments(tensor)


def _depends_on_arguments(tensor: Any) -> bool:
    waiting, passed = [tensor], {tensor.op}
    while waiting:
        found = waiting.pop()
        known = getattr(found.op, "_pullback_varies", None)
        if known is None and found.op.type == "Placeholder":
            known = found.op._pullback_varies = _is_varying(found)
        if known:
            tensor.op._pullback_varies = True
            return True
        if known is None:
            more = [t for t in found.op.inputs if carries_gradient(t) and t.op not in passed]
            waiting += more
            passed.update(t.op for t in more)
    for operation in passed:
        operation._pullback_varies = False
    return False


def _is_varying(argument: Any) -> bool:
    """An argument of a traced function varies, and what it captures as it does outside."""
    graph = argument.graph
    for outside, inside in getattr(graph, "captures", ()):
        if inside is argument:
            return varies(outside)
    return argument.dtype.is_floating or argument.dtype == tf.variant


_range = functools.cache(range)  # ops are many: what all of them have is made once
_one_kind = (Kind.DIFFERENTIABLE,)


def _kinds_of(specs: Sequence[Spec | None]) -> Sequence[Kind]:
    if len(specs) == 1 and specs[0] is not None:
        return _one_kind
    return [Kind.TENSOR if spec is None else Kind.DIFFERENTIABLE for spec in specs]


def _spec_of(tensor: Any) -> Spec | None:
    if type(tensor) is private.EagerTensor and private.data_type(tensor) in values.FLOWING:
        return Spec(private.concrete_shape(tensor), tensor.dtype)
    if not carries_gradient(tensor):
        return None
    return ANYTHING if tensor.dtype.as_datatype_enum in _HANDLES else spec_of(tensor)


@functools.cache
def argument_names(op_type: str, count: int) -> tuple[str, ...]:
    """A name for each input tensor of an op; `values[0]`, `values[1]` for a list."""
    definition = overriding.op_def_registry.get(op_type)
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

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and key not in self.keys():
            listed = [v for n, v in self.items() if re.fullmatch(re.escape(key) + r"\[\d+\]", n)]
            if listed:
                return listed
        return super().__getitem__(key)


def _function_inputs(target: Any, tensors: OpInputs, attributes: Mapping[str, Any]) -> Inputs:
    """The arguments of the function that an op stands for: tensors and attributes by name, else by position."""
    names = dict.fromkeys(name.partition("[")[0] for name in tensors.names)
    given = {name: tensors[name] for name in names}
    known: dict[str, Any] = {}
    parameters = list(signature_of(target).parameters.values())
    for parameter in parameters:
        if parameter.name in given:
            known[parameter.name] = given.pop(parameter.name)
        elif parameter.name in attributes:
            known[parameter.name] = attributes[parameter.name]
    for parameter in parameters:
        if parameter.name not in known and given and parameter.name != "name":
            known[parameter.name] = given.pop(next(iter(given)))
    found = [known.get(p.name, None if p.default is p.empty else p.default) for p in parameters]
    return Inputs([p.name for p in parameters], found)


class Attributes(Mapping[str, Any]):
    """The attributes of an op: dtypes as tf.DType, text as str, shapes as TensorShape."""

    def __init__(self, op_type: str, operation: Any, attributes: Any) -> None:
        self._operation = operation or overriding.mock_operation(op_type, attributes, (), ())
        definition = overriding.op_def_registry.get(op_type)
        self._defaults = {a.name: a.default_value for a in definition.attr} if definition else {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._defaults:
            raise KeyError(f"no attribute is called {name!r}; there are {', '.join(self)}")
        try:
            value = self._operation.get_attr(name)
        except (KeyError, ValueError):
            value = None
        if value is None:
            field = self._defaults[name].WhichOneof("value")
            value = getattr(self._defaults[name], field) if field else None
        return value.decode() if isinstance(value, bytes) else value

    def __iter__(self) -> Iterator[str]:
        return iter(self._defaults)

    def __len__(self) -> int:
        return len(self._defaults)
