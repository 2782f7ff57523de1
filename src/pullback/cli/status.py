"""The exit statuses of all commands, and signals that end a run."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import signal
from collections.abc import Callable, Collection, Generator
from types import FrameType
from typing import Any


class Status(enum.IntEnum):
    """What a command says to the shell. What a signal or a closed pipe ends has 128 and the signal's number."""

    FINE = 0
    WRONG = 1
    UNDECIDED = 2
    FAILED = 3
    INTERRUPTED = 128 + 2
    BROKEN_PIPE = 128 + 13


class Ended(KeyboardInterrupt):
    """A signal ended the run: whatever an interrupt would close is closed."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Left(BaseException):
    """Code that was run ended the program at once; the text says how."""


@contextlib.contextmanager
def not_left() -> Generator[None]:
    """Let `os._exit` and `os.execv` raise `Left` meanwhile: code that is run gives a command no status of its own.

    Copies of this process, which such code may fork, end as they mean to.
    """
    running = [os.getpid()]
    real = {name: getattr(os, name) for name in ("_exit", "execv", "execve") if hasattr(os, name)}
    for name, leave in real.items():
        setattr(os, name, _staying(name, leave, running))
    try:
        yield
    finally:
        running.clear()
        for name, leave in real.items():
            setattr(os, name, leave)


def _staying(name: str, leave: Callable[..., Any], running: Collection[int]) -> Callable[..., Any]:
    @functools.wraps(leave)
    def stay(*args: Any, **kwargs: Any) -> Any:
        if os.getpid() in running:
            raise Left(f"ended the program with os.{name}({', '.join(map(repr, args[:1]))})")
        return leave(*args, **kwargs)

    return stay


def status_of(interrupt: KeyboardInterrupt) -> int:
    """With what an interrupted run ends."""
    return 128 + interrupt.number if isinstance(interrupt, Ended) else Status.INTERRUPTED


def end_by_signals() -> None:
    """Let TERM and HUP end a run as an interrupt does, so that its processes and half-written files go as well."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has fewer
        # one that is ignored, as under nohup, stays ignored; outside of the main thread nothing can be set
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            with contextlib.suppress(ValueError):
                signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    del frame
    raise Ended(number)
