"""A case as TensorFlow code: its function, its rule, and its gradients in its mode."""

import functools
from typing import Any

import numpy as np
import tensorflow as tf

import pullback as pb
from tests.fuzz import define_oracle as oracle
from tests.fuzz.define_cases import Case, Leaf, Output, static_value
from tests.fuzz.trees import Path, at, mapped
from tests.modes import MODES, Mode, with_tape
from tests.strategies import Point

SPLITS = {0: [0, 0, 0], 1: [0, 0, 1], 3: [0, 1, 1, 3]}


def _with_unknown_ranks(function: Any) -> Any:
    def run(*args: Any) -> Any:
        signature = [tf.TensorSpec(None, x.dtype) for x in args]
        return tf.function(function, input_signature=signature)(*args)

    return run


UNKNOWN_RANKS = Mode("tf.function, tape outside, unknown ranks", _with_unknown_ranks, with_tape)
ALL_MODES = {**MODES, UNKNOWN_RANKS.name: UNKNOWN_RANKS}


def tensor(leaf: Leaf) -> tf.Tensor:
    return tf.constant(oracle.array_of(leaf), leaf.dtype)


class Run:
    """The objects of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.mode = ALL_MODES[case.mode]
        kinds = [s.kind for s in case.sources]
        self.xs = [tensor(s) for s in case.sources if s.kind != "variable"]
        self.variables = {
            i: tf.Variable(tensor(case.sources[i])) for i, k in enumerate(kinds) if k == "variable"
        }
        self.inside = [tf.Variable(tensor(v)) for v in case.inside]
        self.frozen = tf.Variable([1.0, 2.0], trainable=False)
        self.order = [i for i, k in enumerate(kinds) if k != "variable"]
        self.closed: list[Any] = []

    # Arguments.

    def argument(self, leaf: Leaf, xs: Any) -> Any:
        if leaf.source >= 0:
            if leaf.kind == "variable":
                return self.variables[leaf.source]
            x = xs[self.order.index(leaf.source)]
            if leaf.derived >= 0:
                x += 2 * xs[self.order.index(leaf.derived)]
            if leaf.kind == "ragged":
                return tf.RaggedTensor.from_row_splits(x, SPLITS[leaf.shape[0]], validate=False)
            return tf.IndexedSlices(x, tf.constant([2, 0])) if leaf.kind == "slices" else x
        if leaf.kind == "frozen variable":
            return self.frozen
        if leaf.kind in ("constant", "array", "int", "bool tensor", "string tensor", "sparse"):
            return _constant(leaf)
        return static_value(leaf)

    def bound(self, xs: Any) -> tuple[list[Any], dict[str, Any]]:
        made = [
            (p, mapped(p.tree, lambda leaf, _: self.argument(leaf, xs)))
            for p in self.case.parameters
        ]
        args = [value for p, value in made if p.passed == "position"]
        named = [(p.name, value) for p, value in made if p.passed == "keyword" and p.kind != "more"]
        # The order of what `**more` takes is that of the call, and that of the inputs.
        more = [(p.name, value) for p, value in made if p.kind == "more"]
        return args, dict([*reversed(named), *more])

    # The function.

    def body(self, *args: Any, **kwargs: Any) -> list[Any]:
        """The outputs, one by one."""
        bound = self.case.signature().bind(*args, **kwargs)
        bound.apply_defaults()
        given: list[Any] = []
        for name, value in bound.arguments.items():
            given += (
                list(value)
                if name == "rest"
                else list(value.values())
                if name == "more"
                else [value]
            )
        values = [at(given, path) for path, _ in self.case.flowing()]
        return [self.output(o, values) for o in self.case.outputs]

    def output(self, output: Output, values: list[Any]) -> Any:
        if output.form == "none":
            return None
        if output.form == "int":
            return tf.constant(7)
        if output.form == "sum":
            total = sum(real_sum(v) for v in (*values, *self.inside, *self.closed))
            return float(output.factor) * total
        value = values[output.leaf]
        x = core(value)
        result = tf.cast(output.factor, x.dtype) * (x if output.form == "scale" else x * x)
        return value.with_flat_values(result) if isinstance(value, tf.RaggedTensor) else result

    def function(self) -> Any:
        """The function with its gradient."""
        case, signature = self.case, self.case.signature()

        def plain(*args: Any, **kwargs: Any) -> Any:
            return packed(case.container, self.body(*args, **kwargs))

        def custom(*args: Any, **kwargs: Any) -> Any:
            outputs = plain(*args, **kwargs)
            if case.flat and case.container == "tuple" and len(outputs) > 1:
                return (*outputs, self.rule())
            return outputs, self.rule()

        plain.__signature__ = custom.__signature__ = signature
        plain.__name__ = custom.__name__ = "fuzzed"
        if case.verb == "plain":
            return plain
        return (
            pb.custom_gradient(custom)
            if case.verb == "custom_gradient"
            else pb.with_gradient(plain, self.rule())
        )

    def step(self, function: Any) -> Any:
        """The loss as a function of the tensors that are differentiated for."""

        def loss(*xs: Any) -> Any:
            args, kwargs = self.bound(xs)
            if self.case.closes >= 0:
                self.closed = [2 * xs[self.order.index(self.case.closes)]]
            outputs = unpacked(self.case.container, function(*args, **kwargs))
            terms = [
                self.term(o, value)
                for o, value in zip(self.case.outputs, outputs, strict=True)
                if oracle.flows(o) and o.weight
            ]
            return tf.add_n(terms) if terms else tf.zeros([], tf.float64)

        return tf.autograph.experimental.do_not_convert(loss)

    def term(self, output: Output, value: Any) -> Any:
        x = core(value)
        w = tf.constant(np.conj(oracle.weights(self.case, output)), x.dtype)
        return tf.reduce_sum(tf.cast(tf.math.real(w * x), tf.float64))

    # The rule.

    def rule(self) -> Any:
        case = self.case
        spread = case.container in ("tuple", "list")
        dys = [f"dy{i}" for i in range(len(case.outputs) if spread else 1)]
        asks = list(case.asks)
        first = ["*dys"] if case.spelling == "stars" else [*dys, *(["*"] if asks else [])]
        if case.spelling == "kwargs":
            asks = [name for name in asks if name != "variables"]
            first = [*dys, *(["*"] if asks else [])]
        head = ", ".join([*first, *asks, *(["**kwargs"] if case.spelling == "kwargs" else [])])
        given = "dys" if case.spelling == "stars" else f"({', '.join(dys)},)"
        offers = ", ".join(
            [*(f"{n}={n}" for n in asks), *(["**kwargs"] if case.spelling == "kwargs" else [])]
        )
        default = "DEFAULT" if "default" in case.forms else "None"
        scope: dict[str, Any] = {"_run": self.pull_back, "DEFAULT": pb.DEFAULT}
        exec(f"def fuzz_rule({head}):\n    return _run({given}, {default}, dict({offers}))", scope)
        if case.spelling != "wrapped":
            return scope["fuzz_rule"]

        @functools.wraps(scope["fuzz_rule"])
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return scope["fuzz_rule"](*args, **kwargs)

        return wrapper

    def pull_back(self, dys: Any, default: Any, offers: dict[str, Any]) -> Any:
        case = self.case
        # A body's own rule with any number of upstreams gets one for each leaf of a dict, too.
        spread = case.container in ("tuple", "list") or len(dys) > 1
        upstream = list(dys) if spread else unpacked(case.container, dys[0])
        factor = sum((real_sum(dy) for dy in upstream if dy is not None), tf.zeros([], tf.float64))
        more = tf.ones([], tf.float64)
        if "inputs" in offers:
            more += real_sum(at(list(offers["inputs"]), case.flowing()[0][0]))
        if "outputs" in offers:
            first = next(i for i, o in enumerate(case.outputs) if oracle.flows(o))
            more += real_sum(unpacked(case.container, offers["outputs"])[first])
        if "op" in offers and "fuzzed" not in str(offers["op"].name):
            raise AssertionError(f"op.name is {offers['op'].name!r}")
        ordinary = self.ordinary(offers, dys)
        found = {
            path: self.gradient(i, leaf, factor * more, ordinary.get(path), default, offers)
            for i, (path, leaf) in enumerate(case.flowing())
        }
        result = self.arranged(found)
        if offers.get("variables") is None:
            return result
        return result, [self.of_variable(v, factor * more) for v in offers["variables"]]

    def ordinary(self, offers: dict[str, Any], dys: Any) -> dict[Path, Any]:
        """What `original` gives, by path: a tuple of the inputs that hold tensors, or the one."""
        if "original" not in offers:
            return {}
        given, holding = offers["original"](*dys), self.case.holding()
        given = given if offers.get("variables") is None else given[0]
        parts = (given,) if len(holding) == 1 else given
        if len(parts) != len(holding):
            raise AssertionError(f"original returned {parts!r} for {len(holding)} inputs")
        whole = dict(zip(holding, parts, strict=True))
        return {path: at(whole[path[0]], path[1:]) for path, _ in self.case.flowing()}

    def of_variable(self, variable: Any, factor: Any) -> Any:
        index = next(i for i, v in enumerate(self.inside) if v is variable)
        leaf = self.case.inside[index]
        return tf.cast(factor * 5.0 * oracle.pattern(leaf.shape), leaf.dtype)

    def gradient(
        self, i: int, leaf: Leaf, factor: Any, ordinary: Any, default: Any, offers: Any
    ) -> Any:
        form = self.case.forms[i]
        numbers = (i + 1) * oracle.pattern(leaf.shape)
        simple = {
            "none": None, "default": default, "zero": 0.0, "number": 2.0, "numpy scalar": np.float32(2.0),
            "numpy": numbers, "text": "nonsense", "flag": True, "bytes": b"nonsense", "one": 1.0,
            "numpy flags": np.ones(leaf.shape, bool), "object": object(), "set": {1.0},
        }  # fmt: skip
        if form in simple:
            return simple[form]
        base = factor * numbers
        path = self.case.flowing()[i][0]
        if self.case.dynamic and "inputs" in offers:
            like = core(at(list(offers["inputs"]), path))
            base = base * tf.ones(tf.shape(like), tf.float64)
        base = tf.complex(base, base) if leaf.dtype.startswith("complex") else base
        base = tf.cast(base, leaf.dtype)
        if ordinary is not None:
            base += tf.cast(core(ordinary), leaf.dtype)
        return _in_form(base, form, leaf)

    def arranged(self, found: dict[Path, Any]) -> Any:
        """The gradients as the rule returns them."""
        case = self.case
        trees = [
            mapped(p.tree, lambda _, path: found.get(path), (i,))
            for i, p in enumerate(case.parameters)
        ]
        return _arranged(case, trees, list(found.values()))

    # The result.

    def gradients(self, function: Any) -> tuple[list[Any], list[Any]]:
        wanted = [*self.variables.values(), *self.inside] if self.mode.takes_variables else []
        found = self.mode.gradients(self.step(function), self.xs, wanted)
        sources: list[Any] = [oracle.NOTHING] * len(self.case.sources)
        for index, gradient in zip([*self.order, *self.variables], found, strict=False):
            sources[index] = gradient
        if not self.mode.takes_variables:
            return sources, []
        return sources, list(found[len(self.xs) + len(self.variables) :])


def core(value: Any) -> Any:
    if isinstance(value, tf.RaggedTensor):
        return value.flat_values
    return value.values if isinstance(value, tf.IndexedSlices) else tf.convert_to_tensor(value)


def real_sum(value: Any) -> Any:
    return tf.reduce_sum(tf.cast(tf.math.real(core(value)), tf.float64))


def packed(container: str, outputs: list[Any]) -> Any:
    if container == "nested":
        return {"first": outputs[0], "others": tuple(outputs[1:])}
    if container == "dict":
        return {f"o{len(outputs) - i}": value for i, value in enumerate(outputs)}
    return {"single": lambda o: o[0], "tuple": tuple, "list": list}[container](outputs)


def unpacked(container: str, outputs: Any) -> list[Any]:
    if container == "nested":
        return [outputs["first"], *outputs["others"]]
    if container == "dict":
        return [outputs[f"o{len(outputs) - i}"] for i in range(len(outputs))]
    return [outputs] if container == "single" else list(outputs)


def _constant(leaf: Leaf) -> Any:
    value = oracle.array_of(leaf)
    if leaf.kind == "array":
        return value.astype(np.float32)
    if leaf.kind == "sparse":
        return tf.sparse.from_dense(
            tf.constant(value, tf.float32) if value.ndim else tf.constant([1.0])
        )
    dtypes = {"constant": leaf.dtype, "int": "int32", "bool tensor": "bool"}
    return (
        tf.constant("s")
        if leaf.kind == "string tensor"
        else tf.constant(value.astype(dtypes.get(leaf.kind, "f4")), dtypes[leaf.kind])
    )


def _in_form(base: Any, form: str, leaf: Leaf) -> Any:
    if form in ("float64", "float32", "int64"):
        return tf.cast(tf.math.real(base), form)
    if form == "complex":
        return tf.complex(*[tf.cast(base, tf.float64)] * 2)
    if form == "larger":
        return tf.stack([base, 2 * base])
    if form == "wider":
        repeats = [3 if i == leaf.shape.index(1) else 1 for i in range(len(leaf.shape))]
        return tf.tile(base, repeats)
    if form == "ragged":
        return tf.RaggedTensor.from_row_splits(base, SPLITS[leaf.shape[0]], validate=False)
    if form in ("slices", "repeated slices"):
        return _slices(base, form, leaf.shape)
    return _wrong(base, form, leaf)


def _slices(base: Any, form: str, shape: tuple[int, ...]) -> Any:
    rows = tf.range(shape[0])
    if form == "slices":
        return tf.IndexedSlices(tf.reverse(base, [0]), tf.reverse(rows, [0]), tf.constant(shape))
    return tf.IndexedSlices(
        tf.concat([base, base[:1]], 0), tf.concat([rows, [0]], 0), tf.constant(shape)
    )


def _wrong(base: Any, form: str, leaf: Leaf) -> Any:
    wrong = {
        "scalar": lambda: tf.reduce_sum(base),
        "smaller": lambda: tf.reduce_sum(base, 0),
        "longer": lambda: tf.concat([base, tf.ones([*leaf.shape[:-1], 1], base.dtype)], -1),
        "string tensor": lambda: tf.constant("nonsense"),
        "bool tensor": lambda: tf.ones(leaf.shape, tf.bool),
        "sparse": lambda: tf.sparse.from_dense(tf.ones(leaf.shape or [1])),
        "namedtuple": lambda: Point(base, base),
        "list": lambda: [[base]],
    }
    return wrong[form]() if form in wrong else base


def _arranged(case: Case, trees: list[Any], flat: list[Any]) -> Any:
    result, holding = oracle.effective_result(case), case.holding()
    own = tuple(trees[i] for i in holding)
    names = [p.name for p in case.parameters]
    if result == "all":
        return tuple(trees)
    if result == "by name":
        return {names[i]: trees[i] for i in reversed(holding)}
    if result == "one in a tuple":
        return own
    if result == "nonsense for static":
        return tuple(t if i in holding else "nonsense" for i, t in enumerate(trees))
    whole = {"text": "nonsense", "flag": True, "unknown name": {"zzz": own[0]}}
    wrong = {"one more": (*own, "nonsense"), "one less": own[:-1], "flat": tuple(flat), **whole}
    if result in wrong:
        return wrong[result]
    if result == "short structure":
        own = _shortened(own)
    return own[0] if len(own) == 1 else own


def _shortened(own: tuple[Any, ...]) -> tuple[Any, ...]:
    index = next(i for i, t in enumerate(own) if isinstance(t, (list, dict)) and len(t) > 1)
    tree = own[index]
    less = dict(list(tree.items())[:-1]) if isinstance(tree, dict) else tree[:-1]
    return (*own[:index], less, *own[index + 1 :])
