"""A model run on some examples: its scores, and their gradient towards inputs and features."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow.saliency.covering import Covering
from pullback.engines.tensorflow.saliency.features import Features
from pullback.engines.tensorflow.saliency.layer_rules import (
    LINEAR_LAYERS,
    Absorbed,
    LayerRules,
    without_activation,
)
from pullback.engines.tensorflow.saliency.observe import Observer, observed
from pullback.engines.tensorflow.state import random_state_kept, reachable_variables
from pullback.errors import PullbackError, SaliencyError
from pullback.extend import (
    LAST_FEATURES,
    Activation,
    ModelRun,
    Override,
    RulesByKind,
    absorbed,
    enter,
    flatten,
    leave,
    set_for,
    unflatten,
)

Score = Callable[[Any], tuple[Any, Any]]


class Subject:
    """A model, called in inference mode, and what its inputs look like."""

    def __init__(self, model: Any, structure: Any, of: str) -> None:
        self.model = model
        self.structure = structure
        self.looks_through = of == "logit"
        self.wrote = False
        self._passing: set[tuple[int, int]] = set()

    def prepare(self, inputs: Sequence[Any]) -> ModelRun | None:
        """Have a model that was never called make its variables, and see where whole numbers are only passed on."""
        one = [x[:1] for x in inputs]
        if isinstance(self.model, keras.Layer) and not self.model.built:
            self._called(one)
        if all(x.dtype.is_floating for x in inputs):
            return None
        return self.run(one, lambda outputs: (outputs, None), differentiate=False)

    @contextlib.contextmanager
    def unchanged(self) -> Generator[None]:
        """Variables and random numbers are afterwards what they were."""
        if not tf.executing_eagerly():
            yield
            return
        # To read a variable copies nothing: TensorFlow copies when it is written to.
        before = [(v, v.read_value()) for v in reachable_variables(self.model)]
        with random_state_kept(0):
            try:
                yield
            finally:
                for variable, value in before if self.wrote else ():
                    variable.assign(value)

    def run(
        self,
        inputs: Sequence[Any],
        score: Score,
        *,
        given: Sequence[Sequence[Any] | None] | None = None,
        differentiate: bool = True,
        layer: Any = None,
        rules: RulesByKind | None = None,
    ) -> ModelRun:
        """Run the model on these inputs.

        `given` are the tensors that take the place of those looked up for an input. `layer` is the layer whose features
        are asked for, or the last ones; `rules` are the rules of all that is of some kind.
        """
        kept: list[tuple[Any, Any]] = []
        covering = self._covering(rules)
        last = self._last_layers(inputs) if isinstance(covering, LayerRules) else []
        leaves = [tf.identity(x) for x in inputs]
        floating = [x for x in leaves if x.dtype.is_floating]
        # What z^B and flat give is brought back to the inputs afterwards, by the same tape.
        with tf.GradientTape(isinstance(covering, LayerRules), False) as tape:
            watch = tape.watch if differentiate else None
            if watch is not None:
                watch([*floating, *(t for each in given or () for t in each or ())])
            maps = Features(self.model, leaves) if layer is LAST_FEATURES else None
            observer = Observer(leaves, given, watch, covering, self._passing, maps)
            with covering:
                with _seeing(layer, kept), observed(observer), without_activation(last):
                    outputs = self._called(leaves)
                ends = [e for t in flatten(outputs)[0] for e in observer.ends_of(t)]
                outputs, activation = self._looked_through(observer, outputs)
                scores, chosen = score(outputs)
        self.wrote |= observer.wrote
        sources = [
            found or ([x] if x.dtype.is_floating else [])
            for found, x in zip(observer.looked_up, leaves, strict=True)
        ]
        activation = activation or ", ".join(each.activation.__name__ for each in last) or None
        run = ModelRun(scores, chosen, outputs, activation, sources, size=observer.bytes)
        if differentiate and isinstance(covering, LayerRules):
            taken = Absorbed(leaves[0].shape[0])
            with set_for(absorbed, taken):
                self._differentiate(run, tape, maps and maps.last(ends), kept)
            wanted = [t for each in sources for t in each]
            flat = iter(covering.unweighted.brought_to(wanted, tape, taken))
            run.relevances = [[next(flat) for _ in each] for each in sources]
            run.absorbed = taken.by_layer if taken.is_complete else None
        elif differentiate:
            self._differentiate(run, tape, maps and maps.last(ends), kept)
        run.is_by_step = maps is not None and maps.is_by_step
        run.audit = covering.audit
        run.operations, run.op_types = dict(observer.operations), covering.op_types
        return run

    def _last_layers(self, inputs: Sequence[Any]) -> list[Any]:
        """Layers that are one unit in rules for layers, and whose activation is to be looked through."""
        if not self.looks_through:
            return []
        one = [tf.identity(x[:1]) for x in inputs]
        observer = Observer(one, None, None, Covering(None), set())
        with observed(observer):
            outputs = flatten(self._called(one))[0]
        found = [observer.last_layer(t) for t in outputs]
        return [each for each in found if isinstance(each, LINEAR_LAYERS)]

    def _covering(self, rules: RulesByKind | None) -> Covering:
        if rules is None or rules.composite is None:
            return Covering(rules)
        return LayerRules(rules, self.model)

    def _differentiate(
        self, run: ModelRun, tape: Any, last: tuple[Any, str] | None, kept: list[Any]
    ) -> None:
        wanted = [*(t for each in run.sources for t in each), *([last[0]] if last else [])]
        found: list[Any] = tape.gradient(run.scores, wanted)
        if last is not None:
            run.features, run.feature_gradient, run.layer = last[0], found.pop(), last[1]
        flat = iter(found)
        run.gradients = [[next(flat) for _ in each] for each in run.sources]
        run.calls = len(kept)
        if kept:  # the backward pass comes to the last call first
            run.features, run.feature_gradient = kept[0]

    def _called(self, leaves: Sequence[Any]) -> Any:
        x = unflatten(self.structure, leaves)
        options = {"training": False} if isinstance(self.model, keras.Layer) else {}
        try:
            return self.model(x, **options)
        except PullbackError:
            raise
        except Exception as error:
            shapes = ", ".join(f"{t.dtype.name}{t.shape.as_list()}" for t in leaves)
            raise SaliencyError(
                f"the model cannot be called with this x ({shapes}): {error}\n"
                "x is what `model(x)` takes, with the examples along its first axis: write x[None] for a single one."
            ) from error

    def _looked_through(self, observer: Observer, outputs: Any) -> tuple[Any, str | None]:
        leaves, structure = flatten(outputs)
        if not self.looks_through:
            return outputs, None
        found = [
            observer.before_last_activation(t) if isinstance(t, tf.Tensor) else (t, None)
            for t in leaves
        ]
        names = [name for _, name in found if name is not None]
        return unflatten(structure, [t for t, _ in found]), ", ".join(names) or None


@contextlib.contextmanager
def _seeing(layer: Any, kept: list[tuple[Any, Any]]) -> Generator[None]:
    """A block in which the features of a layer are kept, with the gradients that arrive there."""
    if not isinstance(layer, keras.Layer):
        yield
        return
    override = Override({layer: _seen_by(kept)}, strict=False)
    enter(Activation(override))
    try:
        yield
    finally:
        leave(override)  # that the layer did not run is said by whoever asked for its features


def _seen_by(kept: list[tuple[Any, Any]]) -> Callable[..., Any]:
    """A rule that keeps what a layer gave, and the gradient that arrives there."""

    def see(*upstream: Any, outputs: Any, original: Any) -> Any:
        found = flatten(outputs)[0]
        if len(found) != 1:
            raise SaliencyError(
                f"the layer gives {len(found)} tensors; wanted one that gives a single tensor."
            )
        kept.append((found[0], upstream[0]))
        return original(*upstream)

    return see
