"""An audit under way: several processes, each with the next function; what they find is written down at once."""

import threading
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Protocol

from pullback.audit.results import Result


class Worker(Protocol):
    """Another process, which has the same list of functions."""

    def outcome(self, index: int, options: dict[str, Any]) -> Result:
        """What comes of one of them."""
        ...

    def close(self) -> None:
        """End it."""
        ...


def audited(
    indices: Sequence[int],
    make: Callable[[], Worker],
    processes: int,
    on_start: Callable[[int], None],
) -> Iterator[Result]:
    """The results in the order in which they come; `on_start` is told what is under way."""
    todo: SimpleQueue[int] = SimpleQueue()
    done: SimpleQueue[Result | BaseException | None] = SimpleQueue()
    for index in indices:
        todo.put(index)
    workers = [make() for _ in range(max(1, min(processes, len(indices))))]

    def work(worker: Worker) -> None:
        try:
            while True:
                index = todo.get_nowait()
                on_start(index)
                done.put(worker.outcome(index, {}))
        except Empty:
            done.put(None)
        except BaseException as error:
            done.put(error)

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        yield from _until_all_end(done, len(threads))
    finally:
        for worker in workers:
            worker.close()


def _until_all_end(
    done: SimpleQueue[Result | BaseException | None], running: int
) -> Iterator[Result]:
    while running:
        result = done.get()
        if isinstance(result, BaseException):
            raise result
        if result is None:
            running -= 1
        else:
            yield result
