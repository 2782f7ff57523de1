"""The backward half of a call, of functions and of single ops alike: the one place where a rule is run.

A `Pullback` offers the rule what it asks for, runs it, and turns whatever comes back into one projected gradient per
leaf of the inputs. Engines attach it to a call; they run no rule themselves.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pullback._call import ONE_OUTPUT, AnyCall, OutputForm
from pullback._engine import Engine, Kind, LossScale, Spec
from pullback._project import arrange, describe, leaf_path, project, project_tangent
from pullback._rule import DEFAULT, Rule
from pullback._tree import flatten, is_flat_tuple, map_leaves
from pullback.errors import Mismatch, NotLinearError, RuleResultError, RuleSignatureError

# The spec of an input whose gradient may be anything, such as a handle on some resource.
ANYTHING: Final = Spec(None, None)
_NO_OFFERS: Final[Mapping[str, Any]] = {}


class Gradients(NamedTuple):
    """What a rule gave, one entry per leaf of the inputs and per variable."""

    leaves: list[Any]
    variables: list[Any]
    second: Callable[..., Any] | None


class Pullback:
    """The backward half of a call. An engine sets what is kept for the rule; nothing else is."""

    __slots__ = (
        "call", "form", "inputs", "kinds", "ordinary", "outputs", "rule", "specs", "variables",
    )  # fmt: skip

    def __init__(
        self,
        call: AnyCall,
        rule: Rule,
        form: OutputForm,
        kinds: Sequence[Kind],
        specs: Sequence[Spec | None],
    ) -> None:
        self.call = call
        self.rule = rule
        self.form = form
        self.kinds = kinds
        self.specs = specs
        self.inputs: Sequence[Any] | None = None  # leaves, where the rule asks for them
        self.outputs: Sequence[Any] | None = None
        # Upstream per leaf of the outputs -> ordinary gradient per leaf of the inputs, then per variable.
        self.ordinary: Callable[[Sequence[Any]], list[Any]] | None = None
        self.variables: Sequence[Any] = ()

    def run(self, upstream: Sequence[Any]) -> Gradients:
        """The gradients of all leaves for this upstream, one entry per leaf of the outputs."""
        if self.rule.unscaled:
            scale = self.call.engine.loss_scale()
            if scale is not None:
                return self._run_without(scale, upstream)
        return self._run(upstream)

    def _run_without(self, scale: LossScale, upstream: Sequence[Any]) -> Gradients:
        """The same, while the rule sees all gradients without the scale of the loss."""
        inside = copy.copy(self)
        inside.specs = [None if spec is None else scale.wide(spec) for spec in self.specs]
        seen = [None if dy is None else scale.undone(dy) for dy in upstream]
        inside.ordinary = self.ordinary and _ordinary_without(scale, self.ordinary, upstream, seen)
        with scale.in_force(False):
            leaves, variables, second = inside._run(seen)
        dtypes = [None if spec is None else spec.dtype for spec in self.specs]
        return Gradients(
            [g if g is None else scale.redone(g, d) for g, d in zip(leaves, dtypes, strict=True)],
            [g if g is None else scale.redone(g, None) for g in variables],
            second and _second_without(scale, second),
        )

    def _run(self, upstream: Sequence[Any]) -> Gradients:
        rule = self.rule
        spread = upstream if self.form is ONE_OUTPUT else self._spread(upstream)
        rule.check_upstream(len(spread))
        offers = self._offers() if rule.requested else _NO_OFFERS
        returned = rule(spread, offers)
        leaves = self._fitting(returned)
        if leaves is not None and "variables" not in offers:
            return Gradients(leaves, [], None)
        gradients, second = split_second(returned)
        variables: list[Any] = []
        if "variables" in offers:
            gradients, variables = self._split_variables(gradients, upstream)
        elif "variables" in rule.requested and _has_no_variables(gradients):
            gradients = gradients[0]
        return Gradients(self.fit(gradients, upstream), variables, second)

    def _spread(self, upstream: Sequence[Any]) -> Sequence[Any]:
        """The upstream as the rule takes it: one value per output, or per leaf of the outputs."""
        spread = self.form.spread(upstream)
        return upstream if self.rule.takes_leaves(len(spread), len(upstream)) else spread

    def fit(self, returned: Any, upstream: Sequence[Any] | None = None) -> list[Any]:
        """One projected gradient per leaf of whatever a rule returned."""
        call, engine = self.call, self.call.engine
        try:
            flat = arrange(returned, call.names, call.structure, self.kinds, self._is_array)
        except Mismatch as mismatch:
            raise self.error(str(mismatch)) from None
        if any(g is DEFAULT for g in flat):
            flat = self._fill_default(flat, upstream)
        return [
            g
            if g is None or spec is None or spec is ANYTHING or engine.fits(g, spec)
            else project(engine, g, spec, self._error_at(i))
            for i, (g, spec) in enumerate(zip(flat, self.specs, strict=True))
        ]

    def second(self, second: Callable[..., Any], doubled: Sequence[Any]) -> list[Any]:
        """What an explicit second-order rule gives for upstream gradients of the gradients."""
        return self.fit(second(*self._as_rule_arguments(doubled)))

    def tangents(
        self, jvp: Rule, tangents: Sequence[Any], specs: Mapping[int, Spec]
    ) -> dict[int, Any]:
        """What an explicit jvp gives for tangents of the inputs, projected to these leaves of the outputs."""
        given = self._as_rule_arguments(tangents)
        jvp.check_upstream(len(given), "tangent", "input")
        returned = jvp(given, self._offers(jvp))
        leaves, _ = flatten(returned)
        if len(leaves) != self.form.count:
            raise self._jvp_error(jvp, describe(returned))
        engine = self.call.engine
        return {
            i: engine.zeros(spec)
            if leaves[i] is None
            else project_tangent(engine, leaves[i], spec, lambda came: self._jvp_error(jvp, came))
            for i, spec in specs.items()
        }

    def require_linear(
        self,
        results: Sequence[Any],
        gradients: Callable[[Sequence[Any]], Sequence[Any]],
        at: Sequence[Any],
    ) -> list[Any]:
        """The results as they are, if the rule is linear in its upstream and can be transposed; else an error."""
        return require_linear(self.call.engine, results, gradients, at, self.rule, self.call.title)

    def _offers(self, rule: Rule | None = None) -> dict[str, Any]:
        """What the rule asks for, as far as there is such a thing."""
        rule = rule or self.rule
        offers: dict[str, Any] = {}
        for name in rule.requested:
            if name == "inputs":
                offers[name] = None if self.inputs is None else self.call.inputs(self.inputs)
            elif name == "outputs":
                offers[name] = None if self.outputs is None else self.form.rebuild(self.outputs)
            elif name == "original":
                offers[name] = None if self.ordinary is None else self.original
            elif name != "variables":
                offers[name] = self.call.offer(name)
            elif self._offers_variables(rule):
                offers[name] = list(self.variables)
        return offers

    def _offers_variables(self, rule: Rule) -> bool:
        """Whether a rule gets variables, and so returns their gradients as well."""
        return "variables" in (rule.requested if self.variables else rule.required)

    def original(self, *upstream: Any) -> Any:
        """The gradient that would have run otherwise, called and returned in the form of a rule."""
        leaves = self.form.gather(upstream)
        if len(leaves) != self.form.count or self.ordinary is None:
            raise RuleSignatureError(
                f"rule {self.rule} of {self.call.title} called `original` with {len(upstream)} upstream gradients; "
                "it takes what the rule itself was called with, one per output."
            )
        ordinary, count = self.ordinary(leaves), len(self.specs)
        gradients = self.call.in_rule_form(ordinary[:count], self.kinds)
        return (gradients, ordinary[count:]) if self._offers_variables(self.rule) else gradients

    def _fitting(self, returned: Any) -> list[Any] | None:
        """The result itself, where arguments have no structure and each that flows has a gradient that fits already."""
        if not is_flat_tuple(self.call.structure):
            return None
        given = returned if type(returned) is tuple else (returned,)
        fits, count, taken = self.call.engine.fits, len(given), 0
        leaves: list[Any] = []
        for spec in self.specs:
            if spec is None:
                leaves.append(None)
            elif taken < count and fits(given[taken], spec):
                leaves.append(given[taken])
                taken += 1
            else:
                return None
        return leaves if taken == count else None

    def _as_rule_arguments(self, flat: Sequence[Any]) -> tuple[Any, ...]:
        """One value per leaf of the inputs, zeros where there is none, as arguments of a rule."""
        zeros = self.call.engine.zeros
        full = [
            zeros(spec) if value is None and spec is not None else value
            for value, spec in zip(flat, self.specs, strict=True)
        ]
        form = self.call.in_rule_form(full, self.kinds)
        return form if isinstance(form, tuple) else (form,)

    def _fill_default(
        self, flat: Sequence[Any], upstream: Sequence[Any] | None, start: int = 0
    ) -> list[Any]:
        if self.ordinary is None or upstream is None:
            reason = (
                f"but {self.call.title} has no gradient of its own"
                if "original" in self.rule.kept
                else "but the ordinary gradient was not kept for it, as the rule does not ask for it. "
                "Add the keyword-only parameter `original` to the rule"
            )
            raise self.error(f"returned pb.DEFAULT, {reason}")
        ordinary = self.ordinary(upstream)
        return [ordinary[i] if g is DEFAULT else g for i, g in enumerate(flat, start)]

    def _split_variables(self, returned: Any, upstream: Sequence[Any]) -> tuple[Any, list[Any]]:
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise self.error(
                f"asks for `variables`, so it returns two things; it returned {describe(returned)}. "
                "Write `return gradients, variable_gradients`, the second a list in the order of `variables` "
                "or a dict by variable or name"
            )
        gradients, given = returned
        variables = self.variables
        if isinstance(given, Mapping):
            listed = self._variables_by_key(given, variables)
        elif isinstance(given, (list, tuple)) and len(given) == len(variables):
            listed = list(given)
        elif given is None or given is DEFAULT:
            listed = [given] * len(variables)
        else:
            raise self.error(
                f"returned {describe(given)} as the gradients of {len(variables)} variables "
                f"({', '.join(str(v.name) for v in variables)}). Return a list of {len(variables)}, or a dict"
            )
        if any(g is DEFAULT for g in listed):
            listed = self._fill_default(listed, upstream, len(self.specs))
        return gradients, [self._fit_variable(g, v) for g, v in zip(listed, variables, strict=True)]

    def _variables_by_key(self, given: Mapping[Any, Any], variables: Sequence[Any]) -> list[Any]:
        same = self.call.engine.same_variable
        listed: list[Any] = [None] * len(variables)
        taken: dict[int, Any] = {}
        for key, gradient in given.items():
            found = [i for i, v in enumerate(variables) if same(key, v)]
            if len(found) != 1 or found[0] in taken:
                raise self.error(f"returned {_about_key(key, found, taken, variables)}")
            taken[found[0]] = key
            listed[found[0]] = gradient
        return listed

    def _fit_variable(self, gradient: Any, variable: Any) -> Any:
        engine = self.call.engine
        spec = engine.spec_of(variable)
        if gradient is None or spec is None:
            return None

        def error(reason: str) -> Exception:
            return self.error(f"returned, for the variable `{variable.name}`, {reason}")

        return project(engine, gradient, spec, error)

    def path(self, index: int) -> str:
        """The readable path of a leaf of the inputs."""
        return leaf_path(self.call.names, self.call.structure, index)

    def error(self, reason: str, rule: str | None = None) -> RuleResultError:
        """The error that says what is wrong with what the rule returned, or a part of it that is for one input."""
        return RuleResultError(f"rule {rule or self.rule} of {self.call.title} {reason}.")

    def _is_array(self, gradient: Any) -> bool:
        return self.call.engine.as_array(gradient, ANYTHING) is not None

    def _error_at(self, index: int) -> Callable[[str], Exception]:
        def error(reason: str) -> Exception:
            path = self.path(index)
            rule = self.rule.of_input(index, re.split(r"\W", path, maxsplit=1)[0])
            return self.error(f"returned, for the input `{path}`, {reason}", rule)

        return error

    def _jvp_error(self, jvp: Rule, came: str) -> RuleResultError:
        return RuleResultError(
            f"jvp {jvp} of {self.call.title} returned {came}; wanted one tangent for each of the "
            f"{self.form.count} outputs, in their structure."
        )


def _ordinary_without(
    scale: LossScale,
    ordinary: Callable[[Sequence[Any]], list[Any]],
    upstream: Sequence[Any],
    seen: Sequence[Any],
) -> Callable[[Sequence[Any]], list[Any]]:
    """The ordinary gradient as a rule sees it: it is computed with the scale, where it is not lost."""
    known = {id(without): dy for without, dy in zip(seen, upstream, strict=True)}

    def without(given: Sequence[Any]) -> list[Any]:
        scaled = [
            known[id(u)] if id(u) in known else scale.redone(u, getattr(dy, "dtype", None))
            for u, dy in zip(given, upstream, strict=True)
        ]
        with scale.in_force(True):
            found = ordinary(scaled)
        return [None if g is None else scale.undone(g) for g in found]

    return without


def _second_without(scale: LossScale, second: Callable[..., Any]) -> Callable[..., Any]:
    def with_scale(*doubled: Any) -> Any:
        found = second(*doubled)
        return map_leaves(lambda g: None if g is None else scale.redone(g, None), found)

    return with_scale


def require_linear(
    engine: Engine,
    results: Sequence[Any],
    gradients: Callable[[Sequence[Any]], Sequence[Any]],
    at: Sequence[Any],
    rule: Rule | str,
    title: str,
) -> list[Any]:
    """The results, if a rule is linear in its upstream and the framework's transpose of it is right; else an error."""
    advice = (
        "so forward mode does not follow from it. Give the tangents yourself: jvp=your_function"
    )
    not_linear = NotLinearError(
        f"rule {rule} of {title} is not linear in its upstream gradient, {advice}"
    )
    hidden = NotLinearError(
        f"rule {rule} of {title} is linear in its upstream gradient, but part of it is hidden from differentiation "
        "(stop_gradient, NumPy, a rounding, a custom gradient inside it): the transpose of it gives other numbers, "
        + advice
    )
    return engine.require_linear(results, gradients, at, (not_linear, hidden))


def split_second(returned: Any) -> tuple[Any, Callable[..., Any] | None]:
    """The gradients and, where the rule returned one, the function for second order."""
    if not isinstance(returned, tuple) or not returned or not _is_function(returned[-1]):
        return returned, None
    rest = returned[:-1]
    return (rest[0] if len(rest) == 1 else rest), returned[-1]


def _about_key(
    key: Any, found: Sequence[int], taken: Mapping[int, Any], variables: Sequence[Any]
) -> str:
    """What is wrong with a key of a dict of gradients of variables."""
    if len(found) == 1:
        return f"two gradients for one variable, by {taken[found[0]]!r} and by {key!r}"
    if found:
        named = ", ".join(str(variables[i].name) for i in found)
        return f"a gradient for {key!r}, which names several variables ({named}). Give more of the name, or a list"
    read = ", ".join(str(v.name) for v in variables) or "none"
    return f"a gradient for {key!r}, which is not among the variables read inside: {read}"


def _has_no_variables(returned: Any) -> bool:
    """Whether gradients of variables were returned, of which there are none: `(gradients, [])`."""
    pair = isinstance(returned, tuple) and len(returned) == 2
    return pair and isinstance(returned[1], (list, tuple, dict)) and not returned[1]


def _is_function(value: Any) -> bool:
    return callable(value) and not hasattr(value, "dtype")
