"""Which features of a model are maps of places, for Grad-CAM where no layer was named.

They are what layers give, as whoever wrote the model sees it: a tensor inside a layer counts only once something
outside reads it. Inside, attention has axes for heads, and recurrent layers have the steps in front.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any, Final

import keras

from pullback.engines.tensorflow.override.places import Where
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import guarded

_MOVES: Final = frozenset({"Reshape", "Transpose"})
_MOVING_LAYERS: Final = (keras.layers.Reshape, keras.layers.Permute, keras.layers.EinsumDense)
_PLACES: Final = ("Conv", "Pool", "Depthwise")  # in the types of operation that make maps
_IMAGE: Final = 4  # axes of images, as of the inside of attention


class Features:
    """The maps that were seen in one run."""

    def __init__(self, model: Any, inputs: Sequence[Any]) -> None:
        self._model = model
        self._graph = getattr(inputs[0], "graph", None)
        self._count = inputs[0].shape[0]
        self._ranks = {
            t.shape.rank + more
            for t in inputs
            for more in ((0,) if t.dtype.is_floating else (0, 1))
        }
        # By identity: tensors that wait to leave layers, and those of images that are no features yet, or whose axes
        # may have changed their meaning.
        self._inside: dict[int, tuple[int, Any, str, list[Any]]] = {}
        self._moved = {id(t): t for t in inputs if t.shape.rank >= _IMAGE}
        self._found: list[tuple[int, Any, str]] = []
        self._order = 0
        self.is_by_step = False  # whether a layer ran something on each step

    def see(self, op_type: str, op_name: Any, inputs: Any, outputs: Any) -> None:
        """One operation of what is differentiated."""
        output, chain = outputs[0], self._running()
        self.is_by_step |= any(isinstance(each, keras.layers.TimeDistributed) for each in chain)
        self._let_out(inputs, chain)
        if not output.dtype.is_floating or getattr(output, "graph", None) is not self._graph:
            return
        if self._is_moved(op_type, inputs, output, chain):
            self._moved[id(output)] = output
        elif self._is_map(output):
            self._add(op_type, op_name, output, chain)

    def look_up(self, op_type: str, output: Any) -> None:
        """What is looked up for an input of whole numbers: a vector for each word, say, or a number for each pixel."""
        if output.shape.rank >= _IMAGE:
            self._moved[id(output)] = output
        elif op_type != "Cast" and self._is_map(output):
            self._add(op_type, None, output, self._running())

    def last(self, ends: Sequence[Any]) -> tuple[Any, str] | None:
        """The last map and the layer that gave it, apart from the end of the model."""
        known = [each for each in self._found if not any(each[1] is end for end in ends)]
        return max(known, key=lambda each: each[0])[1:] if known else None

    def _running(self) -> list[Any]:
        """The layers that are running, the innermost first, without models, whose insides are seen."""
        found: list[Any] = []
        frame = inspect.currentframe()
        while frame is not None:
            found.append(overriding.layer_called(frame))
            frame = frame.f_back
        layers = [e for e in found if e is not None and e is not self._model]
        return [e for e in layers if not isinstance(e, keras.Model)]

    def _let_out(self, inputs: Any, chain: list[Any]) -> None:
        for tensor in inputs:
            known = self._inside.get(id(tensor))
            if known and not any(each is layer for each in known[3] for layer in chain):
                order, _, name, _ = self._inside.pop(id(tensor))
                self._found.append((order, tensor, name))

    def _is_moved(self, op_type: str, inputs: Any, output: Any, chain: list[Any]) -> bool:
        if (output.shape.rank or 0) < _IMAGE or any(word in op_type for word in _PLACES):
            return False
        if chain and isinstance(chain[0], _MOVING_LAYERS):
            return True
        if not chain and op_type in _MOVES:
            return True
        alike = [t for t in inputs if t.dtype.is_floating and t.shape.rank == output.shape.rank]
        return bool(alike) and all(id(t) in self._moved for t in alike)

    def _is_map(self, output: Any) -> bool:
        shape = output.shape
        if shape.rank not in self._ranks or shape.rank < 3 or guarded.get():
            return False
        is_of_examples = shape[0] is None or shape[0] == self._count
        return is_of_examples and math.prod(n or 2 for n in shape[1:-1]) > 1

    def _add(self, op_type: str, op_name: Any, output: Any, chain: list[Any]) -> None:
        self._order += 1
        around = chain
        if chain and any(word in type(chain[0]).__name__ for word in _PLACES):
            # Convolutions show places in whatever layer of the user's they are.
            around = [e for e in chain if e is chain[0] or type(e).__module__.startswith("keras.")]
        if around:
            name = around[-1].path or around[-1].name
            self._inside[id(output)] = (self._order, output, name, around)
        else:
            place = Where(op_type, op_name).place
            self._found.append((self._order, output, place.layer or place.name))
