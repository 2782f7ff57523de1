"""Every function says when to use it, with an example that runs."""

import doctest
import inspect
import sys

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

NAMES = [n for n in dir(pb.functions) if inspect.isfunction(getattr(pb.functions, n))]


@pytest.mark.parametrize("name", NAMES)
def test_the_docstring_says_when_and_its_example_runs(name: str) -> None:
    function = getattr(pb.functions, name)
    known = {**vars(sys.modules[function.__module__]), "pb": pb, "tf": tf, "np": np}
    (test,) = doctest.DocTestFinder(recurse=False).find(function, name, globs=known)
    assert "Use it" in test.docstring
    assert len(test.examples) > 0
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert runner.run(test).failed == 0


def test_the_functions_are_these() -> None:
    assert len(NAMES) > 20
