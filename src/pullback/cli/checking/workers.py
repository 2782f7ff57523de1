"""Who is asked: this process, or others that may crash, several at a time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pullback.cli.checking.outcome import UNKNOWN, Item, Listing, Outcome, Unloaded
from pullback.cli.checking.places import Place
from pullback.cli.checking.server import Answer, Here
from pullback.cli.settings import Project
from pullback.cli.worker import LOADING, Apart, Lost

Task = tuple[Place, Item]


class Asker:
    """Asks for items and outcomes; after a crash, in a new process."""

    def __init__(self, project: Project, seconds: float, *, isolate: bool) -> None:
        make = partial(Here, project, apart=isolate)
        self._runner: Any = Apart(make, seconds, Answer) if isolate else make()
        self._loaded: set[Place] = set()
        self._changed: tuple[Place, list[str]] | None = None
        self._seconds = seconds

    def items(self, place: Place) -> Listing | Unloaded:
        """The custom gradients of a place, or why it cannot be loaded."""
        if refused := self._refused(place):
            return refused
        try:
            found = self._ask((place,), {}, max(self._seconds, LOADING) if self._seconds else 0)
        except Lost as lost:
            return Unloaded(f"cannot be loaded: {lost}")
        if isinstance(found, Outcome):
            return Unloaded("cannot be loaded: its process answered out of turn")
        self._loaded.add(place)
        return found

    def outcome(self, task: Task, options: Mapping[str, Any]) -> Outcome:
        """What comes of one of them."""
        place, item = task
        refused = self._refused(place)
        if refused or place not in self._loaded:
            found = self.items(place)
            if isinstance(found, Unloaded):
                return Outcome(item, UNKNOWN, found.text, source=found.source)
        try:
            found = self._ask((place, item.name), dict(options), self._seconds)
        except Lost as lost:
            return Outcome(item, UNKNOWN, f"could not be checked: {lost}")
        if isinstance(found, Outcome) and found.item == item:
            return found
        why = found.text if isinstance(found, Unloaded) else "its process answered out of turn"
        return Outcome(item, UNKNOWN, f"could not be checked: {why}")

    def close(self) -> None:
        """End its process."""
        self._runner.close()

    def _refused(self, place: Place) -> Unloaded | None:
        """A file that has changed settings for all others keeps its process; why not, where there is no other."""
        by, what = self._changed or (place, [])
        if isinstance(self._runner, Apart):
            if by.target != place.target:
                self._runner.close()
            if not self._runner.is_running:
                self._loaded.clear()
                self._changed = None
        elif by.target != place.target:
            return Unloaded(
                f"cannot be checked here: {by.label} has changed {', '.join(what)} for the whole process. "
                "Leave out --no-isolate"
            )
        return None

    def _ask(self, question: Any, options: dict[str, Any], seconds: float) -> Any:
        limit = (seconds,) if isinstance(self._runner, Apart) else ()
        own = os.getpid()
        answer, changed = self._runner.outcome(question, options, *limit)
        if (
            os.getpid() != own
        ):  # a copy that a function here has forked: its answers are given twice
            os._exit(0)
        if changed:
            self._changed = (question[0], changed)
        return answer


@dataclass
class Crew:
    """Several askers, each busy with one function at a time; outcomes come in the order of the tasks."""

    make: Callable[[], Asker]
    size: int
    running: dict[int, str] = field(default_factory=dict[int, str])
    _askers: dict[int, Asker] = field(default_factory=dict[int, Asker])

    def first(self) -> Asker:
        """The one that lists what there is."""
        return self._askers.setdefault(threading.get_ident(), self.make())

    def outcomes(
        self, tasks: Sequence[Task], options: Mapping[str, Any], shown: Callable[[], None]
    ) -> Iterator[Outcome]:
        """What comes of each task; `shown` is called where `running` has changed."""
        size = min(self.size, len(tasks))
        if size <= 1:
            for task in tasks:
                yield self._one(task, options, shown)
            return
        idle = [self.first(), *(self.make() for _ in range(size - 1))]
        self._askers.update(enumerate(idle))
        pool = ThreadPoolExecutor(size, initializer=self._join, initargs=(idle,))
        waiting: list[Future[Outcome]] = [
            pool.submit(self._one, task, options, shown) for task in tasks
        ]
        try:
            for future in waiting:
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # before a free one takes the next
            self.close()
            pool.shutdown(wait=True)

    def _join(self, idle: list[Asker]) -> None:
        self._askers[threading.get_ident()] = idle.pop()

    def _one(self, task: Task, options: Mapping[str, Any], shown: Callable[[], None]) -> Outcome:
        here = threading.get_ident()
        self.running[here] = task[1].name
        shown()
        try:
            return self._askers.setdefault(here, self.make()).outcome(task, options)
        finally:
            self.running.pop(here, None)

    def close(self) -> None:
        """End all processes."""
        for asker in list(self._askers.values()):
            asker.close()
