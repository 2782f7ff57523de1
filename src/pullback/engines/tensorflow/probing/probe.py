"""A TensorFlow function as the check sees it: arrays in, arrays out, and what the rule says.

Runs eagerly, in float64 where the function allows it, at the argument's own precision otherwise.
Variables that a call moves or writes are put back; random numbers are held fixed when they matter.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pullback._tree import flatten, paths
from pullback.check.probe import (
    Array,
    Arrays,
    Claims,
    Facts,
    InMode,
    Leaf,
    OutsideDomain,
    RuleFault,
    Unsupported,
)
from pullback.engines.tensorflow.probing.arguments import (
    Arguments,
    components,
    is_variable,
    moves,
    to_array,
)
from pullback.engines.tensorflow.probing.state import State, seeded

Lift = Callable[[tf.DType], tf.DType]
NOT_ASKED = Unsupported("not asked for")


def native(dtype: tf.DType) -> tf.DType:
    """Leave a dtype as it is."""
    return dtype


def double(dtype: tf.DType) -> tf.DType:
    """float64 for real, complex128 for complex."""
    return tf.complex128 if dtype.is_complex else tf.float64


def single(dtype: tf.DType) -> tf.DType:
    """At least float32."""
    return tf.float32 if dtype in (tf.float16, tf.bfloat16) else dtype


class TensorFlowProbe:
    """One function with one set of arguments, run eagerly."""

    def __init__(
        self,
        fn: Callable[..., Any],
        arguments: Arguments,
        *,
        name: str,
        lift: Lift = double,
        variables: Sequence[Any] = (),
        state: State | None = None,
        seed: int | None = None,
        source_of: Any = None,
    ) -> None:
        self.fn, self.arguments, self.name, self.lift = fn, arguments, name, lift
        self.variables, self.state = list(variables), state or State(())
        self.written: list[Any] = []
        self.seed, self.source_of = seed, source_of
        self.as_given: TensorFlowProbe | None = None
        self.program: Any = None
        self.last_upstream: tuple[Any, list[Any]] = (None, [])
        self.notes: tuple[str, ...] = ()
        self.inputs = tuple(s.leaf for s in arguments.slots) + tuple(map(_leaf, self.variables))
        self.outputs: tuple[Leaf, ...] = ()
        self.value_epsilon = self.rule_epsilon = float(np.finfo(np.float64).eps)

    # what the check asks

    def start(self) -> list[Array]:
        """The inputs as given."""
        return self.arguments.start() + [to_array(tf.convert_to_tensor(v)) for v in self.variables]

    def values(self, xs: Arrays) -> list[Array]:
        """The outputs at `xs`."""
        return [to_array(y) for y in self.forward(self.tensors(xs))]

    def vjp(self, xs: Arrays, ws: Arrays) -> tuple[list[Array], list[Array | None]]:
        """Outputs, and the rule's gradients."""
        ys, gradients = self.pulled(self.tensors(xs), ws)
        return [to_array(y) for y in ys], self.checked(gradients)

    def vjp_after(self, xs: Arrays, others: Arrays, ws: Arrays) -> list[Array | None]:
        """The rule at `xs`, after a forward call at `others`."""
        tensors = self.tensors(xs)
        with tf.GradientTape() as tape:
            watched = self.watch(tape, tensors)
            ys = self.forward(tensors)
        self.forward(self.tensors(others))
        self.assign(tensors)
        gradients = self.ruled(lambda: tape.gradient(ys, watched, self.upstream(ys, ws)))
        return self.checked([_dense(g) for g in gradients])

    def claims(self, xs: Arrays, ws: Arrays, us: Arrays, *, second: bool) -> Claims:
        """The rule, its transpose and its own gradient, from one nested differentiation."""
        tensors = self.tensors(xs)
        with tf.GradientTape(watch_accessed_variables=second) as outer:
            if second:
                self.watch(outer, tensors)
            with tf.GradientTape() as inner:
                watched = self.watch(inner, tensors)
                ys = self.forward(tensors)
            upstream = self.upstream(ys, ws)
            outer.watch(upstream)
            found = self.ruled(lambda: inner.gradient(ys, watched, upstream))
            gradients = [_dense(g) for g in found]
        vjp = self.checked(gradients)
        jvp, again = self._again(outer, gradients, watched if second else [], upstream, us)
        return Claims([to_array(y) for y in ys], vjp, jvp, again if second else NOT_ASKED)

    def facts(self, xs: Arrays, ws: Arrays) -> Facts:
        """Constants in comparisons, from a trace of function and rule."""
        from pullback.engines.tensorflow.probing.facts import facts_of

        return facts_of(self, xs, ws)

    def modes(self) -> tuple[str, ...]:
        """The modes of TensorFlow that a check may ask for."""
        from pullback.engines.tensorflow.probing.modes import OFFERED

        return OFFERED

    def default_modes(self) -> tuple[str, ...]:
        """The modes that a check runs unless it is told otherwise."""
        from pullback.engines.tensorflow.probing.modes import DEFAULT

        return DEFAULT

    def in_mode(self, mode: str, xs: Arrays, ws: Arrays, us: Arrays) -> InMode | Unsupported:
        """The rule as another way of running gives it, at the precision of the arguments."""
        from pullback.engines.tensorflow.probing.modes import run_mode

        return run_mode(self.as_given or self, mode, xs, ws, us)

    def plain(self, what: str, xs: Arrays, ws: Arrays, us: Arrays) -> Any:
        """The rule run eagerly, at the precision of the arguments."""
        given = self.as_given or self
        if what == "vjp":
            return given.vjp(xs, ws)[1]
        return given.claims(xs, ws, us, second=False).jvp

    def source(self) -> str | None:
        """File and line of the rule."""
        from pullback.engines.tensorflow.probing.source import rule_location

        return rule_location(self)

    def close(self) -> None:
        """Put every variable back."""
        self.state.restore()

    # how it is done

    def tensors(self, xs: Arrays) -> list[Any]:
        """Tensors of the dtype in which this probe runs."""
        slots = [self.lift(s.dtype) for s in self.arguments.slots]
        kinds = slots + [tf.as_dtype(v.dtype) for v in self.variables]
        return [_tensor(x, kind) for x, kind in zip(xs, kinds, strict=True)]

    def watch(self, tape: tf.GradientTape, tensors: list[Any]) -> list[Any]:
        """What gradients are asked for: argument tensors, then variables."""
        count = len(self.arguments.slots)
        tape.watch(tensors[:count])
        return [*self.arguments.sources(tensors[:count], self.lift), *self.variables]

    def assign(self, tensors: list[Any]) -> None:
        """Set the captured variables."""
        for variable, tensor in zip(
            self.variables, tensors[len(self.arguments.slots) :], strict=True
        ):
            variable.assign(tensor)

    def forward(self, tensors: list[Any]) -> list[Any]:
        """Float outputs of the function, or `OutsideDomain` if it raises, as it did not at first."""
        self.assign(tensors)
        try:
            ys = float_outputs(self.call(tensors))
        except Exception as error:
            raise OutsideDomain(_first_line(error)) from error
        finally:
            if self.written:
                self.state.restore(self.written)
        if self.outputs and [tuple(y.shape) for y in ys] != [y.shape for y in self.outputs]:
            raise OutsideDomain("the outputs have other shapes than at the given arguments")
        return ys

    def call(self, tensors: list[Any]) -> Any:
        """The function itself, on these tensors, with random numbers held fixed."""
        args, kwargs = self.arguments.build(tensors[: len(self.arguments.slots)], self.lift)
        if self.seed is None:
            return self.fn(*args, **kwargs)
        return seeded(lambda: self.fn(*args, **kwargs), self.seed)

    def pulled(self, tensors: list[Any], ws: Arrays) -> tuple[list[Any], list[Any]]:
        """Outputs and dense gradients as tensors."""
        with tf.GradientTape() as tape:
            watched = self.watch(tape, tensors)
            ys = self.forward(tensors)
        gradients = self.ruled(lambda: tape.gradient(ys, watched, self.upstream(ys, ws)))
        return ys, [_dense(g) for g in gradients]

    def upstream(self, ys: list[Any], ws: Arrays) -> list[Any]:
        """Upstream gradients of the outputs' dtypes; the same tensors for the same list."""
        if self.last_upstream[0] is not ws:
            made = [_tensor(w, y.dtype) for w, y in zip(ws, ys, strict=True)]
            self.last_upstream = (ws, made)
        return list(self.last_upstream[1])

    def ruled(self, run: Callable[[], Any]) -> Any:
        """Run the rule; what it raises is a fault of the rule."""
        try:
            return run()
        except Exception as error:
            raise RuleFault("raises", f"{type(error).__name__}: {_first_line(error)}") from error

    def checked(self, gradients: list[Any]) -> list[Array | None]:
        """Gradients as arrays, each of the shape and dtype of its input."""
        kinds = [self.lift(s.dtype) for s in self.arguments.slots]
        kinds += [tf.as_dtype(v.dtype) for v in self.variables]
        return [
            None if g is None else _fitting(g, leaf, kind, k)
            for k, (g, leaf, kind) in enumerate(zip(gradients, self.inputs, kinds, strict=True))
        ]

    def _again(
        self, tape: Any, gradients: list[Any], watched: list[Any], upstream: list[Any], us: Arrays
    ) -> tuple[Any, Any]:
        flowing = [(g, u) for g, u in zip(gradients, us, strict=True) if g is not None]
        if not flowing:
            zeros: list[Array | None] = [None] * len(upstream)
            return zeros, [None] * len(watched)
        targets = [g for g, _ in flowing]
        directions = [_tensor(u, g.dtype) for g, u in flowing]
        try:
            found = tape.gradient(targets, [*upstream, *watched], directions)
        except Exception as error:
            reason = Unsupported(f"{type(error).__name__}: {_first_line(error)}")
            return reason, reason
        arrays = [None if g is None else to_array(_dense(g)) for g in found]
        jvp = arrays[: len(upstream)]
        if all(part is None for part in jvp):
            return Unsupported("nothing of the rule depends on its upstream"), arrays[
                len(upstream) :
            ]
        return jvp, arrays[len(upstream) :]


def float_outputs(result: Any) -> list[Any]:
    """The float tensors in what a function returned."""
    return [part for _, part in named_outputs(result)]


def named_outputs(result: Any) -> list[tuple[str, Any]]:
    """The float tensors in what a function returned, with their paths."""
    leaves, structure = flatten(result)
    found = []
    for path, leaf in zip(paths(structure, "out"), leaves, strict=True):
        parts = [tf.convert_to_tensor(leaf)] if is_variable(leaf) else components(leaf)
        path += ".flat_values" if isinstance(leaf, tf.RaggedTensor) else ""
        found += [(path, p) for p in parts if isinstance(p, tf.Tensor) and moves(p.dtype)]
    return found


def _leaf(variable: Any) -> Leaf:
    dtype = tf.as_dtype(variable.dtype)
    name = getattr(variable, "path", None) or variable.name.split(":")[0]
    path = f'variables["{name}"]'
    return Leaf(path, name, tuple(variable.shape), dtype.name, dtype.is_complex, "variable")


def _tensor(value: Array, dtype: tf.DType) -> Any:
    if not dtype.is_complex:
        value = np.real(value)
    return tf.constant(value.astype(dtype.as_numpy_dtype, copy=False), dtype)


def _dense(gradient: Any) -> Any:
    return gradient if gradient is None else tf.convert_to_tensor(gradient)


def _fitting(gradient: Any, leaf: Leaf, dtype: tf.DType, which: int) -> Array:
    if tuple(gradient.shape) != leaf.shape:
        raise RuleFault("shape", f"shape {list(gradient.shape)}", which)
    if gradient.dtype != dtype:
        raise RuleFault("dtype", gradient.dtype.name, which)
    return to_array(gradient)


def _first_line(error: BaseException) -> str:
    text = str(error).strip().splitlines()
    return text[0][:300] if text else ""
