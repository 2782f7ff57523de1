"""`assert pb.check(...)` shows the report when it fails."""

import subprocess
import sys

import pytest

TEST = """
import tensorflow as tf
import pullback as pb

@tf.custom_gradient
def twice(x):
    return tf.sin(x), lambda dy: 2 * dy * tf.cos(x)

def test_bare():
    assert pb.check(twice, tf.constant([1.0, 2.0]))

def test_held():
    report = pb.check(twice, tf.constant([1.0, 2.0]))
    assert report.ok

def test_unrelated():
    assert 1 == 2

def test_unrelated_beside_a_report():
    report = pb.check(twice, tf.constant([1.0, 2.0]))
    assert len("abc") == 4

def test_own_words():
    assert pb.check(twice, tf.constant([1.0, 2.0])), "in my own words"

@pb.custom_gradient
def leaves(x):
    raise SystemExit(0)

def test_leaves():
    assert pb.check(leaves, tf.constant([1.0, 2.0]))

def test_among_others():
    reports = {"a": pb.check(tf.sin, tf.constant([1.0])), "b": pb.check(twice, tf.constant([1.0, 2.0]))}
    assert all(reports.values())
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    path = tmp_path_factory.mktemp("plugin") / "test_it.py"
    path.write_text(TEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=path.parent, check=False
    ).stdout


def part(output, name):
    """What pytest printed about one test."""
    return output.partition(f"_ {name} _")[2].partition("\n____")[0]


@pytest.mark.parametrize("name", ["test_bare", "test_held", "test_among_others"])
def test_the_report_is_shown_for_bare_and_held_reports(output, name):
    shown = part(output, name)
    assert "AssertionError: the gradient check failed" in shown
    assert "a factor 2 too many" in shown


@pytest.mark.parametrize("name", ["test_unrelated", "test_unrelated_beside_a_report"])
def test_other_assertions_are_left_alone(output, name):
    shown = part(output, name)
    assert "assert 1 == 2" in shown or "assert 3 == 4" in shown
    assert "gradient check failed" not in shown


def test_the_tests_own_words_are_kept(output):
    shown = part(output, "test_own_words")
    assert "AssertionError: in my own words" in shown
    assert "a factor 2 too many" in shown


def test_a_function_that_ends_the_program_fails_its_test_only(output):
    assert "CheckError: sys.exit(0) was called at" in part(output, "test_leaves")
    assert "a factor 2 too many" in part(output, "test_among_others")
