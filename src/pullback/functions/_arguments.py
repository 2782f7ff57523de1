"""What ready-made functions ask of their arguments, and the words for what they do not take."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

from pullback._define import custom_gradient
from pullback._engine import engine_of
from pullback._project import describe
from pullback._tree import flatten, unflatten
from pullback.errors import ArgumentError

F = TypeVar("F", bound=Callable[..., Any])


def with_own_gradient(fn: F) -> F:
    """A function under `custom_gradient` whose required positional parameters may be lists: they become arrays."""
    inner: Any = custom_gradient(fn)
    parameters = inspect.signature(fn).parameters.values()
    required = [p.name for p in parameters if p.default is p.empty and p.kind is not p.KEYWORD_ONLY]

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        leading = args[: len(required)]
        lists = any(isinstance(v, (list, tuple)) for v in (*leading, *map(kwargs.get, required)))
        if lists:
            xp = arrays_for(*leading, *map(kwargs.get, required))
            args = (*(_packed(xp, v) for v in leading), *args[len(required) :])
            kwargs = {n: _packed(xp, v) if n in required else v for n, v in kwargs.items()}
        return inner(*args, **kwargs)

    # A tf.function passes on what is under `__wrapped__` in place of an argument: that has the gradient, too.
    called.__wrapped__ = inner
    return called  # pyright: ignore[reportReturnType]  # of the same signature


def in_models(fn: F) -> F:
    """A function that is called with the symbolic inputs of a model becomes a node of it, as a whole."""

    @functools.wraps(fn)
    def called(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        xp = engine_of(leaves).arrays
        places = [i for i, leaf in enumerate(leaves) if xp.is_symbolic([leaf])]
        if not places:
            return fn(*args, **kwargs)
        if not any(map(callable, leaves)):
            return xp.as_node(called, *args, **kwargs)

        # Functions among the arguments are part of the node: of what it is given, Keras keeps data only.
        @functools.wraps(fn)
        def with_functions(*symbolic: Any) -> Any:
            given = dict(zip(places, symbolic, strict=True))
            whole = [given.get(i, leaf) for i, leaf in enumerate(leaves)]
            inner, named = unflatten(structure, whole)
            return fn(*inner, **named)

        return xp.as_node(with_functions, *(leaves[i] for i in places))

    return called  # pyright: ignore[reportReturnType]  # of the same signature


def _packed(xp: Any, value: Any) -> Any:
    return xp.packed(value) if isinstance(value, (list, tuple)) else value


def arrays_for(*values: Any) -> Any:
    """The functions of arrays of the framework that one of these values belongs to."""
    return engine_of(flatten(values)[0]).arrays


def real_arrays(function: str, **values: Any) -> tuple[Any, ...]:
    """The functions of arrays, and the values as arrays of one real dtype, in float32 at least."""
    xp = arrays_for(*values.values())
    for name, value in values.items():
        if value is None or isinstance(value, (str, bytes)):
            raise ArgumentError(
                f"pb.functions.{function} got {name}={value!r}; wanted an array of real floating-point numbers."
            )
    own = [v for v in values.values() if xp.is_array(v)]
    arrays = {name: xp.asarray(v, own[0].dtype if own else None) for name, v in values.items()}
    for name, array in arrays.items():
        if xp.kind_of(array) != "floating":
            raise ArgumentError(
                f"pb.functions.{function} got {name} as {describe(array)}; wanted real floating-point numbers. "
                "Cast it before, to float32 for instance."
            )
        if array.dtype != next(iter(arrays.values())).dtype:
            came = ", ".join(f"{n} as {describe(a)}" for n, a in arrays.items())
            raise ArgumentError(
                f"pb.functions.{function} got {came}; wanted one dtype. Cast one of them to that of the other."
            )
    return xp, *map(xp.wide, arrays.values())


def broadcasting_arrays(function: str, **values: Any) -> tuple[Any, ...]:
    """The same for values whose shapes have to broadcast together."""
    xp, *arrays = real_arrays(function, **values)
    shapes = [tuple(array.shape) for array in arrays if xp.rank_of(array) is not None]
    columns = itertools.zip_longest(*(reversed(shape) for shape in shapes), fillvalue=1)
    if any(len({n for n in column if n not in (None, 1)}) > 1 for column in columns):
        came = ", ".join(f"{n} as {describe(a)}" for n, a in zip(values, arrays, strict=True))
        raise ArgumentError(
            f"pb.functions.{function} got {came}; wanted shapes that broadcast together. Give one of them axes of size "
            "one where it is to be repeated, as with x[:, None]."
        )
    return xp, *arrays


def require_rank(function: str, **arrays: Any) -> None:
    """The number of axes of these arrays is known."""
    for name, array in arrays.items():
        if array is not None and arrays_for(array).rank_of(array) is None:
            raise ArgumentError(
                f"pb.functions.{function} got {name} as a tensor of unknown rank. Give it a rank before, as with "
                "ensure_shape."
            )


def dtype_of(xp: Any, *values: Any) -> Any:
    """The dtype that the result has."""
    own = [v for v in values if xp.is_array(v)]
    return own[0].dtype if own else xp.asarray(values[0]).dtype


def axes_of(function: str, array: Any, axis: Any, *, one: bool = False) -> tuple[int, ...]:
    """The axes that are meant, counted from the front: all of them for `None`."""
    given = [] if axis is None else list(axis) if isinstance(axis, (list, tuple)) else [axis]
    rank = array.shape.rank if hasattr(array.shape, "rank") else len(array.shape)
    if rank is None:
        raise ArgumentError(
            f"pb.functions.{function} got a tensor of unknown rank. Give it a rank before, as with ensure_shape."
        )
    whole = all(isinstance(a, int) and not isinstance(a, bool) for a in given)
    if not whole or not all(-rank <= a < rank for a in given) or (one and len(given) != 1):
        wanted = "an axis" if one else "None, an axis or a tuple of axes"
        raise ArgumentError(
            f"pb.functions.{function} got axis={axis!r} for {describe(array)}; wanted {wanted}, each between "
            f"{-rank} and {rank - 1}."
        )
    axes = tuple(sorted({a % rank for a in given}))
    if len(axes) != len(given):
        raise ArgumentError(
            f"pb.functions.{function} got axis={axis!r} for {describe(array)}: one axis twice. Name each once."
        )
    return tuple(range(rank)) if axis is None else axes


def with_axes(xp: Any, upstream: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The upstream of a reduction with the reduced axes, of size one, in their places."""
    if not keepdims:
        for axis in axes:
            upstream = xp.expand_dims(upstream, axis)
    return upstream


def require_number(function: str, value: Any, name: str, low: float, high: float) -> None:
    """The value of an option is a number between these, if it is known now."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        raise ArgumentError(
            f"pb.functions.{function} got {name}={value!r}; wanted a number between {low:g} and {high:g}."
        )
