"""Work in a process of its own: what crashes or never ends there takes nothing with it.

The process makes one object and asks it for everything. Where it dies or takes too long, the answer to that question is
lost, and a new process goes on with the next.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

LOADING = 120.0  # seconds that importing a framework may take at least, however short the functions
_PATIENCE = 5.0  # seconds until a process that is through has ended


class NotLoaded(Exception):
    """The object cannot be made, or says so itself; the text says why."""


class Lost(Exception):
    """The process gave no answer; the text says why."""


class Apart:
    """An object of another process, with at most so many seconds for each answer; 0 is for ever.

    `make` is called there; what it gives has `names()` and `outcome(index, options)`.
    """

    def __init__(self, make: Callable[[], Any], seconds: float) -> None:
        self._make = make
        self._seconds = seconds or None
        self._process: Any = None
        self._pipe: Any = None

    def names(self) -> list[str]:
        """Make the object there; the names of what it can be asked for."""
        try:
            answer = self._started()
        except Lost as lost:
            raise NotLoaded(f"cannot be loaded: {lost}") from None
        if isinstance(answer, str):
            raise NotLoaded(answer)
        return answer

    @property
    def is_running(self) -> bool:
        """Whether the object is there, with all that it remembers."""
        return self._process is not None

    def outcome(self, index: Any, options: dict[str, Any], seconds: float | None = None) -> Any:
        """What comes of one of them; raises `Lost` where nothing came in the usual time, or in so many seconds."""
        if self._process is None:
            self._started()
        try:
            self._pipe.send((index, options))
        except OSError as error:
            raise Lost("its process has ended") from error
        return self._answer(self._seconds if seconds is None else seconds or None)

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
        self._process = spawn.Process(target=_serve, args=(theirs, self._make))
        self._process.start()
        theirs.close()
        return self._answer(self._seconds and max(self._seconds, LOADING))

    def _answer(self, seconds: float | None) -> Any:
        process = self._process
        try:
            if self._pipe.poll(seconds):
                return self._pipe.recv()
            is_least = bool(self._seconds) and seconds == LOADING > (self._seconds or 0)
            whose = (
                "which loading has at least, whatever --timeout says" if is_least else "--timeout"
            )
            reason = f"it did not end within {seconds:g} seconds ({whose})"
        except (EOFError, OSError):
            process.join(_PATIENCE)
            reason = _end_of(process.exitcode)
        self.close()
        raise Lost(reason)


def _end_of(status: int | None) -> str:
    if status is not None and status < 0:
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"it ended its process with status {status}"


def _serve(pipe: Any, make: Callable[[], Any]) -> None:
    """Make the object, then answer until nobody asks any more."""
    # An interrupt is for the process that asks: it ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)  # what functions print must not get between the lines of the output
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    here = make()
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
