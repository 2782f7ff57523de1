"""What attention takes: arrays that fit together, and options in their ranges."""

from __future__ import annotations

import inspect
from typing import Any

from pullback._project import describe
from pullback.errors import ArgumentError
from pullback.functions._arguments import require_number, require_rank

NAME = "attention"
_WITH_HEADS = 4  # parameters of a score function that asks for heads


def require_arrays(xp: Any, q: Any, k: Any, v: Any) -> None:
    """Refuse queries, keys and values that do not fit together."""
    came = f"pb.functions.{NAME} got q {describe(q)}, k {describe(k)}, v {describe(v)}; "
    if any(xp.kind_of(a) != "floating" for a in (q, k, v)) or not q.dtype == k.dtype == v.dtype:
        raise ArgumentError(
            f"{came}wanted real floating-point numbers of one dtype. Cast them before."
        )
    require_rank(NAME, q=q, k=k, v=v)
    ranks = {len(a.shape) for a in (q, k, v)}
    if len(ranks) != 1 or ranks.pop() < 3:
        raise ArgumentError(f"{came}wanted the same axes for all: [..., heads, tokens, depth].")
    fits = agree(q.shape[-1], k.shape[-1]) and agree(k.shape[-2], v.shape[-2])
    leading = zip(q.shape[:-3], k.shape[:-3], v.shape[:-3], strict=True)
    fits = fits and all(agree(a, b) and agree(a, c) for a, b, c in leading)
    if not fits:
        raise ArgumentError(
            f"{came}wanted q and k of one depth, k and v of as many keys, and the same axes before the heads."
        )
    heads, groups, others = q.shape[-3], k.shape[-3], v.shape[-3]
    unknown = heads is None and groups is None
    if not unknown and (
        None in (heads, groups) or groups != others or not groups or heads % groups
    ):
        raise ArgumentError(
            f"{came}wanted as many heads of q as of k and v, or a multiple of these, known when the program is traced."
        )


def agree(a: int | None, b: int | None) -> bool:
    """Whether two sizes are the same, as far as they are known."""
    return a is None or b is None or a == b


def seed_of(xp: Any, seed: Any) -> Any:
    """The seed as an array; anything but two whole numbers is refused."""
    pair = xp.packed(seed)
    whole = xp.is_numeric(pair) and xp.kind_of(pair) == "other"
    rank = xp.rank_of(pair)
    if not whole or not (rank is None or (rank == 1 and agree(pair.shape[0], 2))):
        raise ArgumentError(
            f"pb.functions.{NAME} got seed={seed!r}; wanted two whole numbers, as seed=[1, 2]."
        )
    return xp.astype(pair, "int32")


def require_options(window: Any, scale: Any, cap: Any, score: Any, dropout: Any) -> None:
    """Refuse options outside of their ranges."""
    whole = isinstance(window, int) and not isinstance(window, bool)
    if window is not None and not (whole and window > 0):
        raise ArgumentError(
            f"pb.functions.{NAME} got window={window!r}; wanted a whole number of keys above 0."
        )
    if scale is not None:
        require_number(NAME, scale, "scale", -1e30, 1e30)
    if cap is not None:
        require_number(NAME, cap, "soft_cap", 1e-30, 1e30)
    if score is not None and not callable(score):
        raise ArgumentError(
            f"pb.functions.{NAME} got score={score!r}; wanted a function of scores, queries and keys."
        )
    require_number(NAME, dropout, "dropout", 0.0, 0.999999)


def groups_for_score(score: Any, groups: int | None) -> int | None:
    """The number of heads of keys, if a score function has a fourth parameter for the heads."""
    try:
        parameters = inspect.signature(score).parameters.values()
    except (TypeError, ValueError):
        return None
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in by_position and p.default is p.empty]
    if len(needed) < _WITH_HEADS:
        return None
    if groups is None:
        raise ArgumentError(
            f"pb.functions.{NAME} got a score function of heads, whose number is not known when the program is traced; "
            "wanted k with a known number of heads, as with ensure_shape."
        )
    return groups
