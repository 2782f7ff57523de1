"""A spiking network: leaky neurons that fire when their potential passes 1, trained through the spikes by a surrogate.

The inputs are 30 steps of random spikes of two groups of channels, each of which is quiet or busy; the label says
whether exactly one of them is busy.
"""

import keras
import numpy as np

import pullback as pb

STEPS, CHANNELS = 30, 10


def spikes(count, seed):
    draw = np.random.default_rng(seed)
    busy = draw.integers(0, 2, (count, 2))
    rates = np.repeat(0.05 + 0.35 * busy, CHANNELS // 2, 1)
    x = draw.random((count, STEPS, CHANNELS)) < rates[:, None]
    return x.astype("f"), (busy.sum(1) == 1).astype("f")[:, None]


class Leaky(keras.layers.Layer):
    """Neurons that leak, fire, and start again from where they were less 1."""

    def __init__(self, units, spike, decay=0.9, **kwargs):
        super().__init__(**kwargs)
        self.current, self.spike, self.decay = keras.layers.Dense(units), spike, decay

    def call(self, x):
        currents = self.current(x)
        potential, fired = 0.0 * currents[:, 0], []
        for step in range(STEPS):
            potential = self.decay * potential + currents[:, step]
            fired.append(self.spike(potential))
            potential = potential - fired[-1]
        return keras.ops.stack(fired, 1)


def trained(spike, epochs=12, seed=0):
    keras.utils.set_random_seed(seed)
    hidden = [Leaky(12, spike) for _ in range(2)]
    end = [keras.layers.GlobalAveragePooling1D(), keras.layers.Dense(1, activation="sigmoid")]
    model = keras.Sequential([keras.Input((STEPS, CHANNELS)), *hidden, *end])
    model.compile(keras.optimizers.Adam(0.01), "binary_crossentropy", metrics=["accuracy"])
    test = spikes(1000, 2)
    fitted = model.fit(*spikes(1000, 1), 50, epochs, verbose=0, validation_data=test)
    return fitted.history["val_accuracy"]


if __name__ == "__main__":
    plain = trained(lambda x: keras.ops.cast(x > 1.0, x.dtype))
    learned = trained(pb.keras.Spike("fast_sigmoid", slope=5.0, threshold=1.0))
    print(f"the step's own gradient: {plain[-1]:.1%}; surrogate: {learned[-1]:.1%}")
    assert learned[-1] > 0.9
