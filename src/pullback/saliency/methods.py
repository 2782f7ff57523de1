"""The methods, each a function of a task and some of its examples, and the table that names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pullback import rules
from pullback.saliency import cam, paths, relevance
from pullback.saliency.part import Part
from pullback.saliency.protocol import RulesByKind
from pullback.saliency.task import Task


@dataclass(frozen=True)
class Method:
    """How a map is made of some examples, with the options that it takes and what they are by default."""

    run: Callable[..., Part]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    takes_layer: bool = True
    uses_features: bool = False  # of the last layer that has any, where none is named
    takes_baseline: bool = False
    runs: int = 1  # of the model for each example, where no option says how many

    def points(self, options: Mapping[str, Any]) -> int:
        """At how many points each example is differentiated, to begin with."""
        return int(options.get("steps", options.get("samples", self.runs)))


def gradient(task: Task, examples: Any, rule: Any = None) -> Part:
    """The gradient of the score."""
    by_kind = None if rule is None else RulesByKind({"activation": rule, "gated activation": rule})
    run = task.run(task.of(examples), task.target.at(examples), layer=task.layer, rules=by_kind)
    _, gradients = task.gradients_of(run)
    return Part(task.per_input(gradients), run)


def input_x_gradient(task: Task, examples: Any) -> Part:
    """The gradient times what it is the gradient of."""
    run = task.run(task.of(examples), task.target.at(examples), layer=task.layer)
    pairs = [zip(*both, strict=True) for both in zip(*task.gradients_of(run), strict=True)]
    return Part(
        task.per_input([[None if g is None else x * g for x, g in each] for each in pairs]), run
    )


def guided(task: Task, examples: Any) -> Part:
    """The gradient with every activation under `pb.rules.guided`."""
    return gradient(task, examples, rules.guided)


def deconv(task: Task, examples: Any) -> Part:
    """The gradient with every activation under `pb.rules.deconv`."""
    return gradient(task, examples, rules.deconv)


def guided_gradcam(task: Task, examples: Any) -> Part:
    """Guided gradients times Grad-CAM."""
    where = cam.gradcam(task, examples)
    layer, task.layer = task.layer, None
    try:
        part = guided(task, examples)
    finally:
        task.layer = layer
    part.values = [
        None
        if each is None or weight is None
        else each * cam.spread_over(task.engine, weight, each)
        for each, weight in zip(part.values, where.values, strict=True)
    ]
    part.layer, part.calls = where.layer, where.calls
    return part


# A method is one line here.
METHODS: Final[Mapping[str, Method]] = {
    "gradient": Method(gradient),
    "input_x_gradient": Method(input_x_gradient),
    "integrated": Method(
        paths.integrated,
        {"steps": 32, "tolerance": 0.01, "max_steps": 512},
        takes_layer=False,
        takes_baseline=True,
    ),
    "smoothgrad": Method(paths.smoothgrad, {"samples": 50, "noise": 0.15, "seed": 0}),
    "guided": Method(guided),
    "deconv": Method(deconv),
    "gradcam": Method(cam.gradcam, uses_features=True),
    "gradcam++": Method(cam.gradcam_plus_plus, uses_features=True),
    "guided_gradcam": Method(guided_gradcam, uses_features=True),
    "deeplift": Method(relevance.deeplift, {"rules": None}, takes_baseline=True, runs=2),
    "lrp": Method(
        relevance.lrp, {"composite": "epsilon_plus", "low": None, "high": None, "rules": None}
    ),
}
