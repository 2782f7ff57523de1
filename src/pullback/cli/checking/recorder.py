"""The calls of functions with a gradient of their own, ours and the framework's, while something runs."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from pullback._engine import only_engine
from pullback._function import GradientFunction
from pullback._reach import unwrapped
from pullback.check.probe import Reached
from pullback.cli.checking.sites import Site
from pullback.cli.source import written_at


@contextlib.contextmanager
def recorded() -> Generator[list[Reached]]:
    """The calls inside the block, in order."""
    run = GradientFunction.__call__
    with only_engine().probes.recorded() as found:

        def run_and_tell(self: GradientFunction, *args: Any, **kwargs: Any) -> Any:
            found.append(Reached(self, args, kwargs, tuple(codes_of(self))))
            return run(self, *args, **kwargs)

        GradientFunction.__call__ = run_and_tell
        try:
            yield found
        finally:
            GradientFunction.__call__ = run


def codes_of(value: Any) -> Iterator[types.CodeType]:
    """The code of a callable, of what it is wrapped around, and of its rule."""
    for one in unwrapped(value):
        for part in (one, getattr(one, "rule", None)):
            code = getattr(part, "__code__", None)
            if isinstance(code, types.CodeType):
                yield code


def is_at(
    site: Site, file: Path, codes: Iterator[types.CodeType] | tuple[types.CodeType, ...]
) -> bool:
    """Whether code is what a site defines."""
    places = map(written_at, codes)
    return any(line in site.lines and written == file for written, line in places)
