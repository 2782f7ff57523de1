"""A call with a gradient of its own, as the core hands it to an engine.

`Job` is the forward half: it runs the user's function on flat leaves. Running it gives a `Pullback`, the
backward half: it runs the rule, and turns whatever comes back into one projected gradient per leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pullback._bind import Inputs, Plan
from pullback._engine import Engine, Kind
from pullback._project import Entries, Mismatch, arrange, describe, leaf_path
from pullback._rule import DEFAULT, Rule
from pullback._tree import LEAF, Structure, flatten, is_flat_tuple, is_known_leaf, unflatten
from pullback.errors import RuleResultError

if TYPE_CHECKING:
    from pullback._function import Definition


class Gradients(NamedTuple):
    """What a rule gave, one entry per leaf of the inputs and per variable."""

    leaves: list[Any]
    variables: list[Any]
    second: Callable[..., Any] | None


class Job:
    """One call of a function whose gradient is the user's."""

    __slots__ = ("definition", "engine", "plan", "structure")

    def __init__(
        self, definition: Definition, engine: Engine, plan: Plan, structure: Structure
    ) -> None:
        self.definition = definition
        self.engine = engine
        self.plan = plan
        self.structure = structure

    @property
    def name(self) -> str:
        """The name of the function, for messages and op names."""
        return self.definition.name

    @property
    def wants(self) -> frozenset[str]:
        """What the rule asks for, as far as it is known before the function has run."""
        return self.definition.wants

    def run(self, leaves: Sequence[Any], adapt: Callable[[Any], Any] | None = None) -> Ran:
        """Run the user's function on these leaves."""
        values = unflatten(self.structure, leaves)
        function = adapt(self.definition.function) if adapt else self.definition.function
        outputs, rule = self.definition.split(self.plan.call(function, values))
        return Ran(self, outputs, rule)

    def inputs(self, leaves: Sequence[Any]) -> Inputs:
        """The arguments as a rule sees them."""
        return Inputs(self.plan.names, unflatten(self.structure, leaves))

    def original_leaves(self, kinds: Sequence[Kind]) -> list[int]:
        """The differentiable leaves whose ordinary gradient may be asked for."""
        keep = self.definition.original_of(self.plan.names)
        chosen: list[int] = []
        position = 0
        for name, child in zip(self.plan.names, self.structure.children(), strict=True):
            stop = position + child.num_leaves
            if name in keep:
                chosen += [i for i in range(position, stop) if kinds[i] is Kind.DIFFERENTIABLE]
            position = stop
        return chosen

    def form(self, flat: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        """Flat gradients in the form in which a rule returns them."""
        values = unflatten(self.structure, flat)
        chosen = Entries(self.plan.names, self.structure, kinds).at_least(Kind.TENSOR)
        parts = tuple(values[i] for i in chosen)
        return parts[0] if len(parts) == 1 else parts


class Ran:
    """What came of running a job: flat outputs, their structure, and the rule to use."""

    __slots__ = ("count", "job", "leaves", "rule", "single", "structure")

    def __init__(self, job: Job, outputs: Any, rule: Rule) -> None:
        self.job = job
        self.rule = rule
        # A tuple or list of outputs is spread over the rule's parameters; anything else is one output.
        self.single = not (type(outputs) is tuple or type(outputs) is list)
        self.leaves: list[Any]
        if is_known_leaf(outputs):
            self.leaves, self.structure = [outputs], LEAF
        else:
            self.leaves, self.structure = flatten(outputs)
        self.count = len(self.leaves)

    def take(self) -> list[Any]:
        """The flat outputs, which are not kept here any longer."""
        leaves, self.leaves = self.leaves, []
        return leaves

    def outputs(self, leaves: Sequence[Any]) -> Any:
        """The outputs in the structure in which the function returned them."""
        return unflatten(self.structure, leaves)

    def spread(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        """One value per output."""
        outputs = unflatten(self.structure, leaves)
        return (outputs,) if self.single else tuple(outputs)


class Pullback:
    """The backward half of a call: runs the rule and fits its result to the inputs."""

    __slots__ = ("_checked", "kinds", "likes", "ran")

    def __init__(self, ran: Ran, kinds: Sequence[Kind], likes: Sequence[Any]) -> None:
        self.ran = ran
        self.kinds = kinds
        self.likes = likes
        self._checked = False

    def __call__(self, upstream: Sequence[Any], offers: dict[str, Any]) -> Gradients:
        """The gradients of all leaves for this upstream, one entry per leaf of the outputs."""
        spread = self.ran.spread(upstream)
        if not self._checked:
            self.ran.rule.check_upstream(len(spread))
            self._checked = True
        returned = self.ran.rule(spread, offers)
        gradients, second = split_second(returned)
        variables: list[Any] = []
        if "variables" in self.ran.rule.wants and "variables" in offers:
            gradients, variables = self._split_variables(gradients, offers["variables"])
        return Gradients(self.fit(gradients, offers), variables, second)

    def fit(self, returned: Any, offers: Mapping[str, Any]) -> list[Any]:
        """One projected gradient per leaf of whatever a rule returned."""
        job = self.ran.job
        flat = self._plain(returned)
        if flat is None:
            try:
                flat = arrange(returned, job.plan.names, job.structure, self.kinds)
            except Mismatch as mismatch:
                raise self._blame(str(mismatch)) from None
        if any(g is DEFAULT for g in flat):
            flat = self._fill_default(flat, offers)
        fits, project = job.engine.fits, job.engine.project
        return [
            g if g is None or fits(g, like) else project(g, like, self._blamer(i))
            for i, (g, like) in enumerate(zip(flat, self.likes, strict=True))
        ]

    def _plain(self, returned: Any) -> Sequence[Any] | None:
        """The result itself where every argument is a tensor and every gradient one, too."""
        if not is_flat_tuple(self.ran.job.structure):
            return None
        flat = returned if type(returned) is tuple else (returned,)
        plain = len(flat) == len(self.kinds) and all(map(is_known_leaf, flat))
        return flat if plain and min(self.kinds) is Kind.DIFFERENTIABLE else None

    def _fill_default(self, flat: Sequence[Any], offers: Mapping[str, Any]) -> list[Any]:
        ordinary = offers.get("ordinary")
        if ordinary is None or "original" not in self.ran.job.wants:
            raise self._blame(
                "returned pb.DEFAULT, but the ordinary gradient was not kept for it, as the rule does not ask "
                "for it. Add the keyword-only parameter `original` to the rule"
            )
        kept = ordinary()
        return [kept[i] if g is DEFAULT else g for i, g in enumerate(flat)]

    def _split_variables(self, returned: Any, variables: Sequence[Any]) -> tuple[Any, list[Any]]:
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise self._blame(
                f"asks for `variables`, so it returns two things; it returned {describe(returned)}. "
                "Write `return gradients, variable_gradients`, the second a list in the order of `variables` "
                "or a dict by `variable.ref()`"
            )
        gradients, given = returned
        if isinstance(given, Mapping):
            listed = self._variables_by_key(given, variables)
        elif isinstance(given, (list, tuple)) and len(given) == len(variables):
            listed = list(given)
        elif given is None:
            listed = [None] * len(variables)
        else:
            raise self._blame(
                f"returned {describe(given)} as the gradients of {len(variables)} variables "
                f"({', '.join(str(v.name) for v in variables)}). Return a list of {len(variables)}, or a dict"
            )
        return gradients, [self._fit_variable(g, v) for g, v in zip(listed, variables, strict=True)]

    def _variables_by_key(self, given: Mapping[Any, Any], variables: Sequence[Any]) -> list[Any]:
        same = self.ran.job.engine.same_variable
        listed: list[Any] = [None] * len(variables)
        for key, gradient in given.items():
            index = next((i for i, v in enumerate(variables) if same(key, v)), None)
            if index is None:
                raise self._blame(
                    f"returned a gradient for {key!r}, which is not among the variables read inside: "
                    f"{', '.join(str(v.name) for v in variables) or 'none'}"
                )
            listed[index] = gradient
        return listed

    def _fit_variable(self, gradient: Any, variable: Any) -> Any:
        if gradient is None:
            return None
        engine = self.ran.job.engine

        def blame(reason: str) -> Exception:
            return self._blame(f"returned, for the variable `{variable.name}`, {reason}")

        return engine.project(gradient, engine.like(variable), blame)

    def _blamer(self, index: int) -> Callable[[str], Exception]:
        def blame(reason: str) -> Exception:
            return self._blame(f"returned, for the input `{self.path(index)}`, {reason}")

        return blame

    def path(self, index: int) -> str:
        """The readable path of a leaf of the inputs."""
        return leaf_path(self.ran.job.plan.names, self.ran.job.structure, index)

    def _blame(self, reason: str) -> RuleResultError:
        job = self.ran.job
        return RuleResultError(f"rule {self.ran.rule} of `{job.name}` {reason}.")


def split_second(returned: Any) -> tuple[Any, Callable[..., Any] | None]:
    """The gradients and, where the rule returned one, the function for second order."""
    if not isinstance(returned, tuple) or not returned or not _is_function(returned[-1]):
        return returned, None
    rest = returned[:-1]
    return (rest[0] if len(rest) == 1 else rest), returned[-1]


def _is_function(value: Any) -> bool:
    return callable(value) and not hasattr(value, "dtype")
