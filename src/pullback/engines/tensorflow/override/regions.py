"""Functions and layers as targets: one unit each, however many ops they run.

A call of a targeted function is handed to the engine as a call with a gradient of its own, exactly
as `pb.with_gradient` does, with the function as it was before as its body.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import types
from collections.abc import Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.attach.eager import attach
from pullback.engines.tensorflow.attach.graph import exporting
from pullback.engines.tensorflow.override.graphs import in_function, note
from pullback.engines.tensorflow.override.intercept import MODEL_WAS_BUILT, inert, note_eager
from pullback.engines.tensorflow.override.places import Where
from pullback.engines.tensorflow.override.scope import PatchedFunction
from pullback.engines.tensorflow.tf_private import keras_losses, keras_models, overriding
from pullback.extend import (
    NOT_FLOATING,
    NOTHING_FLOATING,
    Call,
    CalledPlace,
    Chain,
    Definition,
    OneOpCall,
    Stack,
    engine_of,
    flatten,
    guarded,
    guarding,
    hidden,
    matched_here,
    matching,
    one_op_call,
    reactivate,
    running,
    set_for,
    signature_of,
    unflatten,
)

LAYER_CALL = "layer call"  # the handle of lines about layers
_NOTHING_EXPECTED: tuple[Any, Chain] = (None, ())
# The layer whose `call` runs next, and the lines that make a region of it.
_expected_layer: contextvars.ContextVar[tuple[Any, Chain]] = contextvars.ContextVar(
    "pullback_expected_layer", default=_NOTHING_EXPECTED
)
Args = tuple[Any, ...]
Kwargs = dict[str, Any]


def on_call(stack: Stack, patched: PatchedFunction, args: Args, kwargs: Kwargs) -> Any:
    """A function that is a target, or the `call` of a layer, or a part in which targets are looked for, is called."""
    if patched.function not in keras_losses.SETTING_LOGITS:
        return _on_any_call(stack, patched, args, kwargs)
    matched: list[Chain] = []
    outer = matched_here.get()
    with set_for(matched_here, matched):
        result = _on_any_call(stack, patched, args, kwargs)
    if matched:
        # Keras' losses would start from what this was computed from, and pass the rules by.
        keras_losses.forget_logits(result)
    if outer is not None:
        outer += matched
    return result


def _on_any_call(stack: Stack, patched: PatchedFunction, args: Args, kwargs: Kwargs) -> Any:
    names = patched.names_inside
    if names and overriding.is_called_by_machinery(names, patched.trampoline):
        return patched.run(*args, **kwargs)
    layer = args[0] if args and isinstance(args[0], keras.Layer) else None
    if layer is not None and patched.function is _body_of(layer):
        return _on_layer_body(stack, patched, layer, args, kwargs)
    return _on_function(stack, patched, args, kwargs)


def _on_function(stack: Stack, patched: PatchedFunction, args: Args, kwargs: Kwargs) -> Any:
    chain = stack.one_op.get(patched.function)
    if chain is not None and not guarded.get():
        return _as_one_op(chain, patched, args, kwargs)
    if not stack.tracks:
        return _called(stack, patched, args, kwargs)
    with set_for(running, (*running.get(), patched.function)):
        return _called(stack, patched, args, kwargs)


def _called(stack: Stack, patched: PatchedFunction, args: Args, kwargs: Kwargs) -> Any:
    owner = args[0] if args else None
    where = Where("function", patched.function.__name__, owner=owner)
    chain = matching(stack.by_handle.get(patched.function, ()), where)
    if not chain:
        return patched.run(*args, **kwargs)
    line = chain[0].line
    if line.is_one_op:
        return _as_one_op(chain, patched, args, kwargs)
    if line.is_method:
        return _Region(stack, chain, patched, owner)(args[1:], kwargs)
    return _Region(stack, chain, patched)(args, kwargs)


def _as_one_op(chain: Chain, patched: PatchedFunction, args: Args, kwargs: Kwargs) -> Any:
    token = one_op_call.set(OneOpCall(chain, chain[0].line.op_types))
    try:
        return patched.twin(*args, **kwargs)
    finally:
        one_op_call.reset(token)


def on_layer_call(stack: Stack, patched: PatchedFunction, args: Args, kwargs: Kwargs) -> Any:
    """Some Keras layer is called; if it is a target, its `call` will be a region."""
    layer = args[0]
    with _running_layer(stack, layer) as entered:
        chain = () if _symbolic(args[1:], kwargs) else _chain(stack, layer)
        function = _body_of(layer)
        if chain and function is None:
            names = {
                f"args[{i}]": name for i, name in enumerate(signature_of(layer.call).parameters)
            }
            return _Region(stack, chain, patched, layer, names)(args[1:], kwargs)
        if chain and function is not None:
            entered.enter_context(PatchedFunction.of(function, on_call))
        entered.enter_context(set_for(_expected_layer, (layer, chain)))
        return patched.run(*args, **kwargs)


def layer_body(function: types.FunctionType, /, *args: Any, **kwargs: Any) -> Any:
    """Run the `call` of a layer, past its `__call__`, as what it is: a call of the layer."""
    with PatchedFunction.of(function, on_call):
        return overriding.converted(function)(*args, **kwargs)


def _on_layer_body(
    stack: Stack, patched: PatchedFunction, layer: Any, args: Args, kwargs: Kwargs
) -> Any:
    """The `call` of a layer, which is where the region is: masks and casts belong to the layer."""
    expected, chain = _expected_layer.get()
    if layer is expected:
        with set_for(_expected_layer, _NOTHING_EXPECTED):
            return _body(stack, chain, patched, layer, args, kwargs)
    if any(layer is each for each in running.get()):
        return _on_function(stack, patched, args, kwargs)
    # Some layers run the `call` of another one without calling it, as TimeDistributed does.
    with _running_layer(stack, layer) as entered:
        entered.enter_context(set_for(_expected_layer, _NOTHING_EXPECTED))
        return _body(stack, _chain(stack, layer), patched, layer, args, kwargs)


def _body(
    stack: Stack, chain: Chain, patched: PatchedFunction, layer: Any, args: Args, kwargs: Kwargs
) -> Any:
    if not chain:
        return _on_function(stack, patched, args, kwargs)
    return _Region(stack, chain, patched, layer)(args[1:], kwargs)


@contextlib.contextmanager
def _running_layer(stack: Stack, layer: Any) -> Generator[contextlib.ExitStack]:
    """A layer is running; that it may run the `call` of a layer that it holds is noticed."""
    with contextlib.ExitStack() as entered:
        entered.enter_context(set_for(running, (*running.get(), layer)))
        if not isinstance(layer, (keras_models.Functional, keras.Sequential)):
            for function in _bodies_inside(stack, layer):
                entered.enter_context(PatchedFunction.of(function, on_call))
        yield entered


def _bodies_inside(stack: Stack, layer: Any) -> set[types.FunctionType]:
    held = keras_models.direct_layers(layer)
    bodies = {_body_of(each) for each in held if stack.tracks or _chain(stack, each)}
    return {body for body in bodies if body is not None}


def _chain(stack: Stack, layer: Any) -> Chain:
    where = Where("function", layer.name, owner=layer)
    return matching(stack.by_handle.get(LAYER_CALL, ()), where)


def _body_of(layer: Any) -> types.FunctionType | None:
    """The `call` of a layer's own class; `None` where it is not a method, or Keras runs something else in its place."""
    if keras_models.runs_more_than_call(layer):
        return None
    kind = getattr(layer, "__pullback_class__", type(layer))
    function = inspect.getattr_static(kind, "call", None)
    is_method = isinstance(function, types.FunctionType) and "call" not in vars(layer)
    return function if is_method else None


def _leaves_of(result: Any) -> Sequence[Any]:
    return [result] if isinstance(result, tf.Tensor) else flatten(result)[0]


def _symbolic(args: Sequence[Any], kwargs: Kwargs) -> bool:
    leaves, _ = flatten((list(args), kwargs))
    return any(isinstance(leaf, keras.KerasTensor) for leaf in leaves)


class _Region:
    """One call of a targeted function or layer under the lines that match it, innermost first."""

    def __init__(
        self,
        stack: Stack,
        chain: Chain,
        patched: PatchedFunction,
        owner: Any = None,
        names: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.stack = stack
        self.names = names  # of parameters, where they have better ones than in the signature
        self.chain = chain
        self.patched = patched
        self.is_method = owner is not None
        self.owner = owner
        self.body = functools.partial(patched.run, owner) if self.is_method else patched.run
        self.where = Where("function", getattr(owner, "name", None) or patched.title)

    def __call__(self, args: Args, kwargs: Kwargs) -> Any:
        call, leaves = self._call(0, args, kwargs)
        symbolic = any(isinstance(leaf, keras.KerasTensor) for leaf in leaves)
        if symbolic or overriding.in_keras_symbolic_scope():
            for bound in self.chain:
                bound.activation.unreachable = MODEL_WAS_BUILT
            return self.body(*args, **kwargs)
        if exporting.get() and not private.executing_eagerly():
            result = _in_portable_function(self.stack, call, leaves)
        else:
            result = self.body(*args, **kwargs) if inert.get() else attach(call, leaves)
        self._note(leaves, result)
        return result

    def _call(self, position: int, args: Args, kwargs: Kwargs) -> tuple[Call, Sequence[Any]]:
        """The call under the rule at this position, and its leaves."""
        bound = self.chain[position]
        place = self._place() if "op" in bound.rule.requested else None
        body = guarding(bound, functools.partial(self._run, position + 1))
        definition = Definition(body, bound.rule, None, self.where.own, place)
        plan = self.patched.binder(as_method=self.is_method).plan(args, kwargs)
        if names := {**self.names, **bound.line.names}:
            plan = plan.renamed(names)
        values = tuple(plan.values(args, kwargs))
        leaves, structure = flatten(values)
        return Call(definition, engine_of(leaves), plan, structure, values), leaves

    def _place(self) -> CalledPlace:
        found = self.where.place
        return CalledPlace(found.name, found.type, found.layer, found.source, self.owner)

    def _run(self, position: int, *args: Any, **kwargs: Any) -> Any:
        """Call the function under the rules from this position on, which are those further out."""
        if position == len(self.chain):
            return self.body(*args, **kwargs)
        return attach(*self._call(position, args, kwargs))

    def _note(self, leaves: Sequence[Any], result: Any) -> None:
        reason = hidden.get()
        reads = any("variables" in bound.rule.requested for bound in self.chain)
        if not reads and not values.differentiable(leaves):
            reason = NOTHING_FLOATING
        elif not values.differentiable(_leaves_of(result)):
            reason = NOT_FLOATING
        if isinstance(self.owner, keras.Layer):
            self._note_weights(self.owner)
        if private.executing_eagerly():
            note_eager(self.chain, self.where, private.could_possibly_record(), reason)
        else:
            note(self.chain, self.where, "traced", hidden_by=reason)

    def _note_weights(self, layer: Any) -> None:
        for bound in self.chain:
            if id(layer) not in bound.met:
                bound.met.add(id(layer))
                ledger, asked_for = bound.activation.ledger, "variables" in bound.rule.requested
                ledger.met_weights(bound.entry.index, layer.trainable_weights, asked_for=asked_for)


def _in_portable_function(stack: Stack, call: Call, leaves: Sequence[Any]) -> Any:
    """The region in a function of its own, in which a SavedModel keeps its gradient."""
    moving = [i for i, leaf in enumerate(leaves) if isinstance(leaf, tf.Tensor)]
    structures: list[Any] = []

    def carrier(*tensors: Any) -> list[Any]:
        with reactivate(stack):
            inner = values.with_gradient_tensors(leaves, moving, tensors)
            outputs, structure = flatten(attach(call, inner))
        structures[:] = [structure]
        return outputs

    outputs = in_function(carrier, [leaves[i] for i in moving])
    return unflatten(structures[0], outputs)
