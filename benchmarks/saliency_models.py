"""Every saliency method on large models with random biases, scales and statistics: does it run, and do its sums hold?

    python benchmarks/saliency_models.py [model ...]

Bars: the gap of DeepLIFT and LRP at most 1e-5, the audit complete, the model's weights as they were.
"""

import sys
import time
import warnings
from typing import Any

from _measure import quiet

quiet()

import keras
import numpy as np
from rich.console import Console
from rich.table import Table

import pullback as pb
from pullback.saliency.methods import METHODS

PIXELS, CLASSES, TARGET, BAR = 64, 7, 3, 1e-5
MODELS = ("MobileNetV2", "ResNet50", "ConvNeXtTiny")
FEW: dict[str, dict[str, Any]] = {
    "integrated": {"steps": 16, "max_steps": 16, "tolerance": 1e9},
    "smoothgrad": {"samples": 8},
}


def made(name: str) -> Any:
    model = getattr(keras.applications, name)(
        weights=None, input_shape=(PIXELS, PIXELS, 3), classes=CLASSES
    )
    rng = np.random.default_rng(0)
    for weight in model.weights:
        drawn = rng.standard_normal(weight.shape)
        if "variance" in weight.path:
            weight.assign(0.7 + 0.6 * np.abs(drawn))
        elif "gamma" in weight.path:
            weight.assign(1 + 0.2 * drawn)
        elif drawn.ndim < 2:
            weight.assign(0.2 * drawn)
        elif "seed" not in weight.path:
            last = 2 if "depthwise" in weight.path else drawn.ndim - 1
            weight.assign(drawn * np.sqrt(1.3 / np.prod(drawn.shape[:last])))
    model.weights[-1].assign_add(2.0 * np.ones(CLASSES))  # a score near zero has few digits
    return model


def told(model: Any, method: str) -> tuple[list[str], bool]:
    rng = np.random.default_rng(1)
    x, baseline = (0.4 * rng.normal(size=(2, 1, PIXELS, PIXELS, 3)) + 0.2).astype("f")
    options = dict(FEW.get(method, {}))
    if METHODS[method].takes_baseline:
        options["baseline"] = baseline
    started = time.process_time()
    found = pb.saliency(model, x, TARGET, method, **options)
    seconds = time.process_time() - started
    exact = method in ("deeplift", "lrp")
    # Of features with signs, Grad-CAM's sum may be positive nowhere: then the map is zero, and its note says so.
    is_told = method.startswith("gradcam") and "the map is zero everywhere" in found.note
    ok = bool(np.isfinite(found.values).all() and (found.values.any() or is_told))
    ok &= found.audit is None or found.audit.complete
    ok &= not exact or bool(found.gap.max() <= BAR)
    gap = "" if found.gap is None else f"{found.gap.max():.1e}"
    covered = "" if found.audit is None else str(sum(row.count for row in found.audit.covered))
    return [gap, covered, f"{seconds:.1f}", "[green]✓[/]" if ok else "[red]✗[/]"], ok


def told_all(name: str) -> bool:
    model = made(name)
    before = [w.numpy() for w in model.weights]
    table = Table(title=f"{name}, {PIXELS} pixels", title_justify="left")
    for heading in ("method", "gap", "covered", "s CPU", ""):
        table.add_column(heading)
    results: list[bool] = []
    for method in METHODS:
        row, ok = told(model, method)
        table.add_row(method, *row)
        results.append(ok)
    Console(width=100).print(table)
    same = all(np.array_equal(w.numpy(), old) for w, old in zip(model.weights, before, strict=True))
    return same and all(results)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    raise SystemExit(not all([told_all(name) for name in sys.argv[1:] or MODELS]))
