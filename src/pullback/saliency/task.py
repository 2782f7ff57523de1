"""A saliency map to be made: the model, its inputs and the target, in parts that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from pullback.errors import SaliencyError
from pullback.saliency.protocol import ModelRun, SaliencyEngine, Subject
from pullback.saliency.targets import Score, Target

BUDGET: Final = 2**30  # bytes that the tensors of one run of a model may take
# A network takes hundreds of times the memory of an image (VGG16: 330 times). A guess for the first run.
GUESS: Final = 500
# Bytes of tensors: what would take more is made a program first, which takes half the time and some seconds to make.
WORTH: Final = 4 * BUDGET
BACKWARD: Final = 2  # gradients take as much memory as what they are gradients of


class Batches:
    """How many examples go through the model at once: guessed at first, then by what they were seen to take."""

    def __init__(self, engine: SaliencyEngine, inputs: Sequence[Any]) -> None:
        sizes = [np.prod([n or 1 for n in x.shape[1:]]) * x.dtype.size for x in inputs]
        # Of a few whole numbers, such as tokens, a network may make any amount.
        whole = not all(map(engine.is_floating, inputs))
        self.each = float(BUDGET if whole else GUESS * max(sum(sizes), 1))

    @property
    def size(self) -> int:
        """So many examples at once."""
        return max(1, int(BUDGET // self.each))

    def learn(self, run: ModelRun, count: int) -> None:
        """What a run of so many examples has taken."""
        if run.size:
            self.each = BACKWARD * run.size / count


@dataclass
class Task:
    """What a method works on."""

    engine: SaliencyEngine
    subject: Subject
    inputs: Sequence[Any]
    target: Target
    count: int | None  # of examples; unknown in a program that is traced for any number of them
    layer: Any = None
    baseline: Sequence[Any] = ()  # one for each input: nothing, or a number or array
    batches: Batches = field(init=False)
    tell: Callable[[float], object] = float  # what share of the examples at hand is done

    def __post_init__(self) -> None:
        self.batches = Batches(self.engine, self.inputs)

    def of(self, examples: Any) -> list[Any]:
        """The inputs of some examples."""
        whole = examples == slice(0, None)
        return [x if whole else self.engine.take(x, examples) for x in self.inputs]

    def run(
        self,
        inputs: Sequence[Any],
        score: Score,
        *,
        given: Sequence[Sequence[Any] | None] | None = None,
        **options: Any,
    ) -> ModelRun:
        """The model on these inputs; how much memory it takes is noted."""
        run = self.subject.run(inputs, score, given=given, **options)
        count = inputs[0].shape[0]
        if count is not None:
            self.batches.learn(run, count)
        return run

    def worth_tracing(self, points: int) -> bool:
        """Whether so many gradients are better computed by a program; as part of a program they are, anyway."""
        symbolic = any(map(self.engine.is_symbolic, self.inputs))
        return symbolic or self.batches.each * points > WORTH

    def gradients_of(
        self, run: ModelRun
    ) -> tuple[Sequence[Sequence[Any]], Sequence[Sequence[Any]]]:
        """What is differentiated and its gradients, for each input; or the features, where a layer was asked for."""
        if self.layer is not None:
            if run.feature_gradient is None:
                raise SaliencyError(
                    f"no gradient of the target reaches layer {self.layer.name!r}: it did not run in this call of the "
                    "model, or the target does not depend on it."
                )
            return [[run.features]], [[run.feature_gradient]]
        if all(g is None for each in run.gradients for g in each):
            raise SaliencyError(_no_gradient(self.inputs, run))
        return run.sources, run.gradients

    def per_input(self, contributions: Sequence[Sequence[Any]]) -> list[Any]:
        """One array for each input: what was looked up for an entry is summed to it. `None` where nothing flows."""
        if self.layer is not None:
            return [contributions[0][0]]
        found: list[Any] = []
        for x, each in zip(self.inputs, contributions, strict=True):
            rank = len(x.shape)
            parts = [g for g in each if g is not None]
            sums = [self.engine.sum_over(g, range(rank, len(g.shape))) for g in parts]
            found.append(sum(sums[1:], sums[0]) if sums else None)
        return found


def _no_gradient(inputs: Sequence[Any], run: ModelRun) -> str:
    if not any(run.sources):
        kinds = ", ".join(sorted({str(x.dtype.name) for x in inputs}))
        return (
            f"x holds {kinds}, into which no gradient flows, and the model looks up nothing for it that could be "
            "differentiated: no embedding, one-hot vector or cast to floating-point numbers of the shape of x was seen."
        )
    return (
        "no gradient of the target reaches x: the target does not depend on it, or goes through something without a "
        "gradient, such as argmax, rounding, NumPy or tf.stop_gradient. `pb.targets(model, x)` lists what gradients "
        "flow through."
    )
