"""Every hypothesis strategy of the tests: shapes, trees, signatures and calls, rules right and wrong."""

import collections
import dataclasses
import inspect
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

# How long an example takes says more about the machine than about the code.
settings.register_profile(
    "pullback",
    deadline=None,
    derandomize=bool(
        os.environ.get("CI")
    ),  # the same examples for every landing; fresh ones elsewhere
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("pullback")


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Layer:
    weight: Any
    bias: Any


SHAPES = npst.array_shapes(min_dims=0, max_dims=4, max_side=4)
DTYPES = st.sampled_from([np.float16, np.float32, np.float64, np.complex64, np.complex128])


@st.composite
def broadcast_pairs(draw: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of an operand, and the shape that broadcasting gives it."""
    found = draw(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4))
    return found.input_shapes[0], found.result_shape


NAMES = st.sampled_from(["a", "b", "w", "kernel"])
CLASSES: list[Callable[..., Any]] = [Point, Layer]


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Nested lists, tuples, dicts, namedtuples and dataclasses of these leaves."""

    def grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(NAMES, inner, max_size=3),
            st.dictionaries(NAMES, inner, max_size=3).map(collections.OrderedDict),
            st.builds(Point, inner, inner),
            st.builds(Layer, inner, inner),
        )

    return st.recursive(leaves, grow, max_leaves=6)


class Call(NamedTuple):
    """A function and arguments for it, which may or may not be right."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@st.composite
def functions(draw: Any, keyword_only: int = 2) -> Callable[..., Any]:
    """A function of a random signature that returns its own local names."""
    only, either, keyword = (draw(st.integers(0, most)) for most in (2, 2, keyword_only))
    names = iter("abcdef")
    fixed = [next(names) for _ in range(only + either)]
    first_default = draw(st.integers(0, len(fixed)))
    parts = [n if i < first_default else f"{n}='{n} default'" for i, n in enumerate(fixed)]
    parts[only:only] = ["/"] if only else []
    variadic = draw(st.booleans())
    parts += ["*rest"] if variadic else (["*"] if keyword else [])
    parts += [draw(st.sampled_from([n, f"{n}=0"])) for n in (next(names) for _ in range(keyword))]
    parts += ["**more"] if draw(st.booleans()) else []
    scope: dict[str, Any] = {}
    exec(f"def function({', '.join(parts)}):\n    return locals()", scope)
    return scope["function"]


@st.composite
def calls(draw: Any) -> Call:
    args = tuple(range(draw(st.integers(0, 5))))
    keywords = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=4))
    return Call(draw(functions()), args, {k: f"given {k}" for k in keywords})


@st.composite
def fitting_calls(draw: Any) -> Call:
    """A function and arguments that it accepts: some by position, some by keyword, some left to defaults."""
    function = draw(functions())
    parameters = list(inspect.signature(function).parameters.values())
    kinds = [p.kind for p in parameters]
    fixed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in fixed if p.kind is p.POSITIONAL_ONLY and p.default is p.empty]
    count = draw(st.integers(len(needed), len(fixed)))
    named = [p for p in fixed[count:] if p.kind is p.POSITIONAL_OR_KEYWORD]
    named += [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    keywords = [p.name for p in named if p.default is p.empty or draw(st.booleans())]
    if inspect.Parameter.VAR_POSITIONAL in kinds and count == len(fixed):
        count += draw(st.integers(0, 2))
    if inspect.Parameter.VAR_KEYWORD in kinds and draw(st.booleans()):
        keywords.append("g")
    return Call(function, tuple(range(count)), {k: f"given {k}" for k in keywords})
