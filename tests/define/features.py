"""What custom_gradient must carry, each a function of float tensors with the gradient that its rule says.

The rules are deliberately not the derivative of the function, so that a rule that did not run is noticed.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import pullback as pb

X = np.array([0.5, -1.5, 2.0], np.float32)
Y = np.array([3.0, 0.25, -2.0], np.float32)
ONES = np.ones(3, np.float32)


@dataclasses.dataclass(frozen=True)
class Feature:
    """A function, its arguments, and the gradient of the sum of its outputs."""

    name: str
    fn: Callable[..., Any]
    args: Sequence[np.ndarray]
    gradient: Sequence[Any]

    def tensors(self) -> list[tf.Tensor]:
        return [tf.constant(a) for a in self.args]


FEATURES: list[Feature] = []


def feature(name: str, args: Sequence[np.ndarray], gradient: Sequence[Any]) -> Callable[[Any], Any]:
    def add(fn: Callable[..., Any]) -> Callable[..., Any]:
        FEATURES.append(Feature(name, fn, args, gradient))
        return fn

    return add


@pb.custom_gradient
def product(x, y):
    def backward(dz):
        return 10.0 * dz * y, 100.0 * dz * x

    return x * y, backward


@feature("two inputs", [X, Y], [10 * Y, 100 * X])
def two_inputs(x, y):
    return product(x, y)


@feature("by keyword, in another order", [X, Y], [10 * Y, 100 * X])
def by_keyword(x, y):
    return product(y=y, x=x)


@feature("mixed positional and keyword", [X, Y], [10 * Y, 100 * X])
def mixed_keyword(x, y):
    return product(x, y=y)


@pb.custom_gradient
def two_outputs(x, y):
    def backward(dz, dw):
        return 10.0 * dz * y + dw, 7.0 * dw

    return x * y, x + y, backward


@feature("flat outputs", [X, Y], [10 * Y + 1, 7 + 0 * Y])
def flat_outputs(x, y):
    return two_outputs(x, y)


@feature("an output that is not used", [X, Y], [10 * Y, 0 * Y])
def unused_output(x, y):
    return two_outputs(x, y)[0]


@pb.custom_gradient
def with_integer_output(x):
    def backward(dy, dn):
        assert dn is None
        return 5.0 * dy

    return x * 2.0, tf.shape(x), backward


@feature("an integer output", [X], [5 + 0 * X])
def integer_output(x):
    return with_integer_output(x)[0]


@pb.custom_gradient
def linear(params, x):
    def backward(dy):
        return {"w": 10.0 * dy * x, "b": [dy, None]}, 3.0 * dy * params["w"]

    return params["w"] * x + params["b"][0] + params["b"][1], backward


@feature("nested inputs", [X, Y], [10 * Y + 1, 3 * X])
def nested_inputs(x, y):
    return linear({"w": x, "b": [x, y]}, y)


@pb.custom_gradient
def by_name(x, y):
    def backward(dz):
        return {"y": 4.0 * dz}

    return x + y, backward


@feature("gradients by parameter name", [X, Y], [None, 4 + 0 * Y])
def gradients_by_name(x, y):
    return by_name(x, y)


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Box:
    value: Any
    label: str


@pb.custom_gradient
def structured(pair, box):
    def backward(upstream):
        assert isinstance(upstream, dict)
        return Pair(2.0 * upstream["sum"], 3.0 * upstream["box"].value), Box(upstream["sum"], None)

    return {"sum": pair.first + pair.second, "box": Box(box.value * 1.0, "out")}, backward


@feature("namedtuples and dataclasses", [X, Y], [3 + 0 * X, 3 + 0 * Y])
def structures(x, y):
    out = structured(Pair(x, y), Box(x, "in"))
    assert out["box"].label == "out"
    return out["sum"], out["box"].value


@pb.custom_gradient
def with_static(x, mode, flag, scale, missing, function):
    def backward(dy):
        return scale * dy if flag and mode == "on" and missing is None else None

    return function(x), backward


@feature("static arguments", [X], [3 + 0 * X])
def static_arguments(x):
    return with_static(x, "on", True, 3, None, tf.sin)


@pb.custom_gradient
def with_index(x, index, mask):
    def backward(dy):
        return tf.where(mask, 8.0, 2.0) * dy, None, None

    return tf.gather(x, index), backward


@feature("integer and boolean tensors", [X], [[8, 2, 8]])
def integer_inputs(x):
    return with_index(x, tf.constant([2, 0, 1]), tf.constant([True, False, True]))


CAPTURED = None


def captured_variable() -> tf.Variable:
    global CAPTURED
    if CAPTURED is None:
        with tf.init_scope():
            CAPTURED = tf.Variable([2.0, 3.0, 4.0])
    return CAPTURED


@pb.custom_gradient
def reads_variable(x):
    variable = captured_variable()

    def backward(dy):
        return 10.0 * dy * variable

    return x * variable, backward


@feature("a captured variable", [X], [[20, 30, 40]])
def captures_variable(x):
    captured_variable()
    return reads_variable(x)


@pb.custom_gradient
def with_branch(x):
    if tf.reduce_sum(x) > 0.0:  # noqa: SIM108  AutoGraph is to meet a statement
        y = x * 2.0
    else:
        y = -x

    def backward(dy):
        return 6.0 * dy

    return y, backward


@feature("AutoGraph in the body", [X], [6 + 0 * X])
def autograph_body(x):
    return with_branch(x)


def ten(dy):
    return 10.0 * dy


@feature("with_gradient and a tensor computed from an argument", [X, Y], [10 + Y, X])
def depends_on_argument(x, y):
    c = x * y
    return pb.with_gradient(lambda x: x + c, ten)(x)


@feature("custom_gradient and a tensor computed from an argument", [X], [10 + 0 * X])
def held_fixed(x):
    c = x * 2.0

    @pb.custom_gradient
    def function(x):
        return x + c, ten

    return function(x)


class Held:
    """An object through which a function gets at a tensor."""

    def __init__(self, x: Any) -> None:
        self.c = x * 2.0

    def __call__(self, x: Any) -> Any:
        @pb.custom_gradient
        def function(x):
            return x * captured_variable() + self.c, ten

        return function(x)


@feature("custom_gradient, a variable, and a tensor in an object", [X], [10 + 0 * X])
def held_in_an_object(x):
    captured_variable()
    return Held(x)(x)


class Scaled:
    factor = 9.0

    @pb.custom_gradient
    def method(self, x):
        def backward(dy):
            return self.factor * dy

        return x * 1.0, backward

    @staticmethod
    @pb.custom_gradient
    def static(x):
        def backward(dy):
            return 2.0 * dy

        return x * 1.0, backward

    @classmethod
    @pb.custom_gradient
    def of_class(cls, x):
        def backward(dy):
            return cls.factor * dy

        return x * 1.0, backward


@feature("methods", [X], [9 + 2 + 9 + 0 * X])
def methods(x):
    scaled = Scaled()
    return scaled.method(x), scaled.static(x), Scaled.of_class(x)


@pb.custom_gradient
def forward_tensor_as_gradient(x):
    jacobian = 2.0 * x

    def backward(dy):
        return jacobian

    return x**2, backward


@feature("a rule that returns a forward tensor unchanged", [X], [2 * X])
def returns_forward_tensor(x):
    return forward_tensor_as_gradient(x)


@pb.custom_gradient
def broadcasts(x, y):
    def backward(dz):
        return 10.0 * dz * y, 100.0 * dz * x

    return x * y, backward


MATRIX = np.arange(12, dtype=np.float32).reshape(4, 3)


@feature(
    "a gradient summed over broadcast axes",
    [X, MATRIX],
    [10 * MATRIX.sum(0), np.tile(100 * X, [4, 1])],
)
def summed_over_broadcast(x, y):
    return broadcasts(x, y)


@pb.custom_gradient
def other_dtype(x):
    def backward(dy):
        return tf.cast(dy, tf.float64) * 4.0

    return x * 1.0, backward


@feature("a gradient of another dtype", [X], [4 + 0 * X])
def gradient_cast(x):
    return other_dtype(x)


@pb.custom_gradient
def sliced(x):
    def backward(dy):
        return tf.IndexedSlices(tf.gather(dy, [0, 2]) * 5.0, tf.constant([0, 2]), tf.shape(x))

    return x * 1.0, backward


@feature("IndexedSlices as a gradient", [X], [[5, 0, 5]])
def indexed_slices(x):
    return sliced(x)


@pb.custom_gradient
def on_ragged(ragged):
    def backward(dy):
        return dy.with_flat_values(3.0 * dy.flat_values)

    return ragged * 2.0, backward


@feature("RaggedTensor", [X], [3 + 0 * X])
def ragged_tensor(x):
    return on_ragged(tf.RaggedTensor.from_row_lengths(x, [2, 1])).flat_values


@pb.custom_gradient
def with_sparse(x, sparse):
    def backward(dy):
        return 3.0 * dy, None

    return x + tf.sparse.to_dense(sparse), backward


@feature("SparseTensor", [X], [3 + 0 * X])
def sparse_tensor(x):
    return with_sparse(x, tf.sparse.SparseTensor([[1]], [5.0], [3]))


def triple(dy):
    return 3.0 * dy


@feature("with_gradient", [X], [3 + 0 * X])
def replaced(x):
    return pb.with_gradient(tf.round, triple)(x)


def half_of_original(dy, *, original, inputs, outputs):
    return 0.5 * original(dy) + 0.0 * (inputs[0] + inputs["x"] + outputs)


def cube(x):
    return x**3


@feature("with_gradient and original", [X], [1.5 * X**2])
def original_gradient(x):
    return pb.with_gradient(cube, half_of_original)(x)


def defaulting(dz):
    return 5.0 * dz, pb.DEFAULT


@feature("DEFAULT for one input", [X, Y], [5 + 0 * X, X])
def default_gradient(x, y):
    return pb.with_gradient(lambda x, y: x * y, defaulting)(x, y)


def ten_times(dz, *, original):
    dx, dy = original(dz)
    return 10.0 * dx, 10.0 * dy


def multiply(x, y):
    return x * y


@feature("the same tensor twice", [X], [20 * X])
def same_twice(x):
    return pb.with_gradient(multiply, ten_times)(x, x)


@pb.custom_gradient
def named_output(x):
    def backward(upstream):
        return 3.0 * upstream["y"]

    return {"y": x * 2.0}, backward


@feature("one output in a dict", [X], [3 + 0 * X])
def dict_of_one(x):
    return named_output(x)["y"]


def fourfold(dy, *, inputs):
    return 4.0 * dy * tf.ones_like(inputs[0])


def three(x):
    return 3.0


@feature("a Python number as the only output", [X], [4 + 0 * X])
def number_output(x):
    return pb.with_gradient(three, fourfold)(x)


def squared_error(y_true, y_pred):
    return tf.reduce_sum((y_true - y_pred) ** 2, -1)


def seven(y_true, y_pred):
    return 7.0 * y_pred


@feature("with_partials", [X, Y], [2 * (X - Y), 7 * Y])
def partials(x, y):
    return pb.with_partials(squared_error, y_pred=seven)(x, y)


@feature("with_partials that stops", [X, Y], [None, 7 * Y])
def stopped_partials(x, y):
    return pb.with_partials(squared_error, y_true=None, y_pred=seven)(x, y)


def by_a_tape_of_its_own(dy, *, inputs):
    with tf.GradientTape() as tape:
        x = tf.identity(inputs[0])
        tape.watch(x)
        y = x * x * captured_variable()
    return dy * tape.gradient(y, x)


@feature("a rule with a tape of its own, and a variable", [X], [2 * X * [2, 3, 4]])
def with_a_tape_of_its_own(x):
    return pb.with_gradient(lambda x: x * 1.0, by_a_tape_of_its_own)(x)


# What code written for stock TensorFlow does.


@pb.custom_gradient
def passes_on(x, y):
    def backward(dz, **kwargs):
        return (10.0 * dz, 100.0 * dz), [None] * len(kwargs.get("variables", ()))

    return x * y, backward


@pb.custom_gradient
def no_variables(x, y):
    def backward(dz, variables=None):
        return (10.0 * dz, 100.0 * dz), []

    return x * y, backward


@feature("a rule with **kwargs, and gradients of no variables", [X, Y], [10 * ONES, 100 * ONES])
def keywords_are_passed_on(x, y):
    return passes_on(x, y)


@feature("gradients of no variables", [X, Y], [10 * ONES, 100 * ONES])
def gradients_of_no_variables(x, y):
    return no_variables(x, y)


@feature("a literal zero", [X, Y], [7 * ONES, 0 * ONES])
def literal_zero(x, y):
    return pb.with_gradient(tf.multiply, lambda dz: (7.0 * dz, 0.0))(x, y)


@feature("an array for what nothing flows into", [X], [7 * ONES])
def array_for_a_number(x):
    return pb.with_gradient(lambda x, n: x * n, lambda dz: (7.0 * dz, dz))(x, 3.0)
