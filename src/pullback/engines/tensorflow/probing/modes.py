"""The rule of a probed function, run in the other modes of TensorFlow that `check` asks for."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.modes import MODES, Mode, push_forward
from pullback.engines.tensorflow.probing.arguments import outputs_of, to_arrays
from pullback.engines.tensorflow.probing.callee import described
from pullback.engines.tensorflow.probing.programs import traced
from pullback.engines.tensorflow.values import is_variable
from pullback.extend import Arrays, InMode, Unsupported, Why

OFFERED = tuple(name for name, mode in MODES.items() if mode.check != "never")
DEFAULT = tuple(name for name, mode in MODES.items() if mode.check == "by default")

_INSIDE = "tf.function, tape inside"


class Untraceable(Exception):
    """The function cannot be traced; the text says why."""


class Point:
    """A probe at one point: tensors for the function, and what it is differentiated by."""

    def __init__(self, probe: Any, xs: Arrays) -> None:
        self.probe, self.xs, self.tensors = probe, xs, probe.tensors(xs)
        self.arguments = self.tensors[: len(probe.arguments.slots)]
        self.sources = probe.sources(self.tensors)
        self.variables = [source for source in self.sources if is_variable(source)]

    def outputs(self, *tensors: Any) -> list[Any]:
        """The float outputs of the function."""
        return list(outputs_of(self.probe.call(list(tensors))).values())

    def has_values_of(self, mode: Mode) -> bool:
        """Whether the function gives the same in a mode: XLA draws other random numbers from the same seed."""
        self.probe.calls.spend()  # what was traced is run
        there = mode.run(functools.partial(tf.autograph.experimental.do_not_convert(self.outputs)))
        share = float(np.sqrt(self.probe.value_epsilon))
        return all(
            np.allclose(b, a, share, share * np.max(np.abs(a), initial=0.0), equal_nan=True)
            for a, b in zip(self.outputs(*self.tensors), there(*self.tensors), strict=True)
        )

    def weighted(self, ws: Arrays) -> Callable[..., list[Any]]:
        """A function of numbers whose gradient is what the rule makes of these upstream gradients."""

        def weighted(*tensors: Any) -> list[Any]:
            pairs = zip(ws, self.outputs(*tensors), strict=True)
            products = [tf.math.conj(tf.cast(w, y.dtype)) * y for w, y in pairs]
            return [tf.reduce_sum(tf.math.real(product)) for product in products]

        # TensorFlow warns of functions with the same code that are traced again; a partial has no code
        return functools.partial(tf.autograph.experimental.do_not_convert(weighted))

    def gradients(self, mode: Mode, ws: Arrays) -> list[Any]:
        """The gradients of all sources."""
        if mode.name == _INSIDE:  # what thresholds were read from is this very mode
            program = traced_inside(self.probe, self.xs, ws)
            return program(self.tensors, self.probe.upstream_tensors(ws))[1]
        found = mode.gradients(self.weighted(ws), self.arguments, self.variables)
        pairs = zip([*self.arguments, *self.variables], found, strict=True)
        gradient = {id(source): g for source, g in pairs}
        return [gradient[id(source)] for source in self.sources]

    def tangents(self, mode: Mode, us: Arrays) -> list[Any]:
        """The tangents of all outputs."""
        pairs = zip(us, self.tensors, strict=True)
        tangents = [tf.cast(tf.constant(u), t.dtype) for u, t in pairs]
        return push_forward(mode.run(self.outputs), self.tensors, self.sources, tangents)


def traced_inside(probe: Any, xs: Arrays, ws: Arrays) -> Any:
    """Function and rule in one traced program, made once."""
    if probe.program is None:
        try:
            upstream = probe.upstream_tensors(ws)
            probe.program = traced(probe.pull, probe.tensors(xs), upstream)
        except Exception as error:
            raise Untraceable(described(error)) from error
    return probe.program


def _runs_forward(at: Point) -> bool:
    """Whether the function itself can be traced, so that what raises is its gradient."""
    try:
        tf.function(lambda *tensors: at.outputs(*tensors)).get_concrete_function(*at.tensors)
    except Exception:
        return False
    return True


def run_mode(probe: Any, name: str, xs: Arrays, ws: Arrays, us: Arrays) -> InMode | Unsupported:
    """What one mode gives, or the reason why it cannot be run."""
    mode, at = MODES[name], Point(probe, xs)
    if probe.seed is not None:
        return Unsupported("its random numbers would differ")
    if at.variables and not mode.takes_variables:
        return Unsupported("it reads variables")
    if probe.written and not mode.takes_variables:
        return Unsupported("it writes variables, once for each row")
    probe.assign(at.tensors)
    what, run, along = ("jvp", at.tangents, us) if mode.is_forward else ("vjp", at.gradients, ws)
    try:
        draws = mode.check == "on request" and (probe.written or probe.draws or probe.drawn_in)
        if draws and not at.has_values_of(mode):
            return Unsupported(
                "the function gives other values there, as with other random numbers"
            )
        probe.calls.spend()  # what was traced is run
        return InMode(what, to_arrays(run(mode, along)), probe.rule_epsilon)
    except Exception as error:
        raises = name in DEFAULT and _runs_forward(at)
        return Unsupported(described(error), Why.RULE_RAISES if raises else Why.OTHER)
