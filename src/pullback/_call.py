"""A call of a function with a gradient of its own, as an engine runs it forward: flat leaves in, flat leaves out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pullback._bind import Inputs, Plan
from pullback._engine import Engine, Kind, engine_of_class
from pullback._project import Entries
from pullback._rule import Rule
from pullback._tree import (
    LEAF,
    Structure,
    flat_tuple,
    flatten,
    is_flat_tuple,
    is_known_leaf,
    unflatten,
)

if TYPE_CHECKING:
    from pullback._function import Definition


@dataclasses.dataclass(frozen=True, slots=True)
class OutputForm:
    """The structure of what a function returned, and whether it is one output or several."""

    structure: Structure
    single: bool
    count: int  # of leaves

    def rebuild(self, leaves: Sequence[Any]) -> Any:
        """The outputs in the structure in which the function returned them."""
        return unflatten(self.structure, leaves)

    def spread(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """One value per output: a tuple or list is spread over the rule's parameters."""
        if self.structure is LEAF:
            return leaves
        outputs = unflatten(self.structure, leaves)
        return (outputs,) if self.single else tuple(outputs)

    def gather(self, outputs: Sequence[Any]) -> Sequence[Any]:
        """The leaves of one value per output, or per leaf."""
        if self.structure is LEAF or is_flat_tuple(self.structure):
            return outputs
        return flatten(tuple(outputs))[0]


_NONE: Final[Mapping[int, Any]] = {}
ONE_OUTPUT: Final = OutputForm(LEAF, True, 1)


def outputs_of_op(count: int) -> OutputForm:
    """The outputs of an op, which have no structure of their own."""
    return ONE_OUTPUT if count == 1 else OutputForm(flat_tuple(count), False, count)


class ForwardResult:
    """What came of running a call: flat outputs, their form, and the rule to use."""

    __slots__ = ("form", "leaves", "rule")

    def __init__(self, outputs: Any, rule: Rule) -> None:
        self.rule = rule
        self.leaves: list[Any]
        if is_known_leaf(outputs):
            self.leaves, self.form = [outputs], ONE_OUTPUT
            return
        self.leaves, structure = flatten(outputs)
        single = not (type(outputs) is tuple or type(outputs) is list)
        self.form = (
            ONE_OUTPUT if structure.is_leaf() else OutputForm(structure, single, len(self.leaves))
        )


def _without_tensors(values: Sequence[Any], structure: Structure) -> Mapping[int, Any]:
    """The arguments that are structures, and hold nothing of a framework."""
    if is_flat_tuple(structure):
        return _NONE
    return {
        k: value
        for k, (value, child) in enumerate(zip(values, structure.children(), strict=True))
        if not child.is_leaf() and not any(engine_of_class(type(v)) for v in flatten(value)[0])
    }


class AnyCall(Protocol):
    """What a pullback asks of a call, be it of a function or of an op."""

    @property
    def engine(self) -> Engine:
        """The engine that runs it."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The parameters."""
        ...

    @property
    def structure(self) -> Structure:
        """The structure of the arguments, as a tuple."""
        ...

    @property
    def title(self) -> str:
        """The function or op in messages."""
        ...

    def inputs(self, leaves: Sequence[Any]) -> Inputs:
        """The arguments as a rule sees them."""
        ...

    def in_rule_form(self, flat: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        """Flat gradients in the form in which a rule returns them."""
        ...

    def offer(self, name: str) -> Any:
        """What the call itself offers to a rule: `op`, `attrs`."""
        ...


class Call:
    """One call of a function whose gradient is the user's."""

    __slots__ = ("_containers", "definition", "engine", "plan", "structure")

    def __init__(
        self,
        definition: Definition,
        engine: Engine,
        plan: Plan,
        structure: Structure,
        values: Sequence[Any],
    ) -> None:
        self.definition = definition
        self.engine = engine
        self.plan = plan
        self.structure = structure
        self._containers = _without_tensors(values, structure)

    @property
    def name(self) -> str:
        """The name of the function, for op names."""
        return self.definition.name

    @property
    def title(self) -> str:
        """The function in messages."""
        return f"`{self.definition.name}`"

    @property
    def names(self) -> Sequence[str]:
        """The parameters."""
        return self.plan.names

    def run(
        self, leaves: Sequence[Any], adapt: Callable[[Any], Any] | None = None
    ) -> ForwardResult:
        """Run the user's function on these leaves."""
        definition, plan = self.definition, self.plan
        function = adapt(definition.function) if adapt else definition.function
        # Arguments as they were passed: the usual case, without work.
        direct = plan.direct and is_flat_tuple(self.structure)
        returned = function(*leaves) if direct else plan.call(function, self._arguments(leaves))
        outputs, rule = definition.split(returned)
        return ForwardResult(outputs, rule)

    def inputs(self, leaves: Sequence[Any]) -> Inputs:
        """The arguments as a rule sees them."""
        return Inputs(self.plan.names, self._arguments(leaves))

    def _arguments(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The arguments around these leaves; those without tensors are the very objects, into which may be written."""
        made = unflatten(self.structure, leaves)
        if not self._containers:
            return made
        return tuple(self._containers.get(k, value) for k, value in enumerate(made))

    def in_rule_form(self, flat: Sequence[Any], kinds: Sequence[Kind]) -> Any:
        """Flat gradients in the form in which a rule returns them."""
        values = unflatten(self.structure, flat)
        chosen = Entries(self.plan.names, self.structure, kinds).at_least(Kind.TENSOR)
        parts = tuple(values[i] for i in chosen)
        return parts[0] if len(parts) == 1 else parts

    def offer(self, name: str) -> Any:
        """A rule of a function may ask for `op`: where it is."""
        return self.definition.place if name == "op" else {}
