"""Forward mode over functions loaded from files.

Of a rule, a file keeps the operations and the name. By the name it is known that its transpose is to give the tangents,
and it is checked as the rule itself would be.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.attach.registry import PREFIX, TRANSPOSABLE
from pullback.engines.tensorflow.attach.transposing import is_transposed
from pullback.engines.tensorflow.tf_private.transposing import wrap_loaded_gradients
from pullback.extend import engine_of, require_linear

_OURS = re.compile(rf"{PREFIX}(\w*)_{TRANSPOSABLE}_")


def install() -> None:
    """Check the gradients of files, also of those loaded before, where they are transposed."""
    wrap_loaded_gradients(_checked)


def _checked(plain: Callable[..., Any], name: str) -> Callable[..., Any]:
    ours = _OURS.search(name)
    return _Loaded(plain, ours.group(1)) if ours else plain


class _Loaded:
    """The gradient of one op of a loaded graph."""

    def __init__(self, plain: Callable[..., Any], name: str) -> None:
        self._plain = plain
        self._name = name

    def __call__(self, operation: Any, *upstream: Any) -> Any:
        gradients = self._plain(operation, *upstream)
        if not is_transposed():
            return gradients
        given = [i for i, dy in enumerate(upstream) if dy is not None]

        def present(some: Sequence[Any]) -> list[Any]:
            full = list(upstream)
            for index, dy in zip(given, some, strict=True):
                full[index] = dy
            return [tf.convert_to_tensor(g) for g in self._plain(operation, *full) if g is not None]

        at = [tf.convert_to_tensor(upstream[i]) for i in given]
        engine = engine_of(at)
        return require_linear(engine, list(gradients), present, at, "(loaded)", f"`{self._name}`")
