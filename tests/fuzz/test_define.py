"""Random functions with a gradient of their own, in random modes, against NumPy."""

from dataclasses import replace
from typing import Any

import pytest
import tensorflow as tf

from tests.fuzz import define_oracle as oracle
from tests.fuzz.define_cases import FIXED, Case, cases
from tests.fuzz.define_run import ALL_MODES, Run
from tests.fuzz.known import known_define
from tests.fuzz.running import fuzz
from tests.fuzz.verdicts import Verdict, crash, difference, is_ours

CHEAP = (
    "eager", "eager", "tf.function, tape outside", "tf.function, tape outside, unknown shapes",
    "tf.function, tape outside, unknown ranks", "tf.function, tape inside", "tf.gradients", "tf.cond",
    "tf.while_loop", "vectorized_map", "jacobian",
)  # fmt: skip
DEAR = (
    *CHEAP, "nested tf.function, tape outside", "nested tf.function, tape inside", "XLA", "XLA, tape inside",
    "tf.map_fn", "vectorized_map in tf.function", "forward mode", "forward mode through tf.function", "fit",
    "fit, run eagerly",
)  # fmt: skip


def is_meaningful(case: Case) -> bool:
    """Whether the mode can run the case at all: TensorFlow has no XLA for strings, no tangents for complex numbers."""
    dtypes = {s.dtype for s in case.sources}
    if oracle.reads_two_ways(case):
        return False
    if "forward" in case.mode:
        fixed = any(form in FIXED for form in case.forms)
        return not fixed and not case.is_wrong and not any(d.startswith("complex") for d in dtypes)
    if "fit" in case.mode:
        trained = dtypes <= {"float32", "float64"} and not case.is_wrong
        return trained and _reaches_a_weight(case)
    return True


def _reaches_a_weight(case: Case) -> bool:
    """Whether a gradient flows to what the mode makes a weight of its model; without one, Keras refuses to train."""
    wanted = zip(case.sources, oracle.expected(case)[0], strict=True)
    weights = [g for source, g in wanted if source.kind != "variable"]
    return any(g is not None and g is not oracle.NOTHING for g in weights)


def judge(case: Case) -> Verdict:
    run = Run(case)
    try:
        sources, inside = run.gradients(run.function())
    except BaseException as error:
        return _about_error(case, error)
    if case.is_wrong:
        return Verdict("silent wrong", "no error", f"no error for {_wrongness(case)}, {case.mode}")
    return _compared(case, run, sources, inside)


def _wrongness(case: Case) -> str:
    from tests.fuzz.define_cases import WRONG

    wrong = [f for f in case.forms if f in WRONG]
    return wrong[0] if wrong else oracle.effective_result(case)


def _about_error(case: Case, error: BaseException) -> Verdict:
    compiled = "XLA" in case.mode and isinstance(error, (tf.errors.OpError, ValueError))
    if case.is_wrong and (is_ours(error, "fuzz_rule") or compiled):
        return Verdict("agrees")
    if _stock_fails(case):
        return replace(crash(error), kind="not TensorFlow")
    found = crash(error)
    if is_ours(error, "fuzz_rule"):
        return Verdict("silent wrong", f"refused: {found.words}", f"refused: {found.signature}")
    return found


def _stock_fails(case: Case) -> bool:
    run = Run(replace(case, verb="plain"))
    try:
        run.gradients(run.function())
    except Exception:
        return True
    return False


def _compared(case: Case, run: Run, sources: list[Any], inside: list[Any]) -> Verdict:
    wanted, wanted_inside = oracle.expected(case)
    named = [(f"source {i}", *pair) for i, pair in enumerate(zip(sources, wanted, strict=True))]
    named += [(f"variable {i}", *p) for i, p in enumerate(zip(inside, wanted_inside, strict=False))]
    for name, came, right in named:
        words = difference(came, right, ALL_MODES[case.mode].gives_none)
        if words:
            kind = (
                "None"
                if "got None" in words
                else "not None"
                if "wanted None" in words
                else "number"
            )
            where = sorted(
                {
                    case.forms[i]
                    for i, (_, f) in enumerate(case.flowing())
                    if f"source {f.source}" == name
                }
            )
            return Verdict(
                "silent wrong",
                f"{name}: {words}",
                f"{kind}, {name.split()[0]} {where}, {case.mode}",
            )
    return Verdict("agrees")


def test_random_definitions(request: pytest.FixtureRequest) -> None:
    long = bool(request.config.getoption("--fuzz"))
    modes = DEAR if long else CHEAP

    fuzz(request, cases(modes).filter(is_meaningful), judge, known_define)
