"""What an audit found, as data that can be written to a file and read again."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RIGHT = "right"
WRONG = "wrong"
NAN = "NaN"
NONE = "none"
SECOND = "second"
SINGULAR = "singular"
UNCONFIRMED = "unconfirmed"
DESIGN = "by design"
UNDECIDED = "undecided"
NOT_CALLED = "not called"
LOST = "crashed"

# What a status means, worst first: of several faults the first in this list is the status of a function.
MEANING = {
    WRONG: "the gradient differs from differences",
    NAN: "the gradient is NaN or infinite where one-sided slopes are finite",
    NONE: "there is no gradient, or taking it raises, where there is a derivative",
    SECOND: "the gradient is right, but the gradient of the gradient is not",
    SINGULAR: "the gradient is NaN where the function is finite and its slopes are infinite or do not exist",
    UNCONFIRMED: "the check objects, and plain differences do not bear it out",
    LOST: "the process crashed or did not end",
    UNDECIDED: "at none of the inputs could it be told",
    DESIGN: "meant to be no derivative",
    RIGHT: "right at all inputs",
    NOT_CALLED: "could not be called, or has nothing to differentiate",
}
FAULTS = (WRONG, NAN, NONE, SECOND)


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: at which inputs, what the check says, and a program that shows it.

    `wrong_ops` are operations of the framework whose own gradient is to blame.
    """

    status: str
    what: str
    diagnosis: str
    call: str
    blamed: str
    script: str = ""
    shown: str = ""
    kink: bool = False
    wrong_ops: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """What came of one function: the worst of its faults, with how many sets of inputs it was called.

    `operations` are what it runs, `aliases` its other names, `mended` is what of pullback is right where it is wrong.
    `crash` says how the process ended with inputs that were left out then, `left_out` how many sets of inputs were not
    tried for want of time.
    """

    name: str
    status: str
    reason: str = ""
    cases: int = 0
    calls: int = 0
    seconds: float = 0.0
    faults: tuple[Fault, ...] = ()
    operations: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    mended: str = ""
    crash: str = ""
    left_out: int = 0

    @property
    def is_fault(self) -> bool:
        """Whether the gradient is wrong, and known to be."""
        return self.status in FAULTS

    @property
    def was_called(self) -> bool:
        """Whether a gradient was asked for."""
        return self.status not in (NOT_CALLED, LOST)


def as_line(result: Result) -> str:
    """A result as one line of JSON."""
    return json.dumps(asdict(result), ensure_ascii=False)


def read(path: Path) -> tuple[dict[str, Any], list[Result]]:
    """What the first line of a file says of the run, and the results; a line that was cut off is left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    found = [entry for entry in map(_parsed, lines) if entry]
    head = found[0] if found and "version" in found[0] else {}
    return head, [_result(entry) for entry in found if "name" in entry]


def _parsed(line: str) -> dict[str, Any]:
    try:
        return json.loads(line)
    except ValueError:
        return {}


def _result(entry: dict[str, Any]) -> Result:
    entry["faults"] = tuple(map(_fault, entry["faults"]))
    for key in ("operations", "aliases"):
        entry[key] = tuple(entry.get(key, ()))
    return Result(**entry)


def _fault(entry: dict[str, Any]) -> Fault:
    entry["wrong_ops"] = tuple(entry.get("wrong_ops", ()))
    return Fault(**entry)


def worst(statuses: Iterable[str]) -> str:
    """The status that outweighs the others."""
    order = list(MEANING)
    return min(statuses, key=order.index)
