"""Partial derivatives: along which axes the upstream is multiplied, and what is refused."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import PullbackError, RuleResultError, RuleSignatureError

HERE = r"\(.*test_partials.py:\d+\)"


def columns(x):
    return tf.reduce_sum(x * x, 0)


def rows(x):
    return tf.reduce_sum(x * x, 1)


def rows_kept(x):
    return tf.reduce_sum(x * x, 1, keepdims=True)


def everything(x):
    return tf.reduce_sum(x * x)


def nothing(x):
    return x * x


def three_x(x):
    """Not the derivative, which is 2 x, so that it is seen which one is used."""
    return 3.0 * x


AXES = {columns: (0,), rows: (1,), rows_kept: (1,), everything: (0, 1), nothing: ()}


def unknown(x: Any, **options: Any) -> Callable[..., Any]:
    signature = [tf.TensorSpec([None] * x.shape.rank, x.dtype)]
    return lambda step: tf.function(step, input_signature=signature, **options)


WAYS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "eager": lambda x: lambda step: step,
    "graph": lambda x: tf.function,
    "first size unknown": lambda x: (
        lambda step: tf.function(
            step, input_signature=[tf.TensorSpec([None, *x.shape[1:]], x.dtype)]
        )
    ),
    "sizes unknown": unknown,
    "sizes unknown, XLA": lambda x: unknown(x, jit_compile=True),
}


def gradient(function: Any, x: Any, way: str) -> Any:
    """The gradient of a weighted sum of the outputs, all weights different."""

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            weights = tf.reshape(tf.range(1.0, tf.cast(tf.size(y), tf.float32) + 1.0), tf.shape(y))
            loss = tf.reduce_sum(weights * y)
        return tape.gradient(loss, x)

    return WAYS[way](x)(step)(x).numpy()


def expected(function: Any, x: Any) -> Any:
    axes = AXES[function]
    shape = np.sum(x.numpy(), axes, keepdims=True).shape
    return (np.arange(np.prod(shape)) + 1.0).reshape(shape) * 3.0 * x.numpy()


def counting(*shape: int) -> Any:
    return tf.constant(np.arange(np.prod(shape)).reshape(shape) + 1.0, tf.float32)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", AXES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(2, 3), (1, 3), (3, 1), (1, 1), (0, 3)])
def test_shapes_tell_which_axes_were_reduced(shape: Any, function: Any, way: str) -> None:
    x = counting(*shape)
    found = gradient(pb.with_partials(function, x=three_x), x, way)
    np.testing.assert_allclose(found, expected(function, x))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", [columns, rows], ids=lambda f: f.__name__)
def test_where_shapes_do_not_tell_it_is_asked_for(function: Any, way: str) -> None:
    # XLA drops assertions: there the node that fails is called after the partial derivative.
    words = (
        r"three_x_.*test_partials.py_line_\d+"
        if "XLA" in way
        else rf"three_x {HERE}.*shapes do not tell which of its axes.*reduced=1\), or 0"
    )
    with pytest.raises((RuleResultError, tf.errors.InvalidArgumentError), match=words):
        gradient(pb.with_partials(function, x=three_x), counting(3, 3), way)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", AXES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(3, 3), (2, 3), (1, 1)])
def test_what_is_said_is_done(shape: Any, function: Any, way: str) -> None:
    x = counting(*shape)
    if function is nothing:
        axes: Any = {"x": ()}
    else:
        axes = AXES[function][0] if len(AXES[function]) == 1 else AXES[function]
    found = gradient(pb.with_partials(function, x=three_x, reduced=axes), x, way)
    np.testing.assert_allclose(found, expected(function, x))


def test_axes_count_from_the_end_too() -> None:
    x = counting(3, 3)
    found = gradient(pb.with_partials(rows, x=three_x, reduced=-1), x, "eager")
    np.testing.assert_allclose(found, expected(rows, x))


def test_what_is_said_and_cannot_be_is_refused() -> None:
    with pytest.raises(RuleResultError, match=r"has shape \[2, 3\].*of which it reduces 0"):
        gradient(pb.with_partials(rows, x=three_x, reduced=0), counting(2, 3), "eager")
    with pytest.raises(RuleResultError, match=r"has shape \[2, 3\].*of which it reduces 5"):
        gradient(pb.with_partials(nothing, x=three_x, reduced=5), counting(2, 3), "eager")


def test_axes_survive_pickling() -> None:
    function = pickle.loads(pickle.dumps(pb.with_partials(columns, x=three_x, reduced={"x": 0})))
    x = counting(3, 3)
    np.testing.assert_allclose(gradient(function, x, "eager"), expected(columns, x))


@pytest.mark.parametrize("reduced", [True, (1, "a"), {"x": 1.5}])
def test_axes_that_are_none_are_refused_at_once(reduced: Any) -> None:
    with pytest.raises(RuleSignatureError, match=r"reduced=.*wanted the axes"):
        pb.with_partials(rows, x=three_x, reduced=reduced)


def test_axes_of_a_parameter_that_there_is_not() -> None:
    with pytest.raises(RuleSignatureError, match="no parameter `z`"):
        pb.with_partials(rows, x=three_x, reduced={"z": 1})


def scaled(x, reduced):
    return x * reduced


def test_a_parameter_may_be_called_reduced() -> None:
    x, scale = tf.constant([1.0, 2.0]), tf.constant([5.0, 7.0])
    function = pb.with_partials(scaled, reduced=lambda x: 10.0 * x)
    with tf.GradientTape() as tape:
        tape.watch([x, scale])
        y = function(x, scale)
    dx, ds = tape.gradient(y, [x, scale])
    np.testing.assert_allclose(dx, [5, 7])
    np.testing.assert_allclose(ds, [10, 20])


def test_a_parameter_may_be_called_fn() -> None:
    def doubled(fn):
        return 2.0 * fn

    x = tf.constant([1.0, 2.0])
    function = pb.with_partials(doubled, fn=three_x)
    np.testing.assert_allclose(gradient(function, x, "eager"), [3, 12])


def test_a_partial_larger_than_the_output_is_no_broadcast() -> None:
    def column(x):
        return x[:, None] * 1.0

    with pytest.raises(RuleResultError, match=r"has shape \[3\] where the output has \[3, 1\]"):
        gradient(pb.with_partials(column, x=three_x), counting(3), "eager")


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        (lambda x: {"a": x, "b": 2.0 * x}, "returns a dict with keys 'a', 'b'"),
        (lambda x: (x, 2.0 * x), "returns a tuple of 2"),
        (lambda x: [x, {"b": 2.0 * x}], "returns a tuple of 2"),
    ],
)
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
def test_several_outputs_are_refused(wrap: Any, outputs: Any, words: str) -> None:
    x = counting(3)
    with pytest.raises(PullbackError, match=rf"{words}.*wanted one tensor.*pb.with_gradient"):
        gradient(
            wrap(lambda x: tf.nest.flatten(pb.with_partials(outputs, x=three_x)(x))[0]), x, "eager"
        )


def test_a_gradient_that_does_not_fit_names_the_partial() -> None:
    def too_large(x):
        return tf.ones([5, 3])

    with pytest.raises(RuleResultError, match=rf"rule too_large {HERE} .*`x \(args\[0\]\)`"):
        gradient(pb.with_partials(columns, x=too_large), counting(2, 3), "eager")


@pytest.mark.parametrize("batch", [4, 3])
def test_a_loss_of_batches_of_any_size(batch: int) -> None:
    """As many samples as classes are told apart when it is said."""
    import keras

    def loss(y_true, y_pred):
        return tf.reduce_mean(tf.square(y_true - y_pred), -1)

    def derivative(y_true, y_pred):
        return 2.0 * (y_pred - y_true) / 3.0

    def trained(loss: Any) -> Any:
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
        model.compile(keras.optimizers.SGD(0.1), loss)
        x = np.arange(14.0, dtype="f").reshape(7, 2)  # the last batch has three samples, or one
        model.fit(x, np.ones([7, 3], "f"), batch_size=batch, epochs=1, verbose=0, shuffle=False)
        return model.get_weights()[0]

    ours = pb.with_partials(loss, y_pred=derivative, reduced=-1)
    np.testing.assert_allclose(trained(ours), trained(loss), rtol=1e-5)


@pytest.mark.parametrize("unknown", [False, True], ids=["known", "unknown"])
def test_a_partial_of_lower_rank_must_broadcast_to_the_output(unknown: bool) -> None:
    """Squares of [3] as [3, 1]: a derivative of shape [3] would be laid along the other axis."""
    column = pb.with_partials(lambda w: w[:, None] ** 2, w=lambda w: 2.0 * w)
    row = pb.with_partials(lambda w, s: w * s, w=lambda w, s: s)
    specs = [tf.TensorSpec([None]), tf.TensorSpec([None, None])]
    w, table = tf.constant([1.0, -2.0, 3.0]), tf.ones([2, 3])
    if unknown:
        column = tf.function(column, input_signature=specs[:1])
        row = tf.function(row, input_signature=specs[::-1])
    with tf.GradientTape() as tape:
        tape.watch(table)
        y = row(table, w)
    np.testing.assert_allclose(tape.gradient(y, table), [[1.0, -2.0, 3.0]] * 2)
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = column(w)
    with pytest.raises(
        (RuleResultError, tf.errors.OpError), match="wanted the shape of the output"
    ):
        tape.gradient(y, w)
