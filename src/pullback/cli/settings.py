"""What is said of a function's check: above it, in `pullback_inputs` beside it, and in pyproject.toml."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from pullback._inputs import Inputs, inputs_of, require_reason
from pullback.cli.inputs import NAME, said_beside
from pullback.cli.target import packages_of
from pullback.errors import CheckError

_FOR_ALL = {"order": int, "tolerance": float, "seed": int, "quick": bool, "timeout": float, "jobs": int}  # fmt: skip
_FOR_ONE = {
    "against": str, "wrt": (str, list), "domain": (str, list, dict), "order": int, "tolerance": float, "ignore": str,
}  # fmt: skip


@dataclass(frozen=True)
class Project:
    """`[tool.pullback]` of a pyproject.toml: options of all checks, and of single functions."""

    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    functions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    file: Path | None = None

    def names_of(self, file: str, module: str, name: str) -> list[str]:
        """What a function may be called here: its name, with its module, or with its file as seen from this one."""
        path = Path(file).resolve()
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
        if self.file is None or not place.endswith(".py") or not name:
            return False
        path = self.file.parent / place
        return str(path.resolve()) in seen or not (path.exists() or set(place) & set("*?["))

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
        if path.is_file():
            return _read(path)
    return Project()


def _read(path: Path) -> Project:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("pullback", {})
    except (tomllib.TOMLDecodeError, OSError) as error:
        raise CheckError(f"{path} cannot be read: {error}") from error
    functions = table.pop("functions", {})
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


def _require(said: Any, known: Mapping[str, Any], where: str) -> None:
    """Refuse what is not known: a setting without effect is a mistake."""
    if not isinstance(said, dict):
        raise CheckError(f"{where} is a table; got {said!r}.")
    for key, value in said.items():
        if key not in known:
            raise CheckError(f"{where} has no key {key!r}. There are: {', '.join(known)}.")
        kinds = (int, float) if known[key] is float else known[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and known[key] is not bool):
            raise CheckError(f"{where}: {key} = {value!r} is not of the right kind.")


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
