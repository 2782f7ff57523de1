"""Layers by name: a way through nested models, such as `"base/conv5"`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

import keras

from pullback.engines.tensorflow.tf_private import keras_models
from pullback.errors import SaliencyError

_MOST_SHOWN = 8


def find_layer(model: Any, wanted: Any) -> Any:
    """The layer that is meant: itself, or the one at the end of a way of names."""
    if isinstance(wanted, keras.Layer):
        return wanted
    if not isinstance(wanted, str):
        raise SaliencyError(
            f"layer={wanted!r} is no layer. Write the layer itself, or its name, such as "
            '"conv5" or, in a nested model, "base/conv5".'
        )
    known = dict(_named(model))
    found = {id(each): each for path, each in known.items() if f"/{path}".endswith(f"/{wanted}")}
    if wanted in known:
        return known[wanted]
    if len(found) == 1:
        return next(iter(found.values()))
    raise SaliencyError(_explain(wanted, list(known), len(found)))


def _named(model: Any) -> Iterator[tuple[str, Any]]:
    """Each layer with the names of the layers that it is in."""
    level: list[tuple[str, Any]] = [("", model)] if isinstance(model, keras.Layer) else []
    while level:
        below: list[tuple[str, Any]] = []
        for path, layer in level:
            below += [(f"{path}{each.name}", each) for each in keras_models.direct_layers(layer)]
        yield from below
        level = [(f"{path}/", layer) for path, layer in below]


def _explain(wanted: str, known: list[str], count: int) -> str:
    if count > 1:
        ways = [f'"{path}"' for path in known if f"/{path}".endswith(f"/{wanted}")]
        return f'layer="{wanted}" names {count} layers: {", ".join(ways[:_MOST_SHOWN])}. Write one of these ways.'
    if not known:
        return (
            f'layer="{wanted}" cannot be found: the model is no Keras model. Give the layer itself.'
        )
    short = {path.rpartition("/")[2]: path for path in known}
    close = difflib.get_close_matches(wanted.rpartition("/")[2], list(short), 3, 0.5)
    names = [short[name] for name in close] or known[-_MOST_SHOWN:]
    return f'layer="{wanted}" is in no way through the model. There are, for instance: {", ".join(names)}.'
