"""Why gradients are missing or zero, in real code: the cause in words, with the right line."""

import inspect

import pytest

import pullback as pb
from tests.explain.why_cases import CASES


def marked_line(make) -> int | None:
    """The line that a case marks with `# HERE`."""
    lines, first = inspect.getsourcelines(make)
    return next((first + k for k, line in enumerate(lines) if "# HERE" in line), None)


@pytest.mark.parametrize("name", CASES)
def test_the_cause_and_the_line_are_named(name: str) -> None:
    make, words = CASES[name]
    fn, args, x = make()
    said = pb.explain(fn, *args).why(x)
    missing = [word for word in words if not any(w in said for w in word.split("|"))]
    line = marked_line(make)
    assert not missing, said
    assert line is None or f"why_cases.py:{line}" in said, said
