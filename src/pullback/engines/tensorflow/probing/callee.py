"""What a check is asked about: a callable and its name, or the registered gradient of an op type; samples for it."""

import difflib
import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.errors import CheckError
from pullback.extend import require_function


class RawOp:
    """An op as a function of its inputs in order: its gradient is the one that TensorFlow has registered."""

    def __init__(self, name: str) -> None:
        self.op_type = name
        self.op: Any = getattr(tf.raw_ops, name, None)
        if self.op is None:
            near = difflib.get_close_matches(name, dir(tf.raw_ops), 1)
            hint = (
                f"Did you mean {near[0]!r}?" if near else "Write the op's type, as in tf.raw_ops."
            )
            raise CheckError(f"TensorFlow has no op {name!r}. {hint}")
        self.__signature__ = inspect.signature(self.op)
        self.order = [p for p in self.__signature__.parameters if p != "name"]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the op, which itself takes keywords only."""
        if len(args) > len(self.order):
            expected = ", ".join(self.order)
            raise TypeError(f"{self.op_type} takes {len(self.order)} arguments ({expected})")
        return self.op(**dict(zip(self.order, args, strict=False)), **kwargs)


def function_of(fn: Any) -> tuple[Callable[..., Any], str]:
    """The function to run and what to call it."""
    return (RawOp(fn), fn) if isinstance(fn, str) else (fn, require_function(fn))


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
