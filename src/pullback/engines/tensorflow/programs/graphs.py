"""Graphs as programs: those of traced functions, of branches and loops, and of gradients that somebody wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import tensorflow as tf

from pullback.engines.tensorflow import tf_private as private
from pullback.engines.tensorflow.programs import rules
from pullback.engines.tensorflow.programs.lines import Lines
from pullback.engines.tensorflow.programs.names import AROUND_LOADED, plain_name
from pullback.engines.tensorflow.programs.operations import Raw, as_gradient, dtypes
from pullback.engines.tensorflow.stateful_operations import CALLS
from pullback.engines.tensorflow.tf_private import explaining
from pullback.extend import Node, NodeKind, Program, RuleBody, Value

_LOOPS = frozenset({"While", "StatelessWhile"})
_CONDS = frozenset({"If", "StatelessIf"})
_CASES = frozenset({"Case", "StatelessCase"})
_KINDS = {
    **dict.fromkeys(CALLS, NodeKind.CALL),
    **dict.fromkeys(_LOOPS, NodeKind.LOOP),
    **dict.fromkeys(_CONDS | _CASES, NodeKind.BRANCH),
}
_CARRIERS = frozenset({"Identity", "IdentityN"})  # that are there for the sake of a rule
_STOPPING = frozenset({"StopGradient", "PreventGradient"})
_NOT_RUN = frozenset({"Placeholder", "NoOp", "_Arg"})


class Around(Protocol):
    """The values that the tensors of a graph, or of a run, are."""

    def place_of(self, tensor: Any) -> tuple[int, int] | None:
        """How many programs further out a tensor is, and which value; `None` for one that is in none."""
        ...


class Scope:
    """The values of a graph's program, by the names of its tensors, and what is around it."""

    def __init__(self, reader: Reader, graph: Any, outer: Around | None) -> None:
        self.reader, self.graph, self.outer = reader, graph, outer
        self.numbers: dict[str, int] = {}

    def place_of(self, tensor: Any) -> tuple[int, int] | None:
        """How many programs further out a tensor is, and which value; `None` for one that is in none."""
        if not isinstance(tensor, private.EagerTensor) and tensor.graph is self.graph:
            number = self.numbers.get(tensor.name)
            return None if number is None else (0, number)
        found = self.outer.place_of(tensor) if self.outer else None
        return found and (found[0] + 1, found[1])

    def rule(self, node: Node) -> RuleBody:
        """The gradient that an operation of a graph was given, traced for upstream gradients like its results."""
        raw: Raw = node.raw
        own: Any = raw.gradient
        graph = explaining.new_graph_inside(raw.operation.graph, f"gradient_of_{node.op}")
        with graph.as_default():
            upstream = [explaining.new_placeholder(t.dtype, t.shape) for t in raw.operation.outputs]
            found = own(raw.operation, *upstream)
        return self.reader.rule_of(node, graph, upstream, found, self)


class Reader:
    """Makes programs of graphs; layers are known by the names of first results, as they were when those were made."""

    def __init__(self, lines: Lines, layers: Mapping[Any, Mapping[str, tuple[str, ...]]]) -> None:
        self.lines, self.layers = lines, layers

    def program(
        self,
        graph: Any,
        title: str,
        captured: Sequence[Any] = (),
        outer: Around | None = None,
        count: int | None = None,
    ) -> Program:
        """The program of a graph; the last of its inputs are what it captured.

        Differentiating a graph adds to its outputs: the first `count` are its own.
        """
        return self._program(Scope(self, graph, outer), title, captured, graph.outputs[:count])

    def layer_of(self, operation: Any) -> tuple[str, ...]:
        """The layers around an operation, outermost first."""
        return self.layers.get(operation.graph, {}).get(operation.name, ())

    def returned(self, tensor: Any) -> Any:
        """What is returned: of traced functions the graph has an identity of it."""
        operation = tensor.op
        is_copy = operation.type == "Identity" and not private.own_gradient(operation)
        return operation.inputs[0] if is_copy else tensor

    def _program(
        self, scope: Scope, title: str, captured: Sequence[Any], outputs: Sequence[Any]
    ) -> Program:
        graph, values = scope.graph, list[Value]()
        outputs = list(map(self.returned, outputs))

        def add(tensor: Any, constant: Any = None) -> int:
            scope.numbers[tensor.name] = len(values)
            place = None if constant is None else self.lines.of_operation(tensor.op)
            values.append(Value(_shape(tensor), tensor.dtype.name, "", constant, place))
            return len(values) - 1

        inputs = tuple(map(add, graph.inputs))
        nodes: list[Node] = []
        for operation in in_order(graph):
            if operation.type == "Const":
                # A small tensor from outside is captured as a constant, which is then an input.
                if operation.outputs[0].name not in scope.numbers:
                    add(operation.outputs[0], _constant(operation))
            elif operation.type not in _NOT_RUN:
                taken = tuple(scope.numbers[t.name] for t in operation.inputs)
                made = tuple(map(add, operation.outputs))
                nodes.append(self._node(operation, scope, taken, made))
        given = tuple(scope.numbers[t.name] for t in outputs)
        needed = _needed(graph, outputs)
        idle = frozenset(node for node in nodes if node.raw.operation not in needed)
        return Program(title, tuple(nodes), tuple(values), inputs, given, tuple(captured), idle)

    def _node(
        self, operation: Any, scope: Scope, inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> Node:
        kind = _KINDS.get(operation.type, NodeKind.OPERATION)
        if explaining.is_function_of(scope.graph, operation.type):
            kind = NodeKind.CALL
        bodies = tuple(self._bodies(operation, kind, scope))
        own = private.own_gradient(operation) if kind is NodeKind.OPERATION else None
        rule = rules.of_marked(operation, own) if own else _rule_of(operation.type)
        carries = len(outputs) if own and operation.type in _CARRIERS else 0
        layer = self.layer_of(operation)
        place = self.lines.of_operation(operation)
        raw = Raw(dtypes(operation.inputs), dtypes(operation.outputs), operation, scope, own)
        return Node(
            kind, operation.type, operation.name, inputs, outputs, rule, place, layer, bodies, carries,
            own is not None, raw
        )  # fmt: skip

    def _bodies(self, operation: Any, kind: NodeKind, scope: Scope) -> Iterator[Program]:
        for graph, title in _graphs_in(operation, kind):
            outputs = graph.outputs[: len(operation.outputs)]  # differentiating it may add more
            yield self._program(Scope(self, graph, scope), title, (), outputs)

    def rule_of(
        self, node: Node, graph: Any, upstream: list[Any], found: Any, around: Around
    ) -> RuleBody:
        """The program of a gradient that was traced into a graph."""
        with graph.as_default():
            found = list(map(as_gradient, found if isinstance(found, (list, tuple)) else [found]))
            outputs = [graph.capture(t) for g in found for t in parts_of(g)]
        found = [None] * node.raw.skips + found
        captures = list(zip(graph.external_captures, graph.internal_captures, strict=True))
        places = [around.place_of(outer) for outer, _ in captures]
        read = [inner for (_, inner), place in zip(captures, places, strict=True) if place]
        held = [both for both, place in zip(captures, places, strict=True) if not place]
        graph.inputs = [*upstream, *read, *(inner for _, inner in held)]
        program = self._program(
            Scope(self, graph, around), node.rule.name, [outer for outer, _ in held], outputs
        )
        reads = tuple(place for place in places if place)
        return RuleBody(program, reads, tuple(shares(found, len(node.inputs))))


def parts_of(gradient: Any) -> list[Any]:
    """The tensors that a gradient is made of."""
    return [] if gradient is None else tf.nest.flatten(gradient, expand_composites=True)


def shares(gradients: Sequence[Any], count: int) -> Iterator[Sequence[int] | None]:
    """Which of all their parts make each gradient."""
    start = 0
    for gradient in [*gradients, *[None] * (count - len(gradients))]:
        size = len(parts_of(gradient))
        yield None if gradient is None else range(start, start + size)
        start += size


def in_order(graph: Any) -> Iterator[Any]:
    """The operations in the order in which they were made, but each after those that it reads."""
    done: set[Any] = set()
    for operation in graph.get_operations():
        todo = [operation]
        while todo:
            before = [t.op for t in todo[-1].inputs if t.op not in done]
            if not before and (last := todo.pop()) not in done:
                done.add(last)
                yield last
            todo += before


def _needed(graph: Any, outputs: Sequence[Any]) -> set[Any]:
    """The operations that outputs and side effects need."""
    found: set[Any] = set()
    todo = [t.op for t in outputs] + list(getattr(graph, "control_outputs", ()))
    while todo:
        operation = todo.pop()
        if operation not in found:
            found.add(operation)
            todo += [*(t.op for t in operation.inputs), *operation.control_inputs]
    return found


def _graphs_in(operation: Any, kind: NodeKind) -> Iterator[tuple[Any, str]]:
    """The graphs of what an operation runs, in the order in which a node has them, with their titles."""
    if kind is NodeKind.CALL:
        name = operation.get_attr("f").name if operation.type in CALLS else operation.type
        graph = explaining.graph_of(operation, name)
        title = plain_name(graph.name)
        yield graph, "" if title in AROUND_LOADED else title
    elif kind is NodeKind.LOOP:
        for attached, attribute in (("_cond_graph", "cond"), ("_body_graph", "body")):
            graph = explaining.attached_graph(operation, attached)
            name = operation.get_attr(attribute).name
            yield graph or explaining.graph_of(operation, name), "while"
    elif operation.type in _CONDS:  # what is false takes the first
        then, otherwise = branches_of(operation)
        yield from ((otherwise, "else of cond"), (then, "then of cond"))
    elif kind is NodeKind.BRANCH:
        yield from ((g, f"branch {k} of case") for k, g in enumerate(branches_of(operation)))


def branches_of(operation: Any) -> list[Any]:
    """The graphs of the branches of a cond or a case."""
    if operation.type in _CONDS:
        names = ["then_branch", "else_branch"]
        kept = [explaining.attached_graph(operation, n) for n in ("_true_graph", "_false_graph")]
        functions = [operation.get_attr(name) for name in names]
    else:
        functions = list(operation.get_attr("branches"))
        kept = [
            explaining.attached_graph(operation, f"_branch_graph_{k}")
            for k in range(len(functions))
        ]
    return [
        graph or explaining.graph_of(operation, function.name)
        for graph, function in zip(kept, functions, strict=True)
    ]


def _rule_of(op_type: str) -> Any:
    return rules.STOPPED if op_type in _STOPPING else rules.of_type(op_type)


def _constant(operation: Any) -> Any:
    return tf.constant(tf.make_ndarray(operation.get_attr("value")))


def _shape(tensor: Any) -> tuple[int | None, ...] | None:
    return None if tensor.shape.rank is None else tuple(tensor.shape.as_list())
