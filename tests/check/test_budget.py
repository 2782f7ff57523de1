"""What a check and a diagnosis may spend, and what is said when it is spent."""

import contextlib
import sys

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.check import numbers as n
from pullback.check.budget import Budget, Calls, Spent, quick_checks_within
from pullback.check.report import Finding
from pullback.errors import CheckError

X = tf.constant(np.random.default_rng(0).normal(size=6), tf.float32)
TIES = tf.constant([0.0, 1.0, 1.0, 1.0, -1.0, 0.0])


def counted(function):
    """The function, which counts its calls."""

    def called(*xs):
        called.times += 1
        return function(*xs)

    called.times = 0
    return called


@tf.custom_gradient
def wrong(x):
    return tf.sin(x) * tf.exp(x), lambda dy: dy * tf.cos(x) * tf.exp(x) + 0.1 * tf.sin(3 * x) * dy


def outside(x):
    """What leaves TensorFlow, so that the truth is known by differences alone."""
    return tf.py_function(lambda x: tf.constant(np.tanh(x.numpy())), [x], x.dtype)


@tf.custom_gradient
def wrong_outside(x):
    return tf.ensure_shape(outside(x), x.shape), lambda dy: dy * (1 - tf.tanh(x))


EVERYTHING = {
    "smooth": (tf.tanh, X),
    "kinks": (tf.nn.relu, TIES),
    "ties": (tf.sort, TIES),
    "largest": (lambda x: tf.reduce_max(tf.abs(x)), TIES),
    "noise": (lambda x: tf.round(1e6 * x) / 1e6 + tf.sin(x), X),
    "float16": (tf.tanh, tf.cast(X, tf.float16)),
    "infinite slope": (tf.sqrt, tf.zeros(3)),
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_quick_check_keeps_to_its_calls(name):
    function, x = EVERYTHING[name]
    report = pb.check(function, x, quick=True)
    assert report.calls <= n.QUICK_CALLS
    assert report.verdict in ("right", "undecided"), str(report)


def test_a_quick_check_finds_what_is_plainly_wrong_in_its_calls(monkeypatch):
    before: list[int] = []

    def diagnosed(course, *_, **__):
        before.append(course.subject.calls)
        return (Finding("term", "args[0]", "is wrong"),)

    monkeypatch.setitem(vars(sys.modules["pullback.check.api"]), "diagnose", diagnosed)
    assert pb.check(wrong, X, quick=True).verdict == "wrong"
    assert before[0] <= n.QUICK_CALLS


def test_what_a_quick_check_leaves_open_is_said():
    report = pb.check(tf.sort, TIES, quick=True)
    assert report.verdict == "undecided"
    assert "a quick check makes no more than 30 calls" in str(report)


def test_quick_checks_may_be_let_make_more_calls():
    with quick_checks_within(n.LOOK_CALLS):
        report = pb.check(tf.sort, TIES, quick=True)
    assert report.verdict == "right"
    assert report.calls > n.QUICK_CALLS


@tf.custom_gradient
def stale(x, kept=[]):  # noqa: B006
    """The second call and all later ones get the gradient of the first."""
    kept.append(x)
    return tf.nn.relu(x) * tf.sin(
        x
    ), lambda dy: dy * (tf.cast(x > 0, x.dtype) * tf.sin(x) + tf.nn.relu(x) * tf.cos(kept[0]))


def test_a_suspicion_for_which_calls_run_out_is_no_approval():
    report = pb.check(stale, TIES, quick=True)
    assert report.verdict != "right", str(report)


@pytest.mark.parametrize("function", [wrong, wrong_outside])
def test_a_diagnosis_that_spends_its_calls_says_what_it_has(function, monkeypatch):
    monkeypatch.setattr(n, "EXPLAINING_CALLS", 40)
    monkeypatch.setattr(n, "SHOWING_CALLS", 20)
    verdict = pb.check(function, X, explain=False, modes="none", order=1)
    report = pb.check(function, X, modes="none", order=1)
    assert report.verdict == "wrong"
    assert report.calls <= verdict.calls + 60 + 1  # the last one is at the end of the check
    assert any("not all explanations were tried" in note for note in report.coverage.notes)


def test_a_diagnosis_that_spends_its_time_says_what_it_has(monkeypatch):
    monkeypatch.setattr(n, "EXPLAINING_SECONDS", 0.0)
    monkeypatch.setattr(n, "SHOWING_SECONDS", 0.0)
    report = pb.check(wrong, X, modes="none", order=1)
    assert report.verdict == "wrong"
    assert any("not all explanations were tried" in note for note in report.coverage.notes)


def test_a_diagnosis_within_its_budget_does_not_speak_of_it():
    report = pb.check(wrong, X, modes="none", order=1)
    assert not any("not all explanations" in note for note in report.coverage.notes)


def test_calls_are_those_of_the_function():
    function = counted(tf.tanh)
    report = pb.check(function, X, quick=True)
    assert report.calls == function.times


def test_a_budget_is_spent_by_calls_by_work_and_by_waiting(monkeypatch):
    Budget(3).require(3)
    with pytest.raises(Spent, match=r"^$"):
        Budget(3).require(4)
    for clock, later in (("process_time", 2.0), ("monotonic", 2.0 * n.WAITING)):
        budget = Budget(3, 1.0)
        began = budget.began if clock == "process_time" else budget.began_to_wait
        monkeypatch.setattr(f"time.{clock}", lambda b=began, t=later: b + t)
        with pytest.raises(Spent, match=r"^$"):
            budget.require(1)
        assert budget.is_spent
        monkeypatch.undo()


# every run of the function counts: as it is, in a traced program, and while it is found out how it can be run


def ticking(function):
    """The function, and a count of its runs that goes on in traced programs too."""
    runs: list[int] = []

    def tick():
        runs.append(1)
        return np.int32(0)

    def called(*xs):
        with tf.control_dependencies([tf.numpy_function(tick, [], tf.int32)]):
            return function(*map(tf.identity, xs))

    return called, runs


WEIGHTS = tf.Variable(np.random.default_rng(1).normal(size=6), dtype=tf.float32)


def smoothed(x):
    """By a loop, one entry after the other."""

    def step(i, h, kept):
        h = 0.8 * h + 0.2 * x[i]
        return i + 1, h, kept.write(i, h)

    count = tf.shape(x)[0]
    start = 0, tf.zeros_like(x[0]), tf.TensorArray(x.dtype, count)
    return tf.while_loop(lambda i, *_: i < count, step, start)[2].stack()


COUNTED = {
    **EVERYTHING,
    "random": (lambda x: x * tf.random.normal([6]), X),
    "random by NumPy": (lambda x: x * np.random.normal(), X),
    "variable": (lambda x: x * WEIGHTS**2, X),
    "loop": (smoothed, tf.constant(np.random.default_rng(2).normal(size=(40, 3)), tf.float32)),
    "long": (tf.sin, tf.constant(np.random.default_rng(3).normal(size=n.LARGE_INPUT), tf.float32)),
}


@pytest.mark.parametrize("name", COUNTED)
def test_a_quick_check_counts_every_run(name):
    function, x = COUNTED[name]
    called, runs = ticking(function)
    report = pb.check(called, x, quick=True)
    assert len(runs) <= report.calls <= n.QUICK_CALLS


@pytest.mark.parametrize("name", ["random", "variable", "long"])
def test_a_full_check_counts_every_run(name):
    function, x = COUNTED[name]
    called, runs = ticking(function)
    report = pb.check(called, x, order=1)
    assert report.verdict == "right", str(report)
    assert len(runs) <= report.calls


def test_a_quick_check_that_cannot_begin_in_its_calls_says_so():
    with (
        quick_checks_within(3),
        pytest.raises(CheckError, match="as many to find out how this function can be run"),
    ):
        pb.check(tf.tanh, X, quick=True)


def test_handlers_of_errors_do_not_take_a_spent_budget_for_one():
    calls = Calls()
    with calls.within(1), pytest.raises(Spent, match=r"^$"), contextlib.suppress(Exception):
        calls.spend(2)


def test_second_derivatives_that_may_stay_open_are_not_looked_into():
    """Where one crosses zero, no difference has digits enough; of many entries some are there."""

    @tf.custom_gradient
    def sine(x):
        return tf.sin(x), lambda dy: dy * tf.cos(x)

    x = np.random.default_rng(1).normal(size=n.LARGE_INPUT)
    x[:50] = 1e-7
    report = pb.check(sine, tf.constant(x, tf.float64), modes="none")
    assert report.verdict == "right"
    assert report.calls <= 150
