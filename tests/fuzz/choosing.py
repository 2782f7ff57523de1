"""One of several, evenly: hypothesis prefers the first of `sampled_from`, and repeats itself."""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st


def one_of(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    """Any of the values, each as often as the others; the first is the simplest."""
    values = list(values)
    return st.integers(0, 2**20 - 1).map(
        lambda n: values[(n * 2654435761 % 2**32 >> 7) % len(values)]
    )
