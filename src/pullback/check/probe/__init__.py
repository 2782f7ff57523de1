"""What the check asks of an engine, in arrays and plain data.

A probe stands for one function called with one set of arguments. Its *inputs* are the leaves that
can be moved (floating-point or complex tensors among the arguments, trainable parameters the
function reads); its *outputs* are the floating-point or complex leaves of what it returns. Every
array that crosses is float64 or complex128, whatever the function itself computes in.

Complex gradients follow the real inner product: `Re(conj(vjp(w)) * u)` summed equals
`Re(conj(w) * (J u))` summed. An engine with another convention conjugates before it answers.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pullback.check.budget import Calls
from pullback.check.probe.program import Array as Array
from pullback.check.probe.program import Arrays as Arrays
from pullback.check.probe.program import Step as Step
from pullback.check.probe.trying import Ran as Ran
from pullback.check.probe.trying import Reached as Reached
from pullback.program.data import Program
from pullback.program.protocol import ProgramEngine

# Bits after the leading one; of others, such as float64, there are 52.
_BITS = {"float32": 23, "complex64": 23, "float16": 10, "bfloat16": 7}


@dataclass(frozen=True)
class Leaf:
    """One tensor of the arguments or of the result: where it is, how it is called, what it holds."""

    path: str
    name: str
    shape: tuple[int, ...]
    dtype: str
    is_complex: bool = False
    kind: str = "argument"

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def epsilon(self) -> float:
        """The rounding unit of what it holds."""
        return 2.0 ** -_BITS.get(self.dtype, 52)

    @property
    def largest(self) -> float:
        """The largest number that it can hold."""
        if self.dtype == "float16":
            return 65504.0
        return 3.38e38 if self.dtype in ("bfloat16", "float32", "complex64") else 1.79e308

    def is_meant(self, name: str) -> bool:
        """Whether a name means this leaf: it is its own name or path, or that of what it is part of.

        >>> Leaf('args[0]["w"]', 'params["w"]', (3,), "float32").is_meant("params")
        True
        """
        inside = (name + "[", name + ".", name + "/")
        return any(text == name or text.startswith(inside) for text in (self.path, self.name))

    def describe(self) -> str:
        """`float32[4, 3]`, the way a report writes it."""
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, eq=False)
class Traced:
    """Function and rule as one program: of inputs and upstream gradients, to outputs and gradients.

    `gradients` says which of its results is the gradient of each input, and `sources` which of its inputs stands for
    it: a tensor, or the variable that it is written to. `feed` makes its inputs of arrays, and `epsilon` is the
    rounding unit in which it runs. Unless it `repeats`, other random numbers are drawn in each run. Its runs count as
    `calls` of the function.
    """

    engine: ProgramEngine
    program: Program
    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    gradients: tuple[int | None, ...]
    sources: tuple[int, ...]
    feed: Callable[[Arrays, Arrays], list[Any]]
    epsilon: float
    repeats: bool
    calls: Calls


class Why(enum.Enum):
    """What kind of reason an engine has for not answering."""

    OTHER = enum.auto()
    UPSTREAM_UNUSED = enum.auto()  # nothing that the rule gives depends on its upstream
    RULE_RAISES = enum.auto()  # the function runs that way, its gradient does not


@dataclass(frozen=True)
class Unsupported:
    """An engine's answer when it cannot do what was asked, with the reason in words."""

    reason: str
    why: Why = Why.OTHER


@dataclass(frozen=True)
class Claims:
    """What the rule says at one point, for one upstream `w` and one direction `u`.

    `jvp` is the rule transposed, J·u, one array per output. `second` is the gradient of
    ⟨u, vjp(x, w)⟩ with respect to x, one per input; `None` entries mean that nothing flows.
    """

    values: Arrays
    vjp: Sequence[Array | None]
    jvp: Sequence[Array | None] | Unsupported
    second: Sequence[Array | None] | Unsupported


@dataclass(frozen=True)
class InMode:
    """The rule as another way of running gives it, at the precision of the arguments.

    `what` is "vjp" (entries per input) or "jvp" (entries per output).
    """

    what: str
    found: Sequence[Array | None]
    epsilon: float


@dataclass(frozen=True)
class Facts:
    """What a look at the program of function and rule tells.

    `constants` are what values are compared with. `branches` says that there are comparisons at all,
    `branches_on_sign` that there is one with zero, `custom` that somebody's own gradient is at work; these are taken
    for granted where nothing could be read. `short` says that something is computed in half precision, `margins` that
    there are comparisons of which constants do not tell where they turn.
    """

    constants: tuple[float, ...] = ()
    branches: bool = True
    branches_on_sign: bool = True
    custom: bool = True
    short: bool = False
    margins: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class WrongShape:
    """The rule gave a gradient of another shape than its input."""

    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"shape {list(self.shape)}"


@dataclass(frozen=True)
class WrongDtype:
    """The rule gave a gradient of another dtype than its input."""

    dtype: str

    def __str__(self) -> str:
        return self.dtype


@dataclass(frozen=True)
class Raised:
    """The rule raised; the text names the error and has its first line."""

    error: str

    def __str__(self) -> str:
        return self.error


@dataclass(frozen=True)
class Ignored:
    """The framework does not run the rule of a function for a tensor that is passed by keyword."""

    function: str
    keyword: str

    def __str__(self) -> str:
        return f"{self.function}({self.keyword}=…)"


class RuleFault(Exception):
    """The rule broke its contract before any number could be compared.

    `leaf` is the position of the input it concerns, if one.
    """

    def __init__(
        self, reason: WrongShape | WrongDtype | Raised | Ignored, leaf: int | None = None
    ) -> None:
        super().__init__(str(reason))
        self.reason, self.leaf = reason, leaf


class OutsideDomain(Exception):
    """The function refuses this point by raising."""


class Probe(Protocol):
    """One function at hand, to be run and differentiated; see the module's text for conventions."""

    name: str
    inputs: tuple[Leaf, ...]
    outputs: tuple[Leaf, ...]
    value_epsilon: float
    rule_epsilon: float
    notes: tuple[str, ...]
    calls: Calls

    def start(self) -> list[Array]:
        """The inputs the user gave."""
        ...

    def values(self, xs: Arrays) -> list[Array]:
        """The outputs at `xs`."""
        ...

    def vjp(self, xs: Arrays, ws: Arrays) -> tuple[list[Array], list[Array | None]]:
        """Outputs at `xs`, and what the rule makes of the upstream gradients `ws`."""
        ...

    def vjp_as_given(self, xs: Arrays, ws: Arrays) -> tuple[list[Array], list[Array | None]]:
        """The same at the precision of the arguments."""
        ...

    def claims(self, xs: Arrays, ws: Arrays, us: Arrays, *, second: bool) -> Claims:
        """What the rule says at `xs`, by differentiating the rule itself; `second` if asked for."""
        ...

    def vjp_after(self, xs: Arrays, others: Arrays, ws: Arrays) -> list[Array | None]:
        """The rule at `xs`, run only after another call of the function at `others`."""
        ...

    def traced_function(self) -> Traced | Unsupported:
        """The function alone as a program, of its inputs to its outputs."""
        ...

    def traced(self, xs: Arrays, ws: Arrays, *, as_given: bool = False) -> Traced | Unsupported:
        """Function and rule as one program; `as_given`: at the precision of the arguments."""
        ...

    def modes(self) -> tuple[str, ...]:
        """Names of the other ways in which this engine can run the rule."""
        ...

    def default_modes(self) -> tuple[str, ...]:
        """Those of them that a check runs unless it is told otherwise."""
        ...

    def in_mode(self, mode: str, xs: Arrays, ws: Arrays, us: Arrays) -> InMode | Unsupported:
        """What another way of running gives, or why it cannot be run."""
        ...

    def plain(
        self, what: str, xs: Arrays, ws: Arrays, us: Arrays
    ) -> Sequence[Array | None] | Unsupported:
        """The plain way of running at the precision of the arguments, to compare others with."""
        ...

    def source(self) -> str | None:
        """`file:line` of the rule, when it has one."""
        ...

    def source_line(self) -> str:
        """The text of that line, where it can be read."""
        ...

    def close(self) -> None:
        """Put back every state that running the function has changed."""
        ...


class Probes(Protocol):
    """What an engine does for checks."""

    def make_probe(
        self,
        fn: Any,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        wrt: Sequence[str] | None,
        seed: int,
        calls: Calls,
    ) -> Probe:
        """A probe of a function at these arguments, which counts every run of it from the first on."""
        ...

    def is_custom_gradient(self, value: Any) -> bool:
        """Whether a value in a module is a function with a gradient of its own."""
        ...

    def tensor(self, values: Any, dtype: str) -> Any:
        """An array as a tensor, to try a function on."""
        ...

    def trial(self, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Ran:
        """What comes of running a function once, forward and backward."""
        ...

    def recorded(self) -> AbstractContextManager[list[Reached]]:
        """The calls of functions with a gradient of the framework's own kind, inside the block."""
        ...

    def op_with_gradient(self, op: str, label: str) -> Any:
        """A type of op as a function whose gradient is registered as `label`; a `LookupError` where there is none."""
        ...

    def changed_settings(self) -> Sequence[str]:
        """Settings of the whole process that decide what functions compute, and are not as they are by default."""
        ...

    def making(self, fn: Any, most: int) -> tuple[str, str] | None:
        """A name for a layer and the lines that make it, with its weights if these are at most so many numbers.

        Nothing for what is no layer.
        """
        ...

    def as_code(self, value: Any, numbers: str) -> tuple[str, str] | None:
        """The import and the expression of a tensor like `value` that holds these numbers; nothing for other values."""
        ...
