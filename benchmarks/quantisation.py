"""A small CNN on drawn digits, trained with weights and activations of 2 bits in `fit` with jit_compile=True.

    python benchmarks/quantisation.py [seeds] [picture]

Bars: a learned step (LSQ) is not worse than plain straight-through rounding on a fixed grid, in the mean of the seeds;
an epoch takes at most 1.25 × one without quantisation. What differs by seed is printed as well. All start from the same
network, trained for a few epochs in full precision; "full precision" is that network trained on for as long. With a
picture's path the curves are drawn.
"""

import sys
from typing import Any

from _digits import SIZE, digits
from _measure import compare, print_amounts, print_ratios, quiet

quiet()

import keras
import numpy as np

import pullback as pb

BITS, EPOCHS, BATCH = 2, 5, 64
LAST = 3  # epochs whose mean counts: single ones are noisy
TRAIN, TEST = digits(3000, seed=1), digits(1500, seed=2)


def network(seed: int) -> Any:
    keras.utils.set_random_seed(seed)
    layers: list[Any] = [keras.Input((SIZE, SIZE, 1))]
    for filters, stride in ((12, 1), (24, 2), (24, 2)):
        layers += [
            keras.layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False),
            keras.layers.BatchNormalization(momentum=0.9),
            keras.layers.ReLU(),
        ]
    return keras.Sequential([*layers, keras.layers.Flatten(), keras.layers.Dense(10)])


def compiled(model: Any, rate: float = 2e-3) -> Any:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(rate), loss, metrics=["accuracy"], jit_compile=True)
    return model


def fixed_steps(model: Any) -> Any:
    """The grid of LSQ at its start, which stays: rounding passed straight through."""
    for layer in model._flatten_layers():
        if isinstance(layer, pb.keras.Quantize):
            layer.step.trainable = False
    return model


def variants(model: Any) -> dict[str, Any]:
    def quantized(kind: str) -> Any:
        examples = TRAIN[0][:256]
        return pb.keras.quantize(
            model, BITS, weights=kind, activations=kind, keep=["first", "last"], examples=examples
        )

    plain = keras.models.clone_model(model)
    plain.set_weights(model.get_weights())
    return {
        "full precision": plain,
        "LSQ": quantized("lsq"),
        "straight through, steps of LSQ's start": fixed_steps(quantized("lsq")),
        "straight through, range of the start": quantized("uniform"),
    }


def curves(seed: int) -> dict[str, list[float]]:
    start = compiled(network(seed))
    start.fit(*TRAIN, epochs=3, batch_size=BATCH, verbose=0)
    found: dict[str, list[float]] = {}
    for name, model in variants(start).items():
        keras.utils.set_random_seed(seed)
        history = compiled(model).fit(
            *TRAIN, epochs=EPOCHS, batch_size=BATCH, validation_data=TEST, verbose=0
        )
        found[name] = [100 * (1 - a) for a in history.history["val_accuracy"]]
        print(f"seed {seed}, {name}:", *np.round(found[name], 1), flush=True)
    return found


def draw(errors: dict[str, Any], path: str) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for name, values in errors.items():
        epochs = np.arange(1, values.shape[1] + 1)
        (line,) = axes.plot(epochs, values.mean(0), label=name)
        axes.fill_between(epochs, values.min(0), values.max(0), color=line.get_color(), alpha=0.15)
    axes.set(xlabel="epoch", ylabel="error on test digits, %", ylim=(0, None))
    axes.set_title(f"{BITS} bits, weights and activations", fontsize=10)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)


def cost(turns: int = 3) -> bool:
    models = {name: compiled(model) for name, model in variants(network(0)).items()}

    def epoch(model: Any) -> Any:
        return lambda: model.fit(*TRAIN, epochs=1, batch_size=BATCH, verbose=0)

    cases = {name: epoch(model) for name, model in models.items()}
    bars = dict.fromkeys(list(cases)[1:], 1.25)
    return print_ratios(
        "an epoch of fit, compiled", compare(cases, bars=bars, turns=turns, calls=1)
    )


if __name__ == "__main__":
    seeds = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    runs = [curves(seed) for seed in range(seeds)]
    errors = {name: np.array([run[name] for run in runs]) for name in runs[0]}
    last = {name: values[:, -LAST:].mean(1) for name, values in errors.items()}
    others = {name: values for name, values in last.items() if name.startswith("straight")}
    best = min(float(values.mean()) for values in others.values())
    rows = [(n, float(v.mean()), best if n == "LSQ" else None) for n, v in last.items()]
    ok = print_amounts(f"{seeds} seeds, mean of the last {LAST} epochs", rows, "error, %")
    for name, values in others.items():
        print(f"LSQ less {name}, by seed:", *np.round(last["LSQ"] - values, 1))
    if len(sys.argv) > 2:
        draw(errors, sys.argv[2])
    raise SystemExit(not (cost() and ok))
