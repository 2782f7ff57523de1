"""Random programs under random overrides, against a reverse pass in NumPy with the rules put in by hand."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import PullbackError, UnmatchedOverride, UnreachableOverride
from tests.fuzz.known import known_override
from tests.fuzz.override_machine import KERNELS, Ambiguous, Machine, Var, pulled_back
from tests.fuzz.override_programs import OURS_ALONE, Program, programs
from tests.fuzz.override_run import Build
from tests.fuzz.running import fuzz
from tests.fuzz.verdicts import Verdict, crash
from tests.modes import MODES

CHEAP = (
    "eager", "eager", "eager", "tf.function, tape outside", "tf.function, tape outside, unknown shapes",
    "tf.function, tape inside", "tf.gradients", "tf.cond", "tf.while_loop", "vectorized_map", "jacobian",
)  # fmt: skip
DEAR = (
    *CHEAP, "nested tf.function, tape outside", "nested tf.function, tape inside", "XLA", "XLA, tape inside",
    "tf.map_fn", "vectorized_map in tf.function", "forward mode", "forward mode through tf.function",
)  # fmt: skip
IN_EAGER = ("eager", "jacobian", "tf.map_fn", "forward mode")
NAMES = ("x", "y", *(f"{part} of {name}" for name in KERNELS for part in ("kernel", "bias")))
WEIGHTS = np.array([[1.0, -2.0], [3.0, 0.5]])


class Wanted:
    """What must come of a program: its gradients, or an error about a target that does not occur."""

    def __init__(self, program: Program) -> None:
        graph = program.mode not in IN_EAGER or program.form in ("function", "traced before")
        machine = Machine(program, graph)
        if program.form == "layer":
            machine.refuse("function", ["cast"])  # Keras calls it on the inputs
        xs = [Var(np.array(x, np.float64).reshape(2, 2) / 8.0) for x in program.xs]
        with np.errstate(all="ignore"):
            output = machine.run(program.steps, xs)
            weights = [w for pair in machine.weights.values() for w in pair]
            self.gradients = pulled_back([output], [WEIGHTS], [*xs, *weights])
        self.value = output.value
        every = {(i, j) for i, lines in enumerate(program.overrides) for j in range(len(lines))}
        self.unmatched = every - machine.met
        self.least = machine.least


def wanted_of(program: Program) -> Wanted | None:
    """What is wanted, if that is clear: the contract speaks of it, and no kink or overflow is near."""
    try:
        wanted = Wanted(program)
    except Ambiguous:
        return None
    numbers = [wanted.value, *(g for g in wanted.gradients if g is not None)]
    clear = wanted.least > 1e-4 and all(np.all(np.abs(n) < 1e6) for n in numbers)
    return wanted if clear else None


def is_meaningful(program: Program) -> bool:
    targets = [(t, r) for lines in program.overrides for t, r in lines]
    if program.use == "block outside":
        outer = [
            t.name in OURS_ALONE or t.kind in ("layer", "class", "user", "regex")
            for t, _ in targets
        ]
        if not all(outer):
            return False
    if "forward" in program.mode and any(r.kind == "guided" for _, r in targets):
        return False
    return wanted_of(program) is not None


def judge(program: Program) -> Verdict:
    wanted = wanted_of(program)
    assert wanted is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            build = Build(program)
            found = build.gradients(build.overridden(), program.mode)
        except BaseException as error:
            return _about_error(program, wanted, error)
    how = f"{program.mode}, {program.form}, {program.use}"
    if wanted.unmatched:
        words = [program.overrides[i][j][0] for i, j in sorted(wanted.unmatched)]
        return Verdict("silent wrong", f"no error about {words}", f"no UnmatchedOverride, {how}")
    return _compared(program, wanted, found, how)


def _about_error(program: Program, wanted: Wanted, error: BaseException) -> Verdict:
    if wanted.unmatched and isinstance(error, UnmatchedOverride):
        return Verdict("agrees")
    if _is_about_counters(program, wanted, error):
        return Verdict("agrees")
    if _stock_fails(program):
        return replace(crash(error), kind="not TensorFlow")
    found = crash(error)
    if isinstance(error, PullbackError):
        return Verdict("silent wrong", f"refused: {found.words}", f"refused: {found.signature}")
    return found


def _is_about_counters(program: Program, wanted: Wanted, error: BaseException) -> bool:
    """Whether an error says that a target is met only where whole numbers are counted, which the machine leaves out."""
    unmatched = [program.overrides[i][j][0] for i, j in wanted.unmatched]
    counts = any(t.name == "AddV2" for t in unmatched) and program.names() & {"while", "map_fn"}
    said = isinstance(error, UnreachableOverride) and "no floating-point tensor" in str(error)
    return bool(counts) and said


def _stock_fails(program: Program) -> bool:
    plain = replace(program, use="applied", overrides=())
    build = Build(plain)
    try:
        build.gradients(build.overridden(), program.mode)
    except Exception:
        return True
    return False


def _compared(program: Program, wanted: Wanted, found: list[Any], how: str) -> Verdict:
    # Modes that cannot be asked for variables give the gradients of the inputs alone.
    for i, (came, right) in enumerate(zip(found, wanted.gradients, strict=False)):
        number = np.zeros([1]) if right is None else right
        array = np.zeros([1]) if came is None else np.asarray(tf.convert_to_tensor(came))
        near = 1e-5 * max(1.0, float(np.abs(number).max()))
        if not np.allclose(array, number, rtol=1e-5, atol=near):
            words = f"{NAMES[i]}: got {array.tolist()}, wanted {number.tolist()}"
            kinds = sorted({f"{t.kind}/{r.kind}" for lines in program.overrides for t, r in lines})
            return Verdict("silent wrong", words, f"{NAMES[i]}, {kinds}, {how}")
    return Verdict("agrees")


def test_random_overrides(request: pytest.FixtureRequest) -> None:
    long = bool(request.config.getoption("--fuzz"))
    strategy = programs(DEAR if long else CHEAP).filter(is_meaningful)
    fuzz(request, strategy, judge, known_override)


def test_modes_are_there() -> None:
    assert set(DEAR) <= set(MODES)
    assert pb.override is not None
