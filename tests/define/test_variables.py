"""Variables that a body reads: their ordinary gradient, or what a rule that asks for them says."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import RuleResultError
from tests.modes import assert_gradients

X = np.array([0.5, -1.5, 2.0], np.float32)
ONE = np.ones(3, np.float32)
W = tf.Variable([2.0, 3.0, 4.0], name="w")
B = tf.Variable([1.0, 1.0, 1.0], name="b")
K = keras.Variable([5.0, 6.0, 7.0], name="k")


def watch(tape: tf.GradientTape, x: Any, sources: list[Any]) -> None:
    """Watch what is not watched by itself."""
    tape.watch([x, *(source for source in sources if not source.trainable)])


def gradients(function: Callable[[Any], Any], sources: list[Any]) -> Any:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        watch(tape, x, sources)
        y = function(x)
    return tape.gradient(y, [x, *sources])


def inside(function: Callable[[Any], Any], sources: list[Any], **options: Any) -> Any:
    @tf.function(**options)
    def step(x):
        with tf.GradientTape() as tape:
            watch(tape, x, sources)
            y = function(x)
        found = tape.gradient(y, [x, *sources])
        return [None if g is None else tf.convert_to_tensor(g) for g in found]

    return step(tf.constant(X))


def cond(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def branching(x):
        return tf.cond(
            tf.reduce_sum(tf.ones([2])) > 0.0, lambda: function(x), lambda: tf.zeros([3])
        )

    return tf.function(branching)


WAYS: dict[str, Callable[..., Any]] = {
    "eager": gradients,
    "tape outside": lambda f, s: gradients(tf.function(f), s),
    "nested": lambda f, s: gradients(tf.function(tf.function(f)), s),
    "tape inside": inside,
    "XLA": lambda f, s: gradients(tf.function(f, jit_compile=True), s),
    "XLA, tape inside": lambda f, s: inside(f, s, jit_compile=True),
    "tf.cond": lambda f, s: gradients(cond(f), s),
}


def assert_same(found: Any, wanted: Any) -> None:
    arrays = [None if g is None else np.asarray(tf.convert_to_tensor(g)) for g in found]
    assert_gradients(arrays, wanted, rtol=1e-6)


every_way = pytest.mark.parametrize("way", WAYS)


def seven(dy):
    return 7.0 * dy


@every_way
def test_without_a_word_they_keep_their_ordinary_gradient(way: str) -> None:
    function = pb.with_gradient(lambda x: x * W + B, seven)
    assert_same(WAYS[way](function, [W, B]), [7 + 0 * X, X, 1 + 0 * X])


@every_way
def test_keras_variables_too(way: str) -> None:
    function = pb.with_gradient(lambda x: x * K, seven)
    assert_same(WAYS[way](function, [K.value]), [7 + 0 * X, X])


def by_list(dy, variables):
    return [{"w": 10.0, "b": 20.0}[v.name[0]] * dy for v in variables]


def by_tuple(dy, variables):
    return tuple(by_list(dy, variables))


def by_reference(dy, variables):
    return {W.ref(): 10.0 * dy, B.ref(): 20.0 * dy}


def one_missing(dy, variables):
    return {B.ref(): 20.0 * dy}


@every_way
@pytest.mark.parametrize("form", [by_list, by_tuple, by_reference], ids=lambda f: f.__name__)
def test_a_rule_that_asks_for_them(form: Any, way: str) -> None:
    def rule(dy, *, variables):
        return 7.0 * dy, form(dy, variables)

    function = pb.with_gradient(lambda x: x * W + B, rule)
    assert_same(WAYS[way](function, [W, B]), [7 + 0 * X, 10 + 0 * X, 20 + 0 * X])


def twice_the_original(dy, *, original, variables):
    dx, (dw, db) = original(dy)
    return 7.0 * dx, [2.0 * dw, 3.0 * db]


def default_in_a_list(dy, *, variables):
    return 7.0 * dy * W, [pb.DEFAULT, 3.0 * dy]


def default_for_all(dy, *, variables):
    return 7.0 * dy * W, pb.DEFAULT


def default_everywhere(dy, *, variables):
    return pb.DEFAULT, {"w": pb.DEFAULT, "b:0": None}


def by_name(dy, *, variables):
    return 7.0 * dy * W, {"b": 3.0 * dy, "w": 2.0 * dy}


FORMS = {
    twice_the_original: [7 * W.numpy(), 2 * X, 3 * ONE],
    default_in_a_list: [7 * W.numpy(), X, 3 * ONE],
    default_for_all: [7 * W.numpy(), X, ONE],
    default_everywhere: [W.numpy(), X, None],
    by_name: [7 * W.numpy(), 2 * ONE, 3 * ONE],
}


@every_way
@pytest.mark.parametrize("rule", FORMS, ids=lambda f: f.__name__)
def test_their_ordinary_gradients_and_their_names(rule: Any, way: str) -> None:
    function = pb.with_gradient(lambda x: x * W + B, rule)
    assert_same(WAYS[way](function, [W, B]), FORMS[rule])


@every_way
def test_an_override_of_a_function_with_variables(way: str) -> None:
    def affine(x):
        return x * W + B

    function = pb.override({affine: twice_the_original})(lambda x: affine(x))
    assert_same(WAYS[way](function, [W, B]), FORMS[twice_the_original])


@every_way
def test_the_original_of_no_variables_has_the_form_of_the_rule(way: str) -> None:
    def stock_style(dy, variables=None, *, original):
        return 3.0 * original(dy)

    def with_a_pair(dy, *, original, variables):
        dx, none = original(dy)
        assert none == []
        return 3.0 * dx, none

    for rule in (stock_style, with_a_pair):
        assert_same(WAYS[way](pb.with_gradient(lambda x: x * 2.0, rule), []), [6 + 0 * X])


def test_clipping_the_weight_gradients_of_a_layer() -> None:
    dense = keras.layers.Dense(2, name="head")
    dense.build((None, 3))
    dense.kernel.assign(np.arange(6.0).reshape(3, 2))

    def clip(dy, *, original, variables):
        assert [v.name for v in variables] == ["head/kernel:0", "head/bias:0"]
        dx, (kernel, bias) = original(dy)
        return dx, {"kernel": tf.clip_by_norm(kernel, 1.0), "bias": bias}

    rows = tf.constant([X, 2.0 * X])
    kernel_gradient = np.repeat((3.0 * X)[:, None], 2, 1)
    wanted = [np.tile([1.0, 5.0, 9.0], [2, 1]), None, [2.0, 2.0]]
    wanted[1] = kernel_gradient / np.linalg.norm(kernel_gradient)
    for layer in (pb.with_gradient(dense, clip), pb.override({dense: clip})(dense)):
        for call in (layer, tf.function(lambda x, layer=layer: layer(x))):
            with tf.GradientTape() as tape:
                tape.watch(rows)
                y = call(rows)
            assert_same(tape.gradient(y, [rows, dense.kernel.value, dense.bias.value]), wanted)


SAME_NAME = [tf.Variable(ONE, name="part/w"), tf.Variable(ONE, name="other/w")]


@pytest.mark.parametrize(
    "given, message",
    [
        ({"w": ONE}, r"names several variables \(part/w:0, other/w:0\). Give more of the name"),
        ({"art/w": ONE}, "'art/w', which is not among the variables read inside: part/w:0"),
        ({"part/w": ONE, "part/w:0": ONE}, "two gradients for one variable, by 'part/w' and by"),
        ([pb.DEFAULT], "as the gradients of 2 variables"),
    ],
)
def test_names_that_do_not_say_which_one(given: Any, message: str) -> None:
    def rule(dy, *, variables):
        return dy, given

    function = pb.with_gradient(lambda x: x * SAME_NAME[0] * SAME_NAME[1], rule)
    with pytest.raises(RuleResultError, match=message):
        gradients(function, SAME_NAME)


@every_way
def test_more_of_a_name_tells_them_apart(way: str) -> None:
    def rule(dy, *, variables):
        return dy, {"part/w": 2.0 * dy, "other/w": 3.0 * dy}

    function = pb.with_gradient(lambda x: x * SAME_NAME[0] * SAME_NAME[1], rule)
    assert_same(WAYS[way](function, SAME_NAME), [ONE, 2 * ONE, 3 * ONE])


@every_way
def test_one_that_is_missing_gets_nothing(way: str) -> None:
    def rule(dy, *, variables):
        return 7.0 * dy, one_missing(dy, variables)

    function = pb.with_gradient(lambda x: x * W + B, rule)
    assert_same(WAYS[way](function, [W, B]), [7 + 0 * X, None, 20 + 0 * X])


@every_way
def test_none_for_all_of_them(way: str) -> None:
    def rule(dy, *, variables):
        return 7.0 * dy, None

    function = pb.with_gradient(lambda x: x * W + B, rule)
    assert_same(WAYS[way](function, [W, B]), [7 + 0 * X, None, None])


@every_way
def test_the_reference_of_a_keras_variable_as_a_key(way: str) -> None:
    def rule(dy, *, variables):
        return 7.0 * dy, {K.value.ref(): 10.0 * dy}

    function = pb.with_gradient(lambda x: x * K, rule)
    assert_same(WAYS[way](function, [K.value]), [7 + 0 * X, 10 + 0 * X])


@every_way
def test_stock_style_with_variables(way: str) -> None:
    @pb.custom_gradient
    def function(x):
        def grad(dy, variables=None):
            assert len(variables) == 1
            return 7.0 * dy, [10.0 * dy for _ in variables]

        return x * W, grad

    assert_same(WAYS[way](function, [W]), [7 + 0 * X, 10 + 0 * X])


@every_way
def test_stock_style_without_variables(way: str) -> None:
    @pb.custom_gradient
    def function(x):
        def grad(dy, variables=None):
            assert variables is None
            return 7.0 * dy

        return x * 2.0, grad

    assert_same(WAYS[way](function, []), [7 + 0 * X])


@every_way
def test_a_wish_for_variables_where_there_are_none(way: str) -> None:
    def rule(dy, *, variables):
        assert variables == []
        return 7.0 * dy, []

    assert_same(WAYS[way](pb.with_gradient(lambda x: x * 2.0, rule), []), [7 + 0 * X])


MANY = [tf.Variable(float(i), name=f"v{n}") for i, n in enumerate("dcabe")]


def test_their_order_is_that_of_their_making() -> None:
    seen: dict[str, list[str]] = {}
    for way, run in WAYS.items():

        def rule(dy, *, variables, way=way):
            seen[way] = [v.name for v in variables]
            return dy, [tf.zeros([]) for _ in variables]

        run(pb.with_gradient(lambda x: x * tf.add_n([v + 0.0 for v in MANY]), rule), [])
    made = [v.name for v in MANY]
    assert seen == dict.fromkeys(WAYS, made)


@every_way
def test_unused_and_untrainable_ones_are_not_listed(way: str) -> None:
    fixed = tf.Variable([1.0, 1.0, 1.0], trainable=False, name="fixed")

    def rule(dy, *, variables):
        assert [v.name for v in variables] == [W.name]
        return 7.0 * dy, [10.0 * dy]

    function = pb.with_gradient(lambda x: x * W + fixed, rule)
    assert_same(WAYS[way](function, [W, B]), [7 + 0 * X, 10 + 0 * X, None])


@every_way
def test_a_variable_read_twice_is_listed_once(way: str) -> None:
    def rule(dy, *, variables):
        assert len(variables) == 1
        return 7.0 * dy, [10.0 * dy]

    assert_same(
        WAYS[way](pb.with_gradient(lambda x: x * W * W, rule), [W]), [7 + 0 * X, 10 + 0 * X]
    )


@every_way
def test_a_variable_as_argument_is_an_input(way: str) -> None:
    def rule(dz):
        return 7.0 * dz, 10.0 * dz

    function = pb.with_gradient(lambda x, w: x * w, rule)
    assert_same(WAYS[way](lambda x: function(x, W), [W]), [7 + 0 * X, 10 + 0 * X])
    assert_same(WAYS[way](lambda x: function(x, w=K), [K.value]), [7 + 0 * X, 10 + 0 * X])


@every_way
def test_a_variable_as_argument_and_captured(way: str) -> None:
    def rule(dz):
        return 7.0 * dz, 10.0 * dz

    function = pb.with_gradient(lambda x, w: x * w + W, rule)
    assert_same(WAYS[way](lambda x: function(x, W), [W]), [7 + 0 * X, 11 + 0 * X])


@every_way
def test_a_fixed_variable_as_argument_needs_no_gradient(way: str) -> None:
    fixed = tf.Variable([1.0, 1.0, 1.0], trainable=False, name="fixed")

    def rule(dz):
        return 7.0 * dz, None

    function = pb.with_gradient(lambda x, w: x * w, rule)
    assert_same(WAYS[way](lambda x: function(x, fixed), []), [7 + 0 * X])


@every_way
@pytest.mark.parametrize("kind", [tf.Variable, keras.Variable])
def test_a_fixed_variable_that_is_watched_follows_the_rule(kind: Any, way: str) -> None:
    fixed = kind([2.0, 3.0, 4.0], trainable=False)
    source = fixed if kind is tf.Variable else fixed.value

    def rule(dz):
        return 7.0 * dz, 10.0 * dz

    def half(dz, *, original):
        dx, dw = original(dz)
        return 7.0 * dx, 0.5 * dw

    product, halved = (pb.with_gradient(lambda x, w: x * w, r) for r in (rule, half))
    assert_same(WAYS[way](lambda x: product(x, fixed), [source]), [7 * ONE, 10 * ONE])
    assert_same(WAYS[way](lambda x: halved(x, fixed), [source]), [[14, 21, 28], 0.5 * X])


@every_way
def test_a_body_may_assign_to_a_fixed_variable(way: str) -> None:
    fixed = tf.Variable([2.0, 3.0, 4.0], trainable=False)

    def body(x, w):
        w.assign(2.0 * tf.ones([3]))
        return x * w

    function = pb.with_gradient(body, lambda dz: (7.0 * dz, None))
    assert_same(WAYS[way](lambda x: function(x, fixed), []), [7 * ONE])
    np.testing.assert_allclose(fixed, 2 * ONE)


def test_a_temporary_variable_is_not_one_of_them() -> None:
    def rule(dy, *, variables):
        assert [v.name for v in variables] == [W.name]
        return 7.0 * dy, [10.0 * dy]

    def with_temporary(x):
        temporary = tf.Variable([1.0, 2.0, 3.0])
        temporary.assign_add(tf.ones([3]))
        return x * W + temporary

    function = pb.with_gradient(with_temporary, rule)
    assert_same(gradients(function, [W]), [7 + 0 * X, 10 + 0 * X])


def test_a_temporary_variable_without_a_word() -> None:
    def with_temporary(x):
        return x * tf.Variable([1.0, 2.0, 3.0])

    assert_same(gradients(pb.with_gradient(with_temporary, seven), []), [7 + 0 * X])


class Counting(tf.Module):
    """A module that makes its variable at the first call, as Keras layers do."""

    def __init__(self) -> None:
        super().__init__()
        self.w: Any = None

    @pb.custom_gradient
    def __call__(self, x):
        if self.w is None:
            self.w = tf.Variable([2.0, 3.0, 4.0])

        def backward(dy):
            return 7.0 * dy

        return x * self.w, backward


def test_a_variable_made_at_the_first_call_inside_a_function() -> None:
    module = Counting()
    function = tf.function(lambda x: module(x))
    function(tf.constant(X))
    assert_same(gradients(function, [module.w]), [7 + 0 * X, X])


@every_way
def test_a_rule_may_read_variables_itself(way: str) -> None:
    function = pb.with_gradient(lambda x: x * 1.0, lambda dy: dy * W)
    assert_same(WAYS[way](function, [W]), [W.numpy(), None])


@every_way
def test_a_variable_changed_between_calls_is_read_anew(way: str) -> None:
    scale = tf.Variable(1.0, trainable=False)
    function = pb.with_gradient(lambda x: x * 1.0, lambda dy: dy * -scale)
    assert_same(WAYS[way](function, []), [-1 + 0 * X])
    scale.assign(5.0)
    assert_same(WAYS[way](function, []), [-5 + 0 * X])


def test_a_variable_of_another_dtype_gets_its_own() -> None:
    half = tf.Variable(np.ones(3), dtype=tf.float32)

    def rule(dy, *, variables):
        return dy, [tf.cast(dy, tf.float16) * 3.0]

    function = pb.with_gradient(lambda x: x * half, rule)
    for way in ("eager", "tape outside", "tape inside"):
        found = WAYS[way](function, [half])[1]
        assert found.dtype == tf.float32
        np.testing.assert_allclose(found, [3.0] * 3)


def test_embedding_tables_get_their_gradient() -> None:
    table = tf.Variable(np.ones([4, 2], np.float32))
    function = pb.with_gradient(
        lambda x: tf.gather(table, [1, 1, 3]) * x[:, None], lambda dy: dy[:, 0]
    )
    wanted = np.zeros([4, 2])
    wanted[1], wanted[3] = X[0] + X[1], X[2]
    for way in ("eager", "tape outside", "tape inside"):
        found = WAYS[way](function, [table])
        np.testing.assert_allclose(tf.convert_to_tensor(found[1]), wanted)


def test_a_variable_made_at_the_first_call_is_listed_at_once() -> None:
    held: list[tf.Variable] = []

    def lazily(x):
        if not held:
            held.append(tf.Variable([2.0, 3.0, 4.0], name="lazy"))
        return x * held[0] * tf.Variable([1.0, 1.0, 1.0], name="temporary")

    def rule(dy, *, variables):
        assert [v.name for v in variables] == ["lazy:0"]
        return 7.0 * dy, [10.0 * dy]

    x = tf.constant(X)
    with tf.GradientTape() as tape:
        y = pb.with_gradient(lazily, rule)(x)
    np.testing.assert_allclose(tape.gradient(y, held[0]), [10.0] * 3)


SMALL, LARGE = tf.constant(X), tf.ones([200])


DEFINED = {
    "with_gradient": lambda function: pb.with_gradient(function, seven),
    "custom_gradient": lambda function: pb.custom_gradient(lambda x: (function(x), seven)),
}


@pytest.mark.parametrize("define", DEFINED.values(), ids=DEFINED)
@pytest.mark.parametrize("way", ["eager", "tape outside", "nested"])
@pytest.mark.parametrize("constant", [SMALL, LARGE], ids=["small", "large"])
def test_a_closed_over_tensor_keeps_its_ordinary_gradient(
    constant: Any, way: str, define: Any
) -> None:
    """TensorFlow captures small tensors in another way than large ones."""
    x = tf.ones_like(constant) * 2.0
    wrap = {
        "eager": lambda f: f,
        "tape outside": tf.function,
        "nested": lambda f: tf.function(tf.function(f)),
    }
    function = wrap[way](define(lambda x: x * constant))
    with tf.GradientTape() as tape:
        tape.watch([x, constant])
        y = function(x)
    assert_same(tape.gradient(y, [x, constant]), [7.0 + 0.0 * x, 2.0 + 0.0 * x])


@pytest.mark.parametrize("define", DEFINED.values(), ids=DEFINED)
@every_way
def test_an_argument_of_the_function_around_keeps_its_ordinary_gradient(
    way: str, define: Any
) -> None:
    def around(x, y):
        return define(lambda x: x * y)(x)

    x, y = tf.constant(X), tf.constant(X + 1.0)
    found = WAYS[way](lambda x: around(x, W), [W])
    assert_same(found, [7 * ONE, X])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        z = tf.function(around)(x, y) if way != "eager" else around(x, y)
    assert_same(tape.gradient(z, [x, y]), [7 * ONE, X])
    assert_same([tape.gradient(z, y)], [X])


@every_way
def test_variables_keep_their_gradient_where_tensors_are_held_fixed(way: str) -> None:
    def function(x):
        c = 2.0 * x

        @pb.custom_gradient
        def body(x):
            return x * W + c, lambda dy: 10.0 * dy

        return body(x)

    assert_same(WAYS[way](function, [W]), [10 * ONE, X])


@every_way
def test_a_rule_for_variables_where_tensors_are_held_fixed(way: str) -> None:
    def function(x):
        c = 2.0 * x

        @pb.custom_gradient
        def body(x):
            def grad(dy, variables=None):
                return 10.0 * dy, [20.0 * dy for _ in variables]

            return x * W + c, grad

        return body(x)

    assert_same(WAYS[way](function, [W]), [10 * ONE, 20 * ONE])
