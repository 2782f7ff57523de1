"""The rule of a probed function, run in the other modes of TensorFlow that `check` asks for."""

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.modes import MODES, Mode, push_forward, with_tape
from pullback.engines.tensorflow.probing.arguments import float_outputs, is_variable, to_array
from pullback.extend import Arrays, InMode, Unsupported

OFFERED = tuple(name for name, mode in MODES.items() if mode.check != "never")
DEFAULT = tuple(name for name, mode in MODES.items() if mode.check == "by default")


class Untraceable(Exception):
    """The function cannot be traced; the text says why."""


class _Setting:
    """A probe at one point: tensors for the function, and what it is differentiated by."""

    def __init__(self, probe: Any, xs: Arrays) -> None:
        self.probe, self.tensors = probe, probe.tensors(xs)
        self.arguments = self.tensors[: len(probe.arguments.slots)]
        # An argument that is a variable is differentiated by the variable.
        sources = probe.arguments.sources(self.arguments, probe.lift)
        self.sources = [*sources, *probe.variables]
        self.variables = [source for source in self.sources if is_variable(source)]

    def outputs(self, *tensors: Any) -> list[Any]:
        """The float outputs of the function."""
        return float_outputs(self.probe.call(list(tensors)))

    @tf.autograph.experimental.do_not_convert
    def weighted(self, ws: Arrays, *tensors: Any) -> list[Any]:
        """Numbers whose gradient is what the rule makes of these upstream gradients."""
        pairs = zip(ws, self.outputs(*tensors), strict=True)
        products = [tf.math.conj(tf.cast(w, y.dtype)) * y for w, y in pairs]
        return [tf.reduce_sum(tf.math.real(product)) for product in products]

    def gradients(self, mode: Mode, ws: Arrays) -> list[Any]:
        """The gradients of all sources."""
        weighted = functools.partial(self.weighted, ws)
        found = mode.gradients(weighted, self.arguments, self.variables)
        pairs = zip([*self.arguments, *self.variables], found, strict=True)
        gradient = {id(source): g for source, g in pairs}
        return [gradient[id(source)] for source in self.sources]

    def tangents(self, mode: Mode, us: Arrays) -> list[Any]:
        """The tangents of all outputs."""
        pairs = zip(us, self.tensors, strict=True)
        tangents = [tf.cast(tf.constant(u), t.dtype) for u, t in pairs]
        return push_forward(mode.run(self.outputs), self.tensors, self.sources, tangents)


def _guarded(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:
        text = str(error).strip().splitlines()
        raise Untraceable(f"{type(error).__name__}: {text[0][:160] if text else ''}") from error


def traced_inside(probe: Any, xs: Arrays, ws: Arrays) -> Any:
    """Function and rule in one traced program, made once."""
    if getattr(probe, "program", None) is None:
        at = _Setting(probe, xs)
        weighted = functools.partial(at.weighted, ws)
        traced = tf.function(functools.partial(with_tape, weighted), autograph=False)
        probe.program = _guarded(lambda: traced.get_concrete_function(at.arguments, at.variables))
    return probe.program


def run_mode(probe: Any, name: str, xs: Arrays, ws: Arrays, us: Arrays) -> InMode | Unsupported:
    """What one mode gives, or the reason why it cannot be run."""
    mode, at = MODES[name], _Setting(probe, xs)
    if probe.seed is not None:
        return Unsupported("its random numbers would differ")
    if at.variables and not mode.takes_variables:
        return Unsupported("it reads variables")
    probe.assign(at.tensors)
    what, run, along = ("jvp", at.tangents, us) if mode.is_forward else ("vjp", at.gradients, ws)
    try:
        found = _guarded(lambda: run(mode, along))
    except Untraceable as error:
        return Unsupported(str(error))
    finally:
        probe.state.restore(probe.written)
    dense = [None if g is None else to_array(tf.convert_to_tensor(g)) for g in found]
    return InMode(what, dense, probe.rule_epsilon)
