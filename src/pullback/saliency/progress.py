"""A line that says how far it is, if it takes longer than a moment and somebody looks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

PATIENCE: Final = 1.0  # seconds without a word
Tell = Callable[[float], object]


@contextlib.contextmanager
def shown(title: str, console: Console | None = None) -> Generator[Tell]:
    """What is told inside, as a share of the whole, is shown after a second and cleared in the end."""
    started, bar = time.monotonic(), None

    def tell(share: float) -> None:
        nonlocal bar
        if bar is None and time.monotonic() - started >= PATIENCE:
            bar = _started(title, console)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=share)

    try:
        yield tell
    finally:
        if bar is not None:
            bar.stop()


def _started(title: str, console: Console | None) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    console = console or Console(stderr=True)
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    bar.add_task(title, total=1.0)
    bar.start()
    return bar
