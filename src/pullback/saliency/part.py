"""The map of some of the examples, and what is to be said about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pullback.saliency.protocol import ModelRun


@dataclass
class Part:
    """One array for each input, or for the features of a layer."""

    values: list[Any]
    run: ModelRun
    gap: Any = None  # of each example, where the method keeps a sum
    steps: int | None = None  # the most that an example took
    tolerance: float | None = None  # what the gap was to be within
    is_stuck: bool = False  # whether more steps did not bring it there
    leaks: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what each layer took
    layer: str | None = None
    calls: int = 0
    chosen: Any = None

    def __post_init__(self) -> None:
        self.layer = self.layer or self.run.layer
        self.calls = self.calls or self.run.calls
        self.chosen = self.run.chosen if self.chosen is None else self.chosen
