"""Picking, sorting, segments, ragged and sparse values."""

# ruff: noqa: ANN001, ANN201, ANN202
from __future__ import annotations

import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed.cases import Mistake, family, normal, uniform


@family(
    lambda: (normal(150, 3, 6, scale=3.0),),
    sorted_places=Mistake("places", "the gradient goes to the first k places, not the largest"),
    one_more=Mistake("element", "the fourth largest gets the gradient of the third as well"),
    mean=Mistake("factor", "divided by k, which the function does not do"),
    first_row=Mistake("places", "the places of the first row are used for every row"),
    smallest=Mistake("places", "the gradient goes to the smallest entries"),
)
def top_three(slip):
    """The three largest of each row, in order."""

    @pb.custom_gradient
    def largest(x):
        values, places = tf.math.top_k(x, 3)

        def largest_pullback(dy):
            if slip == "sorted_places":
                return tf.pad(dy, [[0, 0], [0, 3]])
            index = places
            if slip == "first_row":
                index = tf.repeat(places[:1], 3, 0)
            if slip == "smallest":
                index = tf.math.top_k(-x, 3)[1]
            if slip == "one_more":
                index = tf.math.top_k(x, 4)[1]
                dy = tf.concat([dy, dy[:, -1:]], 1)
            dx = tf.einsum("bk,bkn->bn", dy, tf.one_hot(index, 6, dtype=x.dtype))
            return dx / 3 if slip == "mean" else dx

        return values, largest_pullback

    return largest


def _ragged_args():
    return normal(52, 7, 2), tf.constant([0, 3, 4, 4, 7])


@family(
    _ragged_args,
    longest=Mistake("factor", "every row is divided by the length of the longest row"),
    no_length=Mistake("factor", "not divided by the length of the row"),
    no_last=Mistake("element", "the last row gets no gradient"),
    next_row=Mistake("shifted", "each row gets the upstream of the row after it"),
)
def ragged_mean(slip):
    """Means of rows of different lengths, one of them empty."""

    @pb.custom_gradient
    def means(values, splits):
        lengths = splits[1:] - splits[:-1]
        rows = tf.repeat(tf.range(4), lengths)
        count = tf.cast(tf.maximum(lengths, 1), values.dtype)[:, None]
        total = tf.math.unsorted_segment_sum(values, rows, 4)

        def means_pullback(dy):
            by = tf.reduce_max(count) if slip == "longest" else count
            share = dy if slip == "no_length" else dy / by
            if slip == "no_last":
                share = tf.concat([share[:3], tf.zeros_like(share[3:])], 0)
            share = tf.roll(share, -1, 0) if slip == "next_row" else share
            return tf.gather(share, rows)

        return total / count, means_pullback

    return means


ROWS = [0, 0, 1, 2, 2, 2, 3]
COLUMNS = [0, 2, 1, 0, 3, 3, 2]


@family(
    lambda: (normal(53, 7), normal(54, 4)),
    not_transposed=Mistake("transposed", "A in place of its transpose in the gradient of x"),
    at_row=Mistake("places", "the values' gradient reads x at the row, not the column"),
    overwritten=Mistake("places", "entries in one column overwrite each other"),
    no_last=Mistake("element", "the last stored value gets no gradient"),
    merged=Mistake("element", "of two values at one place only the first gets a gradient"),
)
def sparse_product(slip):
    """A sparse matrix with a place stored twice, times a vector."""
    rows, columns = tf.constant(ROWS), tf.constant(COLUMNS)

    def collected(values, places):
        if slip == "overwritten":
            return tf.tensor_scatter_nd_update(tf.zeros_like(values[:4]), places[:, None], values)
        return tf.math.unsorted_segment_sum(values, places, 4)

    @pb.custom_gradient
    def product(values, x):
        def product_pullback(dy):
            from_rows, to = (columns, rows) if slip == "not_transposed" else (rows, columns)
            dx = collected(values * tf.gather(dy, from_rows), to)
            dvalues = tf.gather(dy, rows) * tf.gather(x, rows if slip == "at_row" else columns)
            keep = {"no_last": [1] * 6 + [0], "merged": [1] * 5 + [0, 1]}.get(slip, [1] * 7)
            return dvalues * tf.constant(keep, x.dtype), dx

        return tf.math.unsorted_segment_sum(
            values * tf.gather(x, columns), rows, 4
        ), product_pullback

    return product


@family(
    lambda: (normal(55, 8), tf.constant([0, 2, 0, 1, 2, 2, 1, 0])),
    whole=Mistake("axis", "the sum runs over everything, not over each segment"),
    diagonal=Mistake("term", "the sum over the segment is dropped"),
    last_segment=Mistake("element", "the last segment gets no gradient"),
    sorted_ids=Mistake("places", "ids are taken as if they were sorted"),
    detached=Mistake("second", "the probabilities are detached in the rule", "second"),
)
def segment_softmax(slip):
    def soft(x, ids):
        top = tf.gather(tf.math.unsorted_segment_max(x, ids, 3), ids)
        e = tf.exp(x - tf.stop_gradient(top))
        return e / tf.gather(tf.math.unsorted_segment_sum(e, ids, 3), ids)

    def inner(values, ids):
        if slip == "whole":
            return tf.reduce_sum(values)
        if slip == "diagonal":
            return tf.zeros_like(values)
        ids = tf.sort(ids) if slip == "sorted_ids" else ids
        return tf.gather(tf.math.unsorted_segment_sum(values, ids, 3), ids)

    @pb.custom_gradient
    def softmax(x, ids):
        def softmax_pullback(dy):
            p = soft(x, ids)
            p = tf.stop_gradient(p) if slip == "detached" else p
            dx = p * (dy - inner(p * dy, ids))
            return tf.where(ids == 2, tf.zeros_like(dx), dx) if slip == "last_segment" else dx

        return soft(x, ids), softmax_pullback

    return softmax


@family(
    lambda: (normal(56, 5, 2), tf.constant([[0, 3, 3], [4, 0, 1]]), normal(57, 2, 3)),
    overwritten=Mistake("places", "a row used twice gets the gradient of its last use alone"),
    no_weights=Mistake("missing", "the weights are not multiplied into the table's gradient"),
    padding_row=Mistake("element", "row 0 is taken for padding and gets no gradient"),
    weights_none=Mistake("none", "the weights get no gradient"),
    next_row=Mistake("shifted", "the gradient goes to the row before"),
)
def embedding_bag(slip):
    """Weighted sums of rows of a table."""

    @pb.custom_gradient
    def bag(table, ids, weights):
        rows = tf.gather(table, ids)

        def bag_pullback(dy):
            spread = dy[:, None, :] * (1.0 if slip == "no_weights" else weights[:, :, None])
            spread = spread + tf.zeros_like(rows)
            places = tf.reshape(ids, [-1, 1])
            places = (places + 4) % 5 if slip == "next_row" else places
            put = tf.tensor_scatter_nd_update if slip == "overwritten" else tf.tensor_scatter_nd_add
            dtable = put(tf.zeros_like(table), places, tf.reshape(spread, [-1, 2]))
            if slip == "padding_row":
                dtable = tf.concat([tf.zeros_like(dtable[:1]), dtable[1:]], 0)
            dweights = tf.einsum("bd,bkd->bk", dy, rows)
            return dtable, None, None if slip == "weights_none" else dweights

        return tf.reduce_sum(rows * weights[:, :, None], 1), bag_pullback

    return bag


@family(
    lambda: (normal(58, 8), tf.constant([0, 0, 1, 1, 1, 2, 2, 2])),
    ties_full=Mistake(
        "ties",
        "tied entries get the whole gradient each, so that it counts twice",
        at=lambda: (tf.constant([1.0, 1, 2, 0, 1, 3, 3, 0]), tf.constant([0, 0, 1, 1, 1, 2, 2, 2])),
        along="ones",
    ),
    all_share=Mistake("places", "every entry of a segment gets an equal share"),
    minimum=Mistake("places", "the smallest entry gets the gradient"),
    next_segment=Mistake("shifted", "each segment gets the upstream of the next one"),
)
def segment_maximum(slip):
    @pb.custom_gradient
    def maximum(x, ids):
        top = tf.math.segment_max(x, ids)

        def maximum_pullback(dy):
            chosen = -tf.math.segment_max(-x, ids) if slip == "minimum" else top
            hit = tf.cast(x == tf.gather(chosen, ids), x.dtype)
            hit = tf.ones_like(hit) if slip == "all_share" else hit
            count = tf.gather(tf.math.segment_sum(hit, ids), ids)
            dy = tf.roll(dy, -1, 0) if slip == "next_segment" else dy
            return tf.gather(dy, ids) * (hit if slip == "ties_full" else hit / count)

        return top, maximum_pullback

    return maximum


@family(
    lambda: (normal(59, 3, 7),),
    weights_swapped=Mistake("swapped", "the weights of the two neighbours are swapped"),
    lower_only=Mistake("term", "the lower neighbour gets the whole gradient"),
    one_rank_up=Mistake("shifted", "one rank too high"),
    unsorted=Mistake("places", "ranks are taken for places: the order is not undone"),
)
def quantile(slip):
    """The 0.4-quantile of each row, between two ranks: 2.4 of 0 to 6."""

    @pb.custom_gradient
    def at_rank(x):
        order = tf.argsort(x, axis=1)
        ranked = tf.gather(x, order, batch_dims=1)

        def at_rank_pullback(dy):
            low = 3 if slip == "one_rank_up" else 2
            by = {"weights_swapped": (0.4, 0.6), "lower_only": (1.0, 0.0)}.get(slip, (0.6, 0.4))
            places = tf.repeat(tf.range(7)[None], 3, 0) if slip == "unsorted" else order
            hot = tf.one_hot(places[:, low : low + 2], 7, dtype=x.dtype)
            return dy[:, None] * (by[0] * hot[:, 0] + by[1] * hot[:, 1])

        return 0.6 * ranked[:, 2] + 0.4 * ranked[:, 3], at_rank_pullback

    return at_rank


@family(
    lambda: (uniform(60, -2.0, 2.0, 9),),
    other_side=Mistake("mask", "the gradient flows where the value was cut, not where it was kept"),
    no_mask=Mistake("mask", "the gradient flows everywhere"),
    inverted_edge=Mistake("factor", "doubled where kept"),
    count=Mistake("factor", "divided by the number of entries kept"),
)
def winsorised(slip):
    """Cut at the second and second last value."""

    @pb.custom_gradient
    def cut(x):
        ranked = tf.sort(x)
        low, high = ranked[1], ranked[-2]

        def cut_pullback(dy):
            # By rank, so that of equal entries one is cut and one is the edge.
            order = tf.argsort(x)
            below, edge_below, edge_above, above = (
                tf.one_hot(order[k], x.shape[0], True, False) for k in (0, 1, -2, -1)
            )
            kept = tf.cast(~(below | above), x.dtype)
            if slip == "no_mask":
                return dy
            if slip == "other_side":
                return dy * (1 - kept)
            at_low = tf.reduce_sum(tf.where(below, dy, tf.zeros_like(dy)))
            at_high = tf.reduce_sum(tf.where(above, dy, tf.zeros_like(dy)))
            ends = tf.where(edge_below, at_low, tf.zeros_like(dy))
            ends = ends + tf.where(edge_above, at_high, tf.zeros_like(dy))
            scale = {"inverted_edge": 2.0, "count": 1 / 7}.get(slip, 1.0)
            return scale * dy * kept + ends

        return tf.clip_by_value(x, low, high), cut_pullback

    return cut
