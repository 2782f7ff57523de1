"""How a probe is made: the function is run as given, then at the highest precision it allows."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.check.probe import Leaf, OutsideDomain, RuleFault
from pullback.engines.tensorflow.probing.arguments import Arguments, to_array
from pullback.engines.tensorflow.probing.lift import lifted_layer
from pullback.engines.tensorflow.probing.probe import (
    Lift,
    TensorFlowProbe,
    double,
    float_outputs,
    named_outputs,
    native,
    single,
)
from pullback.engines.tensorflow.probing.state import State, reachable_variables
from pullback.errors import CheckError


def make_probe(
    fn: Any, args: Sequence[Any], kwargs: dict[str, Any], wrt: Sequence[str] | None, seed: int
) -> TensorFlowProbe:
    """The probe of `fn` at these arguments, at the best precision at which it runs."""
    fn, name = _function(fn)
    arguments = Arguments(fn, args, kwargs, wrt)
    first = _first_run(fn, arguments, name, seed, wrt)
    first.value_epsilon = first.rule_epsilon = _coarsest(first)
    for lift in (double, single):
        lifted = _try_lift(first, lift)
        if lifted is not None:
            lifted.as_given = first
            return lifted
    first.notes += (f"runs in {_dtypes(first)} only: small errors cannot be told from rounding",)
    return first


def _function(fn: Any) -> tuple[Callable[..., Any], str]:
    if isinstance(fn, str):
        return _raw_op(fn), fn
    if not callable(fn):
        raise CheckError(
            f"the first argument of check is the function to check; got {type(fn).__name__}. "
            "Write `pb.check(fn, *args)`."
        )
    name = getattr(fn, "__name__", None) or getattr(fn, "name", None) or type(fn).__name__
    return fn, str(name)


def _raw_op(name: str) -> Callable[..., Any]:
    op = getattr(tf.raw_ops, name, None)
    if op is None:
        raise CheckError(f"TensorFlow has no op {name!r}. Write the op's type, as in tf.raw_ops.")
    import inspect

    order = [p for p in inspect.signature(op).parameters if p != "name"]

    def registered(*args: Any, **kwargs: Any) -> Any:
        return op(**dict(zip(order, args, strict=False)), **kwargs)

    registered.__signature__ = inspect.signature(op)  # type: ignore[attr-defined]  # for names
    return registered


def _first_run(
    fn: Any, arguments: Arguments, name: str, seed: int, wrt: Sequence[str] | None
) -> TensorFlowProbe:
    """The function as given, run once: its outputs, the variables it reads, what it writes."""
    state = State(reachable_variables(fn))
    probe = TensorFlowProbe(fn, arguments, name=name, lift=native, state=state)
    tensors = probe.tensors(probe.start())
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = _called(probe, tensors)
    read = [v for v in tape.watched_variables() if not _is_argument(v, arguments)]
    state = State([*reachable_variables(fn), *read]) if not state.variables else state
    known = {id(v) for v in state.variables}
    state.saved += [np.array(v) for v in read if id(v) not in known]
    state.variables += [v for v in read if id(v) not in known]
    if wrt is not None:
        read = [v for v in read if _named(v, wrt)]
    made = _fresh(probe, native, read, state)
    made.written = state.changed()
    state.restore(made.written)
    _require_movable(made, name, wrt)
    _name_outputs(made, result)
    return _held_fixed(made, seed, [to_array(y) for y in float_outputs(result)])


def _called(probe: TensorFlowProbe, tensors: list[Any]) -> Any:
    try:
        return probe.call(tensors)
    except Exception as error:
        text = str(error).strip().splitlines()
        raise CheckError(
            f"{probe.name} raised {type(error).__name__} when called with the given arguments: "
            f"{text[0] if text else ''}"
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
    return made


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
    return (
        f"{type(result).__name__} of {result.dtype}"
        if hasattr(result, "dtype")
        else repr(result)[:80]
    )


def _require_movable(probe: TensorFlowProbe, name: str, wrt: Sequence[str] | None) -> None:
    if probe.inputs:
        return
    if wrt is not None and probe.arguments.all_slots:
        offered = ", ".join(s.leaf.name for s in probe.arguments.all_slots)
        raise CheckError(f"wrt={list(wrt)} names no input of {name}. It has: {offered}.")
    kinds = ", ".join(type(leaf).__name__ for leaf in probe.arguments.leaves) or "no arguments"
    raise CheckError(
        f"{name} takes nothing differentiable: it was given {kinds}. "
        "Pass at least one floating-point tensor."
    )


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
    base, variables = first, first.variables
    layer = lifted_layer(first.fn, first.arguments, lift)
    if layer is not None:
        fn, variables = layer
        base = TensorFlowProbe(fn, first.arguments, name=first.name, seed=first.seed)
        base.outputs, base.notes = first.outputs, first.notes
        base.state = State(variables)
        base.source_of = first.fn
    probe = _fresh(base, lift, variables, base.state)
    probe.source_of = base.source_of
    if layer is None and first.variables and lift is double:
        return None if not _all_double(first.variables) else _verified(probe)
    return _verified(probe)


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


def _dtypes(probe: TensorFlowProbe) -> str:
    kinds = [s.dtype.name for s in probe.arguments.slots]
    kinds += [tf.as_dtype(v.dtype).name for v in probe.variables]
    return ", ".join(sorted(set(kinds)))


def _named(variable: Any, wrt: Sequence[str]) -> bool:
    name = getattr(variable, "path", None) or variable.name.split(":")[0]
    return any(name == w or f'variables["{name}"]' == w for w in wrt)


def _is_argument(variable: Any, arguments: Arguments) -> bool:
    return any(variable is twin for twin in arguments.twins.values())
