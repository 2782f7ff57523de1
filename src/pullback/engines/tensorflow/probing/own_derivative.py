"""The program's own derivative: the traced function with all custom gradients taken out, differentiated by TensorFlow.

It gives the truth entry by entry for one call wherever TensorFlow's own gradients are right, which the check finds out
by comparing it with differences of the function.
"""

from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.probing.arguments import to_arrays
from pullback.engines.tensorflow.probing.callee import described
from pullback.engines.tensorflow.probing.modes import Point
from pullback.engines.tensorflow.tf_private import overriding
from pullback.extend import Array, Arrays, Unsupported

_MARKS = ("_gradient_op_type",)


class OwnDerivative:
    """The stripped program of a probed function, made once."""

    def __init__(self, probe: Any) -> None:
        self.probe = probe
        at = Point(probe, probe.start())
        traced = tf.function(lambda *tensors: at.outputs(*tensors), autograph=False)
        self.traced = traced.get_concrete_function(*at.tensors)
        self.program, self.called = stripped(self.traced)

    def vjp(self, xs: Arrays, ws: Arrays) -> list[Array | None]:
        """The gradients that TensorFlow's own rules give."""
        at = Point(self.probe, xs)
        self.probe.assign(at.tensors)
        self.probe.calls.spend()
        with tf.GradientTape() as tape:
            tape.watch(at.arguments)
            ys = self.program(*at.tensors)
            ys = list(ys) if isinstance(ys, (list, tuple)) else [ys]
        return to_arrays(tape.gradient(ys, at.sources, self.probe.upstream(ys, ws)))


def own_derivative(probe: Any) -> OwnDerivative | Unsupported:
    """The stripped program, or why it cannot be had."""
    if probe.seed is not None:
        return Unsupported("its random numbers would differ")
    try:
        return OwnDerivative(probe)
    except Exception as error:
        return Unsupported(described(error))


def stripped(function: Any, *, keep_stops: bool = False) -> tuple[Any, dict[str, tuple[str, Any]]]:
    """A copy in which every op has the gradient of its type and nothing is stopped, and what it calls.

    What is called is found by its new name, together with the name that it had.
    """
    library = overriding.new_library()
    library.function.extend(overriding.reachable_definitions(function))
    for node in (node for definition in library.function for node in definition.node_def):
        if node.op in ("StopGradient", "PreventGradient") and not keep_stops:
            node.op = "Identity"
            for name in [name for name in node.attr if name != "T"]:
                del node.attr[name]
        for mark in _MARKS:
            node.attr.pop(mark, None)
    loaded = overriding.load_library(library)
    copy = overriding.concrete_from(loaded[function.function_def.signature.name].graph, function)
    return copy, {tf.compat.as_str(f.name): (name, f) for name, f in loaded.items()}
