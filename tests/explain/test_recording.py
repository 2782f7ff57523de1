"""The gradients that `explain` tells are those that a plain tape gives, whatever the function is made of."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExplainError
from pullback.explain.flow import Flow

Setting = Callable[[Path], tuple[Any, tuple[Any, ...]]]
SETTINGS: dict[str, Setting] = {}
# Ops that run whole functions: nothing of them may be left unseen.
OPAQUE = {
    "PartitionedCall",
    "StatefulPartitionedCall",
    "While",
    "StatelessWhile",
    "If",
    "StatelessIf",
    "Case",
}
KEPT: list[Any] = []  # a loaded function does not keep its variables alive
X = np.linspace(-1.5, 2.0, 6, dtype=np.float32).reshape(2, 3)


def setting(make: Setting) -> Setting:
    SETTINGS[make.__name__.removeprefix("_")] = make
    return make


def x_of(dtype: Any = tf.float32) -> tf.Tensor:
    return tf.constant(X, dtype)


def plain_gradients(fn: Any, args: tuple[Any, ...]) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """By a tape of TensorFlow's: of the arguments; and the variables that were read with theirs."""
    with tf.GradientTape() as tape:
        tape.watch([a for a in args if not isinstance(a, tf.Variable)])
        result = fn(*args)
        outputs = [y for y in tf.nest.flatten(result, expand_composites=True) if _is_float(y)]
    read = tape.watched_variables()
    gradients = tape.gradient(outputs, [list(args), list(read)])
    return gradients[0], list(zip(read, gradients[1], strict=True))


def _is_float(tensor: Any) -> bool:
    return tensor.dtype.is_floating or tensor.dtype.is_complex


def assert_size(size: Any, gradient: Any) -> None:
    """The size that is told is that of the gradient, by NumPy."""
    if gradient is None:
        assert size is None
        return
    flat = getattr(gradient, "flat_values", gradient)
    array = np.asarray(tf.convert_to_tensor(flat)).ravel().astype(np.complex128)
    assert size is not None
    assert size.norm == pytest.approx(np.linalg.norm(array), rel=1e-4, abs=1e-6)
    assert size.max == pytest.approx(np.max(np.abs(array)), rel=1e-4, abs=1e-6)
    assert size.zeros == pytest.approx(np.mean(array == 0), abs=1e-6)
    assert size.count == array.size


@setting
def _eager_ops(_: Path) -> Any:
    return lambda x: tf.reduce_sum(tf.sin(x) * x), (x_of(),)


@setting
def _eager_python_loop(_: Path) -> Any:
    def loop(x: Any) -> Any:
        for _ in range(3):
            x = tf.tanh(x) * 2.0 if tf.reduce_sum(x) > 0 else x * 3.0
        return x

    return loop, (x_of(),)


@setting
def _eager_cond_and_while(_: Path) -> Any:
    def both(x: Any) -> Any:
        x = tf.cond(tf.reduce_sum(x) > 0, lambda: x * x, lambda: -x)
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.sin(y)), (0, x))[1]

    return both, (x_of(),)


@setting
def _traced_cond(_: Path) -> Any:
    @tf.function
    def branch(x: Any) -> Any:
        return x * x if tf.reduce_sum(x) > 0 else tf.exp(x)

    return branch, (-x_of(),)


@setting
def _traced_while_with_variable(_: Path) -> Any:
    w = tf.Variable([1.0, 2.0, 3.0], name="w")

    @tf.function
    def loop(x: Any) -> Any:
        i = tf.constant(0)
        while i < 3:
            x = tf.sin(x) * w
            i += 1
        return x

    return loop, (x_of(),)


@setting
def _switch_case(_: Path) -> Any:
    @tf.function
    def case(x: Any) -> Any:
        return tf.switch_case(tf.constant(1), [lambda: x, lambda: x * x, lambda: -x])

    return case, (x_of(),)


@setting
def _nested_functions(_: Path) -> Any:
    inner = tf.function(lambda x: tf.sin(x) * 2.0)
    return tf.function(lambda x: inner(x) + inner(x * x)), (x_of(),)


@setting
def _differentiated_before(_: Path) -> Any:
    """Its graph was extended for a backward pass."""

    @tf.function
    def loop(x: Any) -> Any:
        for _ in tf.range(3):
            x = tf.sin(x) * x
        return x

    plain_gradients(loop, (x_of(),))
    return loop, (x_of(),)


@setting
def _concrete_function(_: Path) -> Any:
    traced = tf.function(lambda x: tf.nn.softmax(x) * x)
    return traced.get_concrete_function(tf.TensorSpec((2, 3))), (x_of(),)


@setting
def _compiled(_: Path) -> Any:
    return tf.function(lambda x: tf.nn.gelu(x) * x, jit_compile=True), (x_of(),)


@setting
def _ragged(_: Path) -> Any:
    rows = tf.RaggedTensor.from_row_lengths([1.0, 2.0, 3.0, 4.0], [1, 3])
    return lambda r: tf.reduce_sum(r * r, axis=1), (rows,)


@setting
def _gather_of_variable(_: Path) -> Any:
    table = tf.Variable(np.ones((5, 3), np.float32), name="table")
    return lambda x: tf.gather(table, [1, 1, 4]) * x[:1], (x_of(),)


@setting
def _embedding(_: Path) -> Any:
    layer = keras.layers.Embedding(7, 3)
    layer.build()
    ids = tf.constant([[1, 2], [2, 3]])
    return lambda x: layer(ids) * x[:, None, :], (x_of(),)


@setting
def _custom_gradient(_: Path) -> Any:
    return lambda x: clipped(x) * x, (x_of(),)


@setting
def _custom_gradient_traced(_: Path) -> Any:
    return tf.function(lambda x: clipped(x) * x), (x_of(),)


@setting
def _custom_gradient_in_loop(_: Path) -> Any:
    @tf.function
    def loop(x: Any) -> Any:
        for _ in tf.range(3):
            x = clipped(x) * 1.5
        return x

    return loop, (x_of(),)


@setting
def _custom_gradient_of_keras(_: Path) -> Any:
    @keras.ops.custom_gradient
    def tripled(x: Any) -> Any:
        def grad(*args: Any, upstream: Any = None) -> Any:
            return (args[0] if upstream is None else upstream) * 3.0

        return x, grad

    return lambda x: tripled(x) * x, (x_of(),)


@setting
def _pullbacks_gradient(_: Path) -> Any:
    fn = pb.with_gradient(tf.sin, lambda dy: dy * 5.0)
    return lambda x: fn(x) * x, (x_of(),)


@setting
def _pullbacks_gradient_traced(_: Path) -> Any:
    @pb.custom_gradient
    def fn(x: Any) -> Any:
        return tf.sin(x), lambda dy: dy * tf.cos(x) * 2.0

    return tf.function(lambda x: fn(x) * x), (x_of(),)


@setting
def _overridden(_: Path) -> Any:
    return pb.override({"Relu": lambda dy: dy * 3.0})(lambda x: tf.nn.relu(x) * x), (x_of(),)


@setting
def _overridden_traced(_: Path) -> Any:
    traced = tf.function(lambda x: tf.nn.relu(x) * x)
    return pb.override({tf.nn.relu: lambda dy: dy * 3.0})(traced), (x_of(),)


@setting
def _overridden_model(_: Path) -> Any:
    layers = [keras.layers.Dense(4), keras.layers.ReLU(), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((3,)), *layers])
    return pb.override({keras.layers.ReLU: lambda dy: dy})(model), (x_of(),)


@setting
def _recompute_grad(_: Path) -> Any:
    w = tf.Variable([1.0, 2.0, 3.0], name="w")
    return tf.recompute_grad(lambda x: tf.sin(x * w)), (x_of(),)


@setting
def _saved_model(folder: Path) -> Any:
    module = tf.Module()
    module.w = tf.Variable([1.0, 2.0, 3.0], name="w")
    module.call = tf.function(lambda x: tf.tanh(x) * module.w, [tf.TensorSpec((None, 3))])
    tf.saved_model.save(module, str(folder))
    loaded: Any = tf.saved_model.load(str(folder))
    KEPT.append(loaded)
    return loaded.call, (x_of(),)


@setting
def _lstm(_: Path) -> Any:
    layer = keras.layers.LSTM(3)
    layer.build((1, 4, 2))
    return layer, (tf.reshape(tf.linspace(-1.0, 1.0, 8), (1, 4, 2)),)


@setting
def _gru_traced(_: Path) -> Any:
    layer = keras.layers.GRU(3, return_sequences=True)
    layer.build((1, 4, 2))
    return tf.function(layer), (tf.reshape(tf.linspace(-1.0, 1.0, 8), (1, 4, 2)),)


@setting
def _gradients_inside(_: Path) -> Any:
    @tf.function
    def inside(x: Any) -> Any:
        return tf.gradients(tf.sin(x) * x, x)[0] * x

    return inside, (x_of(),)


@setting
def _nested_tapes(_: Path) -> Any:
    def penalty(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(x) * x
        return y + tape.gradient(y, x) ** 2

    return penalty, (x_of(),)


@setting
def _vectorized_map(_: Path) -> Any:
    return lambda x: tf.vectorized_map(lambda row: tf.sin(row) * tf.reduce_sum(row), x), (x_of(),)


@setting
def _map_fn(_: Path) -> Any:
    return lambda x: tf.map_fn(lambda row: tf.sin(row) * 2.0, x), (x_of(),)


@setting
def _map_fn_traced(_: Path) -> Any:
    return tf.function(lambda x: tf.map_fn(lambda row: tf.sin(row) * 2.0, x)), (x_of(),)


@setting
def _scan_traced(_: Path) -> Any:
    return tf.function(lambda x: tf.scan(lambda a, row: tf.sin(a) + row, x)), (x_of(),)


@setting
def _tensor_array(_: Path) -> Any:
    @tf.function
    def stacked(x: Any) -> Any:
        array = tf.TensorArray(tf.float32, 2)
        for i in tf.range(2):
            array = array.write(i, tf.exp(x[i]))
        return array.stack() * x

    return stacked, (x_of(),)


@setting
def _attention(_: Path) -> Any:
    layer = keras.layers.MultiHeadAttention(2, 4)
    x = tf.reshape(tf.linspace(-1.0, 1.0, 24), (2, 3, 4))
    layer.build(x.shape, x.shape)
    return lambda x: layer(x, x, use_causal_mask=True), (x,)


@setting
def _batch_norm_in_training(_: Path) -> Any:
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization()]
    )
    return lambda x: model(x, training=True) ** 2, (x_of(),)


@setting
def _convolutions(_: Path) -> Any:
    layers = [keras.layers.Conv2D(2, 3), keras.layers.MaxPooling2D(), keras.layers.Flatten()]
    model = keras.Sequential([keras.Input((6, 6, 1)), *layers, keras.layers.Dense(2, "softmax")])
    return lambda x: model(x) ** 2, (tf.reshape(tf.linspace(-1.0, 1.0, 36), (1, 6, 6, 1)),)


@setting
def _complex(_: Path) -> Any:
    return lambda z: tf.abs(tf.signal.fft(z * z)), (tf.complex(x_of(), x_of() * 0.5),)


@setting
def _mixed_dtypes(_: Path) -> Any:
    return lambda x: tf.cast(tf.cast(x, tf.float64) * 2.0, tf.float16), (x_of(),)


@setting
def _several_outputs(_: Path) -> Any:
    return lambda x: {"a": tf.unstack(x)[0], "b": tf.linalg.svd(x, compute_uv=False)}, (x_of(),)


@setting
def _gradient_override_map(_: Path) -> Any:
    @tf.function
    def mapped(x: Any) -> Any:
        with tf.compat.v1.get_default_graph().gradient_override_map({"Sin": "ExplainTestSin"}):
            return tf.sin(x) * x

    return mapped, (x_of(),)


@tf.custom_gradient
def clipped(x: Any) -> Any:
    def grad(dy: Any) -> Any:
        return tf.clip_by_value(dy * x, -0.5, 0.5)

    return tf.identity(x), grad


@tf.RegisterGradient("ExplainTestSin")
def _sin_gradient(op: Any, dy: Any) -> Any:
    return dy * op.inputs[0] * 7.0


@pytest.mark.parametrize("name", SETTINGS)
def test_the_gradients_told_are_the_plain_ones(name: str, tmp_path: Path) -> None:
    fn, args = SETTINGS[name](tmp_path)
    of_arguments, of_variables = plain_gradients(fn, args)
    flow = pb.explain(fn, *args)
    told = {id(thing): flow.sources[position] for thing, position in flow.objects}
    arguments = [source for source in flow.sources if source.kind == "argument"]
    assert flow.notes == ()
    for source, gradient in zip(arguments, of_arguments, strict=True):
        assert_size(source.gradient, gradient)
    for variable, gradient in of_variables:
        assert_size(told[id(variable)].gradient, gradient)
    assert OPAQUE.isdisjoint(node.type for node in flow.nodes)


def test_only_a_python_function_is_one_node() -> None:
    x = x_of()
    fn = tf.function(lambda x: tf.py_function(lambda x: tf.sin(x) * x, [x], tf.float32) * 2.0)
    (plain,), _ = plain_gradients(fn, (x,))
    flow = pb.explain(fn, x)
    assert flow.notes == ()
    assert_size(flow.sources[0].gradient, plain)
    assert "EagerPyFunc" in {node.type for node in flow.nodes}


def test_a_flow_is_written_to_a_file_and_read_again(tmp_path) -> None:
    w = tf.Variable([2.0, -1.0], name="w")
    flow = pb.explain(
        lambda x: tf.sqrt(tf.reduce_sum(tf.round(x) * w)) / 0.0, tf.constant(X[0, :2])
    )
    flow.save(tmp_path / "flow.json")
    for read in (Flow.load(tmp_path / "flow.json"), pickle.loads(pickle.dumps(flow))):
        assert str(read) == str(flow)
        assert read.why("x") == flow.why("x")
        assert read.first_nonfinite() == flow.first_nonfinite()
        assert list(read.residuals()) == list(flow.residuals())
        assert flow.compare(read).differing == ()
        assert read.seconds == flow.seconds
        assert [s.hints for s in read.sources] == [s.hints for s in flow.sources]


@pytest.mark.parametrize("text", ["", "[]", '{"name": "f"}', '{"name": 3}'])
def test_what_is_no_flow_is_refused(text, tmp_path) -> None:
    (tmp_path / "flow.json").write_text(text)
    with pytest.raises(ExplainError, match=r"flow\.json holds no flow of this version"):
        Flow.load(tmp_path / "flow.json")
