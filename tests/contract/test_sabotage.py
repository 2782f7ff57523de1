"""The contract sees what is wrong: engines that are broken on purpose, each with the case that must notice."""

import dataclasses
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback.testing import contract
from tests.contract.fake_adapter import ADAPTER
from tests.core import fake_engine as fake
from tests.core.fake_engine import Array, FakeEngine, Recorded

SABOTAGES: dict[str, tuple[Callable[[pytest.MonkeyPatch], Any], str]] = {}
VJP, INIT, RUN = Recorded.vjp, Recorded.__init__, Recorded._run
ATTACH = FakeEngine._attach


def sabotage(caught_by: str) -> Callable[[Any], Any]:
    def add(function: Callable[[pytest.MonkeyPatch], Any]) -> Any:
        SABOTAGES[function.__name__] = (function, caught_by)
        return function

    return add


def patched(owner: Any, name: str, new: Any, caught_by: str, what: str) -> None:
    SABOTAGES[what] = (lambda patch: patch.setattr(owner, name, new), caught_by)


def zeros_for_none(self, upstream):
    gradients = VJP(self, upstream)
    sources = [origin[0].specs[origin[1]] for origin in self.sources]
    return [
        Array(np.zeros(s.shape, s.dtype)) if g is None else g
        for g, s in zip(gradients, sources, strict=True)
    ]


def ignoring_keywords(self, call, leaves):
    return ATTACH(self, call, leaves) if call.plan.direct else call.run(leaves).leaves[0]


def keeping_inputs(self, pullback, leaves, *rest):
    INIT(self, pullback, leaves, *rest)
    self.leaves = leaves


def keeping_the_inside(self, pullback, leaves, copies, returned, before):
    INIT(self, pullback, leaves, copies, returned, before)
    self.graph = [y.origin for y in returned.values()]


def keeping_the_call(self, call, leaves):
    outputs = ATTACH(self, call, leaves)
    outputs.origin[0].outputs = outputs
    return outputs


def first_upstream_only(self, upstream):
    return RUN(self, [dy if i == 0 else 0.0 * dy for i, dy in enumerate(upstream)])


def without_second(self, upstream):
    return RUN(self, upstream)._replace(second=None)


def without_jvp(self, pullback, *rest):
    INIT(self, pullback, *rest)
    self.explicit = None


def without_captures(self, *args):
    INIT(self, *args)
    self.sources = [origin for origin in self.sources if origin not in self.captured]
    self.captured = []


def without_original(self, pullback, *rest):
    INIT(self, pullback, *rest)
    pullback.ordinary = None


def broadcasting(self, gradient, spec):
    return Array(np.broadcast_to(fake.fake.as_array(gradient).data, spec.shape))


@sabotage("two functions of one name and code")
def rules_by_name(patch):
    known: dict[str, Any] = {}

    def attach(self, call, leaves):
        call.definition = known.setdefault(call.name, call.definition)
        return ATTACH(self, call, leaves)

    patch.setattr(FakeEngine, "_attach", attach)


@sabotage("override in a block")
def override_without_reason(patch):
    patch.setattr(FakeEngine, "cannot", {})


for owner, name, new, caught_by in [
    (FakeEngine, "cast", lambda self, array, dtype: array, "cast to the dtype of the input"),
    (FakeEngine, "cast", lambda self, x, _: Array(np.abs(x.data)), "the real part"),
    (FakeEngine, "sum_to", lambda self, array, axes, shape: array, "summed over new axes"),
    (FakeEngine, "as_array", broadcasting, "a scalar for a vector"),
    (FakeEngine, "as_array", lambda self, g, spec: Array(np.ones(spec.shape)), "a string"),
    (FakeEngine, "fits", lambda self, gradient, spec: True, "one entry for a vector"),
    (FakeEngine, "same_variable", lambda self, key, variable: False, "variables in a dict"),
    (FakeEngine, "require_linear", lambda self, results, *rest: results, "an affine rule"),
    (FakeEngine, "_attach", ignoring_keywords, "keywords in another order"),
    (FakeEngine, "_attach", keeping_the_call, "an output is let go"),
    (Recorded, "__init__", keeping_inputs, "an input is let go"),
    (Recorded, "__init__", keeping_inputs, "a static argument is let go"),
    (Recorded, "__init__", keeping_the_inside, "the inside is let go"),
    (Recorded, "__init__", without_jvp, "explicit jvp"),
    (Recorded, "__init__", without_captures, "variables nobody asked for"),
    (Recorded, "__init__", without_captures, "an array that is closed over"),
    (Recorded, "__init__", without_original, "DEFAULT"),
    (Recorded, "vjp", zeros_for_none, "None where nothing flows"),
    (Recorded, "_run", first_upstream_only, "two outputs"),
    (Recorded, "_run", without_second, "explicit second"),
    (fake, "_copy", lambda x: Array(x.data), "second order of a residual"),
]:
    patched(owner, name, new, caught_by, f"{getattr(new, '__name__', name)}, seen by {caught_by}")


def failures(case_name: str) -> list[str]:
    pairs = [(case, mode) for case, mode in contract.cases(ADAPTER) if case.name == case_name]
    assert pairs, f"there is no case {case_name!r}"
    return [str(mode) for case, mode in pairs if _fails(case, mode)]


def _fails(case: Any, mode: Any) -> bool:
    try:
        contract.run(case, mode, ADAPTER)
    except Exception:
        return True
    return False


@pytest.mark.parametrize("what", SABOTAGES)
def test_a_broken_engine_is_caught(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.install(monkeypatch)
    breaking, case_name = SABOTAGES[what]
    assert failures(case_name) == [], "the engine is right as it is"
    breaking(monkeypatch)
    assert failures(case_name) != []


def test_an_ability_that_is_denied_must_be_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    fake.install(monkeypatch)
    cannot = {**FakeEngine.cannot, "forward mode": "it is said to be impossible"}
    modest = dataclasses.replace(ADAPTER, cannot=cannot)
    pairs = {
        str(mode): (case, mode)
        for case, mode in contract.cases(modest)
        if str(case) == "two inputs"
    }
    contract.run(*pairs["eager"], modest)
    with pytest.raises(
        AssertionError, match=r"matching 'it.*impossible.*; nothing was raised, and"
    ):
        contract.run(*pairs["forward"], modest)


def test_a_capability_that_does_not_exist() -> None:
    with pytest.raises(
        AssertionError, match=r"`cannot` names \['forwards'\]; known are second order"
    ):
        contract.cases(dataclasses.replace(ADAPTER, cannot={"forwards": "a slip"}))


def test_every_capability_is_asked_for_somewhere() -> None:
    kinds = {"second order", "forward mode"}
    assert {need for case in contract.TABLE for need in case.needs} | kinds == set(
        contract.CAPABILITIES
    )


def test_every_case_has_a_name_of_its_own() -> None:
    names = [case.name for case in contract.TABLE]
    assert len(names) == len(set(names)) > 60


IMPORT_ALONE = """
import sys
from pullback.testing import contract
print(len(contract.TABLE) > 0, sorted({"tensor" + "flow", "keras", "jax", "torch"} & set(sys.modules)))
"""


def test_the_suite_imports_no_framework() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALONE], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, "True []"), done.stderr
