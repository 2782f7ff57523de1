"""How a probe is made: the function is run as given, then at the highest precision it allows."""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing import precision
from pullback.engines.tensorflow.probing.arguments import Arguments, leaf_of, outputs_of, to_array
from pullback.engines.tensorflow.probing.callee import function_of, plain_line, require_eager
from pullback.engines.tensorflow.probing.float64_copy import float64_copy
from pullback.engines.tensorflow.probing.lifted import lifted_values, short_formats_seen
from pullback.engines.tensorflow.probing.precision import double
from pullback.engines.tensorflow.probing.probe import TensorFlowProbe
from pullback.engines.tensorflow.state import (
    TRACED,
    State,
    draws_seen,
    random_state_kept,
    variables_of,
)
from pullback.engines.tensorflow.tf_private.drawing import drawn_in
from pullback.engines.tensorflow.tf_private.recording import custom_gradients_seen
from pullback.engines.tensorflow.values import flows
from pullback.extend import Array, Calls, Ignored, Leaf, OutsideDomain, Probe, describe, refusals

_FINE = 1e-10
# Values of a short format may be off by so many units of rounding.
_ROUNDINGS = 4
_REDRAWN = 16  # a coin falls alike so often once in 65,536 times
_LEAST_REDRAWN = 2  # a generator of somebody's own does not show that it is drawn from
_FLOAT64, _SHORT = 2.0**-52, 2.0**-23  # beyond the latter, rounding makes stairs of a function


def make_probe(
    fn: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    wrt: Sequence[str] | None,
    seed: int,
    calls: Calls | None = None,
) -> Probe:
    """The probe of `fn` at these arguments, at the best precision at which it runs."""
    require_eager()
    fn, name = function_of(fn)
    kept = random_state_kept(seed + 1)
    state = State(variables_of(fn, args, kwargs))
    arguments = Arguments(fn, args, kwargs, wrt)
    probe = TensorFlowProbe(
        fn, arguments, name, state=state, seed=seed, kept=kept, calls=calls or Calls()
    )
    try:
        return _at_best(_first_run(probe))
    except BaseException:
        probe.close()
        raise


# the first run


def _first_run(probe: TensorFlowProbe) -> TensorFlowProbe:
    """The function as given, run once: its outputs, the variables it reads, what it writes, in what it draws."""
    arguments, state = probe.arguments, probe.state
    tensors = probe.tensors(probe.start())
    with short_formats_seen() as seen, draws_seen() as draws:
        result, read, drawn = _recorded(probe, tensors)
        if state.add([*variables_of(probe.fn), *read]):
            # made by the call itself, so that only another one shows what it writes, and what it gives once it is built
            state.restore()
            result, read, drawn = _recorded(probe, tensors)
    leaves = replace(probe, variables=read).inputs[len(arguments.slots) :]
    known = [*arguments.movable.values(), *leaves]
    refusals.require_known(probe.name, arguments.wrt, known)
    asked = [v for v, leaf in zip(read, leaves, strict=True) if arguments.is_asked(leaf)]
    written = state.changed()
    state.restore(written)  # among them may be variables that are moved from here
    probe = replace(probe, variables=asked, written=written, drawn_in=drawn)
    probe.draws = bool(draws)
    refusals.require_movable(probe.name, probe.inputs, arguments.describe())
    probe.outputs = _outputs(probe, result)
    probe.value_epsilon = probe.rule_epsilon = precision.coarsest([*probe.dtypes, *seen])
    again = _REDRAWN if TRACED in draws else _LEAST_REDRAWN
    return _held_fixed(probe, [to_array(y) for y in outputs_of(result).values()], again)


def _recorded(
    probe: TensorFlowProbe, tensors: list[Any]
) -> tuple[Any, list[Any], frozenset[tf.DType]]:
    """The result, the variables that it was read from, and the formats of random numbers that were drawn."""
    drawn = set[tf.DType]()

    def on_call(function: Any, _: Any, kwargs: Mapping[str, Any]) -> None:
        for keyword, value in kwargs.items():
            if any(flows(t) for t in tf.nest.flatten(value) if tf.is_tensor(t)):
                probe.ignored = Ignored(getattr(function, "__name__", "a function"), keyword)

    with (
        tf.GradientTape() as tape,
        drawn_in(lambda dtype: drawn.add(dtype) or dtype),
        custom_gradients_seen(on_call),
    ):
        tape.watch(tensors)
        result = _run(probe, probe.call, tensors)
    held = probe.arguments.holds
    read = [v for v in tape.watched_variables() if flows(v) and not held(v)]
    # the rule may write variables, too; what it raises is told later
    with contextlib.suppress(Exception):
        tape.gradient(list(outputs_of(result).values()), [*tensors, *read])
    return result, read, frozenset(drawn)


def _run(probe: TensorFlowProbe, run: Callable[[Any], Any], point: Any) -> Any:
    """What a first run gives; a function that raises cannot be checked."""
    try:
        return run(point)
    except Exception as error:
        cause = (error.__cause__ if isinstance(error, OutsideDomain) else None) or error
        given = probe.arguments.describe()
        raise refusals.raised(probe.name, cause, given, plain_line(error)) from error


def _outputs(probe: TensorFlowProbe, result: Any) -> tuple[Leaf, ...]:
    named = outputs_of(result)
    if not named:
        left = isinstance(result, float | complex | np.ndarray | np.generic)
        kind = f"{type(result).__name__}, which left TensorFlow and its gradient behind"
        raise refusals.no_output(probe.name, kind if left else describe(result))
    return tuple(leaf_of(tensor, path, path, "output") for path, tensor in named.items())


def _held_fixed(probe: TensorFlowProbe, first: Sequence[Any], again: int) -> TensorFlowProbe:
    """Random numbers are held fixed where they matter, which other ones tell; or the function is refused.

    Of those whose operations were seen it is known that they can be held; a quick check holds them in any case.
    """
    free, start = replace(probe, seed=None), probe.start()
    # a mask of few entries may be drawn again by chance
    matter = probe.draws and (
        probe.calls.are_few
        or not _repeats(lambda: _run(probe, free.values, start), first, _REDRAWN)
    )
    if matter:
        repeats = _repeats(lambda: _run(probe, probe.values, start), first, again)
    else:
        repeats = _repeats_around(probe, free, first)
    if repeats is None:
        free.at_start = list(first)
        return free
    if not repeats:
        raise refusals.not_repeatable(probe.name, "tf.random.set_seed")
    note = "random: checked with its random numbers held fixed"
    held = replace(probe, notes=(*probe.notes, note))
    held.at_start = list(first)
    return held


def _repeats_around(
    probe: TensorFlowProbe, free: TensorFlowProbe, first: Sequence[Any]
) -> bool | None:
    """Whether random numbers are repeated at points beside the given one; nothing where there are none.

    The given arguments may hide them, as zeros do that they are multiplied by, or a branch that is not taken. They
    tell where the function has no values beside them.
    """
    start, rng = probe.start(), np.random.default_rng(0)
    beside = [_beside(rng, x) for x in start]
    runs = _REDRAWN if probe.draws else 1 if probe.calls.are_few else _LEAST_REDRAWN
    again = _LEAST_REDRAWN if probe.calls.are_few else _REDRAWN
    try:
        for xs in [beside, [-x for x in beside]] if probe.draws else [beside]:
            drawn = functools.partial(_values_or_none, free, xs)
            fixed = functools.partial(_values_or_none, probe, xs)
            known = drawn()
            if known[0] is None:
                known, drawn = first, functools.partial(_run, probe, free.values, start)
                fixed = functools.partial(_run, probe, probe.values, start)
            if not _repeats(drawn, known, runs):
                return _repeats(fixed, fixed(), again)
    finally:
        probe.assign(probe.tensors(start))
    return None


def _repeats(run: Callable[[], list[Any]], first: Sequence[Any], runs: int) -> bool:
    return all(_alike(run(), first) for _ in range(runs))


def _beside(rng: np.random.Generator, x: Array) -> Array:
    """All entries moved a little, and zeros into the positive, where most functions have values."""
    return np.where(x == 0, rng.uniform(0.1, 0.4, x.shape), x * rng.uniform(0.95, 1.05, x.shape))


def _values_or_none(probe: TensorFlowProbe, xs: Sequence[Array]) -> list[Any]:
    """The outputs as Python gives them, or none of them where the function raises."""
    try:
        return [to_array(y) for y in probe.forward(probe.tensors(xs))]
    except OutsideDomain:
        return [None] * len(probe.outputs)


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
    best = _in_float64(first) or _verified(replace(first, lift=precision.single)) or first
    if best is not first:
        best.as_given, first.at_start = first, None
    if best.value_epsilon > _SHORT:
        best.lifted = _lifted(best)
        best.value_epsilon = _FLOAT64 if best.lifted else best.value_epsilon
    if best.rule_epsilon > _FINE:
        kind = precision.format_name(best.rule_epsilon)
        best.notes += (f"runs in {kind} only: small errors cannot be told from rounding",)
    return best


def _lifted(probe: TensorFlowProbe) -> Any:
    """The values of a function that rounds to a short format without that rounding, if they can be had."""
    try:
        values = lifted_values(probe)
        if values is None:
            return None
        some, others = values(probe.start()), probe.values(probe.start())
        share = _ROUNDINGS * probe.rule_epsilon
        found = [to_array(y) for y in some]
        if not _alike(found, others, share, share):
            return None
        probe.at_start = found
        return values
    except Exception:  # an operation has no kernel for float64, or none for what it is given then
        return None


def _in_float64(first: TensorFlowProbe) -> TensorFlowProbe | None:
    """The function on float64 arguments, or a copy of it where it holds something of another format."""
    fits = all(double(v.dtype) is v.dtype for v in first.variables)
    plain = _verified(replace(first, lift=double)) if fits else None
    if plain is not None and plain.value_epsilon <= _FINE:
        return plain
    return _copied(first) or plain


def _copied(first: TensorFlowProbe) -> TensorFlowProbe | None:
    """A probe of the function's float64 copy, which also puts back what is done to the function itself."""
    first.state.restore()  # which is what is copied
    found = float64_copy(
        first.fn, lambda copy: _called_in_float64(copy, first.arguments, first.calls)
    )
    try:
        made = None if found is None else _of_copy(first, *found)
        best = None if made is None else _verified(made, first)
    except Exception:  # the copy does not run
        return None
    if best is not None:
        best.state.saved |= first.state.saved
    return best


def _called_in_float64(fn: Any, arguments: Arguments, calls: Calls) -> Any:
    calls.spend()
    args, kwargs = arguments.build([tf.constant(x) for x in arguments.start()], double)
    return fn(*args, **kwargs)


def _of_copy(first: TensorFlowProbe, fn: Any, copies: dict[int, Any]) -> TensorFlowProbe | None:
    variables = [copies.get(id(v), v) for v in first.variables]
    if any(double(v.dtype) is not v.dtype for v in variables):
        return None
    state = State([*variables_of(fn), *variables])
    made = replace(
        first,
        fn=fn,
        lift=double,
        variables=variables,
        state=state,
        written=[copies.get(id(v), v) for v in first.written],
        source_of=first.fn,
    )
    made.inputs = first.inputs
    return made


def _verified(
    probe: TensorFlowProbe, first: TensorFlowProbe | None = None
) -> TensorFlowProbe | None:
    """The probe with its precision noted, if it runs, and gives about what `first` does.

    A rule that breaks its contract here may not do so at the precision of the arguments.
    """
    try:
        seen = _rounded_to(probe) if probe.value_epsilon > _SHORT else set[Any]()
        dtypes, found = _outcome(probe)
        same = first is None or _alike(found, _outcome(first)[1], 1e-2, 1e-3)
    except Exception:
        return None
    probe.result_dtypes, probe.at_start = dtypes, found[: len(dtypes)]
    probe.value_epsilon = probe.rule_epsilon = precision.coarsest([*probe.dtypes, *dtypes, *seen])
    return probe if same else None


def _rounded_to(probe: TensorFlowProbe) -> set[Any]:
    """The short formats in which the function itself computes; that its rule rounds is a mistake of the rule."""
    with short_formats_seen() as seen:
        probe.call(probe.tensors(probe.start()))
    return seen


def _outcome(probe: TensorFlowProbe) -> tuple[list[Any], list[Any]]:
    """The dtypes of the outputs; then the outputs and the gradients for an upstream of ones."""
    ws = [np.ones(leaf.shape) for leaf in probe.outputs]
    ys, gradients = probe.pull(probe.tensors(probe.start()), ws)
    probe.last_upstream = None, []
    return [y.dtype for y in ys], [*map(to_array, ys), *probe.fitting(gradients)]
