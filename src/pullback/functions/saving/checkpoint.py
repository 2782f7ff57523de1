"""Recomputation instead of memory: what lies between inputs and outputs is computed again for the gradient."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any

from pullback._define import with_gradient
from pullback._engine import engine_of
from pullback._names import reduced
from pullback._tree import flatten
from pullback.errors import ArgumentError

_MATRIX_PRODUCTS = frozenset(
    [
        "MatMul",
        "BatchMatMul",
        "BatchMatMulV2",
        "BatchMatMulV3",
        "Einsum",
        "Conv1D",
        "Conv2D",
        "Conv3D",
    ]
)
_POLICIES = ("nothing", "matmuls", "everything")


def checkpoint(fn: Any = None, *, policy: Any = "nothing") -> Any:
    """The same function, of which nothing but the inputs is kept for its gradient: the rest is computed again.

    Use it around the blocks of a deep model when memory is short: it costs one more forward pass of each, and what is
    held is one block's worth instead of all. `fn` may be a function, a method, a layer, a model or a lambda; arguments
    may be of any structure, with keywords and static values. Random numbers are the same in both runs (another sequence
    than without a checkpoint), what is written to variables, such as statistics of a BatchNormalization, is written
    once, and variables are read as in the first run. A second run that does something else, or comes to other
    values, is a `RecomputationError`.

    `policy` says what is kept all the same, inside of a traced function: `"nothing"`, `"matmuls"` (results of matrix
    products and convolutions), `"everything"`; names of operations, as `["MatMul", "Softmax"]`; a number of bytes, up
    to which a result is kept; or a function of an operation, with `type`, `name`, `shape` and `bytes`. In code that
    runs at once all is computed again.

    >>> import pullback as pb, tensorflow as tf
    >>> @pb.functions.checkpoint
    ... def block(x, scale=1.0):
    ...     return tf.sin(tf.exp(x)) * scale
    >>> x = tf.constant([0.0, 1.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = block(x, scale=2.0)
    >>> tape.gradient(y, x).numpy().astype(float).round(3).tolist()
    [1.081, -4.957]
    """
    keep = _keep(policy)
    if fn is None:
        return functools.partial(checkpoint, policy=policy)
    if isinstance(fn, (staticmethod, classmethod)):
        return type(fn)(checkpoint(fn.__func__, policy=policy))
    if not callable(fn):
        raise ArgumentError(
            f"pb.functions.checkpoint got {fn!r}; wanted something to call: a function, a method, a layer or a model."
        )
    return Checkpointed(fn, policy, keep)


class Checkpointed:
    """A callable that is computed again when its gradient is asked for."""

    def __init__(
        self, fn: Callable[..., Any], policy: Any, keep: Callable[[Any], bool] | None
    ) -> None:
        self.fn, self.policy, self._keep = fn, policy, keep
        functools.update_wrapper(self, fn, updated=())
        # A tf.function passes on what is under `__wrapped__` in place of an argument.
        del self.__dict__["__wrapped__"]
        with contextlib.suppress(TypeError, ValueError):  # some callables of C have none
            self.__signature__ = inspect.signature(fn)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        if self.policy == "everything":
            return self.fn(*args, **kwargs)
        leaves = flatten((args, kwargs))[0]
        xp = engine_of([*leaves, self.fn]).arrays
        if any(xp.is_symbolic([leaf]) for leaf in leaves):
            return xp.as_node(self, *args, **kwargs)
        self._require_known_operations(xp)
        run, rule, more, outputs = xp.checkpointed(self.fn, args, kwargs, self._keep)
        return outputs(with_gradient(run, rule)(args, kwargs, *more))

    def _require_known_operations(self, xp: Any) -> None:
        """Refuse names that no operation has: nothing would be kept."""
        for name in _names(self.policy):
            near = xp.operations_like(name)
            if name not in near:
                advice = f" Did you mean {near[0]!r}?" if near else ""
                raise ArgumentError(
                    f"pb.functions.checkpoint got policy={self.policy!r}, and there is no operation {name!r}.{advice}"
                )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: bound to its object."""
        if instance is None:
            return self
        return Checkpointed(self.fn.__get__(instance, owner), self.policy, self._keep)

    def __reduce__(self) -> Any:
        return reduced(self, (functools.partial(checkpoint, policy=self.policy), (self.fn,)))


def _names(policy: Any) -> frozenset[Any]:
    """The operations that a policy names."""
    named = isinstance(policy, Collection) and not isinstance(policy, (str, bytes))
    return frozenset(policy if named and not callable(policy) else ())


def _keep(policy: Any) -> Callable[[Any], bool] | None:
    """Which operations' results are kept."""
    if isinstance(policy, str) and policy in _POLICIES:
        return (lambda op: op.type in _MATRIX_PRODUCTS) if policy == "matmuls" else None
    if isinstance(policy, int) and not isinstance(policy, bool) and policy >= 0:
        return lambda op: op.bytes is not None and op.bytes <= policy
    if callable(policy):
        return lambda op: bool(policy(op))
    types = _names(policy)
    if types and all(isinstance(t, str) for t in types):
        return lambda op: op.type in types
    raise ArgumentError(
        f"pb.functions.checkpoint got policy={policy!r}; wanted one of {', '.join(map(repr, _POLICIES))}, names of "
        "operations, a number of bytes, or a function of an operation."
    )
