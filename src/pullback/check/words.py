"""Diagnoses in words: one sentence each, with the name of the input and a short number."""

import math

POINTS = {
    "some zeros": "where {x} is zero",
    "all zeros": "where {x} is zero",
    "ties": "where values are equal",
    "grid": "where values are equal, zero or whole",
    "negative": "where {x} is negative",
    "positive": "where {x} is positive",
    "large": "where {x} is large",
    "very large": "where {x} is very large",
    "tiny": "where {x} is close to zero",
    "between thresholds": "in part of its range",
    "above thresholds": "where {x} is above a threshold of the function or rule",
    "below thresholds": "where {x} is below a threshold of the function or rule",
    "within thresholds": "where |{x}| is below a threshold of the function or rule",
    "at thresholds": "at a threshold of the function or rule",
    "entries not reached before": "where the gradient was zero at first",
}


def short(number: float) -> str:
    """A number in at most four digits."""
    return f"{number:.4g}"


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
    if abs(amount - whole) < 1e-6 * amount and whole < 1e7:
        return str(whole)
    for value, name in ((math.pi, "π"), (2 * math.pi, "2π"), (math.e, "e"), (math.sqrt(2), "√2")):
        if abs(amount - value) < 1e-6 * value:
            return name
    return ""


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
    return (
        f"the upstream gradient is not multiplied in: the gradient for `{name}` is there even when "
        "the upstream is zero"
    )


def swapped(name: str, other: str) -> str:
    """Two gradients in each other's place."""
    return f"gradients for `{name}` and `{other}` are swapped"


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


def condition(name: str, text: str) -> str:
    """A wrong branch."""
    if text.startswith("abs"):
        return f"wrong only where |{name}| {text[3:]}"
    return f"wrong only where {name} {text}".replace("-", "−")


def at_point(name: str, point: str) -> str:
    """A gradient that is right in general and wrong at special inputs."""
    return f"right in general, wrong only {POINTS.get(point, 'at special inputs').format(x=name)}"


def cross_terms(name: str) -> str:
    """Elements that act on each other, in the function but not in the rule."""
    return (
        f"a term is missing in the gradient for `{name}`: the function mixes elements, the rule "
        "treats them one by one (cross terms)"
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
SECOND_UPSTREAM = (
    "right to first order, wrong to second: the upstream gradient is detached inside the rule"
)
STALE_LAST = "shared state: the backward pass uses the values of the last forward call"
STALE_FIRST = "shared state: the backward pass uses the values of an earlier forward call"
NOT_LINEAR = (
    "the rule is not linear in its upstream gradient (clipped, squared, or with something added)"
)


def not_finite(name: str) -> str:
    """NaN or infinity where the function is smooth."""
    return f"the gradient for `{name}` is not finite although the function is smooth there"


def shape(name: str, came: str, wanted: list[int]) -> str:
    """A gradient that does not fit its input."""
    return (
        f"the gradient for `{name}` has {came}, the input has shape {wanted}{_remedy(came, wanted)}"
    )


def _remedy(came: str, wanted: list[int]) -> str:
    got = [
        int(p) for p in came.removeprefix("shape [").rstrip("]").split(",") if p.strip().isdigit()
    ]
    extra = len(got) - len(wanted)
    if extra > 0 and got[extra:] == wanted:
        return f": sum over the broadcast axes {list(range(extra))}"
    if sorted(got) == sorted(wanted) and got != wanted:
        return ": transposed?"
    if not got:
        return ": a scalar is not broadcast for you"
    return ""
