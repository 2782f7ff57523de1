"""Callbacks: schedules of gradient layers, and norms."""

import math
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tests.keras.pieces import QUIET, ROWS, TARGETS, K

VALUES = {
    "adversarial": lambda p: 2 / (1 + math.exp(-10 * p)) - 1,
    "linear": lambda p: p,
    "cosine": lambda p: (1 - math.cos(math.pi * p)) / 2,
    "constant": lambda p: 1.0,
}


class Seen(keras.callbacks.Callback):
    """The number of a layer in each batch."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer, self.values = layer, list[float]()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.values.append(float(self.layer.k))


def network(*layers: Any) -> Any:
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3), *layers, keras.layers.Dense(1)]
    )
    model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("name", VALUES)
def test_a_schedule_has_the_value_of_its_formula_in_each_batch(name: str) -> None:
    layer = K.GradientReversal(7.0)
    schedule, seen = K.GradientSchedule(name, peak=3.0), Seen(layer)
    network(layer).fit(
        ROWS, TARGETS, batch_size=4, epochs=2, verbose=QUIET, callbacks=[schedule, seen]
    )
    np.testing.assert_allclose(seen.values, [3 * VALUES[name](i / 8) for i in range(8)], rtol=1e-5)


def test_a_schedule_of_one_s_own_for_one_layer() -> None:
    one, other = K.GradientScale(7.0, name="one"), K.GradientScale(5.0, name="other")
    schedule = K.GradientSchedule(lambda p: 1 - p, layers=["one"])
    history = network(one, other).fit(
        ROWS, TARGETS, batch_size=8, epochs=2, verbose=QUIET, callbacks=[schedule]
    )
    np.testing.assert_allclose(history.history["one_k"], [0.75, 0.25])
    assert float(other.k) == 5.0


def test_a_schedule_leaves_a_scale_alone_that_nobody_named() -> None:
    moved, kept = K.GradientReversal(7.0), K.GradientScale(0.25)
    network(moved, kept).fit(
        ROWS, TARGETS, verbose=QUIET, callbacks=[K.GradientSchedule("constant")]
    )
    assert (float(moved.k), float(kept.k)) == (1.0, 0.25)
    with pytest.raises(ValueError, match="name a GradientScale in layers="):
        network(kept).fit(ROWS, TARGETS, verbose=QUIET, callbacks=[K.GradientSchedule()])


def test_steps_are_given_where_fit_does_not_know_them() -> None:
    def batches() -> Any:
        for _ in range(4):
            yield ROWS, TARGETS

    layer = K.GradientReversal()
    seen = Seen(layer)
    callbacks = [K.GradientSchedule("linear", steps=8), seen]
    network(layer).fit(batches(), verbose=QUIET, callbacks=callbacks)
    np.testing.assert_allclose(seen.values, [0, 1 / 8, 2 / 8, 3 / 8])


def test_norms_are_those_of_the_gradients() -> None:
    tap, norms = K.Tap(name="here"), K.GradientNorms()
    model = network(tap)
    kernel, bias = (w.numpy() for w in model.layers[-1].weights)
    hidden = ROWS @ model.layers[0].kernel.numpy()
    upstream = 2 * (hidden @ kernel + bias - TARGETS) / len(ROWS)
    history = model.fit(ROWS, TARGETS, batch_size=16, verbose=QUIET, callbacks=[norms])
    wanted = np.linalg.norm(upstream @ kernel.T)
    np.testing.assert_allclose(norms.history["here"], [wanted], rtol=1e-5)
    np.testing.assert_allclose(history.history["here_norm"], [wanted], rtol=1e-5)


def test_norms_for_tensorboard(tmp_path: Path) -> None:
    norms = K.GradientNorms(tmp_path, every=2)
    network(K.Tap(name="here")).fit(ROWS, TARGETS, batch_size=4, verbose=QUIET, callbacks=[norms])
    assert len(norms.history["here"]) == 2
    (written,) = tmp_path.iterdir()
    assert written.read_bytes().count(b"gradient_norm/here") == 2


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: K.GradientSchedule("square"), "'square'; there are 'adversarial'"),
        (lambda: K.GradientSchedule(steps=0), "wanted 1 or more"),
        (lambda: K.GradientNorms(every=0), "1 or more"),
        (
            lambda: network().fit(ROWS, TARGETS, callbacks=[K.GradientNorms()]),
            "no layer of pb.keras.Tap",
        ),
        (
            lambda: network(K.GradientScale(1.0, name="a")).fit(
                ROWS, TARGETS, callbacks=[K.GradientSchedule(layers=["b"])]
            ),
            "no gradient layer 'b'; there are 'a'",
        ),
    ],
)
def test_bad_options_are_refused_in_words(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
