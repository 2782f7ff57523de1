"""The exit statuses of all commands, and signals that end a run."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
from collections.abc import Generator
from types import FrameType
from typing import NoReturn


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
    """Let `os._exit` raise `Left` meanwhile: code that is run must not end a command with a status of its own.

    Copies of this process, which such code may fork, end as they mean to.
    """
    own, leave, is_on = os.getpid(), os._exit, True

    def stay(status: int) -> NoReturn:
        if is_on and os.getpid() == own:
            raise Left(f"ended the program with os._exit({status!r})")
        leave(status)

    os._exit = stay
    try:
        yield
    finally:
        is_on = False
        os._exit = leave


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
