"""What is said of a function's check: above it, in `pullback_inputs` beside it, and in pyproject.toml."""

from __future__ import annotations

import fnmatch
import math
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from pullback._inputs import Inputs, inputs_of, require_reason
from pullback.cli.inputs import NAME, said_beside
from pullback.cli.paths import is_file, is_there, real
from pullback.cli.source import is_source
from pullback.cli.target import packages_of
from pullback.errors import CheckError


@dataclass(frozen=True)
class _Kind:
    """What a key takes: types, in words, and which of their values."""

    words: str
    types: tuple[type, ...]
    fits: Callable[[Any], bool] = field(default=lambda _: True)

    def takes(self, value: Any) -> bool:
        is_flag = isinstance(value, bool)
        return (
            isinstance(value, self.types) and is_flag == (bool in self.types) and self.fits(value)
        )


def _are_names(value: Any) -> bool:
    return isinstance(value, str) or all(isinstance(one, str) for one in value)


def _is_finite(value: Any) -> bool:
    """Whether it can be counted with: a whole number may be larger than all others."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


_TEXT = _Kind("text", (str,))
_ORDER = _Kind("1 or 2", (int,), lambda n: n in (1, 2))
_TOLERANCE = _Kind("a positive number", (int, float), lambda x: x > 0 and _is_finite(x))
_TIME = _Kind("seconds, or 0 for ever", (int, float), lambda x: x >= 0 and _is_finite(x))
_FOR_ALL = {
    "order": _ORDER,
    "tolerance": _TOLERANCE,
    "seed": _Kind("a whole number from 0 on", (int,), lambda n: n >= 0),
    "quick": _Kind("true or false", (bool,)),
    "timeout": _TIME,
    "jobs": _Kind("a whole number from 1 on", (int,), lambda n: n >= 1),
}
_FOR_ONE = {
    "against": _TEXT,
    "wrt": _Kind("a name or a list of names", (str, list), _are_names),
    "domain": _Kind("a name, a list or a table", (str, list, dict)),
    "order": _ORDER,
    "tolerance": _TOLERANCE,
    "ignore": _TEXT,
}


@dataclass(frozen=True)
class Project:
    """`[tool.pullback]` of a pyproject.toml: options of all checks, and of single functions."""

    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    functions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    file: Path | None = None

    def names_of(self, file: str, module: str, name: str) -> list[str]:
        """What a function may be called here: its name, with its module, or with its file as seen from this one."""
        path = real(file)
        folder = self.file.parent if self.file else path.parent
        inside = [path.relative_to(folder).as_posix()] if path.is_relative_to(folder) else []
        ends = ["/".join(path.parts[-k:]) for k in (1, 2, 3)]
        return [name, *(f"{place}:{name}" for place in (module, *inside, *ends))]

    def without_effect(self, known: Sequence[tuple[str, str]], *, all_seen: bool) -> list[str]:
        """Keys that no function goes by, out of pairs of file and name.

        Unless all files were seen, that can be told of keys alone whose file was, or is not there.
        """
        names = [n for file, name in known for n in self.names_of(file, _module(file), name)]
        files = {file for file, _ in known}
        return [
            key
            for key in self.functions
            if not any(fnmatch.fnmatchcase(name, key) for name in names)
            and (all_seen or self._is_settled(key, files))
        ]

    def _is_settled(self, key: str, seen: Collection[str]) -> bool:
        place, _, name = key.rpartition(":")
        if self.file is None or not is_source(place) or not name:
            return False
        path = self.file.parent / place
        return str(real(path)) in seen or not (is_there(path) or set(place) & set("*?["))

    def of(self, names: list[str]) -> dict[str, Any]:
        """What is said of a function that goes by these names; a pattern may say it of several."""
        found: dict[str, Any] = {}
        for pattern, said in self.functions.items():
            if any(fnmatch.fnmatchcase(name, pattern) for name in names):
                found |= said
        return found


def project(start: Path) -> Project:
    """The settings of the nearest pyproject.toml at or above a folder."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if is_file(path):
            return _read(path)
    return Project()


def _read(path: Path) -> Project:
    try:
        everything = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError, OSError) as error:
        raise CheckError(f"{path} cannot be read: {error}") from error
    tools = _table(everything.get("tool", {}), f"[tool] in {path}")
    table = _table(tools.get("pullback", {}), f"[tool.pullback] in {path}")
    functions = _table(table.pop("functions", {}), f"[tool.pullback.functions] in {path}")
    _require(table, _FOR_ALL, f"[tool.pullback] in {path}")
    for name, said in functions.items():
        _require(said, _FOR_ONE, f'[tool.pullback.functions."{name}"] in {path}')
        if "ignore" in said:
            require_reason(said["ignore"])
    return Project(table, functions, path)


def _module(file: str) -> str:
    """The name under which a file is most likely imported."""
    path = Path(file)
    return ".".join([*packages_of(path), path.stem])


def require_seconds(seconds: float | None, option: str) -> None:
    """Refuse what is no time: NaN is neither more nor less than any."""
    if seconds is not None and not _TIME.takes(seconds):
        raise CheckError(f"{option} {seconds:g}: write {_TIME.words}.")


def _table(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CheckError(f"{where} is a table; got {value!r}.")
    return value


def _require(said: Any, known: Mapping[str, _Kind], where: str) -> None:
    """Refuse what is not known: a setting without effect is a mistake."""
    for key, value in _table(said, where).items():
        if key not in known:
            raise CheckError(f"{where} has no key {key!r}. There are: {', '.join(known)}.")
        if not known[key].takes(value):
            words = known[key].words
            raise CheckError(f"{where}: {key} = {value!r} is not of the right kind: write {words}.")


@dataclass(frozen=True)
class Said:
    """All that is said of one function, and where its arguments come from."""

    inputs: Inputs = field(default_factory=Inputs)
    origin: str = ""


def said_of(module: ModuleType, name: str, function: Any, of_project: Mapping[str, Any]) -> Said:
    """What is said of a function; what stands nearer to it comes first."""
    above = inputs_of(function) if function is not None else None
    beside = said_beside(module, name)
    inputs, origin = above or Inputs(), "@pb.inputs" if above and above.gives_arguments else ""
    if beside is not None:
        options = {**beside.options, **inputs.options}
        origin = origin or (NAME if beside.gives_arguments else "")
        nearer = inputs if inputs.gives_arguments else beside
        inputs = Inputs(nearer.args, nearer.kwargs, options, inputs.ignore or beside.ignore)
    rest = {key: value for key, value in of_project.items() if key != "ignore"}
    if "against" in rest:
        rest["against"] = _named(module, rest["against"])
    options = {**_as_domain(rest), **inputs.options}
    return Said(
        replace(inputs, options=options, ignore=inputs.ignore or of_project.get("ignore", "")),
        origin,
    )


def _as_domain(options: dict[str, Any]) -> dict[str, Any]:
    """TOML has lists where Python has pairs."""
    if isinstance(options.get("domain"), list):
        options["domain"] = tuple(options["domain"])
    return options


def _named(module: ModuleType, text: str) -> Any:
    """`tf.identity`, as the module itself would write it."""
    first, *rest = text.split(".")
    try:
        found = getattr(module, first)
        for name in rest:
            found = getattr(found, name)
    except AttributeError as error:
        raise CheckError(
            f"against = {text!r}: {module.__name__} has no such name. Write it as the module would."
        ) from error
    return found
