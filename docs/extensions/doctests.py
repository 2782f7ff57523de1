"""Examples in docstrings (`>>> …` up to an empty line) are shown as code, not as quotations."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?m)^>>> .*\n(?:.+\n?)*")


class Doctests(griffe.Extension):
    """Puts fences around the examples of every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called with each object once it is complete."""
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(example: re.Match[str]) -> str:
    return f"```pycon\n{example[0].rstrip()}\n```\n"
