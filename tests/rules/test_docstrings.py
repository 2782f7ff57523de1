"""The examples in the docstrings of `pb.rules` and `pb.keras` run."""

import doctest
import inspect
import sys
from typing import Any

import pytest
import tensorflow as tf  # noqa: F401  # pb.keras is of the framework that is imported

import pullback as pb

RULES = [name for name, value in vars(pb.rules).items() if callable(value) and name[0].isalpha()]
KINDS = ("uniform", "power_of_two", "ternary", "binary", "lsq", "lsq_start")
QUANTIZERS = [f"quantizers.{kind}" for kind in KINDS]
RELEVANCE = {n for n in RULES if n.startswith("lrp_")} | {"rescale", "bilinear"}


def run_examples(value: Any, name: str) -> int:
    text = inspect.getdoc(value) or ""
    known = {**vars(sys.modules[__name__]), "pb": pb}
    test = doctest.DocTestParser().get_doctest(text, known, name, None, None)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    assert doctest.DocTestRunner(optionflags=flags).run(test).failed == 0
    return len(test.examples)


@pytest.mark.parametrize("name", sorted({*RULES, *QUANTIZERS} - RELEVANCE))
def test_the_example_of_a_rule_runs(name: str) -> None:
    value: Any = pb.rules
    for part in name.split("."):
        value = getattr(value, part)
    assert run_examples(value, name) > 0


@pytest.mark.parametrize("name", pb.keras.__all__)
def test_the_example_of_a_layer_or_callback_runs(name: str) -> None:
    assert run_examples(getattr(pb.keras, name), name) > 0
