"""A script that runs a check again: the function imported, the arguments written out, where both can be."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pullback.check import numbers as n
from pullback.check.options import Options, as_code
from pullback.check.probe import Array, Probes
from pullback.check.probe.naming import paths_and_names
from pullback.check.report.render import all_but_one

# What may be written as it is shown.
PLAIN = (type(None), bool, int, float, complex, str)


class _NotWritten(Exception):
    """A value that is too long, or that has no expression."""


@dataclass
class Script:
    """The lines before the call, in the making."""

    probes: Probes
    at: Mapping[str, Array]
    imports: list[str] = field(default_factory=list[str])

    def expression(self, value: Any, path: str) -> str:
        """Code for a value; tensors hold what the failing input holds in their place."""
        if type(value) in (list, tuple):
            inner = [self.expression(v, f"{path}[{k}]") for k, v in enumerate(value)]
            text = ", ".join(inner) + ("," if len(inner) == 1 and isinstance(value, tuple) else "")
            return f"[{text}]" if isinstance(value, list) else f"({text})"
        if type(value) is dict:
            keys = {k: k if not isinstance(k, str) else f'"{k}"' for k in value}
            pairs = [f"{k!r}: {self.expression(v, f'{path}[{keys[k]}]')}" for k, v in value.items()]
            return "{" + ", ".join(pairs) + "}"
        return repr(value) if type(value) in PLAIN else self._array(value, path)

    def _array(self, value: Any, path: str) -> str:
        if isinstance(value, list | tuple | dict):  # of a class of their own
            raise _NotWritten
        try:
            numbers = np.asarray(value)
        except Exception as error:
            raise _NotWritten from error
        if numbers.dtype.kind not in "fiubc":
            raise _NotWritten
        text = self._numbers(np.asarray(self.at.get(path, numbers)).astype(numbers.dtype))
        if isinstance(value, np.ndarray):
            self._needs("import numpy as np")
            return f"np.array({text}, np.{numbers.dtype.name})"
        found = self.probes.as_code(value, text)
        if found is None:
            raise _NotWritten
        self._needs(found[0])
        return found[1]

    def _numbers(self, array: Array) -> str:
        known = all_but_one(array) if array.size > n.FEW_NUMBERS else None
        if known is None and array.size > n.MOST_NUMBERS:
            raise _NotWritten
        if known is None:
            return _listed(array)
        self._needs("import numpy as np")
        usual, other, place = known
        shape = list(array.shape)
        if other == usual:
            return f"np.full({shape}, {usual!r})"
        where = f"np.arange({array.size}).reshape({shape}) == {place}"
        return f"np.where({where}, {other!r}, {usual!r})"

    def _needs(self, line: str) -> None:
        if line not in self.imports:
            self.imports.append(line)


def _listed(array: Array) -> str:
    """A nested list with as few digits as tell its numbers apart in their own format."""
    if array.ndim:
        return f"[{', '.join(map(_listed, array))}]"
    text = str(array) if array.dtype.kind == "f" else repr(array.item())
    return text if np.isfinite(array) else f'float("{text}")'


def script(
    probes: Probes,
    fn: Any,
    args: Sequence[Any],
    options: Options,
    at: Mapping[str, Array],
    under: str = "",
) -> str:
    """The script; `at` holds other values for inputs, by path; `under` is what stands before the function."""
    code = Script(probes, at)
    before, named = _function(fn)
    kwargs = dict(options.kwargs or {})
    try:
        lines, call = _arguments(code, fn, args, kwargs, named)
    except _NotWritten:
        lines = ["# args: the arguments of this check" + (", kwargs too" if kwargs else "")]
        call = ["*args", *(["kwargs=kwargs"] if kwargs else [])]
    if options.against is not None:
        more, _ = _function(options.against, "meant")
        before += [line for line in more if line not in before]
    given = ", ".join([*([under] if under else []), named, *call, options.as_code()])
    imports = [*code.imports, "import pullback as pb"]
    return "\n".join([*imports, *before, *lines, f"print(pb.check({given}))"])


def _arguments(
    code: Script, fn: Any, args: Sequence[Any], kwargs: dict[str, Any], taken: str
) -> tuple[list[str], list[str]]:
    """An assignment for each argument, and how the call names them."""
    parameters = (
        [name for _, name in paths_and_names(fn, (None,) * len(args), {})] if callable(fn) else []
    )
    lines: list[str] = []
    call: list[str] = []
    for k, value in enumerate(args):
        if type(value) in PLAIN:
            call.append(repr(value))
            continue
        name = parameters[k] if k < len(parameters) else ""
        name = name if name.isidentifier() and name not in (taken, "tf", "np", "pb") else f"x{k}"
        lines.append(f"{name} = {code.expression(value, f'args[{k}]')}")
        call.append(name)
    if kwargs:
        call.append(f"kwargs={code.expression(kwargs, 'kwargs')}")
    return lines, call


def _function(fn: Any, otherwise: str = "fn") -> tuple[list[str], str]:
    """How to get at the function and what it is called then."""
    named = as_code(fn, otherwise)
    if isinstance(fn, str):
        return [], named
    home = str(getattr(fn, "__module__", ""))
    for module in dict.fromkeys([home.partition(".")[0], home]):
        if module not in ("", "__main__", "builtins") and _is_there(fn, module, named):
            return [f"from {module} import {named}"], named
    return [f"# {named}: the function of this check, as you have it"], named


def _is_there(fn: Any, module: str, name: str) -> bool:
    return getattr(sys.modules.get(module), name, None) is fn
