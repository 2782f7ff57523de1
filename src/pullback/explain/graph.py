"""Ways through a flow: what a value leads to, and where a gradient that came back along it was lost."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from pullback.explain.data import FlowData, Node, Role, Size, Value

# Dtypes along which gradients flow; a variable's handle and a list of tensors are ways as well.
CARRIES = ("float", "bfloat", "complex", "variant", "resource")


def carries(value: Value) -> bool:
    """Whether a gradient can flow to a value of this dtype."""
    return value.dtype.startswith(CARRIES)


@dataclass(frozen=True, slots=True)
class Cut:
    """A node that a gradient arrived at, and the input to which it passed none on."""

    node: Node
    input: int  # the position among its inputs


class Graph:
    """Who reads what, in one flow."""

    def __init__(self, flow: FlowData) -> None:
        self.flow = flow
        self.outputs = frozenset(flow.outputs)
        self._readers: dict[int, list[int]] = defaultdict(list)
        self._reads_of: dict[str | int, list[int]] = defaultdict(list)
        for node in flow.nodes:
            for value in dict.fromkeys(node.inputs):
                self._readers[value].append(node.id)
                for variable in _variable_of(flow.values[value]):
                    self._reads_of[variable].append(node.id)
        self._assigned = self._reads_after_assignment()

    def _reads_after_assignment(self) -> dict[int, list[int]]:
        """For each node that writes a variable: the nodes that read it later."""
        writers = [node for node in self.flow.nodes if self.role(node) == "assign"]
        values = self.flow.values
        written = {n.id: {w for v in n.inputs for w in _variable_of(values[v])} for n in writers}
        return {
            writer: list({n: n for w in found for n in self._reads_of[w] if n > writer})
            for writer, found in written.items()
        }

    def role(self, node: Node) -> Role:
        """What the node does to gradients."""
        return "stop" if node.rule.kind == "stopped" else self.flow.op(node.type).role

    @functools.cached_property
    def bad(self) -> frozenset[int]:
        """The values that are not finite. A list of tensors shows no numbers: it is as bad as what was put into it."""
        values = self.flow.values
        found = {v.id for v in values if v.size is not None and not v.size.is_finite}
        for node in self.flow.nodes:
            if not found.isdisjoint(node.inputs):
                found.update(v for v in node.outputs if values[v].dtype == "variant")
        return frozenset(found)

    def readers(self, value: int) -> Sequence[int]:
        """The nodes that read a value."""
        return self._readers.get(value, ())

    def after(self, node: int) -> list[int]:
        """The nodes that read what a node made, through variables too."""
        made = [n for value in self.flow.nodes[node].outputs for n in self.readers(value)]
        return made + self._assigned.get(node, [])

    def downstream(self, values: Iterable[int], through: Callable[[Node], bool]) -> set[int]:
        """The nodes that values lead to, not going beyond nodes that `through` refuses."""
        start = [n for value in values for n in self.readers(value)]
        return _closure(start, lambda n: self.after(n) if through(self.flow.nodes[n]) else [])

    def leading_out(self, nodes: Collection[int]) -> set[int]:
        """Those of these nodes from which an output is reached through the others."""
        before: dict[int, list[int]] = defaultdict(list)
        for node in nodes:
            for later in self.after(node):
                before[later].append(node)
        ends = [n for n in nodes if self.outputs.intersection(self.flow.nodes[n].outputs)]
        return _closure(ends, lambda n: before[n]) & set(nodes)

    def way(self, values: Sequence[int], shapes: bool = False) -> set[int]:
        """The nodes between values and the outputs; with `shapes`, those too that see no more than a shape."""
        nodes = self.downstream(values, lambda node: shapes or self.role(node) != "shape")
        if not shapes:
            nodes = {n for n in nodes if self.role(self.flow.nodes[n]) != "shape"}
        return self.leading_out(nodes)

    def writers_before(self, cut: Cut, way: Collection[int]) -> list[Node]:
        """The nodes on the way that wrote the variable of which the input of a cut was read."""
        maker = self.flow.values[cut.node.inputs[cut.input]].node
        written = [w for w, readers in self._assigned.items() if maker in readers and w in way]
        return [self.flow.nodes[w] for w in written]

    def arrived(self, node: Node) -> list[Size]:
        """The gradients that arrived at a node, one for each output that got one."""
        made = [self.flow.values[v] for v in node.outputs]
        sizes = [v.gradient for v in made if v.gradient is not None]
        return sizes or [s for n in self._assigned.get(node.id, []) for s in self._at(n)]

    def _at(self, node: int) -> list[Size]:
        made = [self.flow.values[v].gradient for v in self.flow.nodes[node].outputs]
        return [size for size in made if size is not None]

    def is_reached(self, node: Node) -> bool:
        """Whether a gradient arrived at a node, or starts there."""
        return bool(self.arrived(node)) or bool(self.outputs.intersection(node.outputs))

    def on_way(self, node: Node, way: Collection[int], values: Collection[int]) -> list[int]:
        """Which inputs of a node lie on a way from values."""
        made = [self.flow.values[v].node for v in node.inputs]
        inputs = zip(node.inputs, made, strict=True)
        return [k for k, (v, maker) in enumerate(inputs) if v in values or maker in way]

    def cuts(
        self, way: Collection[int], values: Collection[int], lost: Callable[[Size | None], bool]
    ) -> list[Cut]:
        """Where something arrived on the way and nothing goes on: not from this node, nor from another that reads the
        same value. In the order of the run.
        """
        found: list[Cut] = []
        for node in map(self.flow.nodes.__getitem__, sorted(way)):
            reached = self.is_reached(node) and not all(map(lost, self.arrived(node) or [ONE]))
            inputs = self.on_way(node, way, values) if reached else []
            found += [
                Cut(node, k)
                for k in inputs
                if lost(passed_on(node, k)) and self._ends(node.inputs[k], lost)
            ]
        return found

    def _ends(self, value: int, lost: Callable[[Size | None], bool]) -> bool:
        return lost(self.flow.values[value].gradient)

    def adds_zeros(self, node: Node, way: Collection[int], values: Collection[int]) -> bool:
        """Whether what a node passes back along a way has zeros that it did not get."""
        arrived = max((size.zeros for size in self.arrived(node)), default=0.0)
        inputs = self.on_way(node, way, values)
        return any(size.zeros > arrived for k in inputs if (size := passed_on(node, k)))

    def makers_with_numbers(
        self, cut: Cut, way: Collection[int], values: Collection[int]
    ) -> list[Node]:
        """Behind an input that no gradient can flow to: the nodes that made integers, flags or texts of numbers."""
        found: list[Node] = []

        def before(n: int) -> list[int]:
            node = self.flow.nodes[n]
            inputs = [node.inputs[k] for k in self.on_way(node, way, values)]
            if any(carries(self.flow.values[v]) for v in inputs):
                found.append(node)
                return []
            return [m for v in inputs if (m := self.flow.values[v].node) is not None]

        maker = self.flow.values[cut.node.inputs[cut.input]].node
        _closure([] if maker is None else [maker], before)
        return sorted(found, key=lambda node: node.id)


def _variable_of(value: Value) -> list[str | int]:
    """By which it is known that two values stand for one variable: its name, or the handle itself."""
    handle = [value.id] if value.dtype == "resource" else []
    return [*([value.variable] if value.variable else []), *handle]


ONE = Size(1.0, 1.0, 0.0, 0, 0, 1)


def passed_on(node: Node, k: int) -> Size | None:
    """The gradient that a node passed on to one of its inputs."""
    return node.gradients[k] if node.gradients else None


def _closure(start: Iterable[int], after: Callable[[int], Iterable[int]]) -> set[int]:
    seen: set[int] = set()
    todo = list(start)
    while todo:
        if (node := todo.pop()) not in seen:
            seen.add(node)
            todo += after(node)
    return seen
