"""Values that are more than one tensor: where their numbers are, and whether those of a gradient belong to the same.

Every one has exactly one tensor in which its gradient lives: the flat values of a RaggedTensor, the values of
IndexedSlices and of a SparseTensor. The rest says to which places these belong. A gradient that is such a value, too,
says so itself: a SparseTensor is put in order by its indices, others must have the places of the input.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private

COMPOSITE = (tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices)


class Places(NamedTuple):
    """The class of a composite value, and what says where its numbers belong."""

    kind: type
    tensors: tuple[Any, ...]

    @property
    def elsewhere(self) -> str:
        """What does not fit."""
        return {
            tf.RaggedTensor: "RaggedTensor with other row splits",
            tf.SparseTensor: "SparseTensor of another dense shape, or with entries where the input has none",
            tf.IndexedSlices: "set of IndexedSlices with other indices, or of another dense shape",
        }[self.kind]

    @property
    def way_out(self) -> str:
        """What to write for a gradient that fits."""
        return {
            tf.RaggedTensor: "with the row splits of the input. Write x.with_flat_values(...)",
            tf.SparseTensor: "with the indices of the input. Write x.with_values(...)",
            tf.IndexedSlices: "of the rows of the input. Write tf.IndexedSlices(..., x.indices, x.dense_shape)",
        }[self.kind]


def places_of(leaf: Any) -> Places | None:
    """Where the numbers of a composite value belong; nothing of any other."""
    if isinstance(leaf, tf.RaggedTensor):
        return Places(tf.RaggedTensor, tuple(leaf.nested_row_splits))
    if isinstance(leaf, tf.SparseTensor):
        return Places(tf.SparseTensor, (leaf.indices, leaf.dense_shape))
    if isinstance(leaf, tf.IndexedSlices):
        shape = leaf.dense_shape
        return Places(tf.IndexedSlices, (leaf.indices,) if shape is None else (leaf.indices, shape))
    return None


def numbers_of(leaf: Any) -> Any:
    """The tensor of numbers in a composite value; any other value as it is."""
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.flat_values
    return leaf.values if isinstance(leaf, (tf.IndexedSlices, tf.SparseTensor)) else leaf


def with_numbers(leaf: Any, tensor: Any) -> Any:
    """The same composite value around another tensor."""
    if isinstance(leaf, tf.RaggedTensor):
        return leaf.with_flat_values(tensor)
    if isinstance(leaf, tf.SparseTensor):
        return leaf.with_values(tensor)
    return tf.IndexedSlices(tensor, leaf.indices, leaf.dense_shape)


def in_same_places(gradient: Any, wanted: Places) -> bool | None:
    """Whether a gradient of the right class has its numbers where they belong; `None` where only a run will tell."""
    pairs = _pairs(gradient, wanted)
    if pairs is None:
        return False
    same = [_is_same(a, b) for a, b in pairs]
    if wanted.kind is tf.SparseTensor and same[0] is False:
        same[0] = None  # its entries may come in any order
    return False if False in same else (None if None in same else True)


def _pairs(gradient: Any, wanted: Places) -> list[tuple[Any, Any]] | None:
    """What has to be the same in both; the dense shape of slices may be left open."""
    came = places_of(gradient)
    if came is None or came.kind is not wanted.kind:
        return None
    is_open = wanted.kind is tf.IndexedSlices
    if not is_open and len(came.tensors) != len(wanted.tensors):
        return None
    return list(zip(came.tensors, wanted.tensors, strict=False))


def _is_same(came: Any, wanted: Any) -> bool | None:
    if came is wanted:
        return True
    if not came.shape.is_compatible_with(wanted.shape):
        return False
    known = tf.get_static_value(came), tf.get_static_value(wanted)
    if any(value is None for value in known):
        return None
    return known[0].shape == known[1].shape and bool((known[0] == known[1]).all())


def brought_into_place(gradient: Any, wanted: Places) -> tuple[Any, Any]:
    """The numbers of a gradient in the order of the input's, and whether all of them have a place there."""
    if isinstance(gradient, tf.SparseTensor):
        return _by_index(gradient, *wanted.tensors)
    same = [_equal(a, b) for a, b in _pairs(gradient, wanted) or ()]
    return numbers_of(gradient), tf.reduce_all(same)


def _equal(came: Any, wanted: Any) -> Any:
    came, wanted = tf.cast(came, tf.int64), tf.cast(wanted, tf.int64)
    least = tf.minimum(tf.size(came), tf.size(wanted))
    return (tf.size(came) == tf.size(wanted)) & tf.reduce_all(came[:least] == wanted[:least])


def _by_index(gradient: tf.SparseTensor, indices: Any, shape: Any) -> tuple[Any, Any]:
    """An entry that the gradient lacks is zero, as in every SparseTensor; one that the input lacks has no place."""
    known = [
        tf.get_static_value(t) for t in (gradient.indices, gradient.dense_shape, indices, shape)
    ]
    if any(value is None for value in known):
        place, count, right = _places(gradient.indices, gradient.dense_shape, indices, shape)
    else:  # found out before the program runs
        with private.eager_mode():
            place, count, right = (t.numpy() for t in _places(*map(tf.constant, known)))
    numbers = tf.math.unsorted_segment_sum(gradient.values, place, count + 1)
    return numbers[:count], right


def _places(theirs: Any, their_shape: Any, ours: Any, our_shape: Any) -> tuple[Any, Any, Any]:
    """The place of each entry among ours, how many there are, and whether each has one."""
    steps = tf.math.cumprod(our_shape, exclusive=True, reverse=True)
    our_keys, their_keys = tf.reduce_sum(ours * steps, 1), tf.reduce_sum(theirs * steps, 1)
    order = tf.argsort(our_keys)
    in_order = tf.gather(our_keys, order)
    # One more, so that there is always an entry to look at: one that is nobody's.
    found = tf.gather(
        tf.concat([order, [tf.size(order)]], 0), tf.searchsorted(in_order, their_keys)
    )
    entries = tf.gather(tf.pad(ours, [[0, 1], [0, 0]], constant_values=-1), found)
    there = tf.reduce_all(entries == theirs, 1)  # keys wrap around in shapes of 2⁶³ entries
    place = tf.where(there, found, tf.size(our_keys))
    once = tf.reduce_all(in_order[1:] != in_order[:-1])
    return place, tf.size(our_keys), tf.reduce_all(there) & once & _equal(their_shape, our_shape)
