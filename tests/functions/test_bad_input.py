"""What the functions do not take, and the words that say so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ArgumentError, NotConverged

f = pb.functions
X = tf.ones([2, 3])


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: f.norm(tf.constant([1, 2])), "got x as int32.*floating-point.*Cast it"),
        (lambda: f.norm(tf.constant([1j])), "complex128.*floating-point"),
        (lambda: f.norm(X, axis=2), "axis=2 for float32.*between -2 and 1"),
        (lambda: f.norm(X, axis=(0, -2)), "one axis twice"),
        (lambda: f.norm(X, axis="rows"), "axis='rows'"),
        (lambda: f.norm(X, ord=1), "ord=1; wanted 'euclidean', which is 'fro' too, or 2"),
        (lambda: f.norm(X, ord=2, axis=[0, 1]), r"largest singular value.*ord='euclidean'"),
        (lambda: f.cumprod(X, axis=None), "axis=None.*wanted an axis"),
        (lambda: f.hypot(X, tf.cast(X, tf.float64)), "wanted one dtype"),
        (lambda: f.binary_cross_entropy(tf.ones([3]), X), "wanted one label for each prediction"),
        (lambda: f.binary_cross_entropy(X, X, label_smoothing=2.0), "between 0 and 1"),
        (lambda: f.sparse_categorical_cross_entropy(X, X), "wanted the number of a class"),
        (lambda: f.binary_focal_cross_entropy(X, X, gamma=-1.0), "gamma=-1.0"),
        (lambda: f.safe_where(X > 0, 1.0, tf.exp, X), "got f as 1.0; wanted a function"),
        (lambda: f.safe_where(X, tf.exp, tf.exp, X), "not of booleans"),
        (lambda: f.sqrtm(X), "wanted square matrices"),
        (lambda: f.safe_where([True] * 4, tf.exp, tf.exp, X), r"bool\[4\] for x.*shape of x"),
        (lambda: f.funm(tf.eye(2), 3.0), "f=3.0; wanted a function"),
        (lambda: f.funm(tf.eye(2), tf.reduce_sum), r"returns float32\[\].*one number"),
        (lambda: f.gelu(tf.constant([1])), "got x as int32.*Cast it"),
        (lambda: f.gelu(None), "got x=None; wanted an array"),
        (lambda: f.gelu("x"), "got x='x'; wanted an array"),
        (lambda: f.swiglu(X, tf.ones([2, 4])), "wanted one shape for both"),
        (lambda: f.swiglu(X, tf.cast(X, tf.float64)), "wanted one dtype"),
        (lambda: f.rms_norm(X, tf.ones([2])), "one number for each entry of the last axis"),
        (lambda: f.rms_norm(X, epsilon=-1.0), "epsilon=-1.0; wanted a number between"),
        (lambda: f.rms_norm(tf.ones([])), "wanted at least one axis"),
        (lambda: f.layer_norm(X, offset=tf.ones([2])), "got offset.*for each entry"),
        (lambda: f.layer_norm(tf.constant([1])), "got x as int32"),
        (lambda: f.softmax_cross_entropy([1, 2, 0], X), r"int32\[3\] for logits.*class numbers"),
        (lambda: f.softmax_cross_entropy(tf.ones([2, 4]), X), "or probabilities of the shape"),
        (
            lambda: f.sparse_categorical_cross_entropy([1, 2, 0], X),
            "the number of a class for each",
        ),
        (lambda: f.sparse_categorical_cross_entropy([1, 7], X), "no class: 7, of 3 classes"),
        (lambda: f.sparse_categorical_cross_entropy([-1, 0], X), "no class: -1, of 3 classes"),
        (lambda: f.binary_cross_entropy(tf.fill([2, 3], "a"), X), "got labels string.*numbers"),
        (lambda: f.kl_divergence(X, tf.ones([2, 4])), "wanted one label for each"),
        (lambda: f.gaussian_nll(X, X, tf.ones([2, 4])), "wanted shapes that broadcast"),
        (lambda: f.logaddexp(X, tf.ones([4])), r"y as float32\[4\]; wanted shapes that broadcast"),
        (lambda: f.log_sub_exp(X, tf.ones([4])), "wanted shapes that broadcast"),
        (lambda: f.hypot(X, tf.ones([4])), "wanted shapes that broadcast"),
        (lambda: f.atan2(X, tf.ones([4])), "wanted shapes that broadcast"),
        (lambda: f.attention(X, X, X), "wanted the same axes for all"),
        (lambda: f.attention(X[None], X[None], tf.ones([1, 5, 3])), "wanted q and k of one depth"),
        (lambda: f.linear_cross_entropy(X, tf.ones([4, 5]), [0, 1]), "class_axis=0"),
        (lambda: f.checkpoint(3), "got 3; wanted something to call"),
        (lambda: f.checkpoint(tf.exp, policy="most"), "policy='most'; wanted one of"),
        (lambda: f.fixed_point(tf.reduce_sum, X), "wanted the structure, shapes and dtypes of x0"),
        (lambda: f.root(tf.sin, X, solver="lu"), "solver='lu'; wanted 'auto'"),
        (lambda: f.argmin(tf.sin, X), "wanted one number of the dtype of x0"),
        (lambda: f.odeint(lambda y, t: y, X, 3.0), "wanted a vector of at least two times"),
        (lambda: f.external(3), "fn=3; wanted a function of NumPy arrays"),
        (lambda: f.reversible(tf.sin, tf.cos)(X, tf.ones([2, 4])), "two halves of one shape"),
    ],
)
def test_an_error_says_what_is_wanted(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: f.fixed_point(lambda x: 2.0 * x + 1.0, X),
        lambda: f.fixed_point(lambda x: x * float("nan"), X),
        lambda: f.root(lambda x: x * x + 1.0, X),
        lambda: f.argmin(lambda x: -tf.reduce_sum(x * x), X),
        lambda: f.odeint(lambda y, t: y * y, X, [0.0, 2.0]),
    ],
    ids=["diverges", "NaN", "no root", "no minimum", "ends before"],
)
def test_what_does_not_converge(call: Callable[[], Any]) -> None:
    with pytest.raises(NotConverged, match=r"pb\.functions\.\w+: .*steps"):
        call()


def broken(*_: Any) -> Any:
    raise KeyError("of the user")


@pytest.mark.parametrize(
    "call",
    [
        lambda: f.fixed_point(broken, X),
        lambda: f.root(broken, X),
        lambda: f.argmin(broken, X),
        lambda: f.odeint(broken, X, [0.0, 1.0]),
        lambda: f.checkpoint(broken)(X),
        lambda: f.reversible(broken, tf.sin)(X, X),
        lambda: f.external(broken)(X),
        lambda: f.safe_where(X > 0, broken, tf.exp, X),
        lambda: f.funm(tf.eye(2), broken),
    ],
    ids=[
        "fixed_point",
        "root",
        "argmin",
        "odeint",
        "checkpoint",
        "reversible",
        "external",
        "safe_where",
        "funm",
    ],
)
def test_an_error_of_the_users_own_comes_through(call: Callable[[], Any]) -> None:
    with pytest.raises(KeyError, match="of the user"):
        call()


@pytest.mark.parametrize("from_logits", [False, True])
def test_no_class_in_a_compiled_program_is_no_number(from_logits: bool) -> None:
    @tf.function(jit_compile=True)
    def compiled(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f.sparse_categorical_cross_entropy([2, 7], x, from_logits=from_logits)
        return y, tape.gradient(y, x)

    found, gradient = compiled(X / 3.0)
    np.testing.assert_allclose(found, [np.log(3.0), np.nan], rtol=1e-6)
    np.testing.assert_array_equal(np.isnan(gradient), [[False] * 3, [True] * 3])


@pytest.mark.parametrize(
    "labels", [np.array([1, 7]), np.array([1, 7], "int32")], ids=["int64", "int32"]
)
def test_no_class_fails_in_a_graph_in_words(labels: Any) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="a label that is no class"):
        tf.function(f.sparse_categorical_cross_entropy)(labels, X)


def test_class_numbers_as_keras_hands_them_on() -> None:
    labels = tf.constant([2.0, 0.0])
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = f.sparse_categorical_cross_entropy(labels, X, from_logits=True)
    third = 1.0 / 3.0
    wanted = [[third, third, third - 1.0], [third - 1.0, third, third]]
    np.testing.assert_allclose(tape.gradient(y, X), wanted, rtol=1e-6)


def test_lists_of_numbers_are_fine() -> None:
    assert float(f.norm([3.0, 4.0])) == 5.0


@pytest.mark.parametrize(
    "function",
    [
        f.norm,
        f.sqrtm,
        f.polar,
        f.svd,
        f.rms_norm,
        f.logdet,
        lambda x: f.binary_cross_entropy(X, x),
        lambda x: f.kl_divergence(x, X),
        lambda x: f.sparse_categorical_cross_entropy(x, X),
        lambda x: f.softmax_cross_entropy(x, X),
        lambda x: f.linear_cross_entropy(x, X, [0, 1]),
    ],
)
def test_a_tensor_of_unknown_rank(function: Any) -> None:
    traced = tf.function(function, input_signature=[tf.TensorSpec(None, tf.float32)])
    with pytest.raises(ArgumentError, match="unknown rank"):
        traced(X)
