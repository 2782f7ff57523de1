"""Work in a process of its own: what crashes or never ends there takes nothing with it.

The process makes one object and asks it for everything. Where it dies, takes too long or says what is no answer, the
answer to that question is lost, and a new process goes on with the next. Answers are data, of a type that is known
beforehand: nothing that comes from there is run here. That is a fence against crashes, and none against hostile code.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from queue import Empty, Queue
from typing import IO, Any, NoReturn

from pullback._plain_data import Unfitting, read_line
from pullback.cli.serving import NotLoaded as NotLoaded

LOADING = 120.0  # seconds that importing a framework may take at least, however short the functions
_AGES = 1e9  # seconds: what waits for longer overflows
_PATIENCE = 5.0  # seconds until a process that is through has ended
_LONGEST = 1 << 27  # bytes of an answer: far more than any report has
_PROGRAM = "import sys; sys.path[:] = {!r}; from pullback.cli.serving import serve; serve()"


class Lost(Exception):
    """The process gave no answer; the text says why."""


class Apart:
    """An object of another process, with at most so many seconds for each answer; 0 is for ever.

    `make` is called there; what it gives has `names()` and `outcome(question, options)`, whose results are of the type
    `answers`.
    """

    def __init__(self, make: Callable[[], Any], seconds: float, answers: Any = None) -> None:
        self._make = make
        self._seconds = min(seconds, _AGES) or None
        self._type = answers
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: Queue[bytes] = Queue(2)
        self._asked = 0
        self._pid: int | None = None

    def names(self) -> list[str]:
        """Make the object there; the names of what it can be asked for."""
        try:
            return self._started()
        except Lost as lost:
            raise NotLoaded(f"cannot be loaded: {lost}") from None

    @property
    def is_running(self) -> bool:
        """Whether the object is there, with all that it remembers."""
        return self._process is not None

    def outcome(self, question: Any, options: dict[str, Any], seconds: float | None = None) -> Any:
        """What comes of one of them; raises `Lost` where nothing came in the usual time, or in so many seconds."""
        if self._process is None:
            try:
                self._started()
            except NotLoaded as error:
                raise Lost(str(error)) from None
        limit = self._seconds if seconds is None else min(seconds, _AGES) or None
        self._asked += 1
        self._send((self._asked, question, options))
        return self._answer(limit, self._type)

    def close(self) -> None:
        """End the process, and what it has started."""
        if self._process is None:
            return
        process, self._process = self._process, None
        _end(process)
        process.wait()
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()

    def _started(self) -> list[str]:
        self.close()
        words = [sys.executable, *(f"-W{one}" for one in sys.warnoptions)]
        self._process = subprocess.Popen(
            [*words, "-c", _PROGRAM.format(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt is for the process that asks: it ends this one
        )
        self._lines, self._asked, self._pid = Queue(2), 0, None
        reading = (self._process.stdout, self._lines)
        threading.Thread(target=_read, args=reading, daemon=True).start()
        self._send(self._make)
        names = self._answer(self._seconds and max(self._seconds, LOADING), list[str] | str)
        if isinstance(names, str):
            self.close()
            raise NotLoaded(names)
        return names

    def _send(self, question: Any) -> None:
        pipe = self._process and self._process.stdin
        try:
            if pipe is not None:
                pipe.write(pickle.dumps(question))
                pipe.flush()
        except OSError:
            self._lose(self._why_ended())

    def _answer(self, seconds: float | None, kind: Any) -> Any:
        """The answer to the last question; whatever else comes is none."""
        end = None if seconds is None else time.monotonic() + seconds
        others = 0
        while True:
            try:
                line = self._lines.get(timeout=end and max(0.0, end - time.monotonic()))
            except Empty:
                self._lose(_forked(others) or self._too_long(seconds))
            if not line:
                self._lose(_forked(others) or self._why_ended())
            number, pid, answer = self._read(line, kind)
            self._pid = self._pid or pid
            if pid == self._pid and number == self._asked:
                return answer
            if pid == self._pid:
                self._lose(
                    "its process answered out of turn: it writes to files that are not its own"
                )
            others += 1  # by a copy of the process, while the process itself may still answer

    def _read(self, line: bytes, kind: Any) -> Any:
        try:
            return read_line(line, tuple[int, int, kind])
        except Unfitting:
            shown = line[:40].decode("utf-8", "backslashreplace")
            self._lose(f"its process wrote what is no answer: {shown!r}")

    def _lose(self, reason: str) -> NoReturn:
        self.close()
        raise Lost(reason)

    def _too_long(self, seconds: float | None) -> str:
        is_least = bool(self._seconds) and seconds == LOADING > (self._seconds or 0)
        whose = "which loading has at least, whatever --timeout says" if is_least else "--timeout"
        return f"it did not end within {seconds:g} seconds ({whose})"

    def _why_ended(self) -> str:
        if self._process is None:
            return "its process was ended"
        try:
            return _end_of(self._process.wait(_PATIENCE))
        except subprocess.TimeoutExpired:
            return "it closed the files of its process"


def _read(stream: IO[bytes] | None, lines: Queue[bytes]) -> None:
    """All lines, and nothing at the end; a line that is too long comes in pieces, which are no answers."""
    if stream is not None:
        with stream, contextlib.suppress(OSError, ValueError):
            while line := stream.readline(_LONGEST):
                lines.put(line)
    lines.put(b"")


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _forked(others: int) -> str:
    return "it forked its process, and only the copy answered" if others else ""


def _end_of(status: int) -> str:
    if status < 0:
        return f"its process was ended by {signal.Signals(-status).name}"
    return f"it ended its process with status {status}"
