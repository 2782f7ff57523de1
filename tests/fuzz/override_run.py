"""A program as TensorFlow and Keras code, and its overrides as overrides."""

import re
from contextlib import ExitStack
from typing import Any

import keras
import tensorflow as tf

import pullback as pb
from tests.fuzz.override_machine import BIAS, KERNELS
from tests.fuzz.override_programs import Program, Rule, Step, Target
from tests.modes import MODES

FUNCTIONS: dict[str, Any] = {
    "relu": tf.nn.relu, "tanh": tf.tanh, "sigmoid": tf.sigmoid, "square": tf.square, "negative": tf.negative,
    "softmax": tf.nn.softmax, "gelu": tf.nn.gelu, "multiply": tf.multiply, "add": tf.add,
    "subtract": tf.subtract, "maximum": tf.maximum, "matmul": tf.matmul, "transpose": tf.transpose,
    "reduce_sum": tf.reduce_sum, "stack": tf.stack, "split": tf.split, "concat": tf.concat,
    "where": tf.where, "cast": tf.cast,
}  # fmt: skip


def double(x: Any) -> Any:
    return tf.tanh(x) * 2.0


def mixed(x: Any) -> Any:
    return tf.nn.relu(double(x)) + x


def blend(x: Any, y: Any) -> Any:
    return tf.tanh(x) * y


def rowsum(x: Any) -> Any:
    return tf.broadcast_to(tf.reduce_sum(x, 1, keepdims=True), tf.shape(x))


def swap(x: Any) -> Any:
    a, b = tf.split(x, 2)
    return tf.concat([b, a], 0)


def pile(x: Any, y: Any) -> Any:
    return tf.reduce_sum(tf.stack([x, y]), 0)


def where(x: Any, y: Any) -> Any:
    return tf.where(x > 0, x, y)


def cast(x: Any) -> Any:
    return tf.cast(tf.cast(x, tf.float32), tf.float64)


OWN = {
    "double": double,
    "blend": blend,
    "mixed": mixed,
    "rowsum": rowsum,
    "swap": swap,
    "pile": pile,
    "where": where,
    "cast": cast,
}


def dense(name: str, **options: Any) -> keras.layers.Layer:
    layer = keras.layers.Dense(2, name=name, dtype="float64", **options)
    layer.build((None, 2))
    layer.set_weights([KERNELS[name], BIAS])
    return layer


class Block(keras.layers.Layer):
    """Two layers in one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.first = dense("blk_dense")
        self.second = keras.layers.Activation("tanh", name="blk_act", dtype="float64")

    def call(self, x: Any) -> Any:
        return self.second(self.first(x))


class Whole(keras.layers.Layer):
    """A program as the call of a layer."""

    def __init__(self, function: Any, **options: Any) -> None:
        super().__init__(**options)
        self.function = function

    def call(self, x: Any, y: Any) -> Any:
        return self.function(x, y)


CLASSES = {
    "Dense": keras.layers.Dense, "ReLU": keras.layers.ReLU, "Activation": keras.layers.Activation,
    "LayerNormalization": keras.layers.LayerNormalization, "Dropout": keras.layers.Dropout, "Block": Block,
}  # fmt: skip


class Build:
    """The objects of one program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        block = Block(name="lay_block", dtype="float64")
        self.layers: dict[str, Any] = {
            "lay_dense": dense("lay_dense"),
            "lay_sharp": dense("lay_sharp", activation="relu"),
            "lay_relu": keras.layers.ReLU(name="lay_relu", dtype="float64"),
            "lay_tanh": keras.layers.Activation("tanh", name="lay_tanh", dtype="float64"),
            "lay_norm": keras.layers.LayerNormalization(name="lay_norm", dtype="float64"),
            "lay_drop": keras.layers.Dropout(0.5, name="lay_drop", dtype="float64"),
            "lay_block": block,
            "blk_dense": block.first,
            "blk_act": block.second,
        }
        self.layers["lay_norm"].build((None, 2))
        self.calls: dict[int, Any] = {}

    def function(self) -> Any:
        def fuzzed(x: Any, y: Any) -> Any:
            return self.run(self.program.steps, [x, y])

        return fuzzed

    def run(self, steps: Any, registers: list[Any]) -> Any:
        registers = list(registers)
        for step in steps:
            registers.append(self.step(step, [registers[a] for a in step.args]))
        return registers[-1]

    def step(self, step: Step, args: list[Any]) -> Any:
        if step.subs:
            return self.flow(step, args[0])
        if step.name in self.layers:
            return self.layers[step.name](args[0])
        return (OWN.get(step.name) or FUNCTIONS[step.name])(*args)

    def flow(self, step: Step, x: Any) -> Any:
        first = step.subs[0]
        if step.name == "cond":
            return tf.cond(
                tf.reduce_max(x) > 0.0,
                lambda: self.run(first, [x]),
                lambda: self.run(step.subs[1], [x]),
            )
        if step.name == "while":
            return tf.while_loop(
                lambda i, _: i < 2, lambda i, h: (i + 1, self.run(first, [h])), (0, x)
            )[1]
        if step.name == "map_fn":
            return tf.map_fn(lambda row: self.run(first, [row]), x)
        if step.name == "helper":
            return (lambda h: self.run(first, [h]))(x)
        if id(step) not in self.calls:
            self.calls[id(step)] = tf.function(lambda h: self.run(first, [h]), autograph=False)
        return self.calls[id(step)](x)

    # Overrides.

    def overrides(self) -> list[pb.Override]:
        return [
            pb.override([(self.target(t), rule_of(r, t)) for t, r in lines])
            for lines in self.program.overrides
        ]

    def target(self, target: Target) -> Any:
        found = self.plain_target(target.kind, target.name)
        return found if target.part is None else pb.inside(self.plain_target(*target.part), found)

    def plain_target(self, kind: str, name: str) -> Any:
        if kind == "where":
            return pb.where(lambda op: op.type == name)
        known = {"function": FUNCTIONS, "user": OWN, "class": CLASSES, "layer": self.layers}
        if kind == "regex":
            return re.compile(name)
        return name if kind == "op" else known[kind][name]

    def overridden(self) -> Any:
        """The program under its overrides, as a function of its inputs."""
        program, function = self.program, self.function()
        function = tf.autograph.experimental.do_not_convert(function)
        if program.form == "layer":
            function = Whole(function, dtype="float64")
        elif program.form != "plain":
            function = tf.function(function)
        if program.form == "traced before":
            function(*self.xs())
        if program.use == "applied":
            for override in reversed(self.overrides()):
                function = override(function)
            return function
        if program.use == "block outside":
            return function

        def in_blocks(*xs: Any) -> Any:
            with ExitStack() as stack:
                for override in self.overrides():
                    stack.enter_context(override)
                return function(*xs)

        return tf.autograph.experimental.do_not_convert(in_blocks)

    def xs(self) -> list[tf.Tensor]:
        return [tf.reshape(tf.constant(x, tf.float64) / 8.0, [2, 2]) for x in self.program.xs]

    def gradients(self, function: Any, mode: str) -> list[Any]:
        def weighted(x: Any, y: Any) -> Any:
            return function(x, y) * tf.constant([[1.0, -2.0], [3.0, 0.5]], tf.float64)

        with ExitStack() as stack:
            if self.program.use == "block outside":
                for override in self.overrides():
                    stack.enter_context(override)
            return MODES[mode].gradients(
                tf.autograph.experimental.do_not_convert(weighted), self.xs(), self.weights()
            )

    def weights(self) -> list[tf.Variable]:
        """Kernel and bias of each dense layer."""
        return [w.value for name in KERNELS for w in self.layers[name].weights]


def rule_of(rule: Rule, target: Target) -> Any:
    """A rule as a function of the upstream, or as a list of one per input."""
    factor = float(rule.factor)

    def scaled(*dys: Any, original: Any) -> Any:
        return times(original(*dys), factor)

    def fixed(dy: Any) -> Any:
        return factor * dy

    def by_input(dy: Any, *, inputs: Any) -> Any:
        return factor * dy * inputs[0]

    def by_output(dy: Any, *, outputs: Any) -> Any:
        return factor * dy * outputs

    def guided(dy: Any, *, original: Any) -> Any:
        ordinary = original(dy)
        return None if ordinary is None else tf.where(dy > 0, ordinary, tf.zeros_like(ordinary))

    def cut(dy: Any, *, original: Any) -> Any:
        return None, original(dy)[1]

    def by_name(dy: Any, *, original: Any) -> Any:
        second = {"matmul": "b"}.get(target.name, "y")
        return {second: original(dy)[1]}

    def first(dy: Any, *, original: Any) -> Any:
        return times(original(dy)[0], factor)

    found = {
        "scaled": scaled, "fixed": fixed, "by input": by_input, "by output": by_output, "guided": guided,
        "cut": cut, "by name": by_name, "first": [first, pb.DEFAULT],
    }  # fmt: skip
    return found[rule.kind]


def times(gradients: Any, factor: float) -> Any:
    """Each of the gradients in this structure, multiplied."""
    if gradients is None:
        return None
    if isinstance(gradients, (list, tuple)):
        return type(gradients)(times(g, factor) for g in gradients)
    return tf.cast(factor, gradients.dtype) * gradients
