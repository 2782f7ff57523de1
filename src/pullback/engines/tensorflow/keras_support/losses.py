"""Losses that layers add while they are called (`add_loss`, activity regularisers), as results of the call."""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Callable, Generator
from typing import Any

import keras

from pullback.extend import Replacement, set_for

Added = list[tuple[Any, Any]]  # layers and their losses
_collected: contextvars.ContextVar[Added | None] = contextvars.ContextVar(
    "pullback_collected_losses", default=None
)


def _collecting(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def add_loss(self: Any, loss: Any) -> None:
        here = _collected.get()
        if here is None:
            original(self, loss)
        else:
            here.extend((self, one) for one in keras.tree.flatten(loss))

    return add_loss


_replaced = Replacement(keras.layers.Layer, "add_loss", _collecting)


@contextlib.contextmanager
def collected() -> Generator[Added]:
    """Collect what layers add to the loss in this block; it is not added."""
    found: Added = []
    with _replaced, set_for(_collected, found):
        yield found
