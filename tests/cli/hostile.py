"""Objects for `Apart` that do to their process, and to its files, whatever a function under check may do."""

import contextlib
import ctypes
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

FILES = range(3, 300)


def write_everywhere(data: bytes) -> None:
    for number in FILES:
        with contextlib.suppress(OSError):
            os.write(number, data)


def write_without_end() -> None:
    while True:
        write_everywhere(b"x" * 1000)


def write_an_answer(number: int, answer: Any = "forged") -> None:
    write_everywhere(json.dumps([number, os.getpid(), answer]).encode() + b"\n")


def fork_in_c() -> int:
    return ctypes.CDLL(None).fork()


def leave_the_answer_to_a_copy() -> None:
    if (copy := fork_in_c()) == 0:
        write_an_answer(1)
        os._exit(0)
    os.waitpid(copy, 0)
    os._exit(3)


def close_and_sleep() -> None:
    os.closerange(3, 300)
    time.sleep(600)


def put_nothing_in_place_of_files() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in FILES:
        os.dup2(nothing, number)


def loop_in_c() -> None:
    sum(itertools.repeat(1))  # no thread of Python runs meanwhile


def start_others_and_loop() -> None:
    if os.fork() == 0:
        loop_in_c()
    if fork_in_c() == 0:
        loop_in_c()
    loop_in_c()


def fail_as(error: BaseException) -> None:
    raise error


class Hostile:
    """Does what it is asked for by name, and answers with the name."""

    deeds: ClassVar[dict[str, Callable[[], Any]]] = {
        "nothing": lambda: None,
        "stray bytes": lambda: write_everywhere(b"junk"),
        "a stray byte": lambda: write_everywhere(b"\0"),
        "stray lines": lambda: write_everywhere(b"\n" * 3),
        "a pickle": lambda: write_everywhere(b"cos\nsystem\n(S'touch here'\ntR."),
        "data that fit nothing": lambda: write_everywhere(b'{"Outcome": {}}\n'),
        "deep data": lambda: write_everywhere(b"[" * 100_000 + b"\n"),
        "no end": write_without_end,
        "an answer to nothing": lambda: write_an_answer(99),
        "an answer of another type": lambda: write_an_answer(1, [1.5]),
        "two answers": lambda: write_an_answer(1, "two answers"),
        "a fork": os.fork,
        "a fork in C": fork_in_c,
        "a copy that answers": leave_the_answer_to_a_copy,
        "an exit": lambda: os._exit(7),
        "no Exception": lambda: fail_as(GeneratorExit()),
        "an interrupt": lambda: fail_as(KeyboardInterrupt()),
        "a signal": lambda: os.kill(os.getpid(), signal.SIGKILL),
        "closed files": close_and_sleep,
        "other files": put_nothing_in_place_of_files,
        "much output": lambda: [print("x" * 10**6) for _ in range(20)],
        "closed streams": lambda: [os.close(n) for n in range(3)],
        "a loop": loop_in_c,
        "loops": start_others_and_loop,
    }

    def names(self) -> list[str]:
        return [str(os.getpid())]

    def outcome(self, question: str, options: dict[str, Any]) -> str:
        self.deeds[question]()
        return question


def parent(deed: str, ready: str) -> None:
    """A process that waits for another one, which it tells the number of."""
    from pullback.cli.status import end_by_signals
    from pullback.cli.worker import Apart

    end_by_signals()
    apart = Apart(Hostile, 0, str)
    (number,) = apart.names()
    Path(ready).write_text(number, encoding="utf-8")
    try:
        apart.outcome(deed, {})
    finally:
        apart.close()


if __name__ == "__main__":
    from tests.cli.hostile import (
        parent as run,
    )  # so that the other process finds what is sent to it

    run(*sys.argv[1:])
