"""Keras layers, models and losses at a higher precision: rebuilt from their configuration."""

import contextlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.arguments import Arguments, to_array
from pullback.engines.tensorflow.probing.probe import double, native
from pullback.engines.tensorflow.probing.state import raw_variable

_POLICY = {"module": "keras", "class_name": "DTypePolicy", "registered_name": None}


def lifted_layer(fn: Any, arguments: Arguments, lift: Any) -> Any:
    """A copy of a Keras layer, model or loss that computes in float64 what `fn` does, or `None`."""
    if lift(tf.float32) is not tf.float64 or not hasattr(fn, "get_config"):
        return None
    try:
        copy = _rebuilt(fn)
        tensors = [tf.constant(x) for x in arguments.start()]
        copy(*arguments.build(tensors, lift)[0], **arguments.build(tensors, lift)[1])
        _take_over(copy, fn)
        same = _made_of_the_same(copy, fn) and alike(
            outcome(copy, arguments, double), outcome(fn, arguments, native)
        )
        _take_over(copy, fn)
    except Exception:
        return None
    return copy if same else None


def built_copy(layer: Any) -> Any:
    """A float64 copy of a built layer, model or loss with the values of its variables, or `None`."""
    made = _rebuilt(layer)
    if not getattr(made, "built", True):
        made.build_from_config(layer.get_build_config())
    _take_over(made, layer)
    return made if _made_of_the_same(made, layer) else None


def counterparts(copy: Any, fn: Any, variables: Sequence[Any]) -> list[Any] | None:
    """The variables of the copy that stand for these of the original, if each has one."""
    if not hasattr(fn, "variables"):
        return [] if not variables else None
    pairs = zip(fn.variables, copy.variables, strict=True)
    known = {id(raw_variable(old)): raw_variable(new) for old, new in pairs}
    found = [known.get(id(v)) for v in variables]
    return None if any(v is None for v in found) else found


def _rebuilt(fn: Any) -> Any:
    import keras

    config = _in_double(fn.get_config())
    layers = getattr(fn, "_flatten_layers", list)()
    classes = {type(layer).__name__: type(layer) for layer in layers}
    with _double_by_default(keras), keras.utils.custom_object_scope(classes):
        try:
            return type(fn).from_config({**config, "dtype": "float64"})
        except TypeError:
            known = inspect.signature(type(fn)).parameters
            return type(fn).from_config({k: v for k, v in config.items() if k in known})


@contextlib.contextmanager
def _double_by_default(keras: Any) -> Iterator[None]:
    """Layers that a constructor makes without a dtype of their own compute in float64."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("float64")
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)


def _in_double(config: Any) -> Any:
    """A configuration with float64 for every floating-point dtype and policy in it."""
    if isinstance(config, list | tuple):
        return type(config)(_in_double(item) for item in config)
    if not isinstance(config, dict):
        return config
    if "DTypePolicy" in str(config.get("class_name")):
        return {**_POLICY, "config": {"name": "float64"}}
    return {k: "float64" if _is_float(k, v) else _in_double(v) for k, v in config.items()}


def _is_float(key: Any, value: Any) -> bool:
    return key == "dtype" and isinstance(value, str) and "float" in value


def _take_over(copy: Any, fn: Any) -> None:
    pairs = zip(getattr(copy, "variables", ()), getattr(fn, "variables", ()), strict=True)
    for new, old in pairs:
        new.assign(old)


def _made_of_the_same(copy: Any, fn: Any) -> bool:
    """Whether the copy uses the very functions of the original: a name is no proof of a gradient."""
    ours, theirs = ([x, *getattr(x, "_flatten_layers", list)()] for x in (fn, copy))
    pairs = zip(ours, theirs, strict=True)
    return not any(hasattr(layer, "__pullback_override__") for layer in ours) and all(
        _same_function(value, vars(b).get(name))
        for a, b in pairs
        for name, value in vars(a).items()
        if _is_function(value)
    )


def _is_function(value: Any) -> bool:
    return callable(value) and hasattr(inspect.unwrap(value), "__code__")


def _same_function(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return _is_function(other) and inspect.unwrap(one).__code__ is inspect.unwrap(other).__code__


def outcome(
    fn: Any, arguments: Arguments, lift: Any, variables: Sequence[Any] | None = None
) -> list[Any]:
    """Values, and gradients for an upstream of ones, as plain arrays."""
    tensors = [
        tf.constant(x, lift(s.dtype))
        for x, s in zip(arguments.start(), arguments.slots, strict=True)
    ]
    args, kwargs = arguments.build(tensors, lift)
    if variables is None:
        variables = [raw_variable(v) for v in getattr(fn, "trainable_variables", ())]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        values = tf.nest.flatten(fn(*args, **kwargs))
    floats = [v for v in values if v.dtype.is_floating or v.dtype.is_complex]
    gradients = tape.gradient(floats, [*tensors, *variables])
    return [None if g is None else to_array(tf.convert_to_tensor(g)) for g in values + gradients]


def alike(some: list[Any], others: list[Any]) -> bool:
    return all(
        (a is None) == (b is None) and (a is None or np.allclose(a, b, 1e-2, 1e-3, equal_nan=True))
        for a, b in zip(some, others, strict=True)
    )
