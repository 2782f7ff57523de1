"""Functions as people write them for `tf.custom_gradient`: both decorators give the gradient that the rule says."""

import collections
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import UnsupportedError
from tests.modes import MODES, assert_gradients

X = np.array([0.5, -1.5, 2.0], np.float32)
Y = np.array([3.0, 0.25, -2.0], np.float32)
ONE = np.ones(3, np.float32)
Pair = collections.namedtuple("Pair", "u v")
Decorator = Callable[[Any], Any]
CASES: dict[str, tuple[Callable[[Decorator], Callable[..., Any]], Any]] = {}
DECORATORS: dict[str, Decorator] = {"stock": tf.custom_gradient, "ours": pb.custom_gradient}


def case(name: str, *wanted: Any) -> Callable[[Any], Any]:
    """A function of two tensors, made with either decorator, and its gradient."""

    def add(make: Callable[[Decorator], Callable[..., Any]]) -> Any:
        CASES[name] = make, wanted
        return make

    return add


@case("a flat list for nested lists", 14 * ONE, 7 * ONE)
def flat_list(decorator: Decorator) -> Any:
    @decorator
    def f(rows, z):
        return rows[0] * rows[1][0] * z, lambda g: [5.0 * g, 7.0 * g, 9.0 * g]

    return lambda x, y: f([x, [y]], x)


@case("a flat tuple for a namedtuple and a tensor", 6 * ONE, 7 * ONE)
def flat_namedtuple(decorator: Decorator) -> Any:
    @decorator
    def f(pair, z):
        return pair.u * pair.v * z, lambda g: (5.0 * g, 7.0 * g, g)

    return lambda x, y: f(Pair(x, y), x)


@case("a flat tuple for a list of numbers", 3 * ONE, None)
def flat_numbers(decorator: Decorator) -> Any:
    @decorator
    def f(x, numbers):
        return x * tf.stack(numbers), lambda g: (3.0 * g, None, None, None)

    return lambda x, _: f(x, [1.0, 2.0, 3.0])


@case("one upstream for each field of a namedtuple", 12 * ONE, None)
def namedtuple_output(decorator: Decorator) -> Any:
    @decorator
    def f(x):
        return Pair(x * 2.0, x * 3.0), lambda a, b: 5.0 * a + 7.0 * b

    return lambda x, _: f(x)


@case("any number of upstreams for nested outputs", 21 * ONE, None)
def nested_outputs(decorator: Decorator) -> Any:
    @decorator
    def f(x):
        def grad(*g):
            return 5.0 * g[0] + 7.0 * g[1] + 9.0 * g[2]

        return (x * 2.0, (x * 3.0, [x * 4.0])), grad

    return lambda x, _: f(x)


@case("any number of upstreams for a dict", 5 + 14 * ONE, None)
def dict_outputs(decorator: Decorator) -> Any:
    @decorator
    def f(x):
        return {"b": x * 2.0, "a": x * 3.0}, lambda *g: 5.0 * g[0] + 7.0 * g[1]

    return lambda x, _: (lambda out: (out["a"], 2.0 * out["b"]))(f(x))


@case("a closed-over tensor computed from an argument", 10 * ONE, None)
def closed_over(decorator: Decorator) -> Any:
    def f(x, y):
        c = x * y

        @decorator
        def inner(x):
            return x + c, lambda g: 10.0 * g

        return inner(x)

    return f


@case("the argument itself, closed over", 10 * ONE, None)
def closed_over_argument(decorator: Decorator) -> Any:
    def f(x, _):
        @decorator
        def inner(z):
            return x * z, lambda g: 10.0 * g

        return inner(x)

    return f


MODULE = tf.Module()
MODULE.rows = [tf.Variable(X), tf.Variable(Y)]
MODULE.named = {"a": tf.Variable(X), "b": tf.Variable(Y)}
_SOME_MODES = [
    "eager",
    "tf.function, tape outside",
    "tf.function, tape inside",
    "nested tf.function, tape outside",
    "XLA",
    "tf.cond",
]


@pytest.mark.parametrize("mode", _SOME_MODES)
@pytest.mark.parametrize("decorator", DECORATORS)
@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_what_the_rule_says(name: str, decorator: str, mode: str) -> None:
    make, wanted = CASES[name]
    found = MODES[mode](make(DECORATORS[decorator]), [tf.constant(X), tf.constant(Y)])
    assert_gradients(found, wanted)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
@pytest.mark.parametrize("decorator", DECORATORS)
def test_lists_and_dicts_of_variables_of_a_module(decorator: str, wrap: Any) -> None:
    """TensorFlow puts its own list and dict in the place of a module's."""

    @DECORATORS[decorator]
    def product(rows, named):
        def grad(g):
            return [3.0 * g, 5.0 * g], {"a": 7.0 * g, "b": 9.0 * g}

        return rows[0] * rows[1] * named["a"] * named["b"], grad

    with tf.GradientTape() as tape:
        y = wrap(lambda: product(MODULE.rows, MODULE.named))()
    found = tape.gradient(y, [*MODULE.rows, MODULE.named["a"], MODULE.named["b"]])
    assert_gradients([np.asarray(g) for g in found], [3 * ONE, 5 * ONE, 7 * ONE, 9 * ONE])


@pytest.mark.parametrize("mode", _SOME_MODES)
def test_the_values_of_a_sparse_tensor_follow_the_rule(mode: str) -> None:
    @pb.custom_gradient
    def densely(sparse):
        def backward(dy):
            return sparse.with_values(3.0 * tf.gather_nd(dy, sparse.indices))

        return 2.0 * tf.sparse.to_dense(sparse), backward

    def function(x):
        return densely(tf.SparseTensor([[1], [2], [5]], x, [6]))

    assert_gradients(MODES[mode](function, [tf.constant(X)]), [3 * ONE])


def test_without_arguments_none_is_the_gradient_of_nothing() -> None:
    variable = tf.Variable(2.0)

    @pb.custom_gradient
    def function():
        def grad(dy, variables):
            return None, [7.0 * dy for _ in variables]

        return 3.0 * variable, grad

    with tf.GradientTape() as tape:
        y = function()
    assert float(tape.gradient(y, variable)) == 7.0


@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_rule_that_fails_where_nobody_differentiates(decorator: str) -> None:
    @DECORATORS[decorator]
    def trap(x):
        def grad(dy):
            raise NotImplementedError("no gradient")

        return 2.0 * x, grad

    def loop(x, y):
        return tf.while_loop(lambda i, _: i < 2, lambda i, z: (i + 1, z + trap(y)), (0, x))[1]

    x, y = tf.constant(X), tf.constant(Y)
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = loop(x, y)
    np.testing.assert_allclose(tape.gradient(z, x), ONE)
    np.testing.assert_allclose(tf.function(loop)(x, y), X + 4 * Y)


def test_it_fails_in_a_loop_when_somebody_does() -> None:
    @pb.custom_gradient
    def trap(x):
        def grad(dy):
            raise NotImplementedError("no gradient")

        return 2.0 * x, grad

    @tf.function
    def loop(x):
        return tf.while_loop(lambda i, _: i < 2, lambda i, z: (i + 1, trap(z)), (0, x))[1]

    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(NotImplementedError, match="no gradient"):
            tape.gradient(loop(x), x)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_a_rule_has_nothing_to_say_where_no_argument_is_known(order: int) -> None:
    """As in `tf.recompute_grad`: its gradient closes over the arguments, and its own rule is an error."""

    def forbidden(*_: Any, **__: Any) -> Any:
        raise NotImplementedError("not to be asked")

    def cubes(x):
        @pb.custom_gradient
        def closing(one):
            return one * x**3, forbidden

        return closing(tf.constant(1.0))

    def derivative(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def differentiated(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            return tape.gradient(y, x)

        return differentiated

    function = cubes
    for _ in range(order):
        function = derivative(function)
    wanted = {1: 3 * X**2, 2: 6 * X, 3: 6 * ONE}[order]
    np.testing.assert_allclose(function(tf.constant(X)), wanted, rtol=1e-6)


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_integers_only_are_refused(wrap: Any) -> None:
    @pb.custom_gradient
    def largest(x):
        return tf.argmax(x), lambda dy: dy

    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(UnsupportedError, match=r"its rule .* would never run\. Return outputs"):
            wrap(largest)(x)


def test_integers_only_are_no_matter_where_nothing_is_watched() -> None:
    @pb.custom_gradient
    def largest(x):
        return tf.argmax(x), lambda dy: dy

    assert int(largest(tf.constant(X))) == 2


_WITHOUT_EAGER = """
import tensorflow as tf
v1 = tf.compat.v1
v1.disable_eager_execution()
import pullback as pb

x = tf.constant([1.0, 2.0])
square = pb.with_gradient(tf.square, lambda dy, *, original: 3.0 * original(dy))
with pb.override({tf.nn.relu: lambda dy: 5.0 * dy, tf.nn.gelu: lambda dy: 7.0 * dy}):
    overridden = [tf.nn.relu(x), tf.nn.gelu(x)]
outputs = [pb.custom_gradient(lambda x: (x, lambda dy: 2.0 * dy))(x), square(x), *overridden]
with v1.Session() as session:
    found = session.run([v1.gradients(y, x)[0] for y in outputs])
print([f.tolist() for f in found])
"""


def test_after_eager_execution_was_disabled() -> None:
    run = subprocess.run([sys.executable, "-c", _WITHOUT_EAGER], capture_output=True, text=True)
    assert run.stdout.strip() == "[[2.0, 2.0], [6.0, 12.0], [5.0, 5.0], [7.0, 7.0]]", run.stderr
