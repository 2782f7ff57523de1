"""What is to be said about a map: aloud, where it may not be what was meant, and otherwise in a note."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pullback.saliency.part import Part
from pullback.saliency.result import Saliency
from pullback.saliency.task import Task

_MOST_SHOWN = 8


def about(
    task: Task, found: Saliency, part: Part, arrays: Sequence[Any]
) -> tuple[list[str], list[str]]:
    """Warnings, and notes."""
    known = [np.asarray(a) for a in arrays if hasattr(a, "numpy")]
    return list(_loud(found, part, known)), list(_quiet(task, found, part, known))


def _loud(found: Saliency, part: Part, known: Sequence[np.ndarray]) -> Iterator[str]:
    yield from _not_finite(known)
    if isinstance(found.gap, np.ndarray):
        largest = np.fmax.reduce(found.gap)  # of those that are numbers
        if part.tolerance is not None and largest > part.tolerance:
            yield _gap(found, part, largest)
    if found.audit is not None and not found.audit.rows:
        yield f"no activation ran in this model: the map of {found.method!r} is its plain gradient."
    elif found.audit is not None and found.audit.uncovered:
        rows = found.audit.uncovered
        listed = "; ".join(map(str, rows[:_MOST_SHOWN]))
        more = f"; and {len(rows) - _MOST_SHOWN} more" if len(rows) > _MOST_SHOWN else ""
        yield f"non-linear operations that keep their own gradient under {found.method!r}: {listed}{more}. See .audit."
    if found.of == "logit" and part.run.looked_through is None and _is_probability(part.run):
        yield (
            "the outputs look like probabilities, and the softmax that made them was not found in the end of the "
            "model, so this is the map of a probability, not of a logit. Give the model without it."
        )


def _gap(found: Saliency, part: Part, largest: float) -> str:
    if found.steps is not None:
        what = (
            "more steps do not change that. Somewhere on the way the score jumps, or the model has gradients that are "
            "not those of its score: a rule, tf.stop_gradient, a cast."
            if part.is_stuck
            else "raise max_steps=."
        )
        return (
            f"the sum of the map differs from the change of the score by {largest:.1%} of it after {found.steps} "
            f"steps: {what}"
        )
    what = "change of the score" if found.method == "deeplift" else "score less what biases took"
    return (
        f"the sum of the map differs from the {what} by {largest:.1%}: large numbers cancel somewhere in the model and "
        "leave their rounding, a rule of yours does not share out all it gets, or examples depend on one another. "
        "Look at .gap, and at .audit for what has which rule."
    )


def _quiet(task: Task, found: Saliency, part: Part, known: Sequence[np.ndarray]) -> Iterator[str]:
    if task.target.is_chosen:
        yield _target(found.target)
    if part.run.looked_through:
        yield f'of the logit: the {part.run.looked_through} in the end is looked through (of="output" keeps it)'
    looked_up = [
        not task.engine.is_floating(x) and bool(s)
        for x, s in zip(task.inputs, part.run.sources, strict=True)
    ]
    if any(looked_up):
        yield "whole numbers: the map is that of what the model looks up for each of them, summed to it"
    if found.steps is not None and any(
        is_looked_up and b is not None
        for is_looked_up, b in zip(looked_up, task.baseline, strict=True)
    ):
        yield "baseline: what the model looks up for it; masks are those of x all along the way"
    if part.layer is not None and task.layer is None:
        yield f"layer: {part.layer}, the last with features that have places"
    if part.calls > 1:
        yield f"layer {found.layer} ran {part.calls} times: this is its last call"
    if found.audit is not None and found.audit.complete:
        what = (
            "non-linear operations and layers"
            if found.leaks or found.method == "deeplift"
            else "activations"
        )
        yield f"all {sum(row.count for row in found.audit.rows)} {what} covered"
    if found.leaks:
        yield _leaks(found.leaks)
    yield from _signs(found, known)


def _leaks(leaks: Mapping[str, Any]) -> str:
    if not all(isinstance(each, np.ndarray) for each in leaks.values()):
        return "biases and stabilisers took their part, see .leaks"
    listed = ", ".join(f"{name} {each.sum():.2g}" for name, each in list(leaks.items())[:3])
    return f"relevance that biases and stabilisers took, by layer: {listed}; see .leaks"


def _target(target: Any) -> str:
    if not isinstance(target, np.ndarray):
        return (
            "target: the only output"
            if target is None
            else "target: the largest score of each example"
        )
    listed = ", ".join(map(str, target[:_MOST_SHOWN].tolist()))
    more = ", …" if len(target) > _MOST_SHOWN else ""
    return f"target: the largest score of each example, {listed}{more}"


def _not_finite(known: Sequence[np.ndarray]) -> Iterator[str]:
    bad = [~np.isfinite(a).reshape(len(a), -1).all(1) for a in known]
    which = np.flatnonzero(np.any(bad, axis=0)) if bad else np.array([], int)
    if which.size:
        listed = ", ".join(map(str, which[:_MOST_SHOWN].tolist()))
        more = ", …" if len(which) > _MOST_SHOWN else ""
        yield (
            f"the map holds numbers that are not finite, of example {listed}{more}: look for NaN or infinity in x, in "
            "the weights, and in what the model makes of them."
        )


def _signs(found: Saliency, known: Sequence[np.ndarray]) -> Iterator[str]:
    if not known or any(not np.isfinite(a).all() for a in known):
        return
    if not any(a.any() for a in known):
        taken = any(np.any(each) for each in found.leaks.values() if isinstance(each, np.ndarray))
        why = (
            "biases and stabilisers took all, see .leaks"
            if taken
            else "nothing counts for this target"
        )
        yield f"the map is zero everywhere: {why}"
    elif all((a <= 0).all() for a in known):
        yield "all contributions are negative"


def _is_probability(run: Any) -> bool:
    outputs = run.outputs
    if not hasattr(outputs, "numpy") or len(outputs.shape) != 2 or outputs.shape[1] < 2:
        return False
    numbers = np.asarray(outputs, dtype="float64")
    return bool((numbers >= 0).all() and np.allclose(numbers.sum(-1), 1.0, atol=1e-3))
