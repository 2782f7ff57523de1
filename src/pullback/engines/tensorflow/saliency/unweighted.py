"""What lies before the first layers of a model: its inputs, rearranged, padded or in another unit.

Rules such as z^B and flat give relevances, and not multipliers, and so does an offset, which belongs to the unit of
what it is added to. Those of all first layers and of offsets before them are collected here, and brought back to the
inputs: as they are, whatever the unit, but for what fell on padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import tensorflow as tf

from pullback.engines.tensorflow.override.op_calls import varies

_REARRANGES: Final = frozenset(
    {"Cast", "ConcatV2", "ExpandDims", "Identity", "IdentityN", "MirrorPad", "Pack", "Pad", "PadV2", "Reshape",
     "ReverseV2", "Slice", "Split", "SplitV", "Squeeze", "StridedSlice", "Transpose", "Unpack"}
)  # fmt: skip
_CHANGES_UNIT: Final = frozenset({"Add", "AddV2", "BiasAdd", "Mul", "RealDiv", "Sub"})


class Unweighted:
    """The tensors that no layer with weights has read on the way to them, and relevances of some."""

    def __init__(self) -> None:
        self._kept: dict[Any, Any] = {}  # the tensors too, so that no two have one key
        self._looked_up: set[Any] = set()  # in a table of weights: no offset is a unit of these
        self.is_bringing = False  # relevances to the inputs, by gradients
        self._found: list[tuple[Any, Any, Any]] = []

    def add(self, tensors: Sequence[Any], *, looked_up: bool = False) -> None:
        """These are inputs, or made of them, or were looked up for them in a table of weights."""
        self._kept |= {_key(t): t for t in tensors}
        if looked_up:
            self._looked_up.update(map(_key, tensors))

    def is_in_other_unit(self, tensor: Any) -> bool:
        """Whether this is an input itself, in whatever form, and not what was looked up for it."""
        return tensor in self and _key(tensor) not in self._looked_up

    def __contains__(self, tensor: Any) -> bool:
        return _key(tensor) in self._kept

    def see(self, op_type: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """An operation ran: what it gives may be an input in another form."""
        if op_type in _REARRANGES or op_type in _CHANGES_UNIT:
            moving = [t for t in inputs if t.dtype.is_floating and varies(t)]
            several = op_type in _CHANGES_UNIT and len(moving) > 1
            if moving and not several and all(t in self for t in moving):
                self.add(outputs, looked_up=any(_key(t) in self._looked_up for t in moving))

    def collect(self, tensor: Any, relevance: Any, op: Any) -> None:
        """What a first layer gives one of these tensors."""
        self._found.append((self._kept[_key(tensor)], relevance, op))

    def brought_to(self, sources: Sequence[Any], tape: Any, absorbed: Any) -> list[Any]:
        """The relevances of inputs; `tape` has recorded how tensors were made of them."""
        self.is_bringing = True
        totals: list[Any] = [tf.zeros_like(source) for source in sources]
        for tensor, relevance, op in self._found:
            kept = tf.zeros_like(relevance)
            for i, source in enumerate(sources):
                share = _share(tensor, relevance, source, tape)
                if share is not None:
                    totals[i], kept = totals[i] + share[0], kept + share[1]
            absorbed(op, relevance - kept, None)
        return totals


def _share(tensor: Any, relevance: Any, source: Any, tape: Any) -> tuple[Any, Any] | None:
    """What a source has of a relevance, and from where in the tensor, each entry of which is made of one entry."""
    if tensor is source:
        return relevance, relevance
    zeros = tf.zeros_like(tensor)
    with tf.GradientTape() as again:
        again.watch(zeros)
        pulled = tape.gradient(tensor, source, output_gradients=zeros)
    if pulled is None:
        return None
    unit = again.gradient(pulled, zeros, output_gradients=tf.ones_like(source))
    back = tape.gradient(tensor, source, output_gradients=tf.math.divide_no_nan(relevance, unit))
    return back, tf.where(unit == 0, tf.zeros_like(relevance), relevance)


def _key(tensor: Any) -> Any:
    return id(tensor) if hasattr(tensor, "numpy") else (id(tensor.graph), tensor.name)
