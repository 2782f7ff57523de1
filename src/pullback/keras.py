"""What pullback offers for Keras. The names come from the engine on which Keras runs, when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback._engine import only_engine

if TYPE_CHECKING:
    from pullback.engines.tensorflow.keras_support.checkpoint_layer import Checkpoint as Checkpoint
    from pullback.engines.tensorflow.watching import WatchGradients as WatchGradients

__all__ = ["Checkpoint", "WatchGradients"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"pullback.keras has no {name!r}; it has {', '.join(__all__)}.")
    return only_engine().for_keras(name)


def __dir__() -> list[str]:
    return __all__
