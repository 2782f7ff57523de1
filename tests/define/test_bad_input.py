"""Wrong use: the same error in every mode, in the words what came, what was wanted, what to write."""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import BodyResultError, RuleResultError, RuleSignatureError
from tests.define.features import FEATURES
from tests.modes import MODES, assert_gradients

X = np.array([0.5, -1.5, 2.0], np.float32)
HERE = r"\(.*test_bad_input\.py:\d+\)"
ERROR_MODES = [
    "eager",
    "tf.function, tape outside",
    "tf.function, tape inside",
    "tf.gradients",
    "nested tf.function, tape outside",
    "XLA",
    "XLA, tape inside",
    "tf.cond",
    "tf.while_loop",
    "jacobian",
    "fit",
]


class Wrong(NamedTuple):
    """A wrong use as a function of tensors, and its error."""

    function: Callable[..., Any]
    error: type[Exception]
    message: str
    inputs: int = 1


WRONG: dict[str, Wrong] = {}


def wrong_rule(name: str, message: str, error: Any = RuleResultError) -> Callable[[Any], Any]:
    """A wrong rule of a function of one tensor."""

    def add(rule: Callable[..., Any]) -> Callable[..., Any]:
        def identity(x):
            return x * 1.0, rule

        WRONG[name] = Wrong(pb.custom_gradient(identity), error, message)
        return rule

    return add


def wrong_call(name: str, message: str, error: Any = RuleResultError, inputs: int = 1) -> Any:
    """A wrong use in a function of its own."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        WRONG[name] = Wrong(function, error, message, inputs)
        return function

    return add


@wrong_rule(
    "a scalar for [3]",
    rf"rule scalar {HERE} of `identity` .*`x \(args\[0\]\)`, float32\[\]; wanted a gradient float32\[3\].*multiply by",
)
def scalar(dy):
    return tf.reduce_mean(dy)


@wrong_rule("a Python number for [3]", r"float32\[\]; wanted a gradient float32\[3\]")
def number(dy):
    return 3.0


@wrong_rule("[1] for [3]", rf"rule short {HERE}.* float32\[1\]; wanted a gradient float32\[3\]")
def short(dy):
    return dy[:1]


@wrong_rule("[5] for [3]", rf"rule long {HERE}.* float32\[5\]; wanted a gradient float32\[3\]")
def long(dy):
    return tf.concat([dy, dy[:2]], 0)


@wrong_rule("[3, 4] for [3]", r"float32\[3, 4\]; wanted a gradient float32\[3\]")
def wide(dy):
    return tf.stack([dy] * 4, 1)


@wrong_rule("a NumPy array of a wrong shape", r"float32\[2\]; wanted a gradient float32\[3\]")
def from_numpy(dy):
    return np.ones([2], np.float32)


@wrong_rule("a string", rf"rule string {HERE}.* 'no'; wanted a gradient float32\[3\] or None")
def string(dy):
    return "no"


@wrong_rule("a string tensor", r"string\[3\]; wanted a gradient float32\[3\] or None")
def string_tensor(dy):
    return tf.constant(["a", "b", "c"])


class Pair(NamedTuple):
    first: Any
    second: Any


@wrong_rule("a namedtuple for one tensor", r"Pair.*; wanted a gradient float32\[3\] or None")
def namedtuple_for_one(dy):
    return Pair(dy, dy)


@wrong_rule("bytes", r"bytearray.*; wanted a gradient float32\[3\] or None")
def some_bytes(dy):
    return bytearray(b"abc")


@wrong_rule("dates", r"datetime64.*; wanted a gradient float32\[3\] or None")
def dates(dy):
    return np.zeros([3], "datetime64[s]")


@wrong_rule("a masked array", r"float64\[3\]; wanted a gradient float32\[3\] or None")
def masked(dy):
    return np.ma.masked_array([1.0, 2.0, 3.0], [True, False, True])


@wrong_rule("an array of flags", r"bool\[3\]; wanted a gradient float32\[3\] or None")
def flags(dy):
    return np.ones([3], bool)


@wrong_rule("a shape", r"TensorShape.*; wanted a gradient float32\[3\] or None")
def tensor_shape(dy):
    return tf.TensorShape([1, 2, 3])


@wrong_rule("a flag", r"True; wanted a gradient float32\[3\] or None")
def flag(dy):
    return True


@wrong_rule("a mask", r"bool\[3\]; wanted a gradient float32\[3\] or None")
def mask(dy):
    return dy > 0.0


@wrong_rule("an object", r"object <object.*; wanted a gradient float32\[3\] or None")
def anything(dy):
    return object()


@wrong_rule("a SparseTensor", r"a SparseTensor; wanted a tensor. Write tf\.sparse\.to_dense")
def sparse(dy):
    return tf.sparse.SparseTensor([[0]], [1.0], [3])


@wrong_rule(
    "IndexedSlices beyond the end", r"IndexedSlices with the indices 0 to 3; wanted those of 3"
)
def slices_beyond_the_end(dy):
    return tf.IndexedSlices(dy, tf.constant([0, 3, 1]))


@wrong_rule("IndexedSlices before the start", r"the indices -1 to 2; wanted those of 3 rows")
def slices_before_the_start(dy):
    return tf.IndexedSlices(dy, tf.constant([0, -1, 2]))


@wrong_rule(
    "IndexedSlices with too few indices", r"indices int32\[2\]; wanted whole numbers, one for"
)
def slices_with_too_few_indices(dy):
    return tf.IndexedSlices(dy, tf.constant([0, 1]))


@wrong_rule("IndexedSlices with indices in rows", r"indices int32\[1, 3\]; wanted whole numbers")
def slices_with_indices_in_rows(dy):
    return tf.IndexedSlices(dy, tf.constant([[0, 1, 2]]))


@wrong_rule("IndexedSlices with broken indices", r"indices float32\[3\]; wanted whole numbers")
def slices_with_broken_indices(dy):
    return tf.IndexedSlices(dy, tf.constant([0.0, 1.0, 2.0]))


@wrong_rule("IndexedSlices of another shape", r"IndexedSlices of \[9\]; wanted those of \[3\]")
def slices_of_another_shape(dy):
    return tf.IndexedSlices(dy, tf.constant([0, 1, 2]), tf.constant([9]))


@wrong_rule("IndexedSlices with wrong rows", r"IndexedSlices of rows \[2\]; wanted rows \[\]")
def sliced(dy):
    return tf.IndexedSlices(tf.ones([1, 2]), tf.constant([0]))


@wrong_rule(
    "two gradients for one input",
    rf"rule pair {HERE} .*returned 2 gradients .* for the 1 input with tensors \(x\)\. Write `return dx`",
)
def pair(dy):
    return dy, dy


@wrong_rule(
    "a dict with an unknown key",
    rf"rule keyed {HERE} .*the key 'z', which is no input; the inputs are x",
)
def keyed(dy):
    return {"z": dy}


@wrong_rule(
    "two upstreams for one output",
    rf"rule greedy {HERE} is called with 1 upstream gradient, .*`greedy\(dz, dw\)`\. Write `def greedy\(dy\)",
    RuleSignatureError,
)
def greedy(dz, dw):
    return dz


@wrong_rule(
    "an unknown wish",
    rf"rule mistaken {HERE} asks for `inptus`, which does not exist.*`inputs`: what the function",
    RuleSignatureError,
)
def mistaken(dy, *, inptus):
    return dy


@wrong_rule("a wish for attrs", "asks for `attrs`, which is not on offer here", RuleSignatureError)
def for_attributes(dy, *, attrs):
    return dy


@wrong_rule(
    "DEFAULT that was not foreseen",
    r"returned pb\.DEFAULT, but .*Add the keyword-only parameter `original`",
)
def unforeseen(dy):
    return getattr(pb, "DEF" + "AULT")


@wrong_rule(
    "variables asked for but not returned",
    "asks for `variables`, so it returns two things.*Write `return gradients, variable_gradients`",
)
def forgetful(dy, *, variables):
    return dy


@pb.custom_gradient
def product(x, y):
    def one(dz):
        return dz

    return x * y, one


@wrong_call(
    "one gradient for two inputs",
    rf"rule one {HERE} .*returned 1 gradient .* for the 2 inputs with tensors \(x, y\)\. Write `return dx, dy`",
    inputs=2,
)
def one_for_two(x, y):
    return product(x, y)


def three_for_two_rule(dz):
    return dz, dz, dz


@wrong_call(
    "three gradients for two inputs",
    rf"rule three_for_two_rule {HERE} of `multiply` returned 3 gradients",
    inputs=2,
)
def three_for_two(x, y):
    def multiply(a, b):
        return a * b

    return pb.with_gradient(multiply, three_for_two_rule)(x, y)


@wrong_call(
    "a list for a dict",
    r'returned a list of 2.* for the input `params \(args\[0\]\)`, whose structure is dict of "a", "b"',
    inputs=2,
)
def list_for_dict(x, y):
    def rule(dy):
        return [dy, dy]

    def add(params):
        return params["a"] + params["b"]

    return pb.with_gradient(add, rule)({"b": x, "a": y})


@wrong_call(
    "a wrong shape deep inside",
    r'for the input `params\["w"\]\[1\] \(args\[0\]\["w"\]\[1\]\)`, float32\[1\]; wanted',
    inputs=2,
)
def deep(x, y):
    def rule(dy):
        return {"w": [dy, dy[:1]]}

    def add(params):
        return params["w"][0] + params["w"][1]

    return pb.with_gradient(add, rule)({"w": [x, y]})


@wrong_call(
    "a gradient for a static argument",
    r"float32\[3\] for the static argument `mode \(args\[1\]\)`.*Return None for it",
)
def for_static(x):
    def rule(dy):
        return dy, dy

    def moded(x, mode):
        return x * 1.0

    return pb.with_gradient(moded, rule)(x, "mode")


@wrong_call(
    "no backward function",
    rf"body {HERE} is under custom_gradient and returned float32\[3\]; wanted .*Write `return outputs, backward`",
    BodyResultError,
)
def no_backward(x):
    @pb.custom_gradient
    def body(x):
        return x * 2.0

    return body(x)


@wrong_call(
    "two outputs for one upstream",
    rf"rule single {HERE} is called with 2 upstream gradients.*Write `def single\(dy0, dy1\)",
    RuleSignatureError,
)
def two_outputs(x):
    @pb.custom_gradient
    def body(x):
        def single(dy):
            return dy

        return x * 2.0, x * 3.0, single

    return body(x)


@wrong_call(
    "stock style with too many outputs", "is called with 2 upstream gradients", RuleSignatureError
)
def stock_style(x):
    @pb.custom_gradient
    def body(x):
        def grad(dy, variables=None):
            return dy

        return x * 2.0, x * 3.0, grad

    return body(x)


@wrong_call("an argument too many", r"body\(x\): too many positional arguments", TypeError)
def too_many(x):
    @pb.custom_gradient
    def body(x):
        return x, scalar

    return body(x, x)


@wrong_call(
    "a partial of a wrong shape",
    rf"partial derivative for `x`, wrong_partial {HERE}, has shape \[2\] where the output has \[3\]",
)
def partial_of_wrong_shape(x):
    def wrong_partial(x):
        return tf.ones([2])

    def square(x):
        return x * x

    return pb.with_partials(square, x=wrong_partial)(x)


@wrong_call("a partial across the wrong axis", r"has shape \[1, 3\] where the output has \[3\]")
def partial_with_a_leading_axis(x):
    def square(x):
        return x * x

    return pb.with_partials(square, x=lambda x: tf.ones([1, 3]))(x)


@wrong_call("a partial that is a string", r"returned 'no'; wanted a tensor, ∂out/∂parameter")
def partial_string(x):
    def square(x):
        return x * x

    return pb.with_partials(square, x=lambda x: "no")(x)


@wrong_call(
    "text for an integer", r"returned 'no' for `i \(args\[1\]\)`, into which no gradient can flow"
)
def text_for_an_integer(x):
    return pb.with_gradient(lambda x, i: x * tf.cast(i, x.dtype), lambda dy: (dy, "no"))(
        x, tf.constant(2)
    )


@wrong_call(
    "text for a number", r"returned 'no' for `n \(args\[1\]\)`, into which no gradient can flow"
)
def text_for_a_number(x):
    return pb.with_gradient(lambda x, n: x * n, lambda dy: (dy, "no"))(x, 2.0)


@wrong_call("a flat tuple for a structure", "whose structure is dict")
def flat_tuple(x):
    return pb.with_gradient(lambda d: d["a"] * d["b"], lambda dy: (dy, dy))({"b": x, "a": x})


VARIABLE = tf.Variable([1.0, 2.0, 3.0], name="weight")


def variable_rule(returned: Callable[[Any], Any]) -> Callable[..., Any]:
    def rule(dy, *, variables):
        return dy, returned(dy)

    return pb.with_gradient(lambda x: x * VARIABLE, rule)


WRONG["too many variable gradients"] = Wrong(
    variable_rule(lambda dy: [dy, dy]), RuleResultError, r"gradients of 1 variables \(weight"
)
WRONG["a variable gradient of a wrong shape"] = Wrong(
    variable_rule(lambda dy: [tf.reduce_sum(dy)]),
    RuleResultError,
    r"for the variable `weight:0`, float32\[\]; wanted a gradient float32\[3\]",
)
WRONG["a gradient of an unknown variable"] = Wrong(
    variable_rule(lambda dy: {"height": dy}), RuleResultError, "for 'height', which is not among"
)


@contextlib.contextmanager
def nothing_left_behind():
    """The process can differentiate as before."""
    before = tf.executing_eagerly(), tf.compat.v1.get_default_graph()
    yield
    assert (tf.executing_eagerly(), tf.compat.v1.get_default_graph()) == before
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0


@pytest.mark.parametrize("mode", ERROR_MODES)
@pytest.mark.parametrize("name", WRONG)
def test_the_same_error_in_every_mode(name: str, mode: str) -> None:
    wrong = WRONG[name]
    with nothing_left_behind(), pytest.raises(wrong.error, match=wrong.message):
        MODES[mode](wrong.function, [tf.constant(X)] * wrong.inputs)


@pytest.mark.parametrize("name", WRONG)
def test_the_same_tape_serves_after_an_error(name: str) -> None:
    wrong = WRONG[name]
    xs = [tf.constant(X)] * wrong.inputs
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(xs)
        good = xs[0] * xs[0]
        bad = None
        with contextlib.suppress(wrong.error):
            bad = wrong.function(*xs)
        better = good * xs[0]
    if bad is not None:
        with pytest.raises(wrong.error, match=wrong.message):
            tape.gradient(bad, xs)
    np.testing.assert_allclose(tape.gradient(better, xs[0]), 3 * X**2, rtol=1e-5)


def test_a_wrong_rule_leaves_the_others_alone() -> None:
    for mode in ("eager", "tf.function, tape outside", "tf.function, tape inside"):
        with contextlib.suppress(RuleResultError):
            MODES[mode](WRONG["a scalar for [3]"].function, [tf.constant(X)])
        for feature in FEATURES[:3]:
            assert_gradients(MODES[mode](feature.fn, feature.tensors()), feature.gradient)


RUN_TIME = {
    "a scalar": lambda dy: tf.reduce_sum(dy) * tf.ones(tf.shape(dy)[:0]),
    "one too few": lambda dy: tf.concat([dy, dy], 0)[: tf.shape(dy)[0] - 1],
    "one too many": lambda dy: tf.concat([dy, dy], 0)[: tf.shape(dy)[0] + 1],
    "another rank": lambda dy: tf.reshape(dy, tf.concat([tf.shape(dy), [1]], 0)),
}


def unknown_shapes(inside: bool, **options: Any) -> Callable[..., Any]:
    """A mode of its own: sizes are unknown while the graph is built."""

    def mode(fn: Callable[..., Any], x: Any) -> Any:
        def step(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = fn(x)
            return tape.gradient(y, x)

        spec = [tf.TensorSpec([None], tf.float32)]
        if inside:
            return tf.function(step, input_signature=spec, **options)(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.function(fn, input_signature=spec, **options)(x)
        return tape.gradient(y, x)

    return mode


UNKNOWN = {
    "tape outside": unknown_shapes(False),
    "tape inside": unknown_shapes(True),
    "XLA": unknown_shapes(False, jit_compile=True),
    "XLA, tape inside": unknown_shapes(True, jit_compile=True),
}


@pytest.mark.parametrize("mode", UNKNOWN)
@pytest.mark.parametrize("name", RUN_TIME)
def test_unknown_sizes_are_checked_when_they_are_known(name: str, mode: str) -> None:
    rule = RUN_TIME[name]
    wrong = pb.with_gradient(lambda x: x * 1.0, lambda dy: rule(dy))
    errors = (RuleResultError, tf.errors.InvalidArgumentError)
    said = "shape|broadcast" if "XLA" in mode else rf"rule <lambda> {HERE} .*`x \(args\[0\]\)`"
    with nothing_left_behind(), pytest.raises(errors, match=said):
        UNKNOWN[mode](wrong, tf.constant(X))


@pytest.mark.parametrize("mode", UNKNOWN)
def test_unknown_sizes_that_fit_go_through(mode: str) -> None:
    right = pb.with_gradient(lambda x: x * 1.0, lambda dy: 2.0 * tf.stack([dy, dy]))
    np.testing.assert_allclose(UNKNOWN[mode](right, tf.constant(X)), [4.0] * 3)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: pb.custom_gradient(3), "custom_gradient takes a function; got 3"),
        (lambda: pb.with_gradient(3, scalar), "on 3: it is not callable. Pass a function"),
        (lambda: pb.with_gradient(tf.sin, 3), r"got 3\. Write `def rule\(dy\): return"),
        (lambda: pb.with_gradient(tf.sin, scalar, jvp=3), r"got 3\. Write `def jvp\(dx\): return"),
        (
            lambda: pb.with_partials(tf.sin, z=tf.cos),
            "no parameter `z`; its parameters are x, name",
        ),
        (lambda: pb.with_partials(tf.sin), "no partial derivative was given"),
        (lambda: pb.with_partials(tf.sin, x=3), "for `x` is 3; wanted a function"),
        (lambda: pb.with_gradient(tf.sin, mistaken), "asks for `inptus`, which does not exist"),
        (lambda: pb.with_gradient(tf.sin, scalar, jvp=for_attributes), "`attrs`, which is not on"),
    ],
)
def test_wrong_definitions_are_refused_at_once(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(RuleSignatureError, match=message):
        make()


def jvp_case(jvp: Callable[..., Any]) -> Callable[..., Any]:
    return pb.with_gradient(lambda x: x * 1.0, lambda dy: 2.0 * dy, jvp=jvp)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "in a function"])
@pytest.mark.parametrize(
    "jvp, message",
    [
        (
            lambda dx: (dx, dx),
            "returned a tuple of 2.* wanted one tangent for each of the 1 outputs",
        ),
        (lambda dx: dx[:1], r"float32\[1\].*wanted.*float32\[3\]"),
        (lambda dx: "no", "'no'.*wanted"),
        (lambda a, b: a, "called with 1"),
    ],
)
def test_a_jvp_that_does_not_fit(jvp: Any, message: str, wrap: Any) -> None:
    x = tf.constant(X)

    def tangent(x):
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = jvp_case(jvp)(x)
        return accumulator.jvp(y)

    with pytest.raises((RuleResultError, RuleSignatureError), match=message):
        wrap(tangent)(x)


def test_an_error_inside_a_rule_is_the_users_own() -> None:
    class OwnError(Exception):
        pass

    def failing(dy):
        raise OwnError("mine")

    for mode in ("eager", "tf.function, tape outside", "tf.function, tape inside", "XLA"):
        with nothing_left_behind(), pytest.raises(OwnError, match="mine"):
            MODES[mode](pb.with_gradient(tf.sin, failing), [tf.constant(X)])


@pytest.mark.parametrize(
    "define",
    [
        pb.custom_gradient,
        lambda fn: pb.with_gradient(fn, tf.identity),
        lambda fn: pb.with_partials(fn, x=tf.cos),
    ],
    ids=["custom_gradient", "with_gradient", "with_partials"],
)
def test_a_ufunc_of_numpy_is_told_what_to_write(define: Callable[..., Any]) -> None:
    for ufunc, words in ((np.sin, "def sin(x): return np.sin(x)"), (np.add, "def add(x, y)")):
        with pytest.raises(
            RuleSignatureError, match=r"NumPy ufunc.*pass the .* of your framework"
        ) as e:
            define(ufunc)
        assert words in str(e.value)


def test_what_the_message_about_a_ufunc_advises_works() -> None:
    def sin(x):
        return np.sin(x)

    function = pb.with_gradient(sin, lambda dy, *, inputs: dy * tf.cos(inputs["x"]))
    assert_gradients(MODES["eager"](function, [tf.constant(X)]), [np.cos(X)])


SLICES: dict[str, Callable[[Any], Any]] = {
    "beyond the end": lambda dy: tf.IndexedSlices(dy, tf.cast(3.0 * dy, tf.int32)),
    "before the start": lambda dy: tf.IndexedSlices(dy, tf.cast(-dy, tf.int32)),
    "before the start, constant": lambda dy: tf.IndexedSlices(dy, tf.constant([0, -1, 2])),
}


@pytest.mark.parametrize("sizes", [[3], [None]], ids=["known", "unknown"])
@pytest.mark.parametrize("name", SLICES)
def test_indices_that_only_the_program_knows_are_checked_when_it_runs(
    name: str, sizes: Any
) -> None:
    function = tf.function(
        pb.with_gradient(lambda x: x * 1.0, SLICES[name]), input_signature=[tf.TensorSpec(sizes)]
    )
    x = tf.constant([1.0, 2.0, 3.0])
    words = r"rule <lambda> \(.*test_bad_input.py:\d+\).*IndexedSlices with (the )?indices"
    with pytest.raises((RuleResultError, tf.errors.InvalidArgumentError), match=words):
        MODES["eager"](function, [x])


@pytest.mark.parametrize("sizes", [[3], [None]], ids=["known", "unknown"])
@pytest.mark.parametrize("whole", [None, [3]], ids=["without a shape", "with a shape"])
def test_slices_of_another_dtype_are_slices_of_the_input(whole: Any, sizes: Any) -> None:
    def rule(dy):
        shape = None if whole is None else tf.constant(whole)
        return tf.IndexedSlices(tf.cast(5.0 * dy[:2], tf.float64), tf.constant([2, 0]), shape)

    function = pb.with_gradient(lambda x: x * 1.0, rule)
    x = tf.constant([1.0, 2.0, 3.0])
    for call in (function, tf.function(function, input_signature=[tf.TensorSpec(sizes)])):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = call(x)
        found = tape.gradient(y, x)
        assert found.dtype == tf.float32
        assert tf.convert_to_tensor(found).numpy().tolist() == [5.0, 0.0, 5.0]
