"""What a check runs again and again, as traced programs where that pays.

A program stands for eager execution only if it gave the same where it was made. It runs without the graph optimizer,
which multiplies constants beforehand and so hides what overflows. Where it raises, eager execution tells why.
"""

import contextlib
import functools
import math
import time
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.arguments import to_array

# What is slow is traced once it was run so often. Values will be asked for many times; tracing derivatives costs as
# much as ten or more eager runs, which most checks do not make. Time is that of this thread, where Python runs: that
# of kernels on other threads is not saved.
_SLOW, _RUNS, _RUNS_OF_VALUES = 5e-3, 16, 2
# Of so many numbers a program is made at once: it lets go of what it has used, where a tape holds everything.
LARGE = 200_000
# The same kernels in another order: so many units of rounding apart at most.
_UNITS = 2.0**10
_SWITCH = "disable_meta_optimizer"

Body = Callable[..., Any]


class Programs:
    """The programs of one probe by what they give; `None` for what must stay eager."""

    def __init__(self, probe: Any) -> None:
        self.probe = probe
        self.made: dict[str, Any] = {}
        self.slow_runs: dict[str, int] = {}

    def run(self, what: str, body: Body, *inputs: list[Any]) -> Any:
        """What the body gives for lists of tensors, traced or eagerly."""
        is_large = sum(math.prod(tensor.shape) for tensor in inputs[0]) >= LARGE
        if is_large and what == "second" and self.made.get("jvp") is not None:
            self._make(
                what, body, inputs
            )  # the same program and more: eagerly it would take the most memory
        program = self.made.get(what)
        if program is not None:
            with contextlib.suppress(Exception), _unoptimized():
                self.probe.calls.spend()
                return program(*inputs)
        began = time.thread_time()
        found = body(*inputs)
        is_tight = self.probe.calls.are_few and not (is_large and what == "jvp")
        if not is_tight and (is_large or time.thread_time() - began >= _SLOW):
            self._consider(what, body, inputs, found, at_once=is_large)
        return found

    def _consider(self, what: str, body: Body, inputs: Any, found: Any, *, at_once: bool) -> None:
        runs = self.slow_runs[what] = self.slow_runs.get(what, 0) + 1
        wanted = 1 if at_once else _RUNS_OF_VALUES if what == "values" else _RUNS
        if runs >= wanted:
            self._make(what, body, inputs, found)

    def _make(self, what: str, body: Body, inputs: Any, found: Any = None) -> None:
        """Trace a program, once; it must give what was found eagerly, if that is known."""
        if what in self.made or self.probe.seed is not None:
            return
        self.made[what] = None
        with contextlib.suppress(Exception), _unoptimized():
            program = traced(body, *inputs)
            if _has_fixed_shapes(program) and (
                found is None or self._gives(program, inputs, found)
            ):
                self.made[what] = program

    def _gives(self, program: Any, inputs: Any, found: Any) -> bool:
        self.probe.calls.spend()
        pairs = zip(tf.nest.flatten(program(*inputs)), tf.nest.flatten(found), strict=True)
        return all(_alike(a, b, _UNITS * self.probe.rule_epsilon) for a, b in pairs)


def traced(body: Body, *inputs: list[Any]) -> Any:
    """One program for lists of tensors like these."""
    # TensorFlow warns of functions with the same code that are traced again; a partial has no code
    program = tf.function(functools.partial(_applied, body), autograph=False)
    return program.get_concrete_function(*inputs)


def _applied(body: Body, *inputs: list[Any]) -> Any:
    return body(*inputs)


def _has_fixed_shapes(program: Any) -> bool:
    """Whether its first results, which are the function's outputs, have the same shape at every point."""
    results = program.structured_outputs
    outputs = results[0] if isinstance(results, tuple) else results
    return all(y.shape.is_fully_defined() for y in outputs)


@contextlib.contextmanager
def _unoptimized() -> Generator[None]:
    options = tf.config.optimizer
    before = options.get_experimental_options().get(_SWITCH, False)
    options.set_experimental_options({_SWITCH: True})
    try:
        yield
    finally:
        options.set_experimental_options({_SWITCH: before})


def _alike(one: Any, other: Any, tolerance: float) -> bool:
    if one is None or other is None:
        return one is other
    a, b = to_array(one), to_array(other)
    largest = float(np.max(np.abs(b[np.isfinite(b)]), initial=0.0))
    return np.allclose(a, b, 0.0, tolerance * largest, equal_nan=True)
