"""What a check or a diagnosis may spend: calls of the user's function, and seconds."""

import contextlib
import time
from collections.abc import Generator
from contextvars import ContextVar
from dataclasses import dataclass, field

from pullback.check import numbers as n

# The calls of a quick check.
quick: ContextVar[int] = ContextVar("quick", default=n.QUICK_CALLS)


@contextlib.contextmanager
def quick_checks_within(calls: int) -> Generator[None]:
    """Quick checks in the block may make other numbers of calls than users are promised."""
    token = quick.set(calls)
    try:
        yield
    finally:
        quick.reset(token)


class Spent(Exception):
    """There is nothing left to spend; what was found until then stands."""


@dataclass
class Budget:
    """The calls that a subject may have made at the end of it, and seconds of CPU time from now, if these are limited.

    CPU time, so that what is said does not depend on what else the machine does; more of it goes by for a function that
    waits.
    """

    calls: int
    seconds: float = float("inf")
    began: float = field(default_factory=time.process_time)
    began_to_wait: float = field(default_factory=time.monotonic)
    is_spent: bool = False

    def require(self, calls: int) -> None:
        """Raise `Spent` if so many calls are more than allowed, or too much time has passed."""
        worked, waited = time.process_time() - self.began, time.monotonic() - self.began_to_wait
        if calls > self.calls or worked > self.seconds or waited > n.WAITING * self.seconds:
            self.is_spent = True
            raise Spent
