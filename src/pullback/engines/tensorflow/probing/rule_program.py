"""The program of a rule, operation by operation, so that a diagnosis can look for the one change that makes it right.

Function and rule are traced together. One run gives every tensor; what follows from a changed operand, or from an
operation taken with another option, is computed operation by operation.
"""

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, combinations, permutations
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.alone import Unsafe, as_traced, has_form_of, otherwise
from pullback.engines.tensorflow.probing.altering import needed
from pullback.engines.tensorflow.probing.arguments import to_array
from pullback.engines.tensorflow.probing.callee import described
from pullback.engines.tensorflow.probing.lines import assigned, line_of
from pullback.engines.tensorflow.probing.programs import traced
from pullback.engines.tensorflow.probing.steps import REFUSALS
from pullback.extend import Array, Arrays, OutsideDomain, RuleStep, Unsupported

_FLAGS = (
    *("transpose_a", "transpose_b", "adj_x", "adj_y", "adjoint"),
    *("reverse", "exclusive", "lower"),
)
_REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "Any", "All")
# Operations that are taken for one another: of the same operands and the same results.
_ALIKE = (
    ("Sum", "Mean", "Max", "Min", "Prod"),
    ("Real", "Imag"),
    ("Sin", "Cos", "Tan"),
    ("Sinh", "Cosh", "Tanh", "Sigmoid"),
    ("AddV2", "Sub"),
    ("Mul", "RealDiv"),
    ("Maximum", "Minimum"),
    ("Greater", "GreaterEqual", "Less", "LessEqual"),
    ("LogicalAnd", "LogicalOr"),
    ("Floor", "Ceil", "Round", "Rint"),
    ("Sqrt", "Rsqrt", "Square", "Reciprocal"),
    ("Exp", "Expm1", "Log", "Log1p"),
    ("FFT", "IFFT"),
    ("FFT2D", "IFFT2D"),
    ("Cumsum", "Cumprod"),
    ("ArgMax", "ArgMin"),
    ("ZerosLike", "OnesLike"),
    ("TensorScatterAdd", "TensorScatterUpdate", "TensorScatterSub"),
    ("SegmentSum", "SegmentMean", "SegmentMax", "SegmentMin", "SegmentProd"),
    ("UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd"),
)
# Operations with two operands that may have been swapped.
_ORDERED = {
    **dict.fromkeys(["RealDiv", "Pow", "MatMul", "BatchMatMulV2", "Atan2"], (0, 1)),
    **dict.fromkeys(["Select", "SelectV2"], (1, 2)),
}
# Tensors of more numbers in all would make thousands of changes slow, and fill the memory at many points.
_MOST_NUMBERS = 100_000
# Operands of several axes are put into another order of these: of more there are too many.
_MOST_AXES = 4

Values = Sequence[Array]
Variant = Callable[[list[Any]], list[Any]]


class RuleProgram:
    """Function and rule as one program; the steps are those of the rule."""

    def __init__(self, probe: Any, xs: Arrays, ws: Arrays) -> None:
        self.probe, self.epsilon = probe, probe.rule_epsilon
        self.traced = traced(self._every, probe.tensors(xs), probe.upstream_tensors(ws))
        self.places = {op: line_of(op) for op in self.graph.get_operations()}
        self.number = {t.ref(): k for k, t in enumerate(self.tensors)}
        before = needed(self.ys)
        wanted = [g for g in self.found if g is not None]
        ours = needed(wanted) - before
        self.ops = [op for op in self.graph.get_operations() if op in ours and op.inputs]
        self.gradients = tuple(self._number(g) for g in self.found)
        self.as_traced = list(map(as_traced, self.ops))
        self.otherwise = list(map(otherwise, self.ops))
        self.made = [list(_variants(op)) if self.places[op][0] else [] for op in self.ops]
        self.steps = tuple(map(self._step, self.ops, self.made))
        self.names = tuple(map(self._name, self.tensors))
        self.lines = tuple(self.places[t.op][0] for t in self.tensors)
        self.kinds = tuple(t.op.type for t in self.tensors)

    def values(self, xs: Arrays, ws: Arrays) -> list[Array]:
        """Every tensor of function and rule."""
        self.probe.calls.spend()
        upstream = self.probe.upstream_tensors(ws)
        return [t.numpy() for t in self.traced(self.probe.tensors(xs), upstream)]

    def run(
        self,
        values: Values,
        operands: Mapping[tuple[int, int], Callable[[Array], Array]],
        options: Mapping[int, int],
    ) -> list[Array | None]:
        """The gradients with other operands of steps, or with steps taken in another way."""
        try:
            found = self._run(values, operands, options)
        except REFUSALS as error:
            raise OutsideDomain(described(error)) from error
        shapes = [leaf.shape for leaf in self.probe.inputs]
        if any(g is not None and g.shape != s for g, s in zip(found, shapes, strict=True)):
            raise OutsideDomain("the gradients have other shapes")
        return found

    def _run(
        self,
        values: Values,
        operands: Mapping[tuple[int, int], Callable[[Array], Array]],
        options: Mapping[int, int],
    ) -> list[Array | None]:
        new: dict[int, Any] = {}
        for k, op in enumerate(self.ops):
            which = [self._number(t) for t in op.inputs]
            touched = any((k, j) in operands for j in range(len(which)))
            if k in options or touched or any(t in new for t in which):
                if -1 in which:
                    raise Unsafe(f"{op.type} takes what holds no numbers")
                taken = [new[t] if t in new else values[t] for t in which]
                for j, value in enumerate(taken):
                    if (k, j) in operands:
                        taken[j] = operands[k, j](np.asarray(value))
                same = all(has_form_of(v, values[t]) for v, t in zip(taken, which, strict=True))
                usual = self.as_traced[k] if same else self.otherwise[k]
                call = self.made[k][options[k]][1] if k in options else usual
                made = call([_tensor(v, t) for v, t in zip(taken, op.inputs, strict=True)])
                new |= {self._number(t): y for t, y in zip(op.outputs, made, strict=True)}
        found: list[Array | None] = []
        for j, g in enumerate(self.gradients):
            value = None if g is None else np.asarray(new[g] if g in new else values[g])
            change = operands.get((len(self.ops), j))
            found.append(value if value is None or change is None else change(value))
        return [None if g is None else to_array(tf.constant(g)) for g in found]

    def _every(self, tensors: list[Any], ws: list[Any]) -> list[Any]:
        self.ys, self.found = self.probe.pull(tensors, ws)
        self.graph: Any = tf.compat.v1.get_default_graph()
        self.used = {t.ref() for op in self.graph.get_operations() for t in op.inputs}
        every = [t for op in self.graph.get_operations() for t in op.outputs]
        self.tensors = [t for t in every if _is_number(t) and t.shape.is_fully_defined()]
        if sum(t.shape.num_elements() for t in self.tensors) > _MOST_NUMBERS:
            raise ValueError("the program is too large")
        self.inputs = {t.ref(): leaf for t, leaf in zip(tensors, self.probe.inputs, strict=True)}
        self.upstreams = {t.ref(): leaf for t, leaf in zip(ws, self.probe.outputs, strict=True)}
        return self.tensors

    def _number(self, tensor: Any) -> Any:
        return None if tensor is None else self.number.get(tensor.ref(), -1)

    def _step(self, op: Any, made: list[tuple[str, Variant]]) -> RuleStep:
        line = self.places[op][0]
        here = [other for other in self.ops if self.places[other] == self.places[op]]
        same = [other for other in here if other.type == op.type]
        kind = f"{op.type} no. {same.index(op) + 1}" if len(same) > 1 and line else op.type
        inputs, outputs = (tuple(map(self._number, ts)) for ts in (op.inputs, op.outputs))
        return RuleStep(op.type, kind, line, inputs, outputs, tuple(how for how, _ in made))

    def _name(self, tensor: Any) -> str:
        """What a tensor is called in the source, or what it is."""
        op, known = tensor.op, tensor.ref()
        if known in self.inputs:
            return f"`{self.inputs[known].name}`"
        if known in self.upstreams:
            many = len(self.upstreams) > 1
            return "the upstream" + (f" of `{self.upstreams[known].name}`" if many else "")
        if op.type == "Const":
            return _written(tf.make_ndarray(op.get_attr("value")))
        if name := self._variable(tensor):
            return f"`{name}`"
        of = [known for t in op.inputs if t.op.type != "Const" and (known := self._plain_name(t))]
        return f"the result of {op.type}" + (f" of {of[0]}" if of else "")

    def _plain_name(self, tensor: Any) -> str:
        """A name that is none of what makes it."""
        known = tensor.ref()
        if known in self.inputs or known in self.upstreams or self._variable(tensor):
            return self._name(tensor)
        return ""

    def _variable(self, tensor: Any) -> str:
        """The variable that a line gives a tensor to: what its last operation gives, or one of the last of its type."""
        line, op = self.places[tensor.op], tensor.op
        names, last = assigned(line[0]), self._lasts.get(line, [])
        if len(names) == 1 and last[-1:] == [op]:
            return (
                names[0]
                if [t.ref() for t in op.outputs if t.ref() in self.used] in ([tensor.ref()], [])
                else ""
            )
        if len(names) > 1 and last[-1:] == [op] and len(op.outputs) == len(names):
            return names[tensor.value_index]
        alike = [other for other in last if other.type == op.type]
        return names[alike.index(op)] if len(names) == len(alike) > 1 and op in alike else ""

    @functools.cached_property
    def _lasts(self) -> dict[tuple[str, str], list[Any]]:
        """The operations of each line that are of the type of its last."""
        found: dict[tuple[str, str], list[Any]] = {}
        for op, place in self.places.items():
            if op.type not in ("Identity", "IdentityN", "Const"):
                found.setdefault(place, []).append(op)
        return {
            place: [op for op in ops if op.type == ops[-1].type] for place, ops in found.items()
        }


def _is_number(tensor: Any) -> bool:
    dtype = tensor.dtype
    return dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype.is_complex


def _tensor(value: Any, like: Any) -> Any:
    return value if isinstance(value, tf.Tensor) else tf.constant(value, like.dtype)


def _written(value: Array) -> str:
    text = np.array2string(np.asarray(value), precision=4, separator=", ", threshold=8)
    return " ".join(text.split())


# how an operation may be taken otherwise


def _variants(op: Any) -> Iterator[tuple[str, Variant]]:
    """In words, and what runs it."""
    for options in _other_flags(op):
        said = " and ".join(f"{name}={value}" for name, value in options.items())
        yield f"{said} in {{}}", otherwise(op, options=options)
    if op.type in _ORDERED:
        a, b = _ORDERED[op.type]
        yield (
            "its operands in the other order in {}",
            functools.partial(_turned, otherwise(op), a, b),
        )
    for family in _ALIKE:
        for other in family if op.type in family else ():
            if other != op.type:
                yield f"{other} in place of {{}}", otherwise(op, other)
    if op.type in _REDUCTIONS:
        yield from _other_axes(op, list(_subsets(len(op.inputs[0].shape))), "axis {} in {{}}")
    if op.type in ("Cumsum", "Cumprod", "ReverseV2", "GatherV2", "ArgMax", "ArgMin", "ConcatV2"):
        ways = [[k] for k in range(len(op.inputs[0].shape))]
        yield from _other_axes(op, ways, "axis {} in {{}}")
    if op.type == "Transpose" and len(op.inputs[0].shape) <= _MOST_AXES:
        orders = [list(p) for p in permutations(range(len(op.inputs[0].shape)))]
        yield from _other_axes(op, orders, "axes in the order {} in {{}}")
    yield from _other_ways(op)


def _other_ways(op: Any) -> Iterator[tuple[str, Variant]]:
    """The same for what puts things into places."""
    if op.type in ("Pack", "ConcatV2"):
        yield from _other_orders(op, len(op.inputs) - (op.type == "ConcatV2"))
    if op.type == "Roll":
        call = otherwise(op)
        yield "the other direction in {}", lambda taken: call([taken[0], -taken[1], taken[2]])
        yield "zeros moved in, where the ends are joined, in {}", lambda taken: [_shifted(*taken)]


def _other_orders(op: Any, count: int) -> Iterator[tuple[str, Variant]]:
    """Operands that are put together in another order: reversed, or two of them swapped."""
    usual = list(range(count))
    orders = [
        usual[::-1],
        *(
            [*usual[:a], b, *usual[a + 1 : b], a, *usual[b + 1 :]]
            for a, b in combinations(usual, 2)
        ),
    ]
    for order in orders[: 1 + _MOST_AXES**2] if count > 1 else ():
        said = f"{order} in place of {usual}"
        yield (
            f"its operands in the order {said} in {{}}",
            functools.partial(_ordered, otherwise(op), order),
        )


def _ordered(call: Variant, order: list[int], taken: list[Any]) -> list[Any]:
    return call([*(taken[k] for k in order), *taken[len(order) :]])


def _turned(call: Variant, a: int, b: int, taken: list[Any]) -> list[Any]:
    taken[a], taken[b] = taken[b], taken[a]
    return call(taken)


def _other_flags(op: Any) -> Iterator[dict[str, Any]]:
    """Other values of options that are true or false, or of how something is padded; of an equation, other letters."""
    flags = [a.name for a in op.op_def.attr if a.name in _FLAGS]
    for some in chain.from_iterable(combinations(flags, k) for k in (1, 2)):
        yield {flag: not op.get_attr(flag) for flag in some}
    for name, ways in (("padding", ("SAME", "VALID")), ("mode", ("REFLECT", "SYMMETRIC"))):
        now = op.get_attr(name).decode() if name in [a.name for a in op.op_def.attr] else None
        yield from ({name: way} for way in ways if now in ways and way != now)
    if op.type == "Einsum":
        yield from ({"equation": other} for other in _other_equations(op.get_attr("equation")))


def _other_equations(equation: bytes) -> Iterator[str]:
    """Equations with the letters of one term in another order."""
    terms = re.split(r"(,|->)", equation.decode())
    for k, term in enumerate(terms):
        if term.isalpha() and len(term) <= _MOST_AXES:
            for letters in permutations(term):
                if "".join(letters) != term:
                    yield "".join([*terms[:k], "".join(letters), *terms[k + 1 :]])


def _subsets(rank: int) -> Iterator[list[int]]:
    for axes in chain.from_iterable(combinations(range(rank), k) for k in range(1, rank + 1)):
        yield list(axes)


def _other_axes(op: Any, ways: list[list[int]], text: str) -> Iterator[tuple[str, Variant]]:
    """Another last operand, which says along which axes."""
    last, rank = op.inputs[len(op.inputs) - 1], len(op.inputs[0].shape)
    now = tf.get_static_value(last)
    usual = [] if now is None else [int(a) % max(rank, 1) for a in np.ravel(now)]
    for axes in ways:
        if axes != usual and (last.shape.rank or len(axes) == 1):
            value = np.array(axes if last.shape.rank else axes[0], last.dtype.as_numpy_dtype)
            said, was = (str(a[0]) if len(a) == 1 else str(a) for a in (axes, usual or ["another"]))
            yield text.format(f"{said} in place of {was}"), functools.partial(_with_last, op, value)


def _with_last(op: Any, value: Array, taken: list[Any]) -> list[Any]:
    return otherwise(op)([*taken[:-1], tf.constant(value)])


def _shifted(x: Any, shift: Any, axis: Any) -> Any:
    """What a roll would be without what comes in at the other end."""
    for by, along in zip(np.ravel(shift), np.ravel(axis), strict=True):
        size = x.shape[int(along)]
        index = np.arange(size) - int(by)
        kept = np.reshape(
            (index >= 0) & (index < size),
            [-1] + [1] * (x.shape.rank - int(along) % x.shape.rank - 1),
        )
        x = tf.roll(x, int(by), int(along)) * tf.cast(kept, x.dtype)
    return x


def rule_program_of(probe: Any, xs: Arrays, ws: Arrays) -> RuleProgram | Unsupported:
    """The program of a probe's rule, or why it cannot be had."""
    if probe.seed is not None:
        return Unsupported("its random numbers would differ")
    try:
        return RuleProgram(probe, xs, ws)
    except Exception as error:
        # what runs eagerly in float64 may mix formats when it is traced
        given = probe.as_given
        return Unsupported(described(error)) if given is None else rule_program_of(given, xs, ws)
