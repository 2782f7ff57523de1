"""Wrong at some values, with other values, in other places: what the diagnosis says about these."""

import numpy as np
import pytest

from pullback.check.diagnosis.diagnose import diagnose
from tests.check.fake import NumpyProbe, examination, first_problem

RNG = np.random.default_rng(5)
X, Y = RNG.normal(size=12), RNG.normal(size=12)
M, N = RNG.normal(size=(3, 3)), RNG.normal(size=(3, 3))
WIDE = RNG.normal(size=(4, 3))


def sine(x):
    return [np.sin(x) + 2 * x]


def slope(x):
    return np.cos(x) + 2


def where(condition, factor):
    """The rule of `sine`, times a factor where a condition on the input holds."""

    def rule(xs, ws):
        return [ws[0] * slope(xs[0]) * np.where(condition(np.real(xs[0])), factor, 1.0)]

    return rule


def total(x, axis=1):
    shifted = np.exp(x)
    return shifted / np.sum(shifted, axis=axis, keepdims=True)


def softmax_along(axis):
    def rule(xs, ws):
        y = total(xs[0])
        return [y * (ws[0] - np.sum(ws[0] * y, axis=axis, keepdims=True))]

    return rule


def summed_forwards(xs, ws):
    return [2 * xs[0] * np.cumsum(ws[0], axis=1)]


def polar(r, t):
    return [r * np.cos(t), r * np.sin(t)]


def polar_rule(first, second):
    def rule(xs, ws):
        r, t = xs
        a, b = first * ws[0], second * ws[1]
        return [a * np.cos(t) + b * np.sin(t), -a * r * np.sin(t) + b * r * np.cos(t)]

    return rule


def tanh_back(xs, ws):
    return ws[0] * (1 - np.tanh(xs[0] @ xs[1]) ** 2)


CASES = {
    "above": (sine, where(lambda x: x > 3, 2.0), [X], (3.0,), "wrong only where x > 3"),
    "below": (sine, where(lambda x: x < -2, 0.0), [X], (2.0,), "wrong only where x < −2"),
    "size": (sine, where(lambda x: abs(x) > 10, 0.5), [X], (10.0,), "wrong only where |x| > 10"),
    "between": (
        sine,
        where(lambda x: (x > 0.5) & (x < 0.75), 2.0),
        [np.append(X, 0.6)],
        (0.5, 0.75),
        "wrong only where 0.5 < x < 0.75",
    ),
    "not mined": (sine, where(lambda x: x > 0.25, 2.0), [X], (), "wrong only where x > 0.25"),
    "small": (
        sine,
        where(lambda x: abs(x) < 1e-3, 0.0),
        [X],
        (1e-3,),
        "wrong only where |x| < 0.001",
    ),
    "other input": (
        lambda x, y: [x * x + y],
        lambda xs, ws: [ws[0] * 2 * xs[0] * np.where(np.real(xs[0] - xs[1]) < 0, 3, 1), ws[0]],
        [X, Y],
        (),
        "wrong only where x < y",
    ),
    "operand transposed": (
        lambda x, y: [x @ y],
        lambda xs, ws: [ws[0] @ xs[1], xs[0].T @ ws[0]],
        [M, N],
        (),
        "the gradient for `x` is computed with `y` transposed",
    ),
    "factor transposed": (
        lambda x, y: [np.tanh(x @ y)],
        lambda xs, ws: [tanh_back(xs, ws) @ xs[1], xs[0].T @ tanh_back(xs, ws)],
        [M, N],
        (),
        "the gradient for `x` is computed with `y` transposed by mistake",
    ),
    "output for input": (
        lambda x: [x**2],
        lambda xs, ws: [ws[0] * 2 * xs[0] ** 2],
        [X],
        (),
        "computed with the output in place of `x`",
    ),
    "summed upstream": (
        sine,
        lambda xs, ws: [np.sum(ws[0]) * slope(xs[0])],
        [X],
        (),
        "mixes elements along axis 0, which the function keeps apart",
    ),
    "laid along": (
        lambda x: [np.sum(x * x, axis=1)],
        lambda xs, ws: [2 * ws[0][None, :] * xs[0]],
        [RNG.normal(size=(6, 6))],
        (),
        "laid along axis 1 and not axis 0",
    ),
    "straight through": (
        lambda x: [np.round(np.real(x))],
        lambda xs, ws: [ws[0] + 0 * xs[0]],
        [X],
        (),
        "the function is flat in `x`",
    ),
    "wrong index": (
        lambda x: [x[::2] ** 2],
        lambda xs, ws: [np.repeat(ws[0], 2) * 2 * xs[0]],
        [X],
        (),
        "on which the function does not depend here",
    ),
    "constant": (
        lambda x: [np.sin(x * np.pi / 180)],
        lambda xs, ws: [ws[0] * np.cos(xs[0] * np.pi / 180)],
        [X],
        (),
        "a factor 180/π too many",
    ),
    "normalised upstream": (
        sine,
        lambda xs, ws: [ws[0] / np.linalg.norm(ws[0]) * slope(xs[0])],
        [X],
        (),
        "not linear in its upstream",
    ),
    "wrong operand": (
        lambda x, y: [x * np.exp(y)],
        lambda xs, ws: [ws[0] * np.exp(xs[0]), ws[0] * xs[0] * np.exp(xs[1])],
        [X, Y],
        (),
        "computed with `x` in place of `y`",
    ),
    "axis": (
        lambda x: [total(x)],
        softmax_along(0),
        [WIDE],
        (),
        "wrong axis in the gradient for `x`: the rule mixes elements along axis 0 and not axis 1",
    ),
    "direction": (
        lambda x: [np.cumsum(x * x, axis=1)],
        summed_forwards,
        [WIDE],
        (),
        "accumulates the wrong way along axis 1",
    ),
    "output lost": (polar, polar_rule(1, 0), [X, Y], (), "what `out[1]` contributes"),
    "output sign": (polar, polar_rule(-1, 1), [X, Y], (), "`x` has the wrong sign"),
    "clipped": (
        sine,
        lambda xs, ws: [np.clip(ws[0], -0.5, 0.5) * slope(xs[0])],
        [X],
        (),
        "not linear in its upstream",
    ),
    "part without upstream": (
        sine,
        lambda xs, ws: [ws[0] * np.cos(xs[0]) + 2],
        [X],
        (),
        "not multiplied into every term",
    ),
    "zero of ones": (
        lambda x: [total(x)],
        lambda xs, ws: [np.zeros(xs[0].shape)],
        [WIDE],
        (),
        "the upstream gradient is not multiplied in (an upstream of ones would give zero)",
    ),
    "eps": (
        lambda x: [np.log(x)],
        lambda xs, ws: [ws[0] / (xs[0] + 1e-6)],
        [np.abs(X) + 0.3],
        (),
        "slightly too small",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_diagnosis_names_the_mistake(name):
    fn, rule, start, constants, text = CASES[name]
    assert text in said_of(NumpyProbe(fn, rule, start, constants=constants))


def said_of(probe):
    exam = examination(probe)
    problem = first_problem(exam)
    assert problem is not None
    with np.errstate(all="ignore"):
        return diagnose(exam, problem, explain=True)[0].diagnosis


def test_a_rule_that_changes_from_run_to_run():
    runs = []

    def rule(xs, ws):
        runs.append(ws[0] * slope(xs[0]))
        return [sum(runs[-2:])]

    assert "another gradient each time it runs" in said_of(NumpyProbe(sine, rule, [X]))


class Remembering:
    """Rules of a product that hold on to what they saw first."""

    def __init__(self, which):
        self.which, self.first = which, None

    def __call__(self, xs, ws):
        if self.first is None:
            self.first = [np.array(x) for x in xs]
        xs = [self.first[k] if k in self.which else x for k, x in enumerate(xs)]
        return [ws[0] * xs[1], ws[0] * xs[0]]


def test_one_input_of_an_earlier_call():
    probe = NumpyProbe(lambda x, y: [x * y], Remembering([0]), [X, Y])
    assert "the value that `x` had in an earlier forward call" in said_of(probe)


def test_all_inputs_of_an_earlier_call():
    probe = NumpyProbe(lambda x, y: [x * y], Remembering([0, 1]), [X, Y])
    assert "shared state" in said_of(probe)


def test_a_saved_output_of_an_earlier_call():
    """Not right for any values of the inputs, but right where it was first run and only there."""
    kept = []

    def rule(xs, ws):
        kept.append(np.exp(np.sin(np.real(xs[0]))))
        return [ws[0] * kept[0] * np.cos(xs[0])]

    assert "shared state" in said_of(NumpyProbe(lambda x: [np.exp(np.sin(x))], rule, [X]))


def test_what_holds_for_the_given_inputs_only():
    """The shares given sum to one; the rule takes that for granted."""

    def rule(xs, ws):
        x, shares = xs
        total = np.sum(np.exp(x))
        return [ws[0] * (np.exp(x) / total - shares), ws[0] * (np.log(total) - x)]

    def loss(x, shares):
        return [np.sum(shares) * np.log(np.sum(np.exp(x))) - np.sum(x * shares)]

    probe = NumpyProbe(loss, rule, [X, np.abs(Y) / np.sum(np.abs(Y))])
    assert "the rule assumes what holds for those inputs only" in said_of(probe)
