"""The exit statuses of all commands, and signals that end a run."""

from __future__ import annotations

import contextlib
import enum
import signal
from types import FrameType


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
