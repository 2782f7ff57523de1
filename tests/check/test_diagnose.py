"""What is wrong, in words: each way of being wrong gets its own sentence."""

import numpy as np
import pytest

from pullback.check.diagnosis.diagnose import diagnose
from tests.check.fake import NumpyProbe, examination, first_problem

RNG = np.random.default_rng(11)
X, Y = RNG.normal(size=9), RNG.normal(size=9)
A, B = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 3))


def sine(x):
    return [np.sin(x)]


def product(x, y):
    return [x * y]


def softmax(x):
    e = np.exp(x - np.max(np.real(x)))
    return [e / np.sum(e)]


def one_wrong(xs, ws):
    g = ws[0] * np.cos(xs[0])
    g[4] = 1.5 * g[4]
    return [g]


def single(xs, ws):
    return [(ws[0] * np.cos(np.real(xs[0]))).astype(np.float32).astype(float)]


def saved_single(xs, ws):
    return [ws[0] * np.cos(np.real(xs[0]).astype(np.float32).astype(float))]


CASES = {
    "factor": (
        sine,
        lambda xs, ws: [2 * ws[0] * np.cos(xs[0])],
        [X],
        "factor",
        "2× too large: a factor 2 too many",
    ),
    "half": (
        sine,
        lambda xs, ws: [ws[0] * np.cos(xs[0]) / 2],
        [X],
        "factor",
        "2× too small: a factor 2 is missing",
    ),
    "percent": (
        sine,
        lambda xs, ws: [1.01 * ws[0] * np.cos(xs[0])],
        [X],
        "factor",
        "too large by a factor 1.01 (1 % off)",
    ),
    "sign": (sine, lambda xs, ws: [-ws[0] * np.cos(xs[0])], [X], "sign", "wrong sign"),
    "none": (
        product,
        lambda xs, ws: [ws[0] * xs[1], None],
        [X, Y],
        "none",
        "no gradient flows to `y`",
    ),
    "zeros": (
        product,
        lambda xs, ws: [ws[0] * xs[1], 0 * xs[0]],
        [X, Y],
        "detached",
        "the gradient for `y` is zero",
    ),
    "upstream": (
        sine,
        lambda xs, ws: [np.cos(xs[0])],
        [X],
        "upstream",
        "upstream gradient is not multiplied in",
    ),
    "swapped": (
        product,
        lambda xs, ws: [ws[0] * xs[0], ws[0] * xs[1]],
        [X, Y],
        "swapped",
        "gradients for `x` and `y` are swapped",
    ),
    "reversed": (
        sine,
        lambda xs, ws: [(ws[0] * np.cos(xs[0]))[::-1]],
        [X],
        "reversed",
        "reversed along axis 0",
    ),
    "transposed": (
        lambda x, y: [x @ y],
        lambda xs, ws: [(ws[0] @ xs[1].T).T, xs[0].T @ ws[0]],
        [A, B],
        "transposed",
        "transposed",
    ),
    "element": (
        sine,
        one_wrong,
        [X],
        "element",
        "only element [4] of the gradient for `x` is wrong (1.5× what it should be), of 9",
    ),
    "float32": (sine, single, [X], "precision", "right to 24 bits only"),
    "float32 saved": (sine, saved_single, [X], "precision", "float32 inside the rule"),
    "cross terms": (
        softmax,
        lambda xs, ws: [ws[0] * softmax(xs[0])[0] * (1 - softmax(xs[0])[0])],
        [X],
        "term",
        "cross terms",
    ),
    "second": (
        sine,
        lambda xs, ws: [ws[0] * np.cos(np.real(xs[0]))],
        [X],
        "second",
        "right to first order, wrong to second",
    ),
    "shape": (
        lambda x, y: [x + y],
        lambda xs, ws: [ws[0], ws[0]],
        [A, B[0]],
        "shape",
        "sum over the broadcast axes [0]",
    ),
    "negative": (
        sine,
        lambda xs, ws: [ws[0] * np.cos(xs[0]) * np.where(np.real(xs[0]) < 0, 1.3, 1)],
        [X],
        "condition",
        "wrong only where x < 0",
    ),
    "at zero": (
        lambda x: [np.sin(x) + x],
        lambda xs, ws: [ws[0] * np.where(np.real(xs[0]) == 0, 0.0, np.cos(xs[0]) + 1)],
        [X],
        "condition",
        "wrong only where x = 0",
    ),
}


def finding_of(name, **options):
    fn, rule, start, _, _ = CASES[name]
    exam = examination(NumpyProbe(fn, rule, start))
    problem = first_problem(exam)
    assert problem is not None
    with np.errstate(all="ignore"):
        return diagnose(exam, problem, **{"explain": True, **options})[0]


@pytest.mark.parametrize("name", CASES)
def test_the_diagnosis_names_the_mistake(name):
    finding = finding_of(name)
    _, _, _, kind, text = CASES[name]
    assert finding.kind == kind, finding.diagnosis
    assert text in finding.diagnosis


def test_numbers_come_with_an_error_bar():
    finding = finding_of("factor")
    assert finding.got == pytest.approx(2 * finding.wanted)
    assert 0 < finding.error < 1e-6 * abs(finding.wanted)


def test_the_wrong_element_is_in_the_path():
    assert finding_of("element").path == "args[0][4]"


def test_without_explain_no_further_call_is_made():
    fn, rule, start, _, _ = CASES["factor"]
    exam = examination(NumpyProbe(fn, rule, start))
    problem = first_problem(exam)
    before = exam.subject.calls
    assert problem is not None
    diagnose(exam, problem, explain=False)
    assert exam.subject.calls == before


@pytest.mark.parametrize("size", [50, 400])
def test_an_element_is_found_in_logarithmically_many_calls(size):
    x = np.random.default_rng(2).normal(size=size)

    def rule(xs, ws):
        g = ws[0] * 2 * xs[0]
        g[size // 3] = 0.0
        return [g]

    exam = examination(NumpyProbe(lambda a: [np.sum(a * a)], rule, [x], analytic=False))
    problem = first_problem(exam)
    assert problem is not None
    before = exam.subject.calls
    finding = diagnose(exam, problem, explain=True)[0]
    assert finding.path == f"args[0][{size // 3}]"
    assert exam.subject.calls - before < 80 + 20 * np.log2(size)


def test_a_rule_that_looks_at_the_sign_of_its_upstream_is_not_linear():
    def rule(xs, ws):
        return [np.where(ws[0] > 0, ws[0] * np.cos(xs[0]), 0.0)]

    exam = examination(NumpyProbe(sine, rule, [X]))
    problem = first_problem(exam)
    assert problem is not None
    assert diagnose(exam, problem, explain=True)[0].kind == "linear"
