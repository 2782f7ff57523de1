"""Diagnoses in words: what is said after "the gradient for `x`", with short numbers."""

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from pullback.check import numbers as n
from pullback.check.probe import Step

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
NOT_LINEAR = "is not in proportion to its upstream (clipped, squared, with a dead zone, or with something added)"

# What a user can do about a rule that is no derivative, and not meant to be one.
IF_MEANT = "If that is meant, name the function whose derivative it is, or a rule that is right, with against="


def sentence(names: Sequence[str], text: str) -> str:
    """The whole sentence about one input or several."""
    quoted = [f"`{name}`" for name in names]
    joined = quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + f" and {quoted[-1]}"
    many = "s" if text.startswith("are ") else ""
    return f"the gradient{many} for {joined} {_plain_names(text)}"


def _plain_names(text: str) -> str:
    """Types of operations without the number of their version, but for what is quoted."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"\b(?:Real)?([A-Z]\w+?)(?:V\d)?\b", r"\1", part) for part in parts[::2]]
    return "`".join(parts)


def short(number: float) -> str:
    """A number in at most four digits."""
    return f"{number + 0.0:.4g}".replace("-", "−")


def ignored(function: str, keyword: str) -> str:
    """A rule that does not run, whatever it says."""
    return (
        f"the rule of `{function}` is not run: the framework ignores it where a tensor is passed by keyword, as "
        f"`{keyword}` is. Pass it by position, or define the gradient with pb.custom_gradient"
    )


def along_a_direction(got: float, wanted: float) -> str:
    """What is wrong of entries that cannot be told one by one."""
    how = (
        f"is {short(got / wanted)}× what it should be" if wanted else "should be zero, and is not,"
    )
    return f"{how} along a direction; rounding hides its entries one by one"


def plain_number(number: float) -> float:
    """A number without the last digits, where these are noise."""
    plain = float(Fraction(number).limit_denominator(64))
    return plain if abs(number - plain) < n.AGREE * max(1.0, abs(number)) else number


def oddity(number: float) -> float:
    """How far a factor is from those that people forget: signs, small whole numbers and their inverses."""
    size = max(abs(number), 1 / abs(number)) if number else 0.0
    return size if abs(size - round(size)) < n.AGREE else 1e6 + size


def is_minus_one(number: float) -> bool:
    """Whether a factor is a flipped sign."""
    return abs(number + 1) < n.AGREE


def factor(number: float, counts: Mapping[str, int] | None = None) -> str:
    """A constant factor, as plain as it can be said."""
    if is_minus_one(number):
        return "has the wrong sign"
    if abs(number) < 1e-9:
        return "is zero"
    if number < 0:
        return f"has the wrong sign and is {short(-number)}× as large as it should be"
    off = number - 1
    if abs(off) < 0.05:
        size = f"{abs(off):.2g}" if abs(off) < 1e-3 else f"{100 * abs(off):.2g} %"
        digits = max(6, 2 - math.floor(math.log10(abs(off)))) if off else 6
        return f"is too {_size(off)} by a factor {number:.{digits}g} ({size} off)"
    amount = number if number > 1 else 1 / number
    text = f"is {amount:.4g}× too {_size(off)}"
    named = _named(amount)
    if named:
        text += f": a factor {named} {'too many' if number > 1 else 'is missing'}"
    same = [what for what, count in (counts or {}).items() if abs(amount - count) < n.AGREE * count]
    return text + (f" ({short(amount)} is {same[0]})" if same else "")


def _size(off: float) -> str:
    return "large" if off > 0 else "small"


def _named(amount: float) -> str:
    whole = round(amount)
    if abs(amount - whole) < 1e-5 * amount and whole < 1e7:
        return str(whole)
    for name, value in CONSTANTS.items():
        if abs(amount - value) < n.AGREE * value:
            return name
    plain = Fraction(amount).limit_denominator(12)
    return str(plain) if abs(amount - plain) < n.AGREE * amount else ""


def times(number: float) -> str:
    """A factor inside a region or condition."""
    if is_minus_one(number):
        return "has the wrong sign"
    near = short(number) == "1"
    return factor(number) if near else f"is {short(number)}× what it should be"


def named_factor(form: str) -> str:
    """A factor that is something of the function: too many, or missing where it is one divided by something."""
    missing = form.startswith("1/")
    return f"has a factor {form[2:]} missing" if missing else f"has a factor {form} too many"


def passed(number: float, how: str, *, idle: bool) -> str:
    """The upstream in the place of the derivative."""
    if number == 1 and idle:
        return f"is {how} everywhere, and should be zero where the output does not depend on it: a mask is missing"
    if number == 1 and how == "the upstream":
        return (
            "is the upstream as it came: the function's own derivative is not multiplied in. If that is meant "
            "(straight-through), name the function it is the derivative of with against="
        )
    return f"is {_amount(number)}{how}: the function's own derivative is not multiplied in"


def instead(number: float, how: str, form: str) -> str:
    """Something else in the place of the derivative."""
    return f"is {_amount(number)}{how} times {form}, which is not the derivative of the function"


def _amount(number: float) -> str:
    return {1.0: "", -1.0: "minus "}.get(plain_number(number), f"{short(number)} times ")


def added(number: float, what: str, *, decay: bool) -> str:
    """A term that does not belong there."""
    amount = "" if abs(plain_number(number)) == 1 else f"{short(abs(number))} × "
    term = short(abs(number)) if what == "1" else f"{amount}{what}"
    sign = "+" if number > 0 else "−"
    missing = ", or a term with the other sign is missing" if "upstream" in what else ""
    return f"is off by {sign} {term}: {'weight decay?' if decay else f'added by mistake{missing}'}"


IDLE = ", and should be zero"


def in_part(how: str, where: str) -> str:
    """Wrong in some places, or for some values, only."""
    if how.endswith(IDLE):
        return f"{how.removesuffix(IDLE)} {where}{IDLE} there; it is right elsewhere"
    return f"{how} {where}, and is right elsewhere"


def interval(quantity: str, low: float, high: float) -> str:
    """A condition."""
    if math.isfinite(low) and math.isfinite(high) and low != high:
        return f"{short(low)} < {quantity} < {short(high)}"
    sign, end = ("=", low) if low == high else (">", low) if high == math.inf else ("<", high)
    if end == 0 and " − " in quantity and "|" not in quantity:  # a difference
        return quantity.replace(" − ", f" {sign} ")
    return f"{quantity} {sign} {short(end)}"


# slips in the program


def operand(step: Step, j: int) -> str:
    """One input of a step, by its name in the source."""
    name = step.inputs[j]
    if name and len(step.inputs) > 2 and step.inputs.count(name) > 1:
        return f"`{name}` (operand {j + 1})"
    if name:
        return f"`{name}`"
    which = "" if len(step.inputs) == 1 else ("first ", "second ", "third ")[min(j, 2)]
    return f"its {which}operand"


def result(step: Step) -> str:
    """What a step gives, by its name in the source."""
    return f"`{step.output}`" if step.output else "its result"


def tensor(step: Step) -> tuple[str, str]:
    """A name for what a step gives, and what it is where that is not its name in the source."""
    return (
        (f"`{step.output}`", "")
        if step.output
        else ("q", f", where q is the result of {step.op} in {_line(step)}")
    )


def _line(step: Step) -> str:
    return f"`{step.line.removeprefix('return ')}`" if step.line else f"the operation {step.op}"


def scaled(groups: Sequence[Sequence[tuple[Step, int]]], numbers: Sequence[float]) -> str:
    """What flows back along some edges is left out, or has a factor; all edges of one operation are that operation."""
    places = [
        (g[0][0], g[0][1] if len(g) == 1 or len(g[0][0].inputs) == 1 else None) for g in groups
    ]
    if not any(numbers):
        texts = [
            f"{result(step) if j is None else operand(step, j)} as a constant in {step.op} of {_line(step)}"
            for step, j in places
        ]
        return f"treats {', and '.join(texts)}"
    if len(set(numbers)) == 1:
        to = " and ".join(_back(step, j) for step, j in places)
        return f"is right but for what flows back {to}, which {factor(numbers[0])}"
    texts = [
        f"what flows back {_back(step, j)}, which {factor(number)}"
        for (step, j), number in zip(places, numbers, strict=True)
    ]
    return f"is right but for {', and '.join(texts)}"


def _back(step: Step, j: int | None) -> str:
    to = "" if j is None else f"to {operand(step, j)} "
    return f"{to}through {step.op} of {_line(step)}"


def flows_back(step: Step, j: int | None, how: str) -> str:
    """What flows back along one edge, or through one operation, is not what it should be."""
    return f"is right but for what flows back {_back(step, j)}, which {how}"


def slip(step: Step, j: int | None, how: str) -> str:
    """One derivative taken wrongly."""
    by = "" if j is None or len(step.inputs) == 1 else f" by {operand(step, j)}"
    return f"has the derivative of {step.op} in {_line(step)}{by} {how}"


def altered(how: str, steps: Sequence[Step]) -> str:
    """The gradient of a function that differs from this one in one thing."""
    where = f" in {_line(steps[0])}" if len({step.place for step in steps}) == 1 else ""
    return f"is that of the function with {how}{where}"


# other findings


def stopped(where: str) -> str:
    """A gradient that the function itself stops."""
    return (
        f"the function stops the gradient at {where}. If that is meant, name the function whose "
        "derivative it is with against="
    )


def shape(came: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    """A gradient that does not fit its input."""
    return f"has shape {list(came)}, the input has shape {list(wanted)}{_remedy(came, wanted)}"


def _remedy(came: tuple[int, ...], wanted: tuple[int, ...]) -> str:
    extra = len(came) - len(wanted)
    if extra > 0 and came[extra:] == wanted:
        return f": sum over the broadcast axes {list(range(extra))}"
    if sorted(came) == sorted(wanted) and came != wanted:
        return ": transposed?"
    if not came:
        return ": a scalar is not broadcast for you"
    return ""
