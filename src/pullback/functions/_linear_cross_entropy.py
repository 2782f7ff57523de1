"""The cross-entropy of a linear layer, without its logits in memory.

Logits are computed block by block, of some tokens and some classes, once in the forward pass for their log-sum-exp and
once more in the backward pass. What is held between the passes is one number per token. Tokens that are ignored come
last and are never computed. Logits are in float32 at least; products of the backward pass are in the dtype of `x`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pullback._project import describe
from pullback.errors import ArgumentError
from pullback.functions._arguments import arrays_for, require_number, with_own_gradient

_NAME = "linear_cross_entropy"
# A block of logits has as many entries at most: 8 MiB of float32.
_TOKENS, _ENTRIES = 1024, 2**21


def linear_cross_entropy(
    x: Any,
    weights: Any,
    labels: Any,
    bias: Any = None,
    *,
    class_axis: int = -1,
    class_weights: Any = None,
    label_smoothing: float = 0.0,
    ignore_index: int | None = -100,
    soft_cap: float | None = None,
    z_loss: float | None = None,
    shift: bool = False,
    reduction: str = "mean",
    return_logsumexp: bool = False,
) -> Any:
    """The cross-entropy of the logits `x @ weights + bias` and labels, where the logits never are in memory.

    Use it as the last layer and loss of a language model, or of any model with many classes: the logits of 8192 tokens
    and 32k classes take 1 GiB, several times over when they are differentiated.

    - `x` is `[..., depth]`, `labels` are class numbers `[...]`.
    - `weights` are `[depth, classes]`, as the kernel of a layer; with `class_axis=0` they are `[classes, depth]`, as a
      table of embeddings whose weights are tied. `bias` is `[classes]`.
    - `class_weights` (constants, one per class), `label_smoothing` and `ignore_index` mean what they do in PyTorch: the
      mean is by the weights of the labels, and of ignored tokens alone it is 0.
    - `soft_cap` makes logits `cap · tanh(logit / cap)`.
    - `shift=True`: the label of a token is the next one along the last axis of `labels`; the last token has none.
    - `reduction` is `"mean"`, `"sum"` or `"none"` (one loss per token, 0 for ignored ones).
    - With `z_loss` the result is `(loss, z)`, where `z` is `z_loss · logsumexp²`, reduced like the loss, to be added to
      it or not. With `return_logsumexp` the log-sum-exp of each token comes last (0 for ignored ones). Each of them
      has its gradient.

    >>> import pullback as pb, tensorflow as tf
    >>> x, weights = tf.constant([[1.0, 0.0], [0.0, 2.0]]), tf.eye(2)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(weights)
    ...     loss = pb.functions.linear_cross_entropy(x, weights, [0, 1])
    >>> f"{loss:.4f}", tape.gradient(loss, weights).numpy().astype(float).round(3).tolist()
    ('0.2201', [[-0.134, 0.134], [0.119, -0.119]])
    """
    xp = arrays_for(x, weights, labels)
    x, weights, bias, labels = _arrays(xp, x, weights, bias, labels, class_axis % 2)
    _require_options(label_smoothing, soft_cap, z_loss, reduction, shift, labels)
    labels, skipped = xp.next_along_last_axis(labels) if shift else (labels, None)
    shape = xp.shape_of(labels)
    labels = xp.reshape(labels, [-1])
    valid = xp.chosen_labels(labels, ignore_index, skipped)
    classes = xp.extent(weights, class_axis)
    labels = xp.require_classes(labels, valid, classes, _NAME)
    scale = _class_weights(xp, class_weights, classes, x)
    losses, sums = _tokens(
        xp.reshape(x, [-1, xp.extent(x, -1)]),
        weights,
        bias,
        labels,
        valid,
        scale,
        options=_Options(
            class_axis % 2, label_smoothing, soft_cap, ignore_index is not None or shift
        ),
    )
    wide_valid = xp.astype(valid, losses.dtype)
    parts = [(losses, wide_valid if scale is None else wide_valid * xp.rows_at(scale, labels))]
    if z_loss is not None:
        parts.append((xp.square(sums) * z_loss, wide_valid))
    results = [_reduced(xp, values, by, reduction, shape, shift) for values, by in parts]
    if return_logsumexp:
        results.append(_reduced(xp, sums, wide_valid, "none", shape, shift))
    return results[0] if len(results) == 1 else tuple(results)


def _reduced(xp: Any, values: Any, weights: Any, reduction: str, shape: Any, shift: bool) -> Any:
    if reduction == "none":
        values = xp.reshape(values, shape)
        return values[..., :-1] if shift else values
    total = xp.sum(values)
    return xp.divide_or_zero(total, xp.sum(weights)) if reduction == "mean" else total


class _Options(NamedTuple):
    class_axis: int
    smoothing: float
    cap: float | None
    ignores: bool


@with_own_gradient
def _tokens(
    x: Any,
    weights: Any,
    bias: Any,
    labels: Any,
    valid: Any,
    scale: Any,
    *,
    options: _Options,
) -> Any:
    """The loss of each token and the log-sum-exp of its logits; 0 for ignored ones."""
    xp = arrays_for(x)
    order, back, count = xp.chosen_first(valid) if options.ignores else (None, None, None)
    if order is not None:
        x, labels = xp.rows_at(x, order), xp.rows_at(labels, order)
    given = _Given(x, weights, bias, labels, scale, count)
    losses, sums = xp.program(_forward, options=options)(given)

    def linear_cross_entropy_pullback(dlosses: Any, dsums: Any) -> Any:
        if order is not None:
            dlosses, dsums = xp.rows_at(dlosses, order), xp.rows_at(dsums, order)
        dx, dweights, dbias = xp.program(_backward, options=options)(given, sums, dlosses, dsums)
        dx = dx if order is None else xp.rows_at(dx, back)
        return {"x": dx, "weights": dweights, "bias": dbias}

    if order is not None:
        return (xp.rows_at(losses, back), xp.rows_at(sums, back)), linear_cross_entropy_pullback
    return (losses, sums), linear_cross_entropy_pullback


class _Given(NamedTuple):
    """Tokens in the order in which they are computed; `count` of them, all if it is `None`."""

    x: Any
    weights: Any
    bias: Any
    labels: Any
    scale: Any
    count: Any


class _Grid:
    """Blocks of tokens by blocks of classes."""

    def __init__(self, given: _Given, options: _Options) -> None:
        self.xp: Any = arrays_for(given.x)
        self.given, self.options = given, options
        xp = self.xp
        self.tokens = xp.extent(given.x, 0)
        self.classes = xp.extent(given.weights, options.class_axis)
        all_rows, self.rows = xp.equal_blocks(self.tokens, _TOKENS)
        alone = isinstance(all_rows, int) and all_rows == 1
        self.down = all_rows
        if given.count is not None and not alone:
            self.down = -(-given.count // xp.maximum(self.rows, 1))
        self.across, self.columns = xp.equal_blocks(self.classes, _ENTRIES // _TOKENS)
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

    def to_logits(
        self, weights: Any, start: Any, new: Any, at: Any, per_token: tuple[Any, ...]
    ) -> Any:
        """The gradient of the logits of a block, in which only new tokens count."""
        xp, options = self.xp, self.options
        sums, of_softmax, of_label, upstream = (self.of_tokens(v, start) for v in per_token)
        zero = xp.zeros_like(sums)
        of_softmax, of_label = xp.where(new, of_softmax, zero), xp.where(new, of_label, zero)
        x = xp.astype(self.of_tokens(self.given.x, start), self.dtype)
        z = self.logits(x, weights, at)
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


def _forward(given: _Given, *, options: _Options) -> tuple[Any, Any]:
    grid = _Grid(given, options)
    xp, dtype = grid.xp, grid.dtype
    own, whole = grid.shares()

    def tokens(i: Any, losses: Any, sums: Any) -> tuple[Any, Any]:
        start, _ = grid.row(i)
        x = xp.astype(grid.of_tokens(given.x, start), dtype)
        labels = grid.of_tokens(given.labels, start)
        zero = xp.zeros([grid.rows], dtype)
        state = (zero + xp.lowest(dtype), zero, zero, zero)

        def classes(j: Any, top: Any, total: Any, picked: Any, smooth: Any) -> tuple[Any, ...]:
            at, fresh = grid.column(j)
            z = grid.logits(x, grid.of_classes(given.weights, at, options.class_axis), at)
            column, mine = grid.place_of_label(labels, j, at)
            picked = picked + xp.where(mine, xp.picked(z, column), zero)
            if options.smoothing:
                weighted = xp.where(fresh, z * grid.smoothing_of(at), xp.zeros_like(z))
                smooth = smooth + xp.sum(weighted, 1)
            z = xp.where(fresh, z, xp.lowest(dtype)) if grid.overlaps else z
            higher = xp.maximum(top, xp.max(z, 1))
            added = xp.sum(xp.exp(z - higher[:, None]), 1)
            return higher, total * xp.exp(top - higher) + added, picked, smooth

        top, total, picked, smooth = xp.repeated(grid.across, classes, state)
        logsumexp = top + xp.log(total)
        share = grid.of_tokens(own, start)
        every = whole if isinstance(whole, float) else grid.of_tokens(whole, start)
        # Differences before products: of the same size as the loss.
        loss = share * (logsumexp - picked)
        if options.smoothing:
            loss = loss + (every - share) * logsumexp - smooth
        return xp.with_block(losses, start, loss, 0), xp.with_block(sums, start, logsumexp, 0)

    nothing = xp.zeros([grid.tokens], dtype)
    losses, sums = xp.repeated(grid.down, tokens, (nothing, nothing))
    if given.count is None:
        return losses, sums
    computed = xp.arange(grid.tokens) < given.count
    return xp.where(computed, losses, nothing), xp.where(computed, sums, nothing)


def _backward(
    given: _Given, sums: Any, dlosses: Any, dsums: Any, *, options: _Options
) -> tuple[Any, Any, Any]:
    grid = _Grid(given, options)
    xp, dtype, last = grid.xp, grid.dtype, options.class_axis == 1
    own, whole = grid.shares()
    per_token = (sums, dlosses * whole + dsums, dlosses * own, dlosses)

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
            dz = grid.to_logits(weights, start, new, at, per_token)
            low = xp.astype(dz, x.dtype)
            added = (
                xp.matmul(x, low, transpose_a=True) if last else xp.matmul(low, x, transpose_a=True)
            )
            to_x = xp.matmul(low, once, transpose_b=last)
            dx = xp.with_block(dx, start, grid.of_tokens(dx, start) + xp.astype(to_x, dtype), 0)
            db = db if given.bias is None else db + xp.sum(dz, 0)
            return dx, dw + xp.astype(added, dtype), db

        state = (dx, xp.zeros_like(weights, dtype), xp.zeros([grid.columns], dtype))
        dx, dw, db = xp.repeated(grid.down, tokens, state)
        dweights = xp.with_block(dweights, at, xp.astype(dw, dweights.dtype), options.class_axis)
        if given.bias is not None:
            dbias = xp.with_block(dbias, at, xp.astype(db, dbias.dtype), 0)
        return dx, dweights, dbias

    bias = xp.zeros([0], dtype) if given.bias is None else xp.zeros_like(given.bias)
    start = (xp.zeros_like(given.x, dtype), xp.zeros_like(given.weights), bias)
    dx, dweights, dbias = xp.repeated(grid.across, classes, start)
    return xp.astype(dx, given.x.dtype), dweights, None if given.bias is None else dbias


def _arrays(xp: Any, x: Any, weights: Any, bias: Any, labels: Any, axis: int) -> tuple[Any, ...]:
    """The arguments as arrays, if they fit together."""
    x, weights = xp.asarray(x), weights if xp.is_array(weights) else xp.asarray(weights)
    bias = bias if bias is None or xp.is_array(bias) else xp.asarray(bias, x.dtype)
    for name, array in {"x": x, "weights": weights, "bias": bias}.items():
        if array is not None and xp.kind_of(xp.asarray(array)) != "floating":
            raise ArgumentError(
                f"pb.functions.{_NAME} got {name} as {describe(xp.asarray(array))}; wanted real floating-point "
                "numbers. Cast it before, to float32 for instance."
            )
    numbers = xp.class_numbers(labels)
    if numbers is None or xp.kind_of(xp.packed(labels)) == "floating":
        raise ArgumentError(
            f"pb.functions.{_NAME} got labels {describe(xp.packed(labels))}; wanted class numbers, as int32 or int64."
        )
    _require_shapes(x, weights, bias, numbers, axis)
    return x, weights, bias, xp.astype(numbers, "int32")


def _require_shapes(x: Any, weights: Any, bias: Any, labels: Any, axis: int) -> None:
    shapes = [tuple(v.shape) for v in (x, labels)]
    if len(weights.shape) != 2 or len(shapes[0]) < 1:
        form = "[depth, classes]" if axis else "[classes, depth]"
        raise ArgumentError(
            f"pb.functions.{_NAME} got x {describe(x)} and weights {describe(weights)}; wanted x as [..., depth] and "
            f"weights as {form}."
        )
    depth, classes = weights.shape[1 - axis], weights.shape[axis]
    if _differ(shapes[0][-1], depth):
        raise ArgumentError(
            f"pb.functions.{_NAME} got x of depth {shapes[0][-1]} and weights {describe(weights)} of depth {depth}. "
            f"For weights as {'[classes, depth]' if axis else '[depth, classes]'} write class_axis={0 if axis else 1}."
        )
    if len(shapes[0]) != len(shapes[1]) + 1 or any(map(_differ, shapes[0][:-1], shapes[1])):
        raise ArgumentError(
            f"pb.functions.{_NAME} got labels {describe(labels)} for x {describe(x)}; wanted one class number for each "
            "token, in the shape of x without its last axis."
        )
    if bias is not None and (len(bias.shape) != 1 or _differ(bias.shape[0], classes)):
        raise ArgumentError(
            f"pb.functions.{_NAME} got bias {describe(bias)} for {classes} classes; wanted one number for each class."
        )


def _differ(a: int | None, b: int | None) -> bool:
    return a is not None and b is not None and a != b


def _class_weights(xp: Any, given: Any, classes: Any, x: Any) -> Any:
    if given is None:
        return None
    dtype = xp.wide(x).dtype
    found = xp.stop_gradient(xp.astype(xp.asarray(given, dtype), dtype))
    if len(found.shape) != 1 or (isinstance(classes, int) and _differ(found.shape[0], classes)):
        raise ArgumentError(
            f"pb.functions.{_NAME} got class_weights {describe(found)}; wanted one number for each of {classes} "
            "classes."
        )
    return found


def _require_options(
    smoothing: Any, cap: Any, z_loss: Any, reduction: Any, shift: Any, labels: Any
) -> None:
    require_number(_NAME, smoothing, "label_smoothing", 0.0, 1.0)
    for name, value in {"soft_cap": cap, "z_loss": z_loss}.items():
        if value is not None:
            require_number(_NAME, value, name, 0.0 if name == "z_loss" else 1e-30, 1e30)
    if reduction not in ("mean", "sum", "none"):
        raise ArgumentError(
            f"pb.functions.{_NAME} got reduction={reduction!r}; wanted 'mean', 'sum' or 'none'."
        )
    if shift and len(labels.shape) == 0:
        raise ArgumentError(
            f"pb.functions.{_NAME} got shift=True for a single token; wanted labels with an axis of tokens."
        )
