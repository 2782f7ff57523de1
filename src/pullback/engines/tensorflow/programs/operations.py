"""One operation of a program, run or differentiated by itself, in the program's format or in another."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.tf_private import explaining, overriding
from pullback.extend import Node

# They run Python, which knows one format.
_OF_PYTHON = frozenset({"EagerPyFunc", "PyFunc", "PyFuncStateless", "NumpyFunction"})
# What a kernel raises that does not exist for a format.
_NO_KERNEL = (tf.errors.NotFoundError, tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)


@dataclass(eq=False)
class Raw:
    """What is known of an operation besides what a node says."""

    input_types: tuple[tf.DType, ...]
    output_types: tuple[tf.DType, ...]
    operation: Any = None  # of a graph, with the values of that
    scope: Any = None
    gradient: Callable[..., Any] | None = None  # that somebody gave it
    skips: int = 0  # how many of the first inputs it gives none for
    seen: Mapping[str, Any] = field(
        default_factory=dict[str, Any]
    )  # attributes, where there is no operation
    pulled: dict[tuple[int, ...], Any] = field(
        default_factory=dict[tuple[int, ...], Any]
    )  # of a loop: what differentiates it, by where gradients arrive

    @functools.cached_property
    def attributes(self) -> Mapping[str, Any]:
        """As eager execution takes them."""
        if self.operation is None:
            return self.seen
        return typed(self.operation.type, explaining.attributes_of(self.operation))


@functools.cache
def kinds_of(op: str) -> dict[str, str]:
    """What kind each attribute of a type of operation is of."""
    definition = overriding.op_def_registry.get(op)
    return {a.name: a.type for a in definition.attr} if definition else {}


def dtypes(tensors: Sequence[Any]) -> tuple[tf.DType, ...]:
    """Their formats."""
    return tuple(tensor.dtype for tensor in tensors)


def typed(op: str, attrs: Sequence[Any]) -> dict[str, Any]:
    """Attributes as eager execution takes them, names and values in turns; formats as such, to be exchanged."""
    kinds = kinds_of(op)
    pairs = zip(attrs[::2], attrs[1::2], strict=True)
    # nothing stands for what an operation has by default
    given = {name: value for name, value in pairs if value is not None}
    return {name: _typed(kinds.get(name, ""), value) for name, value in given.items()}


def _typed(kind: str, value: Any) -> Any:
    if kind == "type":
        return tf.as_dtype(value)
    return [tf.as_dtype(v) for v in value] if kind == "list(type)" else value


def run(node: Node, inputs: Sequence[Any], dtype: str) -> list[Any]:
    """The results of an operation; in its own format where there is no kernel for another one."""
    inputs = [tf.convert_to_tensor(t) if isinstance(t, tf.IndexedSlices) else t for t in inputs]
    if node.carries:
        return list(inputs[: node.carries])
    with _kept_for_gradient(node), contextlib.suppress(*_NO_KERNEL if dtype else ()):
        if not dtype or node.op not in _OF_PYTHON:
            return explaining.run_op(node.op, len(node.outputs), inputs, flat(node, dtype))
    usual = [cast(t, d) for t, d in zip(inputs, node.raw.input_types, strict=True)]
    with _kept_for_gradient(node):
        found = explaining.run_op(node.op, len(node.outputs), usual, flat(node, ""))
    return [cast(t, lifted(t.dtype, dtype)) for t in found]


def _kept_for_gradient(node: Node) -> contextlib.AbstractContextManager[Any]:
    """A function of Python keeps what its gradient needs while some tape is open."""
    return tf.GradientTape() if node.op == "EagerPyFunc" else contextlib.nullcontext()


def vjp(
    node: Node, inputs: Sequence[Any], outputs: Sequence[Any], upstream: Sequence[Any], dtype: str
) -> list[Any]:
    """What the gradient function of the operation's type gives, as a tape asks it."""
    with contextlib.suppress(*_NO_KERNEL if dtype else ()):
        if not dtype or node.op not in _OF_PYTHON:
            return _vjp(node, inputs, outputs, upstream, dtype)
    given = [cast(t, d) for t, d in zip(inputs, node.raw.input_types, strict=True)]
    made = [cast(t, d) for t, d in zip(outputs, node.raw.output_types, strict=True)]
    back = [None if g is None else cast(g, y.dtype) for g, y in zip(upstream, made, strict=True)]
    found = _vjp(node, given, made, back, "")
    return [None if g is None else cast(g, lifted(g.dtype, dtype)) for g in found]


def _vjp(
    node: Node, inputs: Sequence[Any], outputs: Sequence[Any], upstream: Sequence[Any], dtype: str
) -> list[Any]:
    function = private.registered_gradient(node.op)
    if function is None:
        return [None] * len(inputs)
    given = explaining.zeros_where_missing(node.op, outputs, list(upstream))
    mock = overriding.mock_operation(node.op, flat(node, dtype), list(inputs), list(outputs))
    found = function(mock, *given)
    found = list(found) if isinstance(found, (list, tuple)) else [found]
    return [*map(as_gradient, found), *[None] * (len(inputs) - len(found))]


def jvp(
    node: Node, inputs: Sequence[Any], outputs: Sequence[Any], tangents: Sequence[Any], dtype: str
) -> list[Any]:
    """By differentiating what pulls back, which is linear in what it is given."""
    with tf.GradientTape() as tape:
        upstream = [tf.zeros_like(y) if is_number(y.dtype) else None for y in outputs]
        watched = [g for g in upstream if g is not None]
        tape.watch(watched)
        pulled = [
            None if g is None else tf.convert_to_tensor(g)
            for g in vjp(node, inputs, outputs, upstream, dtype)
        ]
    pairs = zip(pulled, tangents, strict=True)
    flowing = [(g, t) for g, t in pairs if g is not None and t is not None]
    if not flowing or not watched:
        return [None] * len(outputs)
    found = iter(tape.gradient([g for g, _ in flowing], watched, [t for _, t in flowing]))
    return [None if g is None else next(found) for g in upstream]


def second(
    node: Node,
    inputs: Sequence[Any],
    upstream: Sequence[Any],
    directions: Sequence[Any],
    dtype: str,
) -> list[Any]:
    """By differentiating the gradient function; each input is one by itself, also in x · x."""
    inputs = [tf.identity(t) if is_number(t.dtype) else t for t in inputs]
    with tf.GradientTape() as tape:
        tape.watch([t for t in inputs if is_number(t.dtype)])
        outputs = run(node, inputs, dtype)
        explaining.record_gradient(node.op, inputs, flat(node, dtype), outputs)
        pulled = vjp(node, inputs, outputs, upstream, dtype)
        pairs = zip(pulled, directions, strict=True)
        terms = [tf.reduce_sum(g * u) for g, u in pairs if g is not None and u is not None]
        total = tf.add_n(terms) if terms else tf.constant(0.0)
    return tape.gradient(total, inputs)


def as_gradient(gradient: Any) -> Any:
    """A gradient as a tensor, or a sparse one as it is."""
    if gradient is None or isinstance(gradient, (tf.Tensor, tf.IndexedSlices)):
        return gradient
    return tf.convert_to_tensor(gradient)


def cast(tensor: Any, dtype: tf.DType) -> Any:
    """A tensor or sparse gradient in another format, if it holds numbers with a fraction."""
    if isinstance(tensor, tf.IndexedSlices):
        values = cast(tensor.values, dtype)
        return tf.IndexedSlices(values, tensor.indices, tensor.dense_shape)
    if not is_number(tensor.dtype) or tensor.dtype == dtype:
        return tensor
    return tf.cast(tensor, dtype)


def is_number(dtype: tf.DType) -> bool:
    """Whether numbers with a fraction are in it."""
    return dtype.is_floating or dtype.is_complex


def lifted(dtype: tf.DType, word: str) -> tf.DType:
    """The format in place of another one in a run that is made in `word`."""
    if not word or not is_number(dtype):
        return dtype
    if dtype.is_complex:
        return tf.complex128 if tf.as_dtype(word) == tf.float64 else tf.complex64
    return tf.as_dtype(word)


def flat(node: Node, dtype: str = "") -> tuple[Any, ...]:
    """Attributes as eager execution takes them."""
    return tuple(chain.from_iterable(_exchanged(node.raw.attributes, dtype).items()))


def _exchanged(attrs: Mapping[str, Any], dtype: str) -> Mapping[str, Any]:
    return {name: _other(value, dtype) for name, value in attrs.items()} if dtype else attrs


def _other(value: Any, dtype: str) -> Any:
    if isinstance(value, tf.DType):
        return lifted(value, dtype)
    return [_other(v, dtype) for v in value] if isinstance(value, list) else value


# attributes as graphs take them


def as_protos(op: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as an operation is made with in a graph."""
    kinds = kinds_of(op)
    return {name: _proto(kinds[name], value) for name, value in attributes.items()}


_FIELDS = {"int": "i", "float": "f", "bool": "b"}


def _proto(kind: str, value: Any) -> Any:
    made = tf.compat.v1.AttrValue()
    if kind.startswith("list("):
        made.list.SetInParent()
        for one in value:
            made.list.MergeFrom(_as_list(_proto(kind[5:-1], one)))
    elif kind == "type":
        made.type = tf.as_dtype(value).as_datatype_enum
    elif kind == "string":
        made.s = tf.compat.as_bytes(value)
    elif kind == "shape":
        made.shape.CopyFrom(tf.TensorShape(value).as_proto())
    elif kind == "tensor":
        made.tensor.ParseFromString(value)
    else:
        setattr(made, _FIELDS[kind], value)
    return made


def _as_list(proto: Any) -> Any:
    made = tf.compat.v1.AttrValue.ListValue()
    name = proto.WhichOneof("value")
    getattr(made, name).append(getattr(proto, name))
    return made
