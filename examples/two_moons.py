"""Domain adaptation of two moons: the labels of one pair train a network for a pair that is turned by 35 degrees."""

import keras
import numpy as np

import pullback as pb


def moons(count, degrees, seed):
    draw = np.random.default_rng(seed)
    labels, angle = np.arange(count) % 2, np.pi * draw.random(count)
    x = np.stack([np.cos(angle), np.sin(angle)], 1) - [0.5, 0.25]
    x = np.where(labels[:, None] == 1, -x, x) + 0.08 * draw.normal(size=(count, 2))
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return (x @ [[c, s], [-s, c]]).astype("f"), labels[:, None].astype("f")


def network():
    inputs = keras.Input((2,))
    x = inputs
    for _ in range(2):
        x = keras.layers.Dense(32, activation="relu")(x)
    label = keras.layers.Dense(1, activation="sigmoid", name="label")(x)
    x = pb.keras.GradientReversal(0.0)(x)
    x = keras.layers.Dense(32, activation="relu")(x)
    domain = keras.layers.Dense(1, activation="sigmoid", name="domain")(x)
    return keras.Model(inputs, {"label": label, "domain": domain})


def trained(peak, epochs=60, seed=0):
    """The domain is told of all points, the label only of those of the first pair."""
    keras.utils.set_random_seed(seed)
    (a, labels), (b, unknown) = moons(600, 0, 1), moons(600, 35, 2)
    domain = np.repeat([[0.0], [1.0]], 600, 0).astype("f")
    y = {"label": np.concatenate([labels, 0 * unknown]), "domain": domain}
    weights = {"label": 2 * (1 - domain[:, 0]), "domain": np.ones(1200, "f")}
    model = network()
    model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy")
    schedule = pb.keras.GradientSchedule("adversarial", peak=peak)
    x, fit = np.concatenate([a, b]), {"epochs": epochs, "batch_size": 100, "verbose": 0}
    model.fit(x, y, sample_weight=weights, callbacks=[schedule], **fit)
    return model


def accuracy(model, degrees):
    x, labels = moons(2000, degrees, 3)
    return np.mean((model.predict(x, verbose=0)["label"] > 0.5) == labels)


if __name__ == "__main__":
    models = {"before": trained(0.0), "after": trained(1.0)}
    for name, model in models.items():
        print(f"{name:7} source {accuracy(model, 0):.1%}, target {accuracy(model, 35):.1%}")
    assert accuracy(models["after"], 35) > accuracy(models["before"], 35) + 0.03
