"""A script that runs a check again: the function imported, the arguments written out, where both can be."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pullback.check import numbers as n
from pullback.check.options import Options, as_code
from pullback.check.probe import Array, Probes
from pullback.check.probe.naming import paths_and_names
from pullback.check.probe.vectors import all_but_one

_LEFT_TO_THE_USER = "# {}: the function of this check, as you have it"
# What may be written as it is shown.
PLAIN = (type(None), bool, int, float, complex, str)


def script(
    probes: Probes,
    fn: Any,
    args: Sequence[Any],
    options: Options,
    at: Mapping[str, Array],
    under: Sequence[str] = (),
) -> str:
    """The script; `at` holds other values for inputs, by path; `under` is what stands before the function."""
    code = _Code(probes, at)
    named = code.function(fn, "fn")
    if options.against is not None:
        code.function(options.against, "meant")
    kwargs = dict(options.kwargs or {})
    try:
        lines, call = _arguments(code, fn, args, kwargs, named)
    except _NotWritten:
        lines = ["# args: the arguments of this check" + (", kwargs too" if kwargs else "")]
        call = ["*args", *(["kwargs=kwargs"] if kwargs else [])]
    given = ", ".join([*under, named, *call, options.as_code()])
    head = [*sorted(code.imports), "import pullback as pb", *code.functions]
    return "\n".join([*head, *lines, f"print(pb.check({given}))"])


def _arguments(
    code: "_Code", fn: Any, args: Sequence[Any], kwargs: dict[str, Any], taken: str
) -> tuple[list[str], list[str]]:
    """An assignment for each argument that is long, and how the call names them all."""
    known = paths_and_names(fn, (None,) * len(args), {}) if callable(fn) else ()
    names = [*(name for _, name in known), *(f"x{k}" for k in range(len(args)))]
    lines: list[str] = []
    call: list[str] = []
    for k, value in enumerate(args):
        text, name = code.expression(value, f"args[{k}]"), names[k]
        name = name if name.isidentifier() and name not in (taken, "tf", "np", "pb") else f"x{k}"
        lines += [] if type(value) in PLAIN else [f"{name} = {text}"]
        call.append(text if type(value) in PLAIN else name)
    return lines, call + ([f"kwargs={code.expression(kwargs, 'kwargs')}"] if kwargs else [])


class _NotWritten(Exception):
    """A value that is too long, or that has no expression."""


class _Code:
    """Expressions, and the lines that must come before them."""

    def __init__(self, probes: Probes, at: Mapping[str, Array]) -> None:
        self.probes, self.at = probes, at
        self.imports: set[str] = set()
        self.functions: list[str] = []

    def function(self, fn: Any, otherwise: str) -> str:
        """What a function is called; the line before says how to get at it."""
        named = as_code(fn, otherwise)
        home = str(getattr(fn, "__module__", ""))
        places = dict.fromkeys([home.partition(".")[0], home])
        found = [m for m in places if getattr(sys.modules.get(m), named, None) is fn]
        if found and home != "__main__":
            self.functions.append(f"from {found[0]} import {named}")
        elif not isinstance(fn, str):
            named, lines = self.probes.making(fn, n.MANY) or (
                named,
                _LEFT_TO_THE_USER.format(named),
            )
            self.functions += lines.splitlines()
        return named

    def expression(self, value: Any, path: str) -> str:
        """Code for a value; tensors hold what the failing input holds in their place."""
        if type(value) in (list, tuple):
            inner = [self.expression(v, f"{path}[{k}]") for k, v in enumerate(value)]
            text = ", ".join(inner) + ("," if len(inner) == 1 and isinstance(value, tuple) else "")
            return f"[{text}]" if isinstance(value, list) else f"({text})"
        if type(value) is dict:
            keys = {k: f'"{k}"' if isinstance(k, str) else k for k in value}
            inner = [f"{k!r}: {self.expression(value[k], f'{path}[{keys[k]}]')}" for k in value]
            return f"{{{', '.join(inner)}}}"
        return repr(value) if type(value) in PLAIN else self._array(value, path)

    def _array(self, value: Any, path: str) -> str:
        try:
            numbers = np.asarray(value)
        except Exception as error:
            raise _NotWritten from error
        if (
            str(numbers.dtype) == "bfloat16"
        ):  # which NumPy does not know, and whose numbers float32 has
            numbers = numbers.astype(np.float32)
        if numbers.dtype.kind not in "fiubc" or isinstance(value, list | tuple | dict):
            raise _NotWritten
        text = self._numbers(np.asarray(self.at.get(path, numbers)).astype(numbers.dtype))
        found = self.probes.as_code(value, text)
        if isinstance(value, np.ndarray):
            found = "import numpy as np", f"np.array({text}, np.{numbers.dtype.name})"
        if found is None:
            raise _NotWritten
        self.imports.add(found[0])
        return found[1]

    def _numbers(self, array: Array) -> str:
        """A list, or where there are many numbers and all but one the same, an expression that says so."""
        known = all_but_one(array) if array.size > n.FEW else None
        if known is None:
            if array.size > n.MANY:
                raise _NotWritten
            return _listed(array)
        self.imports.add("import numpy as np")
        (usual, other, place), shape = known, list(array.shape)
        if other == usual:
            return f"np.full({shape}, {usual!r})"
        return (
            f"np.where(np.arange({array.size}).reshape({shape}) == {place}, {other!r}, {usual!r})"
        )


def _listed(array: Array) -> str:
    """A nested list with as few digits as tell its numbers apart in their own format."""
    if array.ndim:
        return f"[{', '.join(map(_listed, array))}]"
    text = str(array) if array.dtype.kind == "f" else repr(array.item())
    return text if np.isfinite(array) else f'float("{text}")'
