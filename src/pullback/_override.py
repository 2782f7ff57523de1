"""Override: change the gradient of anything that runs in a block, in a function or in a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pullback._bind import name_of
from pullback._engine import engine_of_targets
from pullback._listing import KINDS, Targets
from pullback._overriding import Override
from pullback._targets import Rules
from pullback.errors import TargetError


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


def targets(model_or_function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Targets:
    """What runs in a call, decides its gradient, and can be named in an override.

    The call is run once, forward and backward; variables and random numbers are put back afterwards. Each row has an
    `expression` to copy and the `target` itself.

    >>> import tensorflow as tf
    >>> import pullback as pb
    >>> pb.targets(lambda x: tf.nn.gelu(x) * 2.0, tf.constant([1.0, 2.0])).of("function")[0].expression
    'tf.nn.gelu'
    """
    if not callable(model_or_function):
        raise TargetError(
            f"pb.targets takes a model or function and the arguments of a call; got {model_or_function!r}. "
            "Write `pb.targets(model, x)`."
        )
    frame = inspect.currentframe()
    caller = frame.f_back if frame else None
    names = {**caller.f_globals, **caller.f_locals} if caller else {}
    return list_targets(model_or_function, args, kwargs, names)


def list_targets(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    names: Mapping[str, Any],
) -> Targets:
    """The targets of a call, with expressions that are made of these names."""
    engine = engine_of_targets([function, *args, *kwargs.values()])
    found = engine.targets(function, args, kwargs, names)
    name = getattr(function, "name", None)
    name = name if isinstance(name, str) else name_of(function)
    if not found:
        raise TargetError(
            f"nothing in this call of {name} can be overridden: no gradient flows from its outputs to its arguments "
            "or to variables. Pass floating-point tensors, and return what is computed from them."
        )
    return Targets(name, tuple(sorted(found, key=lambda row: KINDS.index(row.kind))))


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
