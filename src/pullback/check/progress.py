"""One line that says what a check is doing, if it takes longer than a moment: in a terminal or a notebook."""

import contextlib
import importlib
import sys
import time
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any

from pullback.check import numbers as n

Show = Callable[[str], None]
_say: ContextVar[Show | None] = ContextVar("say", default=None)
_hidden: ContextVar[bool] = ContextVar("hidden", default=False)


def say(what: str) -> None:
    """Show what is being done, if a check is under way that shows it."""
    show = _say.get()
    if show is not None:
        show(what)


@contextlib.contextmanager
def shown(name: str) -> Generator[None]:
    """What is said inside is shown after a second and a few times a second, where somebody looks, and then cleared."""
    show = None if _hidden.get() else _in_notebook() or _in_terminal()
    due, is_shown = time.monotonic() + n.PATIENCE, False

    def now_and_then(what: str) -> None:
        nonlocal due, is_shown
        if show is not None and time.monotonic() >= due:
            show(f"checking {name}: {what}")
            due, is_shown = time.monotonic() + n.REFRESH, True

    token = _say.set(now_and_then)
    try:
        yield
    finally:
        _say.reset(token)
        if show is not None and is_shown:
            show("")


@contextlib.contextmanager
def hidden() -> Generator[None]:
    """Nothing is shown inside."""
    token = _hidden.set(True)
    try:
        yield
    finally:
        _hidden.reset(token)


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
    handles: list[Any] = []

    def show(text: str) -> None:
        if handles:
            handles[0].update(display.Pretty(text))
        else:
            handles.append(display.display(display.Pretty(text), display_id=True))

    return show
