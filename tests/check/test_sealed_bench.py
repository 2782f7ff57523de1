"""The cases kept apart from tuning are what they say they are."""

from collections import Counter

import pytest
import tensorflow as tf

from benchmarks.check_bench.sealed import FAMILIES, Family, items
from benchmarks.check_bench.sealed.cases import Mistake
from benchmarks.check_bench.sealed.verify import family_slips

QUICK = ["instance_norm", "phase_shift", "sparse_product", "triplet_loss", "gate_layer"]


@pytest.mark.parametrize("name", QUICK)
def test_right_rules_are_right_and_mistakes_show(name: str) -> None:
    assert list(family_slips(FAMILIES[name])) == []


def test_a_case_that_is_not_what_it_says_is_told() -> None:
    args = lambda: (tf.constant([1.0, 2.0]),)  # noqa: E731
    detached = Family(
        "detached",
        lambda slip: lambda x: x * (x if slip else tf.stop_gradient(x)),
        args,
        {"none": Mistake("factor", "no mistake")},
        {},
    )
    assert list(family_slips(detached)) == [
        "detached: the right rule is wrong",
        "detached: the right rule is wrong to second order",
        "detached:none: is not wrong",
    ]


@pytest.mark.parametrize("group", ["wrong", "right", "lies", "tensorflow"])
def test_names_are_unique_and_mistakes_described(group: str) -> None:
    names = Counter(item.name for item in items(group))
    assert [name for name, count in names.items() if count > 1] == []
    assert [item.name for item in items(group) if group != "right" and not item.what] == []
