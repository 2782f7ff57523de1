"""Short and long runs: the short one stops at the first fault and shrinks it; the long one gathers all of them."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.verdicts import Gathering, Verdict

SHORT = 100
_HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def fuzz(
    request: pytest.FixtureRequest,
    strategy: st.SearchStrategy[Any],
    judge: Callable[[Any], Verdict],
    known: Callable[[Any], str | None],
) -> None:
    """Run the judge on random cases, but not on those that fail for a reason that is known."""
    count = int(request.config.getoption("--fuzz") or 0)
    if not count:
        _short(strategy, judge, known)
        return
    chosen = request.config.getoption("--fuzz-seed")
    number = random.SystemRandom().randrange(10**6) if chosen is None else int(chosen)
    gathering = _long(strategy, judge, known, count, number)
    print(f"\n{request.node.name}: --fuzz={count} --fuzz-seed={number}\n{gathering.report()}")
    assert not gathering.shortest, gathering.report()


def _short(strategy: Any, judge: Any, known: Any) -> None:
    @settings(max_examples=SHORT, deadline=None, suppress_health_check=_HEALTH)
    @given(strategy)
    def run(case: Any) -> None:
        assume(known(case) is None)
        verdict = judge(case)
        assert verdict.is_good, f"{verdict.kind}: {verdict.signature}\n{verdict.words}\n{case!r}"

    run()


def _long(strategy: Any, judge: Any, known: Any, count: int, number: int) -> Gathering:
    gathering = Gathering(judge)

    @seed(number)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=_HEALTH,
    )
    @given(strategy)
    def run(case: Any) -> None:
        assume(known(case) is None)
        gathering.add(case)
        if sum(gathering.counts.values()) % 250 == 0:  # a long run says how far it is
            print(f"\n{gathering.report()}", flush=True)

    run()
    return gathering
