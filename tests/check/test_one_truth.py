"""A failing report says one thing: in its sentence, in the lines of its inputs, and by the line of source."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.check.diagnosis import words

X, Y = tf.constant([0.3, 1.2, -0.5]), tf.constant([1.3, 0.2, 2.5])


@pb.custom_gradient
def wrong_below(x, y):
    s = tf.sin(x)

    def backward(dy):
        for_x = dy * tf.cos(x) * y
        for_y = dy * tf.cos(s)
        return for_x, for_y

    return s * y, backward


@pb.custom_gradient
def both_doubled(x, y):
    return x * y, lambda dy: (2 * dy * y, 2 * dy * x)


@pb.custom_gradient
def swapped(x, y):
    return x * y**2, lambda dy: (2 * dy * x * y, dy * y**2)


def line_here() -> str:
    lines, first = inspect.getsourcelines(wrong_below.__wrapped__)
    return f"test_one_truth.py:{first + next(k for k, t in enumerate(lines) if 'for_y = ' in t)}"


def test_the_place_is_the_line_that_the_sentence_names() -> None:
    (finding,) = pb.check(wrong_below, X, Y).findings
    assert "for_y = dy * tf.cos(s)" in finding.diagnosis
    assert finding.source == line_here()
    assert finding.code == "for_y = dy * tf.cos(s)"


@pytest.mark.parametrize("fn", [both_doubled, swapped])
def test_all_inputs_that_a_sentence_is_about_are_marked(fn) -> None:
    report = pb.check(fn, X, Y)
    for finding in report.findings:
        for line in report.inputs:
            if f"`{line.leaf.name}`" in finding.diagnosis:
                assert line.ok is False, report


def test_a_factor_has_the_digits_that_tell_it_from_one() -> None:
    assert words.factor(1 + 2.3e-6) == "is too large by a factor 1.0000023 (2.3e-06 off)"
    assert words.factor(0.98) == "is too small by a factor 0.98 (2 % off)"
    assert "factor 1 " not in words.factor(np.nextafter(1.0, 2.0))
