"""Gradients in a SavedModel, read by a process that does not import the library."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from tests.define import saved_pieces as pieces
from tests.define.keras_pieces import ROWS, half, input_gradient, network, straight_through

ROOT = Path(__file__).parents[2]


def cubed(dy, *, inputs):
    return dy * inputs[0] ** 3


def seven(dy):
    return 7.0 * dy


class Module(tf.Module):
    """One method for each way in which a gradient reaches a SavedModel."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(pieces.W, name="w")

    def constant(self, x):
        return pb.with_gradient(tf.round, seven)(x)

    def from_input(self, x):
        return pb.with_gradient(tf.sin, cubed)(x)

    def from_intermediate(self, x):
        @pb.custom_gradient
        def function(x):
            hidden = tf.exp(x)

            def backward(dy):
                return dy * hidden

            return tf.sin(x), backward

        return function(x)

    def from_output(self, x):
        @pb.custom_gradient
        def function(x):
            y = tf.tanh(x)

            def backward(dy):
                return 5.0 * dy * y

            return y, backward

        return function(x)

    def original(self, x):
        return pb.with_gradient(lambda x: x**3, half)(x)

    def captured(self, x):
        return pb.with_gradient(lambda x: x * self.w, seven)(x)

    def asks_for_variables(self, x):
        def rule(dy, *, variables):
            return 7.0 * dy, [10.0 * dy for _ in variables]

        return pb.with_gradient(lambda x: x * self.w, rule)(x)

    def in_cond(self, x):
        function = pb.with_gradient(tf.sin, seven)
        return tf.cond(tf.reduce_sum(x) < 100.0, lambda: function(x), lambda: x)

    def in_loop(self, x):
        def twice(dy):
            return 2.0 * dy

        function = pb.with_gradient(lambda x: x * 1.0, twice)
        for _ in tf.range(3):
            x = function(x)
        return x

    def structures(self, x):
        @pb.custom_gradient
        def function(parts, mode):
            def backward(upstream):
                return {"a": upstream["sum"], "b": [2.0 * upstream["sum"]]}

            return {"sum": parts["a"] + parts["b"][0]}, backward

        return function({"a": x, "b": [x]}, "mode")["sum"]

    def unknown_shape(self, x):
        return pb.with_gradient(lambda x: x * 1.0, cubed)(x)

    def partials(self, x):
        return pb.with_partials(lambda x: x * 1.0, x=tf.cos)(x)

    def inner_function(self, x):
        return tf.function(pb.with_gradient(tf.sin, cubed))(x)


def saved(path: Path) -> str:
    module = Module()
    for name in pieces.WANTED:
        size = None if name == "unknown_shape" else 3
        spec = tf.TensorSpec([size], tf.float32)
        setattr(module, name, tf.function(getattr(module, name), input_signature=[spec]))
    tf.saved_model.save(module, str(path))
    return str(path)


READ = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("saved_pieces", {pieces!r})
pieces = importlib.util.module_from_spec(spec)
spec.loader.exec_module(pieces)
print(pieces.check({module!r}))
import keras
loaded = keras.layers.TFSMLayer({layer!r}, call_endpoint="serve")
import numpy as np, tensorflow as tf
rows = tf.constant(np.load({rows!r}))
with tf.GradientTape() as tape:
    tape.watch(rows)
    outputs = loaded(rows)
print(tape.gradient(outputs, rows).numpy().tolist())
print("pullback" in sys.modules)
"""


def exported_model(path: Path) -> Any:
    model = network(pb.with_gradient(keras.layers.Dense(3, activation=straight_through), half))
    model.export(path, verbose=False)
    return input_gradient(model)


def test_a_process_without_the_library_gets_the_same_gradients(tmp_path: Path) -> None:
    wanted = exported_model(tmp_path / "layer")
    np.save(tmp_path / "rows.npy", ROWS)
    code = READ.format(
        pieces=pieces.__file__,
        module=saved(tmp_path / "module"),
        layer=str(tmp_path / "layer"),
        rows=str(tmp_path / "rows.npy"),
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    wrong, found, library = ran.stdout.splitlines()[-3:]
    assert (eval(wrong), library) == ([], "False")
    np.testing.assert_allclose(eval(found), wanted, rtol=1e-5)


def test_the_same_process_gets_the_same_gradients(tmp_path: Path) -> None:
    assert pieces.check(saved(tmp_path / "module")) == []


def test_saved_again_after_loading(tmp_path: Path) -> None:
    loaded = tf.saved_model.load(saved(tmp_path / "once"))
    tf.saved_model.save(loaded, str(tmp_path / "twice"))
    assert pieces.check(str(tmp_path / "twice")) == []


def test_a_loaded_function_may_be_wrapped_again(tmp_path: Path) -> None:
    loaded = tf.saved_model.load(saved(tmp_path / "module"))
    again = pb.with_gradient(loaded.from_input, half)
    found = pieces.gradients(again, loaded.w)
    np.testing.assert_allclose(found[0], 0.5 * pieces.X**3, rtol=1e-5)


@pb.custom_gradient
def explicit(x):
    def backward(dy):
        def second(ddx):
            return 11.0 * ddx

        return 7.0 * dy * x, second

    return tf.sin(x), backward


def test_an_explicit_second_is_lost_but_never_silently(tmp_path: Path) -> None:
    """TensorFlow saves the gradient of a function, not the gradient of that gradient."""
    module = tf.Module()
    module.f = tf.function(explicit, input_signature=[tf.TensorSpec([3], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "module"))
    loaded, x = tf.saved_model.load(str(tmp_path / "module")), tf.constant(pieces.X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = loaded.f(x)
    np.testing.assert_allclose(tape.gradient(y, x), 7 * pieces.X)
    with pytest.raises((LookupError, TypeError), match=r"gradient|out of scope"):
        pieces.gradients(loaded.f, tf.Variable(1.0))


def residual_in_cond(x):
    function = pb.with_gradient(tf.sin, cubed)
    return tf.cond(tf.reduce_sum(x) < 100.0, lambda: function(x), lambda: x)


def residual_in_loop(x):
    for _ in tf.range(3):
        x = pb.with_gradient(tf.sin, cubed)(x)
    return x


@pytest.mark.parametrize("function", [residual_in_cond, residual_in_loop])
def test_a_residual_of_a_branch_is_lost_but_never_silently(function: Any, tmp_path: Path) -> None:
    """TensorFlow does not bind what a saved gradient reads inside a branch or a loop."""
    module = tf.Module()
    module.f = tf.function(function, input_signature=[tf.TensorSpec([3], tf.float32)])
    tf.saved_model.save(module, str(tmp_path / "module"))
    loaded = tf.saved_model.load(str(tmp_path / "module"))
    np.testing.assert_allclose(loaded.f(pieces.X), module.f(pieces.X))
    with pytest.raises((AssertionError, TypeError), match=r"^$|out of scope"):
        pieces.gradients(loaded.f, tf.Variable(1.0))


def test_a_rule_that_cannot_be_traced_is_named_when_saving(tmp_path: Path) -> None:
    def wrong(dy):
        return dy[:1]

    module = tf.Module()
    module.f = tf.function(
        pb.with_gradient(tf.sin, wrong), input_signature=[tf.TensorSpec([3], tf.float32)]
    )
    with pytest.raises(ValueError, match="Error when tracing gradients") as caught:
        tf.saved_model.save(module, str(tmp_path / "module"))
    assert "rule wrong (" in str(caught.value.__cause__)
