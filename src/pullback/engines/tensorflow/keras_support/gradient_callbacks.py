"""Callbacks for `fit`: numbers of gradient layers that change in the course of training, and norms that are logged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import keras
import tensorflow as tf

from pullback.engines.tensorflow.keras_support.gradient_layers import (
    GradientReversal,
    GradientScale,
    Tap,
    number_in,
)
from pullback.engines.tensorflow.tf_private.keras_models import layers_inside


def _adversarial(p: float) -> float:
    return 2.0 / (1.0 + math.exp(-10.0 * p)) - 1.0


def _linear(p: float) -> float:
    return p


def _constant(p: float) -> float:
    del p
    return 1.0


def _cosine(p: float) -> float:
    return (1.0 - math.cos(math.pi * p)) / 2.0


# From 0 to 1 while p, the part of training that is done, goes from 0 to 1.
SCHEDULES: Final[Mapping[str, Callable[[float], float]]] = {
    "adversarial": _adversarial,
    "linear": _linear,
    "constant": _constant,
    "cosine": _cosine,
}


class GradientSchedule(keras.callbacks.Callback):
    """Sets `k` of the GradientReversal layers of a model before each batch of `fit`.

    `k` is `peak` times a schedule of p, the part of training that is done: `"adversarial"` (2/(1+e^−10p)−1, as for
    domain adaptation), `"linear"`, `"cosine"` and `"constant"`, or a function of p. `layers` are layers or names,
    GradientScale layers too; else each GradientReversal is moved and no GradientScale. `steps` is the number of batches
    of the whole training, where `fit` does not know it. The value is in the logs of each epoch.

    >>> import pullback as pb
    >>> pb.keras.GradientSchedule("linear", peak=0.5).at(0.5)
    0.25
    """

    def __init__(
        self,
        schedule: str | Callable[[float], float] = "adversarial",
        peak: float = 1.0,
        layers: Iterable[Any] | None = None,
        steps: int | None = None,
    ) -> None:
        super().__init__()
        if not callable(schedule) and schedule not in SCHEDULES:
            known = ", ".join(map(repr, SCHEDULES))
            raise ValueError(
                f"GradientSchedule got {schedule!r}; there are {known}, or a function of p from 0 to 1."
            )
        if steps is not None and steps < 1:
            raise ValueError(f"GradientSchedule got steps={steps!r}; wanted 1 or more.")
        self._of: Callable[[float], float] = schedule if callable(schedule) else SCHEDULES[schedule]
        self.peak, self.steps = peak, steps
        self._wanted = None if layers is None else list(layers)
        self._done = self._epoch = 0

    def at(self, p: float) -> float:
        """The value when this part of training is done."""
        return self.peak * self._of(min(max(p, 0.0), 1.0))

    def on_train_begin(self, logs: Any = None) -> None:
        """Find the layers."""
        del logs
        self._done = 0
        # The k of a GradientScale is a choice of its own: only whoever names the layer means to move it.
        kinds = (GradientReversal,) if self._wanted is None else (GradientReversal, GradientScale)
        self._layers = _found(
            self.model, kinds, self._wanted, ", or name a GradientScale in layers="
        )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Count."""
        del logs
        self._epoch = epoch

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Set the value of this batch."""
        del batch, logs
        value = self.at(self._progress())
        for layer in self._layers:
            layer.k.assign(value)
        self._done += 1

    def _progress(self) -> float:
        """The part of training that is done; by epochs alone, where `fit` does not know how many batches there are."""
        known: Any = self.params or {}
        batches = known.get("steps")
        total = self.steps or (batches and batches * known["epochs"])
        return self._done / total if total else self._epoch / known["epochs"]

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Log the value."""
        del epoch
        if logs is not None:
            logs |= {f"{layer.name}_k": number_in(layer.k) for layer in self._layers}


class GradientNorms(keras.callbacks.Callback):
    """Logs the length of the gradient at each `pb.keras.Tap` of a model: its mean over each epoch is in the logs.

    `history` has every value by the name of the Tap; with a `log_dir` they are written for TensorBoard. They are read
    every `every` batches, and are those of that batch.

    >>> import pullback as pb
    >>> pb.keras.GradientNorms(every=10).history
    {}
    """

    def __init__(self, log_dir: Any = None, every: int = 1) -> None:
        super().__init__()
        if every < 1:
            raise ValueError(f"every is a number of batches, 1 or more; got {every!r}.")
        self.every = every
        self.history: dict[str, list[float]] = {}
        self._log_dir, self._writer = log_dir, None
        self._batches = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Find the layers."""
        del logs
        self._taps = _found(self.model, (Tap,), None)
        self.history = {tap.name: [] for tap in self._taps}
        self._batches = 0
        if self._log_dir is not None:
            self._writer = tf.summary.create_file_writer(str(self._log_dir))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin a mean."""
        del epoch, logs
        self._before = {name: len(values) for name, values in self.history.items()}

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Read the norms of this batch."""
        del batch, logs
        self._batches += 1
        if self._batches % self.every:
            return
        for tap in self._taps:
            self.history[tap.name].append(number_in(tap.norm))
        if self._writer is not None:
            with self._writer.as_default(step=self._batches):
                for name, values in self.history.items():
                    _write_scalar(f"gradient_norm/{name}", values[-1])

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Log the means."""
        del epoch
        for name, values in self.history.items():
            of_epoch = values[self._before[name] :]
            if logs is not None and of_epoch:
                logs[f"{name}_norm"] = sum(of_epoch) / len(of_epoch)

    def on_train_end(self, logs: Any = None) -> None:
        """Close the file."""
        del logs
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _write_scalar(tag: str, value: float) -> None:
    """As `tf.summary.scalar` does, which is not there without TensorBoard."""
    metadata = tf.compat.v1.SummaryMetadata(plugin_data={"plugin_name": "scalars"}, data_class=1)
    tf.summary.write(tag, tf.constant(value, tf.float32), metadata=metadata)


def _found(
    model: Any, kinds: tuple[type, ...], wanted: list[Any] | None, hint: str = ""
) -> list[Any]:
    """The layers of these classes in a model; those that are wanted, if it says which."""
    found = [layer for layer in layers_inside(model) if isinstance(layer, kinds)]
    if wanted is not None:
        lost = [w for w in wanted if not any(w in (e, e.name) for e in found)]
        if lost:
            known = ", ".join(repr(layer.name) for layer in found) or "none"
            raise ValueError(f"the model has no gradient layer {lost[0]!r}; there are {known}.")
        found = [layer for layer in found if layer in wanted or layer.name in wanted]
    if not found:
        names = " or ".join(f"pb.keras.{kind.__name__}" for kind in kinds)
        raise ValueError(f"the model {model.name!r} has no layer of {names}: put one in{hint}.")
    return found
