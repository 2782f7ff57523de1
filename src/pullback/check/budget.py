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


class Spent(BaseException):
    """There is nothing left to spend; what was found until then stands.

    No `Exception`: a handler of what the user's function raises is not to take it for that.
    """


@dataclass
class Budget:
    """The calls that may have been made at the end of it, and seconds of CPU time from now, if these are limited.

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


@dataclass
class Calls:
    """Every run of the user's function, eager, while it is traced, or as a traced program, and what they may come to.

    Probes count them where they happen: one for the rule, one for what it is compared with, all in one count.
    """

    made: int = 0
    budget: Budget | None = None

    @contextlib.contextmanager
    def within(self, calls: int, seconds: float = float("inf")) -> Generator[Budget]:
        """No more than so many calls and seconds are spent in the block, whatever may be spent around it."""
        outer, self.budget = self.budget, Budget(self.made + calls, seconds)
        try:
            yield self.budget
        finally:
            self.budget = outer

    @property
    def are_few(self) -> bool:
        """Whether there are those of a quick check only, which have no room for what is convenient."""
        return self.budget is not None and self.budget.calls <= n.QUICK_CALLS

    def may_spend(self, calls: int) -> bool:
        """Whether so many calls are left."""
        return self.budget is None or self.made + calls <= self.budget.calls

    def spend(self, calls: int = 1) -> None:
        """Count calls that are about to be made; `Spent` is raised where they are more than there may be."""
        if self.budget is not None:
            self.budget.require(self.made + calls)
        self.made += calls
