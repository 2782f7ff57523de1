"""Targets: what is accepted, what is refused, and with which words."""

import functools
import re
from typing import Any

import keras
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import RuleResultError, RuleSignatureError, TargetError, UnmatchedOverride
from tests.override.helpers import SEVEN, X, gradient, tenfold, times_seven


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("relu", r"Did you mean 'Relu'\?"),
        ("Matmul", r"Did you mean 'MatMul'\?"),
        ("sign", r"Did you mean 'Sign'\?"),
        ("Qqqqqqq", "Nothing has a similar name"),
        ("conv", r"model.get_layer\('conv'\)` or `re.compile\('conv'\)"),
        (3, "cannot be a target"),
        (int, "no Keras layer class"),
        (functools.partial(tf.nn.relu), "partial.*Target the function itself, .*relu"),
    ],
)
def test_what_is_no_target(target: Any, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        pb.override({target: times_seven})


def test_an_empty_override_is_refused() -> None:
    with pytest.raises(TargetError, match="at least one target"):
        pb.override({})


def test_parts_and_predicates_are_checked() -> None:
    with pytest.raises(TargetError, match=r"re.compile\('encoder'\)"):
        pb.inside("encoder", "Relu")
    with pytest.raises(TargetError, match="takes a function of an op"):
        pb.where("Relu")  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", [None, pb.DEFAULT, 3.0])
def test_what_is_no_rule(rule: Any) -> None:
    with pytest.raises(RuleSignatureError, match=r"upstream gradient"):
        pb.override({"Relu": rule})


def test_a_rule_for_a_function_cannot_ask_for_attributes() -> None:
    def rule(dy: Any, *, attrs: Any) -> Any:
        return dy * attrs["axis"]

    with pytest.raises(RuleSignatureError, match="only ops have"):
        pb.override({tf.stack: rule})


def test_an_unknown_wish_lists_what_there_is() -> None:
    def rule(dy: Any, *, tensors: Any) -> Any:
        return dy * tensors

    with pytest.raises(RuleSignatureError, match=r"`tensors`.*`inputs`.*`original`"):
        pb.override({"Relu": rule})


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
@pytest.mark.parametrize("target", ["Relu", tf.nn.relu])
@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (tf.constant([1.0, 2.0]), r"float32\[2\]; wanted a gradient float32\[3\]"),
        ("text", "'text'"),
        ([1.0, 2.0], "2 gradients"),
        ({"nothing": 1.0}, "'nothing', which is no input"),
    ],
)
def test_what_a_rule_may_not_return(returned: Any, words: str, target: Any, wrap: Any) -> None:
    def rule(dy: Any) -> Any:
        return returned

    with pytest.raises(RuleResultError, match=words):
        gradient(pb.override({target: rule})(wrap(tf.nn.relu)))


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
def test_what_a_rule_returns_is_projected(wrap: Any) -> None:
    def larger(dy: Any) -> Any:
        return tf.cast(tf.stack([dy, dy]), tf.float64)

    assert gradient(pb.override({"Relu": larger})(wrap(tf.nn.relu))) == [2.0] * 3


def test_an_op_type_that_is_not_what_the_function_runs() -> None:
    with (
        pytest.raises(UnmatchedOverride, match=r"tf.stack runs 'Pack'"),
        pb.override({"Stack": tenfold}),
    ):
        tf.stack([tf.constant(X), tf.constant(X)])


def test_static_values_run_nothing() -> None:
    with pytest.raises(UnmatchedOverride, match="static values"), pb.override({tf.stack: tenfold}):
        tf.stack([1.0, 2.0])


def test_a_numpy_function_runs_no_op_in_eager_code() -> None:
    def function(x: Any) -> Any:
        return tf.numpy_function(lambda a: a * 2.0, [x], tf.float32)

    with pytest.raises(UnmatchedOverride, match=r"eager code tf.numpy_function just calls"):
        pb.override({"PyFunc": times_seven})(function)(tf.constant(X))
    assert gradient(pb.override({function: times_seven})(lambda x: function(x))) == SEVEN


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
@pytest.mark.parametrize("target", ["Relu", tf.nn.relu, tf.nn.gelu])
def test_the_form_of_rules_in_tensorflow_is_explained(target: Any, wrap: Any) -> None:
    def rule(op: Any, grad: Any) -> Any:
        return grad * op.inputs[0]

    function = tf.nn.gelu if target is tf.nn.gelu else tf.nn.relu
    with pytest.raises(RuleSignatureError, match=r"`def rule\(dy\): ...`.*\*, inputs, outputs"):
        gradient(pb.override({target: rule})(wrap(function)))


def test_methods_and_callable_objects() -> None:
    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        def apply(self, x: Any) -> Any:
            return x * self.by

        def __call__(self, x: Any) -> Any:
            return x * self.by

    first, second = Scale(2.0), Scale(3.0)
    with pb.override({first.apply: times_seven, first: tenfold}):
        assert gradient(first.apply) == SEVEN
        assert gradient(second.apply) == [3.0] * 3
        assert gradient(first) == [20.0] * 3
        assert gradient(second) == [3.0] * 3


def test_a_tf_function_of_the_users_own() -> None:
    @tf.function
    def own(x: Any) -> Any:
        if tf.reduce_sum(x) > 0.0:
            return x * 2.0
        return x * 3.0

    assert gradient(pb.override({own: tenfold})(lambda x: own(x))) == [20.0] * 3
    assert gradient(own) == [2.0] * 3


def test_autograph_still_converts_a_function_that_was_a_target() -> None:
    def branching(x: Any) -> Any:
        if tf.reduce_sum(x) > 0.0:
            return x * 2.0
        return x * 3.0

    with pb.override({branching: tenfold}):
        assert gradient(tf.function(branching)) == [20.0] * 3
    assert gradient(tf.function(branching)) == [2.0] * 3


def test_several_outputs_are_spread() -> None:
    def split_rule(first: Any, second: Any) -> Any:
        return tf.concat([first * 2.0, second * 3.0], 0)

    def halves(x: Any) -> Any:
        left, right = tf.split(x, 2)
        return left + right

    for target in (tf.split, "Split"):
        rule = split_rule if target is tf.split else lambda a, b: (None, split_rule(a, b))
        assert gradient(pb.override({target: rule})(halves), [1.0, 2.0, 3.0, 4.0]) == [
            2.0,
            2.0,
            3.0,
            3.0,
        ]


def test_integer_outputs_carry_no_upstream() -> None:
    def top_rule(values: Any, indices: Any, *, inputs: Any) -> Any:
        assert indices is None
        return tf.ones_like(inputs[0]) * tf.reduce_sum(values), None

    with pb.override({"TopKV2": top_rule}):
        assert gradient(lambda x: tf.math.top_k(x, 2)[0]) == [2.0] * 3
        assert gradient(tf.function(lambda x: tf.math.top_k(x, 2)[0])) == [2.0] * 3


def test_a_variable_read_is_an_op_too() -> None:
    variable = tf.Variable(X)

    def found(wrap: Any) -> Any:
        with tf.GradientTape() as tape:
            y = wrap(lambda: variable * 2.0)()
        return tape.gradient(y, variable).numpy().tolist()

    with pb.override({"ReadVariableOp": times_seven}):
        assert found(lambda f: f) == [-14.0] * 3
        assert found(tf.function) == [-14.0] * 3


def test_sparse_gradients_are_kept() -> None:
    table = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    def found() -> Any:
        with tf.GradientTape() as tape:
            y = tf.gather(table, [1])
        return tape.gradient(y, table)

    with pb.override({"ResourceGather": passed_on}):
        assert isinstance(found(), tf.IndexedSlices)


def passed_on(dy: Any, *, original: Any) -> Any:
    return original(dy)


def test_the_rule_learns_where_it_is() -> None:
    seen: list[Any] = []

    def rule(dy: Any, *, op: Any) -> Any:
        seen.append(op)
        return dy

    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(2, activation="relu", name="first")]
    )
    for target in ("Relu", tf.nn.relu):
        gradient(pb.override({target: rule})(model), X[None])
        gradient(pb.override({target: rule})(tf.function(lambda x: model(x))), X[None])
    assert {op.type for op in seen} == {"Relu"}
    assert all(op.layer and op.layer.endswith("first") for op in seen)
    assert all("tests" in (op.source or "") for op in seen)


def test_the_narrower_target_wins() -> None:
    def outer(x: Any) -> Any:
        return tf.nn.relu(x) + inner(x)

    def inner(x: Any) -> Any:
        return tf.nn.relu(x)

    rules = {"Relu": times_seven, pb.inside(inner, "Relu"): tenfold}
    assert gradient(pb.override(rules)(outer)) == [3.0, -7.0, 3.0]


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
@pytest.mark.parametrize("target", ["Relu", tf.nn.relu])
def test_an_explicit_second_order_rule(target: Any, wrap: Any) -> None:
    def rule(dy: Any, *, inputs: Any) -> Any:
        return dy * inputs[0], lambda doubled: 5.0 * doubled

    changed, x = wrap(pb.override({target: rule})(tf.nn.relu)), tf.constant(X)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = changed(x)
        first = inner.gradient(y, x)
    assert first.numpy().tolist() == X.tolist()
    assert outer.gradient(first, x).numpy().tolist() == [5.0] * 3


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
def test_a_rule_for_a_function_may_decide_on_its_variables(wrap: Any) -> None:
    weight = tf.Variable(2.0)

    def scaled(a: Any) -> Any:
        return a * weight

    def rule(dy: Any, *, variables: Any) -> Any:
        return 7.0 * dy, [3.0 * tf.ones_like(v) for v in variables]

    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = wrap(pb.override({scaled: rule})(lambda a: scaled(a)))(x)
    found = [g.numpy().tolist() for g in tape.gradient(y, [x, weight])]
    assert found == [[7.0] * 3, 3.0]
    with pytest.raises(RuleSignatureError, match="only functions and layers read"):
        pb.override({"Relu": rule})


def test_names_of_scopes() -> None:
    def scoped(x: Any) -> Any:
        with tf.name_scope("left"):
            a = tf.nn.relu(x)
        with tf.name_scope("right"):
            return a + tf.nn.relu(x)

    target = pb.inside(re.compile("left"), "Relu")
    for wrap in (lambda f: f, tf.function):
        assert gradient(pb.override({target: times_seven})(wrap(scoped))) == [-6.0, -7.0, -6.0]
