"""Guesses at what is wrong with a gradient, each put to a test; the first that holds is the diagnosis."""

import numpy as np

from pullback.check.diagnosis.blame import Look, Scene
from pullback.check.diagnosis.guess import NEARLY, Cause, Guess, is_close, is_same
from pullback.check.diagnosis.places import moved, order_of_outputs, swapped
from pullback.check.diagnosis.rounding import persists, rounded_inputs, rounding_noise, short_format
from pullback.check.diagnosis.standins import stand_in


def first_that_holds(scene: Scene, which: int, look: Look, wrong: list[int]) -> Guess | None:
    """Try the guesses about one input in order, the plainest first; `wrong` are all wrong inputs."""
    plain = (_missing, _upstream, short_format, _not_linear, _ratio, rounded_inputs, rounding_noise)
    for guess in plain:
        held = guess(scene, which, look)
        if held is not None:
            return held
    if is_close(look, 1e-3):
        return None
    return _elsewhere(scene, which, look, wrong)


def _elsewhere(scene: Scene, which: int, look: Look, wrong: list[int]) -> Guess | None:
    """Numbers that would be right for something else: another input, output, place or value."""
    return (
        swapped(scene, which, look, wrong)
        or _part_of_outputs(scene, look)
        or order_of_outputs(scene, look)
        or moved(scene, which, look)
        or _conjugate(scene, which, look)
        or stand_in(scene, which, look)
    )


def _conjugate(scene: Scene, which: int, look: Look) -> Guess | None:
    """Complex numbers of the right size and another angle."""
    leaves = (scene.layout.leaves[which], *scene.subject.outputs.leaves)
    if not look.trial.whole or not all(leaf.is_complex for leaf in leaves):
        return None
    got, wanted = (np.abs(part.view(np.complex128)) for part in (look.got, look.wanted))
    return Guess(Cause.CONJUGATE) if np.allclose(got, wanted, rtol=1e-5, atol=0) else None


def _missing(scene: Scene, which: int, look: Look) -> Guess | None:
    said = look.trial.said
    if np.any(look.got) and np.all(np.abs(look.wanted) <= 1e-12 * np.max(np.abs(look.got))):
        return Guess(Cause.FLAT)
    if which in said.none:
        return Guess(Cause.NONE)
    if np.any(said.r[scene.layout.span(which)]):
        return None
    return _zero(scene, look)


def _zero(scene: Scene, look: Look) -> Guess:
    return Guess(Cause.ONES if _ones_give_nothing(scene, look) else Cause.DETACHED)


def _ones_give_nothing(scene: Scene, look: Look) -> bool:
    """Whether an upstream of ones gives no gradient, so that zero is what forgetting it looks like."""
    ahead, behind = (
        scene.subject.value(look.trial.x + t * look.trial.u) for t in (2.0**-10, -(2.0**-10))
    )
    moved = ahead - behind
    if moved.size < 2 or not np.isfinite(moved).all() or not np.any(moved):
        return False
    rounding = 10 * scene.subject.epsilon * float(np.sum(np.abs(ahead)))
    return abs(float(np.sum(moved))) <= 1e-6 * float(np.sum(np.abs(moved))) + rounding


def _upstream(scene: Scene, which: int, look: Look) -> Guess | None:
    """The gradient is there without an upstream: all of it, or a part."""
    span = scene.layout.span(which)
    _, zero = scene.subject.pull(look.trial.x, np.zeros_like(look.trial.w))
    if not np.isfinite(zero[span]).all():
        return Guess(Cause.LINEAR)
    if not np.any(zero[span]):
        return None
    forgotten = np.array_equal(zero[span], look.trial.said.r[span])
    return Guess(Cause.UPSTREAM if forgotten else Cause.UPSTREAM_IN_PART)


def _not_linear(scene: Scene, which: int, look: Look) -> Guess | None:
    """A multiple of the upstream does not give that multiple of the gradient.

    Powers of two, up and down, are exact in every format, so that rounding is not mistaken for it.
    """
    span = scene.layout.span(which)
    here = look.trial.said.r[span]
    scale = float(np.max(np.abs(here), initial=0.0))
    for times, bound in ((-1.0, 1e-3), (1 / 64, 1e-5), (64.0, 1e-5)):
        _, there = scene.subject.pull(look.trial.x, times * look.trial.w)
        gap = float(np.max(np.abs(here - there[span] / times), initial=0.0))
        if gap > max(bound, 1e3 * scene.subject.rule.rule_epsilon) * scale:
            return Guess(Cause.LINEAR)
    return None


def _part_of_outputs(scene: Scene, look: Look) -> Guess | None:
    """Right for some of several outputs, off by one number for the others."""
    outputs = scene.subject.outputs
    if not look.trial.whole or len(outputs.leaves) < 2:
        return None
    looks = [_within(look, outputs.span(k)) for k in range(len(outputs.leaves))]
    wrong = [k for k, part in enumerate(looks) if part.wrong.size]
    if _exchanged(looks, wrong):
        return Guess(Cause.OUTPUTS_SWAPPED, word=_named_outputs(scene, wrong))
    numbers = [constant_ratio(looks[k]) for k in wrong]
    known = [n for n in numbers if n is not None]
    if len(wrong) == len(looks) or len(known) < len(wrong) or np.ptp(known) > 1e-3:
        return None
    return Guess(Cause.OUTPUT, known[0], word=_named_outputs(scene, wrong))


def _within(look: Look, span: slice) -> Look:
    return Look(look.got[span], look.wanted[span], look.bars[span], look.trial)


def _exchanged(looks: list[Look], wrong: list[int]) -> bool:
    if len(wrong) != 2:
        return False
    a, b = (looks[k] for k in wrong)
    return is_same(a.got, b.wanted, b) and is_same(b.got, a.wanted, a)


def _named_outputs(scene: Scene, which: list[int]) -> str:
    return " and ".join(scene.subject.outputs.leaves[k].name for k in which)


def _ratio(scene: Scene, which: int, look: Look) -> Guess | None:
    """One number between claim and measurement, along several directions."""
    number = constant_ratio(look)
    if number is None:
        return None
    if not _ratio_again(scene, which, number, 1 if look.got.size >= 8 else 3):
        return None
    if abs(number) < 1e-9:
        return _zero(scene, look)
    if abs(number - 1) < 2e-6 and not persists(scene, which, look):
        return Guess(Cause.PRECISION, number - 1, "float32")
    return Guess(Cause.SIGN if abs(number + 1) < 1e-4 else Cause.FACTOR, number)


def _ratio_again(scene: Scene, which: int, number: float, times: int) -> bool:
    span = scene.layout.span(which)
    rng = np.random.default_rng(0)
    size = span.stop - span.start
    for _ in range(times if size > 1 else 0):
        u = scene.along_leaf(which)
        u[span] *= rng.normal(size=size) * (rng.random(size) < 0.5)
        if not np.any(u):
            continue
        again = constant_ratio(scene.look(u))
        if again is None or abs(again - number) > 1e-3 * abs(number - 1) + 1e-12:
            return False
    return True


def constant_ratio(look: Look) -> float | None:
    """Got / wanted, if it is one number (other than one) nearly wherever it can be told."""
    with np.errstate(all="ignore"):
        known = np.isfinite(look.got) & np.isfinite(look.bars)
        told = known & (np.abs(look.wanted) > 100 * look.bars)
        if not told.any():
            return None
        got, wanted, bars = look.got[told], look.wanted[told], look.bars[told]
        strong = np.abs(wanted) >= np.median(np.abs(wanted))
        number = float(np.median(got[strong] / wanted[strong]))
        fits = np.abs(got - number * wanted) <= (
            30 * (1 + abs(number)) * bars + 1e-3 * abs(number - 1) * np.abs(wanted)
        )
        rest = known & ~told
        quiet = np.abs(look.got[rest]) <= 1e3 * (1 + abs(number)) * look.bars[rest] + 1e-9
    if abs(number - 1) < 1e-10 or np.mean(fits) < NEARLY:
        return None
    return number if not quiet.size or np.mean(quiet) > 0.99 else None
