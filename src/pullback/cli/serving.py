"""The process apart of `worker`: one object, asked until nobody asks any more.

Questions come in at stdin, answers go out where stdout was; neither is where code that runs here would read or write.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Generator
from queue import SimpleQueue
from typing import Any, BinaryIO, NoReturn

from pullback._plain_data import as_line
from pullback.cli.terminal import lasting

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


class NotLoaded(Exception):
    """The object cannot be made, or says so itself; the text says why."""


def serve() -> NoReturn:
    """Make the object, then answer; whatever ends that ends the process at once.

    No file is closed and no thread waited for: the one that listens holds on to the questions.
    """
    status = 1
    try:
        _serve()
        status = 0
    except BaseException:  # code that runs here may raise anything, also where nobody looks for it
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):  # whatever stands for it now
            sys.stderr.flush()
        os._exit(status)


def _serve() -> None:
    questions, answers = _taken(0, os.O_RDONLY), _taken(1, os.O_WRONLY)
    os.dup2(2, 1)  # what functions print must not get between the answers
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    pipe = _Pipe(questions, answers)
    asked: SimpleQueue[Any] = SimpleQueue()
    file = os.fdopen(questions, "rb")
    make = pickle.load(file)
    threading.Thread(target=_listen, args=(file, asked), daemon=True).start()
    with pipe.working():
        here, answer = _made(make)
    pipe.answer(0, answer)
    while here is not None:
        number, question, options = asked.get()
        with pipe.working():
            answer = here.outcome(question, options)
        pipe.answer(number, answer)


def _made(make: Any) -> tuple[Any, Any]:
    """The object and the names of what it can be asked for, or why there is none."""
    try:
        here = make()
        return here, here.names()
    except NotLoaded as error:
        return None, str(error)


def _taken(number: int, mode: int) -> int:
    """What a number means, under another number; the first means nothing then."""
    kept = lasting(number)
    nothing = os.open(os.devnull, mode)
    os.dup2(nothing, number)
    os.close(nothing)
    return kept


def _listen(file: BinaryIO, asked: SimpleQueue[Any]) -> None:
    """Take questions; where there can be no more, nobody is left who would read an answer."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            asked.put(pickle.load(file))
    if hasattr(os, "killpg"):
        os.killpg(os.getpgrp(), signal.SIGKILL)  # with all that was started here
    os._exit(1)


class _Pipe:
    """Where answers go. Copies of this process, which `os.fork` makes, have no part in it."""

    def __init__(self, questions: int, answers: int) -> None:
        self._questions, self._answers, self._pid = questions, answers, os.getpid()
        self._is_copy = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave)

    @contextlib.contextmanager
    def working(self) -> Generator[None]:
        """Where the other end of the questions is closed meanwhile, Linux ends this process and its copies.

        The thread that listens sees it too, unless code in C never lets it run.
        """
        self._set_signal(os.O_ASYNC if hasattr(fcntl, "F_SETSIG") else 0)
        try:
            yield
        finally:
            self._set_signal(0)

    def _set_signal(self, mode: int) -> None:
        if fcntl is not None and hasattr(fcntl, "F_SETSIG"):
            fcntl.fcntl(self._questions, fcntl.F_SETOWN, -os.getpgrp())
            fcntl.fcntl(self._questions, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(self._questions, fcntl.F_SETFL, mode)

    def answer(self, number: int, value: Any) -> None:
        """Send an answer, with the number of its question and of the process that gives it."""
        if os.getpid() != self._pid:
            os._exit(0)
        rest = as_line([number, self._pid, value])
        while rest:
            rest = rest[os.write(self._answers, rest) :]

    def _leave(self) -> None:
        if self._is_copy:  # a function that forks whenever it is called would fill the machine with copies of copies
            os._exit(0)
        self._is_copy = True
        for number in (self._questions, self._answers):
            with contextlib.suppress(OSError):
                os.close(number)
