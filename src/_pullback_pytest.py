"""What pytest learns from pullback: `check_gradient`, `@pytest.mark.pullback`, `--pullback-modes`, readable failures.

Every session loads this file, so it lies outside the package: sessions that do not use pullback do not import it, nor
is anything in their frameworks changed. What is done once it is used is in `pullback.testing.pytest_plugin`.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pullback.testing.pytest_plugin import CheckGradient

# What may follow `--pullback-modes`, and the modes of `pb.check` that it means; `docs/modes.md` describes these.
MODES: dict[str, tuple[str, ...]] = {
    "eager": (),
    "graph": ("tf.function, tape outside", "tf.function, tape inside"),
    "xla": ("XLA",),
    "vectorized_map": ("vectorized_map",),
    "forward": ("forward mode",),
}
MODES["all"] = tuple(name for names in MODES.values() for name in names)
_NAMES = {**MODES, **{name.lower(): (name,) for name in MODES["all"]}}
_ONE = re.compile(rf"\s*({'|'.join(map(re.escape, sorted(_NAMES, reverse=True)))})\s*(?:,|$)", re.I)
NOT_RUN = "pullback: not run"  # a property of a test, which goes into JUnit files too
_MARK = (
    "pullback(fn, *args, id=None, marks=(), **options): check the gradient of fn at args, one test for each such mark; "
    "the test calls check_gradient()."
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--pullback-modes`, and the same in the configuration file."""
    about = f"ways to run in which check_gradient compares gradients: any of {', '.join(MODES)}"
    group = parser.getgroup("pullback", "gradients (pullback)")
    group.addoption("--pullback-modes", metavar="MODES", default=None, help=about)
    parser.addini("pullback_modes", f"{about}; --pullback-modes goes before it", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse unknown modes before anything runs."""
    config.addinivalue_line("markers", _MARK)
    wanted_modes(config)


def wanted_modes(config: pytest.Config) -> list[str] | None:
    """The modes that the command line or the configuration file asks for; `None`: those of `pb.check` itself."""
    option = config.getoption("--pullback-modes")
    text = config.getini("pullback_modes") if option is None else option
    if option is None and not text.strip():
        return None
    found: list[str] = []
    place = 0
    while place < len(text) or not text:
        one = _ONE.match(text, place)
        if one is None:
            wrong = text[place:].partition(",")[0].strip()
            raise pytest.UsageError(
                f"--pullback-modes: there is no mode {wrong!r}. Write one or more of {', '.join(MODES)} with commas "
                "between them, such as --pullback-modes=graph,xla."
            )
        found += _NAMES[one[1].lower()]
        place = one.end()
    return list(dict.fromkeys(found))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each `@pytest.mark.pullback(fn, *args)`, in the order in which they are written."""
    marks = list(metafunc.definition.iter_markers("pullback"))[::-1]
    if not marks:
        return
    if "check_gradient" not in metafunc.fixturenames:
        pytest.fail(
            f"{metafunc.definition.nodeid} is marked with pullback and does not check: write "
            f"`def {metafunc.function.__name__}(check_gradient)` and call `check_gradient()` in it.",
            pytrace=False,
        )
    from pullback.testing.pytest_plugin import case

    cases = [case(mark) for mark in marks]
    metafunc.parametrize("check_gradient", cases, indirect=True)


@pytest.fixture
def check_gradient(request: pytest.FixtureRequest) -> Iterator[CheckGradient]:
    """`check_gradient(fn, *args, **options)` is `pb.check`, and fails the test with the report.

    Without arguments it checks what `@pytest.mark.pullback(fn, *args, **options)` names. `modes=` is what
    `--pullback-modes` says, unless it is given.
    """
    from pullback.testing.pytest_plugin import CheckGradient

    case = getattr(request, "param", None)
    before = request.session.testsfailed
    not_run = functools.partial(_note_not_run, request.node)
    checking = CheckGradient(case, wanted_modes(request.config), not_run)
    yield checking
    if case is not None and not checking.has_run and request.session.testsfailed == before:
        pytest.fail("the check that the mark names did not run: call `check_gradient()`.", False)


def _note_not_run(item: pytest.Item, text: str) -> None:
    item.user_properties.append((NOT_RUN, text))


def pytest_runtest_makereport(call: pytest.CallInfo[Any]) -> None:
    """Put the reports of checks into the message of an assertion about them that failed."""
    error = call.excinfo and call.excinfo.value
    if (
        call.when == "call"
        and isinstance(error, AssertionError)
        and "pullback.check" in sys.modules
    ):
        from pullback.testing.pytest_plugin import show_reports

        show_reports(error)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say which of the modes that were asked for could not be run."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    told = [
        f"{report.nodeid}: {text}"
        for report in reports
        if getattr(report, "when", "") == "call"
        for name, text in report.user_properties
        if name == NOT_RUN
    ]
    if told:
        terminalreporter.section("gradients that could not be compared in a mode")
        terminalreporter.write("".join(f"{line}\n" for line in told))
