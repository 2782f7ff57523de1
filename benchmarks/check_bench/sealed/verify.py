"""Are the cases what they say? Right rules are right, wrong ones wrong, by differences of their own.

    python -m benchmarks.check_bench.sealed.verify [wrong] [right] [lies] [tensorflow]

Prints what does not hold and ends with status 1 if there is any.
"""

# ruff: noqa: ANN001
from __future__ import annotations

import os
import sys
from collections.abc import Iterator

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np
import tensorflow as tf

from benchmarks.check_bench.sealed import FAMILIES, Family, Item, Mistake, items
from benchmarks.check_bench.sealed.truth import Subject, gap, outside_sides, resolution

# A mistake counts from here on; at a point made to show it, the right rule must stay below NEAR.
SHOWN, NEAR, SECOND = 1e-6, 1e-4, 1e-5
# Kinks, jumps, noise and draws are no places for plain differences.
SMOOTH = {"scale", "domain", "state", "values"}
# An assertion that allows no step; a jump beside the whole numbers given; the middle of three equal
# values, for which any of them may get the gradient.
BY_HAND = {"entropy_of_shares", "counts_as_floats", "top_two_of_ties"}


def family_slips(case: Family) -> Iterator[str]:
    """What does not hold of a family."""
    right, args = case.build(""), case.args()
    least = resolution(right, args)
    if not gap(right, args) < least:
        yield f"{case.name}: the right rule is wrong"
    if least < SECOND and not gap(right, args, shows="second", draws=1) < SECOND:
        yield f"{case.name}: the right rule is wrong to second order"
    for slip, mistake in case.mistakes.items():
        yield from mistake_slips(case, slip, mistake, max(least, SHOWN))


def mistake_slips(case: Family, slip: str, mistake: Mistake, least: float) -> Iterator[str]:
    """What does not hold of a mistake."""
    if mistake.shows == "eager":
        if not raises_when_traced(case.build(slip), case.args()):
            yield f"{case.name}:{slip}: does not raise when traced"
        return
    args = (mistake.at or case.args)()
    how = {"shows": mistake.shows, "along": mistake.along}
    if not gap(case.build(slip), args, **how) > least:
        yield f"{case.name}:{slip}: is not wrong"
    if mistake.at and not gap(case.build(""), args, **how) < NEAR:
        yield f"{case.name}:{slip}: the right rule is wrong there"


def raises_when_traced(fn, args) -> bool:
    @tf.function
    def traced() -> object:
        with tf.GradientTape() as tape:
            tape.watch(args[0])
            outputs = fn(*args)
        return tape.gradient(outputs, args[0])

    try:
        traced()
    except Exception:
        return True
    return False


def right_slips(item: Item) -> Iterator[str]:
    """What does not hold of an awkward right item: its gradient is finite, and right where smooth."""
    fn, args = item.make()
    subject = Subject(fn, args)
    numbers = subject.numbers()
    gradient = subject.gradient(numbers, [tf.ones_like(out) for out in subject.outputs(numbers)])
    if not all(np.all(np.isfinite(tf.convert_to_tensor(g))) for g in gradient):
        yield f"{item.name}: its gradient is not finite"
    kink = item.kind == "kink" and item.name not in BY_HAND
    if kink and not outside_sides(fn, args) < NEAR:
        yield f"{item.name}: it is outside the slopes of both sides"
    smooth = item.kind in SMOOTH and item.name not in BY_HAND and "against" not in item.options
    ways = ("random", "relative") if item.kind == "scale" else ("random",)
    least = max(resolution(fn, args), NEAR)
    if smooth and not min(gap(fn, args, along=along) for along in ways) < least:
        yield f"{item.name}: it is wrong"


def lie_slips(item: Item) -> Iterator[str]:
    """What does not hold of a call: it runs, and the arguments given show the mistake if they should."""
    if item.kind in {"untested", "mode"}:
        return
    fn, args = item.make()
    found = gap(fn, args, along="ones" if item.name == "twice_at_tie" else "random")
    if item.kind in {"given", "nonfinite"} and not found > SHOWN:
        yield f"{item.name}: is right at the arguments given"


def tensorflow_slips(item: Item) -> Iterator[str]:
    """What does not hold of a gradient of TensorFlow's that should be wrong."""
    fn, args = item.make()
    shows = "second" if item.kind == "second" else "first"
    try:
        found = gap(fn, args, shows=shows)
    except Exception as error:
        if item.kind not in {"missing", "second"}:
            yield f"{item.name}: raises {type(error).__name__}"
        return
    if not found > max(resolution(fn, args), SHOWN):
        yield f"{item.name}: is right"
    if item.kind == "nonfinite" and np.isfinite(found):
        yield f"{item.name}: is finite"


CHECKS = {
    "wrong": lambda: (slip for case in FAMILIES.values() for slip in family_slips(case)),
    "right": lambda: (s for item in items("right")[len(FAMILIES) :] for s in right_slips(item)),
    "lies": lambda: (s for item in items("lies") for s in lie_slips(item)),
    "tensorflow": lambda: (s for item in items("tensorflow") for s in tensorflow_slips(item)),
}


def main() -> int:
    groups = sys.argv[1:] or list(CHECKS)
    count = 0
    for group in groups:
        for slip in CHECKS[group]():
            count += 1
            print(slip, flush=True)
    print(f"{count} of {sum(len(items(group)) for group in groups)} do not hold")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
