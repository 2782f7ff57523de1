"""One run of a function, forward and backward, told as a flow."""

from __future__ import annotations

import contextlib
import functools
import re
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow import values
from pullback.engines.tensorflow.explaining import steps, telling, weighing
from pullback.engines.tensorflow.explaining.reading import GraphReader
from pullback.engines.tensorflow.explaining.sight import Sight
from pullback.engines.tensorflow.explaining.sources import Sources
from pullback.engines.tensorflow.explaining.subject import Subject, starts_of, subject_of
from pullback.engines.tensorflow.probing.arguments import outputs_of
from pullback.engines.tensorflow.probing.callee import plain_line
from pullback.engines.tensorflow.programs import TensorFlowPrograms
from pullback.engines.tensorflow.programs.lines import Lines, place_of_error
from pullback.engines.tensorflow.state import State, random_state_kept, reachable_variables
from pullback.engines.tensorflow.tf_private import explaining_hooks, keras_models, overriding
from pullback.engines.tensorflow.values import is_variable
from pullback.errors import ExplainError, PullbackError
from pullback.extend import flatten, flow, unflatten, walk

_KERAS = "Exception encountered when calling"
_COLOUR = re.compile(r"\x1b\[\d+m")


def record(
    fn: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    wrt: Sequence[Any] | None,
    loss: Any,
) -> flow.Flow:
    """The flow of one run; everything that it changes is put back."""
    if not private.executing_eagerly():
        raise ExplainError(
            "explain looks at numbers, so it cannot run inside a tf.function or a graph. Call it outside: "
            "pb.explain(traced_function, x)."
        )
    overriding.check_override()
    began = time.perf_counter()
    subject = subject_of(fn, args, kwargs, loss)
    twice = explaining_hooks.python_functions_differentiable_twice()
    with state_kept(subject) as state, twice:
        found = Recording(subject, state, wrt)
        found.run()
        if state.add(reachable_variables(subject.fn, *subject.arguments)):
            # Variables were made by the call: another one shows what it is without that.
            state.restore(state.changed())
            found = Recording(subject, state, wrt)
            found.run()
        eager = found.eagerly()
        if eager is not None:
            return eager.flow(began)
        told = found.flow(began)
        return found.weighted_flow(told, began) or told


@contextlib.contextmanager
def state_kept(subject: Subject) -> Generator[State]:
    """Variables and random numbers are as before when this is closed."""
    with random_state_kept(0):
        reached = reachable_variables(subject.fn, *subject.arguments)
        state = State([*reached, *private.global_generator_state(), *keras_models.global_seeds()])
        try:
            yield state
        finally:
            state.restore(state.changed())
            _forget_new_metrics(subject.fn, state)


def _forget_new_metrics(fn: Any, state: State) -> None:
    """Metrics that the run itself has made start from nothing."""
    model = getattr(fn, "__self__", fn)
    for metric in model.metrics if isinstance(model, keras.Model) else ():
        if any(id(private.value_of(v)) not in state.saved for v in metric.variables):
            metric.reset_state()


class Recording:
    """A run that is recorded."""

    def __init__(
        self,
        subject: Subject,
        state: State,
        wrt: Sequence[Any] | None,
        programs: tuple[TensorFlowPrograms, GraphReader] | None = None,
        *,
        keeps: bool = True,
    ) -> None:
        self.subject, self.state, self.wrt = subject, state, wrt
        self.lines = Lines(subject.fn, called.__code__)
        layers = _layers(subject.fn)
        reader = GraphReader(self.lines, frozenset(layer.name for layer in layers.values()))
        self.programs = programs or (TensorFlowPrograms(), reader)
        self.sight = Sight(subject.fn, self.lines, *self.programs, keeps=keeps)
        self.sight.known_layers |= layers
        variables = [v for v, _ in state.saved.values()]
        self.sources = Sources(subject, variables, wrt)
        self.sight.variables = {id(v): v for v in self.sources.variables}
        self.given = list(map(self.sight.value, self.sources.given))
        self.gradients = steps.Gradients(self.sight.position, self.lines.here)
        self.weighted = False  # whether outputs are summed with unequal weights
        self.step: steps.Asked | None = None
        self.tape: Any = None
        self.result: Any = None

    def run(self, *, taped: bool = True) -> None:
        """Run forward, on a tape of our own."""
        self.tape = self.sight.tape = tf.GradientTape()
        with self.tape if taped else contextlib.nullcontext(), self.gradients.seen():
            if taped:
                self.tape.watch(self.sources.watched())
            with self.sight.seen():
                self.result = _read(called(self.subject, self.lines))
        self.ran = self.sight.position()
        self.step = steps.chosen(self.subject.fn, self.gradients, self.result, self._assigns())

    def _assigns(self) -> bool:
        """Whether something is assigned to a variable whose gradient was asked for."""
        asked = [s for each in self.gradients.asked for s in each.sources]
        return any(
            self.sight.known(s) in self.sight.assigned()
            for s in asked
            if isinstance(s, tf.Variable)
        )

    def eagerly(self) -> Recording | None:
        """A run of the Python function behind a traced one, if that takes a gradient itself: a graph hides it."""
        hidden = self.gradients.traced or not outputs_of(self.result) or self.sight.assigned()
        subject = self.subject.eagerly() if hidden and self.step is None else None
        if subject is None:
            return None
        self.state.restore(self.state.changed())
        other = Recording(subject, self.state, self.wrt)
        try:
            other.run()
        except ExplainError:  # what is traced may not run otherwise
            return None
        return other if other.step is not None else None

    def flow(self, began: float) -> flow.Flow:
        """Run backward, and tell."""
        self.state.restore(self.state.changed())
        measure = functools.partial(held, self.subject, self.wrt, self.programs, self.ran)
        return telling.flow_of(self, measure, began)

    def weighted_flow(self, plain: flow.Flow, began: float) -> flow.Flow | None:
        """Another run with weighted outputs, where that shows gradients which the plain sum hides."""
        asks = self.step is None and weighing.is_model(self.subject)
        if not asks or not weighing.is_worth_it(starts_of(self.subject, self.result), plain):
            return None
        other = Recording(self.subject, self.state, self.wrt)
        other.weighted = True
        other.run()
        found = other.flow(began)
        return found if weighing.shows_more(found, plain) else None


def held(
    subject: Subject,
    wrt: Sequence[Any] | None,
    programs: tuple[TensorFlowPrograms, GraphReader],
    ran: tuple[int, int],
    call: int | None,
    numbers: Mapping[int, int],
) -> Mapping[int, int]:
    """Run forward once more, and see what is kept: bytes by value of the flow.

    Of a step, what its own tape keeps when it is asked for the gradient of a `call`.
    """
    with state_kept(subject) as state:
        again = Recording(subject, state, wrt, programs, keeps=False)
        given = [*(leaf.tensor for leaf in subject.leaves), *again.sources.variables]
        kept: list[Mapping[int, int]] = []
        if call is not None:
            again.gradients.before = lambda: kept.append(again.sight.kept(given))
        again.run(taped=call is None)
        again.result = None
        if again.ran != ran and call is None:
            raise ExplainError(
                f"{subject.name} was differentiated since it was explained, for which TensorFlow has rewritten its "
                "graph: other operations run now. Explain it again, or ask for residuals before."
            )
        found = again.sight.kept(given) if call is None else kept[call]
        return {numbers[n]: size for n, size in found.items() if n in numbers}


def called(subject: Subject, lines: Lines, moved: Mapping[int, Any] | None = None) -> Any:
    """Call what is explained; lines are looked for up to here."""
    try:
        return subject.run(moved)
    except PullbackError:
        raise
    except Exception as error:
        place = place_of_error(error, lines)
        where = f" at {place}" if place else ""
        raise ExplainError(
            f"{subject.name} raised {type(error).__name__}{where} when called with the given arguments "
            f"({subject.given}): {_in_short(error)}"
        ) from error


def _in_short(error: BaseException) -> str:
    """What an error says, without what AutoGraph and Keras put around it."""
    text = _COLOUR.sub("", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if text.startswith("in user code:"):
        return lines[-1]
    return lines[1] if text.startswith(_KERAS) and len(lines) > 1 else plain_line(error)


def _read(result: Any) -> Any:
    """The result with the values of variables in their place, read while that is still seen."""
    leaves, structure = flatten(result)
    if not any(map(is_variable, leaves)):
        return result
    return unflatten(structure, [values.read(leaf) for leaf in leaves])


def _layers(fn: Any) -> dict[int, Any]:
    """The Keras layers that a function can reach, by identity."""
    found = [thing for thing in walk(fn, stop=_is_layer) if _is_layer(thing)]
    return {id(layer): layer for each in found for layer in keras_models.layers_inside(each)}


def _is_layer(thing: Any) -> bool:
    return isinstance(thing, keras.Layer)
