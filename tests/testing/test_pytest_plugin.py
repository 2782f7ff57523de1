"""`assert pb.check(...)` shows the report when it fails."""

import subprocess
import sys

import pytest

TEST = """
import tensorflow as tf
from pullback.check import check

@tf.custom_gradient
def twice(x):
    return tf.sin(x), lambda dy: 2 * dy * tf.cos(x)

def test_bare():
    assert check(twice, tf.constant([1.0, 2.0]))

def test_held():
    report = check(twice, tf.constant([1.0, 2.0]))
    assert report.ok

def test_unrelated():
    assert 1 == 2
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    path = tmp_path_factory.mktemp("plugin") / "test_it.py"
    path.write_text(TEST, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=path.parent, check=False
    ).stdout


def test_the_report_is_shown_for_bare_and_held_reports(output):
    assert (
        output.count("E   AssertionError: the gradient check failed")
        + output.count("E       AssertionError: the gradient check failed")
        == 2
    )
    assert output.count("a factor 2 too many") >= 2


def test_other_assertions_are_left_alone(output):
    assert "assert 1 == 2" in output
