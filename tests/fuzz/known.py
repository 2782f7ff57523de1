"""What is known to fail, by mechanism: each filter can be deleted when its mechanism is mended."""

from tests.fuzz.define_cases import Case
from tests.fuzz.override_programs import Program


def known_define(case: Case) -> str | None:
    """The name of the mechanism for which a definition fails; `None` where none is known."""
    del case
    return None


def known_override(program: Program) -> str | None:
    """The name of the mechanism for which a program fails; `None` where none is known."""
    del program
    return None
