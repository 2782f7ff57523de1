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
from pullback.engines.tensorflow.explaining import steps, weighing
from pullback.engines.tensorflow.explaining.again import Again
from pullback.engines.tensorflow.explaining.compiled import Compiler, worse
from pullback.engines.tensorflow.explaining.held import WeakStream
from pullback.engines.tensorflow.explaining.interpret import Interpreter
from pullback.engines.tensorflow.explaining.remedies import ops_of
from pullback.engines.tensorflow.explaining.sources import Sources
from pullback.engines.tensorflow.explaining.stream import Record, Stream
from pullback.engines.tensorflow.explaining.subject import Subject, starts_of, subject_of
from pullback.engines.tensorflow.explaining.sweep import Sweep
from pullback.engines.tensorflow.probing.arguments import outputs_of
from pullback.engines.tensorflow.probing.callee import plain_line
from pullback.engines.tensorflow.programs import rules
from pullback.engines.tensorflow.programs.lines import Lines, place_of_error
from pullback.engines.tensorflow.state import State, random_state_kept, reachable_variables
from pullback.engines.tensorflow.tf_private import (
    explaining_hooks,
    keras_models,
    overriding,
)
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
        kind: type[Stream] = Stream,
    ) -> None:
        self.subject, self.state, self.wrt = subject, state, wrt
        self.lines = Lines(subject.fn, called.__code__)
        self.stream = kind(self.lines)
        self.stream.known_layers |= (layers := _layers(subject.fn))
        self.interpreter = Interpreter(self.stream, frozenset(x.name for x in layers.values()))
        variables = [v for v, _ in state.saved.values()]
        self.sources = Sources(subject, self.stream, variables, wrt)
        self.gradients = steps.Gradients(self.stream.position, self.lines.here)
        self.notes: list[str] = []
        self.weighted = False  # whether outputs are summed with unequal weights
        self.refused = False  # whether TensorFlow raises in place of giving gradients
        self.step: steps.Asked | None = None
        self.tape: Any = None
        self.result: Any = None

    def run(self, *, taped: bool = True) -> None:
        """Run forward, on a tape of our own."""
        self.tape = self.sources.tape = tf.GradientTape()
        with self.tape if taped else contextlib.nullcontext(), self.gradients.seen():
            if taped:
                self.tape.watch(self.sources.watched())
            with (
                self.stream.open(),
                explaining_hooks.functions_interpreted(self.interpreter.called),
            ):
                self.result = _read(called(self.subject, self.lines))
        self.step = steps.chosen(self.subject.fn, self.gradients, self.result, self._assigns())

    def _assigns(self) -> bool:
        """Whether something is assigned to a variable whose gradient was asked for."""
        handles = {handle for handle, _ in self.stream.assigned}
        asked = [s for each in self.gradients.asked for s in each.sources]
        return any(
            self.stream.known(s.handle) in handles for s in asked if isinstance(s, tf.Variable)
        )

    def eagerly(self) -> Recording | None:
        """A run of the Python function behind a traced one, if that takes a gradient itself: a graph hides it."""
        hidden = self.gradients.traced or not outputs_of(self.result) or self.stream.assigned
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
        outputs = self._outputs()
        self.state.restore(self.state.changed())
        sources, step = self.sources, self.step
        sources.finish(step.sources if step else ())
        self._require_sources()
        self._ask_tensorflow(outputs)
        starts = self._starts(outputs)
        sweep = self._swept(starts)
        if not self.refused:
            others = [s for each in self.gradients.asked for s in each.sources]
            asked = ([*step.sources, *others], step.place) if step else (None, None)
            self.notes += sources.compare(sweep.totals, *asked)
        raised = self._note_errors(sweep)
        again = Again(self.subject, self.stream, self.interpreter, sources, self.lines)
        again.ask(starts, self.state)
        wanted = sources.wanted()
        return flow.Flow(
            self.subject.name,
            "tensorflow",
            tuple(_node(k, r, raised.get(k, "")) for k, r in enumerate(self.stream.records)),
            tuple(_value(k, known) for k, known in enumerate(self.stream.values)),
            (*(entry.told() for entry in wanted), *self._not_tensors()),
            tuple(dict.fromkeys(map(self.stream.value, outputs))),
            tuple(self.notes),
            time.perf_counter() - began,
            ops_of(record.type for record in self.stream.records),
            [(thing, k) for k, entry in enumerate(wanted) for thing in entry.objects],
            list(self.stream.known_layers.values()),
            functools.partial(
                held,
                self.subject,
                self.wrt,
                self.interpreter.plans,
                self.step is not None,
                len(self.stream.values),
            ),
        )

    def weighted_flow(self, plain: flow.Flow, began: float) -> flow.Flow | None:
        """Another run with weighted outputs, where that shows gradients which the plain sum hides."""
        asks = self.step is None and weighing.is_model(self.subject)
        if not asks or not weighing.is_worth_it(self._outputs(), plain):
            return None
        other = Recording(self.subject, self.state, self.wrt)
        other.weighted, other.notes = True, [weighing.NOTE]
        other.run()
        found = other.flow(began)
        return found if weighing.shows_more(found, plain) else None

    def _not_tensors(self) -> list[flow.Source]:
        """Numbers of Python among the arguments: one may ask about them, too."""
        hints, numbers = (flow.Hint.NOT_A_TENSOR,), self.subject.numbers if self.wrt is None else ()
        return [
            flow.Source(name, "argument", (), (), f"Python {kind}", None, hints=hints)
            for name, kind in numbers
        ]

    def _outputs(self) -> list[Any]:
        """Where gradients start; what ran after a step's own gradient was taken is no part of it."""
        step = self.step
        if step is None:
            return starts_of(self.subject, self.result)
        self.stream.cut(step.position)
        self._forget_what_ran_without(step.tape)
        scale = steps.scale_of(self.subject.fn)
        if scale is not None:
            self.notes.append(
                f"the loss is multiplied by {scale:g} (mixed precision): so are all gradients told here, until the "
                "optimizer divides by it"
            )
        others = len(self.gradients.asked) - 1
        if others:
            self.notes.append(
                f"{self.subject.name} takes {others + 1} gradients; this is the last one, taken at {step.place}"
            )
        if not step.outputs:
            return starts_of(self.subject, step.target)
        return step.outputs

    def _forget_what_ran_without(self, tape: Any) -> None:
        """What ran before or after the block of a tape, or while that was stopped, has no gradient on it."""
        first, last = self.stream.block_of(tape)
        for k, record in enumerate(self.stream.records):
            if tape not in record.tapes and record.rule.kind not in ("none", "stopped"):
                record.rule = rules.UNRECORDED if first <= k < last else rules.OUTSIDE

    def _require_sources(self) -> None:
        if not self.sources.differentiable():
            raise ExplainError(
                f"{self.subject.name} takes nothing differentiable: it was given {self.subject.given}, and reads no "
                "variable. Pass at least one floating-point tensor or variable."
            )

    def _ask_tensorflow(self, outputs: list[Any]) -> None:
        """The gradients that TensorFlow itself gives."""
        entries = self.sources.differentiable()
        if not any(map(values.flows, outputs)):
            return
        if self.step is not None:
            # a source that another gradient was asked for has that one, whichever is looked at here
            found = {
                id(s): g
                for asked in (*self.gradients.asked, self.step)
                for s, g in zip(asked.sources, asked.found, strict=True)
            }
            for entry in entries:
                entry.truth = found.get(id(entry.thing))
            return
        try:
            things, given = [entry.thing for entry in entries], self._upstreams(outputs)
            truth = self.tape.gradient(outputs, things, output_gradients=given)
        except Exception as error:
            self.notes.append(
                f"TensorFlow itself gives no gradient here, but raises {type(error).__name__}: {plain_line(error)}"
            )
            self.refused = True
            return
        for entry, gradient in zip(entries, truth, strict=True):
            entry.truth = gradient

    def _starts(self, outputs: list[Any]) -> dict[int, Any]:
        starts: dict[int, Any] = {}
        if not any(map(values.flows, outputs)):
            return starts
        for output, one in zip(outputs, self._upstreams(outputs), strict=True):
            value = self.stream.value(output)
            starts[value] = one + starts[value] if value in starts else one
        return starts

    def _upstreams(self, outputs: list[Any]) -> list[Any]:
        """What each output starts with."""
        if self.step is not None:
            return self.step.upstreams()
        return [weighing.upstream_of(y, weighted=self.weighted) for y in outputs]

    def _swept(self, starts: Mapping[int, Any]) -> Sweep:
        sweep = Sweep(self.stream, starts, self.sources.values)
        sweep.compiler = Compiler() if self._is_worse_compiled() else None
        numbers = self.sources.numbers()
        # Our own rules ask what a gradient is taken of, which a tape would tell.
        with explaining_hooks.numbers_asked_for(numbers):
            sweep.run()
        return sweep

    def _is_worse_compiled(self) -> bool:
        """Whether something is compiled, and has worse gradients than op by op."""
        if not self.interpreter.compiled or self.step is not None:
            return False
        try:
            names = worse(self.subject, self.sources.watched(), self.sources.differentiable())
        finally:
            self.state.restore(self.state.changed())
        if names:
            self.notes.append(
                f"compiled by XLA, the gradient of {', '.join(names)} is not finite; op by op, as told here, it is"
            )
        return bool(names)

    def _note_errors(self, sweep: Sweep) -> Mapping[int, str]:
        """What the gradients of nodes raised, by their numbers."""
        raised = {k: f"{type(e).__name__}: {plain_line(e)}" for k, e in sweep.errors}
        for record, error in ((self.stream.records[k], error) for k, error in raised.items()):
            where = f" at {record.place}" if record.place else ""
            self.notes.append(f"the gradient of {record.type}{where} raises {error}")
        return raised


def held(
    subject: Subject, wrt: Sequence[Any] | None, plans: Any, is_step: bool, values_before: int
) -> Mapping[int, int]:
    """Run forward once more, and see what is kept: bytes by value."""
    with state_kept(subject) as state:
        again = Recording(subject, state, wrt, WeakStream)
        stream: Any = again.stream
        again.interpreter.plans = plans  # which tell what own gradients of ops read
        given = [*(leaf.tensor for leaf in subject.leaves), *again.sources.variables]
        found: dict[int, int] = {}
        if is_step:  # its own tape holds what it needs until it is asked
            again.gradients.before = lambda: found.update(stream.alive(given))
        again.run(taped=not is_step)
        again.result = None
        if len(stream.values) != values_before and not is_step:
            raise ExplainError(
                f"{subject.name} was differentiated since it was explained, for which TensorFlow has rewritten its "
                "graph: other operations run now. Explain it again, or ask for residuals before."
            )
        return found if is_step else stream.alive(given)


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


def _node(number: int, record: Record, raised: str) -> flow.Node:
    return flow.Node(
        number, record.type, record.name, record.layer, record.inside, record.place, tuple(record.inputs),
        tuple(record.outputs), record.rule, record.gradients, record.seconds, record.compiled, raised,
    )  # fmt: skip


def _value(number: int, known: Any) -> flow.Value:
    return flow.Value(
        number, known.node, known.output, known.shape, known.dtype, known.bytes, known.size,
        known.gradient, False, known.variable,
    )  # fmt: skip
