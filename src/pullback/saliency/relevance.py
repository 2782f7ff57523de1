"""Methods that share out a score, or a difference of scores, exactly: LRP and DeepLIFT.

Both are gradients under rules for everything that is not linear (`pb.rules`), times the input or what it differs by.
DeepLIFT: Shrikumar, Greenside and Kundaje, "Learning Important Features Through Propagating Activation Differences"
(2017), its rescale rule. LRP: Bach et al. (2015), Montavon et al. (2019); attention as in Achtibat et al. (2024).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from pullback._tree import flatten, unflatten
from pullback.rules._composites import composite_of
from pullback.rules._lrp_operations import lrp_rules
from pullback.rules._relevance import deeplift_rules
from pullback.saliency.part import Part
from pullback.saliency.paths import SMALLEST_SHARE, baselines_of, differentiated
from pullback.saliency.protocol import ModelRun, RulesByKind
from pullback.saliency.targets import Target
from pullback.saliency.task import Task

LARGEST_GAP: Final = (
    1e-3  # far above what float32 loses in deep networks, and far below what a missing term leaves
)


def lrp(task: Task, examples: Any, *, composite: Any, low: Any, high: Any, rules: Any) -> Part:
    """The score shared out among the entries of the input, layer by layer; biases and stabilisers have their part."""
    chosen = composite_of(composite, low, high)
    table = RulesByKind(lrp_rules(), rules or {}, chosen, must_reach=True)
    run = task.run(task.of(examples), task.target.at(examples), layer=task.layer, rules=table)
    sources, gradients = task.gradients_of(run)
    beside = [[None]] if task.layer is not None else run.relevances
    found = [
        [_relevance(*each) for each in zip(*groups, strict=True)]
        for groups in zip(sources, gradients, beside, strict=True)
    ]
    values = task.per_input(found)
    if task.layer is not None:
        return Part(values, run)
    lost, leaks = _lost(task, run)
    gap = None if lost is None else _gap(task, run.scores, None, [_total(task, found), lost])
    return Part(values, run, gap=gap, tolerance=LARGEST_GAP, leaks=leaks)


def _relevance(x: Any, multiplier: Any, beside: Any) -> Any:
    if multiplier is None:
        return beside
    return x * multiplier if beside is None else x * multiplier + beside


def _lost(task: Task, run: ModelRun) -> tuple[Any, Mapping[str, Any]]:
    """What biases and stabilisers have of each example, and the same by layer."""
    if run.absorbed is None:
        return None, {}
    leaks = {name: _sum(parts) for name, parts in run.absorbed.items()}
    known = {name: each for name, each in leaks.items() if each is not None}
    return _sum([task.engine.wide(run.scores) * 0, *known.values()]), known


def deeplift(task: Task, examples: Any, *, rules: Any) -> Part:
    """What the entries of the input contribute to the difference from the score of the baseline.

    Examples and baselines go through the model in one batch. Some programs have another axis first, of steps; if it is
    as long as the batch, it may be taken for it, and contributions do not add up. Then a longer batch is tried.
    """
    both = _Both(task, examples, rules)
    part = both.part(0)
    if (
        task.engine.is_symbolic(part.run.scores)
        or part.gap is None
        or part.gap.max() <= LARGEST_GAP
    ):
        return part
    return min(part, both.part(1), key=lambda each: float(each.gap.max()))


class _Both:
    """Some examples and their baselines."""

    def __init__(self, task: Task, examples: Any, rules: Any) -> None:
        self.task, self.rules = task, rules or {}
        self.target = task.target.at(examples)
        self.inputs = task.of(examples)
        sources = differentiated(task, self.inputs)
        self.begins, given = baselines_of(task, self.inputs, sources, examples)
        pairs = zip(sources, given, strict=True)
        # Of what is looked up: that of examples and that of baselines, where the model is not to look it up itself.
        self.given = [None if b is None else list(zip(a, b, strict=True)) for a, b in pairs]

    def part(self, more: int) -> Part:
        """The contributions, with so many of the examples twice in the batch."""
        task = self.task
        inputs = [self._joined(pair, more) for pair in zip(self.inputs, self.begins, strict=True)]
        given = [each and [self._joined(pair, more) for pair in each] for each in self.given]
        table = RulesByKind(deeplift_rules(inputs[0].shape[0]), self.rules, must_reach=True)
        score = _OfBoth(self.target, more)
        run = task.run(inputs, score, given=given, layer=task.layer, rules=table)
        run.chosen = score.chosen
        sources, gradients = task.gradients_of(run)
        found = [
            [
                None if g is None else self._contribution(x, g, more)
                for x, g in zip(*each, strict=True)
            ]
            for each in zip(sources, gradients, strict=True)
        ]
        values = task.per_input(found)
        run.scores, others = self._halves(run.scores, more)
        if task.layer is not None:
            return Part(values, run)
        gap = _gap(task, run.scores, others, [_total(task, found)])
        return Part(values, run, gap=gap, tolerance=LARGEST_GAP)

    def _joined(self, pair: Sequence[Any], more: int) -> Any:
        twice = [[each, each[:more]] if more else [each] for each in pair]
        return self.task.engine.concat([tensor for each in twice for tensor in each])

    def _halves(self, tensor: Any, more: int) -> tuple[Any, Any]:
        first, second = self.task.engine.halves(tensor)
        return (first[:-more], second[:-more]) if more else (first, second)

    def _contribution(self, x: Any, gradient: Any, more: int) -> Any:
        (one, other), (multiplier, _) = self._halves(x, more), self._halves(gradient, more)
        return (one - other) * multiplier


class _OfBoth:
    """The scores of examples and of baselines, which have the targets of the examples."""

    def __init__(self, target: Target, more: int) -> None:
        self._target, self._more = target, more
        self.chosen: Any = None  # by the scores of the examples

    def __call__(self, outputs: Any) -> tuple[Any, Any]:
        target, engine = self._target, self._target.engine
        if target.is_chosen:
            leaves, structure = flatten(outputs)
            _, places = target(unflatten(structure, [engine.halves(t)[0] for t in leaves]))
            self.chosen = places[: -self._more] if self._more and places is not None else places
        else:
            places = self.chosen = target.places
            if places is not None and self._more:
                places = engine.concat([places, places[: self._more]])
        both = places if places is None else engine.concat([places, places])
        return target.fixed(both)(outputs)


def _total(task: Task, found: Sequence[Sequence[Any]]) -> Any:
    """The sum of each example, of all sources."""
    return _sum([task.engine.total(v) for each in found for v in each if v is not None])


def _gap(task: Task, scores: Any, begin: Any, parts: Sequence[Any]) -> Any:
    """What the parts lack of the change of the score, from `begin` or from nothing, as a share of it."""
    engine, end = task.engine, task.engine.wide(scores)
    begin = end * 0 if begin is None else engine.wide(begin)
    missing = engine.magnitude(end - begin - _sum(parts))
    floor = engine.largest([end, begin, *parts]) * SMALLEST_SHARE
    gap = engine.ratio(missing, engine.largest([end - begin, floor]))
    return gap if engine.is_symbolic(gap) else np.asarray(gap)


def _sum(parts: Sequence[Any]) -> Any:
    known = [part for part in parts if part is not None]
    return sum(known[1:], known[0]) if known else None
