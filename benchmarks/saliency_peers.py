"""Guided backpropagation and DeepLIFT beside published packages, on models in every form.

    python benchmarks/saliency_peers.py

Each package is optional: xplique, tf-keras-vis, shap. What it gives is told by what it equals: the guided gradient,
or the plain one without a word; or by the error that it raised.
"""

import contextlib
import importlib.util
import io
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _measure import alone, quiet

quiet()

import keras
import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

import pullback as pb

L = keras.layers
SHAPE, TARGET = (12, 12, 3), 1


def functional(*between: Any) -> Any:
    x = keras.Input(SHAPE)
    y = x
    for each in between:
        y = each(y)
    return keras.Model(x, L.Dense(4)(L.GlobalAveragePooling2D()(y)))


class Subclassed(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.scores = L.Conv2D(4, 3), L.Dense(4)

    def call(self, x: Any) -> Any:
        return self.scores(tf.reduce_mean(tf.nn.relu(self.first(x)), [1, 2]))


def nested() -> Any:
    base = keras.Sequential([keras.Input(SHAPE), L.Conv2D(4, 3, activation="relu")])
    middle = keras.Sequential([keras.Input(SHAPE), base, L.Conv2D(4, 3, activation="relu")])
    return functional(middle)


def reused() -> Any:
    relu = L.ReLU()
    return functional(L.Conv2D(4, 3), relu, L.Conv2D(4, 3), relu)


def loaded() -> Any:
    path = Path(tempfile.mkdtemp()) / "model.keras"
    functional(L.Conv2D(4, 3), L.ReLU()).save(path)
    return keras.models.load_model(path)


FORMS: dict[str, Callable[[], Any]] = {
    'activation="relu"': lambda: functional(L.Conv2D(4, 3, activation="relu")),
    "ReLU layer": lambda: functional(L.Conv2D(4, 3), L.ReLU()),
    "ReLU6 layer": lambda: functional(L.Conv2D(4, 3), L.ReLU(6.0)),
    "Activation layer": lambda: functional(L.Conv2D(4, 3), L.Activation("relu")),
    "tf.nn.relu, subclassed": Subclassed,
    "reused layer": reused,
    "nested twice": nested,
    "loaded": loaded,
}
KINDS: dict[str, Callable[[], Any]] = {
    "ReLU": FORMS['activation="relu"'],
    "ReLU6": FORMS["ReLU6 layer"],
    "GELU": lambda: functional(L.Conv2D(4, 3, activation="gelu")),
    "LSTM": lambda: functional(L.Reshape((12, 36)), L.LSTM(4), L.Reshape((1, 1, 4))),
    "attention": lambda: functional(L.Reshape((36, 12)), Attention(), L.Reshape((6, 6, 12))),
}


class Attention(L.Layer):
    def build(self, shape: Any) -> None:
        self.inside = L.MultiHeadAttention(2, 3)
        self.inside.build(shape, shape)

    def call(self, x: Any) -> Any:
        return self.inside(x, x)


def made(make: Callable[[], Any]) -> Any:
    model, rng = make(), np.random.default_rng(0)
    model(examples(1))
    for weight in model.weights:
        if weight.dtype == "float32":
            weight.assign(0.5 * rng.normal(size=weight.shape))
    return model


def examples(count: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, *SHAPE)).astype("f")


def by_xplique(model: Any, x: Any) -> Any:
    from xplique.attributions import GuidedBackprop  # pyright: ignore[reportMissingImports]

    explainer = GuidedBackprop(model, reducer=None)
    return np.asarray(explainer(x, np.eye(4, dtype="f")[[TARGET] * len(x)]))


def by_tf_keras_vis(model: Any, x: Any) -> Any:
    from tf_keras_vis.saliency import Saliency  # pyright: ignore[reportMissingImports]
    from tf_keras_vis.utils.model_modifiers import GuidedBackpropagation  # pyright: ignore[reportMissingImports]
    from tf_keras_vis.utils.scores import CategoricalScore  # pyright: ignore[reportMissingImports]

    explainer = Saliency(model, model_modifier=GuidedBackpropagation(), clone=True)
    return explainer(CategoricalScore([TARGET] * len(x)), x, keepdims=True, normalize_map=False)


def by_pullback(model: Any, x: Any) -> Any:
    return pb.saliency(model, x, TARGET, "guided").values


def by_shap(model: Any, x: Any, baseline: Any) -> Any:
    import shap  # pyright: ignore[reportMissingImports]

    return shap.DeepExplainer(model, baseline).shap_values(x, check_additivity=False)[..., TARGET]


def deeplift(model: Any, x: Any, baseline: Any) -> Any:
    return pb.saliency(model, x, TARGET, "deeplift", baseline=baseline).values


def is_guided(explain: Any, model: Any) -> str:
    x = examples(2)
    expected, plain = by_pullback(model, x), pb.saliency(model, x, TARGET, "gradient").values
    found = np.asarray(explain(model, x))
    for name, map_ in {"guided": expected, "plain gradient": plain}.items():
        for one in (map_, np.abs(map_)):  # some give magnitudes alone
            if found.shape == one.shape and np.allclose(found, one, rtol=1e-3, atol=1e-6):
                return name
    return "something else"


def adds_up(explain: Any, model: Any) -> str:
    x, baseline = examples(1), 0.5 * examples(1, 2)
    difference = float(model(x)[0, TARGET] - model(baseline)[0, TARGET])
    off = abs(float(np.sum(explain(model, x, baseline), dtype="float64")) - difference)
    return f"gap {off / abs(difference):.0e}"


def said(title: str, package: str, names: list[str]) -> list[str]:
    """What a package does with some of the models."""
    return [_said(title, package, name) for name in names]


def _said(title: str, package: str, name: str) -> str:
    judge, rows, packages = TABLES[title]
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return judge(packages[package][1], made(rows[name]))
    except Exception as error:
        return type(error).__name__


def column(title: str, package: str, names: list[str]) -> list[str]:
    """The same in a process of its own; of a package that leaves gradients changed when it fails, in one for each."""
    if package not in LEAVES_TRACES:
        return alone(said, title, package, names)
    return [alone(said, title, package, [name])[0] for name in names]


def print_table(title: str) -> None:
    _, rows, packages = TABLES[title]
    present = [n for n, (module, _) in packages.items() if importlib.util.find_spec(module)]
    columns = [column(title, package, list(rows)) for package in present]
    drawn = Table(title=title, title_justify="left")
    for heading in ("", *present):
        drawn.add_column(heading)
    for row in zip(rows, *columns, strict=True):
        drawn.add_row(*row)
    Console(width=100).print(drawn)


LEAVES_TRACES = ("shap",)
TABLES: dict[str, tuple[Any, Any, dict[str, tuple[str, Any]]]] = {
    "What is returned as guided": (
        is_guided,
        FORMS,
        {
            "pullback": ("pullback", by_pullback),
            "xplique": ("xplique", by_xplique),
            "tf-keras-vis": ("tf_keras_vis", by_tf_keras_vis),
        },
    ),
    "DeepLIFT: what is missing in the sum": (
        adds_up,
        KINDS,
        {"pullback": ("pullback", deeplift), "shap": ("shap", by_shap)},
    ),
}

if __name__ == "__main__":
    for title in TABLES:
        print_table(title)
