"""How the API reference reads the source: examples in docstrings are code, and `import X as X` exports X."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?m)^>>> .*\n(?:.+\n?)*")


class HowWeWrite(griffe.Extension):
    """Puts fences around the examples of every docstring, and lists what a package re-exports."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called with each object once it is complete."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)

    def on_module(self, *, mod: griffe.Module, **_: Any) -> None:
        """A name that is imported as itself, from a private module or from inside, is meant for users."""
        if mod.exports is None and mod.is_init_module:
            mod.exports = [
                name for name, one in mod.members.items() if _is_exported(name, one, mod.path)
            ]


def _fenced(example: re.Match[str]) -> str:
    return f"```pycon\n{example[0].rstrip()}\n```\n"


def _is_exported(name: str, member: griffe.Object | griffe.Alias, package: str) -> bool:
    if not isinstance(member, griffe.Alias):
        return not name.startswith("_") and not isinstance(member, griffe.Module)
    module, _, own = member.target_path.rpartition(".")
    inside = module.rpartition(".")[2].startswith("_") or module.startswith(f"{package}.")
    return own == name and inside
