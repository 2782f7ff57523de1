"""Diagnoses in words: one sentence each, with the name of the input and a short number."""

import math
from collections.abc import Callable
from fractions import Fraction

from pullback.check.diagnosis.guess import Cause, Guess, Way
from pullback.check.search.points import Kind, Place

POINTS = {
    Kind.ZEROS_AMONG_NEGATIVES: "where {x} is zero",
    Kind.ZEROS_AMONG_POSITIVES: "where {x} is zero",
    Kind.ALL_ZEROS: "where {x} is zero",
    Kind.TIES: "where values are equal",
    Kind.GRID: "where values are equal, zero or whole",
    Kind.NEGATIVE: "where {x} is negative",
    Kind.LARGE: "where {x} is large",
    Kind.VERY_LARGE: "where {x} is very large",
    Kind.TINY: "where {x} is close to zero",
    Kind.BETWEEN_THRESHOLDS: "in part of its range",
    Kind.ABOVE_THRESHOLDS: "where {x} is above a threshold of the function or rule",
    Kind.BELOW_THRESHOLDS: "where {x} is below a threshold of the function or rule",
    Kind.WITHIN_THRESHOLDS: "where |{x}| is below a threshold of the function or rule",
    Kind.AT_THRESHOLDS: "at a threshold of the function or rule",
    Kind.NOT_REACHED: "where the gradient was zero at first",
}


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
    return f"{number + 0.0:.4g}"


def factor(name: str, number: float) -> str:
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


def sign(name: str) -> str:
    """A flipped sign."""
    return f"the gradient for `{name}` has the wrong sign"


def nothing_flows(name: str) -> str:
    """`None` where the function depends on the input."""
    return f"no gradient flows to `{name}` (the rule gives None), but the function depends on it"


def detached(name: str) -> str:
    """Zero where the function depends on the input."""
    return f"the gradient for `{name}` is zero, but the function depends on it: detached?"


def upstream(name: str, *, in_part: bool = False) -> str:
    """An upstream gradient that was forgotten, in all terms or in some."""
    if in_part:
        return (
            f"the upstream gradient is not multiplied into every term: a part of the gradient for `{name}` "
            "is there even when the upstream is zero"
        )
    return (
        f"the upstream gradient is not multiplied in: the gradient for `{name}` is there even when "
        "the upstream is zero"
    )


def upstream_of_ones(name: str) -> str:
    """A zero that may come of forgetting the upstream."""
    return (
        f"the gradient for `{name}` is zero, but the function depends on it: detached, or the upstream "
        "gradient is not multiplied in (an upstream of ones would give zero)"
    )


def swapped(name: str, other: str) -> str:
    """Two gradients in each other's place."""
    return f"gradients for `{name}` and `{other}` are swapped"


def anothers(name: str, other: str) -> str:
    """The gradient of another input, which itself is right."""
    return f"the gradient for `{name}` is the one for `{other}`: computed with the wrong operand, or swapped?"


def rearranged(name: str, how: str) -> str:
    """Right numbers in wrong places."""
    return f"the gradient for `{name}` has the right numbers in the wrong places: {how}"


def precision(name: str, kind: str) -> str:
    """Bits lost on the way."""
    bits = {"float32": 24, "float16": 11, "bfloat16": 8}[kind]
    return f"the gradient for `{name}` is right to {bits} bits only: computed or rounded in {kind} inside the rule"


def element(name: str, where: str, count: int, total: int, ratio: float | None) -> str:
    """One or a few wrong elements."""
    how = "" if ratio is None else f" ({short(ratio)}× what it should be)"
    if count == 1:
        return f"only element {where} of the gradient for `{name}` is wrong{how}, of {total}"
    return f"only {count} of {total} elements of the gradient for `{name}` are wrong, {where} among them{how}"


def where(name: str, low: float, high: float, mirrored: bool, named: dict[float, str]) -> str:
    """An interval of values in words; bounds that have a name are called by it."""
    start, end = (named.get(bound) or short(bound) for bound in (low, high))
    subject = f"|{name}|" if mirrored else name
    if mirrored and low < 0:
        low = -math.inf
    if low == high:
        text = f"{subject} = {start}"
    elif low == -math.inf:
        text = f"{subject} < {end}"
    elif high == math.inf:
        text = f"{subject} > {start}"
    else:
        text = f"{start} < {subject} < {end}"
    return "where " + text.replace("-", "−")


WHERE_TIED = "where two values are equal"


def at_point(name: str, point: Place | None) -> str:
    """Where a kind of special inputs lies."""
    text = None if point is None else POINTS.get(point.kind)
    return "at special inputs" if text is None else text.format(x=name)


def couplings(name: str, *, one_by_one: bool) -> str:
    """Elements that act on each other, in the function but not in the rule."""
    told = "the rule treats them one by one" if one_by_one else "the rule leaves some of that out"
    return f"a term is missing in the gradient for `{name}`: the function mixes elements, {told} (cross terms)"


def axis(name: str, which: str) -> str:
    """Elements that act on each other along another axis than in the function."""
    return f"wrong axis in the gradient for `{name}`: the rule mixes elements along {which}"


def mixes(name: str, which: str) -> str:
    """Elements that act on each other in the rule only."""
    return (
        f"the gradient for `{name}` mixes elements along {which}, which the function keeps apart: an upstream "
        "gradient summed or averaged over the wrong axis, or keepdims forgotten?"
    )


def spread(name: str, which: str) -> str:
    """An upstream gradient laid along the other axis."""
    return f"wrong axis in the gradient for `{name}`: the upstream gradient is laid along {which}"


def flat(name: str) -> str:
    """A gradient of a function that has none."""
    return (
        f"the function is flat in `{name}`, but the rule gives a gradient: if that is meant (straight-through), "
        "name the function it is the derivative of with against="
    )


def unused(name: str, where: str) -> str:
    """A gradient for an element without influence."""
    return (
        f"the gradient for `{name}` reaches element {where}, on which the function does not depend here: "
        "a wrong index or place"
    )


def left_out(name: str, where: str) -> str:
    """An element with influence but without gradient."""
    return f"a term is missing: element {where} of `{name}` gets no gradient, but the function depends on it"


def direction(name: str, which: str) -> str:
    """An accumulation that runs the wrong way."""
    return (
        f"the gradient for `{name}` accumulates the wrong way along {which}: it should run reversed "
        "(reverse=True, or flipped)"
    )


def part_of_outputs(name: str, outputs: str, number: float) -> str:
    """Wrong for one of several outputs."""
    part = f"what `{outputs}` contributes to the gradient for `{name}`"
    if abs(number) < 1e-9:
        return f"a term is missing: {part} is left out (its upstream gradient is not used)"
    if abs(number + 1) < 1e-6:
        return f"{part} has the wrong sign"
    return f"{part} is off by a factor {short(number)}; the rest is right"


def saved(name: str, other: str, how: str, way: Way) -> str:
    """An operand that was not turned round, or was."""
    turn = "transpose" if way is Way.TRANSPOSED else "flip"
    return f"the gradient for `{name}` is computed with `{other}` {how} by mistake: one {turn} too many or missing"


def mixed_up(name: str, other: str, used: str) -> str:
    """A saved tensor taken for another."""
    return f"the gradient for `{name}` is computed with {used} in place of `{other}`"


def of_guess(guess: Guess, name: str, other: str) -> tuple[str, str]:
    """Kind and sentence for a guess that held."""
    number, word, way = guess.number, guess.word, guess.way
    texts: dict[Cause, tuple[str, Callable[[], str]]] = {
        Cause.NONE: ("none", lambda: nothing_flows(name)),
        Cause.DETACHED: ("detached", lambda: detached(name)),
        Cause.ONES: ("upstream", lambda: upstream_of_ones(name)),
        Cause.UPSTREAM: ("upstream", lambda: upstream(name)),
        Cause.UPSTREAM_IN_PART: ("upstream", lambda: upstream(name, in_part=True)),
        Cause.FACTOR: ("factor", lambda: factor(name, number)),
        Cause.SIGN: ("sign", lambda: sign(name)),
        Cause.LINEAR: ("linear", lambda: NOT_LINEAR),
        Cause.PRECISION: ("precision", lambda: precision(name, word)),
        Cause.SWAPPED: ("swapped", lambda: swapped(name, other)),
        Cause.ANOTHERS: ("swapped", lambda: anothers(name, other)),
        Cause.OUTPUTS_SWAPPED: ("swapped", lambda: f"the upstream gradients of {word} are swapped"),
        Cause.OUTPUT: ("term", lambda: part_of_outputs(name, word, number)),
        Cause.REARRANGED: (way.value, lambda: rearranged(name, word)),
        Cause.SAVED: (way.value, lambda: saved(name, other, word, way)),
        Cause.MIXED_UP: ("saved", lambda: mixed_up(name, other, word)),
        Cause.STALE: ("stale", lambda: stale_input(word)),
        Cause.AXIS: ("axis", lambda: axis(name, word)),
        Cause.MIXES: ("axis", lambda: mixes(name, word)),
        Cause.SPREAD: ("axis", lambda: spread(name, word)),
        Cause.PLACES: ("places", lambda: rearranged(name, word)),
        Cause.FLAT: ("flat", lambda: flat(name)),
        Cause.CONJUGATE: ("conjugate", lambda: conjugate(name)),
        Cause.UNUSED: ("places", lambda: unused(name, word)),
        Cause.LEFT_OUT: ("term", lambda: left_out(name, word)),
        Cause.DIRECTION: ("reversed", lambda: direction(name, word)),
        Cause.COUPLINGS: ("term", lambda: couplings(name, one_by_one=False)),
        Cause.ONE_BY_ONE: ("term", lambda: couplings(name, one_by_one=True)),
    }
    kind, say = texts[guess.cause]
    return kind, say()


def conjugate(name: str) -> str:
    """Right in size, wrong in angle."""
    return (
        f"the gradient for `{name}` has the right size and the wrong angle in the complex plane: "
        "a complex conjugate is missing, or one too many"
    )


def slightly(name: str, share: float, side: str) -> str:
    """Small, uneven, one-sided."""
    return (
        f"the gradient for `{name}` is slightly too {side} (by {short(share)} of its size, "
        "differently from element to element): a stabilising constant or an approximation in the rule?"
    )


def term(name: str, share: float) -> str:
    """No pattern found."""
    return (
        f"the gradient for `{name}` is off by {short(100 * share)} % with no simple pattern: a term "
        "is missing or wrong"
    )


SECOND = (
    "right to first order, wrong to second: a saved tensor was detached, or the rule is not "
    "differentiable as written"
)
SECOND_NOT_FINITE = (
    "right to first order, but the second derivative is not finite (NaN or infinite)"
)
SECOND_UPSTREAM = (
    "right to first order, wrong to second: the upstream gradient is detached inside the rule"
)
STALE_LAST = "shared state: the backward pass uses the values of the last forward call"
STALE_FIRST = "shared state: the backward pass uses the values of an earlier forward call"
RIGHT_AT_FIRST = (
    "right at the given arguments, wrong right beside them: shared state (the backward pass uses values of an "
    "earlier forward call), or the rule assumes what holds for those inputs only (normalised, symmetric)"
)
STATEFUL = "shared state: the backward pass gives another gradient each time it runs (a counter or buffer it changes)"
STALE_BRANCH = (
    "shared state: the backward pass takes the branch (a mask, an index) of an earlier forward call"
)
NOT_LINEAR = (
    "the rule is not linear in its upstream gradient (clipped, squared, or with something added)"
)


def not_finite(name: str, place: str = "") -> str:
    """NaN or infinity where the function is smooth."""
    place = f" {place}," if place else ""
    return f"the gradient for `{name}` is not finite{place} although the function is smooth there"


def stale_input(name: str) -> str:
    """One saved tensor of an earlier call."""
    return f"shared state: the backward pass uses the value that `{name}` had in an earlier forward call"


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
