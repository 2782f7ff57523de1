"""What an engine offers for saliency: models run with their insides seen, and functions of arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pullback._audit import Audit, Place


class _LastFeatures:
    """Stands for the last maps of features of a model, whichever layer gives them."""

    def __repr__(self) -> str:
        return "the last features"


LAST_FEATURES: Final = _LastFeatures()


@dataclass(frozen=True)
class RulesByKind:
    """Backward rules for everything of a kind that runs, such as all activations; see `rules._relevance`."""

    by_kind: Mapping[str, Any]
    by_target: Mapping[Any, Any] = field(default_factory=dict[Any, Any])  # which come before
    composite: Any = None  # rules for layers, by their kind and position
    must_reach: bool = False  # whether what hides from rules is an error


@dataclass
class ModelRun:
    """A model run on some examples."""

    scores: Any  # one for each example
    chosen: Any  # the target of each example, where it was chosen by the scores
    outputs: Any
    looked_through: str | None  # the activation in the end, if the outputs are what went into it
    # Of each input what is differentiated: itself, what was looked up for it, or nothing.
    sources: Sequence[Sequence[Any]]
    gradients: Sequence[Sequence[Any]] = ()
    features: Any = None
    feature_gradient: Any = None
    layer: str | None = None  # that gave the features
    is_by_step: bool = (
        False  # whether a layer ran something on each step, where maps were looked for
    )
    calls: int = 0  # of the layer that was asked for
    size: int = 0  # bytes of everything that was differentiated
    audit: Audit | None = None  # of the rules by kind
    operations: Mapping[Place, int] = field(default_factory=dict[Place, int])  # non-linear ones
    op_types: frozenset[str] = frozenset()  # the types of operation that have rules
    relevances: Sequence[Sequence[Any]] = ()  # of each source, beside source times gradient
    # Of each layer what its bias and its stabiliser took; nothing where that is not known.
    absorbed: Mapping[str, tuple[Any, Any]] | None = None


class Subject(Protocol):
    """A model and the structure of its inputs."""

    def prepare(self, inputs: Sequence[Any]) -> ModelRun | None:
        """Have the model ready to be run on inputs like these; a run on the first example, if there was one."""
        ...

    def unchanged(self) -> contextlib.AbstractContextManager[None]:
        """A block after which the model's variables and all random numbers are what they were."""
        ...

    def run(
        self,
        inputs: Sequence[Any],
        score: Callable[[Any], tuple[Any, Any]],
        *,
        given: Sequence[Sequence[Any] | None] | None = None,
        differentiate: bool = True,
        layer: Any = None,
        rules: RulesByKind | None = None,
    ) -> ModelRun:
        """Run the model; `score` makes scores and chosen targets of its outputs.

        `given` takes the place of what is looked up for each input, `layer` is the one whose features are asked for,
        and `rules` are the rules of all that is of some kind.
        """
        ...


class SaliencyEngine(Protocol):
    """What an engine has as `saliency`."""

    Subject: Callable[[Any, Any, str], Subject]
    find_layer: Callable[[Any, Any], Any]  # of a model, by itself or by a way of names
    as_tensor: Callable[..., Any]
    is_floating: Callable[[Any], bool]
    is_symbolic: Callable[[Any], bool]
    take: Callable[[Any, Any], Any]  # examples
    traced: Callable[[Callable[..., Any]], Callable[..., Any]]  # a function as a program
    concat: Callable[[Sequence[Any]], Any]
    sum_by: Callable[..., Any]
    sum_over: Callable[[Any, Sequence[int]], Any]
    over_axis: Callable[..., Any]  # a matrix applied along an axis
    reshape: Callable[[Any, Sequence[int]], Any]
    positive: Callable[[Any], Any]
    ratio: Callable[[Any, Any], Any]
    spread: Callable[[Any], Any]  # of each example the largest number less the smallest
    argmax: Callable[[Any], Any]
    pick: Callable[[Any, Any], Any]
    wide: Callable[[Any], Any]  # in float64
    total: Callable[[Any], Any]  # the sum of each example, in float64
    halves: Callable[[Any], tuple[Any, Any]]  # of the examples
    magnitude: Callable[[Any], Any]
    largest: Callable[[Sequence[Any]], Any]  # of each entry the largest magnitude
