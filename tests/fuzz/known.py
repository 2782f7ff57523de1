"""What is known to fail, by mechanism: each filter can be deleted when its mechanism is mended."""

from typing import Any

from tests.fuzz.define_cases import Case
from tests.fuzz.override_programs import Program


def known_define(case: Case) -> str | None:
    """The name of the mechanism for which a definition fails; `None` where none is known."""
    if "forward" in case.mode and "float32" in case.forms:
        return "forward mode, a gradient that was rounded in a narrower dtype: measured by its own dtype"
    return None


def known_override(program: Program) -> str | None:
    """The name of the mechanism for which a program fails; `None` where none is known."""
    if "forward" in program.mode and "cast" in program.names():
        return "forward mode, a gradient that was rounded in a narrower dtype: measured by its own dtype"
    return None


def known_partials(case: Any) -> str | None:
    """The name of the mechanism for which partial derivatives fail; `None` where none is known."""
    if case.reduced == "first" and len(set(case.shape)) < len(case.shape):
        return "the first axis of a square parameter is reduced: the upstream is multiplied along the last"
    return None
