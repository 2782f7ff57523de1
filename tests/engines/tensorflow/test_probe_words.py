"""What a check on TensorFlow says: whose rule it was, how to run it again, what it cannot take."""

import inspect
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.check import check
from pullback.errors import CheckError

X = tf.constant([0.3, -1.2, 0.7])


def doubled(dy, *, original):
    return 2 * original(dy)


def through_tanh(x):
    return tf.tanh(x)


DOUBLED = f"test_probe_words.py:{doubled.__code__.co_firstlineno}"


@pytest.mark.parametrize("applied", [True, False])
def test_the_rule_of_an_override_is_named_and_can_be_run_again(applied):
    override = pb.override({tf.tanh: doubled})
    report = check(override(through_tanh), X) if applied else check(override, through_tanh, X)
    assert report.findings[0].source == DOUBLED
    named = "through_tanh" if applied else "override, through_tanh"
    assert f"pb.check({named}, x, seed=0)" in report.reproduce


def test_the_rule_of_an_override_of_a_model_is_named():
    model = keras.Sequential([keras.layers.Dense(2, activation="tanh")])
    model(X[None])
    report = check(pb.override({"Tanh": doubled})(model), X[None], quick=True)
    assert report.findings[0].source == DOUBLED


def test_the_gradient_of_an_op_is_tensorflows():
    report = check("Cumprod", tf.constant([1.0, 0.0, 2.0]), 0)
    assert report.findings[0].source.startswith("math_grad.py:")
    assert "pb.check('Cumprod', x0, 0, seed=0)" in report.reproduce


@tf.custom_gradient
def rough_gelu(x):
    return tf.nn.gelu(x), lambda dy: dy * tf.sigmoid(1.702 * x)


def test_the_custom_gradient_inside_a_model_is_named():
    model = keras.Sequential([keras.layers.Dense(2), keras.layers.Activation(rough_gelu)])
    report = check(model, X[None], quick=True)
    line = inspect.unwrap(rough_gelu).__code__.co_firstlineno
    assert report.findings[0].source == f"test_probe_words.py:{line}"
    report = check(lambda x: rough_gelu(x) * 2, X, quick=True)
    assert report.findings[0].source == f"test_probe_words.py:{line}"


def test_no_line_of_keras_is_called_the_rule():
    report = check(keras.layers.LayerNormalization(), X[None], order=2)
    assert [(finding.kind, finding.source) for finding in report.findings] == [("second", None)]


def test_second_derivatives_that_only_keras_has_a_part_in_are_a_note():
    report = check(keras.layers.LayerNormalization(), X[None])
    assert report.ok
    assert any("second derivatives of " in note for note in report.coverage.notes)


@pytest.mark.parametrize(
    "fn, args, text",
    [
        (
            tf.matmul,
            (tf.ones([3, 2]), tf.ones([3, 2])),
            r"\(a: float32\[3, 2\], b: .*: Matrix size",
        ),
        (lambda x: float(tf.reduce_sum(x)), (X,), "float, which left TensorFlow"),
        (lambda x: np.sin(x), (X,), "ndarray, which left TensorFlow"),
        (lambda k: tf.cast(k, tf.float32), (tf.constant([1, 2]),), r"given k: int32\[2\]"),
        (tf.sin, (0.3,), "given x: 0.3"),
        (tf.sin, (tf.zeros([0, 3]),), r"given x: float32\[0, 3\]"),
        (keras.layers.Dense, (X,), r"Dense is a class, .* `pb.check\(Dense\(...\), \*args\)`"),
        ("Relu7", (X,), "no op 'Relu7'. Did you mean 'Relu"),
        ("Sin", (X, X), r"Sin takes 1 argument.* \(x\)"),
    ],
)
def test_refusals_name_the_arguments(fn, args, text):
    with pytest.raises(CheckError, match=text):
        check(fn, *args)


def test_a_function_to_compare_with_is_refused_as_such():
    with pytest.raises(CheckError, match=r"^against: .* raised ZeroDivisionError"):
        check(tf.sin, X, against=lambda x: x / (1 // 0))


def test_functions_that_are_compared_read_the_same_variables():
    one, other = (
        tf.Variable([1.0, 2.0, 3.0], name="one"),
        tf.Variable([1.0, 2.0, 3.0], name="other"),
    )
    with pytest.raises(CheckError, match=r"differ in their inputs: .*one\[3\] and .*other\[3\]"):
        check(lambda x: x * one, X, against=lambda x: x * other)


def test_every_name_in_wrt_must_mean_something():
    with pytest.raises(CheckError, match=r"wrt='q' names no input of .* Those are: x, y"):
        check(lambda x, y: x * y, X, X, wrt=["x", "q"])


def test_an_unknown_mode_is_refused_before_anything_else():
    with pytest.raises(CheckError, match=r"no mode 'jit'\. There are: 'tf.function, "):
        check(tf.sin, X, modes="jit")


def test_entries_that_are_not_finite_are_mentioned():
    report = check(tf.sin, tf.constant([1.0, math.nan, 2.0]), quick=True)
    assert any(
        "x: 1 of 3 entries are NaN or infinite as given" in note for note in report.coverage.notes
    )


def test_sparse_tensors_are_listed_by_their_values():
    sparse = tf.sparse.SparseTensor([[0, 1], [1, 2]], [1.0, 2.0], [2, 3])
    report = check(tf.sparse.reduce_sum, sparse, quick=True)
    assert [line.leaf.path for line in report.inputs] == ["args[0].values"]


def test_a_check_is_not_run_inside_a_graph():
    @tf.function(autograph=False)
    def traced(x):
        return check(tf.sin, x).ok

    with pytest.raises(CheckError, match=r"cannot itself run inside a tf\.function"):
        traced(X)


def test_concrete_functions_have_a_readable_name():
    function = tf.function(tf.sin).get_concrete_function(tf.TensorSpec([3], tf.float32))
    report = check(function, X, quick=True)
    assert report.ok
    assert not report.name.startswith("b'")


def test_arguments_that_a_function_changes_are_not_the_users():
    params = {"w": np.array([1.0, 2.0]), "parts": [tf.Variable([3.0, 4.0], dtype=tf.float64)]}

    def greedy(p):
        p["extra"] = 1
        p["parts"].append(None)
        return p["w"] * p["parts"][0]

    assert check(greedy, params, quick=True)
    assert (list(params), len(params["parts"])) == (["w", "parts"], 1)
    np.testing.assert_array_equal(params["w"], [1.0, 2.0])
    np.testing.assert_array_equal(params["parts"][0].numpy(), [3.0, 4.0])


def test_a_function_that_stops_running_is_refused():
    calls = []

    def flaky(x):
        calls.append(1)
        if len(calls) > 10:
            raise RuntimeError("tired")
        return 2 * x

    with pytest.raises(CheckError, match=r"flaky ran with the given arguments at first, .*: tired"):
        check(flaky, X)


def test_every_wrong_input_has_a_finding_with_its_own_numbers():
    @tf.custom_gradient
    def product(a, b, c):
        return a * b * c, lambda dy: (2 * dy * b * c, -dy * a * c, dy * a * b)

    report = pb.check(product, *(tf.constant([0.3, -0.7, 1.1]) * k for k in (1.0, 2.0, 3.0)))
    assert [(f.kind, f.path) for f in report.findings] == [
        ("factor", "args[0]"),
        ("sign", "args[1]"),
    ]
    assert [line.ok for line in report.inputs] == [False, False, None]
    doubled, turned = report.findings
    assert doubled.got == pytest.approx(2 * doubled.wanted, rel=1e-6)
    assert turned.got == pytest.approx(-turned.wanted, rel=1e-6)


def test_an_input_without_gradient_comes_last_for_it_may_be_meant_so():
    @tf.custom_gradient
    def hinge(truth, guess):
        margin = 1 - truth * guess
        slope = tf.where(margin > 0, -truth, 0.0)
        return tf.nn.relu(margin), lambda dy: (None, 2 * dy * slope)

    report = pb.check(hinge, tf.constant([1.0, -1.0, 1.0]), tf.constant([0.2, 0.4, -0.6]))
    assert [(f.kind, f.path) for f in report.findings] == [
        ("factor", "args[1]"),
        ("none", "args[0]"),
    ]
    assert report.findings[1].got == 0


def test_points_at_which_the_outputs_have_other_shapes_are_left_out():
    report = pb.check(lambda x: tf.boolean_mask(x, x > 0), tf.constant([0.5, -1.0, 2.0, -0.3]))
    assert report.ok
    assert "negative values" not in report.coverage.points
    assert "equal values throughout" in report.coverage.left_out


def test_a_missing_conjugate_is_named():
    @tf.custom_gradient
    def square(z):
        return z * z, lambda dy: 2 * dy * z

    z = tf.constant([0.3 + 0.7j, -1.1 + 0.2j, 0.5 - 0.9j])
    assert "conjugate" in pb.check(square, z).diagnosis


def test_a_second_derivative_that_is_not_a_number_is_called_that():
    def root(x):
        return tf.where(x > 0, tf.sqrt(x), 0.0)

    report = pb.check(root, tf.constant([1.0, -2.0, 3.0]), order=2)
    assert "its own derivative is not finite" in report.diagnosis
