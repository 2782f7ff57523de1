"""Private parts of Keras' models and layers that the engine uses, each with the reason."""
# Private symbols are what this folder is for.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import copy
import functools
import threading
from collections.abc import Callable, Generator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common import global_state as _global_state
from keras.src.backend.common import masking as _masking
from keras.src.layers.layer import CallContext as _CallContext
from keras.src.models.functional import Functional as Functional
from keras.src.ops.node import Node as _Node
from keras.src.random import seed_generator as _seed_generator
from keras.src.utils import python_utils as _python_utils

from pullback.engines.tensorflow import tf_private as _private
from pullback.extend import Replacement

# Marks a `build` that Keras takes for its own, so that it finds out the shapes through `call`.
default_method = _python_utils.default
is_default_method = _python_utils.is_default
# The mask of a tensor, an attribute by which layers tell the next ones.
mask_of = _masking.get_keras_mask
set_mask = _masking.set_keras_mask
# What Keras puts into the attributes of each layer that is bound to that layer.
BOUND = frozenset({"build", "quantize"})
# What a functional model keeps of its graph, and the lists of what belongs to it, with their keeper.
_GRAPH = frozenset(
    {
        "_inputs_struct", "_outputs_struct", "_inputs", "_outputs", "_nodes", "_nodes_by_depth", "_operations",
        "_operations_by_depth", "_tracker", "_layers", "_trainable_variables", "_non_trainable_variables", "_metrics",
        "_seed_generators", "_tracked",
    }
)  # fmt: skip
_LISTS = ("_trainable_variables", "_non_trainable_variables", "_metrics", "_seed_generators")
_TRACKED_BY_TENSORFLOW = "_self_"


def compile_settings(model: Any) -> dict[str, Any]:
    """The arguments a model was compiled with, as objects; the public way serialises them."""
    return dict(model._compile_config.config)


def input_structure(model: Any) -> Any:
    """The inputs of a functional model in the structure it is called with; in public they are a flat list."""
    inputs = model.inputs
    return getattr(model, "_inputs_struct", inputs[0] if len(inputs) == 1 else inputs)


def layers_inside(layer: Any) -> list[Any]:
    """A layer or model and all layers inside it; public are the direct ones of a model only."""
    flatten = getattr(layer, "_flatten_layers", None)
    return [layer] if flatten is None else list(flatten())


def direct_layers(layer: Any) -> list[Any]:
    """The layers that a layer holds itself."""
    return list(getattr(layer, "_layers", ()))


def runs_more_than_call(layer: Any) -> bool:
    """Whether Keras runs something else than the `call` of a layer: one for quantised weights, or that one twice."""
    return layer._remat_mode is not None or layer.quantization_mode is not None


def operations_inside(model: Any) -> list[Any]:
    """The operations of a functional or sequential model and of those inside it; nothing for any other."""
    found: list[Any] = []
    if isinstance(model, (Functional, keras.Sequential)):
        for each in getattr(model, "operations", None) or model.layers:
            found += operations_inside(each) or [each]
    return found


def model_being_called() -> Any:
    """The outermost layer or model that is being called here; `None` outside of any call."""
    context = _global_state.get_global_attribute("current_call_ctx")
    return None if context is None else context.entry_layer


def call_context() -> Any:
    """What layers called here learn from those around them, such as whether it is training."""
    context = _global_state.get_global_attribute("current_call_ctx")
    # A context without a first layer: whoever is called in it does not take the call for a new one of its own.
    return _CallContext(entry_layer=None) if context is None else copy.copy(context)


@contextlib.contextmanager
def in_call_context(context: Any) -> Generator[None]:
    """Let layers be called as if they were in that context."""
    before = _global_state.get_global_attribute("current_call_ctx")
    _global_state.set_global_attribute("current_call_ctx", context)
    try:
        yield
    finally:
        _global_state.set_global_attribute("current_call_ctx", before)


@contextlib.contextmanager
def unlocked(layer: Any) -> Generator[None]:
    """Let layers be added to one that is built, as Keras itself does for its own kinds of quantised layers."""
    layer._tracker.unlock()
    try:
        yield
    finally:
        layer._tracker.lock()


@contextlib.contextmanager
def reading(layer: Any, values: list[tuple[Any, Any]]) -> Generator[None]:
    """Let variables be read as these values while a layer is called; what it assigns and adds to the loss counts."""
    if not values:
        yield
        return
    with _Reading(values, collect_losses=True) as scope:
        yield
    layer._losses.extend(scope.losses)


class _Reading(keras.StatelessScope):
    """Keras' own way to read variables as something else, inside another one too, which lets everything else be."""

    def __enter__(self) -> Any:
        super().__enter__()
        outer: Any = self.original_scope
        if outer is not None:
            self.state_mapping = {**outer.state_mapping, **self.state_mapping}
        return self

    def add_update(self, update: Any) -> None:
        variable, value = update
        _global_state.set_global_attribute("stateless_scope", self.original_scope)
        try:
            variable.assign(value)
        finally:
            _global_state.set_global_attribute("stateless_scope", self)


def of_graph(model: Any, replace: Callable[[Any], Any]) -> dict[str, Any]:
    """The attributes of a functional model over the same graph with other operations, which need no running."""
    fresh: Any = _rebuilt(model, replace)
    for name in _LISTS:
        known = set(map(id, getattr(fresh, name)))
        getattr(fresh, name).extend(v for v in getattr(model, name) if id(v) not in known)
    state = vars(fresh)
    return {n: v for n, v in state.items() if n in _GRAPH or n.startswith(_TRACKED_BY_TENSORFLOW)}


def of_list(model: Any, replace: Callable[[Any], Any]) -> dict[str, Any]:
    """The attributes of a sequential model with other layers."""
    inner = model._functional
    return {
        "_layers": [replace(layer) for layer in model._layers],
        "_functional": None if inner is None else _rebuilt(inner, replace),
    }


def _rebuilt(model: Any, replace: Callable[[Any], Any]) -> Any:
    tensors: dict[int, Any] = {}
    for depth in sorted(model._nodes_by_depth, reverse=True):
        for node in model._nodes_by_depth[depth]:
            operation = replace(node.operation)
            if node.is_input:
                outputs = operation._inbound_nodes[0].outputs
            else:
                outputs = [copy.copy(tensor) for tensor in node.outputs]
                args, kwargs = node.arguments.fill_in(tensors)
                _Node(operation, args, kwargs, outputs)
            tensors |= {id(old): new for old, new in zip(node.outputs, outputs, strict=True)}
    ends: Any = (model._inputs_struct, model._outputs_struct)
    new_ends: Any = keras.tree.map_structure(lambda tensor: tensors[id(tensor)], ends)
    inputs, outputs = new_ends
    return Functional(inputs, outputs, name=model.name)


def variables_seen(see: Callable[[list[Any]], Any]) -> contextlib.AbstractContextManager[Any]:
    """Tell of each variable that Keras makes in this thread, with its first value: it is made at once.

    In a function that is being traced, Keras leaves that to TensorFlow, which does it when the function first runs.
    """
    thread = threading.get_ident()

    def seen(initialize: Callable[..., None]) -> Callable[..., None]:
        def initialized(self: Any, value: Any) -> None:
            if threading.get_ident() != thread or not callable(value):
                initialize(self, value)
                return
            with tf.init_scope():
                initialize(self, value)
                see([_private.value_of(self)])

        return initialized

    return Replacement(keras.Variable, "_initialize", seen)


def global_seeds() -> list[Any]:
    """The variable from which Keras draws seeds, if there is one: asking for it in public makes one."""
    generator = _global_state.get_global_attribute(_seed_generator.GLOBAL_SEED_GENERATOR)
    return [] if generator is None else [_private.value_of(generator.state)]


@contextlib.contextmanager
def global_seeds_kept() -> Generator[None]:
    """Where Keras has no generator of seeds yet, it draws from one of ours in this block, and makes its own later."""
    before = _global_state.get_global_attribute(_seed_generator.GLOBAL_SEED_GENERATOR)
    if before is None:
        ours = _our_seeds()
        ours.state.assign([0, 0])
        _global_state.set_global_attribute(_seed_generator.GLOBAL_SEED_GENERATOR, ours)
    try:
        yield
    finally:
        _global_state.set_global_attribute(_seed_generator.GLOBAL_SEED_GENERATOR, before)


@functools.cache
def _our_seeds() -> Any:
    """One for all times: what was traced with it needs it for as long as it lives."""
    with tf.init_scope():
        return keras.random.SeedGenerator(0)
