"""A tiny reverse-mode interpreter in NumPy: programs under overrides, with the rules put in by hand."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from scipy.special import erf

from tests.fuzz.override_programs import INNER_LAYERS, LAYERS, Program, Rule, Step, Target

Pull = Callable[[list[Any]], list[Any]]
KERNELS = {
    "lay_dense": np.array([[1.0, -2.0], [0.5, 3.0]]),
    "lay_sharp": np.array([[-1.0, 0.5], [2.0, 1.0]]),
    "blk_dense": np.array([[0.25, 1.0], [-0.5, 0.75]]),
}
BIAS = np.array([0.125, -0.25])
OPS_OF: dict[str, tuple[str, ...]] = {
    "relu": ("Relu",), "tanh": ("Tanh",), "sigmoid": ("Sigmoid",), "square": ("Square",), "negative": ("Neg",),
    "softmax": ("Softmax",), "multiply": ("Mul",), "add": ("AddV2",), "subtract": ("Sub",),
    "maximum": ("Maximum",), "matmul": ("MatMul",), "rowsum": ("Sum", "BroadcastTo"),
    "swap": ("Split", "ConcatV2"), "pile": ("Pack", "Sum"), "where": ("SelectV2",), "cast": ("Cast",),
    "transpose": ("Transpose",), "double": ("Tanh", "Mul"), "blend": ("Tanh", "Mul"), "mixed": ("Relu", "AddV2"),
    "lay_dense": ("MatMul", "BiasAdd"), "lay_sharp": ("MatMul", "BiasAdd", "Relu"), "lay_relu": ("Relu",),
    "lay_tanh": ("Tanh",), "lay_block": ("MatMul", "Tanh"),
}  # fmt: skip
# Ops inside what is computed here in one piece: a target that meets them is beyond this interpreter.
OPAQUE = {
    "gelu": {"Mul", "AddV2", "Erf", "Erfc", "RealDiv", "Sub", "Neg", "Cast", "Square"},
    "lay_norm": {"Mul", "AddV2", "Neg", "Sub", "Square", "Sum", "Cast"},
}


class Ambiguous(Exception):
    """The contract does not say what happens here, or this interpreter does not know."""


class Var:
    """A value, and the node it comes from."""

    def __init__(self, value: Any, node: Any = None, index: int = 0) -> None:
        self.value = value
        self.node = node
        self.index = index


class Node:
    """Something that was run: what it took and gave, and how to pull back."""

    made = 0

    def __init__(self, parents: Sequence[Var], values: Sequence[Any], pull: Pull) -> None:
        Node.made += 1
        self.order = Node.made
        self.parents = parents
        self.pull = pull
        self.outputs = [Var(value, self, i) for i, value in enumerate(values)]


def pulled_back(outputs: Iterable[Var], upstream: Iterable[Any], wrt: Sequence[Var]) -> list[Any]:
    """The gradients of some values for upstream gradients of others; `None` where nothing flows."""
    found: dict[int, Any] = {}
    nodes: dict[int, Node] = {}

    def add(var: Var, gradient: Any) -> None:
        if gradient is None:
            return
        found[id(var)] = found[id(var)] + gradient if id(var) in found else gradient
        if var.node is not None:
            nodes[var.node.order] = var.node

    for var, gradient in zip(outputs, upstream, strict=True):
        add(var, gradient)
    while nodes:
        node = nodes.pop(max(nodes))
        given = [found.get(id(o)) for o in node.outputs]
        given = [
            np.zeros_like(o.value) if g is None else g
            for g, o in zip(given, node.outputs, strict=True)
        ]
        for parent, gradient in zip(node.parents, node.pull(given), strict=True):
            add(parent, gradient)
    return [found.get(id(var)) for var in wrt]


def ruled(rule: Rule, original: Pull, inputs: list[Any], outputs: list[Any]) -> Pull:
    """The pullback that a rule makes of the one that would have run otherwise."""

    def pull(dys: list[Any]) -> list[Any]:
        if rule.kind == "fixed":
            return [rule.factor * dys[0]]
        if rule.kind == "by input":
            return [rule.factor * dys[0] * inputs[0]]
        if rule.kind == "by output":
            return [rule.factor * dys[0] * outputs[0]]
        ordinary = original(dys)
        if rule.kind == "guided":
            return [None if g is None else np.where(dys[0] > 0, g, 0.0) for g in ordinary]
        if rule.kind in ("cut", "by name"):
            return [None, ordinary[1]]
        scaled = [None if g is None else rule.factor * g for g in ordinary]
        return [scaled[0], ordinary[1]] if rule.kind == "first" else scaled

    return pull


class Machine:
    """Runs a program under its overrides, and remembers which of their lines were met."""

    def __init__(self, program: Program, graph: bool) -> None:
        self.program = program
        self.graph = graph
        self.running: list[set[tuple[str, str]]] = []
        self.met: set[tuple[int, int]] = set()
        self.least = np.inf  # the smallest distance from a kink
        # The weights, each one value however often it is read.
        self.weights = {name: (Var(kernel), Var(BIAS)) for name, kernel in KERNELS.items()}

    # What matches.

    def matching(self, keys: set[tuple[str, str]]) -> list[Rule]:
        """The rules for something with these keys, from the outermost override inwards."""
        found: list[Rule] = []
        for i, override in enumerate(self.program.overrides):
            here = [(j, t, r) for j, (t, r) in enumerate(override) if self.is_met(t, keys)]
            if len(here) > 1:
                narrow = [row for row in here if row[1].part is not None]
                same = len({(t.kind, t.name) for _, t, _ in here}) == 1
                if len(narrow) != 1 or not same:
                    raise Ambiguous("two lines of one override for one thing")
                here = narrow
            for j, _, rule in here:
                self.met.add((i, j))
                found.append(rule)
        return found

    def is_met(self, target: Target, keys: set[tuple[str, str]]) -> bool:
        if (target.kind, target.name) not in keys:
            return False
        return target.part is None or any(target.part in running for running in self.running)

    def refuse(self, kind: str, names: Iterable[str]) -> None:
        """Refuse programs in which a line names something that this interpreter does not see."""
        named = {t.name for o in self.program.overrides for t, _ in o if t.kind in (kind, "where")}
        if named & set(names):
            raise Ambiguous(f"{kind} {named & set(names)} in one piece")

    # Units.

    def unit(
        self, keys: set[tuple[str, str]], inputs: list[Var], body: Any, one_op: bool = False
    ) -> list[Var]:
        """A function, layer or op: transparent, unless a line names it."""
        rules = self.matching(keys)
        self.running.append(keys)
        if not rules:
            outputs = body(inputs)
            self.running.pop()
            return outputs
        inner = [Var(v.value) for v in inputs]
        known = set(self.met)
        self.met = set()
        outputs = body(inner)
        met_inside, self.met = self.met, known | self.met
        self.running.pop()
        if met_inside:
            self.check_nested(rules, met_inside, one_op)

        def pull(dys: list[Any]) -> list[Any]:
            return pulled_back(outputs, dys, inner)

        for rule in rules:
            pull = ruled(rule, pull, [v.value for v in inputs], [o.value for o in outputs])
        # What is read inside and is no input keeps its ordinary gradient.
        read = [w for pair in self.weights.values() for w in pair if w not in inputs]

        def pull_all(dys: list[Any]) -> list[Any]:
            return [*pull(dys), *pulled_back(outputs, dys, read)]

        return Node([*inputs, *read], [o.value for o in outputs], pull_all).outputs

    def check_nested(self, rules: list[Rule], inside: set[tuple[int, int]], one_op: bool) -> None:
        """A rule that drops the original hides the rules inside; for one op, their order decides."""
        kinds = {rule.kind for rule in rules}
        if one_op:
            kinds |= {self.program.overrides[i][j][1].kind for i, j in inside}
        if kinds & {"fixed", "by input", "by output", "cut", "by name"} or (
            one_op and kinds != {"scaled"}
        ):
            raise Ambiguous("a rule inside another's unit")

    def op(self, kind: str, inputs: list[Var], values: list[Any], pull: Pull) -> list[Var]:
        return self.unit(
            {("op", kind), ("where", kind)}, inputs, lambda inner: Node(inner, values, pull).outputs
        )

    def function(self, name: str, inputs: list[Var], body: Any) -> list[Var]:
        return self.unit({("function", name)}, inputs, body, one_op=True)

    # Programs.

    def run(self, steps: Sequence[Step], registers: list[Var]) -> Var:
        registers = list(registers)
        for step in steps:
            registers.append(self.step(step, [registers[a] for a in step.args]))
        return registers[-1]

    def step(self, step: Step, args: list[Var]) -> Var:
        if step.name in LAYERS:
            return self.layer(step.name, args[0])
        if step.subs:
            return self.flow(step, args[0])
        return (
            getattr(self, f"do_{step.name}", None)(*args)
            if hasattr(self, f"do_{step.name}")
            else self.simple(step.name, args)
        )

    def flow(self, step: Step, x: Var) -> Var:
        if step.name == "cond":
            self.least = min(self.least, abs(x.value.max()))
            taken = 0 if x.value.max() > 0 else 1
            if self.graph:  # the other branch is traced, and its targets are met
                self.run(step.subs[1 - taken], [Var(x.value)])
            return self.run(step.subs[taken], [x])
        if step.name == "while":
            return self.run(step.subs[0], [self.run(step.subs[0], [x])])
        before = self.graph
        self.graph = before or step.name == "call"
        result = self.run(step.subs[0], [x])
        self.graph = before
        return result

    def simple(self, name: str, args: list[Var]) -> Var:
        """A function that is one op."""
        if name == "gelu":
            self.refuse("op", OPAQUE["gelu"])
            self.refuse("function", ["multiply", "add", "subtract", "negative", "square", "cast"])
        values = [a.value for a in args]
        value, pull = getattr(self, f"math_{name}")(*values)
        kind = OPS_OF.get(name, ("Gelu",))[0]
        return self.function(name, args, lambda inner: self.op(kind, inner, [value], pull))[0]

    # Mathematics: the value, and the pullback.

    def math_relu(self, x: Any) -> Any:
        self.least = min(self.least, float(np.abs(x[x != 0]).min(initial=np.inf)))
        return np.maximum(x, 0), lambda dy: [np.where(x > 0, dy[0], 0.0)]

    def math_tanh(self, x: Any) -> Any:
        y = np.tanh(x)
        return y, lambda dy: [dy[0] * (1 - y * y)]

    def math_sigmoid(self, x: Any) -> Any:
        y = 0.5 * (1 + np.tanh(0.5 * x))
        return y, lambda dy: [dy[0] * y * (1 - y)]

    def math_square(self, x: Any) -> Any:
        return x * x, lambda dy: [dy[0] * 2 * x]

    def math_negative(self, x: Any) -> Any:
        return -x, lambda dy: [-dy[0]]

    def math_softmax(self, x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        y = e / e.sum(-1, keepdims=True)
        return y, lambda dy: [y * (dy[0] - (dy[0] * y).sum(-1, keepdims=True))]

    def math_gelu(self, x: Any) -> Any:
        cdf = 0.5 * (1 + erf(x / np.sqrt(2)))
        pdf = np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)
        return x * cdf, lambda dy: [dy[0] * (cdf + x * pdf)]

    def math_multiply(self, x: Any, y: Any) -> Any:
        return x * y, lambda dy: [dy[0] * y, (dy[0] * x).sum() if np.ndim(y) == 0 else dy[0] * x]

    def math_add(self, x: Any, y: Any) -> Any:
        return x + y, lambda dy: [dy[0], dy[0]]

    def math_subtract(self, x: Any, y: Any) -> Any:
        return x - y, lambda dy: [dy[0], -dy[0]]

    def math_maximum(self, x: Any, y: Any) -> Any:
        gap = np.abs(x - y)
        self.least = min(self.least, float(gap[gap != 0].min(initial=np.inf)))
        return np.maximum(x, y), lambda dy: [
            np.where(x >= y, dy[0], 0.0),
            np.where(x >= y, 0.0, dy[0]),
        ]

    def math_matmul(self, x: Any, y: Any) -> Any:
        return x @ y, lambda dy: [dy[0] @ y.T, x.T @ dy[0]]

    def math_transpose(self, x: Any) -> Any:
        return x.T, lambda dy: [dy[0].T]

    # Steps of several ops.

    def do_rowsum(self, x: Var) -> Var:
        total = x.value.sum(1, keepdims=True)
        shape = x.value.shape
        (sums,) = self.function(
            "reduce_sum", [x],
            lambda inner: self.op("Sum", inner, [total], lambda dy: [np.broadcast_to(dy[0], shape)]),
        )  # fmt: skip
        wide = np.broadcast_to(total, shape)
        return self.op("BroadcastTo", [sums], [wide], lambda dy: [dy[0].sum(1, keepdims=True)])[0]

    def do_swap(self, x: Var) -> Var:
        halves = [x.value[:1], x.value[1:]]
        a, b = self.function(
            "split", [x],
            lambda inner: self.op("Split", inner, halves, lambda dy: [np.concatenate(dy)]),
        )  # fmt: skip
        whole = np.concatenate(halves[::-1])
        return self.function(
            "concat", [b, a],
            lambda inner: self.op("ConcatV2", inner, [whole], lambda dy: [dy[0][:1], dy[0][1:]]),
        )[0]  # fmt: skip

    def do_pile(self, x: Var, y: Var) -> Var:
        pile = np.stack([x.value, y.value])
        (stacked,) = self.function(
            "stack",
            [x, y],
            lambda inner: self.op("Pack", inner, [pile], lambda dy: [dy[0][0], dy[0][1]]),
        )
        total = pile.sum(0)
        return self.function(
            "reduce_sum", [stacked],
            lambda inner: self.op("Sum", inner, [total], lambda dy: [np.stack([dy[0], dy[0]])]),
        )[0]  # fmt: skip

    def do_where(self, x: Var, y: Var) -> Var:
        self.least = min(self.least, float(np.abs(x.value[x.value != 0]).min(initial=np.inf)))
        chosen = x.value > 0
        value = np.where(chosen, x.value, y.value)

        def pull(dy: list[Any]) -> list[Any]:
            return [np.where(chosen, dy[0], 0.0), np.where(chosen, 0.0, dy[0])]

        return self.function(
            "where", [x, y], lambda inner: self.op("SelectV2", inner, [value], pull)
        )[0]

    def do_cast(self, x: Var) -> Var:
        for _ in range(2):
            (x,) = self.function(
                "cast",
                [x],
                lambda inner: self.op("Cast", inner, [inner[0].value], lambda dy: [dy[0]]),
            )
        return x

    def do_double(self, x: Var) -> Var:
        def body(inner: list[Var]) -> list[Var]:
            self.refuse("function", ["multiply"])
            h = self.simple("tanh", inner)
            value, pull = self.math_multiply(h.value, np.asarray(2.0))
            return self.op("Mul", [h, Var(np.asarray(2.0))], [value], pull)

        return self.unit({("user", "double")}, [x], body)[0]

    def do_mixed(self, x: Var) -> Var:
        def body(inner: list[Var]) -> list[Var]:
            self.refuse("function", ["add"])
            h = self.simple("relu", [self.do_double(inner[0])])
            value, pull = self.math_add(h.value, inner[0].value)
            return self.op("AddV2", [h, inner[0]], [value], pull)

        return self.unit({("user", "mixed")}, [x], body)[0]

    def do_blend(self, x: Var, y: Var) -> Var:
        def body(inner: list[Var]) -> list[Var]:
            self.refuse("function", ["multiply"])
            h = self.simple("tanh", inner[:1])
            value, pull = self.math_multiply(h.value, inner[1].value)
            return self.op("Mul", [h, inner[1]], [value], pull)

        return self.unit({("user", "blend")}, [x, y], body)[0]

    # Layers.

    def layer(self, name: str, x: Var) -> Var:
        self.refuse("function", ["cast"])  # Keras calls it on the inputs of every layer
        kind = {**LAYERS, **INNER_LAYERS}[name]
        keys = {("layer", name), ("regex", name), ("class", kind)}
        return self.unit(keys, [x], lambda inner: [self.layer_body(name, inner[0])])[0]

    def layer_body(self, name: str, x: Var) -> Var:
        if name in KERNELS:
            h = self.dense(x, *self.weights[name])
            return self.simple("relu", [h]) if name == "lay_sharp" else h
        if name == "lay_block":
            return self.layer("blk_act", self.layer("blk_dense", x))
        if name == "lay_norm":
            return self.norm(x)
        if name == "lay_drop":
            return x
        return self.simple({"lay_relu": "relu"}.get(name, "tanh"), [x])

    def dense(self, x: Var, kernel: Var, bias: Var) -> Var:
        self.refuse("function", ["matmul", "add"])
        value, pull = self.math_matmul(x.value, kernel.value)
        (h,) = self.op("MatMul", [x, kernel], [value], pull)
        return self.op(
            "BiasAdd", [h, bias], [value + bias.value], lambda dy: [dy[0], dy[0].sum(0)]
        )[0]

    def norm(self, x: Var) -> Var:
        self.refuse("op", OPAQUE["lay_norm"])
        self.refuse(
            "function", ["multiply", "add", "subtract", "negative", "square", "reduce_sum", "cast"]
        )
        v = x.value
        centred = v - v.mean(-1, keepdims=True)
        scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-3)
        y = centred * scale

        def pull(dy: list[Any]) -> list[Any]:
            g = dy[0]
            return [scale * (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True))]

        return Node([x], [y], pull).outputs[0]
