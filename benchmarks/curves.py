"""The pictures of docs/spiking.md and docs/domain-adaptation.md, and the figures below them.

python benchmarks/curves.py docs/pictures
"""

import runpy
import sys
from pathlib import Path
from typing import Any

from _measure import quiet

quiet()

import keras
import matplotlib.pyplot as plt
import numpy as np

import pullback as pb

ROOT = Path(__file__).parents[1]
SEEDS = range(2)


def draw_spiking(folder: Path) -> None:
    trained = runpy.run_path(str(ROOT / "examples" / "spiking_network.py"))["trained"]

    def own(x: Any) -> Any:
        return keras.ops.cast(x > 1.0, x.dtype)

    spikes: dict[str, Any] = {"the step's own gradient": lambda: own}
    for name, slope in (("fast_sigmoid", 5.0), ("atan", 2.0), ("triangular", 1.0)):
        label = f"{name}, slope {slope:g}"
        spikes[label] = lambda n=name, s=slope: pb.keras.Spike(n, slope=s, threshold=1.0)
    figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
    for label, make in spikes.items():
        runs = 100 * np.array([trained(make(), seed=seed) for seed in SEEDS])
        epochs = np.arange(1, runs.shape[1] + 1)
        (line,) = axes.plot(epochs, runs.mean(0), label=label)
        axes.fill_between(epochs, runs.min(0), runs.max(0), color=line.get_color(), alpha=0.15)
        print(f"{label}: {runs[:, -1].mean():.1f} %", flush=True)
    axes.set(xlabel="epoch", ylabel="accuracy on test spikes, %")
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(folder / "spiking.png", dpi=110)


def draw_moons(folder: Path) -> None:
    example = runpy.run_path(str(ROOT / "examples" / "two_moons.py"))
    across, down = np.meshgrid(np.linspace(-2, 2, 121), np.linspace(-1.6, 1.6, 97))
    grid = np.stack([across.ravel(), down.ravel()], 1).astype("f")
    x, labels = example["moons"](400, 35, 5)
    figure, both = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
    for axes, (name, peak) in zip(both, (("before", 0.0), ("after", 1.0)), strict=True):
        models = [example["trained"](peak, seed=seed) for seed in SEEDS]
        found = [[100 * example["accuracy"](m, d) for m in models] for d in (0, 35)]
        means = np.mean(found, 1)
        print(f"{name}: {means[0]:.1f} % and {means[1]:.1f} %", np.round(found, 1), flush=True)
        said = models[0].predict(grid, verbose=0)["label"].reshape(across.shape)
        axes.contourf(across, down, said, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.5)
        axes.scatter(*x.T, c=labels[:, 0], cmap="RdBu", s=6, edgecolors="k", linewidths=0.2)
        axes.set_title(f"{name}: {found[1][0]:.0f} % right", fontsize=10)
        axes.set(xticks=[], yticks=[], aspect="equal")
    figure.savefig(folder / "two-moons.png", dpi=110)


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    draw_moons(folder)
    draw_spiking(folder)
