"""Checks in a process of their own: one that crashes or never ends takes nothing with it.

The process loads the target and is used for all of its functions. Where it dies or takes too long, the function that
it was at has its line, and a new process goes on with the next.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
from typing import Any

from pullback.cli.outcomes import Here, NotLoaded, Outcome

_LOADING = (
    120.0  # seconds that importing a framework may take at least, however short the functions
)
_PATIENCE = 5.0  # seconds until a process that is through has ended


class _Lost(Exception):
    """The process gave no answer; the text says why."""


class Apart:
    """Checks in another process, for at most so many seconds each; 0 is for ever."""

    def __init__(self, target: str, seconds: float) -> None:
        self._target = target
        self._seconds = seconds or None
        self._process: Any = None
        self._pipe: Any = None

    def names(self) -> list[str]:
        """Load the target there; the names of what is to be checked."""
        try:
            answer = self._started()
        except _Lost as lost:
            raise NotLoaded(f"cannot be loaded: {lost}") from None
        if isinstance(answer, str):
            raise NotLoaded(answer)
        return answer

    def outcome(self, index: int, options: dict[str, Any]) -> Outcome:
        """What comes of checking one of them."""
        try:
            if self._process is None:
                self._started()
            self._pipe.send((index, options))
            return self._answer(self._seconds)
        except _Lost as lost:
            return Outcome(None, reason=f"could not be checked: {lost}")

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._pipe.close()
            self._process.kill()
            self._process.join()
            self._process = None

    def _started(self) -> Any:
        spawn = multiprocessing.get_context("spawn")  # frameworks do not survive a fork
        self._pipe, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_serve, args=(theirs, self._target))
        self._process.start()
        theirs.close()
        return self._answer(self._seconds and max(self._seconds, _LOADING))

    def _answer(self, seconds: float | None) -> Any:
        try:
            if self._pipe.poll(seconds):
                return self._pipe.recv()
            reason = f"it did not end within {seconds:g} seconds (--timeout)"
        except (EOFError, OSError):
            self._process.join(_PATIENCE)
            reason = _end_of(self._process.exitcode)
        self.close()
        raise _Lost(reason)


def _end_of(status: int | None) -> str:
    if status is not None and status < 0:
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"it ended its process with status {status}"


def _serve(pipe: Any, target: str) -> None:
    """Load the target, then check what is asked for until nobody asks any more."""
    # An interrupt is for the process that asks: it ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    here = Here(target)
    try:
        pipe.send(here.names())
    except NotLoaded as error:
        pipe.send(str(error))
        return
    while True:
        try:
            index, options = pipe.recv()
        except EOFError:
            return
        pipe.send(here.outcome(index, options))
