"""`pb.explain`: what the user calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pullback._engine import engine_of
from pullback._tree import flatten
from pullback.explain.flow import Flow


def explain(
    fn: Any,
    *args: Any,
    kwargs: Mapping[str, Any] | None = None,
    wrt: Any = None,
    loss: Any = None,
) -> Flow:
    """The way of the gradient of `fn` at `args`, from its outputs to whatever it reads.

    `fn` is a function, a layer or model, a saved one, or a training step. Of a model, `pb.explain(model, x, y,
    loss=...)` explains the loss. `wrt` limits the sources, by name or as the tensors and variables themselves.

    >>> import pullback as pb, tensorflow as tf
    >>> flow = pb.explain(lambda x: tf.reduce_sum(tf.round(x) * x), tf.constant([1.0, 2.0]))
    >>> [node.type for node in flow.nodes]
    ['Round', 'Mul', 'Sum']
    """
    given = dict(kwargs or {})
    engine = engine_of([*flatten((args, given))[0], fn])
    return engine.recorder.record(fn, args, given, _listed(wrt), loss)


def _listed(wrt: Any) -> Sequence[Any] | None:
    if wrt is None:
        return None
    return list(wrt) if isinstance(wrt, (list, tuple, set, frozenset)) else [wrt]
