"""A failed check ends in a script that fails in the same way, at the smallest input that does."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = tf.constant([0.5, 1.0, 2.0])


@pb.custom_gradient
def unmasked(x):
    return tf.nn.relu(x), lambda dy: dy


@pb.custom_gradient
def scaled(x, y):
    return tf.sin(x) * y, lambda dz: (2 * dz * tf.cos(x) * y, dz * tf.sin(x))


@pb.custom_gradient
def not_finite(x):
    return tf.sin(x) * x, lambda dy: dy * (tf.cos(x) * x + tf.sin(x)) * x / x


@pb.custom_gradient
def above(x):
    steep = tf.cast(x > 1.6, x.dtype)
    return tf.tanh(x), lambda dy: dy * (1 - tf.tanh(x) ** 2) * (1 + steep)


@pb.custom_gradient
def one_of_many(x):
    off = tf.one_hot(7, tf.size(x), dtype=x.dtype)
    return tf.sin(x), lambda dy: dy * tf.cos(x) * (1 + off)


@pb.custom_gradient
def nested(tree, times=1.0):
    def back(dy):
        return {"w": -dy * tree["b"][0] * times, "b": [tf.reduce_sum(dy * tree["w"]) * times]}

    return tree["w"] * tree["b"][0] * times, back


MANY = tf.constant(np.random.default_rng(0).normal(size=(20, 50)).astype("f").ravel())
TREE = {"w": tf.constant([1.0, 2.0]), "b": [tf.constant(3.0)]}
CASES = [
    (unmasked, (X,), {}),
    (scaled, (X, X), {"wrt": "x", "order": 1}),
    (not_finite, (X,), {}),
    (above, (tf.constant([0.2, 0.4, -0.3]),), {}),
    (one_of_many, (MANY,), {}),
    (nested, (TREE,), {"kwargs": {"times": 2.0}}),
    (unmasked, (tf.Variable([-1.0, 2.0]),), {}),
    (unmasked, (np.array([-1.0, 2.0]),), {}),
]


def run(script, capsys):
    exec(script, {})
    return capsys.readouterr().out


@pytest.mark.parametrize(("fn", "args", "options"), CASES)
def test_the_script_fails_in_the_same_way(fn, args, options, capsys):
    report = pb.check(fn, *args, **options)
    shown = run(report.reproduce, capsys)
    assert shown.startswith(f"✗ {fn.__name__}: "), shown
    assert "made-up" not in shown, "what was found at a made-up point is given now"
    numbers = [line for line in str(report).splitlines() if "the rule gives" in line]
    assert numbers[0].split("says")[0] in shown


def test_the_script_runs_in_a_process_of_its_own(tmp_path, monkeypatch):
    text = "import tensorflow as tf\nimport pullback as pb\n\n@pb.custom_gradient\n"
    text += "def unmasked(x):\n    return tf.nn.relu(x), lambda dy: dy\n"
    (tmp_path / "rules_of_mine.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import rules_of_mine

    script = pb.check(rules_of_mine.unmasked, X).reproduce
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("✗ unmasked: "), done.stderr


def test_the_smallest_failing_input_is_plain():
    x = pb.check(unmasked, X).findings[0].at["x"]
    assert sorted(x) == [-1.0, 1.0, 1.0], "at zeros, a kink, it would seem to be straight-through"
    x = pb.check(one_of_many, MANY).findings[0].at["x"]
    assert np.flatnonzero(x).tolist() in ([], [7])


def test_a_threshold_is_kept_while_numbers_get_shorter():
    finding = pb.check(above, tf.constant([0.2, 0.4, -0.3])).findings[0]
    (value,) = finding.at["x"][finding.at["x"] > 1.6]
    assert value == np.float32(float(f"{value:.2g}"))
    assert finding.made_up
    low, high = eval(finding.exclude.removeprefix("domain={'x': ").removesuffix("}"))
    assert low < -0.3
    assert 0.4 < high <= value
    assert pb.check(above, tf.constant([0.2, 0.4, -0.3]), domain=(low, min(high, 1.5)))


def test_given_arguments_that_are_short_are_left_as_they_are():
    finding = pb.check(scaled, X, 2 * X).findings[0]
    assert finding.at["x"].tolist() == [0.5, 1.0, 2.0]
    assert not finding.made_up
    assert not finding.upstream
    entry = int(finding.entry.strip("[]"))
    slope = 2 * X[entry] * np.cos(X[entry])
    assert (finding.got, finding.wanted) == (pytest.approx(2 * slope), pytest.approx(slope))


@pb.custom_gradient
def shares(x):
    y = tf.nn.softmax(x)
    return y, lambda dy: 2 * y * (dy - tf.reduce_sum(dy * y, -1, keepdims=True))


def test_rounding_is_not_taken_for_the_error():
    """The shares sum to one: for an upstream of ones, rule and function give nothing but rounding."""
    finding = pb.check(shares, tf.constant(np.linspace(-1, 1, 15, dtype="f"))).findings[0]
    (upstream,) = finding.upstream.values()
    assert sorted(upstream)[-2:] == [0.0, 1.0]
    y = np.exp(finding.at["x"]) / np.sum(np.exp(finding.at["x"]))
    row, entry = int(np.argmax(upstream)), int(finding.entry.strip("[]"))
    slope = y[row] * ((row == entry) - y[entry])
    assert (finding.got, finding.wanted) == (pytest.approx(2 * slope), pytest.approx(slope))


@pb.custom_gradient
def larger(x, y):
    def back(dz):
        first, tie = tf.cast(x > y, x.dtype), tf.cast(x == y, x.dtype) / 2
        own = tf.maximum(x, y)
        return dz * y * (1.2 * first + tie), dz * (own + y * (1 - first - tie))

    return tf.maximum(x, y) * y, back


def test_a_choice_between_two_right_derivatives_is_no_failing_input(capsys):
    """All ones would be plainest, but there any number between the two sides is right."""
    x = tf.constant(np.linspace(2, 3, 8, dtype="f"))
    report = pb.check(larger, x, x - 1, order=1)
    finding = report.findings[0]
    entry = int(finding.entry.strip("[]"))
    assert finding.at["x"][entry] > finding.at["y"][entry]
    assert run(report.reproduce, capsys).startswith("✗ larger: ")


def test_without_explanation_the_numbers_say_what_they_are_for():
    finding = pb.check(unmasked, X, explain=False).findings[0]
    (upstream,) = finding.upstream.values()
    entry = int(finding.entry.strip("[]"))
    assert finding.at["x"][entry] < 0
    assert (finding.got, finding.wanted) == (upstream[entry], 0.0)
    assert finding.picture is None


def test_a_point_counts_once_however_many_directions_are_tried_there():
    """Symmetric arguments are tried in symmetric directions as well."""
    square = tf.constant([[1.0, 0.5], [0.5, 2.0]])
    seen = pb.check(unmasked, -square).coverage
    assert seen.points.count("the given arguments") == 1
    assert len(seen.second) <= len(seen.points)


def test_what_cannot_be_written_is_named():
    long = tf.constant(np.random.default_rng(0).normal(size=100))
    script = pb.check(lambda x: tf.stop_gradient(x), long).reproduce
    assert "pb.check(fn, " in script
    assert "# fn: the function of this check" in script
    script = pb.check(tf.sin, long).reproduce
    assert "pb.check(sin, *args, seed=0)" in script
    assert "# args: the arguments of this check" in script


def test_an_imported_function_is_imported():
    assert "from tensorflow import sin\n" in pb.check(tf.sin, X).reproduce
    own = Path(__file__).stem
    assert f"{own} import unmasked\n" in pb.check(unmasked, X).reproduce
