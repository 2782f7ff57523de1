"""Words that claim something about code are run."""

import doctest
import inspect
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import pullback as pb

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def documented() -> list[str]:
    return [name for name in dir(pb) if _has_words(name)]


def _has_words(name: str) -> bool:
    value = getattr(pb, name)
    return inspect.isclass(value) or inspect.isfunction(value)


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", documented())
def test_every_public_docstring_has_an_example_that_runs(name: str) -> None:
    import tensorflow as tf

    value = getattr(pb, name)
    known = {**vars(sys.modules[value.__module__]), "pb": pb, "tf": tf, "np": np}
    examples = doctest.DocTestFinder(recurse=False).find(value, name, globs=known)
    assert sum(len(test.examples) for test in examples) > 0
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for test in examples:
        assert runner.run(test).failed == 0


def test_the_readme_starts_with_the_promise_and_soon_shows_code() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    assert lines[0].removeprefix("# ") == "Change any gradient. Know it is the one you meant."
    assert next(number for number, line in enumerate(lines, 1) if line == "```python") <= 20


def test_the_readme_shows_an_example_that_runs() -> None:
    example = ROOT / "examples" / "readme.py"
    assert fenced(README.read_text(encoding="utf-8"), "python")[0] == example.read_text("utf-8")


def listed_modes(text: str) -> dict[str, str]:
    """The modes that a table lists, each with what its line says of `pb.check`."""
    rows = re.findall(r"^\| ([^|]+) \| ?([^|]*?) ?\|", text, flags=re.MULTILINE)
    return {name: check for name, check in rows if name != "mode"}


def test_the_docs_list_the_modes_that_there_are() -> None:
    from pullback.engines.tensorflow.modes import MODES, SECOND_ORDER

    listed = listed_modes((ROOT / "docs" / "modes.md").read_text(encoding="utf-8"))
    assert list(listed) == [*MODES, *SECOND_ORDER]
    said = {name: check for name, check in listed.items() if check and name != "eager"}
    assert said == {name: mode.check for name, mode in MODES.items() if mode.check != "never"}


def test_the_modes_are_read_from_the_table() -> None:
    table = "| mode | `pb.check` | x |\n|---|---|---|\n| XLA, tape inside | | ✓ |\n| fit | on request | |"
    assert listed_modes(table) == {"XLA, tape inside": "", "fit": "on request"}


def test_contributing_is_short() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 45
