"""Why gradients are missing or zero, in real code: the cause in words, with the right line."""

import inspect
from pathlib import Path

import pytest

import pullback as pb
from tests.explain import more_why_cases, project_why_cases, why_cases

CASES = {**why_cases.CASES, **more_why_cases.CASES, **project_why_cases.CASES}


def marked_lines(make) -> list[int]:
    """The lines that a case marks with `# HERE`; one of them must be named."""
    lines, first = inspect.getsourcelines(make)
    return [first + k for k, line in enumerate(lines) if "# HERE" in line]


@pytest.mark.parametrize("name", CASES)
def test_the_cause_and_the_line_are_named(name: str) -> None:
    make, words = CASES[name]
    fn, args, x = make()
    said = pb.explain(fn, *args).why(x)
    missing = [word for word in words if not any(w in said for w in word.split("|"))]
    file, lines = Path(inspect.getfile(make)).name, marked_lines(make)
    assert not missing, said
    assert not lines or any(f"{file}:{line}" in said for line in lines), said
