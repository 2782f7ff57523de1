"""Methods that average gradients over points: along a way from a baseline, or around the input.

Integrated gradients: Sundararajan, Taly and Yan, "Axiomatic Attribution for Deep Networks" (2017). The integral is
taken by Gauss and Legendre's rule, as in Captum: on smooth networks its error falls faster than any power of the number
of steps; on networks with kinks all rules are alike, within a factor of two (docs/saliency.md has figures).
SmoothGrad: Smilkov et al.,
"SmoothGrad: removing noise by adding noise" (2017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from pullback.errors import SaliencyError
from pullback.saliency.part import Part
from pullback.saliency.protocol import ModelRun
from pullback.saliency.targets import Target
from pullback.saliency.task import Task

# Where the score hardly changes, what is missing is measured by the score itself: a share of it, in float32.
SMALLEST_SHARE: Final = 1e-3
# What is missing counts as settled where this many doublings have changed it by less than this share of it.
ENOUGH: Final = 2
SETTLED: Final = 0.1
Groups = Sequence[Sequence[Any]]  # of each input what is differentiated
# What to differentiate at: of the number of an input, of a source in it, of examples, and of points.
Points = Callable[[int, int, np.ndarray, np.ndarray], Any]


def integrated(task: Task, examples: Any, *, steps: int, tolerance: float, max_steps: int) -> Part:
    """Gradients averaged along the straight way from the baseline, times its length.

    Examples whose sum is not within the tolerance of the change of the score are done again with twice the steps, until
    that changes no more what is missing.
    """
    way = _Way(task, examples)
    values = way.contributions(steps, np.arange(way.count))
    if task.engine.is_symbolic(way.change):
        return Part(values, way.end, gap=_gap(task, values, way.change), steps=steps)
    gap = way.gap(values, np.arange(way.count))
    settled = np.zeros(way.count, int)  # for so many doublings

    def is_open() -> np.ndarray:
        return (np.abs(gap) > tolerance) & (settled < ENOUGH)

    while (todo := np.flatnonzero(is_open())).size and 2 * steps <= max_steps:
        steps *= 2
        again = way.contributions(steps, todo)
        before, gap[todo] = gap[todo], way.gap(again, todo)
        is_same = np.abs(gap[todo] - before) < SETTLED * np.abs(gap[todo])
        settled[todo] = np.where(is_same, settled[todo] + 1, 0)
        values = _put(task, values, again, todo, way.count)
    is_stuck = bool(((np.abs(gap) > tolerance) & (settled >= ENOUGH)).any())
    gap = np.abs(gap)
    return Part(values, way.end, gap=gap, steps=steps, tolerance=tolerance, is_stuck=is_stuck)


class _Way:
    """The way from the baseline to some examples."""

    def __init__(self, task: Task, examples: Any) -> None:
        self.task = task
        self.count, self.inputs = _require_count(task, examples), task.of(examples)
        self.end = task.run(self.inputs, task.target.at(examples), differentiate=False)
        self.target = task.target.at(examples).fixed(self.end.chosen)
        self.start = _at_baseline(task, self.inputs, self.end, examples, self.target)
        both = zip(self.start.sources, self.end.sources, strict=True)
        self.steps = [[b - a for a, b in zip(*each, strict=True)] for each in both]
        self.change = self.end.scores - self.start.scores

    def contributions(self, steps: int, places: np.ndarray) -> list[Any]:
        """The contributions of the entries of some examples, from gradients at so many points."""
        nodes, weights = np.polynomial.legendre.leggauss(steps)
        shares, take = (nodes + 1) / 2, self.task.engine.take

        def on_the_way(n: int, s: int, who: np.ndarray, which: np.ndarray) -> Any:
            origin, step = (
                take(each[n][s], places[who]) for each in (self.start.sources, self.steps)
            )
            return origin + step * _column(self.task, shares[which], step)

        inputs = [take(x, places) for x in self.inputs]
        target = self.target.at(places)
        count = len(places)
        sums = averaged(self.task, inputs, self.end.sources, target, on_the_way, weights / 2, count)
        return self.task.per_input(
            [
                [
                    None if g is None else g * take(step, places)
                    for g, step in zip(*each, strict=True)
                ]
                for each in zip(sums, self.steps, strict=True)
            ]
        )

    def gap(self, values: list[Any], places: np.ndarray) -> np.ndarray:
        """What the sum of the contributions has too much, as a share of the change of the score."""
        missing = _numbers(_total(self.task, values)) - _numbers(self.change)[places]
        ends = [np.abs(_numbers(run.scores)[places]) for run in (self.start, self.end)]
        least = np.maximum(SMALLEST_SHARE * np.maximum(*ends), np.finfo("float32").tiny)
        return missing / np.maximum(np.abs(_numbers(self.change)[places]), least)


def smoothgrad(task: Task, examples: Any, *, samples: int, noise: float, seed: int) -> Part:
    """The mean gradient at points around the input, normally distributed by a share of its range."""
    count, inputs = _require_count(task, examples), task.of(examples)
    at = task.run(inputs, task.target.at(examples), differentiate=False)
    widths = [[noise * task.engine.spread(s) for s in each] for each in at.sources]
    first = examples.start or 0

    def around(n: int, s: int, who: np.ndarray, which: np.ndarray) -> Any:
        source, width = (task.engine.take(each[n][s], who) for each in (at.sources, widths))
        drawn = [
            np.random.default_rng([seed, n, s, first + i, k]).standard_normal(source.shape[1:])
            for i, k in zip(who, which, strict=True)
        ]
        return source + width * task.engine.as_tensor(np.stack(drawn), source)

    target = task.target.at(examples).fixed(at.chosen)
    equal = np.full(samples, 1 / samples)
    found = averaged(task, inputs, at.sources, target, around, equal, count)
    return Part(task.per_input(found), at)


def averaged(
    task: Task,
    inputs: Sequence[Any],
    sources: Groups,
    target: Target,
    points: Points,
    weights: np.ndarray,
    count: int,
) -> list[list[Any]]:
    """The weighted sum of the gradients of each example at all of its points, so many at once as memory allows."""
    own = [_is_itself(x, g) for x, g in zip(inputs, sources, strict=True)]

    def gradients(here: list[Any], given: list[Any], places: Any) -> Any:
        run = task.run(here, target.fixed(places), given=given, layer=task.layer)
        return task.gradients_of(run)[1]

    is_traced = task.worth_tracing(count * len(weights))
    differentiate = task.engine.traced(gradients) if is_traced else gradients
    sums: list[list[Any]] | None = None
    for share, who, which, factors in _batches(task, weights, count, is_traced):
        taken = [[points(n, s, who, which) for s in range(len(g))] for n, g in enumerate(sources)]
        here = [
            each[0] if is_own else task.engine.take(x, who)
            for each, is_own, x in zip(taken, own, inputs, strict=True)
        ]
        given = [None if is_own else each for each, is_own in zip(taken, own, strict=True)]
        parts = [
            [None if g is None else task.engine.sum_by(g, factors, who, count) for g in each]
            for each in differentiate(here, given, target.at(who).places)
        ]
        sums = (
            parts if sums is None else [list(map(_add, *e)) for e in zip(sums, parts, strict=True)]
        )
        task.tell(share)
    return sums or []


def _batches(
    task: Task, weights: np.ndarray, count: int, is_traced: bool
) -> Iterator[tuple[float, np.ndarray, np.ndarray, np.ndarray]]:
    """What share is done afterwards, and of each gradient its example, its point, and its weight.

    For a program all batches are equally long: the last one ends in gradients that count for nothing.
    """
    total, begin = count * len(weights), 0
    size = min(task.batches.size, total)
    while begin < total:
        size = size if is_traced else task.batches.size
        numbers = np.arange(begin, begin + size if is_traced else min(begin + size, total))
        begin += size
        kept = np.minimum(numbers, total - 1)
        which = kept % len(weights)
        factors = np.where(numbers < total, weights[which], 0.0)
        yield min(begin / total, 1.0), kept // len(weights), which, factors


def _at_baseline(
    task: Task, inputs: Sequence[Any], end: ModelRun, examples: Any, target: Target
) -> ModelRun:
    """The model where the way begins: masks and whatever else it makes of whole numbers are those of x all along."""
    begins, given = baselines_of(task, inputs, end.sources, examples)
    own = [_is_itself(x, found) for x, found in zip(inputs, end.sources, strict=True)]
    at = task.run(begins, target, given=given, differentiate=False)
    if all(is_own or each is not None for is_own, each in zip(own, given, strict=True)):
        return at
    given = [None if is_own else found for is_own, found in zip(own, at.sources, strict=True)]
    begins = [b if is_own else x for b, x, is_own in zip(begins, inputs, own, strict=True)]
    return task.run(begins, target, given=given, differentiate=False)


def baselines_of(
    task: Task, inputs: Sequence[Any], sources: Groups, examples: Any
) -> tuple[list[Any], list[Any]]:
    """What was given, or zero: in place of the inputs, or of what is looked up for each of them."""
    given: list[Any] = []
    begins: list[Any] = []
    for x, found, baseline in zip(inputs, sources, task.baseline, strict=True):
        is_own = _is_itself(x, found)
        if baseline is None:
            begins.append(x * 0 if is_own else x)
            given.append(None if is_own else [s * 0 for s in found])
        else:
            array = task.engine.as_tensor(baseline, x)
            whole = len(array.shape) == len(x.shape) and array.shape[0] not in (1, None)
            begins.append(x * 0 + (task.engine.take(array, examples) if whole else array))
            given.append(None)
    return begins, given


def differentiated(task: Task, inputs: Sequence[Any]) -> Groups:
    """What is differentiated: the inputs, or what the model looks up for them."""

    def seen(some: Sequence[Any]) -> Groups:
        return task.subject.run(some, lambda outputs: (outputs, None), differentiate=False).sources

    first = seen([x[:1] for x in inputs])
    are_own = [_is_itself(x, found) for x, found in zip(inputs, first, strict=True)]
    return [[x] for x in inputs] if all(are_own) else seen(inputs)


def _is_itself(x: Any, sources: Sequence[Any]) -> bool:
    """Whether it is the input that is differentiated, and not what was looked up for it."""
    return (
        len(sources) == 1 and len(sources[0].shape) == len(x.shape) and sources[0].dtype == x.dtype
    )


def _require_count(task: Task, examples: slice) -> int:
    if task.count is None:
        raise SaliencyError(
            "this method averages over points of every example, and in a traced program their number must be known: "
            "give x a fixed first axis, by tf.ensure_shape or an input_signature."
        )
    return len(range(task.count)[examples])


def _column(task: Task, numbers: np.ndarray, like: Any) -> Any:
    shape = [-1] + [1] * (len(like.shape) - 1)
    return task.engine.reshape(task.engine.as_tensor(numbers, like), shape)


def _put(
    task: Task, found: list[Any], values: list[Any], places: np.ndarray, count: int
) -> list[Any]:
    """The values with new ones at these places."""
    order = np.arange(count)
    order[places] = count + np.arange(len(places))
    return [
        None if old is None else task.engine.take(task.engine.concat([old, new]), order)
        for old, new in zip(found, values, strict=True)
    ]


def _total(task: Task, values: Sequence[Any]) -> Any:
    """Of each example the sum of all contributions."""
    sums = [task.engine.sum_over(v, range(1, len(v.shape))) for v in values if v is not None]
    return sum(sums[1:], sums[0])


def _gap(task: Task, values: Sequence[Any], change: Any) -> Any:
    missing = task.engine.ratio(_total(task, values) - change, change)
    return task.engine.positive(missing) + task.engine.positive(-missing)


def _numbers(tensor: Any) -> np.ndarray:
    return np.asarray(tensor, dtype="float64")


def _add(one: Any, other: Any) -> Any:
    return one if other is None else other if one is None else one + other
