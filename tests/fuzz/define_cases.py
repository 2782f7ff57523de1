"""Random functions with a gradient of their own, as plain data: signature, arguments, outputs, and what the rule does.

Everything is small and whole-numbered, so that sums and products are exact in every dtype but for its last cast.
"""

import inspect
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from tests.fuzz.choosing import one_of
from tests.fuzz.trees import Path, leaves, mapped
from tests.strategies import Layer, Point

REAL = ("float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
FLOWING = ("tensor", "variable", "ragged", "slices", "constant")
TENSORS = (*FLOWING, "int", "bool tensor", "string tensor", "sparse", "frozen variable")
NUMBERS = ("number", "array")
STATIC = ("none", "text", "flag", "callable")
SHAPES = ((), (1,), (2,), (3,), (0,), (2, 3), (1, 3), (2, 1), (0, 2), (2, 0), (1, 2, 2))

RIGHT = (
    "exact", "float64", "float32", "int64", "complex", "larger", "wider", "zero", "none", "default",
    "numpy", "slices", "repeated slices", "ragged", "number", "numpy scalar",
)  # fmt: skip
WRONG = (
    "scalar", "smaller", "longer", "text", "flag", "bytes", "numpy flags", "string tensor",
    "bool tensor", "sparse", "namedtuple", "object", "one", "list", "set",
)  # fmt: skip
# What gives a fixed number whatever the upstream is, or rounds it: such a rule is not linear.
FIXED = ("numpy", "number", "numpy scalar", "int64")


@dataclass(frozen=True)
class Leaf:
    """A value somewhere in the arguments."""

    kind: str
    dtype: str = "float32"
    shape: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    source: int = -1  # which of the tensors that are differentiated for, or variables
    derived: int = -1  # twice this other source is added to it before the call

    @property
    def flows(self) -> bool:
        return self.kind in FLOWING


@dataclass(frozen=True)
class Parameter:
    """A parameter, how it is passed, and what is passed for it."""

    name: str
    kind: str  # "only", "either", "rest", "keyword", "more"
    passed: str  # "position", "keyword", "default"
    tree: Any


@dataclass(frozen=True)
class Output:
    """One output: a multiple of a leaf, of its square, or a sum over leaves and variables."""

    form: str  # "sum", "scale", "square", "int", "none"
    leaf: int = -1
    factor: int = 1
    weight: int = 1  # with which it enters the loss; 0: it does not


@dataclass(frozen=True)
class Case:
    """One function, its call, its rule, and the way it is differentiated."""

    verb: str
    mode: str
    parameters: tuple[Parameter, ...]
    outputs: tuple[Output, ...]
    container: str  # of the outputs
    inside: tuple[Leaf, ...]  # variables read inside
    asks: tuple[str, ...]
    spelling: str  # of the rule's signature
    forms: tuple[str, ...]  # one per flowing leaf
    result: str  # how the gradients are put together
    flat: bool  # `return z, w, backward` instead of `return (z, w), backward`
    dynamic: bool  # whether the rule takes shapes from its inputs
    sources: tuple[Leaf, ...] = field(default=())
    closes: int = -1  # twice this source is closed over, and added to the sums

    def all_leaves(self) -> list[tuple[Path, Leaf]]:
        """All leaves of the arguments, by path; the first key is the number of the parameter."""
        trees = [p.tree for p in self.parameters]
        return [(path, leaf) for path, leaf in leaves(trees) if isinstance(leaf, Leaf)]

    def flowing(self) -> list[tuple[Path, Leaf]]:
        return [(path, leaf) for path, leaf in self.all_leaves() if leaf.flows]

    def holding(self) -> list[int]:
        """The parameters that hold tensors."""
        return sorted({path[0] for path, leaf in self.all_leaves() if leaf.kind in TENSORS})

    def signature(self) -> inspect.Signature:
        return inspect.Signature(_signature(self.parameters))

    @property
    def is_wrong(self) -> bool:
        return self.result in WRONG_RESULTS or any(form in WRONG for form in self.forms)


_KINDS = {
    "only": inspect.Parameter.POSITIONAL_ONLY,
    "either": inspect.Parameter.POSITIONAL_OR_KEYWORD,
    "keyword": inspect.Parameter.KEYWORD_ONLY,
}


def _signature(parameters: tuple[Parameter, ...]) -> list[inspect.Parameter]:
    found: list[inspect.Parameter] = []
    for p in parameters:
        if p.kind == "rest":
            kind, name = inspect.Parameter.VAR_POSITIONAL, "rest"
        elif p.kind == "more":
            kind, name = inspect.Parameter.VAR_KEYWORD, "more"
        else:
            kind, name = _KINDS[p.kind], p.name
        if name in {f.name for f in found}:
            continue
        default = static_value(p.tree) if p.passed == "default" else inspect.Parameter.empty
        found.append(inspect.Parameter(name, kind, default=default))
    return found


def static_value(leaf: Leaf) -> Any:
    """The value of a leaf that needs no framework."""
    values = {"none": None, "text": "text", "flag": True, "callable": len}
    return values[leaf.kind] if leaf.kind in values else float(leaf.values[0])


INTEGERS = st.integers(-2, 2)
FACTORS = one_of([1, 2, -1, 3])
RIGHT_RESULTS = ("own", "own", "all", "by name", "one in a tuple")
WRONG_RESULTS = (
    "one more", "one less", "flat", "unknown name", "short structure", "text", "flag", "nonsense for static",
)  # fmt: skip


@st.composite
def flowing_leaves(draw: Any, kinds: tuple[str, ...] = FLOWING) -> Leaf:
    kind = draw(one_of(("tensor", "tensor", *kinds)))
    dtype = draw(one_of((*REAL, *COMPLEX) if kind != "variable" else REAL[:2]))
    shape = draw(one_of(SHAPES))
    if kind == "ragged":
        shape = (draw(one_of([0, 1, 3])),)
    if kind == "slices":
        shape = draw(one_of([(2,), (2, 3)]))
    return Leaf(kind, dtype, shape, draw(_values(shape)))


def _values(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[int, ...]]:
    count = 1
    for side in shape:
        count *= side
    return st.tuples(*[INTEGERS] * count)


@st.composite
def other_leaves(draw: Any) -> Leaf:
    kind = draw(one_of((*STATIC, *NUMBERS, *TENSORS[len(FLOWING) :])))
    shape = () if kind in ("number", *STATIC) else draw(one_of([(), (2,), (2, 3)]))
    return Leaf(kind, "float32", shape, draw(_values(shape)))


LEAVES = st.one_of(flowing_leaves(), flowing_leaves(), other_leaves())
KEYS = st.permutations(["w", "b", "a"])


@st.composite
def dicts(draw: Any, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    keys = draw(KEYS)[: draw(st.integers(1, 3))]
    return {key: draw(inner) for key in keys}


def structures(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.lists(inner, min_size=1, max_size=2).map(tuple),
        dicts(inner),
        st.builds(Point, inner, inner),
        st.builds(Layer, inner, inner),
    )


TREES = st.one_of(
    LEAVES, LEAVES, LEAVES, structures(LEAVES), structures(st.one_of(LEAVES, structures(LEAVES)))
)


@st.composite
def parameters(draw: Any) -> tuple[Parameter, ...]:
    names = iter("pqrstuv")
    found: list[Parameter] = []
    only, either = draw(st.integers(0, 1)), draw(st.integers(0, 2))
    fixed = ["only"] * only + ["either"] * either
    first_default = draw(one_of([len(fixed), len(fixed), max(len(fixed) - 1, 0)]))
    by_keyword = False
    for i, kind in enumerate(fixed):
        if i >= first_default:
            found.append(Parameter(next(names), kind, "default", draw(defaults())))
            continue
        by_keyword |= kind == "either" and draw(st.booleans())
        found.append(
            Parameter(next(names), kind, "keyword" if by_keyword else "position", draw(TREES))
        )
    if not by_keyword and first_default == len(fixed):
        count = draw(one_of([0, 0, 1, 2]))
        found += [Parameter(f"rest[{i}]", "rest", "position", draw(TREES)) for i in range(count)]
    for _ in range(draw(one_of([0, 0, 1]))):
        default = draw(st.booleans())
        tree = draw(defaults()) if default else draw(TREES)
        found.append(Parameter(next(names), "keyword", "default" if default else "keyword", tree))
    count = draw(one_of([0, 0, 1, 2]))
    found += [Parameter("m" + next(names), "more", "keyword", draw(TREES)) for _ in range(count)]
    return tuple(found)


@st.composite
def defaults(draw: Any) -> Leaf:
    return Leaf(draw(one_of([*STATIC, "number"])), values=(draw(INTEGERS),))


@st.composite
def cases(draw: Any, modes: tuple[str, ...], wrong: bool | None = None) -> Case:
    """A function, its call, its rule and a mode."""
    given = draw(parameters())
    if not any(
        leaf.kind in ("tensor", "ragged", "slices") for _, leaf in leaves([p.tree for p in given])
    ):
        given = (
            Parameter("x", "either", "keyword", draw(flowing_leaves(("tensor",)))),
            *_later(given),
        )
    given, sources = _with_sources(given, draw(one_of(range(6))))
    flowing = [leaf for _, leaf in leaves([p.tree for p in given]) if leaf.flows]
    inside = tuple(draw(st.lists(_variables(), max_size=2)))
    outputs = draw(st.lists(_outputs(len(flowing)), max_size=2))
    if inside or not any(o.form in ("scale", "square") and o.weight for o in outputs):
        outputs.append(Output("sum", factor=draw(FACTORS)))
    container = draw(one_of(["tuple", "list", "dict", "nested"]))
    container = (
        draw(one_of(["single", "single", "tuple", "dict"])) if len(outputs) == 1 else container
    )
    wrong = draw(one_of(range(4))) == 3 if wrong is None else wrong
    forms = [draw(_right_form(leaf)) for leaf in flowing]
    result = draw(one_of(RIGHT_RESULTS))
    if wrong and draw(st.booleans()):
        result = draw(one_of(WRONG_RESULTS))
    elif wrong:
        index = draw(st.integers(0, len(flowing) - 1))
        forms[index] = draw(_wrong_form(flowing[index]))
    asks = draw(st.sets(one_of(["inputs", "outputs", "original", "variables", "op"]), max_size=3))
    verb = draw(one_of(["custom_gradient", "with_gradient"]))
    # A body that returns its rule holds fixed what its arguments were made into, as far as a mode can tell.
    could = verb == "with_gradient" and any(o.form == "sum" for o in outputs)
    closed = [i for i, s in enumerate(sources) if could and s.kind == "tensor"]
    return Case(
        verb=verb,
        mode=draw(one_of(modes)),
        parameters=given,
        outputs=tuple(outputs),
        container=container,
        inside=inside,
        asks=tuple(sorted(asks)),
        spelling=draw(one_of(["plain", "plain", "wrapped", "kwargs", "stars"])),
        forms=tuple(forms),
        result=result,
        flat=draw(st.booleans()),
        dynamic=draw(st.booleans()),
        sources=sources,
        closes=draw(one_of([-1, *closed])),
    )


def _later(given: tuple[Parameter, ...]) -> list[Parameter]:
    """Only what may follow a parameter that is passed by keyword."""
    return [p for p in given if p.kind in ("keyword", "more")]


@st.composite
def _variables(draw: Any) -> Leaf:
    shape = draw(one_of([(), (2,), (0,), (2, 3)]))
    return Leaf("variable", draw(one_of(REAL[:2])), shape, draw(_values(shape)))


@st.composite
def _outputs(draw: Any, count: int) -> Output:
    form = draw(one_of(["sum", "scale", "scale", "square", "int", "none"]))
    weight = draw(one_of([1, 1, 2, -1, 0]))
    return Output(form, draw(st.integers(0, count - 1)), draw(FACTORS), weight)


def _right_form(leaf: Leaf) -> st.SearchStrategy[str]:
    fits = {
        "wider": 1 in leaf.shape and leaf.kind != "ragged",
        "larger": leaf.kind not in ("ragged", "slices"),
        "complex": leaf.dtype in REAL,
        "slices": bool(leaf.shape) and leaf.kind in ("tensor", "variable"),
        "repeated slices": bool(leaf.shape)
        and leaf.shape[0] > 0
        and leaf.kind in ("tensor", "variable"),
        "ragged": leaf.kind == "ragged",
        "number": leaf.shape == (),
        "numpy scalar": leaf.shape == (),
    }
    return one_of([form for form in RIGHT if fits.get(form, True)] + ["exact"] * 6)


def _wrong_form(leaf: Leaf) -> st.SearchStrategy[str]:
    fits = {
        "scalar": leaf.shape != (),
        "one": leaf.shape != (),
        "smaller": leaf.shape != (),
        "longer": leaf.shape != () and leaf.shape[-1] != 1,
        "list": leaf.shape != (),
    }
    return one_of([form for form in WRONG if fits.get(form, True)])


def _with_sources(
    given: tuple[Parameter, ...], seed: int
) -> tuple[tuple[Parameter, ...], tuple[Leaf, ...]]:
    """Number what is differentiated for; now and then one tensor stands in two places, or goes into another."""
    sources: list[Leaf] = []

    def numbered(tree: Any) -> Any:
        return mapped(tree, lambda leaf, _: number(leaf))

    def number(leaf: Leaf) -> Leaf:
        if leaf.kind not in FLOWING or leaf.kind == "constant":
            return leaf
        if leaf.kind == "tensor" and seed in (1, 2):  # alike, so that one can go into the other
            leaf = next((s for s in sources if s.kind == "tensor"), leaf)
        same = [i for i, s in enumerate(sources) if _interchangeable(s, leaf)]
        if same and seed == 0:
            return replace(sources[same[0]], source=same[0])
        sources.append(leaf)
        made = replace(leaf, source=len(sources) - 1)
        if same and seed in (1, 2) and leaf.kind == "tensor":
            values = zip(leaf.values, sources[same[0]].values, strict=True)
            return replace(
                made, derived=same[0], values=tuple(own + 2 * other for own, other in values)
            )
        return made

    found = tuple(Parameter(p.name, p.kind, p.passed, numbered(p.tree)) for p in given)
    return found, tuple(sources)


def _interchangeable(one: Leaf, other: Leaf) -> bool:
    return (one.kind, one.dtype, one.shape) == (other.kind, other.dtype, other.shape)
