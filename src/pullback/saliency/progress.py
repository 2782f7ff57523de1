"""A line that says how far it is, if it takes longer than a moment and somebody looks."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Final

from rich.console import Console
from rich.progress import Progress

PATIENCE: Final = 1.0  # seconds without a word
Tell = Callable[[float], object]


@contextlib.contextmanager
def shown(title: str, console: Console | None = None) -> Generator[Tell]:
    """What is told inside, as a share of the whole, is shown after a second and cleared in the end."""
    console = console or Console(stderr=True)
    started = time.monotonic()
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(title, total=1.0)

    def tell(share: float) -> None:
        if time.monotonic() - started >= PATIENCE and not bar.live.is_started:
            bar.start()
        bar.update(task, completed=share)

    try:
        yield tell
    finally:
        bar.stop()
