"""One run of a function, forward and backward, told as a flow."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.explaining.interpret import Interpreter
from pullback.engines.tensorflow.explaining.lines import Lines
from pullback.engines.tensorflow.explaining.remedies import ops_of
from pullback.engines.tensorflow.explaining.sources import Sources
from pullback.engines.tensorflow.explaining.stream import Record, Stream
from pullback.engines.tensorflow.explaining.subject import Subject, starts_of, subject_of
from pullback.engines.tensorflow.explaining.sweep import Sweep
from pullback.engines.tensorflow.probing.callee import plain_line
from pullback.engines.tensorflow.probing.state import State, random_state_kept, reachable_variables
from pullback.engines.tensorflow.tf_private import explaining, overriding
from pullback.errors import ExplainError
from pullback.extend import flow, walk


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
    with contextlib.ExitStack() as undo:
        undo.enter_context(random_state_kept(0))
        state = State([*reachable_variables(fn, args, kwargs), *private.global_generator_state()])
        undo.callback(lambda: state.restore(state.changed()))
        return _Recording(subject, state).flow(began, wrt)


class _Recording:
    def __init__(self, subject: Subject, state: State) -> None:
        self.subject, self.state = subject, state
        self.stream = Stream(Lines(subject.fn))
        self.stream.lines.end = _called.__code__
        self.interpreter = Interpreter(self.stream, _layer_names(subject.fn))
        self.sources = Sources(subject, self.stream, [v for v, _ in state.saved.values()])
        self.notes: list[str] = []

    def flow(self, began: float, wrt: Sequence[Any] | None) -> flow.Flow:
        """Run forward and backward, and tell."""
        with explaining.python_functions_differentiable_twice():
            outputs, truth = self._forward()
            starts = self._starts(outputs)
            sweep = Sweep(self.stream, starts, self.sources.values)
            with replaced_numbers(self.sources.numbers()):
                sweep.run()
        self._note_errors(sweep)
        found, objects = self.sources.told(sweep.totals, truth, self.notes, wrt)
        return flow.Flow(
            self.subject.name,
            "tensorflow",
            tuple(_node(k, record) for k, record in enumerate(self.stream.records)),
            tuple(_value(k, known) for k, known in enumerate(self.stream.values)),
            found,
            tuple(starts),
            tuple(self.notes),
            time.perf_counter() - began,
            ops_of(record.type for record in self.stream.records),
            objects,
        )

    def _forward(self) -> tuple[list[Any], list[Any]]:
        """The outputs, and the gradients of the sources that TensorFlow itself gives."""
        stream, sources = self.stream, self.sources
        tape = tf.GradientTape()
        with tape:
            tape.watch(sources.watched())
            sources.tape = tape
            with stream.open(), explaining.functions_interpreted(self.interpreter.function):
                result = _called(self.subject)
            outputs = starts_of(self.subject, result)
        sources.finish()
        try:
            return outputs, tape.gradient(outputs, sources.asked())
        except Exception as error:
            self.notes.append(
                f"TensorFlow itself gives no gradient here, but raises {type(error).__name__}: {plain_line(error)}"
            )
            return outputs, [None] * len(sources.asked())

    def _starts(self, outputs: list[Any]) -> dict[int, Any]:
        with self.stream.paused():
            return {self.stream.value(y): tf.ones_like(y) for y in outputs}

    def _note_errors(self, sweep: Sweep) -> None:
        for position, error in sweep.errors:
            record = self.stream.records[position]
            where = f" at {record.place}" if record.place else ""
            self.notes.append(
                f"the gradient of {record.type}{where} raises {type(error).__name__}: {plain_line(error)}"
            )


def _called(subject: Subject) -> Any:
    """Call what is explained; lines are looked for up to here."""
    try:
        return subject.run()
    except ExplainError:
        raise
    except Exception as error:
        raise ExplainError(
            f"{subject.name} raised {type(error).__name__} when called with the given arguments "
            f"({subject.given}): {plain_line(error)}"
        ) from error


def replaced_numbers(numbers: frozenset[int]) -> contextlib.AbstractContextManager[None]:
    """Our own rules ask what a gradient is taken of, which a tape would tell."""
    return explaining.replaced(private, "numbers_asked_for", lambda: numbers)


def _layer_names(fn: Any) -> frozenset[str]:
    """Names of the Keras layers that a function can reach."""
    found = [thing for thing in walk(fn, stop=_is_layer) if _is_layer(thing)]
    inner = [layer for each in found for layer in each._flatten_layers()]
    return frozenset(layer.name for layer in [*found, *inner])


def _is_layer(thing: Any) -> bool:
    return isinstance(thing, keras.Layer)


def _node(number: int, record: Record) -> flow.Node:
    return flow.Node(
        number, record.type, record.name, record.layer, record.inside, record.place, tuple(record.inputs),
        tuple(record.outputs), record.rule, record.gradients, record.seconds,
    )  # fmt: skip


def _value(number: int, known: Any) -> flow.Value:
    return flow.Value(
        number, known.node, known.output, known.shape, known.dtype, known.bytes, known.size,
        known.gradient, False, known.variable,
    )  # fmt: skip
