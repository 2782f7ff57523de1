"""Everything that TensorFlow and Keras differentiate: ops with a registered gradient, public functions, layers."""

import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.auditing.recipes import recipes
from pullback.engines.tensorflow.tf_private import auditing as private

# Where users find functions, the shortest names first: a function is audited once, under the first of its names.
PLACES = {
    "tf": tf,
    "tf.math": tf.math,
    "tf.math.special": tf.math.special,
    "tf.nn": tf.nn,
    "tf.nn.experimental": tf.nn.experimental,
    "tf.linalg": tf.linalg,
    "tf.signal": tf.signal,
    "tf.image": tf.image,
    "tf.sparse": tf.sparse,
    "tf.ragged": tf.ragged,
    "tf.quantization": tf.quantization,
    "tf.random": tf.random,
    "tf.random.experimental": getattr(tf.random, "experimental"),  # noqa: B009  # its stubs do not have it
    "keras.ops": keras.ops,
    "keras.activations": keras.activations,
    "keras.losses": keras.losses,
}
LAYERS = "keras.layers"

# Functions of functions, programs, files and processes rather than of numbers.
NOT_OF_NUMBERS = frozenset(recipes("not_of_numbers"))


@functools.cache
def catalogue() -> dict[str, Any]:
    """What is audited, by name."""
    found: dict[str, Any] = {f"tf.raw_ops.{name}": getattr(tf.raw_ops, name) for name in ops()}
    seen: set[int] = set()
    for place, name, value in _functions():
        if id(value) not in seen:
            seen.add(id(value))
            found[f"{place}.{name}"] = value
    found |= {f"{LAYERS}.{name}": kind for name, kind in _classes(keras.layers, keras.Layer)}
    losses = _classes(keras.losses, keras.losses.Loss)
    found |= {f"keras.losses.{name}": kind for name, kind in losses}
    # What is built on most of the others comes last.
    return dict(sorted(found.items(), key=lambda one: one[0].startswith("keras.ops.")))


@functools.cache
def aliases() -> dict[str, list[str]]:
    """Further names of what has several, by the first of them."""
    first = {id(value): name for name, value in catalogue().items()}
    found: dict[str, list[str]] = {}
    for place, name, value in _functions():
        known = first[id(value)]
        if known != f"{place}.{name}":
            found.setdefault(known, []).append(f"{place}.{name}")
    return found


def listed_as(name: str) -> str:
    """The name in the list of what has any name: `tf.keras.layers.AvgPool1D` is `keras.layers.AveragePooling1D`."""
    first, *parts = name.split(".")
    value: Any = {"tf": tf, "tensorflow": tf, "keras": keras}.get(first)
    for part in parts:
        value = getattr(value, part, None)
    return next((known for known, one in catalogue().items() if one is value), "")


def ops() -> list[str]:
    """The types of op with a registered gradient, and those registered to have none though they compute numbers."""
    registered = [name for name in private.registered_ops() if hasattr(tf.raw_ops, name)]
    return sorted(name for name in registered if private.has_numbers(name))


def _functions() -> Iterator[tuple[str, str, Any]]:
    for place, module in PLACES.items():
        for name in sorted(vars(module) if place != "tf" else dir(module)):
            value = getattr(module, name, None)
            private_or_known = name.startswith("_") or name in NOT_OF_NUMBERS
            is_function = callable(value) and not isinstance(value, type | types.ModuleType)
            if is_function and not private_or_known and name.islower():
                yield place, name, value


def _classes(module: Any, base: type) -> Iterator[tuple[str, type]]:
    seen: set[type] = set()
    for name, kind in sorted(vars(module).items()):
        is_one = isinstance(kind, type) and issubclass(kind, base) and kind is not base
        if is_one and kind not in seen and not inspect.isabstract(kind):
            seen.add(kind)
            yield name, kind
