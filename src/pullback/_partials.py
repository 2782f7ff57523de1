"""Analytic partial derivatives as a rule: the upstream gradient is multiplied in here, so nobody forgets it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pullback._bind import Inputs, name_of, signature_of
from pullback._engine import engine_of
from pullback._project import multiply
from pullback._rule import DEFAULT, location_of
from pullback.errors import RuleResultError, RuleSignatureError

Partials = Mapping[str, Callable[..., Any] | None]
_KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


class PartialsRule:
    """The rule that multiplies the upstream gradient with partial derivatives by parameter name."""

    def __init__(self, function: Callable[..., Any], partials: Partials) -> None:
        parameters = signature_of(function).parameters
        self.__name__ = f"partials of {name_of(function)}"
        self._function = function
        self._partials = {n: None if p is None else _Partial(n, p) for n, p in partials.items()}
        requested = ["inputs"]
        requested += (
            ["outputs"] if any(p and p.requests_outputs for p in self._partials.values()) else []
        )
        requested += ["original"] if set(parameters) - set(partials) else []
        upstream = inspect.Parameter("dy", inspect.Parameter.POSITIONAL_ONLY)
        keywords = [inspect.Parameter(name, _KEYWORD_ONLY) for name in requested]
        self.__signature__ = inspect.Signature([upstream, *keywords])

    def __call__(
        self, dy: Any, *, inputs: Inputs, outputs: Any = None, original: Any = None
    ) -> Any:
        """One gradient per parameter, by name."""
        del original  # it is requested for so that DEFAULT can be filled in
        return {name: self._gradient(name, dy, inputs, outputs) for name in inputs.names}

    def _gradient(self, name: str, dy: Any, inputs: Inputs, outputs: Any) -> Any:
        if name not in self._partials:
            return DEFAULT
        partial = self._partials[name]
        return None if partial is None else partial.times(dy, inputs, outputs)


class _Partial:
    """One partial derivative, called with the arguments that it takes."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise RuleSignatureError(
                f"the partial derivative for `{name}` is {function!r}; wanted a function of the same arguments, "
                "or None to stop the gradient"
            )
        self.name = name
        self.function = function
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
        return multiply(engine_of([dy]), dy, partial, self._error)

    def _arguments(self, inputs: Inputs) -> tuple[list[Any], dict[str, Any]]:
        named = [p for p in self._parameters if p.kind not in _VARIADIC]
        required = [p for p in named if p.default is p.empty]
        if all(p.name in inputs.names for p in required) and required:
            known = [p for p in named if p.name in inputs.names]
            args = [inputs[p.name] for p in known if p.kind is not _KEYWORD_ONLY]
            return args, {p.name: inputs[p.name] for p in known if p.kind is _KEYWORD_ONLY}
        every = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in self._parameters)
        return list(inputs)[: None if every else max(len(required), 1)], {}

    def _error(self, reason: str) -> Exception:
        return RuleResultError(
            f"the partial derivative for `{self.name}`, {name_of(self.function)} "
            f"({location_of(self.function)}), {reason}."
        )


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def make_partials_rule(function: Callable[..., Any], partials: Partials) -> PartialsRule:
    """The rule for these partial derivatives, with their names checked against the function."""
    parameters = signature_of(function).parameters
    open_ended = any(p.kind in _VARIADIC for p in parameters.values())
    unknown = [name for name in partials if name not in parameters]
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
    return PartialsRule(function, partials)
