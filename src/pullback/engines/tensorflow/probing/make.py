"""How a probe is made: the function is run as given, then at the highest precision it allows."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.check.options import is_meant
from pullback.check.probe import Leaf, OutsideDomain, RuleFault
from pullback.engines.tensorflow.probing.arguments import Arguments, moves, to_array
from pullback.engines.tensorflow.probing.callee import function_of, plain_line, require_eager
from pullback.engines.tensorflow.probing.lift import alike, counterparts, lifted_layer, outcome
from pullback.engines.tensorflow.probing.probe import (
    Lift,
    TensorFlowProbe,
    double,
    float_outputs,
    named_outputs,
    native,
    single,
)
from pullback.engines.tensorflow.probing.standin import with_stand_ins
from pullback.engines.tensorflow.probing.state import State, reachable_variables
from pullback.errors import CheckError

_FINE = 1e-10
_COARSE = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23}


def make_probe(
    fn: Any, args: Sequence[Any], kwargs: dict[str, Any], wrt: Sequence[str] | None, seed: int
) -> TensorFlowProbe:
    """The probe of `fn` at these arguments, at the best precision at which it runs."""
    require_eager()
    fn, name = function_of(fn)
    arguments = Arguments(fn, args, kwargs, wrt)
    state = State(reachable_variables(fn, args, kwargs))
    try:
        first = TensorFlowProbe(fn, arguments, name=name, lift=native, state=state)
        return _at_best(_first_run(first, seed))
    except BaseException:
        state.restore()
        raise


def _at_best(first: TensorFlowProbe) -> TensorFlowProbe:
    first.value_epsilon = first.rule_epsilon = _coarsest(first)
    for lift in (double, single):
        best = _try_lift(first, lift)
        if best is not None:
            best.as_given = first
            break
    else:
        best = first
    if best.value_epsilon > _FINE:
        kind = next(name for name, epsilon in _COARSE.items() if best.value_epsilon >= epsilon)
        best.notes += (f"runs in {kind} only: small errors cannot be told from rounding",)
    return best


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
    whole = _fresh(probe, native, read, state)
    _require_known(whole)
    made = _fresh(probe, native, _chosen_variables(whole, read), state)
    made.written = state.changed()
    state.restore(made.written)
    _require_movable(made)
    _name_outputs(made, result)
    return _held_fixed(made, seed, [to_array(y) for y in float_outputs(result)])


def _called(probe: TensorFlowProbe, tensors: list[Any]) -> Any:
    try:
        return probe.call(tensors)
    except Exception as error:
        raise CheckError(
            f"{probe.name} raised {type(error).__name__} when called with the given arguments "
            f"({probe.arguments.describe()}): {plain_line(error)}"
        ) from error


def _fresh(
    probe: TensorFlowProbe, lift: Lift, variables: Sequence[Any], state: State
) -> TensorFlowProbe:
    made = TensorFlowProbe(
        probe.fn,
        probe.arguments,
        name=probe.name,
        lift=lift,
        variables=variables,
        state=state,
        seed=probe.seed,
    )
    made.outputs, made.written, made.notes = probe.outputs, probe.written, probe.notes
    made.inputs = _distinct(made.inputs)
    return made


def _distinct(leaves: Sequence[Leaf]) -> tuple[Leaf, ...]:
    """Leaves by names of their own: layers built inside one another give variables the same one."""
    seen: dict[str, int] = {}
    out = []
    for leaf in leaves:
        count = seen[leaf.path] = seen.get(leaf.path, 0) + 1
        number = "" if count == 1 else f"#{count}"
        out.append(replace(leaf, path=leaf.path + number, name=leaf.name + number))
    return tuple(out)


def _name_outputs(probe: TensorFlowProbe, result: Any) -> None:
    named = named_outputs(result)
    if not named:
        raise CheckError(
            f"{probe.name} returns no floating-point tensor, so it has no gradient; it returned "
            f"{_kind(result)}."
        )
    probe.outputs = tuple(
        Leaf(path, path, tuple(t.shape), t.dtype.name, t.dtype.is_complex, "output")
        for path, t in named
    )


def _kind(result: Any) -> str:
    if isinstance(result, float | complex | np.ndarray | np.generic):
        return f"{type(result).__name__}, which left TensorFlow and its gradient behind"
    if isinstance(result, tf.Tensor):
        return f"{result.dtype.name}{list(result.shape)}"
    return repr(result)[:80]


def _require_movable(probe: TensorFlowProbe) -> None:
    if any(leaf.size for leaf in probe.inputs):
        return
    raise CheckError(
        f"{probe.name} takes nothing differentiable: it was given "
        f"{probe.arguments.describe() or 'no arguments'}. Pass at least one floating-point tensor "
        "that is not empty: integers, booleans and Python numbers are held fixed."
    )


def _require_known(probe: TensorFlowProbe) -> None:
    """Every name in `wrt` means an input."""
    known = [*(slot.leaf for slot in probe.arguments.all_slots), *_variable_leaves(probe)]
    for name in probe.arguments.wrt or ():
        if not any(is_meant(leaf, name) for leaf in known):
            offered = ", ".join(leaf.name for leaf in known) or "there are none"
            raise CheckError(
                f"wrt={name!r} names no input of {probe.name} that can be moved. Those are: {offered}."
            )


def _chosen_variables(probe: TensorFlowProbe, read: Sequence[Any]) -> list[Any]:
    wrt = probe.arguments.wrt
    pairs = zip(read, _variable_leaves(probe), strict=True)
    return [v for v, leaf in pairs if wrt is None or any(is_meant(leaf, w) for w in wrt)]


def _variable_leaves(probe: TensorFlowProbe) -> tuple[Leaf, ...]:
    return probe.inputs[len(probe.arguments.slots) :]


def _held_fixed(probe: TensorFlowProbe, seed: int, first: Sequence[Any]) -> TensorFlowProbe:
    """Make a random function repeatable, or refuse it."""
    if _alike(_run(probe), first):
        return probe
    probe.seed = seed
    if not _alike(_run(probe), _run(probe)):
        raise CheckError(
            f"{probe.name} gives another value each time it is called with the same arguments, "
            "even with tf.random.set_seed. Make its randomness an argument: a seed, or the "
            "random tensor itself."
        )
    probe.notes += ("random: checked with its random numbers held fixed",)
    return probe


def _run(probe: TensorFlowProbe) -> list[Any]:
    try:
        return probe.values(probe.start())
    except OutsideDomain as error:
        raise CheckError(
            f"{probe.name} raised when called with the given arguments: {error}"
        ) from error


def _alike(some: Sequence[Any], others: Sequence[Any]) -> bool:
    pairs = zip(some, others, strict=True)
    return all(np.allclose(a, b, rtol=1e-3, atol=1e-6, equal_nan=True) for a, b in pairs)


def _try_lift(first: TensorFlowProbe, lift: Lift) -> TensorFlowProbe | None:
    """The same function at a higher precision, if it runs there and means the same."""
    layer = lifted_layer(first.fn, first.arguments, lift)
    first.state.restore()
    variables = None if layer is None else counterparts(layer, first.fn, first.variables)
    if layer is not None and variables is not None:
        return _verified(_of_copy(first, layer, variables, lift))
    fits = lift is not double or not first.variables or _all_double(first.variables)
    plain = _verified(_fresh(first, lift, first.variables, first.state)) if fits else None
    if lift is double and (plain is None or plain.value_epsilon > _FINE):
        return _with_stand_ins(first) or plain
    return plain


def _with_stand_ins(first: TensorFlowProbe) -> TensorFlowProbe | None:
    """A probe in float64 of the function with other variables, tensors and layers in it."""
    found = with_stand_ins(first.fn)
    if found is None or first.seed is not None:
        return None
    fn, made = found
    variables = [made.get(id(v)) for v in first.variables]
    if any(v is None for v in variables):
        return None
    try:
        ours = outcome(first.fn, first.arguments, native, first.variables)
        same = alike(outcome(fn, first.arguments, double, variables), ours)
    except Exception:
        return None
    finally:
        first.state.restore()
    return _verified(_of_copy(first, fn, variables, double)) if same else None


def _of_copy(
    first: TensorFlowProbe, copy: Any, variables: Sequence[Any], lift: Lift
) -> TensorFlowProbe:
    """A probe of a function's copy, which also puts back what is done to the function itself."""
    state = State([*reachable_variables(copy), *variables])
    base = TensorFlowProbe(copy, first.arguments, name=first.name, seed=first.seed)
    probe = _fresh(base, lift, variables, state)
    probe.outputs, probe.notes, probe.source_of = first.outputs, first.notes, first.fn
    probe.inputs = first.inputs
    probe.call(probe.tensors(probe.start()))
    probe.written = state.changed()
    state.restore()
    state.take(first.state)
    return probe


def _all_double(variables: Sequence[Any]) -> bool:
    return all(tf.as_dtype(v.dtype) in (tf.float64, tf.complex128) for v in variables)


def _verified(probe: TensorFlowProbe) -> TensorFlowProbe | None:
    xs, ys = probe.start(), list[Any]()
    try:
        ws = [np.ones(leaf.shape) for leaf in probe.outputs]
        ys, gradients = probe.pulled(probe.tensors(xs), ws)
        probe.checked(gradients)
    except RuleFault as fault:
        if fault.kind == "dtype" or "dtype" in fault.text or "float" in fault.text:
            return None
    except Exception:
        return None
    finally:
        probe.state.restore(probe.written)
    epsilon = _coarsest(probe, ys)
    probe.value_epsilon = epsilon
    probe.rule_epsilon = epsilon
    return probe


def _coarsest(probe: TensorFlowProbe, ys: Sequence[Any] = ()) -> float:
    kinds = [probe.lift(s.dtype) for s in probe.arguments.slots]
    kinds += [tf.as_dtype(v.dtype) for v in probe.variables] + [y.dtype for y in ys]
    return max(float(_epsilon(kind)) for kind in kinds)


def _epsilon(dtype: tf.DType) -> float:
    if dtype == tf.bfloat16:
        return 2.0**-7
    return float(np.finfo(dtype.real_dtype.as_numpy_dtype).eps)
