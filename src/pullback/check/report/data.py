"""The outcome of a check, as data. Its text is in `render`, its page in `page`, its pictures in `drawing`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pullback.check.probe import Array, Leaf
from pullback.errors import CheckFailed

# What may be wrong, in one word for programs; docs/findings.md has an example of each.
FindingKind = Literal[
    "axis",
    "condition",
    "conjugate",
    "constant",
    "detached",
    "dtype",
    "element",
    "factor",
    "ignored",
    "linear",
    "mode",
    "none",
    "nonfinite",
    "part",
    "passed",
    "places",
    "precision",
    "raises",
    "repair",
    "reversed",
    "second",
    "shape",
    "shifted",
    "sign",
    "slip",
    "small",
    "stale",
    "swapped",
    "term",
    "transposed",
    "upstream",
]


@dataclass(frozen=True)
class Picture:
    """The numbers of a picture: what the function says, give or take `error`, and what the rule gives.

    With `along`, they are slopes at these values of one element, which is `mark` in the failing input. Without, they
    are tables: of the gradient of one input or, where `rows` says so, of the derivative of every output by every input.
    """

    title: str
    truth: Array
    rule: Array
    error: Array
    along: Array | None = None
    mark: float = 0.0
    rows: str = ""
    columns: str = ""

    @property
    def wrong(self) -> Array:
        """Where the two differ by more than the error."""
        return ~(abs(self.rule - self.truth) <= self.error) & (self.truth == self.truth)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, where it is, and what it is.

    `kind` is one short word for programs, `diagnosis` a sentence for people. It is about the inputs at `paths`, of
    which `path` is the first, and ends in a `remark` for whoever wrote the rule; `blamed` are the engine's own
    operations whose gradient is wrong. `got` is what the rule gives for the element `entry` of the gradient, `wanted`
    what the function says, `error` how far `wanted` may be off. `at` is the smallest input found that fails, by the
    names of inputs; `upstream` is empty if it is all ones. `made_up` says that the given arguments
    pass, and `exclude` what to write so that such points are not tried. `code` is the line at `source`: the one that
    the sentence names, if it names one of the rule, else that where the rule begins; `underline` is the part of it that
    is meant. `confirmed` is at how many points the diagnosis was tested that it was not fitted to.
    """

    kind: FindingKind
    path: str
    diagnosis: str
    got: float | None = None
    wanted: float | None = None
    error: float | None = None
    point: str = ""
    output: str = ""
    source: str | None = None
    code: str = ""
    underline: str = ""
    entry: str = ""
    at: Mapping[str, Array] = field(default_factory=dict[str, Array], compare=False)
    upstream: Mapping[str, Array] = field(default_factory=dict[str, Array], compare=False)
    made_up: bool = False
    exclude: str = ""
    confirmed: int = 0
    paths: tuple[str, ...] = ()
    remark: str = ""
    blamed: tuple[str, ...] = ()
    picture: Picture | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Line:
    """One input or output of the function and how it fared; `None`: another was found wrong first."""

    leaf: Leaf
    ok: bool | None


@dataclass(frozen=True)
class Coverage:
    """What a check looked at: points to first order, those of them to second, and what stayed open.

    `varies` says that the function did not stay what it was, which is the last of the `reasons` then.
    """

    points: tuple[str, ...] = ()
    second: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    kinks: int = 0
    undecided: int = 0
    never_reached: int = 0
    entries: int = 0
    modes: tuple[str, ...] = ()
    constants: tuple[float, ...] = ()
    notes: tuple[str, ...] = ()
    open_given: int = 0
    reasons: tuple[str, ...] = ()
    varies: bool = False


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
        decided = all(
            line.ok for line in self.inputs if line.leaf.size
        )  # an empty one has nothing to decide
        return "right" if decided and not (seen.open_given or seen.reasons) else "undecided"

    def __bool__(self) -> bool:
        return self.ok

    @property
    def diagnosis(self) -> str:
        """The first finding in words, empty when all is right."""
        return self.findings[0].diagnosis if self.findings else ""

    def raise_if_failed(self) -> "Report":
        """Raise `CheckFailed` with the whole report unless the gradient was found right; else return the report.

        >>> Report(name="square", seed=0, calls=24).raise_if_failed().ok
        True
        """
        __tracebackhide__ = True
        if not self.ok:
            raise CheckFailed(str(self))
        return self

    def __str__(self) -> str:
        from pullback.check.report.render import as_text

        return as_text(self)

    def __rich__(self) -> Any:
        from pullback.check.report.render import as_rich

        return as_rich(self)

    def save(self, path: str | Path) -> None:
        """Write the report to a file: a page with pictures, which needs no network."""
        from pullback.check.report.page import as_page

        Path(path).write_text(as_page(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        from pullback.check.report.page import as_html

        return as_html(self)
