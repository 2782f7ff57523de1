"""Where NaN and Inf start, in real code."""

import inspect

import pytest
import tensorflow as tf

import pullback as pb
from tests.explain import more_nonfinite_cases, nonfinite_cases, project_nonfinite_cases

CASES = {**nonfinite_cases.CASES, **more_nonfinite_cases.CASES, **project_nonfinite_cases.CASES}


def marked(make, mark: str) -> list[int]:
    """The lines that a case marks."""
    lines, first = inspect.getsourcelines(make)
    return [first + k for k, line in enumerate(lines) if f"# {mark}" in line]


@pytest.mark.parametrize("name", CASES)
def test_the_first_bad_operation_is_found(name: str) -> None:
    make, direction, words = CASES[name]
    fn, args = make()
    found = pb.explain(fn, *args).first_nonfinite()
    assert found is not None
    said = str(found)
    assert [w for w in words if not any(part in said for part in w.split("|"))] == [], said
    assert found.direction == direction, said
    assert all(found.line.endswith(f"nonfinite_cases.py:{n}") for n in marked(make, "HERE")), said
    assert all(f"nonfinite_cases.py:{n}" in said for n in marked(make, "ALSO")), said


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: tf.reduce_sum(tf.where(x > 0.0, tf.sqrt(tf.where(x > 0.0, x, 1.0)), 0.0)),
        lambda x: tf.reduce_sum(tf.math.divide_no_nan(1.0, x)),
        lambda x: tf.reduce_sum(tf.nn.softmax(tf.where(x > 0.0, x, -float("inf")))),
    ],
)
def test_what_is_finite_where_it_matters_is_not_reported(fn) -> None:
    assert pb.explain(fn, tf.constant([0.0, 1.0, 2.0])).first_nonfinite() is None
