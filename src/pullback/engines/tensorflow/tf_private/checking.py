"""Every private part of TensorFlow and Keras that a check reads, each with the reason, and a canary."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def is_custom_gradient(value: Any) -> bool:
    """Whether a function was made by `tf.custom_gradient`, which leaves no other mark on it."""
    decorator = getattr(value, "_tf_decorator", None)
    return getattr(decorator, "decorator_name", None) == "custom_gradient"


def layers_inside(layer: Any) -> list[Any]:
    """A layer or model and all layers inside it; public are the direct ones of a model only."""
    flatten = getattr(layer, "_flatten_layers", None)
    return [layer] if flatten is None else list(flatten())


def changed() -> list[str]:
    """The canary: what of the above is no longer as expected."""
    outer = tf.keras.Sequential([tf.keras.Sequential([tf.keras.layers.Flatten()])])
    found = {
        "custom gradients": is_custom_gradient(tf.custom_gradient(_identity)),
        "layers inside models": len(layers_inside(outer)) == 3,
    }
    return [name for name, right in found.items() if not right]


def _identity(x: Any) -> Any:
    def identity_pullback(dy: Any) -> Any:
        return dy

    return x, identity_pullback
