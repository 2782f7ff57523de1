"""Override: change the gradient of anything that runs in a block, in a function or in a model."""

from __future__ import annotations

from typing import Any

from pullback._engine import engine_of_targets
from pullback._overriding import Override
from pullback._targets import Rules


def override(rules: Rules, *, strict: bool = True) -> Override:
    """Change the gradient of functions, ops and layers in code you do not own.

    `rules` maps targets to rules. A target is a function (`tf.stack`), an op type (`"Pack"`), a layer, a layer class, a
    compiled regular expression over names, `pb.where(...)` or `pb.inside(...)`. With `strict=False` a target that never
    ran is a warning instead of an error.

    >>> import tensorflow as tf
    >>> import pullback as pb
    >>> def half(dy, *, original):
    ...     return [0.5 * g for g in original(dy)]
    >>> x = tf.constant(1.0)
    >>> with pb.override({tf.stack: half}) as halved, tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = tf.reduce_sum(tf.stack([x, x]))
    >>> float(tape.gradient(y, x))
    1.0
    """
    return Override(rules, strict=strict)


def export(overridden: Any, path: Any, **options: Any) -> None:
    """Write a function or model that runs under an override so that its gradient survives without pullback.

    It may be overridden itself, or call what is: a function with pre-processing, a saliency map with its tape.

    >>> import pullback as pb
    >>> pb.export(len, "somewhere")
    Traceback (most recent call last):
    pullback.errors.ExportError: ...
    """
    source = getattr(overridden, "__pullback_override__", None)
    engine = engine_of_targets([overridden]).overrides if source is None else source.engine
    engine.export(overridden, str(path), **options)
