"""Reports are data; text, terminal and notebook show the same."""

import dataclasses
import io

import numpy as np
import pytest
from rich.console import Console

from pullback.check import Coverage, Finding, Line, Report
from pullback.check.probe import Leaf
from pullback.errors import CheckFailed

LEAF = Leaf("args[0]", "x", (2, 3), "float32")
FINDING = Finding(
    kind="factor",
    path="args[0]",
    diagnosis="the gradient for `x` is 2× too large",
    got=2.0,
    wanted=1.0,
    error=1e-12,
    point="the given arguments",
    output="out[1]",
    source="rules.py:7",
)
RIGHT = Report(
    "f",
    3,
    90,
    inputs=(Line(LEAF, True),),
    coverage=Coverage(points=("negative",), kinks=2, modes=("XLA",)),
)
WRONG = dataclasses.replace(
    RIGHT,
    findings=(FINDING,),
    inputs=(Line(LEAF, False),),
    reproduce="import pullback as pb\nprint(pb.check(f, *args, seed=3))",
)


def test_a_report_is_true_when_nothing_is_wrong():
    assert (RIGHT.ok, bool(RIGHT), RIGHT.diagnosis) == (True, True, "")
    assert (WRONG.ok, bool(WRONG)) == (False, False)
    assert RIGHT.raise_if_failed() is RIGHT


def test_raising_is_the_callers_choice():
    with pytest.raises(CheckFailed, match="2× too large"):
        WRONG.raise_if_failed()


def test_a_report_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign"):
        RIGHT.calls = 0  # type: ignore[misc]


@pytest.mark.parametrize(
    "part",
    [
        "✗ f: the gradient for `x` is 2× too large",
        "float32[2, 3]",
        "args[0] → out[1]",
        "point: the given arguments",
        "the rule gives 2, the function says 1 ± 1e-12",
        "rules.py:7",
        "pb.check(f, *args, seed=3)",
        "seed 3",
    ],
)
def test_a_failure_shows_everything(part):
    assert part in str(WRONG)


@pytest.mark.parametrize(
    "part", ["✓ f: the gradient is right", "negative", "kinks met: 2", "same in: XLA"]
)
def test_a_pass_says_what_was_covered(part):
    assert part in str(RIGHT)


def test_what_was_not_judged_is_not_called_right():
    other = dataclasses.replace(LEAF, path="args[1]", name="y")
    report = dataclasses.replace(WRONG, inputs=(Line(LEAF, False), Line(other, None)))
    assert "✗   x" in str(report)
    assert "·   y" in str(report)


def test_a_pass_against_another_function_names_it():
    report = dataclasses.replace(RIGHT, against="hard_tanh")
    assert "✓ f: the gradient is that of hard_tanh" in str(report)
    report = dataclasses.replace(WRONG, against="hard_tanh")
    assert "the rule gives 2, hard_tanh says 1" in str(report)


def test_nothing_is_said_of_everywhere_when_the_check_stopped_early():
    covered = Coverage(points=("negative",), never_reached=2, entries=3)
    assert "gradient zero everywhere: 2 of 3" in str(dataclasses.replace(RIGHT, coverage=covered))
    assert "everywhere" not in str(dataclasses.replace(WRONG, coverage=covered))
    assert "tried 1 point to order" in str(RIGHT)


def test_second_order_findings_say_how_to_leave_them_out():
    second = dataclasses.replace(FINDING, kind="second")
    assert "order=1 leaves" in str(dataclasses.replace(WRONG, findings=(second,)))
    assert "order=1 leaves" not in str(WRONG)


def test_terminal_and_notebook_show_the_same_lines():
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(WRONG)
    shown = [line.rstrip() for line in console.export_text().splitlines()]
    assert shown == [line.rstrip() for line in str(WRONG).splitlines()]
    assert "2× too large" in WRONG._repr_html_()
    assert "<script" not in dataclasses.replace(WRONG, name="<script>")._repr_html_()


def test_leaves_describe_themselves():
    assert LEAF.describe() == "float32[2, 3]"
    assert LEAF.size == 6
    assert np.prod(LEAF.shape) == LEAF.size
