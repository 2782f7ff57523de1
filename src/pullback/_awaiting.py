"""Engines are loaded once something is imported that reads files with our objects in them: no verb is called then."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec
from typing import Any

from pullback._engine import present
from pullback.errors import PullbackError

READERS = frozenset({"keras"})


def load_engines() -> None:
    """Load the engines of what is imported, now and as soon as a reader of files is."""
    _load()
    if not sys.modules.keys() >= READERS:
        sys.meta_path.insert(0, _Awaiting())


def _load() -> None:
    with contextlib.suppress(PullbackError):  # the first verb says what is wrong
        present()


class _Awaiting:
    """Finds nothing itself, but has the engines loaded right after a reader of files."""

    _looking = False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Where Python finds the module anyway."""
        del path, target
        if fullname not in READERS or self._looking:
            return None
        self._looking = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking = False
        if spec is not None and spec.loader is not None:
            self._load_after(spec.loader)
        return spec

    def _load_after(self, loader: Any) -> None:
        """Have the engines loaded once this loader has run its module, which a mere look at the spec does not do."""
        run = loader.exec_module

        def exec_module(module: Any) -> None:
            del loader.exec_module
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(self)
            run(module)
            _load()

        loader.exec_module = exec_module
