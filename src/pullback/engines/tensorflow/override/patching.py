"""Intercepting calls of Python functions, wherever a reference to them is patched.

While an override that names a function is open anywhere, the function object runs a trampoline
instead of its own code: the object stays the same, so every module, layer and closure that holds it
is reached. When the last such override closes, the function has its own code again and costs
nothing.
"""

from __future__ import annotations

import inspect
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

from pullback.engines.tensorflow.attach.as_argument import traced_as_itself
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import Binder

Dispatcher = Callable[["PatchedFunction", tuple[Any, ...], dict[str, Any]], Any]


class PatchedFunction:
    """A function that runs the trampoline, and a twin of it that runs the original code."""

    __slots__ = (
        "_binders", "code", "count", "dispatch", "function", "signature", "trampoline", "twin", "user_code",
    )  # fmt: skip

    def __init__(self, function: types.FunctionType, dispatch: Dispatcher) -> None:
        self.function = function
        self.code = function.__code__
        self.dispatch = dispatch
        self.count = 0
        self.twin = _twin(function)
        self.user_code = not _is_library(function)
        self.signature = None if hasattr(function, "__signature__") else inspect.signature(function)
        self.trampoline = _trampoline(self)
        self._binders: dict[bool, Binder] = {}

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the trampoline calls."""
        return self.dispatch(self, args, kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it were not patched, converted by AutoGraph where it would be."""
        status = overriding.autograph_context.control_status_ctx()
        if self.user_code and status.status is overriding.autograph_context.Status.ENABLED:
            return overriding.autograph_api.tf_convert(self.twin, status)(*args, **kwargs)
        return self.twin(*args, **kwargs)

    def binder(self, *, as_method: bool) -> Binder:
        """Binds arguments by the function's signature; as a method, without the first one."""
        if as_method not in self._binders:
            function = types.MethodType(self.twin, self) if as_method else self.twin
            self._binders[as_method] = Binder(function)
        return self._binders[as_method]

    def patch(self) -> None:
        """Put the trampoline in; whoever looks still sees the function's own signature, and it, not what it wraps."""
        if self.signature is not None:
            self.function.__signature__ = self.signature
        if hasattr(self.function, "__wrapped__"):
            self.function.__tf_tracing_type__ = traced_as_itself(self.function)
        self.function.__code__ = self.trampoline

    def release(self) -> None:
        """Put the original code back."""
        self.function.__code__ = self.code
        self.function.__dict__.pop("__tf_tracing_type__", None)
        if self.signature is not None:
            del self.function.__signature__
        # AutoGraph has noted that it shall not convert this function: true of the trampoline only.
        overriding.forget_unconverted(self.function)


_KEPT_AS = "__pullback_patch__"
_lock = threading.RLock()


def acquire(function: types.FunctionType, dispatch: Dispatcher) -> None:
    """Intercept calls of this function until as many releases as acquisitions have come."""
    with _lock:
        patched = patched_of(function)
        if patched is None:
            patched = PatchedFunction(function, dispatch)
            function.__dict__[_KEPT_AS] = patched
        if not patched.count:
            patched.patch()
        patched.count += 1


def release(function: types.FunctionType) -> None:
    """Undo one `acquire`."""
    with _lock:
        patched = function.__dict__[_KEPT_AS]
        patched.count -= 1
        if not patched.count:
            patched.release()


def patched_of(function: Any) -> PatchedFunction | None:
    """What is known of a function that is or was patched, unless its code was replaced since."""
    patched = getattr(function, "__dict__", {}).get(_KEPT_AS)
    if patched is None or function.__code__ not in (patched.code, patched.trampoline):
        return None
    return patched


def innermost(function: Any) -> Any:
    """The function under the library's own wrappers, through which all of its aliases go."""
    while _is_library(function):
        wrapped = getattr(function, "__wrapped__", None)
        if not isinstance(wrapped, types.FunctionType):
            break
        function = wrapped
    return function


def _is_library(function: Any) -> bool:
    root = (getattr(function, "__module__", None) or "").partition(".")[0]
    return root in ("tensorflow", "keras")


def _twin(function: types.FunctionType) -> types.FunctionType:
    twin = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    twin.__kwdefaults__ = function.__kwdefaults__
    twin.__dict__.update(function.__dict__)
    twin.__qualname__ = function.__qualname__
    twin.__module__ = function.__module__
    twin.__annotations__ = function.__annotations__
    return twin


def _trampoline(patched: PatchedFunction) -> types.CodeType:
    """Code that hands its arguments to `patched`, with as many free variables as the function's own."""
    free = [f"v{i}" for i in range(len(patched.code.co_freevars))]
    names = " = ".join([*free, "None"])
    uses = "; ".join(free) or "pass"
    source = (
        f"def outer():\n  {names}\n"
        "  def trampoline(*args, **kwargs):\n"
        f"    return 'PATCHED'(args, kwargs)\n    {uses}\n"
        "  return trampoline"
    )
    code = _template(source)
    consts = tuple(patched if const == "PATCHED" else const for const in code.co_consts)
    return code.replace(
        co_consts=consts, co_name=patched.code.co_name, co_qualname=patched.code.co_qualname
    )


_templates: dict[str, types.CodeType] = {}


def _template(source: str) -> types.CodeType:
    if source not in _templates:
        space: dict[str, Any] = {}
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", SyntaxWarning
            )  # a string is called, until it is replaced
            exec(compile(source, "<string>", "exec"), space)
        _templates[source] = space["outer"]().__code__
    return _templates[source]
