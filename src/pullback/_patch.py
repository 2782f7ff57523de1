"""All that is replaced for a while in a whole process: attributes of a framework, the code of functions, settings.

Replacements are counted over all threads: the first user puts one in, the last takes it out, and then it costs nothing.
Those of one attribute wrap each other, and settings are put back, in whichever order their users leave. A function
keeps its identity and runs a trampoline instead of its own code, so every module, layer and closure that holds the
function is reached.
"""

from __future__ import annotations

import abc
import contextlib
import functools
import inspect
import threading
import types
import warnings
from collections.abc import Callable, Generator
from typing import Any, Self

from pullback._bind import Binder

_KEPT_AS = "__pullback_patch__"
_lock = threading.RLock()


class Shared(abc.ABC):
    """A replacement that is in place from its first user to its last. A user enters it as a context manager."""

    users = 0

    @abc.abstractmethod
    def install(self) -> None:
        """Put it in place."""

    @abc.abstractmethod
    def remove(self) -> None:
        """Restore what was there before."""

    def __enter__(self) -> Self:
        with _lock:
            if not self.users:
                self.install()
            self.users += 1
        return self

    def __exit__(self, *error: object) -> None:
        with _lock:
            self.users -= 1
            if not self.users:
                self.remove()


class _Place:
    """An attribute, what was there first, and what is made of it, one of the other."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name  # the owner is held: no other gets its identity
        self.is_own = name in vars(owner)  # and not inherited
        self.original = getattr(owner, name)
        self.layers: list[tuple[Replacement, Any]] = []

    def add(self, *replacements: Replacement) -> None:
        for each in replacements:
            below = self.layers[-1][1] if self.layers else self.original
            self.layers.append((each, each.make(below)))
        setattr(self.owner, self.name, self.layers[-1][1] if self.layers else self.original)

    def drop(self, replacement: Replacement) -> None:
        index = next(i for i, (each, _) in enumerate(self.layers) if each is replacement)
        above = [each for each, _ in self.layers[index + 1 :]]
        del self.layers[index:]
        self.add(*above)
        if not self.layers:
            del _places[id(self.owner), self.name]
            if not self.is_own:
                delattr(self.owner, self.name)


_places: dict[tuple[int, str], _Place] = {}


class Replacement(Shared):
    """An attribute of a module, class or object, replaced by what `make` makes of it.

    `make` is called again when one below it goes, in any thread.
    """

    def __init__(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        self._owner = owner
        self._name = name
        self.make = make

    def install(self) -> None:
        """Put the replacement around what is there."""
        place = _places.get((id(self._owner), self._name))
        if place is None:
            place = _places[id(self._owner), self._name] = _Place(self._owner, self._name)
        place.add(self)

    def remove(self) -> None:
        """Take it out, and leave the others."""
        _places[id(self._owner), self._name].drop(self)


class Setting:
    """A setting of the whole process that blocks change: once all are over, it is as it was before the first."""

    def __init__(self, read: Callable[[], Any], write: Callable[[Any], None]) -> None:
        self._read = read
        self._write = write
        self._before: list[list[Any]] = []  # what each open block found, one in a list of its own

    @contextlib.contextmanager
    def kept(self) -> Generator[None]:
        """Put back what was there, or leave that to a block that was opened meanwhile."""
        with _lock:
            mine = [self._read()]
            self._before.append(mine)
        try:
            yield
        finally:
            with _lock:
                index = next(i for i, each in enumerate(self._before) if each is mine)
                del self._before[index]
                if index == len(self._before):
                    self._write(mine[0])
                else:
                    self._before[index][0] = mine[0]


class Together(Shared):
    """Several replacements that are put in place at once."""

    def __init__(self) -> None:
        self._parts: list[Shared] = []
        self._undo = contextlib.ExitStack()

    def add(self, part: Shared) -> None:
        """Add one more."""
        self._parts.append(part)

    def install(self) -> None:
        """Put them in place, in the order in which they were added."""
        for part in self._parts:
            self._undo.enter_context(part)

    def remove(self) -> None:
        """Take them out, in the reverse order."""
        self._undo.close()


class PatchedFunction(Shared):
    """A function that hands its calls to `dispatch`, and a twin of it that runs the original code."""

    def __init__(self, function: types.FunctionType, dispatch: Callable[..., Any]) -> None:
        self.function = function
        self.code = function.__code__
        self.dispatch = dispatch
        self.twin = _twin(function)
        self._signature = (
            None if hasattr(function, "__signature__") else inspect.signature(function)
        )
        self.trampoline = _trampoline(self)
        self._binders: dict[bool, Binder] = {}

    @classmethod
    def of(cls, function: types.FunctionType, dispatch: Callable[..., Any]) -> Self:
        """The patch of a function, which is made once."""
        with _lock:
            patch = _patch_of(function)
            if patch is None:
                patch = function.__dict__[_KEPT_AS] = cls(function, dispatch)
            return patch

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the trampoline calls."""
        return self.dispatch(self, args, kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it were not patched."""
        return self.twin(*args, **kwargs)

    def binder(self, *, as_method: bool) -> Binder:
        """Binds arguments by the function's signature; as a method, without the first one."""
        if as_method not in self._binders:
            function = types.MethodType(self.twin, self) if as_method else self.twin
            self._binders[as_method] = Binder(function)
        return self._binders[as_method]

    def install(self) -> None:
        """Put the trampoline in; `inspect` still sees the function's own signature."""
        if self._signature is not None:
            self.function.__dict__["__signature__"] = self._signature
        self.function.__code__ = self.trampoline

    def remove(self) -> None:
        """Put the original code back."""
        self.function.__code__ = self.code
        if self._signature is not None:
            del self.function.__dict__["__signature__"]


def original_code(function: types.FunctionType) -> types.CodeType:
    """The function's own code, also while it is patched."""
    patch = _patch_of(function)
    return patch.code if patch else function.__code__


def _patch_of(function: types.FunctionType) -> Any:
    """The patch of a function that is or was patched, unless its code was replaced since."""
    patch = function.__dict__.get(_KEPT_AS)
    known = patch is not None and function.__code__ in (patch.code, patch.trampoline)
    return patch if known else None


def _twin(function: types.FunctionType) -> types.FunctionType:
    code, closure = function.__code__, function.__closure__
    twin = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, closure
    )
    twin.__dict__.update(function.__dict__)
    for name in ("__kwdefaults__", "__qualname__", "__module__", "__annotations__"):
        setattr(twin, name, getattr(function, name))
    return twin


def _trampoline(patch: PatchedFunction) -> types.CodeType:
    """Code that hands its arguments to `patch`, with as many free variables as the function's own."""
    code = _template(len(patch.code.co_freevars))
    consts = tuple(patch if const == "PATCH" else const for const in code.co_consts)
    name, qualified = patch.code.co_name, patch.code.co_qualname
    return code.replace(co_consts=consts, co_name=name, co_qualname=qualified)


@functools.cache
def _template(free: int) -> types.CodeType:
    names = [f"v{i}" for i in range(free)]
    source = (
        f"def outer():\n  {' = '.join([*names, 'None'])}\n"
        "  def trampoline(*args, **kwargs):\n"
        f"    return 'PATCH'(args, kwargs)\n    {'; '.join(names) or 'pass'}\n"
        "  return trampoline"
    )
    space: dict[str, Any] = {}
    with warnings.catch_warnings():
        # A string is called, until the patch replaces it.
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(source, "<string>", "exec"), space)
    return space["outer"]().__code__
