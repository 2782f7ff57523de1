"""The program of a function, operation by operation, so that a diagnosis can make one slip in its derivative.

The traced program, custom gradients taken out, is built again with a tensor of its own for each input of each
operation: an *edge*. Values and cotangents of all edges come from one run, local derivatives at any values from
another, and what a change of the cotangent at one edge does to the gradient from a third. Calls are looked into, loops
and branches are single steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.probing.altering import Altering
from pullback.engines.tensorflow.probing.callee import described
from pullback.engines.tensorflow.probing.lines import assigned, line_of
from pullback.engines.tensorflow.probing.modes import Point
from pullback.engines.tensorflow.probing.own_derivative import OwnDerivative, stripped
from pullback.engines.tensorflow.probing.variants import variants_of
from pullback.engines.tensorflow.tf_private import explaining, overriding
from pullback.engines.tensorflow.tf_private.auditing import all_operations
from pullback.extend import Array, Arrays, OutsideDomain, Step, StepValues, Unsupported

# What an operation raises that is given other values than it is made for.
REFUSALS = (tf.errors.OpError, ValueError, TypeError, IndexError)
_CALLS = frozenset(["PartitionedCall", "StatefulPartitionedCall"])
_PASSING = frozenset(["Identity", "IdentityN"])
# Operations whose second operand is where something is taken from or summed to, or along which axes.
_INDEXED = ("Gather", "Segment", "Sum", "Mean", "Max", "Min", "Prod")
# Operations beyond so many: the first and the last of them are looked at.
_MOST, _ENDS = 150, 50

Nested = Sequence[Sequence[Any]]


class Program:
    """The steps of a probed function, built once."""

    def __init__(self, probe: Any, own: OwnDerivative, *, keep_stops: bool) -> None:
        self.probe, self.own = probe, own
        # a copy of its own: differentiating a graph changes it
        self.copy, self.called = stripped(own.traced, keep_stops=keep_stops)
        at = Point(probe, probe.start())
        self.inputs = [tf.TensorSpec(t.shape, t.dtype) for t in at.tensors]
        self.variables = {id(s.handle): k for k, s in enumerate(at.sources) if hasattr(s, "handle")}
        found = _Replay(self)
        tf.function(lambda *xs: found.run(xs), autograph=False).get_concrete_function(*self.inputs)
        count = len(found.steps)
        looked_at = (k for k in range(count) if count <= _MOST or min(k, count - 1 - k) < _ENDS)
        # at other values a loop might never end
        self.kept = [k for k in looked_at if not runs_until(found.steps[k].op)]
        named = _named(found.steps, self._lines(), [leaf.name for leaf in probe.inputs])
        place = {old: new for new, old in enumerate(self.kept)} | {-1: -1}
        self.steps = tuple(
            replace(named[k], origins=tuple((place.get(s, -2), i) for s, i in named[k].origins))
            for k in self.kept
        )
        self.holding = [k for k in range(count) if found.steps[k].held]
        self.holders = tuple(named[k] for k in self.holding)
        self._alter: Altering | None = None
        self._trace, self._local, self._pull = map(
            _Once, (self._traced, self._differentiated, self._pulled)
        )
        self._push, self._vary, self._sweep = map(_Once, (self._pushed, self._varied, self._swept))

    def values(self, xs: Arrays, ws: Arrays) -> StepValues:
        """What goes into and comes out of every step, and the cotangents that come back to it."""
        ys = self.copy.outputs
        traced = self._trace(self.probe.tensors(xs), self.probe.upstream(ys, ws))
        return StepValues(*map(_arrays, traced))

    def local(self, xs: Arrays, inputs: Nested, cotangents: Nested) -> list[list[Array]]:
        """The cotangents that each step by itself makes of others, at other values of its inputs."""
        fed = self.probe.tensors(xs), _tensors(inputs), _tensors(cotangents)
        return _arrays(_unless_refused(self._local, *fed))

    def pull(self, xs: Arrays, changes: Nested) -> list[Array]:
        """What changes of cotangents at the edges add to the gradients of the inputs."""
        return _arrays([self._pull(self.probe.tensors(xs), _tensors(changes))])[0]

    def tangents(self, xs: Arrays, us: Arrays) -> list[list[Array]]:
        """How the inputs of every step move with those of the function."""
        return _arrays(self._push(self.probe.tensors(xs), self.probe.tensors(us)))

    def altering(self, xs: Arrays, ws: Arrays, held: Nested) -> Callable[[Nested], list[Array]]:
        """The gradients there, as a function of the constants, masks, indices and axes that the program has."""
        fed = self.probe.tensors(xs), self.probe.upstream(self.copy.outputs, ws), _tensors(held)
        program = self._alter or _unless_refused(Altering, self._altered, *fed)
        self._alter, altered = program, program.at(*fed)
        return lambda others: _arrays([_unless_refused(altered, _tensors(others))])[0]

    def swept(
        self, xs: Arrays, ws: Arrays, inputs: Nested, factors: Nested, own: Nested
    ) -> list[Array]:
        """The gradients with other values at steps, and factors of what they make of cotangents and of these."""
        ws = self.probe.upstream(self.copy.outputs, ws)
        fed = map(_tensors, (inputs, factors, own))
        found = _unless_refused(self._sweep, self.probe.tensors(xs), ws, *fed)
        return _arrays([found])[0]

    def variants(self, xs: Arrays, values: StepValues) -> list[list[tuple[str, list[Array]]]]:
        """What steps would give if an option were another one: an axis, a direction, an operand transposed."""
        inputs, cotangents = _tensors(values.inputs), _tensors(values.cotangents)
        found = self._vary(self.probe.tensors(xs), inputs, cotangents)
        return [
            [(how, arrays) for how, arrays in zip(hows, _arrays(made), strict=True)]
            for hows, made in zip(self.varied, found, strict=True)
        ]

    # what is traced

    def _traced(self, xs: Any, ws: Any) -> Any:
        replay = _Replay(self)
        ys = replay.run(xs)
        kept = [replay.steps[k] for k in self.kept]
        flat = [o for step in kept for o in step.outputs]
        cotangents = iter(_filled(tf.gradients(ys, flat, ws), flat))
        nested = [[next(cotangents) for _ in step.outputs] for step in kept]
        held = [[replay.steps[k].arguments[i] for i in replay.steps[k].held] for k in self.holding]
        return [s.edges for s in kept], [s.outputs for s in kept], nested, held

    def _altered(self, xs: Any, ws: Any, held: Any) -> Any:
        replay = _Replay(self, dict(zip(self.holding, held, strict=True)))
        return _filled(tf.gradients(replay.run(xs), xs, ws), xs)

    def _swept(self, xs: Any, ws: Any, inputs: Any, factors: Any, own: Any) -> Any:
        replay = _Replay(self)
        ys = replay.run(xs)
        flows: dict[Any, list[Any]] = {}
        for y, w in zip(ys, ws, strict=True):
            flows.setdefault(replay.origin.get(y.ref()), []).append(w)
        for k, step in reversed(list(enumerate(replay.steps))):
            come = [
                tf.add_n(flows[k, i]) if (k, i) in flows else tf.zeros_like(out)
                for i, out in enumerate(step.outputs)
            ]
            made = _floats(_made(step.op, step.with_edges(inputs[k])))
            back = _filled(tf.gradients(made, inputs[k], come), inputs[k])
            for origin, b, c, f in zip(step.origins, back, factors[k], own[k], strict=True):
                passed = [f * come[0]] if f.shape == come[0].shape else []
                flows.setdefault(origin, []).append(tf.add_n([c * b, *passed]))
        leaves = [flows.get((-1, k), [tf.zeros_like(x)]) for k, x in enumerate(xs)]
        return list(map(tf.add_n, leaves))

    def _differentiated(self, xs: Any, inputs: Any, cotangents: Any) -> Any:
        replay = _Replay(self)
        replay.run(xs)
        found: list[list[Any]] = []
        for k, edges, ws in zip(self.kept, inputs, cotangents, strict=True):
            step = replay.steps[k]
            outputs = _floats(_made(step.op, step.with_edges(edges)))
            found.append(_filled(tf.gradients(outputs, edges, ws), edges))
        return found

    def _pushed(self, xs: Any, us: Any) -> Any:
        """By differentiating what pulls back, which is linear in what it is given."""
        replay = _Replay(self)
        replay.run(xs)
        edges = [edge for k in self.kept for edge in replay.steps[k].edges]
        changes = [tf.zeros_like(edge) for edge in edges]
        pulled = _filled(tf.gradients(edges, xs, changes), xs)
        flat = iter(_filled(tf.gradients(pulled, changes, us), changes))
        return [[next(flat) for _ in replay.steps[k].edges] for k in self.kept]

    def _varied(self, xs: Any, inputs: Any, cotangents: Any) -> Any:
        replay = _Replay(self)
        replay.run(xs)
        self.varied: list[list[str]] = []
        found: list[list[list[Any]]] = []
        for k, edges, ws in zip(self.kept, inputs, cotangents, strict=True):
            step = replay.steps[k]
            made = list(variants_of(step.op, step.with_edges(edges), edges, ws))
            self.varied.append([how for how, _ in made])
            found.append([_filled(back, edges) for _, back in made])
        return found

    def _pulled(self, xs: Any, changes: Any) -> Any:
        replay = _Replay(self)
        replay.run(xs)
        edges = [edge for k in self.kept for edge in replay.steps[k].edges]
        flat = [change for step in changes for change in step]
        return _filled(tf.gradients(edges, xs, flat), xs)

    def _lines(self) -> dict[tuple[str, str], tuple[str, str]]:
        graphs = overriding.graphs_by_name(self.own.traced)
        return {
            (name, op.name): line_of(op) for name, g in graphs.items() for op in g.get_operations()
        }


def _unless_refused(run: Callable[..., Any], *fed: Any) -> Any:
    try:
        return run(*fed)
    except REFUSALS as error:
        raise OutsideDomain(described(error)) from error


class _Once:
    """A function traced when it is first called, for arguments of that form only."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.traced = function, None

    def __call__(self, *arguments: Any) -> Any:
        if self.traced is None:
            made = tf.function(self.function, autograph=False)
            self.traced = made.get_concrete_function(*arguments)
        return self.traced(*arguments)


class _Step:
    """One operation while the program is built again; `origins` says which step or input each edge comes from."""

    def __init__(
        self,
        op: Any,
        name: tuple[str, str],
        arguments: list[Any],
        edges: dict[int, Any],
        origins: list[Any],
    ) -> None:
        self.op, self.name, self.arguments = op, name, arguments
        self.positions, self.edges, self.origins = list(edges), list(edges.values()), origins
        self.outputs: list[Any] = []
        self.held = [
            j
            for j, t in enumerate(arguments)
            if j not in edges and (t.dtype.is_floating or t.dtype.is_bool or _is_index(op, j, t))
        ]

    def with_edges(self, edges: Sequence[Any]) -> list[Any]:
        arguments = list(self.arguments)
        for position, edge in zip(self.positions, edges, strict=True):
            arguments[position] = edge
        return arguments


class _Replay:
    """One more run of the program, with an identity at every edge."""

    def __init__(self, program: Program, held: dict[int, Sequence[Any]] | None = None) -> None:
        self.program, self.steps, self.held = program, list[_Step](), held or {}
        self.origin: dict[Any, Any] = {}

    def run(self, xs: Sequence[Any]) -> list[Any]:
        """The outputs."""
        copy, self.xs = self.program.copy, xs
        for (
            _,
            callee,
        ) in self.program.called.values():  # loops and branches are differentiated by theirs
            callee.add_to_graph(tf.compat.v1.get_default_graph())
        for k, x in enumerate(xs):
            self.origin[x.ref()] = (-1, k)
        return self._graph(copy.graph, [*xs, *copy.captured_inputs], "")

    def _graph(self, graph: Any, arguments: Sequence[Any], within: str) -> list[Any]:
        known = {t.ref(): a for t, a in zip(graph.inputs, arguments, strict=True)}
        for op in graph.get_operations():
            if op.type != "Placeholder" and (op.outputs or op.op_def.is_stateful):  # or writes
                inputs = [known[t.ref()] for t in op.inputs]
                made = self._operation(op, inputs, (within, op.name))
                known |= {t.ref(): m for t, m in zip(op.outputs, made, strict=True)}
        return [known[t.ref()] for t in graph.outputs]

    def _operation(self, op: Any, inputs: list[Any], name: tuple[str, str]) -> list[Any]:
        which = self.program.variables.get(id(inputs[0])) if op.type == "ReadVariableOp" else None
        if which is not None:
            return [self.xs[which]]
        if op.type in _CALLS:
            original, callee = self.program.called[op.get_attr("f").name]
            return self._graph(callee.graph, inputs, original)
        active = {j: t for j, t in enumerate(inputs) if t.ref() in self.origin}
        if not active or op.type in (*_PASSING, "StopGradient"):
            return inputs if op.type in _PASSING else _made(op, inputs)
        edges = {j: tf.identity(t) for j, t in active.items()}
        step = _Step(op, name, inputs, edges, [self.origin[t.ref()] for t in active.values()])
        if _floats(op.outputs):
            for j, t in zip(step.held, self.held.get(len(self.steps), ()), strict=False):
                step.arguments[j] = t
        made = _made(op, step.with_edges(step.edges))
        step.outputs = _floats(made)
        if step.outputs:
            for k, output in enumerate(step.outputs):
                self.origin[output.ref()] = (len(self.steps), k)
            self.steps.append(step)
        return made


def _made(op: Any, inputs: list[Any]) -> list[Any]:
    """The same operation on other tensors, with the gradient of its type."""
    attributes = {k: v for k, v in op.node_def.attr.items() if not k.startswith("_")}
    graph = tf.compat.v1.get_default_graph()
    dtypes = [t.dtype for t in op.outputs]
    return list(
        graph.create_op(op.type, inputs, dtypes, attrs=attributes, op_def=op.op_def).outputs
    )


def _is_index(op: Any, j: int, tensor: Any) -> bool:
    return j == 1 and tensor.dtype.is_integer and any(word in op.type for word in _INDEXED)


def _floats(tensors: Sequence[Any]) -> list[Any]:
    return [t for t in tensors if t.dtype.is_floating or t.dtype.is_complex]


def _filled(gradients: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    pairs = zip(gradients, like, strict=True)
    return [tf.zeros_like(t) if g is None else tf.convert_to_tensor(g) for g, t in pairs]


def _arrays(nested: Any) -> list[list[Array]]:
    return [[np.asarray(t.numpy()) for t in tensors] for tensors in nested]


def _tensors(nested: Nested) -> list[list[Any]]:
    return [[tf.constant(a) for a in arrays] for arrays in nested]


# words


def _named(
    steps: list[_Step], lines: dict[tuple[str, str], tuple[str, str]], names: list[str]
) -> tuple[Step, ...]:
    places = [lines.get(step.name, ("", "")) for step in steps]
    variable = [
        _one(assigned(text)) if _ends_line(steps, places, k) else ""
        for k, (text, _) in enumerate(places)
    ]

    def name_of(origin: tuple[int, int]) -> str:
        step, which = origin
        return names[which] if step < 0 else variable[step]

    return tuple(
        Step(
            _counted(steps, places, k),
            text,
            where,
            tuple(map(name_of, s.origins)),
            variable[k],
            tuple(s.origins),
        )
        for k, (s, (text, where)) in enumerate(zip(steps, places, strict=True))
    )


def _counted(steps: list[_Step], places: list[tuple[str, str]], k: int) -> str:
    """The type of a step, numbered where its line has several and runs once."""
    types = [step.op.type for step, place in zip(steps, places, strict=True) if place == places[k]]
    kind, once = steps[k].op.type, min(types.count(t) for t in types) == 1
    before = [i for i in range(k) if places[i] == places[k] and steps[i].op.type == kind]
    return (
        f"{kind} no. {len(before) + 1}" if once and types.count(kind) > 1 and places[k][0] else kind
    )


def _ends_line(steps: list[_Step], places: list[tuple[str, str]], k: int) -> bool:
    """Whether a step is the last of its line, or of one of its runs: of the type of the last, once in each run."""
    here = [i for i, place in enumerate(places) if place == places[k]]
    types = [steps[i].op.type for i in here]
    rarest = min(types.count(kind) for kind in types)
    return k == here[-1] or (steps[k].op.type == types[-1] and types.count(types[-1]) == rarest)


def _one(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ""


def program_of(probe: Any, own: Any) -> Program | Unsupported:
    """The steps of a probe's function, or why they cannot be had."""
    if isinstance(own, Unsupported):
        return own
    if any(v is moved for v in probe.written for moved in probe.variables):
        return Unsupported("it writes variables that it is differentiated by")
    try:
        plain = Program(probe, own, keep_stops=True)
        return plain if _stops_nothing(plain, probe) else Program(probe, own, keep_stops=False)
    except Exception as error:
        return Unsupported(described(error))


def _stops_nothing(program: Program, probe: Any) -> bool:
    """Whether the gradients that a user stopped are none of the function's derivative."""
    if not any(op.type == "StopGradient" for op in program.copy.graph.get_operations()):
        return True
    rng = np.random.default_rng(0)
    xs, ws = probe.start(), [rng.normal(size=leaf.shape) for leaf in probe.outputs]
    found = program.values(xs, ws)
    back = program.local(xs, found.inputs, found.cotangents)
    only = [
        [b if o[0] == -1 else np.zeros_like(b) for b, o in zip(made, step.origins, strict=True)]
        for made, step in zip(back, program.steps, strict=True)
    ]
    pairs = zip(program.pull(xs, only), program.own.vjp(xs, ws), strict=True)
    return all(np.allclose(a, 0.0 if b is None else b) for a, b in pairs)


def runs_until(op: Any) -> bool:
    """Whether an operation has a loop that goes on until numbers meet a condition, or may have one."""
    inside = _inside(op)
    return inside is None or any(_is_open_loop(one) for one in (op, *inside))


def _is_open_loop(op: Any) -> bool:
    if op.type not in ("While", "StatelessWhile"):
        return False
    graph = explaining.graph_of(op, op.get_attr("cond").name)
    return any(t.dtype.is_floating for inner in graph.get_operations() for t in inner.inputs)


def _inside(op: Any) -> list[Any] | None:
    """The operations of the functions that an operation calls; nothing where these cannot be seen."""
    names = [a.name for a in op.op_def.attr if a.type == "func"]
    try:
        graphs = [explaining.graph_of(op, op.get_attr(name).name) for name in names]
    except (AttributeError, tf.errors.OpError):  # of functions of the old kind
        return None
    return [inner for graph in graphs for inner in all_operations(graph)]
