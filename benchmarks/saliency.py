"""Saliency of a ResNet50: what methods cost beside the plain gradient, in one run.

    python benchmarks/saliency.py [pixels] [turns]

Bars: guided and deconv in a traced program at most 1.05 × the plain gradient, LRP 2.5 ×; 64 steps of integrated
gradients at most the time of 64 plain gradients.
"""

import sys
from typing import Any

from _measure import compare, print_ratios, quiet

quiet()

import keras
import numpy as np
import tensorflow as tf

import pullback as pb
from pullback.rules._composites import COMPOSITES

STEPS = 64


def traced(model: Any, method: str, **options: Any) -> Any:
    function = tf.function(lambda x: pb.saliency(model, x, 7, method, **options).tensor)
    return function.get_concrete_function


def plain(model: Any) -> Any:
    def gradient(x: Any) -> Any:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(x)
            score = model(x, training=False)[:, 7]
        return tape.gradient(score, x)

    return tf.function(gradient).get_concrete_function


def rules_cost(model: Any, x: Any, turns: int) -> bool:
    cases = {"plain gradient": plain(model)(x)}
    cases |= {name: traced(model, name)(x) for name in ("gradient", "guided", "deconv")}
    composites = [name for name in COMPOSITES if name != "epsilon_gamma_box"]
    cases |= {f"lrp, {name}": traced(model, "lrp", composite=name)(x) for name in composites}
    box = {"composite": "epsilon_gamma_box", "low": -5.0, "high": 5.0}
    cases["lrp, epsilon_gamma_box"] = traced(model, "lrp", **box)(x)
    run = {name: (lambda f=function: f(x)[0, 0, 0, 0].numpy()) for name, function in cases.items()}
    bars = {name: 1.05 if name in ("guided", "deconv") else 2.5 for name in list(cases)[2:]}
    return print_ratios(
        f"ResNet50, {x.shape[1]} pixels, traced", compare(run, bars=bars, turns=turns, calls=3)
    )


def steps_cost(model: Any, x: Any, turns: int) -> bool:
    one = plain(model)(x)

    def plain_gradients() -> None:
        for _ in range(STEPS):
            one(x)[0, 0, 0, 0].numpy()

    def integrated() -> Any:
        return pb.saliency(model, x, 7, "integrated", steps=STEPS, max_steps=STEPS, tolerance=1e9)

    @tf.function
    def program(x: Any) -> Any:
        return pb.saliency(model, x, 7, "integrated", steps=STEPS).tensor

    def in_a_program() -> Any:
        return program(x)[0, 0, 0, 0].numpy()

    cases = {
        f"{STEPS} plain gradients": plain_gradients,
        "integrated, traced before": in_a_program,
        "integrated": integrated,  # which traces its gradient each time
    }
    bars = dict.fromkeys(list(cases)[1:], 1.0)
    ratios = compare(cases, bars=bars, turns=turns, calls=1)
    return print_ratios(f"ResNet50, {x.shape[1]} pixels, {STEPS} steps", ratios)


if __name__ == "__main__":
    pixels = int(sys.argv[1]) if len(sys.argv) > 1 else 224
    turns = int(sys.argv[2]) if len(sys.argv) > 2 else 7
    keras.utils.set_random_seed(1)
    network = keras.applications.ResNet50(
        weights=None, input_shape=(pixels, pixels, 3), classifier_activation=None
    )
    picture = tf.constant(np.random.default_rng(1).normal(size=(1, pixels, pixels, 3)).astype("f"))
    ok = [rules_cost(network, picture, turns), steps_cost(network, picture, max(2, turns // 3))]
    raise SystemExit(not all(ok))
