"""`pb.keras.WatchGradients`: `fit` stops at the first bad step and says where it came from."""

import functools
import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

BAD = 5  # the number of the bad batch


class Length(keras.layers.Layer):
    """The gradient of a norm is not finite at zero."""

    def call(self, x):
        return x + tf.norm(x, axis=-1, keepdims=True)  # HERE


def line_of_the_norm() -> str:
    lines, first = inspect.getsourcelines(Length)
    line = next(k for k, text in enumerate(lines) if "# HERE" in text)
    return f"test_watching.py:{first + line}"


def model_with_a_norm(**options) -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(4, use_bias=False),
            Length(name="length"),
            keras.layers.Dense(1),
        ]
    )
    model.compile(keras.optimizers.SGD(0.01), "mse", **options)
    return model


def data(bad: int = BAD) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).normal(size=(32, 3)).astype("float32")
    x[4 * bad] = 0.0
    return x, np.ones((32, 1), "float32")


def fit(model: keras.Model, *callbacks, n: int = 32, **options):
    x, y = data()
    return model.fit(
        x[:n], y[:n], batch_size=4, shuffle=False, verbose=0, callbacks=callbacks, **options
    )


@functools.cache
def weights_before() -> list[np.ndarray]:
    model = model_with_a_norm()
    fit(model, n=4 * BAD)
    return model.get_weights()


@pytest.mark.parametrize("every", [1, 3, 100])
@pytest.mark.parametrize(
    "options",
    [{}, {"jit_compile": True}, {"run_eagerly": True}, {"steps_per_execution": 2}],
    ids=lambda options: next(iter(options), "traced"),
)
def test_it_stops_at_the_first_bad_step(options, every, capsys) -> None:
    model, watch = model_with_a_norm(**options), pb.keras.WatchGradients(every=every)
    fit(model, watch, epochs=2)
    assert watch.step == BAD
    assert watch.nonfinite is not None
    assert watch.nonfinite.line.endswith(line_of_the_norm())
    assert watch.nonfinite.layer.endswith("length")
    for got, wanted in zip(model.get_weights(), weights_before(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    assert "norm of a vector of zeros" in capsys.readouterr().out


def test_where_all_is_well_nothing_changes() -> None:
    plain, watched = model_with_a_norm(), model_with_a_norm()
    watch = pb.keras.WatchGradients()
    before = fit(plain, n=4 * BAD).history
    assert fit(watched, watch, n=4 * BAD).history == before
    assert (watch.flow, watch.nonfinite, watch.step) == (None, None, None)
    for got, wanted in zip(watched.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_a_loss_that_is_not_finite_is_found_in_the_data() -> None:
    model, watch = model_with_a_norm(), pb.keras.WatchGradients(every=10)
    x, y = data()
    y[9] = np.nan
    model.fit(x, y, batch_size=4, shuffle=False, verbose=0, callbacks=[watch])
    assert watch.step == 2
    assert watch.nonfinite is not None
    assert watch.nonfinite.direction == "input"


def unbuilt_model(optimizer: str, built: bool) -> keras.Model:
    keras.utils.set_random_seed(2)
    layers = [
        keras.layers.Dense(4, "tanh"),
        keras.layers.Dropout(0.2, seed=3),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential([*([keras.Input((3,))] if built else []), *layers])
    momentum = {"momentum": 0.9} if optimizer == "SGD" else {}
    model.compile(getattr(keras.optimizers, optimizer)(0.01, **momentum), "mse")
    return model


def state_of(model: keras.Model) -> list[np.ndarray]:
    return [v.numpy() for v in [*model.variables, *model.optimizer.variables]]


@functools.cache
def state_before(optimizer: str, steps: int) -> list[np.ndarray]:
    model = unbuilt_model(optimizer, True)
    model.optimizer.build(model.trainable_variables)
    if steps:
        fit(model, n=4 * steps)
    return state_of(model)


@pytest.mark.parametrize("built", [True, False], ids=["built", "unbuilt"])
@pytest.mark.parametrize("bad", [0, 3])
@pytest.mark.parametrize("optimizer", ["Adam", "SGD", "RMSprop"])
def test_slots_and_weights_are_as_before_the_bad_step(optimizer, bad, built) -> None:
    model, watch = unbuilt_model(optimizer, built), pb.keras.WatchGradients()
    x, y = data()
    x[4 * bad] = np.nan
    model.fit(x[:20], y[:20], batch_size=4, shuffle=False, verbose=0, callbacks=[watch])
    assert watch.step == bad
    assert watch.nonfinite is not None
    assert watch.nonfinite.op == "data[0]"
    for got, wanted in zip(state_of(model), state_before(optimizer, bad), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-7)


def test_going_on_with_slots_keeps_the_weights_finite() -> None:
    model, watch = unbuilt_model("Adam", False), pb.keras.WatchGradients(stop=False)
    x, y = data()
    x[4] = np.nan
    model.fit(x[:8], y[:8], batch_size=4, shuffle=False, verbose=0, callbacks=[watch])
    assert watch.step == 1
    assert all(np.isfinite(value).all() for value in state_of(model))


def test_it_can_go_on(capsys) -> None:
    model, watch = model_with_a_norm(), pb.keras.WatchGradients(stop=False)
    history = fit(model, watch, epochs=2).history
    assert watch.step == BAD
    assert len(history["loss"]) == 2
    assert "unwatched" in capsys.readouterr().out


class Twice(keras.Model):
    """A training step of its own."""

    def __init__(self):
        super().__init__()
        self.scale = self.add_weight(shape=(3,), initializer="ones", name="scale")

    def call(self, x):
        return tf.reduce_sum(self.scale * x, axis=-1, keepdims=True)

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.sqrt(tf.abs(self(x) - y)))  # STEP
        gradient = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradient, self.trainable_variables, strict=True))
        return {"loss": loss}


def test_a_training_step_of_ones_own_is_explained() -> None:
    model, watch = Twice(), pb.keras.WatchGradients()
    model.compile("sgd")
    x, y = np.ones((4, 3), "float32"), np.full((4, 1), 3.0, "float32")
    model.fit(x, y, verbose=0, callbacks=[watch])
    lines, first = inspect.getsourcelines(Twice)
    line = first + next(k for k, text in enumerate(lines) if "# STEP" in text)
    assert watch.step == 0
    assert watch.nonfinite is not None
    assert watch.nonfinite.line.endswith(f"test_watching.py:{line}")


def test_steps_that_loss_scaling_skips_are_no_alarm() -> None:
    keras.utils.set_random_seed(1)
    dense = keras.layers.Dense(1, dtype="mixed_float16")
    model = keras.Sequential([keras.Input((3,)), dense])
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.01), initial_scale=2.0**40
    )
    model.compile(optimizer, "mse")
    watch = pb.keras.WatchGradients()
    fit(model, watch)
    assert watch.step is None
    assert optimizer.dynamic_scale < 2.0**40  # steps were skipped


def test_an_error_in_a_step_leaves_nothing_behind() -> None:
    model = model_with_a_norm()
    fit(model)
    before = model.train_function
    with pytest.raises(tf.errors.InvalidArgumentError, match="incompatible"):
        model.fit(
            np.ones((4, 7)), np.ones((4, 1)), verbose=0, callbacks=[pb.keras.WatchGradients()]
        )
    assert model.train_function is before


def test_a_number_of_steps_is_wanted() -> None:
    with pytest.raises(ValueError, match="every is a number of steps, 1 or more; got 0"):
        pb.keras.WatchGradients(every=0)


def test_several_replicas_are_refused(two_logical_cpus) -> None:
    with tf.distribute.MirroredStrategy(two_logical_cpus).scope():
        model = model_with_a_norm()
    with pytest.raises(pb.PullbackError, match="this model is trained on several"):
        fit(model, pb.keras.WatchGradients())


def test_names_that_are_not_there_are_told() -> None:
    with pytest.raises(
        AttributeError, match=r"pullback\.keras has no 'Watch'; it has .*WatchGradients"
    ):
        pb.keras.Watch
    assert {"WatchGradients", "Tap", "quantize"} <= set(dir(pb.keras))
