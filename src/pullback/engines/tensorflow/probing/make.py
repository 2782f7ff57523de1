"""How a probe is made: the function is run as given, then at the highest precision it allows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from pullback._project import describe
from pullback.check.probe import Leaf, OutsideDomain, RuleFault, WrongShape
from pullback.engines.tensorflow.probing.arguments import Arguments, named_outputs, to_array
from pullback.engines.tensorflow.probing.callee import function_of, plain_line, require_eager
from pullback.engines.tensorflow.probing.float64_copy import float64_copy
from pullback.engines.tensorflow.probing.precision import (
    coarsest,
    double,
    format_name,
    moves,
    single,
)
from pullback.engines.tensorflow.probing.probe import TensorFlowProbe
from pullback.engines.tensorflow.probing.state import State, reachable_variables
from pullback.errors import CheckError

_FINE = 1e-10


def make_probe(
    fn: Any, args: Sequence[Any], kwargs: dict[str, Any], wrt: Sequence[str] | None, seed: int
) -> TensorFlowProbe:
    """The probe of `fn` at these arguments, at the best precision at which it runs."""
    require_eager()
    fn, name = function_of(fn)
    state = State(reachable_variables(fn, args, kwargs))
    try:
        probe = TensorFlowProbe(fn, Arguments(fn, args, kwargs, wrt), name, state=state)
        return _at_best(_first_run(probe, seed))
    except BaseException:
        state.restore()
        raise


# the first run


def _first_run(probe: TensorFlowProbe, seed: int) -> TensorFlowProbe:
    """The function as given, run once: its outputs, the variables it reads, what it writes."""
    arguments, state = probe.arguments, probe.state
    tensors = probe.tensors(probe.start())
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = _called(probe, tensors)
    read = [v for v in tape.watched_variables() if moves(v.dtype) and not arguments.holds(v)]
    if state.add([*reachable_variables(probe.fn), *read]):
        # made by the call itself, so that only another one shows what it writes
        result = _called(probe, tensors)
    leaves = replace(probe, variables=read).inputs[len(arguments.slots) :]
    _require_known(probe, [*(slot.leaf for slot in arguments.all_slots), *leaves])
    asked = [v for v, leaf in zip(read, leaves, strict=True) if arguments.is_asked(leaf)]
    written = state.changed()
    state.restore(written)
    probe = replace(probe, variables=asked, written=written)
    _require_movable(probe)
    probe.outputs = _outputs(probe, result)
    return _held_fixed(probe, seed, [to_array(y) for _, y in named_outputs(result)])


def _called(probe: TensorFlowProbe, tensors: list[Any]) -> Any:
    try:
        return probe.call(tensors)
    except Exception as error:
        raise CheckError(
            f"{probe.name} raised {type(error).__name__} when called with the given arguments "
            f"({probe.arguments.describe()}): {plain_line(error)}"
        ) from error


def _outputs(probe: TensorFlowProbe, result: Any) -> tuple[Leaf, ...]:
    named = named_outputs(result)
    if not named:
        left = isinstance(result, float | complex | np.ndarray | np.generic)
        kind = f"{type(result).__name__}, which left TensorFlow and its gradient behind"
        raise CheckError(
            f"{probe.name} returns no floating-point tensor, so it has no gradient; it returned "
            f"{kind if left else describe(result)}."
        )
    return tuple(
        Leaf(path, path, tuple(t.shape), t.dtype.name, t.dtype.is_complex, "output")
        for path, t in named
    )


def _require_movable(probe: TensorFlowProbe) -> None:
    if any(leaf.size for leaf in probe.inputs):
        return
    raise CheckError(
        f"{probe.name} takes nothing differentiable: it was given "
        f"{probe.arguments.describe() or 'no arguments'}. Pass at least one floating-point tensor "
        "that is not empty: integers, booleans and Python numbers are held fixed."
    )


def _require_known(probe: TensorFlowProbe, known: Sequence[Leaf]) -> None:
    """Every name in `wrt` means an input."""
    for name in probe.arguments.wrt or ():
        if not any(leaf.is_meant(name) for leaf in known):
            offered = ", ".join(leaf.name for leaf in known) or "there are none"
            raise CheckError(
                f"wrt={name!r} names no input of {probe.name} that can be moved. Those are: {offered}."
            )


def _held_fixed(probe: TensorFlowProbe, seed: int, first: Sequence[Any]) -> TensorFlowProbe:
    """Make a random function repeatable, or refuse it."""
    if _alike(_run(probe), first):
        return probe
    note = "random: checked with its random numbers held fixed"
    probe = replace(probe, seed=seed, notes=(*probe.notes, note))
    if not _alike(_run(probe), _run(probe)):
        raise CheckError(
            f"{probe.name} gives another value each time it is called with the same arguments, "
            "even with tf.random.set_seed. Make its randomness an argument: a seed, or the "
            "random tensor itself."
        )
    return probe


def _run(probe: TensorFlowProbe) -> list[Any]:
    try:
        return probe.values(probe.start())
    except OutsideDomain as error:
        raise CheckError(
            f"{probe.name} raised when called with the given arguments: {error}"
        ) from error


def _alike(
    some: Sequence[Any], others: Sequence[Any], share: float = 1e-3, least: float = 1e-6
) -> bool:
    """Whether two lists of arrays are the same up to rounding, with `None` in the same places."""
    return all(
        (a is None) == (b is None) and (a is None or np.allclose(a, b, share, least, True))
        for a, b in zip(some, others, strict=True)
    )


# the best precision


def _at_best(first: TensorFlowProbe) -> TensorFlowProbe:
    """The function at the highest precision at which it runs and means the same."""
    first.value_epsilon = first.rule_epsilon = coarsest(first.dtypes)
    best = _in_float64(first) or _verified(replace(first, lift=single)) or first
    if best is not first:
        best.as_given = first
    if best.value_epsilon > _FINE:
        kind = format_name(best.value_epsilon)
        best.notes += (f"runs in {kind} only: small errors cannot be told from rounding",)
    return best


def _in_float64(first: TensorFlowProbe) -> TensorFlowProbe | None:
    """The function on float64 arguments, or a copy of it where it holds something of another format."""
    fits = all(double(v.dtype) is v.dtype for v in first.variables)
    plain = _verified(replace(first, lift=double)) if fits else None
    if plain is not None and plain.value_epsilon <= _FINE:
        return plain
    return _copied(first) or plain


def _copied(first: TensorFlowProbe) -> TensorFlowProbe | None:
    """A probe of the function's float64 copy, which also puts back what is done to the function itself."""
    if first.seed is not None:  # random numbers of another precision are other numbers
        return None
    found = float64_copy(first.fn, lambda copy: _called_in_float64(copy, first.arguments))
    try:
        made = None if found is None else _of_copy(first, *found)
        return None if made is None else _verified(made, like=_outcome(first))
    except Exception:  # the copy does not run
        return None
    finally:
        first.state.restore()


def _called_in_float64(fn: Any, arguments: Arguments) -> Any:
    args, kwargs = arguments.build([tf.constant(x) for x in arguments.start()], double)
    return fn(*args, **kwargs)


def _of_copy(first: TensorFlowProbe, fn: Any, copies: dict[int, Any]) -> TensorFlowProbe | None:
    variables = [copies.get(id(v)) for v in first.variables]
    if any(v is None for v in variables):
        return None
    state = State([*reachable_variables(fn), *variables])
    made = replace(first, fn=fn, lift=double, variables=variables, state=state, source_of=first.fn)
    made.inputs = first.inputs
    made.call(made.tensors(made.start()))
    made.written = state.changed()
    state.restore()
    state.saved |= first.state.saved
    return made


def _verified(probe: TensorFlowProbe, like: Sequence[Any] | None = None) -> TensorFlowProbe | None:
    """The probe with its precision noted, if it runs and gives about what it is to be like.

    A rule that raises or gives another dtype here may do neither at the precision of the arguments.
    """
    try:
        ys, gradients = _pulled(probe)
        if like is not None and not _alike(_arrays([*ys, *gradients]), like, 1e-2, 1e-3):
            return None
        probe.checked(gradients)
    except RuleFault as fault:
        if not isinstance(fault.reason, WrongShape):
            return None
        ys = []
    except Exception:
        return None
    finally:
        probe.state.restore(probe.written)
    probe.value_epsilon = probe.rule_epsilon = coarsest([*probe.dtypes, *(y.dtype for y in ys)])
    return probe


def _pulled(probe: TensorFlowProbe) -> tuple[list[Any], list[Any]]:
    ws = [np.ones(leaf.shape) for leaf in probe.outputs]
    return probe.pulled(probe.tensors(probe.start()), ws)


def _outcome(probe: TensorFlowProbe) -> list[Any]:
    ys, gradients = _pulled(probe)
    return _arrays([*ys, *gradients])


def _arrays(tensors: Sequence[Any]) -> list[Any]:
    return [None if t is None else to_array(t) for t in tensors]
