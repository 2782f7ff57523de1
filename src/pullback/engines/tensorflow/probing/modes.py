"""The same rule, run in TensorFlow's other ways."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.check.probe import Array, Arrays, InMode, Unsupported
from pullback.engines.tensorflow.probing.arguments import to_array

Answer = tuple[str, Sequence[Array | None]] | Unsupported


class Untraceable(Exception):
    """The function cannot be traced; the text says why."""


def traced_inside(probe: Any, xs: Arrays, ws: Arrays) -> Any:
    """Function and rule in one traced program, made once."""
    if getattr(probe, "program", None) is None:
        probe.program = _trace(probe, xs, ws)
    return probe.program


def _trace(probe: Any, xs: Arrays, ws: Arrays) -> Any:
    from pullback.engines.tensorflow.probing.probe import float_outputs

    def whole(tensors: list[Any], upstream: list[Any]) -> list[Any]:
        with tf.GradientTape() as tape:
            watched = probe.watch(tape, tensors)
            ys = float_outputs(probe.call(tensors))
        return tape.gradient(ys, watched, upstream)

    tensors = probe.tensors(xs)
    upstream = probe.upstream(probe.forward(tensors), ws)
    return _guarded(
        lambda: tf.function(whole, autograph=False).get_concrete_function(tensors, upstream)
    )


def _guarded(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except Exception as error:
        text = str(error).strip().splitlines()
        raise Untraceable(f"{type(error).__name__}: {text[0][:160] if text else ''}") from error


def _inside(probe: Any, xs: Arrays, ws: Arrays, _: Arrays) -> Answer:
    program = traced_inside(probe, xs, ws)
    tensors = probe.tensors(xs)
    probe.assign(tensors)
    ys = probe.forward(tensors)
    return "vjp", _arrays(program(tensors, probe.upstream(ys, ws)))


def _outside(probe: Any, xs: Arrays, ws: Arrays, _: Arrays) -> Answer:
    return _compiled(probe, xs, ws, jit=False)


def _xla(probe: Any, xs: Arrays, ws: Arrays, _: Arrays) -> Answer:
    return _compiled(probe, xs, ws, jit=True)


def _compiled(probe: Any, xs: Arrays, ws: Arrays, *, jit: bool) -> Answer:
    from pullback.engines.tensorflow.probing.probe import float_outputs

    def forward(tensors: list[Any]) -> list[Any]:
        return float_outputs(probe.call(tensors))

    tensors = probe.tensors(xs)
    probe.assign(tensors)
    # a concrete function: TensorFlow warns of calls that trace anew, and each check must
    compiled = tf.function(forward, autograph=False, jit_compile=jit)
    program = compiled.get_concrete_function(tensors)
    with tf.GradientTape() as tape:
        watched = probe.watch(tape, tensors)
        ys = program(tensors)
    return "vjp", _arrays(tape.gradient(ys, watched, probe.upstream(ys, ws)))


def _vectorized(probe: Any, xs: Arrays, ws: Arrays, _: Arrays) -> Answer:
    from pullback.engines.tensorflow.probing.probe import float_outputs

    if probe.variables:
        return Unsupported("it reads variables")
    tensors = probe.tensors(xs)
    batches = [tf.stack([t, t]) for t in tensors]
    with tf.GradientTape() as tape:
        tape.watch(batches)
        ys = tf.vectorized_map(lambda parts: float_outputs(probe.call(list(parts))), batches)
    upstream = [tf.stack([w, w]) for w in probe.upstream([y[0] for y in ys], ws)]
    found = _arrays(tape.gradient(ys, batches, upstream))
    return "vjp", [None if g is None else g[0] for g in found]


def _forward_mode(probe: Any, xs: Arrays, _: Arrays, us: Arrays) -> Answer:
    from pullback.engines.tensorflow.probing.probe import float_outputs

    tensors = probe.tensors(xs)
    probe.assign(tensors)
    primals = probe.arguments.sources(tensors[: len(probe.arguments.slots)], probe.lift)
    primals = [*primals, *probe.variables]
    tangents = [tf.cast(tf.constant(u), t.dtype) for u, t in zip(us, tensors, strict=True)]
    with tf.autodiff.ForwardAccumulator(primals, tangents) as accumulator:
        ys = float_outputs(probe.call(tensors))
    return "jvp", _arrays([accumulator.jvp(y) for y in ys])


MODES: dict[str, Callable[[Any, Arrays, Arrays, Arrays], Answer]] = {
    "tf.function, tape outside": _outside,
    "tf.function, tape inside": _inside,
    "XLA": _xla,
    "vectorized_map": _vectorized,
    "forward mode": _forward_mode,
}


def run_mode(probe: Any, mode: str, xs: Arrays, ws: Arrays, us: Arrays) -> InMode | Unsupported:
    """What one mode gives, or the reason why it cannot be run."""
    if probe.seed is not None:
        return Unsupported("its random numbers would differ")
    try:
        answer = _guarded(lambda: MODES[mode](probe, xs, ws, us))
    except Untraceable as error:
        return Unsupported(str(error))
    finally:
        probe.state.restore(probe.written)
    if isinstance(answer, Unsupported):
        return answer
    what, found = answer
    return InMode(what, found, probe.rule_epsilon)


def _arrays(gradients: Sequence[Any]) -> list[Array | None]:
    dense = [None if g is None else tf.convert_to_tensor(g) for g in gradients]
    return [None if g is None else np.asarray(to_array(g)) for g in dense]
