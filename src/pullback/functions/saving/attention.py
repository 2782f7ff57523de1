"""Attention without its matrix of weights in memory.

The weights of some queries towards all keys are computed at a time, once in the forward pass and once more in the
backward pass. What is held between the passes is the result and one number per query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pullback._project import describe
from pullback.errors import ArgumentError
from pullback.functions._arguments import arrays_for, in_models, require_rank, with_own_gradient
from pullback.functions.saving.attention_arguments import NAME as _NAME
from pullback.functions.saving.attention_arguments import (
    agree,
    groups_for_score,
    require_arrays,
    require_options,
    seed_of,
)

# A block of weights has as many entries at most: 4 MiB of float32.
_ENTRIES = 2**20


@in_models
def attention(
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    soft_cap: float | None = None,
    score: Callable[..., Any] | None = None,
    dropout: float = 0.0,
    seed: Any = None,
    return_logsumexp: bool = False,
) -> Any:
    """softmax(scale · q kᵀ) v, where the matrix of weights never is in memory.

    Use it in place of attention written out, or of `keras.ops.dot_product_attention`, wherever sequences are long: at
    4096 tokens and 4 heads the weights take 256 MiB, and their gradient several times that.

    - `q` is `[..., heads, queries, depth]`, `k` and `v` are `[..., heads, keys, depth]`, or have fewer heads, each of
      which then serves a group of query heads. `scale` is 1/√depth unless it is given.
    - `mask` is of booleans, true where a query may look at a key, of any shape that broadcasts to
      `[..., heads, queries, keys]`. `causal=True` lets a query look at keys up to its own place, the last query being
      at the last key; `window=w` at those less than `w` places away. A query that may look at nothing gives 0.
    - `score(scores, queries, keys)` changes a block of scores `[…, queries, keys]`, given the places of its queries and
      keys, the last query being at the last key. One of four parameters is given the numbers of the heads as well, of
      a shape that broadcasts to the scores: `tf.gather(slopes, heads)`. What it closes over has its gradient too.
      `soft_cap` makes scores `cap · tanh(score / cap)` after that.
    - `dropout` is the share of weights that are dropped, by `seed` (two whole numbers; drawn anew if it is not given).
    - With `return_logsumexp` the result is `(attention, log-sum-exp of each query's scores)`; both have gradients.

    >>> import pullback as pb, tensorflow as tf
    >>> q = k = tf.constant([[[1.0, 0.0], [0.0, 1.0]]])
    >>> v = tf.constant([[[1.0], [2.0]]])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(v)
    ...     y = pb.functions.attention(q, k, v, causal=True)
    >>> y.numpy().astype(float).round(3).tolist(), tape.gradient(y, v).numpy().astype(float).round(3).tolist()
    ([[[1.0], [1.67]]], [[[1.33], [0.67]]])
    """
    xp = arrays_for(q, k, v)
    q, k, v = (xp.asarray(each) for each in (q, k, v))
    require_arrays(xp, q, k, v)
    require_options(window, scale, soft_cap, score, dropout)
    if q.shape[-3] is None:
        k, v = (xp.require(_as_many_heads(xp, q, each), each, _HEADS) for each in (k, v))
    sizes = _Sizes.of(xp, q, k, v)
    share = 1 if sizes.heads is None else sizes.heads // sizes.groups
    mask = None if mask is None else _mask(xp, mask, sizes)
    if dropout:
        seed = xp.random_seed() if seed is None else seed_of(xp, seed)
    options = _Options(
        causal,
        window,
        scale,
        soft_cap,
        score,
        float(dropout),
        share,
        (False, False) if mask is None else (mask.shape[0] != 1, mask.shape[2] != 1),
        None if score is None else groups_for_score(score, k.shape[-3]),
    )
    grouped = xp.reshape(q, [-1, share, sizes.queries, sizes.depth])
    groups = xp.extent(grouped, 0)
    found, sums = _attention(
        grouped,
        xp.reshape(k, [groups, sizes.keys, sizes.depth]),
        xp.reshape(v, [groups, sizes.keys, sizes.values]),
        mask,
        seed if dropout else None,
        options=options,
    )
    heads = xp.extent(q, -3)
    found = xp.reshape(found, [*sizes.leading, heads, sizes.queries, sizes.values])
    if not return_logsumexp:
        return found
    return found, xp.reshape(sums, [*sizes.leading, heads, sizes.queries])


class _Options(NamedTuple):
    causal: bool
    window: int | None
    scale: float | None
    cap: float | None
    score: Callable[..., Any] | None
    dropout: float
    share: int  # query heads for each head of keys
    mask_axes: tuple[bool, bool]  # whether a mask differs between groups, and between queries
    groups: int | None  # of an example, where the score function asks for heads


class _Sizes(NamedTuple):
    leading: list[Any]
    heads: int | None  # unknown only where they are as many as the groups
    groups: int
    queries: Any
    keys: Any
    depth: Any
    values: Any

    @classmethod
    def of(cls, xp: Any, q: Any, k: Any, v: Any) -> _Sizes:
        leading = [xp.extent(q, a) for a in range(len(q.shape) - 3)]
        heads, groups = q.shape[-3], xp.extent(k, -3)
        tokens = xp.extent(q, -2), xp.extent(k, -2)
        return cls(leading, heads, groups, *tokens, xp.extent(q, -1), xp.extent(v, -1))


@with_own_gradient
def _attention(q: Any, k: Any, v: Any, mask: Any, seed: Any, *, options: _Options) -> Any:
    """Of queries `[groups, heads of a group, queries, depth]`; the result, and the log-sum-exp of the scores."""
    xp = arrays_for(q)
    given = _Given(q, k, v, mask, seed)
    found, sums = xp.program(_forward, options=options)(given)

    def attention_pullback(dfound: Any, dsums: Any) -> Any:
        run = xp.program(_backward, options=options)
        dq, dk, dv = run(given, found, sums, dfound, dsums)
        return {"q": dq, "k": dk, "v": dv}

    return (found, sums), attention_pullback


class _Given(NamedTuple):
    q: Any
    k: Any
    v: Any
    mask: Any
    seed: Any


class _Blocks:
    """Some groups at a time, and some queries of these."""

    def __init__(self, given: _Given, options: _Options) -> None:
        self.xp: Any = arrays_for(given.q)
        self.given, self.options = given, options
        xp, share = self.xp, options.share
        self.all, self.queries = xp.extent(given.q, 0), xp.extent(given.q, 2)
        self.keys = xp.extent(given.k, 1)
        self.dtype = xp.wide(given.q).dtype
        whole = xp.at_least_one(self.keys) * share
        self.down, self.rows = xp.equal_blocks(self.queries, xp.at_least_one(_ENTRIES // whole))
        per_group = xp.at_least_one(self.rows) * whole
        self.across, self.groups = xp.equal_blocks(self.all, xp.at_least_one(_ENTRIES // per_group))
        depth = xp.astype(xp.extent(given.q, 3), self.dtype)
        self.scale = 1.0 / xp.sqrt(depth) if options.scale is None else options.scale

    def group(self, i: Any) -> tuple[Any, Any]:
        """Where a block of groups starts, and which of them are in no block before."""
        xp = self.xp
        start = xp.minimum(i * self.groups, self.all - self.groups)
        return start, start + xp.arange(self.groups) >= i * self.groups

    def row(self, j: Any) -> tuple[Any, Any]:
        """Where a block of queries starts, and which of them are in no block before."""
        xp = self.xp
        start = xp.minimum(j * self.rows, self.queries - self.rows)
        return start, start + xp.arange(self.rows) >= j * self.rows

    def of_groups(self, array: Any, at: Any) -> Any:
        """The part of an array for a block of groups, in the dtype of the computation."""
        return self.xp.astype(self.xp.block(array, at, self.groups, 0), self.dtype)

    def of_rows(self, array: Any, start: Any) -> Any:
        """The part of an array of groups for a block of queries; the heads of a group are rows as well."""
        return self.flat(self.xp.block(array, start, self.rows, 2))

    def flat(self, block: Any) -> Any:
        """Heads and queries as one axis."""
        xp, rest = self.xp, [self.xp.extent(block, a) for a in range(3, len(block.shape))]
        return xp.reshape(block, [self.groups, self.options.share * self.rows, *rest])

    def unflat(self, block: Any) -> Any:
        """Heads and queries as two axes again."""
        xp, rest = self.xp, [self.xp.extent(block, a) for a in range(2, len(block.shape))]
        return xp.reshape(block, [self.groups, self.options.share, self.rows, *rest])

    def scores(self, q: Any, k: Any) -> Any:
        """The products of queries and keys, with heads and queries as two axes."""
        return self.unflat(self.xp.matmul(q * self.scale, k, transpose_b=True))

    def places(self, start: Any) -> tuple[Any, Any]:
        """The places of the queries of a block, as a column, and of all keys, as a row; both end at the same place."""
        xp = self.xp
        queries = start + xp.arange(self.rows) + (self.keys - self.queries)
        return queries[:, None], xp.arange(self.keys)[None, :]

    def heads(self, at: Any) -> list[Any]:
        """The numbers of the heads of a block, where the score function asks for them."""
        xp, share, groups = self.xp, self.options.share, self.options.groups
        if groups is None:
            return []
        first = (at + xp.arange(self.groups)) % groups * share
        return [(first[:, None] + xp.arange(share)[None, :])[:, :, None, None]]

    def changed(self, scores: Any, at: Any, start: Any) -> Any:
        """The scores after the score function and the cap."""
        xp, options = self.xp, self.options
        if options.score is not None:
            changed = options.score(scores, *self.places(start), *self.heads(at))
            scores = xp.like_block(changed, scores, _NAME)
        return scores if options.cap is None else options.cap * xp.tanh(scores / options.cap)

    def allowed(self, at: Any, start: Any) -> Any:
        """Which queries of a block may look at which keys; `None`: all at all."""
        options, found = self.options, self._masked(at, start)
        if options.causal or options.window is not None:
            queries, keys = self.places(start)
            ahead = keys - queries
            places = ahead <= 0 if options.causal else ahead < options.window
            if options.window is not None:
                places = places & (ahead > -options.window)
            found = places if found is None else found & places
        return found

    def _masked(self, at: Any, start: Any) -> Any:
        xp, mask = self.xp, self.given.mask
        if mask is None:
            return None
        of_groups, of_queries = self.options.mask_axes
        mask = xp.block(mask, at, self.groups, 0) if of_groups else mask
        return xp.block(mask, start, self.rows, 2) if of_queries else mask

    def written(self, array: Any, start: Any, part: Any, new: Any, axis: int) -> Any:
        """The array with a block of it; each dropout has a block of its own, so that what is there already stays."""
        xp = self.xp
        if self.options.dropout:
            there = xp.block(array, start, xp.extent(part, axis), axis)
            ones = [-1 if a == axis else 1 for a in range(len(part.shape))]
            part = xp.where(xp.reshape(new, ones), part, there)
        return xp.with_block(array, start, part, axis)

    def kept(self, at: Any, start: Any, like: Any) -> Any:
        """What dropout multiplies the weights of a block with; the same in both passes."""
        places = self.xp.stacked_pair(at, start)
        return self.xp.dropout_mask(like, self.given.seed, places, self.options.dropout)


def _forward(given: _Given, *, options: _Options) -> tuple[Any, Any]:
    blocks = _Blocks(given, options)
    xp, dtype = blocks.xp, blocks.dtype
    values = xp.extent(given.v, 2)

    def groups(i: Any, found: Any, sums: Any) -> tuple[Any, Any]:
        at, own = blocks.group(i)
        q, k, v = (blocks.of_groups(each, at) for each in given[:3])

        def queries(j: Any, found: Any, sums: Any) -> tuple[Any, Any]:
            start, new = blocks.row(j)
            s = blocks.changed(blocks.scores(blocks.of_rows(q, start), k), at, start)
            allowed = blocks.allowed(at, start)
            s = s if allowed is None else xp.where(allowed, s, xp.minus_infinity(s))
            top = xp.max(s, 3, keepdims=True)
            top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
            weights = xp.exp(s - top)
            total = xp.sum(weights, 3)
            if options.dropout:
                weights = weights * blocks.kept(at, start, weights)
            out = xp.divide_or_zero(
                xp.matmul(blocks.flat(weights), v), blocks.flat(total)[..., None]
            )
            found = blocks.written(found, start, blocks.unflat(out), new, 2)
            return found, xp.with_block(sums, start, top[..., 0] + xp.log(total), 2)

        nothing = xp.zeros([blocks.groups, options.share, blocks.queries, values], dtype)
        part, logs = xp.repeated(blocks.down, queries, (nothing, nothing[..., 0]))
        found = blocks.written(found, at, xp.astype(part, found.dtype), own, 0)
        return found, xp.with_block(sums, at, logs, 0)

    shape = [blocks.all, options.share, blocks.queries]
    start = xp.zeros([*shape, values], given.q.dtype), xp.zeros(shape, dtype)
    return xp.repeated(blocks.across, groups, start)  # pyright: ignore[reportReturnType]  # as many as given


def _backward(
    given: _Given, found: Any, sums: Any, dfound: Any, dsums: Any, *, options: _Options
) -> tuple[Any, ...]:
    blocks = _Blocks(given, options)
    xp = blocks.xp

    def groups(i: Any, *written: Any) -> tuple[Any, ...]:
        at, own = blocks.group(i)
        everything = [blocks.of_groups(a, at) for a in (*given[:3], found, sums, dfound, dsums)]
        q, k, v = everything[:3]

        def queries(j: Any, dq: Any, dk: Any, dv: Any) -> tuple[Any, ...]:
            start, new = blocks.row(j)
            rows = [blocks.of_rows(a, start) for a in (q, *everything[3:])]
            ds, weights = _to_scores(blocks, at, start, rows, k, v)
            # Rows that an earlier block has had are written again, with the same result, but not added again.
            once = xp.for_each_head(new, options.share)[:, None]
            query, dout = (xp.where(once, a, xp.zeros_like(a)) for a in (rows[0], rows[3]))
            dk = dk + xp.matmul(ds, query * blocks.scale, transpose_a=True)
            dv = dv + xp.matmul(weights, dout, transpose_a=True)
            return (
                blocks.written(dq, start, blocks.unflat(xp.matmul(ds, k) * blocks.scale), new, 2),
                dk,
                dv,
            )

        state = tuple(map(xp.zeros_like, (q, k, v)))
        parts = xp.repeated(blocks.down, queries, state)
        pairs = zip(written, parts, strict=True)
        return tuple(blocks.written(w, at, xp.astype(p, w.dtype), own, 0) for w, p in pairs)

    return xp.repeated(blocks.across, groups, tuple(map(xp.zeros_like, given[:3])))


def _to_scores(
    blocks: _Blocks, at: Any, start: Any, rows: list[Any], k: Any, v: Any
) -> tuple[Any, Any]:
    """The gradient of the scores, and the weights, of a block; all rows flat."""
    xp, options = blocks.xp, blocks.options
    q, found, sums, dfound, dsums = rows
    plain = blocks.scores(q, k)
    s = blocks.changed(plain, at, start)
    allowed = blocks.allowed(at, start)
    s = s if allowed is None else xp.where(allowed, s, xp.minus_infinity(s))
    sums = xp.where(xp.isfinite(sums), sums, xp.zeros_like(sums))
    weights = xp.exp(blocks.flat(s) - sums[..., None])
    dweights = xp.matmul(dfound, v, transpose_b=True)
    dropped = weights
    if options.dropout:
        kept = blocks.flat(blocks.kept(at, start, s))
        dweights, dropped = dweights * kept, weights * kept
    mean = xp.sum(dfound * found, 2, keepdims=True) - dsums[..., None]
    ds = weights * (dweights - mean)
    if options.score is not None or options.cap is not None:
        ds = blocks.flat(xp.vjp(lambda p: blocks.changed(p, at, start), plain, blocks.unflat(ds)))
    return ds, dropped


def _mask(xp: Any, mask: Any, sizes: _Sizes) -> Any:
    """A mask with axes for groups, heads of a group, queries and keys, each of size one where nothing depends on it."""
    found = xp.as_condition(mask)
    if found is None:
        raise ArgumentError(
            f"pb.functions.{_NAME} got a mask {describe(xp.asarray(mask))}; wanted booleans, true where a query may "
            "look at a key. For numbers to be added to the scores, write score=lambda s, queries, keys: s + ..."
        )
    whole = [*sizes.leading, sizes.groups if sizes.heads is None else sizes.heads]
    whole += [sizes.queries, sizes.keys]
    require_rank(_NAME, mask=found)
    known = [n if isinstance(n, int) else None for n in whole]
    fits = len(found.shape) <= len(whole)
    pairs = zip(reversed(found.shape), reversed(known), strict=False)
    if not fits or not all(n == 1 or agree(n, m) for n, m in pairs):
        shape = ", ".join("?" if n is None else str(n) for n in known)
        raise ArgumentError(
            f"pb.functions.{_NAME} got a mask {describe(found)}; wanted one that broadcasts to [..., heads, queries, "
            f"keys], which are [{shape}]. For one as [batch, queries, keys] write mask[:, None]."
        )
    share = 1 if sizes.heads is None else sizes.heads // sizes.groups
    return xp.grouped_mask(found, whole, sizes.groups, share)


_HEADS = (
    f"pb.functions.{_NAME} got other heads of k and v than of q. Where each of them serves several heads of q, the "
    "number of heads must be known when the program is traced, as with ensure_shape."
)


def _as_many_heads(xp: Any, one: Any, other: Any) -> Any:
    return xp.extent(one, -3) == xp.extent(other, -3)
