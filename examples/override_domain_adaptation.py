"""Gradient reversal in `fit`: features that a second head cannot use to tell two domains apart.

The model is an ordinary Keras model with an identity layer before the second head. The override reverses its gradient.
"""

import keras
import numpy as np
import tensorflow as tf

import pullback as pb

# A variable, so that it can change while a traced step is used again.
STRENGTH = tf.Variable(0.5, trainable=False)


def reversed_gradient(dy):
    return -STRENGTH * dy


def two_domains(count=512):
    """The sign of the first coordinate is the label; the second is shifted in the second domain."""
    random = np.random.default_rng(0)
    points = random.normal(size=(count, 4)).astype("f")
    domain = np.arange(count) % 2
    points[:, 1] += 3.0 * domain
    return points, (points[:, :1] > 0).astype("f"), domain[:, None].astype("f")


def build():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    features = keras.layers.Dense(8, name="features")(inputs)
    label = keras.layers.Dense(1, activation="sigmoid", name="label")(features)
    passed = keras.layers.Identity(name="reversal")(features)
    domain = keras.layers.Dense(1, activation="sigmoid", name="domain")(passed)
    return keras.Model(inputs, {"label": label, "domain": domain})


def accuracies(change):
    points, label, domain = two_domains()
    model = build()
    trained = change(model)
    trained.compile(keras.optimizers.Adam(0.01), "binary_crossentropy")
    trained.fit(points, {"label": label, "domain": domain}, epochs=12, batch_size=64, verbose=0)
    found = model.predict(points, verbose=0)
    return [
        float(np.mean((found[n] > 0.5) == t)) for n, t in (("label", label), ("domain", domain))
    ]


def under_override(model):
    return pb.override({model.get_layer("reversal"): reversed_gradient})(model)


if __name__ == "__main__":
    plain, adapted = accuracies(lambda model: model), accuracies(under_override)
    print(f"plain:   label {plain[0]:.2f}, domain {plain[1]:.2f}")
    print(f"adapted: label {adapted[0]:.2f}, domain {adapted[1]:.2f}  (0.5 is a guess)")
    assert adapted[0] > 0.9
    assert adapted[1] < plain[1] - 0.15
