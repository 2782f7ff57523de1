"""The outcome of a check, as data. Words are in `words`, drawing in `render`."""

from dataclasses import dataclass, field
from typing import Any

from pullback.check.probe import Leaf
from pullback.errors import CheckFailed


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, where it is, and what it is.

    `kind` is one short word for programs (see docs), `diagnosis` a sentence for people; `got` is
    what the rule gives, `wanted` what the function says, `error` how far `wanted` may be off,
    `confirmed` at how many points the diagnosis was tested that it was not fitted to.
    """

    kind: str
    path: str
    diagnosis: str
    got: float | None = None
    wanted: float | None = None
    error: float | None = None
    point: str = ""
    output: str = ""
    source: str | None = None
    at: str = ""
    confirmed: int = 0


@dataclass(frozen=True)
class Line:
    """One input or output of the function and how it fared; `None`: another was found wrong first."""

    leaf: Leaf
    ok: bool | None


@dataclass(frozen=True)
class Coverage:
    """What a check looked at."""

    points: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    kinks: int = 0
    undecided: int = 0
    never_reached: int = 0
    entries: int = 0
    modes: tuple[str, ...] = ()
    constants: tuple[float, ...] = ()
    order: int = 1
    notes: tuple[str, ...] = ()
    open_given: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """A verdict on a gradient.

    >>> report = Report(name="square", seed=0, calls=24)
    >>> report.ok, bool(report)
    (True, True)
    """

    name: str
    seed: int
    calls: int
    findings: tuple[Finding, ...] = ()
    inputs: tuple[Line, ...] = ()
    outputs: tuple[Line, ...] = ()
    coverage: Coverage = field(default_factory=Coverage)
    reproduce: str = ""
    seconds: float = 0.0
    against: str = ""

    @property
    def ok(self) -> bool:
        """Whether the gradient was found right."""
        return self.verdict == "right"

    @property
    def verdict(self) -> str:
        """`"right"`, `"wrong"` or `"undecided"`."""
        if self.findings:
            return "wrong"
        seen = self.coverage
        return "undecided" if seen.open_given or seen.reasons else "right"

    def __bool__(self) -> bool:
        return self.ok

    @property
    def diagnosis(self) -> str:
        """The first finding in words, empty when all is right."""
        return self.findings[0].diagnosis if self.findings else ""

    def raise_if_failed(self) -> "Report":
        """Raise `CheckFailed` with the whole report if something is wrong; else return the report.

        >>> Report(name="square", seed=0, calls=24).raise_if_failed().ok
        True
        """
        __tracebackhide__ = True
        if self.findings:
            raise CheckFailed(str(self))
        return self

    def __str__(self) -> str:
        from pullback.check.report.render import as_text

        return as_text(self)

    def __rich__(self) -> Any:
        from pullback.check.report.render import as_rich

        return as_rich(self)

    def _repr_html_(self) -> str:
        from pullback.check.report.render import as_html

        return as_html(self)
