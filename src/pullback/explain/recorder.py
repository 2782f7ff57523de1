"""What an engine does for `explain`: run a function once, forward and backward, and tell all that happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pullback.explain.flow import Flow


class Recorder(Protocol):
    """What an engine does for `explain`."""

    def record(
        self,
        fn: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        wrt: Sequence[str] | None,
        loss: Any,
    ) -> Flow:
        """The flow of one run. Everything that the run changes is put back: variables, seeds, statistics."""
        ...
