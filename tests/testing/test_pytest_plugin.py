"""The pytest plugin: `check_gradient`, marks, modes, and failures that show the report."""

import itertools
import re
import subprocess
import sys
from pathlib import Path

import pytest

import _pullback_pytest as plugin

pytest_plugins = ["pytester"]

FUNCTIONS = """
import unittest

import pytest
import tensorflow as tf
import pullback as pb

X = tf.constant([1.0, 2.0])

@tf.custom_gradient
def twice(x):
    return tf.sin(x), lambda dy: 2 * dy * tf.cos(x)

@tf.custom_gradient
def straight_through(x):
    return tf.round(x), lambda dy: dy
"""
ASSERTIONS = """
def test_bare():
    assert pb.check(twice, X)

def test_held():
    report = pb.check(twice, X)
    assert report.ok

def test_unrelated():
    assert 1 == 2

def test_unrelated_beside_a_report():
    report = pb.check(twice, X)
    assert len("abc") == 4

def test_own_words():
    assert pb.check(twice, X), "in my own words"

@pb.custom_gradient
def leaves(x):
    raise SystemExit(0)

def test_leaves():
    assert pb.check(leaves, X)

def test_among_others():
    reports = {"a": pb.check(tf.sin, X), "b": pb.check(twice, X)}
    assert all(reports.values())

def test_list():
    reports = [pb.check(function, X) for function in (tf.sin, twice)]
    assert [report.ok for report in reports] == [True, True]

def test_dict():
    reports = {"a": pb.check(tf.sin, X), "b": pb.check(twice, X)}
    assert {name: r.verdict for name, r in reports.items()} == {"a": "right", "b": "right"}

def test_not():
    wrong = pb.check(twice, X)
    assert not pb.check(tf.sin, X)

def test_not_held():
    report = pb.check(tf.sin, X)
    assert not report.ok

def test_verdict():
    assert pb.check(tf.sin, X).verdict == "wrong"

class TestWithUnittest(unittest.TestCase):
    def test_true(self):
        self.assertTrue(pb.check(twice, X))

    def test_false(self):
        self.assertFalse(pb.check(tf.sin, X))
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    path = tmp_path_factory.mktemp("plugin") / "test_it.py"
    path.write_text(FUNCTIONS + ASSERTIONS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=path.parent, check=False
    ).stdout


def part(output, name):
    """What pytest printed about one test."""
    return output.partition(f"_ {name} _")[2].partition("\n____")[0]


@pytest.mark.parametrize(
    "name", ["test_bare", "test_held", "test_among_others", "TestWithUnittest.test_true"]
)
def test_the_report_is_shown_in_place_of_its_data(output, name):
    shown = part(output, name)
    assert "AssertionError: the gradient check failed" in shown
    assert "a factor 2 too many" in shown
    assert "Report(" not in shown


@pytest.mark.parametrize("name", ["test_list", "test_dict"])
def test_a_comparison_keeps_what_pytest_says_and_gets_the_report(output, name):
    shown = part(output, name)
    assert "E       AssertionError: assert {" in shown or "E       assert [True, False] ==" in shown
    assert "a factor 2 too many" in shown
    assert "✓ sin" not in shown


@pytest.mark.parametrize("name", ["test_not", "test_not_held", "TestWithUnittest.test_false"])
def test_a_check_that_passes_against_expectation_shows_what_was_compared(output, name):
    shown = part(output, name)
    assert "AssertionError: the gradient check was expected to fail, and passed" in shown
    assert "✓ sin: the gradient is right" in shown
    assert "same in: tf.function, tape outside" in shown
    assert "a factor 2 too many" not in shown


def test_a_verdict_that_is_compared_shows_the_report(output):
    assert "✓ sin: the gradient is right" in part(output, "test_verdict")


@pytest.mark.parametrize("name", ["test_unrelated", "test_unrelated_beside_a_report"])
def test_other_assertions_are_left_alone(output, name):
    shown = part(output, name)
    assert "assert 1 == 2" in shown or "assert 3 == 4" in shown
    assert "factor 2 too many" not in shown


def test_the_tests_own_words_are_kept(output):
    shown = part(output, "test_own_words")
    assert "AssertionError: in my own words" in shown
    assert "a factor 2 too many" in shown


def test_a_function_that_ends_the_program_fails_its_test_only(output):
    assert "CheckError: sys.exit(0) was called at" in part(output, "test_leaves")
    assert "a factor 2 too many" in part(output, "test_among_others")


@pytest.fixture
def run(pytester, monkeypatch):
    """Run tests in this process, with the functions above."""
    # TensorFlow cannot be imported twice: what a session imports stays imported, and its file has a name of its own.
    monkeypatch.setattr("_pytest.pytester.SysModulesSnapshot.restore", lambda self: None)
    numbers = itertools.count()

    def run(tests, *options):
        name = f"{pytester.path.name}_{next(numbers)}"
        path = pytester.makepyfile(**{name: FUNCTIONS + tests})
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *options, path)

    return run


def test_the_fixture_checks_and_fails_with_the_report(run):
    result = run("""
def test_right(check_gradient):
    assert check_gradient(tf.sin, X).verdict == "right"

def test_meant_otherwise(check_gradient):
    check_gradient(straight_through, X, against=tf.identity)

def test_wrong(check_gradient):
    check_gradient(twice, X)
""")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            ">       check_gradient(twice, X)",
            "E       pullback.errors.CheckFailed: ✗ twice: *a factor 2 too many*",
            "*.py:*: CheckFailed",
        ]
    )


def test_a_mark_is_a_test_each_in_the_order_written(run):
    result = run(
        """
@pytest.mark.pullback(tf.sin, X)
@pytest.mark.pullback(straight_through, X, against=tf.identity, id="straight through")
@pytest.mark.pullback(twice, X, marks=pytest.mark.later)
@pytest.mark.pullback("Tanh", X)
@pytest.mark.pullback(tf.sin, 2.0 * X)
@pytest.mark.pullback(twice, X, id="twice again")
def test_gradients(check_gradient):
    check_gradient(quick=True)
""",
        "-v",
        *("-o", "markers=later", "-m", "not later"),
    )
    result.assert_outcomes(passed=4, failed=1, deselected=1)
    names = ["sin0", "straight through", "Tanh", "sin1", "twice again"]
    result.stdout.fnmatch_lines(
        [f"*.py::test_gradients[[]{name}[]] *" for name in names], consecutive=True
    )


def test_a_mark_that_has_no_effect_is_an_error(run):
    forgotten = run("""
@pytest.mark.pullback(tf.sin, X)
def test_forgotten(check_gradient):
    pass

@pytest.mark.pullback(tf.sin, X)
def test_fails_anyway(check_gradient):
    raise ValueError("of its own")
""")
    forgotten.assert_outcomes(passed=1, failed=1, errors=1)
    forgotten.stdout.fnmatch_lines(["the check that the mark names did not run: call *"])


def test_a_mark_without_the_fixture_or_a_function_is_refused(run):
    without = run("@pytest.mark.pullback(tf.sin, X)\ndef test_it():\n    pass\n")
    without.stdout.fnmatch_lines(["*is marked with pullback and does not check: write *"])
    empty = run("@pytest.mark.pullback()\ndef test_it(check_gradient):\n    check_gradient()\n")
    empty.stdout.fnmatch_lines(
        ["*takes a function and its arguments: @pytest.mark.pullback(fn, x)."]
    )


def test_without_a_mark_the_fixture_needs_a_function(run):
    result = run("def test_it(check_gradient):\n    check_gradient()\n")
    result.stdout.fnmatch_lines(["*TypeError: check_gradient takes a function and its arguments*"])


SHOWS_MODES = """
def test_it(check_gradient):
    print("ran in", check_gradient(tf.sin, X, order=1).coverage.modes)

def test_given(check_gradient):
    print("ran in", check_gradient(tf.sin, X, order=1, modes="none").coverage.modes)
"""
OUTSIDE, INSIDE = "tf.function, tape outside", "tf.function, tape inside"


@pytest.mark.parametrize(
    ("asked", "ran"),
    [
        ([], (OUTSIDE, INSIDE)),
        (["--pullback-modes=eager"], ()),
        (["--pullback-modes=graph,XLA"], (OUTSIDE, INSIDE, "XLA")),
        ([f"--pullback-modes=xla, {INSIDE}"], ("XLA", INSIDE)),
        (["-o", "pullback_modes=forward"], ("forward mode",)),
        (["-o", "pullback_modes=forward", "--pullback-modes=vectorized_map"], ("vectorized_map",)),
    ],
    ids=["nothing", "eager", "short-names", "full-name", "file", "file-and-option"],
)
def test_modes_are_those_asked_for(run, asked, ran):
    result = run(SHOWS_MODES, "-s", *asked)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([f"*ran in {ran}*", "*ran in ()*"])


@pytest.mark.parametrize("wrong", ["graf", "xla,graf", ""])
def test_an_unknown_mode_is_a_usage_error(run, wrong):
    result = run("def test_it():\n    pass\n", f"--pullback-modes={wrong}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    last = wrong.split(",")[-1]
    result.stderr.fnmatch_lines([f"ERROR: --pullback-modes: there is no mode '{last}'. Write *"])


def test_the_modes_are_those_of_the_engine():
    from pullback.engines.tensorflow.probing.modes import OFFERED

    assert plugin.MODES["all"] == OFFERED


def test_a_mode_that_could_not_be_run_is_told(run):
    result = run(
        """
def in_python(x):
    return tf.py_function(tf.sin, [x], tf.float32)

def test_it(check_gradient):
    check_gradient(in_python, X, order=1)
""",
        "--pullback-modes=xla",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*gradients that could not be compared in a mode*",
            "*.py::test_it: in_python: XLA: not run (*",
        ]
    )


def test_workers_of_xdist_agree_and_tell_the_same(pytester):
    pytester.makepyfile(
        test_it=FUNCTIONS
        + """
@pytest.mark.pullback(tf.sin, X)
@pytest.mark.pullback(tf.sin, 2.0 * X)
@pytest.mark.pullback(twice, X)
def test_gradients(check_gradient):
    check_gradient(quick=True)

def test_not():
    assert not pb.check(tf.sin, X, quick=True)
"""
    )
    result = pytester.runpytest_subprocess("-n2", "-p", "no:cacheprovider", "--pullback-modes=xla")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*a factor 2 too many*"])
    result.stdout.fnmatch_lines(["*expected to fail, and passed*"])


def test_a_session_that_does_not_use_pullback_does_not_import_it(pytester):
    pytester.makepyfile(
        """
import sys

def test_it():
    assert "_pullback_pytest" in sys.modules
    assert {"pullback", "numpy", "tensorflow"}.isdisjoint(sys.modules)

def test_assertions_are_left_alone():
    assert 1 == 2
"""
    )
    bare = ("-p", "no:hypothesispytest", "-p", "no:xdist", "-p", "no:cacheprovider")
    pytester.runpytest_subprocess(*bare).assert_outcomes(passed=1, failed=1)


def test_the_tests_of_the_page_pass(pytester):
    page = Path(__file__).parents[2] / "docs" / "testing.md"
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
    pytester.makepyfile(test_page="\n".join(blocks))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    # five by themselves, five marks, three parameters
    result.assert_outcomes(passed=5 + 5 + 3)
