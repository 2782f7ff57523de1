"""Export of functions that call an overridden model: pre- and post-processing, saliency maps, models that hold one."""

from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExportError
from tests.override.helpers import tenfold, times_seven
from tests.override.keras_models import functional, input_gradient

SPEC = [tf.TensorSpec([None, 3])]
WANTED = -686.0


def overridden() -> Any:
    return pb.override({tf.nn.relu: times_seven})(functional())


def served(function: Any, folder: Path, **options: Any) -> Any:
    pb.export(function, folder / "model", **options)
    loaded = tf.saved_model.load(str(folder / "model"))
    return lambda x: (loaded, loaded.serve(x))[1]


def test_the_signature_of_a_traced_function(tmp_path: Path) -> None:
    function = tf.function(overridden(), input_signature=SPEC)
    assert input_gradient(served(function, tmp_path)) == WANTED


def test_a_function_around_a_model(tmp_path: Path) -> None:
    model = overridden()

    def scaled(x: Any) -> Any:
        if tf.reduce_sum(x) > 0.0:
            return model(2.0 * x)
        return model(3.0 * x)

    assert input_gradient(served(scaled, tmp_path, signature=SPEC)) == 2.0 * WANTED


def test_functions_that_were_traced_before(tmp_path: Path) -> None:
    model = overridden()
    inner = tf.function(lambda x: model(2.0 * x))
    outer = tf.function(lambda x: 3.0 * inner(x), input_signature=SPEC)
    assert input_gradient(outer) == 6.0 * WANTED
    assert input_gradient(served(outer, tmp_path)) == 6.0 * WANTED
    assert input_gradient(outer) == 6.0 * WANTED


def test_a_saliency_map_with_its_tape(tmp_path: Path) -> None:
    model = overridden()

    @tf.function(input_signature=SPEC)
    def saliency(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = model(x)
        return {"y": y, "map": tape.gradient(y, x)}

    found = served(saliency, tmp_path)(tf.ones([2, 3]))
    assert found["map"].numpy().tolist() == [[WANTED] * 3] * 2
    assert found["y"].numpy().tolist() == [[6.0]] * 2


def test_a_method(tmp_path: Path) -> None:
    class Module(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = overridden()

        @tf.function(input_signature=SPEC)
        def run(self, x: Any) -> Any:
            return self.model(x)

    module = Module()
    assert input_gradient(served(module.run, tmp_path)) == WANTED
    with pytest.raises(ExportError, match=r"'.*Relu' has an overridden gradient.*pb\.export"):
        tf.saved_model.save(module, str(tmp_path / "theirs"))


def test_an_op_inside_a_layer_that_is_a_target_itself(tmp_path: Path) -> None:
    model = pb.override({keras.layers.Dense: tenfold, "Relu": times_seven})(functional())
    assert input_gradient(served(model, tmp_path)) == 100.0 * WANTED


def test_what_runs_under_no_override(tmp_path: Path) -> None:
    model = functional()
    for plain in (model, tf.function(lambda x: model(x), input_signature=SPEC)):
        with pytest.raises(ExportError, match="carries no override, and calls nothing that does"):
            pb.export(plain, tmp_path / "model")
    with pytest.raises(ExportError, match="the shapes and dtypes of the arguments are needed"):
        pb.export(tf.function(lambda x: model(x)), tmp_path / "model")
    assert not (tmp_path / "model").exists()
