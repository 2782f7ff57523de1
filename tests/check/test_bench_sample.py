"""A sample of the benchmark: right rules pass at every size, wrong ones are caught."""

import zlib

import numpy as np
import pytest

import benchmarks.check_bench.functions  # noqa: F401  registers the cases
from benchmarks.check_bench import backends
from benchmarks.check_bench.cases import CASES
from benchmarks.check_bench.mutants import FAMILIES, mutants
from benchmarks.check_bench.scoring import really_wrong, score

BACKEND = backends.tensorflow()  # tensorflow is loaded by this line
RIGHT = list(CASES)[::8]
WRONG = list(CASES)[1::32]


def wrong_rules(name, n):
    case = CASES[name]
    return mutants(case, np.random.default_rng(zlib.crc32(name.encode())), n)


def test_the_bench_is_large_enough():
    count = sum(1 for name in CASES for _ in wrong_rules(name, 10))
    assert len(CASES) >= 60
    assert count >= 1000


@pytest.mark.parametrize("n", [10, 1000])
@pytest.mark.parametrize("name", RIGHT)
def test_right_rules_pass(name, n):
    outcome = score(BACKEND, CASES[name], None, n, seed=1)
    assert not outcome.caught, outcome.said


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rules_are_caught(name):
    wrong = [mutant for mutant in wrong_rules(name, 10) if really_wrong(BACKEND, mutant, 10)]
    outcomes = [score(BACKEND, m.case, m, 10, seed=0, explain=False) for m in wrong]
    assert [outcome.label for outcome in outcomes if not outcome.caught] == []
    assert len(outcomes) > 5


def test_every_family_is_there():
    assert {mutant.family for name in CASES for mutant in wrong_rules(name, 10)} == set(FAMILIES)


def test_one_wrong_element_in_a_hundred_thousand_is_found_within_400_calls():
    case = CASES["length"]
    mutant = next(m for m in wrong_rules("length", 100_000) if m.label == "element zero")
    outcome = score(BACKEND, case, mutant, 100_000, seed=0)
    assert outcome.caught
    assert outcome.said.startswith("element")
    assert outcome.calls <= 400
