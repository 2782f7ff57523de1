"""What a check is asked about: a callable and its name, or the registered gradient of an op type; samples for it."""

import difflib
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.check.probe.refusals import require_function
from pullback.errors import CheckError


def function_of(fn: Any) -> tuple[Callable[..., Any], str]:
    """The function to run and what to call it."""
    if isinstance(fn, str):
        return _raw_op(fn), fn
    return fn, require_function(fn)


def require_eager() -> None:
    """A check runs its function with many numbers, which a graph under construction has none of."""
    if not tf.executing_eagerly():
        raise CheckError(
            "check runs a function again and again with other numbers, so it cannot itself run "
            "inside a tf.function or a graph. Call it outside: pb.check(traced_function, x)."
        )


def plain_line(error: BaseException) -> str:
    """The first line of an error, without the marks that TensorFlow's runtime puts into it."""
    lines = re.sub(r"\{\{.*?\}\} ?", "", str(error)).strip().splitlines()
    return re.sub(r" \[Op:\w*\] name: ?$", "", lines[0])[:300] if lines else ""


def sample(shape: tuple[int, ...], dtype: str, *, positive: bool, which: int = 0) -> Any:
    """A tensor of ordinary numbers, always the same ones for a shape and a number."""
    rng = np.random.default_rng([len(shape), which])
    kind = tf.as_dtype(dtype)
    if kind.is_integer:
        return tf.constant(rng.integers(0, 2, shape), kind)
    values = rng.uniform(0.3, 2, shape) if positive else rng.normal(size=shape)
    return tf.constant(values + 1j * rng.normal(size=shape) if kind.is_complex else values, kind)


def _raw_op(name: str) -> Callable[..., Any]:
    op = getattr(tf.raw_ops, name, None)
    if op is None:
        near = difflib.get_close_matches(name, dir(tf.raw_ops), 1)
        hint = f"Did you mean {near[0]!r}?" if near else "Write the op's type, as in tf.raw_ops."
        raise CheckError(f"TensorFlow has no op {name!r}. {hint}")
    signature = inspect.signature(op)
    order = [p for p in signature.parameters if p != "name"]

    def registered(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(order):
            raise TypeError(f"{name} takes {len(order)} arguments ({', '.join(order)})")
        return op(**dict(zip(order, args, strict=False)), **kwargs)

    registered.__signature__ = signature  # type: ignore[attr-defined]  # for names
    registered.__pullback_op__ = name  # type: ignore[attr-defined]  # for the rule's source
    return registered
