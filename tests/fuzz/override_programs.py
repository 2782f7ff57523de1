"""Random small programs and overrides, as plain data. Every value is a 2×2 matrix."""

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.choosing import one_of

UNARY = ("relu", "tanh", "sigmoid", "square", "negative", "softmax", "gelu")
BINARY = ("multiply", "add", "subtract", "maximum", "matmul")
SHAPING = ("rowsum", "swap", "pile", "where", "cast", "transpose")
USER = ("double", "mixed", "blend")
LAYERS = {
    "lay_dense": "Dense", "lay_sharp": "Dense", "lay_relu": "ReLU", "lay_tanh": "Activation",
    "lay_norm": "LayerNormalization", "lay_drop": "Dropout", "lay_block": "Block",
}  # fmt: skip
INNER_LAYERS = {"blk_dense": "Dense", "blk_act": "Activation"}
FLOW = ("cond", "while", "map_fn", "call", "helper")
ROWWISE = ("relu", "tanh", "sigmoid", "square", "negative", "double")

UNARY_OPS = ("Relu", "Tanh", "Sigmoid", "Square", "Neg", "Softmax")
BINARY_OPS = ("Mul", "AddV2", "Sub", "Maximum", "MatMul")
OTHER_OPS = (
    "Sum",
    "BroadcastTo",
    "Split",
    "ConcatV2",
    "Pack",
    "SelectV2",
    "Cast",
    "Transpose",
    "BiasAdd",
)
OTHER_FUNCTIONS = ("reduce_sum", "stack", "split", "concat", "where", "cast", "transpose")
# What the tests' own code around a program runs nothing of.
OURS_ALONE = {*UNARY_OPS, "MatMul", *UNARY, "matmul", "Maximum", "maximum", "Softmax", "BiasAdd"}


@dataclass(frozen=True)
class Step:
    """One instruction: what it does, to which registers, and the programs inside it."""

    name: str
    args: tuple[int, ...]
    subs: tuple[tuple["Step", ...], ...] = ()


@dataclass(frozen=True)
class Target:
    """What an override names: its kind, the name, and the part of the program inside which it is meant."""

    kind: str  # "op", "function", "layer", "class", "user", "where", "regex"
    name: str
    part: tuple[str, str] | None = None


@dataclass(frozen=True)
class Rule:
    """What is done with the upstream: see `override_machine.ruled`."""

    kind: str
    factor: int = 2


@dataclass(frozen=True)
class Program:
    """A program of two inputs, the overrides around it from the outermost inwards, and how it is run."""

    steps: tuple[Step, ...]
    xs: tuple[tuple[int, ...], ...]
    overrides: tuple[tuple[tuple[Target, Rule], ...], ...]
    mode: str
    form: str  # "plain", "function", "traced before", "layer"
    use: str  # "applied", "block inside", "block outside"

    def names(self) -> set[str]:
        return _names(self.steps)


def _names(steps: tuple[Step, ...]) -> set[str]:
    inner = [_names(sub) for step in steps for sub in step.subs]
    return {step.name for step in steps}.union(*inner)


@st.composite
def step_of(draw: Any, registers: int, names: tuple[str, ...], depth: int) -> Step:
    name = draw(one_of(names))
    count = 2 if name in (*BINARY, "pile", "where", "blend") else 1
    # The last register more often than the others, so that programs are deep.
    where = one_of([*range(registers), registers - 1, registers - 1])
    args = tuple(draw(where) for _ in range(count))
    if name == "map_fn":
        return Step(name, args, (draw(programs_of(1, ROWWISE, 0)),))
    if name in FLOW:
        inner = _choice(depth - 1)
        return Step(
            name,
            args,
            tuple(draw(programs_of(1, inner, depth - 1)) for _ in range(1 + (name == "cond"))),
        )
    return Step(name, args)


def _choice(depth: int) -> tuple[str, ...]:
    return (*UNARY, *BINARY, *SHAPING, *USER, *LAYERS, *(FLOW * 2 if depth > 0 else ()))


@st.composite
def programs_of(draw: Any, inputs: int, names: tuple[str, ...], depth: int) -> tuple[Step, ...]:
    most = 4 if depth > 1 else 2
    steps: list[Step] = []
    for _ in range(draw(one_of(range(1, most + 1)))):
        steps.append(draw(step_of(inputs + len(steps), names, depth)))
    return tuple(steps)


def ops_and_functions(names: set[str]) -> list[Target]:
    """Targets that may well occur in a program with such steps, and some that do not."""
    from tests.fuzz.override_machine import OPS_OF

    ops = {op for name in names for op in OPS_OF.get(name, ())}
    found = [Target("op", op) for op in sorted(ops)]
    found += [Target("where", op) for op in sorted(ops & set(UNARY_OPS))]
    found += [Target("function", n) for n in sorted(names & {*UNARY, *BINARY})]
    functions = {
        "rowsum": "reduce_sum",
        "swap": "split",
        "pile": "stack",
        "where": "where",
        "cast": "cast",
    }
    found += [Target("function", functions[n]) for n in sorted(names & set(functions))]
    found += [Target("user", n) for n in sorted(names & set(USER))]
    for layer in sorted(names & set(LAYERS)):
        found += [Target(kind, layer) for kind in ("layer", "regex")] + [
            Target("class", LAYERS[layer])
        ]
    return found


@st.composite
def targets(draw: Any, names: set[str]) -> Target:
    likely = ops_and_functions(names)
    anything = [
        *(Target("op", op) for op in (*UNARY_OPS, *BINARY_OPS, *OTHER_OPS)),
        *(Target("function", f) for f in (*UNARY, *BINARY, *OTHER_FUNCTIONS)),
        *(Target("layer", layer) for layer in (*LAYERS, *INNER_LAYERS)),
        *(Target("class", c) for c in sorted(set(LAYERS.values()))),
        *(Target("user", u) for u in USER),
    ]
    rare = draw(one_of(range(10))) == 9
    found = draw(one_of(anything if rare or not likely else likely))
    parts = [("user", n) for n in sorted(names & set(USER))]
    parts += [(kind, n) for n in sorted(names & set(LAYERS)) for kind in ("layer", "regex")]
    parts += [("class", LAYERS[n]) for n in sorted(names & set(LAYERS))]
    if parts and found.kind in ("op", "function", "where") and draw(one_of(range(3))) == 0:
        return Target(found.kind, found.name, draw(one_of(parts)))
    return found


def rules_for(target: Target) -> st.SearchStrategy[Rule]:
    unary = target.name in (*UNARY_OPS, *UNARY) or target.kind in (
        "layer",
        "class",
        "user",
        "regex",
    )
    kinds = ["scaled"]
    if target == Target("user", "blend"):
        kinds += ["cut", "by name"]
    elif unary:
        kinds += ["fixed", "by input", "by output", "guided", "fixed"]
    if target.kind == "op" and target.name in BINARY_OPS:
        kinds += ["first", "cut"]
    if target.kind == "function" and target.name in BINARY:
        kinds += ["cut", "by name"]
    return st.builds(Rule, one_of(kinds), one_of([2, -1, 3, -7]))


@st.composite
def lines(draw: Any, names: set[str]) -> tuple[tuple[Target, Rule], ...]:
    chosen = draw(st.lists(targets(names), min_size=1, max_size=2, unique=True))
    return tuple((target, draw(rules_for(target))) for target in chosen)


@st.composite
def programs(draw: Any, modes: tuple[str, ...]) -> Program:
    steps = draw(programs_of(2, _choice(2), 2))
    names = _names(steps)
    if names & {"mixed"}:
        names |= {"double", "relu"}
    overrides = tuple(draw(lines(names)) for _ in range(draw(one_of([1, 1, 2]))))
    numbers = st.tuples(*[st.integers(-9, 9)] * 4)
    return Program(
        steps,
        (draw(numbers), draw(numbers)),
        overrides,
        draw(one_of(modes)),
        draw(one_of(["plain", "plain", "function", "traced before", "layer"])),
        draw(one_of(["applied", "applied", "block inside", "block outside"])),
    )
