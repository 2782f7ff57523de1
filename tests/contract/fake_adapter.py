"""The fake framework, as the contract suite sees it."""

from typing import Any

import numpy as np

from pullback.testing import contract
from tests.core import fake_framework as fake
from tests.core.fake_engine import FakeEngine


def outputs_of(fn: Any, xs: Any) -> list[fake.Array]:
    outputs = fn(*xs)
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def reverse(fn: Any, xs: Any, variables: Any) -> list[Any]:
    ys = outputs_of(fn, xs)
    ones = [fake.Array(np.ones(y.shape, y.dtype)) for y in ys]
    return fake.pull_back([y.origin for y in ys], [x.origin for x in [*xs, *variables]], ones)


def recomputed(fn: Any, xs: Any, variables: Any) -> list[Any]:
    """As with a checkpoint: nothing is kept of the first run, and gradients come from a second one."""
    fn(*xs)
    return reverse(fn, [fake.Array(x.data) for x in xs], variables)


def forward(fn: Any, xs: Any, variables: Any) -> list[Any]:
    sources = [*xs, *variables]
    origins = [x.origin for x in sources]
    ends = [y.origin for y in outputs_of(fn, xs)]
    found = []
    for i, x in enumerate(sources):
        entries = []
        for unit in np.eye(x.data.size, dtype=x.dtype).reshape(-1, *x.shape):
            tangents = [fake.Array(unit) if k == i else None for k in range(len(sources))]
            moved = fake.push_forward(ends, origins, tangents)
            entries.append(sum(float(t.data.sum()) for t in moved if t is not None))
        found.append(fake.Array(np.reshape(entries, x.shape)))
    return found


def twice(fn: Any, xs: Any, variables: Any) -> list[Any]:
    def squares(*inner: Any) -> list[Any]:
        return [g * g for g in reverse(fn, inner, variables) if g is not None]

    return reverse(squares, xs, variables)


def along(x: Any, axis: int) -> Any:
    return fake.sum_axes(x, (axis,), tuple(n for i, n in enumerate(x.shape) if i != axis))


ADAPTER = contract.Adapter(
    modes={
        "eager": contract.Mode(reverse),
        "recomputed": contract.Mode(recomputed),
        "forward": contract.Mode(forward, gives_none=False, is_forward=True),
    },
    second_order={"second order": contract.Mode(twice)},
    cannot=FakeEngine.cannot,
    array=lambda values, dtype: fake.Array(np.asarray(values, dtype)),
    to_numpy=lambda x: x.data,
    dtype=lambda x: x.dtype.name,
    cast=fake.cast,
    sum=along,
    sin=fake.sine,
    variable=lambda values, name: fake.Parameter(np.asarray(values, "float32"), name),
)
