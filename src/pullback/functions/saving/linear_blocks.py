"""The cross-entropy of a linear layer, block by block: of some tokens and some classes at a time.

- `forward` gives the loss and the log-sum-exp of each token, one number for each of which is held.
- `backward` computes the logits once more, for any upstream per token.
- `forward_and_backward` is for an upstream that is known beforehand: it holds the logits of some tokens towards all
  classes until it has made gradients of them, so that no logit is computed twice.

Tokens that are ignored come last and are never computed. Logits are in float32 at least; products of the backward pass
are in the dtype of `x`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback.functions._arguments import arrays_for

# A block of logits has as many tokens and classes at most: 8 MiB of float32.
_TOKENS, _CLASSES = 1024, 2048
# The logits of as many tokens are held at a time, and pulled back for as many classes at a time: what is held is then
# half of the weights of depth 512. For fewer tokens, gradients of all weights are added to too often.
_HELD_TOKENS, _HELD_CLASSES = 256, 1024


class Options(NamedTuple):
    class_axis: int
    smoothing: float
    cap: float | None
    ignores: bool


class Given(NamedTuple):
    """Tokens in the order in which they are computed; `count` of them, all if it is `None`."""

    x: Any
    weights: Any
    bias: Any
    labels: Any
    scale: Any
    count: Any


class _Summed(NamedTuple):
    """What a forward pass knows of each token after some classes: log-sum-exp as maximum and sum, and more."""

    top: Any
    total: Any
    picked: Any  # the logit of the label
    smooth: Any  # what smoothing takes


class _ByToken(NamedTuple):
    """What a backward pass knows of each token."""

    sums: Any
    of_softmax: Any
    of_label: Any
    upstream: Any


class _Grid:
    """Blocks of tokens by blocks of classes, of as many as `most` says."""

    def __init__(self, given: Given, options: Options, most: tuple[int, int]) -> None:
        self.xp: Any = arrays_for(given.x)
        self.given, self.options = given, options
        xp = self.xp
        self.tokens = xp.extent(given.x, 0)
        self.classes = xp.extent(given.weights, options.class_axis)
        self.most_down, self.rows = xp.equal_blocks(self.tokens, most[0])
        alone = isinstance(self.most_down, int) and self.most_down == 1
        self.down = self.most_down
        if given.count is not None and not alone:
            self.down = -(-given.count // xp.maximum(self.rows, 1))
        self.across, self.columns = xp.equal_blocks(self.classes, most[1])
        even = isinstance(self.classes, int) and self.across * self.columns == self.classes
        self.overlaps = not even
        self.dtype = xp.wide(given.x).dtype

    def row(self, i: Any) -> tuple[Any, Any]:
        """Where the tokens of a block start, and which of them are in no block before and are not ignored."""
        xp = self.xp
        start = xp.minimum(i * self.rows, self.tokens - self.rows)
        number = start + xp.arange(self.rows)
        end = self.tokens if self.given.count is None else self.given.count
        return start, (number >= i * self.rows) & (number < end)

    def column(self, j: Any) -> tuple[Any, Any]:
        """Where the classes of a block start, and which of them are in no block before."""
        start = self.xp.minimum(j * self.columns, self.classes - self.columns)
        return start, start + self.xp.arange(self.columns) >= j * self.columns

    def of_tokens(self, array: Any, start: Any) -> Any:
        """The part of an array that belongs to a block of tokens."""
        return self.xp.block(array, start, self.rows, 0)

    def of_classes(self, array: Any, start: Any, axis: int = 0) -> Any:
        """The part of an array that belongs to a block of classes."""
        return self.xp.block(array, start, self.columns, axis)

    def counted(self, per_token: Any) -> Any:
        """Numbers of tokens, 0 for those that are not computed."""
        if self.given.count is None:
            return per_token
        computed = self.xp.arange(self.tokens) < self.given.count
        return self.xp.where(computed, per_token, self.xp.zeros_like(per_token))

    def with_added(self, array: Any, start: Any, part: Any) -> Any:
        """An array, with something added to a block of tokens."""
        return self.xp.with_block(array, start, self.of_tokens(array, start) + part, 0)

    def logits(self, x: Any, weights: Any, start: Any) -> Any:
        """The logits of blocks of tokens and weights."""
        xp, options = self.xp, self.options
        z = xp.matmul(x, xp.astype(weights, self.dtype), transpose_b=options.class_axis == 0)
        if self.given.bias is not None:
            z = z + xp.astype(self.of_classes(self.given.bias, start), self.dtype)
        return z if options.cap is None else options.cap * xp.tanh(z / options.cap)

    def place_of_label(self, labels: Any, j: Any, start: Any) -> tuple[Any, Any]:
        """The column of each label in a block of classes, and whether it is there."""
        mine = (labels >= j * self.columns) & (labels < start + self.columns)
        return self.xp.clamp(labels - start, 0, self.columns - 1), mine

    def to_logits(self, z: Any, new: Any, start: Any, at: Any, by_token: _ByToken) -> Any:
        """The gradient of the logits of a block, in which only new tokens count."""
        xp, options = self.xp, self.options
        sums, of_softmax, of_label, upstream = by_token
        zero = xp.zeros_like(sums)
        of_softmax, of_label = xp.where(new, of_softmax, zero), xp.where(new, of_label, zero)
        # Far above all logits where nothing counts, so that nothing overflows.
        sums = xp.where(new, sums, zero - xp.lowest(self.dtype))
        dz = xp.exp(z - sums[:, None]) * of_softmax[:, None]
        labels = self.of_tokens(self.given.labels, start)
        here = (labels >= at) & (labels < at + self.columns)
        column = xp.clamp(labels - at, 0, self.columns - 1)
        dz = xp.less_at(dz, column, xp.where(here, of_label, zero))
        if options.smoothing:
            dz = dz - xp.where(new, upstream, zero)[:, None] * self.smoothing_of(at)
        return dz if options.cap is None else dz * (1.0 - xp.square(z / options.cap))

    def nothing_summed(self) -> _Summed:
        """The state of a forward pass over no class."""
        zero = self.xp.zeros([self.rows], self.dtype)
        return _Summed(zero + self.xp.lowest(self.dtype), zero, zero, zero)

    def summed(self, before: _Summed, z: Any, labels: Any, j: Any) -> _Summed:
        """The state of a forward pass after one more block of logits."""
        xp, (top, total, picked, smooth) = self.xp, before
        at, fresh = self.column(j)
        column, mine = self.place_of_label(labels, j, at)
        picked = picked + xp.where(mine, xp.picked(z, column), xp.zeros_like(picked))
        if self.options.smoothing:
            weighted = xp.where(fresh, z * self.smoothing_of(at), xp.zeros_like(z))
            smooth = smooth + xp.sum(weighted, 1)
        z = xp.where(fresh, z, xp.lowest(self.dtype)) if self.overlaps else z
        higher = xp.maximum(top, xp.max(z, 1))
        added = xp.sum(xp.exp(z - higher[:, None]), 1)
        return _Summed(higher, total * xp.exp(top - higher) + added, picked, smooth)

    def losses(self, state: _Summed, labels: Any, share: Any, whole: Any) -> tuple[Any, Any]:
        """The losses and the log-sum-exps of a block of tokens, once all classes are summed."""
        xp = self.xp
        logsumexp = state.top + xp.log(state.total)
        # For compiled programs, which have no errors when they run; of no number there is no gradient either.
        logsumexp = xp.where(labels >= 0, logsumexp, xp.nan_like(logsumexp))
        # Differences before products: of the same size as the loss.
        loss = share * (logsumexp - state.picked)
        if self.options.smoothing:
            loss = loss + (whole - share) * logsumexp - state.smooth
        return loss, logsumexp

    def products(self, x: Any, dz: Any, weights: Any) -> tuple[Any, Any]:
        """The gradients of blocks of tokens and weights, by that of their logits."""
        xp, last = self.xp, self.options.class_axis == 1
        to_weights = (
            xp.matmul(x, dz, transpose_a=True) if last else xp.matmul(dz, x, transpose_a=True)
        )
        to_x = xp.matmul(dz, weights, transpose_b=last)
        return xp.astype(to_x, self.dtype), xp.astype(to_weights, self.dtype)

    def shares(self) -> tuple[Any, Any]:
        """The weight of the label of each token, and that of all classes together."""
        xp, smoothing, scale = self.xp, self.options.smoothing, self.given.scale
        if scale is None:
            return xp.ones_like(self.given.labels, self.dtype) * (1.0 - smoothing), 1.0
        own = xp.rows_at(scale, self.given.labels) * (1.0 - smoothing)
        return own, own + smoothing * xp.mean(scale)

    def smoothing_of(self, start: Any) -> Any:
        """What smoothing gives to each class of a block, in the whole."""
        part = self.options.smoothing / self.xp.astype(self.classes, self.dtype)
        scale = self.given.scale
        return part if scale is None else part * self.of_classes(scale, start)


def forward(given: Given, *, options: Options) -> tuple[Any, Any]:
    """The loss of each token and the log-sum-exp of its logits; 0 for those that are not counted."""
    grid = _Grid(given, options, (_TOKENS, _CLASSES))
    xp = grid.xp
    own, whole = grid.shares()

    def tokens(i: Any, losses: Any, sums: Any) -> tuple[Any, Any]:
        start, _ = grid.row(i)
        x = xp.astype(grid.of_tokens(given.x, start), grid.dtype)
        labels = grid.of_tokens(given.labels, start)

        def classes(j: Any, *state: Any) -> _Summed:
            at, _ = grid.column(j)
            z = grid.logits(x, grid.of_classes(given.weights, at, options.class_axis), at)
            return grid.summed(_Summed(*state), z, labels, j)

        state = xp.repeated(grid.across, classes, grid.nothing_summed())
        every = whole if isinstance(whole, float) else grid.of_tokens(whole, start)
        share = grid.of_tokens(own, start)
        loss, logsumexp = grid.losses(_Summed(*state), labels, share, every)
        return xp.with_block(losses, start, loss, 0), xp.with_block(sums, start, logsumexp, 0)

    nothing = xp.zeros([grid.tokens], grid.dtype)
    losses, sums = xp.repeated(grid.down, tokens, (nothing, nothing), grid.most_down)
    return grid.counted(losses), grid.counted(sums)


def backward(
    given: Given, sums: Any, dlosses: Any, dsums: Any, *, options: Options
) -> tuple[Any, Any, Any]:
    """The gradients of `x`, weights and bias for an upstream per token."""
    grid = _Grid(given, options, (_TOKENS, _CLASSES))
    xp, dtype, last = grid.xp, grid.dtype, options.class_axis == 1
    own, whole = grid.shares()
    per_token = _ByToken(sums, dlosses * whole + dsums, dlosses * own, dlosses)

    def classes(j: Any, dx: Any, dweights: Any, dbias: Any) -> tuple[Any, ...]:
        at, fresh = grid.column(j)
        weights = grid.of_classes(given.weights, at, options.class_axis)
        # What earlier blocks have added is not added again; what they have written is, with the same result.
        once = xp.astype(weights, given.x.dtype)
        if grid.overlaps:
            once = xp.where(fresh if last else fresh[:, None], once, xp.zeros_like(once))

        def tokens(i: Any, dx: Any, dw: Any, db: Any) -> tuple[Any, ...]:
            start, new = grid.row(i)
            x = grid.of_tokens(given.x, start)
            z = grid.logits(xp.astype(x, dtype), weights, at)
            by_token = _ByToken(*(grid.of_tokens(v, start) for v in per_token))
            dz = grid.to_logits(z, new, start, at, by_token)
            to_x, added = grid.products(x, xp.astype(dz, x.dtype), once)
            db = db if given.bias is None else db + xp.sum(dz, 0)
            return grid.with_added(dx, start, to_x), dw + added, db

        state = (dx, xp.zeros_like(weights, dtype), xp.zeros([grid.columns], dtype))
        dx, dw, db = xp.repeated(grid.down, tokens, state, grid.most_down)
        dweights = xp.with_block(dweights, at, xp.astype(dw, dweights.dtype), options.class_axis)
        if given.bias is not None:
            dbias = xp.with_block(dbias, at, xp.astype(db, dbias.dtype), 0)
        return dx, dweights, dbias

    bias = xp.zeros([0], dtype) if given.bias is None else xp.zeros_like(given.bias)
    start = (xp.zeros_like(given.x, dtype), xp.zeros_like(given.weights), bias)
    dx, dweights, dbias = xp.repeated(grid.across, classes, start)
    return xp.astype(dx, given.x.dtype), dweights, None if given.bias is None else dbias


def forward_and_backward(
    given: Given, upstream: Any, *, options: Options
) -> tuple[Any, Any, Any, Any]:
    """The loss of each token, and the gradients of `x`, weights and bias for an upstream per token.

    All of them are of one dtype.
    """
    grid = _Grid(given, options, (_HELD_TOKENS, _HELD_CLASSES))
    xp, dtype = grid.xp, grid.dtype
    own, whole = grid.shares()

    def tokens(i: Any, held: Any, losses: Any, *gradients: Any) -> tuple[Any, ...]:
        start, new = grid.row(i)
        x, labels, share, by = (
            grid.of_tokens(v, start) for v in (given.x, given.labels, own, upstream)
        )
        every = whole if isinstance(whole, float) else grid.of_tokens(whole, start)

        def fill(j: Any, held: Any, *state: Any) -> tuple[Any, ...]:
            at, _ = grid.column(j)
            z = grid.logits(x, grid.of_classes(given.weights, at, options.class_axis), at)
            state = grid.summed(_Summed(*state), z, labels, j)
            return xp.with_block(held, at, z, 1), *state

        held, *state = xp.repeated(grid.across, fill, (held, *grid.nothing_summed()))
        loss, logsumexp = grid.losses(_Summed(*state), labels, share, every)
        by_token = _ByToken(logsumexp, by * every, by * share, by)

        def pull(j: Any, to_x: Any, dweights: Any, dbias: Any, held: Any) -> tuple[Any, ...]:
            at, fresh = grid.column(j)
            weights = grid.of_classes(given.weights, at, options.class_axis)
            dz = grid.to_logits(grid.of_classes(held, at, 1), new, start, at, by_token)
            dz = xp.where(fresh, dz, xp.zeros_like(dz)) if grid.overlaps else dz
            more, added = grid.products(x, dz, weights)
            before = grid.of_classes(dweights, at, options.class_axis)
            dweights = xp.with_block(dweights, at, before + added, options.class_axis)
            if given.bias is not None:
                db = grid.of_classes(dbias, at) + xp.sum(dz, 0)
                dbias = xp.with_block(dbias, at, db, 0)
            return to_x + more, dweights, dbias, held

        dx, *rest = gradients
        to_x, *rest, held = xp.repeated(grid.across, pull, (xp.zeros_like(x), *rest, held))
        losses = xp.with_block(losses, start, loss, 0)
        return held, losses, grid.with_added(dx, start, to_x), *rest

    bias = xp.zeros([0], dtype) if given.bias is None else xp.zeros_like(given.bias)
    held, losses = xp.zeros([grid.rows, grid.classes], dtype), xp.zeros([grid.tokens], dtype)
    state = (held, losses, xp.zeros_like(given.x), xp.zeros_like(given.weights), bias)
    _, losses, dx, dweights, dbias = xp.repeated(grid.down, tokens, state, grid.most_down)
    return grid.counted(losses), dx, dweights, None if given.bias is None else dbias
