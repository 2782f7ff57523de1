"""Where something runs: the layer it belongs to and the line of the user's code, read from the
Python stack.
"""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from typing import Any

from pullback._audit import Place

_LIBRARIES = frozenset(
    {
        "tensorflow",
        "keras",
        "pullback",
        "contextlib",
        "functools",
        "optree",
        "numpy",
        "threading",
        "<string>",
    }
)
_DEEPEST = 150


def find_place(op_type: str, name: str, operation: Any = None) -> Place:
    """The place of an op or function that runs or is created now."""
    layer, source = _layer_and_source(sys._getframe(2), operation)
    return Place(name, op_type, layer, source)


def _layer_and_source(frame: Any, operation: Any) -> tuple[str | None, str | None]:
    layer = source = None
    for _ in range(_DEEPEST):
        if frame is None or (layer and source):
            break
        module = frame.f_globals.get("__name__", "")
        if (
            layer is None
            and module == "keras.src.layers.layer"
            and frame.f_code.co_name == "__call__"
        ):
            layer = getattr(frame.f_locals.get("self"), "path", None)
        elif source is None and module.partition(".")[0] not in _LIBRARIES:
            source = _line(frame, operation)
        frame = frame.f_back
    return layer, source


def _line(frame: Any, operation: Any) -> str | None:
    filename = frame.f_code.co_filename
    if "__autograph_generated_file" not in filename:
        return (
            None
            if filename.startswith("<") and "ipython" not in filename
            else f"{filename}:{frame.f_lineno}"
        )
    # AutoGraph runs a converted copy; the op itself knows the line of the original.
    for record in reversed(list(getattr(operation, "traceback", None) or ())):
        if not _is_library_file(record.filename):
            return f"{record.filename}:{record.lineno}"
    return None


def _is_library_file(filename: str) -> bool:
    if filename.startswith("<") or "__autograph_generated_file" in filename:
        return True
    return any(filename.startswith(root) for root in _roots())


@functools.cache
def _roots() -> tuple[str, ...]:
    """The folders of the libraries."""
    modules = [sys.modules[name] for name in ("tensorflow", "keras", "pullback")]
    return tuple(str(Path(str(module.__file__)).parent) + os.sep for module in modules)
