"""The link between an overridden layer or model and the one it was made from."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import keras

from pullback.engines.tensorflow.keras_support.saving import copy_of
from pullback.engines.tensorflow.tf_private import keras_models, overriding
from pullback.extend import Activation, Override, running, set_for


class Link:
    """What an overridden object knows of the one it was made from. Not a Keras object, so Keras does not save it."""

    def __init__(
        self,
        source: Any,
        override: Override,
        make: Callable[[Link], Any],
        whole: Link | None = None,
    ) -> None:
        self.source = source
        self._make = make
        self.override = override
        self.parents: tuple[Any, ...] = () if whole is None else (*whole.parents, whole.source)
        inner = getattr(source, "_pullback_link", None)
        activation = Activation(override) if whole is None else whole.activations[0]
        # Outermost first: the override that was applied last is opened first.
        self.activations: tuple[Activation, ...] = (
            activation,
            *(inner.activations if inner else ()),
        )
        self.root: Link | None = None if whole is None else whole.root or whole
        self.is_judged = whole is None  # not what is a part only
        self.synced = True
        self.parts: dict[int, Any] = {}
        self._waiting: weakref.WeakKeyDictionary[Any, set[int]] = weakref.WeakKeyDictionary()

    @property
    def in_force(self) -> bool:
        """Whether all that it runs under is open here already."""
        return all(activation.in_force for activation in self.activations)

    def part(self, layer: Any) -> Any:
        """A layer or operation inside, under the same override."""
        if _is_under(layer, self.activations[0]):
            return layer
        if id(layer) not in self.parts:
            is_input = isinstance(layer, keras.layers.InputLayer)  # which runs nothing
            made = copy_of(layer) if is_input else self._made(layer)
            self.parts[id(layer)] = made
        return self.parts[id(layer)]

    def _made(self, layer: Any) -> Any:
        return self._make(Link(layer, self.override, self._make, self))

    def run(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call what the override was applied to."""
        return self._run("run", function, args, kwargs)

    def run_part(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Call a part of it: that a target is not in there says nothing."""
        return self._run("run_part", function, args, kwargs)

    def _run(self, how: str, function: Any, args: Any, kwargs: Any) -> Any:
        run = functools.partial(_inside, self.parents, overriding.converted(function))
        for activation in reversed(self.activations):
            run = functools.partial(getattr(activation, how), run)
        return run(*args, **kwargs)

    def ran(self, part: Any) -> None:
        """Note that a part has run by itself; once all have of the model that it runs in, that one is judged."""
        outer = keras_models.model_being_called()
        cut = self.source if outer is None or outer is part else outer
        if cut not in self._waiting:
            self._waiting[cut] = self._parts_in(cut)
        waiting = self._waiting[cut]
        if id(part) in waiting:
            waiting.remove(id(part))
            if not waiting:
                is_whole = self._parts_in(self.source) <= self._parts_in(cut)
                self.activations[0].end(is_whole=is_whole)

    def _parts_in(self, cut: Any) -> set[int]:
        """What must have run of a model before it is judged."""
        found = keras_models.operations_inside(cut)
        if cut is self.source:
            found = [self.part(each) for each in found if isinstance(each, keras.Layer)]
        return {id(each) for each in found if _is_under(each, self.activations[0])}


def _inside(parents: tuple[Any, ...], function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a function as a part of something larger."""
    if not parents:
        return function(*args, **kwargs)
    with set_for(running, (*running.get(), *parents)):
        return function(*args, **kwargs)


def _is_under(layer: Any, activation: Activation) -> bool:
    link = getattr(layer, "_pullback_link", None)
    return link is not None and link.activations[0] is activation
