"""Maps of the places that features show: Grad-CAM and Grad-CAM++.

Selvaraju et al., "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization" (2017).
Chattopadhyay et al., "Grad-CAM++: Improved Visual Explanations for Deep Convolutional Networks" (2018), of the logit:
the factor exp(logit) of its weights scales a whole map, and is left out because it overflows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.errors import SaliencyError
from pullback.saliency.part import Part
from pullback.saliency.protocol import LAST_FEATURES, ModelRun, SaliencyEngine
from pullback.saliency.task import Task

Weights = Callable[[Any, Any, Any, Sequence[int]], Any]


def gradcam(task: Task, examples: Any) -> Part:
    """The sum of the features, each weighted by its mean gradient, where it is positive."""
    return _map(task, examples, _mean_gradient)


def gradcam_plus_plus(task: Task, examples: Any) -> Part:
    """The same with weights in which every place where a feature raises the score counts alike."""
    return _map(task, examples, _positive_gradients)


def _map(task: Task, examples: Any, weights: Weights) -> Part:
    run = task.run(
        task.of(examples),
        task.target.at(examples),
        layer=LAST_FEATURES if task.layer is None else task.layer,
    )
    features, gradient = run.features, run.feature_gradient
    _require_maps(task, run, examples)
    places = range(1, len(features.shape) - 1)
    weight = weights(task.engine, features, gradient, places)
    shown = task.engine.positive(task.engine.sum_over(features * weight, [-1]))
    return Part([_enlarged(task.engine, shown, x, len(places)) for x in task.inputs], run)


def _mean_gradient(engine: SaliencyEngine, features: Any, gradient: Any, places: Any) -> Any:
    count = np.prod([features.shape[axis] for axis in places])
    return _kept(engine, engine.sum_over(gradient, places) / float(count), features)


def _positive_gradients(engine: SaliencyEngine, features: Any, gradient: Any, places: Any) -> Any:
    square, cube = gradient * gradient, gradient * gradient * gradient
    total = _kept(engine, engine.sum_over(features, places), features)
    alpha = engine.ratio(square, 2.0 * square + total * cube)
    return _kept(engine, engine.sum_over(alpha * engine.positive(gradient), places), features)


def _kept(engine: SaliencyEngine, sums: Any, features: Any) -> Any:
    """Sums over places, in a shape that goes with the features."""
    return engine.reshape(sums, [-1] + [1] * (len(features.shape) - 2) + [features.shape[-1]])


def _enlarged(engine: SaliencyEngine, shown: Any, x: Any, axes: int) -> Any:
    """A map of the size of an input; nothing for an input that has no such axes."""
    if len(x.shape) not in (axes + 1, axes + 2):
        return None
    for axis in range(1, axes + 1):
        if shown.shape[axis] != x.shape[axis]:
            shown = engine.over_axis(interpolation(shown.shape[axis], x.shape[axis]), shown, axis)
    return shown


def interpolation(before: int, after: int) -> np.ndarray:
    """The matrix of linear interpolation from so many places to others, whose middles are set against each other."""
    at = np.clip((np.arange(after) + 0.5) * before / after - 0.5, 0, before - 1)
    left = np.minimum(at.astype(int), max(before - 2, 0))
    matrix = np.zeros((after, before))
    matrix[np.arange(after), left] = 1 - (at - left)
    matrix[np.arange(after), np.minimum(left + 1, before - 1)] += at - left
    return matrix


def spread_over(engine: SaliencyEngine, weight: Any, values: Any) -> Any:
    """A map in a shape that goes with the values of an input, which may have channels."""
    if len(weight.shape) == len(values.shape):
        return weight
    return engine.reshape(weight, [-1, *weight.shape[1:], 1])


def _require_maps(task: Task, run: ModelRun, examples: Any) -> None:
    features = run.features
    if features is None:
        raise SaliencyError(
            f'"gradcam" shows where features are, and {_why_none(task, run)}. Name a layer that '
            'gives them as layer=…, or use another method, such as "integrated".'
        )
    inputs = task.of(examples)
    shown = [x for x in inputs if len(features.shape) - len(x.shape) in (0, 1)]
    shapes = ", ".join(str(tuple(x.shape)) for x in inputs)
    if len(features.shape) < 3 or not shown:
        raise SaliencyError(
            f"the features of this layer have shape {tuple(features.shape)}, which is no map of an input of shape "
            f"{shapes}. Name a convolutional layer as layer=…."
        )
    counts = {features.shape[0], *(x.shape[0] for x in shown)} - {None}
    if len(counts) > 1:
        raise SaliencyError(
            f"the features of this layer have shape {tuple(features.shape)}, whose first axis is not that of the "
            f"examples of x, of shape {shapes}. Name a layer as layer=… that gives one map for each example."
        )
    if run.feature_gradient is None:
        raise SaliencyError(
            "no gradient of the target reaches these features: it does not depend on them."
        )


def _why_none(task: Task, run: ModelRun) -> str:
    if task.layer is not None:
        return "the layer that was named did not run in this call"
    none = "no features of this model have places, as those of a convolution have"
    if run.is_by_step:
        return (
            f"{none}: those inside TimeDistributed are of single steps, and not of the whole of x"
        )
    return none
