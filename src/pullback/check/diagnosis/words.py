"""Diagnoses in words: one sentence each, with the name of the input and a short number."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

CONSTANTS = {
    "π": math.pi,
    "2π": 2 * math.pi,
    "e": math.e,
    "√2": math.sqrt(2),
    "√π": math.sqrt(math.pi),
    "√(2π)": math.sqrt(2 * math.pi),
    "2/√π": 2 / math.sqrt(math.pi),
    "1/ln 2": 1 / math.log(2),
    "ln 10": math.log(10),
    "180/π": 180 / math.pi,
}


def short(number: float) -> str:
    """A number in at most four digits."""
    return f"{number + 0.0:.4g}".replace("-", "−")


def factor(name: str, number: float, counts: Mapping[str, int] | None = None) -> str:
    """A constant factor, as plain as it can be said."""
    if number < 0:
        return f"the gradient for `{name}` has the wrong sign and is {short(-number)}× as large as it should be"
    off = number - 1
    if abs(off) < 0.05:
        size = f"{abs(off):.2g}" if abs(off) < 1e-3 else f"{100 * abs(off):.2g} %"
        return (
            f"the gradient for `{name}` is too {_size(off)} by a factor {number:.6g} ({size} off)"
        )
    amount = number if number > 1 else 1 / number
    text = f"the gradient for `{name}` is {amount:.4g}× too {_size(off)}"
    named = _named(amount)
    if named:
        text += f": a factor {named} {'too many' if number > 1 else 'is missing'}"
    same = [what for what, count in (counts or {}).items() if abs(amount - count) < 1e-6 * count]
    if same:
        text += f" ({same[0]})"
    return text


def _size(off: float) -> str:
    return "large" if off > 0 else "small"


def _named(amount: float) -> str:
    whole = round(amount)
    if abs(amount - whole) < 1e-5 * amount and whole < 1e7:
        return str(whole)
    for name, value in CONSTANTS.items():
        if abs(amount - value) < 1e-6 * value:
            return name
    plain = Fraction(amount).limit_denominator(12)
    return str(plain) if abs(amount - plain) < 1e-6 * amount else ""


def times(number: float) -> str:
    """A factor inside a region or condition."""
    return f"is {short(number)}× what it should be"


def sign(name: str) -> str:
    """A flipped sign."""
    return f"the gradient for `{name}` has the wrong sign"


def nothing_flows(name: str) -> str:
    """`None` where the function depends on the input."""
    return f"no gradient flows to `{name}` (the rule gives None), but the function depends on it"


def detached(name: str) -> str:
    """Zero where the function depends on the input."""
    return f"the gradient for `{name}` is zero, but the function depends on it: detached?"


def upstream(name: str) -> str:
    """An upstream gradient that was forgotten."""
    return f"the upstream gradient is not multiplied in: the gradient for `{name}` is the same for every upstream"


def passed_through(name: str) -> str:
    """The upstream as it came."""
    return (
        f"the gradient for `{name}` is the upstream as it came: the function's own derivative is not multiplied in. If "
        "that is meant (straight-through), name the function it is the derivative of with against="
    )


def passed_through_negated(name: str) -> str:
    """The upstream with its sign turned."""
    return f"the gradient for `{name}` is minus the upstream: the function's own derivative is not multiplied in"


def swapped(name: str, other: str) -> str:
    """Two gradients in each other's place."""
    return f"gradients for `{name}` and `{other}` are swapped"


def anothers(name: str, other: str) -> str:
    """The gradient of another input, which itself is right."""
    return f"the gradient for `{name}` is the one for `{other}`: computed with the wrong operand, or swapped?"


def moving_factor(name: str, numbers: Sequence[float]) -> str:
    """One factor for all elements that nothing explains."""
    some = ", ".join(short(number) for number in numbers[:3])
    return f"the gradient for `{name}` is off by one factor for all its elements, which changes with the point ({some})"


def named_factor(name: str, what: str) -> str:
    """A factor that is something of the function."""
    return f"the gradient for `{name}` has a factor {what} too many"


def instead(name: str, what: str) -> str:
    """Something else in the place of the derivative."""
    return f"the gradient for `{name}` is the upstream times {what}, which is not the derivative of the function"


def added(name: str, number: float, what: str) -> str:
    """A term that does not belong there."""
    term = short(number) if what == "a constant" else f"{short(number)} × {what}"
    decay = " (weight decay?)" if what == f"`{name}`" else ""
    return f"{term} is added to the gradient for `{name}`{decay}"


def rearranged(name: str, how: str) -> str:
    """Right numbers in wrong places."""
    return f"the gradient for `{name}` is right but for its places: {how}"


def upstream_changed(name: str, output: str, how: str) -> str:
    """The upstream was changed on its way into the rule."""
    return f"the gradient for `{name}` is computed with the upstream of `{output}` {how}"


def saved(name: str, other: str, how: str) -> str:
    """A saved input was changed on its way into the rule."""
    return f"the gradient for `{name}` is computed with `{other}` {how}"


def mixed_up(name: str, other: str, used: str) -> str:
    """A saved tensor taken for another."""
    return f"the gradient for `{name}` is computed with `{used}` in place of `{other}`"


def precision(name: str, kind: str) -> str:
    """Bits lost on the way."""
    bits = {"float32": 24, "float16": 11, "bfloat16": 8}[kind]
    return f"the gradient for `{name}` is right to {bits} bits only: computed or rounded in {kind} inside the rule"


def region(name: str, where: str, how: str) -> str:
    """Wrong in some places only."""
    return (
        f"the gradient for `{name}` {how} in {where}, and right elsewhere"
        if how != "zero"
        else (
            f"the gradient for `{name}` is zero in {where}, where it should not be, and right elsewhere"
        )
    )


def part_of_outputs(name: str, outputs: str, number: float) -> str:
    """Wrong for one of several outputs."""
    part = f"what `{outputs}` contributes to the gradient for `{name}`"
    if abs(number) < 1e-9:
        return f"a term is missing: {part} is left out (its upstream gradient is not used)"
    if abs(number + 1) < 1e-6:
        return f"{part} has the wrong sign"
    return f"{part} is off by a factor {short(number)}; the rest is right"


def condition(
    name: str, quantity: str, low: float, high: float, how: str, constants: Sequence[float]
) -> str:
    """Wrong only for some values."""
    del constants
    if low == high:
        where = f"{quantity} = {short(low)}"
    elif low == -math.inf:
        where = f"{quantity} < {short(high)}"
    elif high == math.inf:
        where = f"{quantity} > {short(low)}"
    else:
        where = f"{short(low)} < {quantity} < {short(high)}"
    how = "is zero" if how == "zero" else how
    return f"the gradient for `{name}` {how} where {where}, and is right elsewhere"


def conjugate(name: str) -> str:
    """Right in size, wrong in angle."""
    return (
        f"the gradient for `{name}` has the right size and the wrong angle in the complex plane: "
        "a complex conjugate is missing, or one too many"
    )


def unexplained(name: str, share: float, wrong: int, total: int, tried: int) -> str:
    """The honest line."""
    many = "all elements" if wrong == total else f"{wrong} of {total} elements"
    return (
        f"the gradient for `{name}` is off by {short(100 * share)} % in {many}; none of {tried} explanations tried "
        "predicts it"
    )


SECOND = (
    "right to first order, wrong to second: a saved tensor was detached, or the rule is not "
    "differentiable as written"
)
SECOND_NOT_FINITE = (
    "right to first order, but the second derivative is not finite (NaN or infinite)"
)
STALE = "shared state: another forward call in between changes what the backward pass gives"
NOT_LINEAR = "the gradient is not in proportion to its upstream (clipped, squared, with a dead zone, or with something added)"


def not_finite(name: str, where: str) -> str:
    """NaN or infinity where the function has slopes."""
    return f"the gradient for `{name}` is not finite at {where}, where the function is finite and has finite slopes"


def shape(name: str, came: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """A gradient that does not fit its input."""
    return (
        f"the gradient for `{name}` has shape {list(came)}, the input has shape {list(wanted)}"
        f"{_remedy(came, wanted)}"
    )


def _remedy(came: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    extra = len(came) - len(wanted)
    if extra > 0 and came[extra:] == wanted:
        return f": sum over the broadcast axes {list(range(extra))}"
    if sorted(came) == sorted(wanted) and came != wanted:
        return ": transposed?"
    if not came:
        return ": a scalar is not broadcast for you"
    return ""
