"""Functions shared out among workers."""

import pytest

from pullback.audit.results import RIGHT, Result
from pullback.audit.run import audited


class Worker:
    def __init__(self, closed: list[bool], fails: bool = False) -> None:
        self.closed, self.fails = closed, fails

    def outcome(self, index: int, options: dict[str, object]) -> Result:
        if self.fails:
            raise OSError("no pipe")
        return Result(str(index), RIGHT)

    def close(self) -> None:
        self.closed.append(True)


def test_every_function_is_run_once_and_workers_are_closed() -> None:
    closed: list[bool] = []
    started: list[int] = []
    found = list(audited(range(7), lambda: Worker(closed), 3, started.append))
    assert sorted(one.name for one in found) == [str(k) for k in range(7)]
    assert sorted(started) == list(range(7))
    assert closed == [True] * 3


def test_no_more_workers_than_functions() -> None:
    closed: list[bool] = []
    assert len(list(audited([4], lambda: Worker(closed), 5, lambda _: None))) == 1
    assert closed == [True]


def test_what_a_worker_raises_ends_the_run() -> None:
    closed: list[bool] = []
    with pytest.raises(OSError, match="no pipe"):
        list(audited([1, 2], lambda: Worker(closed, fails=True), 1, lambda _: None))
    assert closed == [True]
