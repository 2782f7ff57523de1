"""What surrounds a map: nothing is changed, memory is bounded, and it can be traced and differentiated."""

import io
import random
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from rich.console import Console

import pullback as pb
from pullback.errors import SaliencyError
from pullback.saliency import progress, task
from pullback.saliency.methods import METHODS
from tests.saliency.models import Subclassed, images, network, randomised, text_model, tokens

CLOSE: dict[str, float] = {"rtol": 1e-5, "atol": 1e-6}


class Counting(keras.Model):
    """A model that writes a variable and draws random numbers whenever it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = self.add_weight(shape=(), initializer="zeros", trainable=False, name="runs")
        self.dense = keras.layers.Dense(3, activation="relu")

    def call(self, x: Any) -> Any:
        self.runs.assign_add(1.0)
        return self.dense(x + 0.0 * tf.random.normal(tf.shape(x)) + 0.0 * np.random.rand())


@pytest.mark.parametrize("method", METHODS)
def test_the_model_is_left_as_it_is(method: str) -> None:
    model, x = network(), images()
    before = [v.numpy() for v in model.variables]
    config = model.get_config()
    pb.saliency(model, x, method=method)
    for variable, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)
    assert model.get_config() == config


def test_variables_and_random_numbers_are_what_they_were() -> None:
    model, x = Counting(), np.ones((2, 4), "f")
    model(x)
    tf.random.set_seed(3)
    np.random.seed(3)
    random.seed(3)
    expected = [tf.random.normal([2]).numpy(), np.random.rand(2), random.random()]
    tf.random.set_seed(3)
    np.random.seed(3)
    random.seed(3)
    pb.saliency(model, x, 1, "integrated")
    found = [tf.random.normal([2]).numpy(), np.random.rand(2), random.random()]
    np.testing.assert_array_equal(model.runs.numpy(), 1.0)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("method", METHODS)
def test_a_small_budget_gives_the_same_in_parts(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, x = network(), images(5)
    few: dict[str, Any] = {
        "integrated": {"steps": 8, "max_steps": 8, "tolerance": 1.0},
        "smoothgrad": {"samples": 8},
    }
    options = few.get(method, {})
    whole = pb.saliency(model, x, method=method, **options)
    sizes: list[int] = []
    monkeypatch.setattr(task, "BUDGET", 40_000)  # three examples or so
    run = task.Task.run

    def counted(self: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        if options.get("differentiate", True):
            sizes.append(inputs[0].shape[0])
        return run(self, inputs, *args, **options)

    monkeypatch.setattr(task.Task, "run", counted)
    parts = pb.saliency(model, x, method=method, **options)
    assert len(sizes) > 2
    assert max(sizes) <= 3
    np.testing.assert_allclose(parts.values, whole.values, **CLOSE)


def test_tokens_begin_with_one_example_and_go_on_with_many() -> None:
    model, ids = text_model(), tokens(40)
    batches: list[int] = []
    seen = keras.Model(model.inputs, model.outputs)

    def counted(x: Any) -> Any:
        batches.append(int(x.shape[0]))
        return seen(x)

    pb.saliency(counted, ids, 1, "gradient")
    assert batches == [1, 40]


@pytest.mark.parametrize("method", METHODS)
def test_in_a_traced_program(method: str) -> None:
    model, x = network("tanh"), images(2)

    @tf.function
    def traced(x: Any) -> Any:
        return pb.saliency(model, x, 1, method).tensor

    expected = pb.saliency(model, x, 1, method).values
    np.testing.assert_allclose(traced(tf.constant(x)), expected, **CLOSE)


def test_in_a_traced_program_of_any_number_of_examples() -> None:
    model, x = network(), images(2)

    @tf.function(input_signature=[tf.TensorSpec([None, *x.shape[1:]])])
    def traced(x: Any) -> Any:
        return pb.saliency(model, x, 1, "guided").tensor

    expected = pb.saliency(model, x, 1, "guided").values
    np.testing.assert_allclose(traced(tf.constant(x)), expected, **CLOSE)

    @tf.function(input_signature=[tf.TensorSpec([None, *x.shape[1:]])])
    def averaged(x: Any) -> Any:
        return pb.saliency(model, x, 1, "integrated").tensor

    with pytest.raises(SaliencyError, match="their number must be known"):
        averaged(tf.constant(x))


def test_numbers_of_a_traced_map_are_not_known_yet() -> None:
    @tf.function
    def traced(x: Any) -> Any:
        return pb.saliency(lambda v: tf.square(v), x, 0, "gradient").values

    with pytest.raises(SaliencyError, match=r"Return its `\.tensor`"):
        traced(tf.ones([1, 2]))


def test_a_map_is_differentiable() -> None:
    """The map of Σ w x³ is 3 w x², whose derivatives are 6 w x and 3 x²."""
    w = tf.Variable([2.0, -1.0])
    x = tf.constant([[1.0, 3.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        found = pb.saliency(lambda v: tf.reduce_sum(w * v**3, 1), x, method="gradient")
    dx, dw = tape.gradient(found.tensor, [x, w])
    np.testing.assert_allclose(found.values, [[6.0, -27.0]])
    np.testing.assert_allclose(dx, [[12.0, -18.0]])
    np.testing.assert_allclose(dw, [3.0, 27.0])


def test_an_averaged_map_is_differentiable() -> None:
    """From zero, the contributions to Σ w x³ are its terms."""
    w = tf.Variable([2.0, -1.0])
    x = tf.constant([[1.0, 3.0]])
    with tf.GradientTape() as tape:
        found = pb.saliency(lambda v: tf.reduce_sum(w * v**3, 1), x, method="integrated")
    np.testing.assert_allclose(found.values, [[2.0, -27.0]], rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(found.tensor, w), [1.0, 27.0], rtol=1e-5)


def test_smoothgrad_is_the_same_with_the_same_seed() -> None:
    model, x = network(), images(2)
    one, same, other = (
        pb.saliency(model, x, 1, "smoothgrad", samples=5, seed=seed).values for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-3


def test_a_model_that_was_never_called() -> None:
    model = Subclassed()
    found = pb.saliency(model, images(2), 1, "guided")
    assert found.audit is not None
    assert found.audit.complete


def test_progress_is_shown_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    for patience, is_shown in ((0.0, True), (60.0, False)):
        monkeypatch.setattr(progress, "PATIENCE", patience)
        text = io.StringIO()
        with progress.shown("saliency of net", Console(file=text, force_terminal=True)) as tell:
            tell(0.5)
        assert ("saliency of net" in text.getvalue()) is is_shown


def test_mixed_precision() -> None:
    policy = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy("mixed_float16")
    try:
        model = randomised(
            keras.Sequential(
                [
                    keras.Input((4,)),
                    keras.layers.Dense(8, activation="relu"),
                    keras.layers.Dense(3),
                    keras.layers.Activation("softmax", dtype="float32"),
                ]
            )
        )
    finally:
        keras.mixed_precision.set_dtype_policy(policy)
    x = np.random.default_rng(0).normal(size=(2, 4)).astype("f")
    found = pb.saliency(model, x, 1, "guided")
    assert found.values.dtype == np.float32
    assert "softmax in the end is looked through" in found.note
    assert found.audit is not None
    assert found.audit.complete
