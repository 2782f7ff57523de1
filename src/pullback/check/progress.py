"""One line that says what a check is doing, if it takes longer than a moment: in a terminal or a notebook."""

import contextlib
import contextvars
import importlib
import sys
import time
from collections.abc import Callable, Generator
from typing import Any

from pullback.check import numbers as n

Show = Callable[[str], None]
_current: contextvars.ContextVar["_Line | None"] = contextvars.ContextVar("progress", default=None)
_hidden: contextvars.ContextVar[bool] = contextvars.ContextVar("hidden", default=False)


class _Line:
    """Shown after a second, changed a few times a second, cleared at the end."""

    def __init__(self, name: str, show: Show) -> None:
        self.name, self.show = name, show
        self.next, self.is_shown, self.points = time.monotonic() + n.PATIENCE, False, 0

    def say(self, what: str) -> None:
        now = time.monotonic()
        if now >= self.next:
            self.show(f"checking {self.name}: {what}")
            self.next, self.is_shown = now + n.REFRESH, True

    def clear(self) -> None:
        if self.is_shown:
            self.show("")


@contextlib.contextmanager
def shown(name: str) -> Generator[None]:
    """What is reported inside is shown, where somebody looks."""
    show = None if _hidden.get() else _in_notebook() or _in_terminal()
    line = None if show is None else _Line(name, show)
    token = _current.set(line)
    try:
        yield
    finally:
        _current.reset(token)
        if line is not None:
            line.clear()


@contextlib.contextmanager
def hidden() -> Generator[None]:
    """Nothing is shown inside."""
    token = _hidden.set(True)
    try:
        yield
    finally:
        _hidden.reset(token)


def at_point(what: str) -> None:
    """Another point is tried."""
    line = _current.get()
    if line is not None:
        line.points += 1
        line.say(f"point {line.points}, {what}")


def explaining(tried: int) -> None:
    """Explanations are tried."""
    line = _current.get()
    if line is not None:
        line.say(f"wrong, {tried} explanations tried")


def _in_terminal() -> Show | None:
    if not sys.stderr.isatty():
        return None

    def show(text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")  # to the beginning of the line, and clear it
        sys.stderr.flush()

    return show


def _in_notebook() -> Show | None:
    """The cell's output, in which one element changes; nothing without a kernel."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is None:
        return None
    display = importlib.import_module("IPython.display")
    handle: Any = None

    def show(text: str) -> None:
        nonlocal handle
        element = display.Pretty(text)
        if handle is None:
            handle = display.display(element, display_id=True)
        else:
            handle.update(element)

    return show
