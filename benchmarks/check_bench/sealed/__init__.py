"""Cases on which the check is judged, not tuned: run them, do not read them while changing it."""

from benchmarks.check_bench.sealed import (  # noqa: F401  each module registers its cases
    algebra,
    attention_norms,
    dynamic,
    geometry,
    indexing,
    lies,
    lies_hidden,
    losses,
    mistakes,
    right_domains,
    right_kinks,
    signals,
    structures,
    tensorflow_ops,
)
from benchmarks.check_bench.sealed.cases import FAMILIES as FAMILIES
from benchmarks.check_bench.sealed.cases import Family as Family
from benchmarks.check_bench.sealed.cases import Item as Item
from benchmarks.check_bench.sealed.cases import Mistake as Mistake
from benchmarks.check_bench.sealed.cases import items as items
