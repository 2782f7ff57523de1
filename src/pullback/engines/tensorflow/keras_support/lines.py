"""The lines of an override apart from the model they were made for: what copies, pickles and files are made from.

A layer among the targets becomes its place in the model, and is looked up in the copy. Of a part of a model, only the
lines are kept that can match in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras

from pullback.engines.tensorflow.override.targets import is_same, layer_names
from pullback.engines.tensorflow.tf_private.keras_models import layers_inside
from pullback.extend import Inside, Override, PerInput, Rule, narrowest_first


class LayerAt(NamedTuple):
    """A layer of a model: the one with this name or, of several, the one at this place among them."""

    name: str
    place: int

    @classmethod
    def of(cls, layer: Any, model: Any) -> LayerAt | None:
        """Where a layer is in a model; `None` if it is not in there."""
        found = [i for i, each in enumerate(_named(layer.name, model)) if is_same(each, layer)]
        return cls(layer.name, found[0]) if found else None

    def found_in(self, model: Any) -> Any:
        """The layer at this place of a model."""
        return _named(self.name, model)[self.place]


def _named(name: str, model: Any) -> list[Any]:
    return [layer for layer in layers_inside(model) if layer.name == name]


class Lines(NamedTuple):
    """Targets and rules for a model, without the model."""

    pairs: Sequence[tuple[Any, Any]]
    strict: bool
    is_part: bool  # of a model: not every target need be met in it

    @classmethod
    def of(cls, link: Any) -> Lines:
        """Those that an overridden layer or model was made with."""
        pairs: list[tuple[Any, Any]] = []
        for entry in narrowest_first(link.override.entries):
            target = _portable(entry.target, link)
            if target is not None and not any(_is_equal(target, known) for known, _ in pairs):
                pairs.append((target, _as_given(entry.rule.function)))
        return cls(pairs, link.override.strict, not link.is_judged)

    def applied_to(self, model: Any) -> Any:
        """The model under an override with these lines."""
        if not self.pairs:
            return model
        lines = [(_placed(target, model), rule) for target, rule in self.pairs]
        made = Override(lines, strict=self.strict)(model)
        made._pullback_link.is_judged = not self.is_part
        return made


def _portable(target: Any, link: Any) -> Any:
    """A target without layers; `None` where it cannot match inside the source of a link."""
    if isinstance(target, Inside):
        inner = _portable(target.target, link)
        if inner is None or any(_is_meant(target.part, parent) for parent in link.parents):
            return inner
        part = _portable(target.part, link)
        return None if part is None else Inside(part, inner)
    return LayerAt.of(target, link.source) if isinstance(target, keras.Layer) else target


def _is_meant(part: Any, layer: Any) -> bool:
    if isinstance(part, re.Pattern):
        return any(map(part.fullmatch, layer_names(layer)))
    return isinstance(layer, part) if isinstance(part, type) else is_same(part, layer)


def _is_equal(one: Any, other: Any) -> bool:
    by_value = isinstance(one, (str, re.Pattern, LayerAt))
    return one is other or (by_value and type(one) is type(other) and one == other)


def _placed(target: Any, model: Any) -> Any:
    """A target with the layers of this model."""
    if isinstance(target, Inside):
        return Inside(_placed(target.part, model), _placed(target.target, model))
    return target.found_in(model) if isinstance(target, LayerAt) else target


def _as_given(rule: Any) -> Any:
    if not isinstance(rule, PerInput):
        return rule
    return [each.function if isinstance(each, Rule) else each for each in rule.rules]
