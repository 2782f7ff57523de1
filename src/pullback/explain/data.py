"""What flowed: one run of a function, forward and backward, as data."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pullback.program.data import Place as Place
from pullback.program.data import Rule as Rule

Role = Literal[
    "", "step", "index", "compare", "cast", "bits", "text", "shape", "stop", "assign", "python",
    "gate", "saturating", "softmax", "clip", "select", "peak", "square", "abs", "multiply",
    "divide", "sqrt", "rsqrt", "norm", "log", "pole", "exp", "pow", "arc", "angle", "read",
    "gather", "subtract", "add", "sum", "mean", "join", "copy", "from one", "quantile", "situation",
]  # fmt: skip
# What is no single operation, and that engines have words for.
Situation = Literal[
    "not a tensor", "integer source", "integer target", "integers made", "frozen", "unrecorded",
    "not watched", "outside", "no gradient", "read before", "detour", "not used", "bad input",
    "norm", "std", "root mean square", "masked softmax", "infinite factor", "single softmax",
    "float16", "bad rule", "overflow", "underflow",
]  # fmt: skip


class Hint(enum.StrEnum):
    """What else is known of a source."""

    NOT_A_TENSOR = "not a tensor"
    NOT_WATCHED = "not watched"  # by the tape that is asked
    NOT_TRAINABLE = "not trainable"
    FROZEN = "frozen layer"
    ASSIGNED = "assigned inside"  # what is made of it is written into a variable that is read
    READ_BEFORE = "read before"  # the run, and only its value came in
    RENAMED = "another value"  # its name gets one before it is used
    SHAPE = "shape"  # no more than that is used
    NAMED = "named"  # in the code, and nothing that reaches the result is computed from it
    BRANCH = "branch not taken"
    LOOP = "loop"  # whose body never ran
    ZEROS = "zeros in traced code"  # where a framework gives zeros in place of nothing


@dataclass(frozen=True, slots=True)
class Size:
    """The numbers of a tensor in few: those that are finite, and how many are not."""

    norm: float  # of the finite entries, as are `max` and `zeros`
    max: float  # the largest magnitude
    zeros: float  # the share of zeros
    nan: int
    inf: int
    count: int

    @property
    def is_finite(self) -> bool:
        """Whether every entry is a number."""
        return not self.nan and not self.inf

    @property
    def is_zero(self) -> bool:
        """Whether every entry is zero."""
        return self.zeros == 1.0 and self.is_finite


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of the forward pass."""

    id: int
    node: int | None  # the node that made it; None where it was there before
    output: int  # which output of that node
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    size: Size | None  # None where it holds no numbers
    gradient: Size | None = (
        None  # of the gradient that arrived, from all who read it; None where none did
    )
    held: bool = False  # whether the backward pass keeps it
    variable: str = ""  # the name of the variable whose value, or handle, it is


@dataclass(frozen=True, slots=True)
class Node:
    """An operation that ran."""

    id: int  # in the order in which they ran
    type: str
    name: str
    layer: tuple[str, ...]  # the layers around it, outermost first
    inside: tuple[
        str, ...
    ]  # the traced functions, loops and branches around it, such as "while, step 3"
    place: Place | None
    inputs: tuple[int, ...]  # values
    outputs: tuple[int, ...]
    rule: Rule
    gradients: tuple[
        Size | None, ...
    ] = ()  # what it passed on, one for each input; empty where nothing arrived
    seconds: float = 0.0  # of its backward pass
    compiled: tuple[
        Size | None, ...
    ] = ()  # what it passes on when compiled, where that is another matter
    raised: str = ""  # by its gradient: the error

    @property
    def line(self) -> str:
        """`file:line` of the user's, where it is known."""
        return str(self.place) if self.place else ""


@dataclass(frozen=True, slots=True)
class Op:
    """What the engine says of a type of operation, or of a situation that it has words for.

    `role` is what the operation does to a gradient, in words that all engines share. Without a gradient: `step`
    (constant between jumps), `index`, `compare`, `cast`, `bits`, `text`, `shape`, `stop`, `assign`, `python`. Zero in
    places: `gate` (below 0), `saturating`, `softmax`, `clip`, `select`, `peak`, `square`, `abs`. Not finite in places:
    `multiply`, `divide`, `sqrt`, `rsqrt`, `norm`, `log`, `pole`, `exp`, `pow`, `angle`, `arc` (beyond ±1), `from one`
    (below 1), `quantile` (beyond 0 and 1). Harmless: `read`, `gather`, `subtract`, `add`, `sum`, `mean`, `join`,
    `copy`. `situation` is what is no single operation. In `rewrite`, `{tiny}`, `{near}` and `{steep}` are numbers
    of the format: a small one, the distance to 1, and one whose exponential is finite.
    """

    type: str
    call: str  # what users write
    role: Role = ""
    remedy: str = ""  # what to write where no gradient passes, or only zeros
    rewrite: str = ""  # what to write where NaN or Inf comes of it


@dataclass(frozen=True, slots=True)
class Edge:
    """A value on its way from the node that made it to one that reads it, and the gradient that came back on it."""

    source: int | None
    target: int
    value: int
    gradient: Size | None


@dataclass(frozen=True, slots=True)
class Source:
    """Something that one can ask about: an argument, a variable that was read, what the function closes over."""

    name: str
    kind: Literal["argument", "variable", "tensor"]
    values: tuple[int, ...]  # the values that stand for it; none if the run never met it
    shape: tuple[int, ...]
    dtype: str
    gradient: Size | None
    layer: tuple[str, ...] = ()  # of a variable: the layer that owns it
    trainable: bool = True
    moves: bool | None = (
        None  # whether the result changes with it though no path leads there; None: not asked
    )
    place: Place | None = None  # where it is named on a line that did not run
    asked: bool = True  # whether it is a source of this gradient; a step may take several
    hints: tuple[Hint, ...] = ()
    decided_at: Place | None = None  # of a branch or loop that was not taken: what decided that
    sketch: tuple[float, ...] = ()  # of the gradient: by it directions are compared


@dataclass(frozen=True)
class FlowData:
    """The way of a gradient, for analyses and views: they know no more of a flow than this."""

    name: str
    engine: str
    nodes: tuple[Node, ...]
    values: tuple[Value, ...]  # by id
    sources: tuple[Source, ...]
    outputs: tuple[int, ...]  # the values from which gradients start
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    ops: tuple[Op, ...] = ()  # of the types that ran, and of situations
    # Of a step: the other gradients that it takes, of the same sources.
    others: tuple[FlowData, ...] = ()
    # Objects of the caller: what stands for a source with its position in `sources`, and layers that ran.
    objects: Sequence[tuple[Any, int]] = field(default=(), repr=False, compare=False)
    layers: Sequence[Any] = field(default=(), repr=False, compare=False)
    # Runs forward once more to see what the backward pass keeps: bytes by value. None where that cannot be done.
    measure_held: Callable[[], Mapping[int, int]] | None = field(
        default=None, repr=False, compare=False
    )

    @property
    def edges(self) -> tuple[Edge, ...]:
        """Every value with every node that reads it."""
        return tuple(
            Edge(self.values[value].node, node.id, value, gradient)
            for node in self.nodes
            for value, gradient in zip(
                node.inputs, node.gradients or (None,) * len(node.inputs), strict=True
            )
        )

    @functools.cached_property
    def _ops(self) -> Mapping[str, Op]:
        return {op.type: op for op in self.ops}

    def op(self, name: str | Situation) -> Op:
        """What is known of a type of operation, or of a situation."""
        return self._ops.get(name) or Op(name, name)

    def flow_of(self, source: Source) -> tuple[FlowData, Source]:
        """The gradient of a step that a source is a source of, and the source as it is there."""
        place = self.sources.index(source)
        every = (self, *reversed(self.others))
        return next(((f, s) for f in every if (s := f.sources[place]).asked), (self, source))

    def to_dict(self) -> dict[str, Any]:
        """All of it as lists, dicts, texts and numbers, fit for JSON."""
        found: Mapping[str, Any] = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.compare
        }
        return {name: _plain(value) for name, value in found.items()}

    def __repr__(self) -> str:
        return f"<Flow of {self.name}: {len(self.nodes)} operations, {len(self.sources)} sources>"


def _plain(value: Any) -> Any:
    if isinstance(value, FlowData):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return [_plain(v) for v in value] if isinstance(value, tuple) else value
