"""What pullback offers for Keras. The names come from the engine on which Keras runs, when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pullback._engine import only_engine

if TYPE_CHECKING:
    from pullback.engines.tensorflow.for_keras import Checkpoint as Checkpoint
    from pullback.engines.tensorflow.for_keras import GradientClip as GradientClip
    from pullback.engines.tensorflow.for_keras import GradientNorms as GradientNorms
    from pullback.engines.tensorflow.for_keras import GradientReversal as GradientReversal
    from pullback.engines.tensorflow.for_keras import GradientScale as GradientScale
    from pullback.engines.tensorflow.for_keras import GradientSchedule as GradientSchedule
    from pullback.engines.tensorflow.for_keras import Quantize as Quantize
    from pullback.engines.tensorflow.for_keras import Spike as Spike
    from pullback.engines.tensorflow.for_keras import StraightThrough as StraightThrough
    from pullback.engines.tensorflow.for_keras import Tap as Tap
    from pullback.engines.tensorflow.for_keras import WatchGradients as WatchGradients
    from pullback.engines.tensorflow.for_keras import quantize as quantize

__all__ = [
    "Checkpoint",
    "GradientClip",
    "GradientNorms",
    "GradientReversal",
    "GradientScale",
    "GradientSchedule",
    "Quantize",
    "Spike",
    "StraightThrough",
    "Tap",
    "WatchGradients",
    "quantize",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"pullback.keras has no {name!r}; it has {', '.join(__all__)}.")
    return only_engine().for_keras(name)


def __dir__() -> list[str]:
    return __all__
