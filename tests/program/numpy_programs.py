"""A small engine for programs: NumPy arrays, a handful of operations with their derivatives, programs by hand."""

from dataclasses import dataclass, field

import numpy as np

from pullback.program.data import Node, NodeKind, Place, Program, Rule, RuleBody, Value
from pullback.program.protocol import Endures, Refused
from pullback.program.words import Word

OPERATIONS = {
    "sin": (np.sin, lambda g, x: [g * np.cos(x)]),
    "exp": (np.exp, lambda g, x: [g * np.exp(x)]),
    "times": (np.multiply, lambda g, x, y: [g * y, g * x]),
    "plus": (np.add, lambda g, x, y: [g, g]),
    "minus": (np.subtract, lambda g, x, y: [g, -g]),
    "same": (lambda x: x, lambda g, x: [g]),
    "stop": (lambda x: x, lambda g, x: [None]),
    "below": (np.less, lambda g, x, y: [None, None]),
    "equal": (np.equal, lambda g, x, y: [None, None]),
    "abs": (np.abs, lambda g, x: [g * np.sign(x)]),
    "round": (lambda x: x.astype(np.int64), lambda g, x: [None]),
    "deadly": (lambda x: x[:2], lambda g, x: [g]),
}
WORDS = {
    "sin": Word.OTHER,
    "exp": Word.EXPONENTIAL,
    "times": Word.MULTIPLY,
    "plus": Word.ADD,
    "minus": Word.SUBTRACT,
    "same": Word.COPY,
    "stop": Word.STOP,
    "below": Word.COMPARE,
    "equal": Word.MATCH,
    "abs": Word.ABSOLUTE,
    "round": Word.CAST,
}
ENGINE, STOPPED = Rule("engine"), Rule("stopped")
HERE = Place(__file__, 1, "a line of the user's")


class NumPyPrograms:
    """What an engine does for programs, without tracing."""

    words, refusals = WORDS, (ValueError, TypeError)

    def captured(self, program, dtype):
        return list(program.captured)

    def run(self, node, inputs, dtype):
        if node.carries:
            return list(inputs[: node.carries])
        return [np.asarray(OPERATIONS[node.op][0](*inputs))]

    def run_changed(self, node, inputs, before, dtype):
        if node.op == "deadly" and not all(map(self.has_form_of, inputs, before)):
            raise Refused("deadly is run on nothing else")
        return self.run(node, inputs, dtype)

    def endures(self, node):
        return Endures.SAME_FORM if node.op == "deadly" else Endures.ANY

    def has_form_of(self, tensor, other):
        same = tensor.shape == other.shape and tensor.dtype == other.dtype
        return same and (tensor.dtype.kind == "f" or np.array_equal(tensor, other))

    def vjp(self, node, inputs, outputs, upstream, dtype):
        return OPERATIONS[node.op][1](upstream[0], *inputs)

    def run_loop(self, node, inputs):
        return None

    def loop_vjp(self, node, inputs, upstream):
        return None

    def jvp(self, node, inputs, outputs, tangents, dtype):
        ones = OPERATIONS[node.op][1](np.ones_like(outputs[0]), *inputs)
        parts = [g * t for g, t in zip(ones, tangents, strict=True) if t is not None]
        return [sum(parts)]

    def rule(self, node):
        return node.raw

    def gradient(self, node, which, parts):
        return parts[0]

    def choice(self, tensor):
        return int(tensor)

    def array(self, tensor):
        return tensor

    def tensor(self, array, like):
        return np.asarray(array, like.dtype)

    def add(self, tensors):
        return sum(tensors)

    def zeros(self, like):
        return np.zeros_like(like)

    def cast(self, tensor, dtype):
        return tensor.astype(dtype) if tensor.dtype.kind == "f" else tensor


@dataclass
class Writer:
    """A program as it is written."""

    nodes: list = field(default_factory=list)
    values: list = field(default_factory=list)
    inputs: list = field(default_factory=list)

    def value(self, dtype="float64", constant=None):
        self.values.append(Value(None, dtype, "", constant, HERE if constant is not None else None))
        return len(self.values) - 1

    def given(self, dtype="float64"):
        self.inputs.append(self.value(dtype))
        return self.inputs[-1]

    def constant(self, number):
        array = np.asarray(number)
        return self.value(array.dtype.name, array)

    def op(self, op, *inputs, kind=NodeKind.OPERATION, count=1, dtype="float64", **more):
        dtype = {"below": "bool", "equal": "bool", "round": "int64"}.get(op, dtype)
        outputs = tuple(self.value(dtype) for _ in range(count))
        rule = STOPPED if op == "stop" else more.pop("rule", ENGINE)
        node = Node(kind, op, op, inputs, outputs, rule, more.pop("place", HERE), **more)
        self.nodes.append(node)
        return outputs[0] if count == 1 else outputs

    def program(self, *outputs, title=""):
        return Program(title, tuple(self.nodes), tuple(self.values), tuple(self.inputs), outputs)


def written(write, count=1, title=""):
    """The program that a function of a writer and of inputs writes."""
    w = Writer()
    outputs = write(w, *(w.given() for _ in range(count)))
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return w.program(*outputs, title=title)


def ruled(rule_program, gradients, reads):
    """The gradient of a node, as a program."""
    return RuleBody(rule_program, reads, gradients)
