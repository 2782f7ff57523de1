"""Functions without Python source: loaded, concrete and pruned; and export to a process without pullback."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExportError, UnreachableOverride
from tests.override.helpers import PLAIN_RELU, SEVEN, X, gradient, tenfold, times_seven

SPEC = tf.TensorSpec([3])


class Saved(tf.Module):
    """Functions of several kinds, to be saved."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable([2.0, 3.0, 4.0])

    @tf.function(input_signature=[SPEC])
    def relu(self, x: Any) -> Any:
        with tf.name_scope("block"):
            return tf.nn.relu(x)

    @tf.function(input_signature=[SPEC])
    def nested(self, x: Any) -> Any:
        return self.relu(x) * self.weight

    @tf.function(input_signature=[SPEC])
    def loop(self, x: Any) -> Any:
        for _ in tf.range(2):
            if tf.reduce_sum(x) > 0.0:
                x = tf.nn.relu(x)
        return x

    @tf.function(input_signature=[SPEC])
    def custom(self, x: Any) -> Any:
        @tf.custom_gradient
        def doubled(a: Any) -> Any:
            b = a * 2.0
            return b, lambda dy: dy * b

        return doubled(tf.nn.relu(x))

    @tf.function(input_signature=[SPEC])
    def stacked(self, x: Any) -> Any:
        return {"both": tf.stack([x, 2.0 * x], axis=1)}


WANTED = {
    "relu": SEVEN,
    "nested": [-14.0, -21.0, -28.0],
    "loop": [49.0] * 3,
    "custom": [-14.0, 0.0, -28.0],  # the custom gradient is dy · 2 relu(x)
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = str(tmp_path_factory.mktemp("saved"))
    tf.saved_model.save(Saved(), folder)
    return tf.saved_model.load(folder)


@pytest.mark.parametrize(
    "wrap", [lambda f: f, lambda f: tf.function(lambda x: f(x))], ids=["eager", "graph"]
)
@pytest.mark.parametrize("target", ["Relu", tf.nn.relu])
@pytest.mark.parametrize("name", WANTED)
def test_a_loaded_function(loaded: Any, name: str, target: Any, wrap: Any) -> None:
    function = getattr(loaded, name)
    plain = gradient(function)
    changed = pb.override({target: times_seven})
    assert gradient(changed(wrap(function))) == WANTED[name]
    with changed:
        assert gradient(wrap(function)) == WANTED[name]
    assert gradient(function) == plain
    assert {m.mode for m in changed.audit.rows[0].matches} <= {"rewritten", "cached"}


@pytest.mark.parametrize("name", WANTED)
def test_a_concrete_function(name: str) -> None:
    module = Saved()
    function = getattr(module, name).get_concrete_function()
    assert gradient(pb.override({"Relu": times_seven})(function)) == WANTED[name]


def test_variables_of_a_loaded_function_keep_their_gradient(loaded: Any) -> None:
    with tf.GradientTape() as tape:
        y = pb.override({"Relu": times_seven})(loaded.nested)(tf.constant(X))
    assert tape.gradient(y, loaded.weight).numpy().tolist() == [1.0, 0.0, 2.0]


def test_second_order_and_xla_of_a_loaded_function(loaded: Any) -> None:
    def squared(dy: Any, *, inputs: Any) -> Any:
        return dy * inputs[0] ** 2

    changed, x = pb.override({tf.nn.relu: squared})(loaded.relu), tf.constant(X)
    for function in (changed, tf.function(lambda v: changed(v), jit_compile=True)):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = function(x)
            first = inner.gradient(y, x)
        assert first.numpy().tolist() == [1.0, 1.0, 4.0]
        assert outer.gradient(first, x).numpy().tolist() == [2.0, -2.0, 4.0]


def test_a_function_of_several_arguments_sees_them_in_a_loaded_graph(loaded: Any) -> None:
    def along(dy: Any, *, inputs: Any) -> Any:
        assert len(inputs["values"]) == 2
        return [10.0 * g for g in tf.unstack(dy, axis=inputs["axis"])]

    assert (
        gradient(pb.override({tf.stack: along})(lambda x: loaded.stacked(x)["both"])) == [30.0] * 3
    )


def test_names_of_a_loaded_graph(loaded: Any) -> None:
    for target in (re.compile("block/Relu"), pb.inside(re.compile("block"), "Relu")):
        assert gradient(pb.override({target: times_seven})(loaded.relu)) == SEVEN


def test_a_composite_function_is_out_of_reach_there(loaded: Any) -> None:
    with pytest.raises(UnreachableOverride, match="only ops are left"):
        pb.override({tf.nn.gelu: times_seven})(loaded.relu)(tf.constant(X))


@pytest.mark.parametrize("endpoint", ["serve", "serving_default"])
def test_a_layer_around_a_saved_model(tmp_path: Path, endpoint: str) -> None:
    inputs = keras.Input((3,))
    dense = keras.layers.Dense(2, activation="relu", use_bias=False, kernel_initializer="ones")
    keras.Model(inputs, dense(inputs)).export(tmp_path / "m", verbose=False)
    layer = keras.layers.TFSMLayer(tmp_path / "m", call_endpoint=endpoint)

    def output(x: Any) -> Any:
        return tf.nest.flatten(layer(x))[0]

    assert gradient(output, np.ones([1, 3], "f")) == [[2.0] * 3]
    assert gradient(pb.override({"Relu": times_seven})(output), np.ones([1, 3], "f")) == [
        [-14.0] * 3
    ]


READER = """
import json, sys
import tensorflow as tf
assert "pullback" not in sys.modules
x = tf.constant([[1.0, -1.0, 2.0]])
model = tf.saved_model.load(sys.argv[1])
with tf.GradientTape() as outer:
    outer.watch(x)
    with tf.GradientTape() as inner:
        inner.watch(x)
        y = tf.reduce_sum(model.serve(x))
    first = inner.gradient(y, x)
second = outer.gradient(first, x)
graph = tf.function(lambda v: tf.gradients(model.serve(v), v)[0])(x)
found = [None if g is None else g.numpy()[0].tolist() for g in (first, second, graph)]
print(json.dumps(found))
"""


def read_elsewhere(path: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", READER, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def by_square(dy: Any, *, inputs: Any) -> Any:
    return dy * inputs[0] ** 2


def branching(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.nn.relu(x), lambda: x)


def looping(x: Any) -> Any:
    return tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, tf.nn.relu(a)), [0, x])[1]


def gelu_branch(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.nn.gelu(x), lambda: x)


def half(dy: Any, *, original: Any) -> Any:
    return [0.5 * g for g in original(dy)]


SQUARES, TWICE, ZERO = [1.0, 1.0, 4.0], [2.0, -2.0, 4.0], [0.0] * 3
EXPORTS = {
    "op": ({"Relu": by_square}, tf.nn.relu, SQUARES, TWICE),
    "original": ({tf.nn.relu: tenfold}, tf.nn.relu, [10.0, 0.0, 10.0], ZERO),
    "cond": ({"Relu": by_square}, branching, SQUARES, TWICE),
    "while": ({"Relu": tenfold}, looping, [100.0, 0.0, 100.0], ZERO),
    "nested": ({tf.nn.relu: by_square}, tf.function(tf.nn.relu), SQUARES, TWICE),
    "stack": ({tf.stack: half}, lambda x: tf.stack([x, 2.0 * x], axis=1), [1.5] * 3, ZERO),
    "region": ({tf.nn.gelu: by_square}, tf.nn.gelu, SQUARES, TWICE),
    "region in cond": ({tf.nn.gelu: by_square}, gelu_branch, SQUARES, TWICE),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_exported_gradients_survive_without_pullback(name: str, tmp_path: Path) -> None:
    rules, function, first, second = EXPORTS[name]
    pb.export(
        pb.override(rules)(function), tmp_path / "model", signature=[tf.TensorSpec([None, 3])]
    )
    found = read_elsewhere(tmp_path / "model")
    for one, other in zip(found, (first, second, first), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_an_exported_model_with_a_layer_as_target(tmp_path: Path) -> None:
    ones = {"kernel_initializer": "ones", "use_bias": False}
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, **ones),
            keras.layers.BatchNormalization(epsilon=0.0),
        ]
    )
    pb.export(pb.override({model.layers[1]: tenfold})(model), tmp_path / "model")
    first, _, graph = read_elsewhere(tmp_path / "model")
    assert first == graph == [20.0] * 3


def test_what_cannot_be_exported_leaves_nothing_behind(tmp_path: Path) -> None:
    def in_numpy(dy: Any) -> Any:
        return tf.numpy_function(lambda a: a * 2.0, [dy], tf.float32)

    changed = pb.override({"Relu": in_numpy})(tf.nn.relu)
    with pytest.raises(ExportError, match="calls back into Python"):
        pb.export(changed, tmp_path / "model", signature=[tf.TensorSpec([3])])
    with pytest.raises(ExportError, match="signature="):
        pb.export(changed, tmp_path / "model")
    with pytest.raises(ExportError, match="carries no override"):
        pb.export(tf.nn.relu, tmp_path / "model", signature=[tf.TensorSpec([3])])
    with pytest.raises(ExportError, match="wanted a function or model"):
        pb.export("model", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_folder_in_use_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "keep.txt").write_text("mine")
    with pytest.raises(ExportError, match="exists already"):
        pb.export(pb.override({"Relu": times_seven})(tf.nn.relu), tmp_path, signature=[SPEC])


def test_the_written_function_runs_here_too(tmp_path: Path) -> None:
    pb.export(pb.override({"Relu": times_seven})(tf.nn.relu), tmp_path / "model", signature=[SPEC])
    assert gradient(tf.saved_model.load(str(tmp_path / "model")).serve) == SEVEN
    assert gradient(tf.nn.relu) == PLAIN_RELU


class Weighted(tf.Module):
    """Functions that read a variable where TensorFlow runs a function of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = tf.Variable(2.0)

    def step(self, x: Any) -> Any:
        return tf.nn.relu(x * self.weight)

    @tf.function(input_signature=[SPEC])
    def in_loop(self, x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, self.step(a)), (0, x))[1]

    @tf.function(input_signature=[SPEC])
    def in_branch(self, x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: self.step(self.step(x)), lambda: x)

    @tf.function(input_signature=[SPEC])
    def in_function(self, x: Any) -> Any:
        inner = tf.function(self.step)
        return inner(inner(x))

    @tf.function(input_signature=[SPEC])
    def in_map(self, x: Any) -> Any:
        return tf.map_fn(lambda a: self.step(self.step(a)), x)


@pytest.mark.parametrize("kind", ["loaded", "concrete"])
@pytest.mark.parametrize("name", ["in_loop", "in_branch", "in_function", "in_map"])
def test_variables_in_functions_of_a_copied_graph(name: str, kind: str, tmp_path: Path) -> None:
    module = Weighted()
    x = tf.constant([1.0, 2.0, 3.0])
    if kind == "loaded":
        tf.saved_model.save(module, str(tmp_path))
        module = tf.saved_model.load(str(tmp_path))
    function = getattr(module, name)
    function = function if kind == "loaded" else function.get_concrete_function()
    with pb.override({"Relu": tenfold}), tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(function(x))
    dx, dw = tape.gradient(y, [x, module.weight])
    # relu(relu(x w) w) is x w² here: 10 for the outer one, 100 through both
    np.testing.assert_allclose(dw, (10.0 + 100.0) * 2.0 * (1 + 2 + 3))
    np.testing.assert_allclose(dx, np.full(3, 100.0 * 4.0))
