"""Analytic partial derivatives as a rule: the upstream gradient is multiplied in here, so nobody forgets it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from pullback._bind import Inputs, name_of, signature_of
from pullback._engine import Engine, Kind, Shape, engine_of
from pullback._project import describe, shape_text
from pullback._rule import DEFAULT, location_of
from pullback._tree import flatten
from pullback.errors import Mismatch, RuleResultError, RuleSignatureError

Partials = Mapping[str, Callable[..., Any] | None]
Axes = int | Sequence[int]
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


class PartialsRule:
    """The rule that multiplies the upstream gradient with partial derivatives by parameter name."""

    def __init__(
        self, function: Callable[..., Any], partials: Partials, reduced: Mapping[str, Axes]
    ) -> None:
        parameters = signature_of(function).parameters
        self.__name__ = f"partials of {name_of(function)}"
        self._partials = {
            n: None if p is None else _Partial(n, p, reduced.get(n)) for n, p in partials.items()
        }
        given = [p for p in self._partials.values() if p is not None]
        self.__wrapped__ = (
            given[0].function if given else function
        )  # messages name its file and line
        requested = ["inputs"]
        requested += ["outputs"] if any(p.requests_outputs for p in given) else []
        requested += ["original"] if set(parameters) - set(partials) else []
        upstream = inspect.Parameter("upstream", inspect.Parameter.VAR_POSITIONAL)
        keywords = [inspect.Parameter(name, _KEYWORD_ONLY) for name in requested]
        self.__signature__ = inspect.Signature([upstream, *keywords])

    def __call__(
        self, *upstream: Any, inputs: Inputs, outputs: Any = None, original: Any = None
    ) -> Any:
        """One gradient per parameter, by name."""
        del original  # it is requested for so that DEFAULT can be filled in
        leaves, structure = flatten(upstream)
        if len(upstream) != 1 or not structure.children()[0].is_leaf():
            raise RuleSignatureError(
                f"{self.__name__}: the function returns {describe(upstream[0] if len(upstream) == 1 else upstream)}, "
                f"with {len(leaves)} outputs; wanted one tensor, of which there are partial derivatives. "
                "Write a rule of the upstream gradients of all outputs: pb.with_gradient(fn, rule)."
            )
        return {name: self._gradient(name, upstream[0], inputs, outputs) for name in inputs.names}

    def rule_of_input(self, index: int, name: str) -> str | None:
        """The part that gives the gradient of an input, for messages."""
        del index
        partial = self._partials.get(name)
        return None if partial is None else str(partial)

    def _gradient(self, name: str, dy: Any, inputs: Inputs, outputs: Any) -> Any:
        if name not in self._partials:
            return DEFAULT
        partial = self._partials[name]
        return None if partial is None else partial.times(dy, inputs, outputs)


class _Partial:
    """One partial derivative, called with the arguments that it takes."""

    def __init__(self, name: str, function: Callable[..., Any], reduced: Axes | None) -> None:
        if not callable(function):
            raise RuleSignatureError(
                f"the partial derivative for `{name}` is {function!r}; wanted a function of the same arguments, "
                "or None to stop the gradient"
            )
        self.name = name
        self.function = function
        single = isinstance(reduced, int)
        self.reduced = None if reduced is None else (reduced,) if single else tuple(reduced)
        parameters = signature_of(function).parameters.values()
        self.requests_outputs = any(
            p.name == "outputs" and p.kind is _KEYWORD_ONLY for p in parameters
        )
        self._parameters = [p for p in parameters if p.name != "outputs"]

    def times(self, dy: Any, inputs: Inputs, outputs: Any) -> Any:
        """The upstream gradient times this partial derivative."""
        args, kwargs = self._arguments(inputs)
        if self.requests_outputs:
            kwargs["outputs"] = outputs
        partial = self.function(*args, **kwargs)
        engine = engine_of([dy])
        shapes = [
            engine.shape(x) for x in flatten(tuple(inputs))[0] if engine.kind(x) >= Kind.TENSOR
        ]
        most = max((len(shape) for shape in shapes if shape is not None), default=0)
        return multiply(engine, dy, partial, self.reduced, self._error, most)

    def _arguments(self, inputs: Inputs) -> tuple[list[Any], dict[str, Any]]:
        named = [p for p in self._parameters if p.kind not in _VARIADIC]
        required = [p for p in named if p.default is p.empty]
        if all(p.name in inputs.names for p in required) and required:
            known = [p for p in named if p.name in inputs.names]
            args = [inputs[p.name] for p in known if p.kind is not _KEYWORD_ONLY]
            return args, {p.name: inputs[p.name] for p in known if p.kind is _KEYWORD_ONLY}
        every = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in self._parameters)
        return list(inputs)[: None if every else max(len(required), 1)], {}

    def __str__(self) -> str:
        return f"{name_of(self.function)} ({location_of(self.function)})"

    def _error(self, reason: str) -> Exception:
        return RuleResultError(f"the partial derivative for `{self.name}`, {self}, {reason}.")


def multiply(
    engine: Engine,
    upstream: Any,
    partial: Any,
    reduced: tuple[int, ...] | None,
    error: Callable[[str], Exception],
    most: int,
) -> Any:
    """Upstream times a partial derivative, of which the function reduced these axes; `None`: as the shapes say.

    No input of the function has more than `most` axes.
    """
    spec = engine.spec_of(upstream)
    try:
        array = None if spec is None else engine.as_array(partial, spec)
    except Mismatch:
        array = None
    if spec is None or array is None:
        raise error(f"returned {describe(partial)}; wanted a tensor, ∂out/∂parameter")
    ours, theirs = spec.shape, engine.shape(array)
    if ours is None or theirs is None:
        raise error("works on tensors of unknown rank; give them a rank first")
    ways = _ways_to_reduce(theirs, ours, reduced)
    misfit = (
        f"has shape {shape_text(theirs)} where the output has {shape_text(ours)}; wanted the shape of the output, "
        "or, where the function reduces axes, the shape from before" + _said(reduced)
    )
    if not ways or (reduced is None and len(theirs) > max(most, len(ours))):
        raise error(misfit)
    unknown = None in (*ours, *theirs)
    if len(ways) == 1 and unknown and len(theirs) < len(ours):
        return engine.multiply_dynamic(upstream, array, ways, str(error(misfit)))
    if len(ways) == 1:
        return engine.multiply(upstream, array, ways[0])
    doubt = (
        f"has shape {shape_text(theirs)} where the output has {shape_text(ours)}: shapes do not tell which of "
        f"its axes the function reduced. Say it: with_partials(..., reduced={_as_option(ways[0])}), or "
        + " or ".join(map(_as_option, ways[1:]))
    )
    if not unknown:
        raise error(doubt)
    return engine.multiply_dynamic(upstream, array, ways, str(error(doubt)))


def _ways_to_reduce(
    came: Shape, output: Shape, reduced: tuple[int, ...] | None
) -> list[tuple[int, ...]]:
    """The choices of axes that reduced make the shape of an output out of that of a partial derivative."""
    missing = len(came) - len(output)
    if missing <= 0:
        said = all(-len(came) <= a < len(came) and output[a] in (1, None) for a in reduced or ())
        return [()] if said and _broadcasts(came, output) else []
    choices = itertools.combinations(range(len(came)), missing)
    if reduced is not None:
        wanted = tuple(sorted(a % len(came) for a in reduced))
        choices = [c for c in choices if c == wanted]
    found: dict[Shape, tuple[int, ...]] = {}
    for axes in reversed(list(choices)):
        kept = [size for axis, size in enumerate(came) if axis not in axes]
        if all(k == o or o == 1 or None in (k, o) for k, o in zip(kept, output, strict=True)):
            sizes = iter(output)
            # Unknown sizes may differ; where all are known, equal shapes mean the same product.
            spread = tuple(1 if a in axes else next(sizes) for a in range(len(came)))
            found.setdefault(spread, axes)
    return list(found.values())


def _as_option(axes: tuple[int, ...]) -> str:
    return str(axes[0] if len(axes) == 1 else axes)


def _said(reduced: tuple[int, ...] | None) -> str:
    return "" if reduced is None else f", of which it reduces {_as_option(reduced)}"


def _broadcasts(came: Shape, wanted: Shape) -> bool:
    """Whether arrays are multiplied as NumPy does, with no more axes than wanted; kept axes of size one are reduced."""
    tail = zip(reversed(came), reversed(wanted), strict=False)
    reduced = len(came) == len(wanted)
    return all(c == w or None in (c, w) or c == 1 or (w == 1 and reduced) for c, w in tail)


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def make_partials_rule(
    function: Callable[..., Any], partials: Partials, reduced: Any = None
) -> PartialsRule:
    """The rule for these partial derivatives, with their names checked against the function."""
    parameters = signature_of(function).parameters
    open_ended = any(p.kind in _VARIADIC for p in parameters.values())
    by_name = _axes_by_name(function, partials, reduced)
    unknown = [name for name in (*partials, *by_name) if name not in parameters]
    if not partials or (unknown and not open_ended):
        problem = (
            f"there is no parameter `{unknown[0]}`"
            if unknown
            else "no partial derivative was given"
        )
        raise RuleSignatureError(
            f"with_partials for {name_of(function)}: {problem}; its parameters are {', '.join(parameters)}. "
            "Write `with_partials(fn, parameter=derivative)`."
        )
    return PartialsRule(function, partials, by_name)


def split_reduced(given: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """The partial derivatives, and the axes that are given as `reduced`; a function of that name is a derivative."""
    partials = dict(given)
    is_axes = isinstance(given.get("reduced"), (int, list, tuple, Mapping))
    return partials, partials.pop("reduced") if is_axes else None


def _axes_by_name(function: Any, partials: Partials, reduced: Any) -> dict[str, Axes]:
    by_name: dict[str, Any] = (
        dict(cast("Mapping[str, Any]", reduced))
        if isinstance(reduced, Mapping)
        else dict.fromkeys(partials, reduced)
    )
    for axes in by_name.values():
        several = isinstance(axes, (list, tuple))
        if axes is not None and not all(type(a) is int for a in (axes if several else [axes])):
            raise RuleSignatureError(
                f"with_partials for {name_of(function)}: reduced={reduced!r}; wanted the axes of the partial "
                "derivatives that the function reduces: a number, a tuple of numbers, or a dict of these by parameter"
            )
    return by_name
