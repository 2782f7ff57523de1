"""Random functions with partial derivatives, in random modes, against NumPy."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import strategies as st

import pullback as pb
from tests.fuzz.choosing import one_of
from tests.fuzz.define_oracle import pattern
from tests.fuzz.define_run import ALL_MODES
from tests.fuzz.running import fuzz
from tests.fuzz.test_define import CHEAP, DEAR
from tests.fuzz.verdicts import Verdict, crash, difference, is_ours

SHAPES = ((), (2,), (2, 3), (3, 3), (1, 3), (0, 3), (2, 3, 4))
SMALLER: dict[tuple[int, ...], tuple[tuple[int, ...], ...]] = {
    (2, 3): ((3,), (1, 3), (2, 1), ()), (3, 3): ((3,), ()), (2, 3, 4): ((4,), (3, 1)), (2,): ((1,), ()),
}  # fmt: skip


@dataclass(frozen=True)
class Partials:
    """A sum of multiples of its parameters, reduced; `partials` says what each parameter's derivative is."""

    mode: str
    shape: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    reduced: str  # "no", "last", "all", "first"
    partials: tuple[str, ...]  # "own", "by input", "outputs", "number", "none", "ordinary", "text"
    said: bool = False  # whether it is said which axes are reduced

    def axes(self) -> tuple[int, ...]:
        count = len(self.shape)
        return {"no": (), "last": (count - 1,), "all": tuple(range(count)), "first": (0,)}[
            self.reduced
        ]

    def values(self) -> list[np.ndarray]:
        unit = 1 + 2j if self.dtype.startswith("complex") else 1
        return [unit * ((i + 1) * pattern(s) - 3) for i, s in enumerate(self.shapes)]

    def output(self) -> np.ndarray:
        whole = sum((np.broadcast_to((i + 1) * x, self.shape) for i, x in enumerate(self.values())))
        return np.asarray(np.sum(whole, self.axes()))

    def upstream(self) -> np.ndarray:
        found = pattern(self.output().shape)
        return found * (1 - 1j) if self.dtype.startswith("complex") else found

    @property
    def is_undecided(self) -> bool:
        """Whether another axis of the same size could have been reduced."""
        one = self.reduced in ("first", "last")
        return one and not self.said and len(set(self.shape)) < len(self.shape)

    @property
    def is_wrong(self) -> bool:
        return "text" in self.partials


@st.composite
def partials(draw: Any, modes: tuple[str, ...]) -> Partials:
    shape = draw(one_of(SHAPES))
    reduced = draw(one_of(["no", "no", "last", "all", "first"] if shape else ["no"]))
    count = draw(one_of([1, 2, 3]))
    dtype = draw(one_of(["float64", "float32", "float64", "complex128", "bfloat16"]))
    smaller = SMALLER.get(shape, ()) if reduced == "no" else ()
    shapes = tuple(draw(one_of([shape, shape, *smaller])) for _ in range(count - 1))
    kinds = [
        "own",
        "own",
        "by input",
        "none",
        "ordinary",
        *(["outputs", "number"] if reduced == "no" else []),
        "text",
    ]
    chosen = [draw(one_of(kinds)) for _ in range(count)]
    if set(chosen) == {"ordinary"}:
        chosen[0] = "own"
    said = reduced != "no" and draw(st.booleans())
    mode = draw(one_of(modes))
    return Partials(mode, shape, (shape, *shapes), dtype, reduced, tuple(chosen), said)


def partial_value(case: Partials, i: int) -> Any:
    """What the derivative of a parameter is said to be: of the shape that the output has before it is reduced."""
    kind = case.partials[i]
    if kind == "outputs":
        return case.output()
    if kind == "number":
        return np.asarray(3.0)
    x = np.broadcast_to(case.values()[i], case.shape)
    unit = 1 + 1j if case.dtype.startswith("complex") else 1
    return x * x if kind == "by input" else (i + 2) * pattern(case.shape) * unit


def wanted(case: Partials, i: int) -> Any:
    if case.partials[i] == "none":
        return None
    upstream = np.expand_dims(case.upstream(), case.axes())
    factor = i + 1 if case.partials[i] == "ordinary" else np.conj(partial_value(case, i))
    whole = np.broadcast_to(upstream * factor, case.shape)
    shape = case.shapes[i]
    whole = whole.sum(tuple(range(whole.ndim - len(shape))))
    axes = tuple(a for a, side in enumerate(shape) if side == 1 and whole.shape[a] != 1)
    return np.asarray(whole.sum(axes, keepdims=True)).reshape(shape)


def function_of(case: Partials) -> Any:
    names = "abc"[: len(case.shapes)]

    def total(args: Any) -> Any:
        terms = [tf.cast(i + 1, x.dtype) * x for i, x in enumerate(args)]
        whole = tf.zeros(case.shape, case.dtype)
        for term in terms:
            whole += term
        return tf.reduce_sum(whole, case.axes()) if case.axes() else whole

    def partial(i: int) -> Any:
        def derivative(args: Any, outputs: Any = None) -> Any:
            kind = case.partials[i]
            if kind in ("outputs", "text", "number"):
                return {"outputs": outputs, "text": "nonsense", "number": 3.0}[kind]
            x = tf.broadcast_to(args[i], case.shape)
            return x * x if kind == "by input" else tf.constant(partial_value(case, i), case.dtype)

        asks = ", *, outputs" if case.partials[i] == "outputs" else ""
        given = "outputs" if asks else "None"
        scope = {"_derivative": derivative}
        exec(
            f"def fuzz_rule({', '.join(names)}{asks}):\n    return _derivative(({', '.join(names)},), {given})",
            scope,
        )
        return scope["fuzz_rule"]

    scope: dict[str, Any] = {"_total": total}
    exec(f"def fuzzed({', '.join(names)}):\n    return _total(({', '.join(names)},))", scope)
    rules = {
        n: None if kind == "none" else partial(i)
        for i, (n, kind) in enumerate(zip(names, case.partials, strict=True))
        if kind != "ordinary"
    }
    option = {"reduced": case.axes()} if case.said else {}
    return pb.with_partials(scope["fuzzed"], **rules, **option)


def judge(case: Partials) -> Verdict:
    xs = [tf.constant(v, case.dtype) for v in case.values()]
    weights = tf.constant(np.conj(case.upstream()), case.dtype)
    how = f"{case.dtype}, {case.reduced}, {case.mode}"

    def loss(*args: Any) -> Any:
        product = weights * function_of(case)(*args)
        return tf.reduce_sum(tf.cast(tf.math.real(product), tf.float64))

    mode = ALL_MODES[case.mode]
    try:
        found = mode.gradients(tf.autograph.experimental.do_not_convert(loss), xs)
    except BaseException as error:
        refused = case.is_wrong or case.is_undecided or "ranks" in case.mode
        if is_ours(error, "fuzz_rule") and refused:
            return Verdict("agrees")
        return crash(error)
    derived = set(case.partials) & {"own", "by input"}
    if case.is_wrong or (case.is_undecided and derived):
        return Verdict("silent wrong", "no error", f"no error, {how}")
    for i, came in enumerate(found):
        words = difference(came, wanted(case, i), mode.gives_none)
        if words:
            return Verdict("silent wrong", f"{'abc'[i]}: {words}", f"{case.partials[i]}, {how}")
    return Verdict("agrees")


def is_meaningful(case: Partials) -> bool:
    if "forward" in case.mode:
        return not (case.is_wrong or case.dtype.startswith("complex"))
    if "fit" in case.mode:  # Keras refuses to train where no gradient flows at all
        flows = bool(set(case.partials) - {"none"})
        return case.dtype in ("float32", "float64") and not case.is_wrong and flows
    return True


def test_random_partials(request: pytest.FixtureRequest) -> None:
    modes = DEAR if request.config.getoption("--fuzz") else CHEAP
    fuzz(request, partials(modes).filter(is_meaningful), judge, lambda _: None)
