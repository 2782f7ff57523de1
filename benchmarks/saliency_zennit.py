"""LRP composites against Zennit's, on the same convolutional network with the same weights.

    pip install torch zennit
    python benchmarks/saliency_zennit.py

Zennit and PyTorch are optional: they run in this script alone. Each entry is the largest difference between the maps of
three images, as a share of the largest entry: in float64, where definitions show, and in float32, where rounding does.
"""

from typing import Any

from _measure import quiet

quiet()

import keras
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from rich.console import Console
from rich.table import Table
from zennit import composites, rules, types  # pyright: ignore[reportMissingImports]
from zennit.canonizers import SequentialMergeBatchNorm  # pyright: ignore[reportMissingImports]

import pullback as pb

L, nn = keras.layers, torch.nn
SIZE, CHANNELS, CLASSES, TARGET = 16, 3, 5, 2
LOW, HIGH = -3.0, 3.0


EPSILON = (
    1e-9  # of normalization: Zennit divides by its root once more when it is merged into a layer
)
DTYPES = ("float64", "float32")


# Zennit stabilizes the denominators of average pooling as well, which is linear: here next to nothing.
POOLING = [(types.AvgPool, rules.Norm(stabilizer=1e-12))]


def deep_taylor(canonizers: Any) -> Any:
    layers = [
        *POOLING,
        (types.Activation, rules.Pass()),
        (types.Linear, rules.ZPlus()),
    ]
    first = [(types.Linear, rules.WSquare())]
    return composites.SpecialFirstLayerMapComposite(layers, first, canonizers=canonizers)


def box(canonizers: Any) -> Any:
    shape = (1, CHANNELS, 1, 1)
    low, high = torch.full(shape, LOW), torch.full(shape, HIGH)
    return composites.EpsilonGammaBox(low=low, high=high, layer_map=POOLING, canonizers=canonizers)


PEERS: dict[str, Any] = {
    "epsilon_plus": lambda c: composites.EpsilonPlus(layer_map=POOLING, canonizers=c),
    "epsilon_plus_flat": lambda c: composites.EpsilonPlusFlat(layer_map=POOLING, canonizers=c),
    "epsilon_gamma_box": box,
    "epsilon_alpha2_beta1": lambda c: composites.EpsilonAlpha2Beta1(
        layer_map=POOLING, canonizers=c
    ),
    "epsilon_alpha2_beta1_flat": lambda c: composites.EpsilonAlpha2Beta1Flat(
        layer_map=POOLING, canonizers=c
    ),
    "deep_taylor": deep_taylor,
}
OPTIONS = {"epsilon_gamma_box": {"low": LOW, "high": HIGH}}


def networks(dtype: str) -> tuple[Any, Any]:
    """The same network in Keras and in PyTorch."""
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    torch.set_default_dtype(getattr(torch, dtype))
    rng = np.random.default_rng(0)
    model = keras.Sequential(
        [
            keras.Input((SIZE, SIZE, CHANNELS)),
            L.Conv2D(8, 3, activation="relu"),
            L.Conv2D(8, 3),
            L.BatchNormalization(epsilon=EPSILON),
            L.ReLU(),
            L.AveragePooling2D(2),
            L.Conv2D(12, 3, activation="relu"),
            L.Flatten(),
            L.Dense(16, activation="relu"),
            L.Dense(CLASSES),
        ]
    )
    for weight in model.weights:
        spread = np.sqrt(2 / max(np.prod(weight.shape[:-1]), 1)) if len(weight.shape) > 1 else 0.2
        drawn = rng.normal(0, spread, weight.shape)
        weight.assign(np.abs(drawn) + 0.5 if "variance" in weight.path else drawn)
    peer = nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8, EPSILON), nn.ReLU()),
        *(nn.AvgPool2d(2), nn.Conv2d(8, 12, 3), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(12 * 16, 16), nn.ReLU(), nn.Linear(16, CLASSES)),
    ).eval()
    mine = [layer for layer in model.layers if layer.weights]
    for layer, module in zip(mine, [m for m in peer if list(m.parameters())], strict=True):
        copy(layer, module)
    return model, peer


def copy(layer: Any, module: Any) -> None:
    weights = [torch.tensor(np.asarray(w)) for w in layer.weights]
    if isinstance(module, nn.Conv2d):
        weights[0] = weights[0].permute(3, 2, 0, 1)
    elif isinstance(module, nn.Linear) and weights[0].shape[0] == 12 * 16:  # behind Flatten
        weights[0] = weights[0].reshape(4, 4, 12, 16).permute(3, 2, 0, 1).reshape(16, -1)
    elif isinstance(module, nn.Linear):
        weights[0] = weights[0].T
    names = ["weight", "bias", "running_mean", "running_var"]
    with torch.no_grad():
        for name, weight in zip(names, weights, strict=False):
            getattr(module, name).copy_(weight)


def by_zennit(peer: Any, composite: Any, x: np.ndarray) -> np.ndarray:
    tensor = torch.tensor(x.transpose(0, 3, 1, 2)).requires_grad_()
    with composite.context(peer) as modified:
        scores = modified(tensor)
        start = torch.zeros_like(scores)
        start[:, TARGET] = scores.detach()[:, TARGET]
        (found,) = torch.autograd.grad(scores, tensor, start)
    return found.numpy().transpose(0, 2, 3, 1)


def differences(dtype: str) -> dict[str, float]:
    model, peer = networks(dtype)
    x = np.random.default_rng(1).normal(size=(3, SIZE, SIZE, CHANNELS)).astype(dtype)
    with torch.no_grad():
        theirs = peer(torch.tensor(x.transpose(0, 3, 1, 2))).numpy()
    np.testing.assert_allclose(np.asarray(model(x)), theirs, rtol=1e-3, atol=1e-4)
    found: dict[str, float] = {}
    for name, make in PEERS.items():
        expected = by_zennit(peer, make([SequentialMergeBatchNorm()]), x)
        options = OPTIONS.get(name, {})
        values = pb.saliency(model, x, TARGET, "lrp", composite=name, **options).values
        found[name] = np.abs(values - expected).max() / np.abs(expected).max()
    return found


def main() -> None:
    columns = {dtype: differences(dtype) for dtype in DTYPES}
    table = Table("composite", *DTYPES, title="LRP against Zennit")
    for name in PEERS:
        table.add_row(name, *(f"{columns[dtype][name]:.1e}" for dtype in DTYPES))
    Console().print(table)


if __name__ == "__main__":
    main()
