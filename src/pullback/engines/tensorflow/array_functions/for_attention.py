"""What attention by blocks computes with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from pullback.errors import ArgumentError


def at_least_one(number: Any) -> Any:
    """A number of things by which something is divided."""
    return max(number, 1) if isinstance(number, int) else tf.maximum(number, 1)


def minus_infinity(array: Any) -> Any:
    """In the dtype of an array."""
    return tf.constant(float("-inf"), array.dtype)


def random_seed() -> Any:
    """Two whole numbers, drawn by the framework's own generator."""
    low, high = tf.int32.limits
    return tf.random.uniform([2], low, high, tf.int32)


def stacked_pair(first: Any, second: Any) -> Any:
    """Two whole numbers as an array."""
    return tf.stack([tf.cast(first, tf.int32), tf.cast(second, tf.int32)])


def dropout_mask(like: Any, seed: Any, places: Any, rate: float) -> Any:
    """Zeros for a share of the entries, and for the others what keeps the mean; by a seed and a place."""
    random: Any = tf.random  # whose stubs do not know all of it
    own = random.fold_in(random.fold_in(seed, places[0]), places[1])
    draws = random.stateless_uniform(tf.shape(like), own, dtype=tf.float32)
    return tf.where(draws >= rate, tf.cast(1.0 / (1.0 - rate), like.dtype), tf.zeros_like(like))


def for_each_head(new: Any, share: int) -> Any:
    """A condition on rows for each of the heads that are rows as well."""
    return tf.tile(new, [share])


def like_block(found: Any, block: Any, function: str) -> Any:
    """What a score function gave, if it has the shape and dtype of its scores."""
    found = tf.convert_to_tensor(found, block.dtype) if not isinstance(found, tf.Tensor) else found
    if found.dtype != block.dtype or not found.shape.is_compatible_with(block.shape):
        raise ArgumentError(
            f"pb.functions.{function} got from score= {found.dtype.name} of shape {found.shape}; wanted what it was "
            f"given, {block.dtype.name} of shape {block.shape}."
        )
    return found


def grouped_mask(mask: Any, whole: Sequence[Any], groups: int, share: int) -> Any:
    """A mask of axes [groups, heads of a group, queries, keys], of size one where nothing depends on it."""
    rank, leading = len(whole), whole[:-3]
    for _ in range(rank - mask.shape.rank):
        mask = mask[None]
    if None in mask.shape.as_list():  # of an axis that may be of size one, or not
        pairs = zip(mask.shape, whole, strict=True)
        mask = tf.broadcast_to(mask, [m if n is None else n for n, m in pairs])
    alone = all(size == 1 for size in mask.shape[:-3])
    shape = tf.shape(mask)
    rest = [shape[-2] if mask.shape[-2] is None else mask.shape[-2], mask.shape[-1] or shape[-1]]
    heads = mask.shape[-3]
    if heads == 1:
        mask, own = tf.reshape(mask, [*_sizes(mask, rank - 3), 1, 1, *rest]), 1
    else:
        mask = tf.reshape(mask, [*_sizes(mask, rank - 3), groups, share, *rest])
        own = share
    if alone and heads == 1:
        return tf.reshape(mask, [1, 1, *rest])
    mask = tf.broadcast_to(mask, [*leading, groups, own, *rest])
    return tf.reshape(mask, [-1, own, *rest])


def _sizes(array: Any, count: int) -> list[Any]:
    shape = tf.shape(array)
    return [shape[a] if array.shape[a] is None else array.shape[a] for a in range(count)]
