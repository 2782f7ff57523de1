"""A callback for `fit` that stops at the first step that is not finite, and says where that came from."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.state import State, variables_of
from pullback.engines.tensorflow.tf_private.keras_models import variables_seen
from pullback.errors import UnsupportedError
from pullback.extend import NonFinite, explain, flow


class WatchGradients(keras.callbacks.Callback):
    """Stops `fit` at the first step whose loss or gradient is not finite, and explains it.

    The loss is looked at after each step, the weights every `every` steps and at the end: a gradient with NaN or Inf
    shows in them. (What a loss-scaling optimizer skips does no harm and is not reported.) So that the bad step
    can be run again from the weights *before* it, the values of all variables are kept every `every` steps, with the
    batches since: one more copy of the weights and `every` batches in memory. `stop=False` explains the first bad step,
    undoes it, and lets `fit` go on unwatched.

    Afterwards `flow` is the explained step, `nonfinite` what was found, `step` its number from 0; the model has the
    weights from before it.

    >>> import pullback as pb
    >>> pb.keras.WatchGradients().step is None
    True
    """

    def __init__(self, every: int = 10, stop: bool = True) -> None:
        super().__init__()
        if every < 1:
            raise ValueError(f"every is a number of steps, 1 or more; got {every!r}.")
        self.every, self.stop = every, stop
        self.flow: flow.Flow | None = None
        self.nonfinite: NonFinite | None = None
        self.step: int | None = None
        self._plain: Any = None  # the training function of the model

    @property
    def _trained(self) -> Any:
        return self.model

    def on_train_begin(self, logs: Any = None) -> None:
        """Stand between `fit` and the training function."""
        del logs
        if self._trained.distribute_strategy.num_replicas_in_sync > 1:
            raise UnsupportedError(
                "WatchGradients runs a step again on one device; this model is trained on several. "
                "Train it without a strategy to find the bad step."
            )
        self._steps = 0
        self._since: list[Any] = []  # the batches since the last copy
        self._copy: State | None = None
        self._plain, self._trained.train_function = self._trained.train_function, self._watched

    def on_train_end(self, logs: Any = None) -> None:
        """Look at the last steps too, and step back."""
        del logs
        if self._plain is not None and self._since and not self._is_fine({}, True):
            self._explain()
        self._step_back()

    def _step_back(self) -> None:
        if self._plain is not None:
            self._trained.train_function, self._plain = self._plain, None

    def _watched(self, iterator: Iterable[Any]) -> Any:
        """The training function, with an eye on what comes out of it."""
        batches = list(itertools.islice(iterator, self._trained.steps_per_execution))
        if not batches:
            raise StopIteration
        if self._copy is None or len(self._since) >= self.every:
            self._copy, self._since = self._state(), []
        self._since += batches
        try:
            # A variable that this step makes, of the model or its optimizer, was before it what it starts as.
            with variables_seen(self._copy.add):
                logs = self._plain(iter(batches))
        except BaseException:
            self._step_back()  # `fit` ends here, and tells no callback
            raise
        self._steps += len(batches)
        if not self._is_fine(logs, len(self._since) >= self.every):
            self._explain()
        return logs

    def _state(self) -> State:
        """All variables with their values, those that random numbers are drawn from among them."""
        return State(variables_of(self._trained, self._trained.optimizer))

    def _is_fine(self, logs: Any, weights: bool) -> bool:
        if not all(map(math.isfinite, _losses(logs))):
            return False
        return not (weights and _has_bad([v.value for v in self._trained.trainable_variables]))

    def _explain(self) -> None:
        """Find the bad step among those since the last copy, and explain it from the weights before it."""
        plain = self._plain
        self._step_back()
        first = self._steps - len(self._since)
        before, batch = self._copy or self._state(), self._since[0]
        before.restore()
        for batch in self._since:
            before = self._state()
            if not self._is_fine(plain(iter([batch])), True):
                break
            first += 1
        before.restore()
        self.step = first
        self.flow = explain(self._trained.train_step, batch)
        self.nonfinite = self.flow.first_nonfinite()
        sys.stdout.write(f"\n{self._said()}\n")
        self._trained.stop_training = self._trained.stop_training or self.stop

    def _said(self) -> str:
        unknown = "loss and gradient are finite, so that the optimizer's step made it: try a smaller learning rate."
        end = "stopped" if self.stop else "unwatched from here on"
        return (
            f"step {self.step} is not finite: {self.nonfinite or unknown}\n"
            f"The model has the weights from before this step; training is {end}. See `.flow` and `.nonfinite`."
        )


def _losses(logs: Any) -> list[float]:
    found: Mapping[str, Any] = logs if isinstance(logs, Mapping) else {"loss": logs}
    return [float(value) for name, value in found.items() if "loss" in name]


def _some_not_finite(values: Sequence[Any]) -> Any:
    bad = [tf.reduce_any(~tf.math.is_finite(v)) for v in values if v.dtype.is_floating]
    return tf.reduce_any(bad)


_has_bad: Any = tf.function(_some_not_finite, reduce_retracing=True, autograph=False)
