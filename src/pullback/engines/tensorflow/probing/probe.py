"""A TensorFlow function as the check sees it: arrays in, arrays out, and what the rule says.

Runs in float64 where the function allows it, at the argument's own precision otherwise; eagerly, until tracing pays.
Every run begins with the state that the user left; random numbers are held fixed when they matter.
"""

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.arguments import (
    Arguments,
    leaf_of,
    outputs_of,
    to_array,
    to_arrays,
)
from pullback.engines.tensorflow.probing.callee import (
    described,
    plain_line,
    rule_line,
    rule_location,
)
from pullback.engines.tensorflow.probing.modes import (
    DEFAULT,
    OFFERED,
    Point,
    Untraceable,
    run_mode,
    traced_inside,
)
from pullback.engines.tensorflow.probing.precision import Lift, native
from pullback.engines.tensorflow.probing.programs import LARGE, Programs
from pullback.engines.tensorflow.programs import PROGRAMS
from pullback.engines.tensorflow.programs.lines import Lines
from pullback.engines.tensorflow.state import State, seeded
from pullback.engines.tensorflow.tf_private.drawing import drawn_in
from pullback.engines.tensorflow.values import dense
from pullback.extend import (
    Array,
    Arrays,
    Calls,
    Claims,
    Ignored,
    InMode,
    Leaf,
    OutsideDomain,
    Program,
    Raised,
    RuleFault,
    Traced,
    Unsupported,
    Why,
    WrongDtype,
    WrongShape,
    distinct,
)

_NOT_ASKED = Unsupported("not asked for")
_NO_UPSTREAM = Unsupported("nothing of the rule depends on its upstream", Why.UPSTREAM_UNUSED)


@dataclass(eq=False)
class TensorFlowProbe:
    """One function with one set of arguments, run eagerly; `replace` makes another of it.

    `variables` are moved like arguments, `written` are those that a call changes. `as_given` is the
    probe at the precision of the arguments, `source_of` the function where `fn` is a copy of it. `kept` puts the
    random numbers of the process back; `draws` tells that a call draws some, real ones in the one format that is in
    `drawn_in`, if there is one.
    `lifted` gives the values in float64 of what runs in a short format, `ignored` is a rule that TensorFlow leaves out.
    `at_start` are the values where the probe was made, until they are asked for; `calls` counts every run.
    """

    fn: Callable[..., Any]
    arguments: Arguments
    name: str
    lift: Lift = native
    variables: Sequence[Any] = ()
    state: State = field(default_factory=lambda: State(()))
    seed: int | None = None
    draws: bool = False
    drawn_in: frozenset[tf.DType] = frozenset()
    kept: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    outputs: tuple[Leaf, ...] = ()
    written: Sequence[Any] = ()
    notes: tuple[str, ...] = ()
    source_of: Any = None
    as_given: "TensorFlowProbe | None" = None
    value_epsilon: float = 0.0
    rule_epsilon: float = 0.0
    lifted: Callable[[Arrays], list[Any]] | None = None
    ignored: Ignored | None = None
    calls: Calls = field(default_factory=Calls)
    inputs: tuple[Leaf, ...] = field(init=False)
    program: Any = field(init=False, default=None)
    given: list[Array] | None = field(init=False, default=None)
    at_start: list[Array] | None = field(init=False, default=None)
    programs: Programs = field(init=False)
    result_dtypes: Sequence[Any] = field(init=False, default=())
    alone: Traced | None = field(init=False, default=None)
    joint: Traced | None = field(init=False, default=None)
    last_upstream: tuple[Any, list[Any]] = field(init=False, default=(None, []))

    def __post_init__(self) -> None:
        self.programs = Programs(self)
        self.inputs = distinct([*self.arguments.slots.values(), *map(_leaf, self.variables)])

    # what the check asks

    def start(self) -> list[Array]:
        """The inputs as given."""
        if self.given is None:
            self.given = self.arguments.start() + [to_array(v) for v in self.variables]
        return list(self.given)

    def values(self, xs: Arrays) -> list[Array]:
        """The outputs at `xs`; at the given inputs, Python itself runs, which may do otherwise than it did.

        The first time these are the values that are known from making the probe.
        """
        known, self.at_start = self.at_start, None
        if known is not None and _same(xs, self.start()):
            return known
        if self.lifted is not None:
            return [to_array(y) for y in self.lifted(xs)]
        tensors = self.tensors(xs)
        again = self.programs.made.get("values") is not None and _same(xs, self.start())
        ys = self.forward(tensors) if again else self.programs.run("values", self.forward, tensors)
        return list(map(to_array, ys))

    def vjp(self, xs: Arrays, ws: Arrays) -> tuple[list[Array], list[Array | None]]:
        """Outputs, and the rule's gradients."""
        ys, gradients = self.programs.run(
            "vjp", self.pull, self.tensors(xs), self.upstream_tensors(ws)
        )
        return self.best_values(xs, ys), self.fitting(gradients)

    def vjp_as_given(self, xs: Arrays, ws: Arrays) -> tuple[list[Array], list[Array | None]]:
        """The same at the precision of the arguments."""
        return (self.as_given or self).vjp(xs, ws)

    def best_values(self, xs: Arrays, ys: Sequence[Any]) -> list[Array]:
        """Outputs that are known, or the same in float64 where they are rounded to a short format that holds them."""
        known = [to_array(y) for y in ys]
        if self.lifted is None:
            return known
        pairs = zip(known, self.values(xs), strict=True)
        return [np.where(np.isfinite(y), better, y) for y, better in pairs]

    def vjp_after(self, xs: Arrays, others: Arrays, ws: Arrays) -> list[Array | None]:
        """The rule at `xs`, after a forward call at `others`."""
        tensors = self.tensors(xs)
        _, gradients = self.pull(tensors, ws, between=self.tensors(others))
        return self.fitting(gradients)

    def claims(self, xs: Arrays, ws: Arrays, us: Arrays, *, second: bool) -> Claims:
        """The rule, its transpose and its own gradient, from one nested differentiation."""
        what, body = ("second", self.differentiate_twice) if second else ("jvp", self.transpose)
        inputs = self.tensors(xs), self.upstream_tensors(ws), self.tensors(us)
        ys, gradients, jvp, again = self.programs.run(what, body, *inputs)
        vjp, jvp = self.fitting(gradients), _as_arrays(jvp, self.outputs)
        if isinstance(jvp, list) and all(part is None for part in jvp):
            jvp = _NO_UPSTREAM if any(g is not None for g in gradients) else jvp
        again = _as_arrays(again, self.inputs) if second else _NOT_ASKED
        return Claims(self.best_values(xs, ys), vjp, jvp, again)

    def traced_function(self) -> Traced | Unsupported:
        """The function alone as a program, made once."""
        if self.alone is None:
            at = Point(self, self.start())
            self.assign(at.tensors)
            try:
                traced = tf.function(lambda *tensors: at.outputs(*tensors), autograph=False)
                program = self._read(traced.get_concrete_function(*at.tensors))
            except Exception as error:
                return Unsupported(described(error))
            self.alone = self._as_traced(program, (), self._assigned)
        return self.alone

    def _assigned(self, xs: Arrays, _: Arrays) -> list[Any]:
        """Inputs of the function, with its variables set."""
        tensors = self.tensors(xs)
        self.assign(tensors)
        return tensors

    def traced(self, xs: Arrays, ws: Arrays, *, as_given: bool = False) -> Traced | Unsupported:
        """Function and rule as one program, made once."""
        if as_given and self.as_given is not None:
            return self.as_given.traced(xs, ws)
        try:
            concrete = traced_inside(self, xs, ws)
        except Untraceable as error:
            return Unsupported(str(error))
        if self.joint is None:
            try:
                program = self._read(concrete)
            except Exception as error:  # graphs hold what nobody has thought of
                return Unsupported(described(error))
            gradients = concrete.structured_outputs[1]
            self.joint = self._as_traced(program, gradients, self._joined)
        return self.joint

    def _read(self, concrete: Any) -> Program:
        return PROGRAMS.read(concrete, Lines(self.fn, TensorFlowProbe.traced.__code__))

    def _joined(self, xs: Arrays, ws: Arrays) -> list[Any]:
        return [*self.tensors(xs), *self.upstream_tensors(ws)]

    def _as_traced(
        self,
        program: Program,
        gradients: Sequence[Any],
        feed: Callable[[Arrays, Arrays], list[Any]],
    ) -> Traced:
        which = itertools.count(len(self.outputs))
        first = len(program.inputs) - len(program.captured)
        captured = {id(tensor): first + k for k, tensor in enumerate(program.captured)}
        sources = self.sources(self.tensors(self.start()))
        handles = [id(getattr(source, "handle", None)) for source in sources]
        return Traced(
            PROGRAMS,
            program,
            self.inputs,
            self.outputs,
            tuple(None if g is None else next(which) for g in gradients),
            tuple(captured.get(handle, k) for k, handle in enumerate(handles)),
            feed,
            self.rule_epsilon,
            self.seed is None,
            self.calls,
        )

    source = rule_location
    source_line = rule_line

    def modes(self) -> tuple[str, ...]:
        """The modes of TensorFlow that a check may ask for."""
        return OFFERED

    def default_modes(self) -> tuple[str, ...]:
        """The modes that a check runs by default."""
        return DEFAULT

    def in_mode(self, mode: str, xs: Arrays, ws: Arrays, us: Arrays) -> InMode | Unsupported:
        """The rule as another way of running gives it, at the precision of the arguments."""
        return run_mode(self.as_given or self, mode, xs, ws, us)

    def plain(self, what: str, xs: Arrays, ws: Arrays, us: Arrays) -> Any:
        """The rule run eagerly, at the precision of the arguments."""
        given = self.as_given or self
        if what == "vjp":
            return given.vjp(xs, ws)[1]
        return given.claims(xs, ws, us, second=False).jvp

    def close(self) -> None:
        """Put every variable and the random numbers back."""
        self.state.restore()
        self.kept.close()

    # how it is done

    @property
    def dtypes(self) -> list[tf.DType]:
        """The dtypes in which the inputs are passed."""
        slots = [self.lift(tf.as_dtype(leaf.dtype)) for leaf in self.arguments.slots.values()]
        return slots + [tf.as_dtype(v.dtype) for v in self.variables]

    def tensors(self, xs: Arrays) -> list[Any]:
        """Tensors of the dtypes in which this probe runs."""
        return [_tensor(x, dtype) for x, dtype in zip(xs, self.dtypes, strict=True)]

    def sources(self, tensors: list[Any]) -> list[Any]:
        """What gradients are asked for: argument tensors or the variables in their place, then variables."""
        return [*self.arguments.sources(tensors, self.lift), *self.variables]

    def watch(self, tape: tf.GradientTape, tensors: list[Any]) -> list[Any]:
        """Let a tape watch the arguments, and give what gradients are asked for."""
        tape.watch(tensors[: len(self.arguments.slots)])
        return self.sources(tensors)

    def assign(self, tensors: list[Any]) -> None:
        """Set the captured variables."""
        moved = tensors[len(self.arguments.slots) :]
        for variable, tensor in zip(self.variables, moved, strict=True):
            variable.assign(tensor)

    def forward(self, tensors: list[Any]) -> list[Any]:
        """Float outputs of the function, or `OutsideDomain` if it raises, as it did not at first."""
        self.assign(tensors)
        try:
            ys = list(outputs_of(self.call(tensors)).values())
        except Exception as error:
            raise OutsideDomain(plain_line(error)) from error
        if self.outputs and not _fits(ys, self.outputs):
            raise OutsideDomain("the outputs have other shapes than at the given arguments")
        return ys

    def call(self, tensors: list[Any]) -> Any:
        """The function itself, on these tensors, in the state that the user left, with the same random numbers."""
        self.calls.spend()
        args, kwargs = self.arguments.build(tensors, self.lift)
        self.put_back()
        with contextlib.ExitStack() as stack:
            if len(self.drawn_in) == 1:  # at any precision the same numbers
                stack.enter_context(drawn_in(lambda _: next(iter(self.drawn_in))))
            if self.seed is not None:
                stack.enter_context(seeded(self.seed))
            return self.fn(*args, **kwargs)

    def put_back(self) -> None:
        """Undo what earlier runs wrote, but for variables that are moved, which `assign` sets."""
        self.state.restore(v for v in self.written if not _is_among(v, self.variables))

    def pull(
        self, tensors: list[Any], ws: Arrays, between: list[Any] | None = None
    ) -> tuple[list[Any], list[Any]]:
        """Outputs and dense gradients as tensors; a call at `between` may come before the rule runs."""
        with tf.GradientTape() as tape:
            watched = self.watch(tape, tensors)
            ys = self.forward(tensors)
        if self.ignored:
            raise RuleFault(self.ignored)
        if between is not None:
            self.forward(between)
            self.assign(tensors)
        return ys, _run_rule(lambda: tape.gradient(ys, watched, self.upstream(ys, ws)))

    def transpose(self, tensors: list[Any], ws: Any, us: Any, *, twice: bool = False) -> Any:
        """Outputs, gradients, and the gradient of ⟨us, gradients⟩ for the upstream; `twice`: for the inputs, too."""
        with tf.GradientTape(watch_accessed_variables=twice) as outer:
            if twice:
                self.watch(outer, tensors)
            with tf.GradientTape() as inner:
                watched = self.watch(inner, tensors)
                ys = self.forward(tensors)
            upstream = self.upstream(ys, ws)
            outer.watch(upstream)
            gradients = _run_rule(lambda: inner.gradient(ys, watched, upstream))
        sources = [*upstream, *(watched if twice else [])]
        found = _differentiate_rule(outer, gradients, sources, us)
        if isinstance(found, Unsupported):
            return ys, gradients, found, found
        return ys, gradients, found[: len(ys)], found[len(ys) :]

    def differentiate_twice(self, tensors: list[Any], ws: Any, us: Any) -> Any:
        """As `transpose`, for the inputs, too."""
        return self.transpose(tensors, ws, us, twice=True)

    def upstream(self, ys: Sequence[Any], ws: Any) -> list[Any]:
        """Upstream gradients of the outputs' dtypes; the same tensors for the same list."""
        return self.upstream_tensors(ws, [y.dtype for y in ys])

    def upstream_tensors(self, ws: Any, dtypes: Sequence[Any] = ()) -> list[Any]:
        """The same before the function has run: its results have the dtypes that they had at first."""
        if ws and isinstance(ws[0], tf.Tensor):
            return list(ws)
        known, tensors = self.last_upstream
        if known is not ws:
            dtypes = dtypes or self.result_dtypes or [tf.as_dtype(y.dtype) for y in self.outputs]
            tensors = list(map(_tensor, ws, dtypes))
            # of long ones the copy would fill the memory
            is_large = sum(leaf.size for leaf in self.outputs) >= LARGE
            self.last_upstream = (None, []) if is_large else (ws, tensors)
        return list(tensors)

    def fitting(self, gradients: list[Any]) -> list[Array | None]:
        """Gradients as arrays, each of the shape and dtype of its input."""
        wanted = zip(gradients, self.inputs, self.dtypes, strict=True)
        return [
            None if g is None else _fit(g, leaf, dtype, k)
            for k, (g, leaf, dtype) in enumerate(wanted)
        ]


def _same(some: Arrays, others: Arrays) -> bool:
    return all(map(_is_equal, some, others))


def _is_equal(one: Array, other: Array) -> bool:
    """Long arrays that differ do so at once, as a rule."""
    if one.size >= LARGE and not np.array_equal(one.flat[:1], other.flat[:1], equal_nan=True):
        return False
    return one is other or np.array_equal(one, other, equal_nan=True)


def _is_among(variable: Any, others: Sequence[Any]) -> bool:
    return any(variable is one for one in others)


def _fits(ys: list[Any], outputs: Sequence[Leaf]) -> bool:
    """Whether values have the shapes of outputs, as far as they are known while a program is traced."""
    pairs = zip(ys, outputs, strict=False)
    return len(ys) == len(outputs) and all(y.shape.is_compatible_with(o.shape) for y, o in pairs)


def _run_rule(run: Callable[[], Any]) -> list[Any]:
    """The dense gradients that a rule gives; what it raises is a fault of the rule."""
    try:
        return [dense(g) for g in run()]
    except Exception as error:
        raise RuleFault(Raised(described(error))) from error


def _differentiate_rule(
    tape: Any, gradients: list[Any], sources: list[Any], us: list[Any]
) -> list[Any] | Unsupported:
    """The gradient of ⟨us, gradients⟩, or why it is not to be had."""
    flowing = [(g, u) for g, u in zip(gradients, us, strict=True) if g is not None]
    if not flowing:
        return [None] * len(sources)
    try:
        found = tape.gradient([g for g, _ in flowing], sources, [u for _, u in flowing])
        return [dense(g) for g in found]
    except Exception as error:
        return Unsupported(described(error))


def _as_arrays(found: Any, leaves: Sequence[Leaf]) -> Any:
    """What flows to each leaf; a zero of another shape is TensorFlow's for nothing, behind a `tf.py_function`."""
    if isinstance(found, Unsupported):
        return found
    arrays = to_arrays(found)
    for k, (array, leaf) in enumerate(zip(arrays, leaves, strict=True)):
        if array is not None and array.shape != leaf.shape:
            if array.any():
                return Unsupported(f"its derivative for {leaf.name} has shape {list(array.shape)}")
            arrays[k] = None
    return arrays


def _leaf(variable: Any) -> Leaf:
    name = getattr(variable, "path", None) or variable.name.split(":")[0]
    return leaf_of(variable, f'variables["{name}"]', name, "variable")


def _tensor(value: Array, dtype: tf.DType) -> Any:
    if not dtype.is_complex:
        value = np.real(value)
    return tf.constant(value.astype(dtype.as_numpy_dtype, copy=False), dtype)


def _fit(gradient: Any, leaf: Leaf, dtype: tf.DType, which: int) -> Array:
    if tuple(gradient.shape) != leaf.shape:
        raise RuleFault(WrongShape(tuple(gradient.shape)), which)
    if gradient.dtype != dtype:
        raise RuleFault(WrongDtype(gradient.dtype.name), which)
    return to_array(gradient)
