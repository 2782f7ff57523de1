"""Where something runs: its name, its layer, and the line of the user's code, read from the Python stack."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from pathlib import Path
from typing import Any

from pullback.engines.tensorflow.tf_private import autograph, overriding
from pullback.extend import Place

_LIBRARIES = frozenset(
    {"tensorflow", "keras", "pullback", "contextlib", "functools", "optree", "numpy", "threading", "<string>"}
)  # fmt: skip
_DEEPEST = 150


class Where:
    """What runs or was found in a graph, for lines to match; the place is worked out on demand."""

    def __init__(
        self,
        kind: str,
        name: Any = None,
        operation: Any = None,
        *,
        owner: Any = None,
        in_source: bool = True,
    ) -> None:
        self.type = kind  # the op type, or "function"
        self.owner = owner  # of a method or layer
        self.in_source = in_source  # false for a node of a graph without Python source
        self._name = name
        self._operation = operation
        self._place: Place | None = None

    @property
    def own(self) -> str:
        """The name without the scopes around it."""
        return self._name.decode() if isinstance(self._name, bytes) else self._name or self.type

    @property
    def name(self) -> str:
        """The name with the scopes around it."""
        if self._operation is not None:
            return self._operation.name
        scope = overriding.name_scope() if self.in_source else ""
        return f"{scope}/{self.own}" if scope else self.own

    @property
    def place(self) -> Place:
        """The place as plain data."""
        if self._place is None:
            name = self.own if self.type == "function" else self.name
            found = (
                _layer_and_source(inspect.currentframe(), self._operation) if self.in_source else ()
            )
            self._place = Place(name, self.type, *found)
        return self._place


def running_layer() -> Any:
    """The innermost Keras layer that is running here, if there is one."""
    frame, found = inspect.currentframe(), None
    while frame is not None and found is None:
        frame, found = frame.f_back, overriding.layer_called(frame)
    return found


def _layer_and_source(frame: Any, operation: Any) -> tuple[str | None, str | None]:
    layer = source = None
    for _ in range(_DEEPEST):
        if frame is None or (layer and source):
            break
        own = None if layer else overriding.layer_called(frame)
        if own is not None:
            layer = own.path or own.name  # an unbuilt layer, or one without weights, has no path
        elif source is None and not _is_library(frame):
            source = _line(frame, operation)
        frame = frame.f_back
    return layer, source


def caller() -> Place:
    """Where in the user's code this is called from: the layer, or else the function, and the line."""
    frame = inspect.currentframe()
    layer, source = _layer_and_source(frame, None)
    while frame is not None and _is_library(frame):
        frame = frame.f_back
    if frame is None:
        return Place(layer or "a tensor", "tensor", layer, source)
    file, line = autograph.origin_of_line(frame.f_code.co_filename, frame.f_lineno)
    function = frame.f_code.co_name.removeprefix("tf__")
    name = Path(file).name if function == "<module>" else function
    return Place(layer or name, "tensor", layer, f"{file}:{line}")


def _is_library(frame: Any) -> bool:
    return frame.f_globals.get("__name__", "").partition(".")[0] in _LIBRARIES


def _line(frame: Any, operation: Any) -> str | None:
    filename = frame.f_code.co_filename
    if not autograph.is_generated(filename):
        hidden = filename.startswith("<") and "ipython" not in filename
        return None if hidden else f"{filename}:{frame.f_lineno}"
    # AutoGraph runs a converted copy; the op itself knows the line of the original.
    return user_line(operation)


def user_line(operation: Any) -> str | None:
    """The innermost line of the user's code among those that made an op of a graph."""
    for record in reversed(list(getattr(operation, "traceback", None) or ())):
        if not _is_library_file(record.filename):
            return f"{record.filename}:{record.lineno}"
    return None


def _is_library_file(filename: str) -> bool:
    if filename.startswith("<") or autograph.is_generated(filename):
        return True
    return any(filename.startswith(root) for root in _roots())


@functools.cache
def _roots() -> tuple[str, ...]:
    """The folders of the libraries."""
    modules = [sys.modules[name] for name in ("tensorflow", "keras", "pullback")]
    return tuple(str(Path(str(module.__file__)).parent) + os.sep for module in modules)
