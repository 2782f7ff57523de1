"""From a failed test to a finding: where, how much, and what it is in words."""

import contextlib
from dataclasses import replace

import numpy as np

from pullback.check.course.examine import Examination, Failure, Problem
from pullback.check.diagnosis import words
from pullback.check.diagnosis.blame import Look, Scene
from pullback.check.diagnosis.conditions import (
    Condition,
    condition_among,
    condition_on,
    tied,
    wrong_among,
    wrong_together,
)
from pullback.check.diagnosis.guess import Guess, is_close
from pullback.check.diagnosis.hypotheses import first_that_holds
from pullback.check.diagnosis.places import misplaced, one_sided, reach_of, uncoupled
from pullback.check.diagnosis.rounding import lost_bits
from pullback.check.diagnosis.staleness import is_restless, staleness
from pullback.check.diagnosis.standins import output_for_input
from pullback.check.measure.trial import Trial
from pullback.check.probe import OutsideDomain, RuleFault, WrongDtype, WrongShape
from pullback.check.report import Finding

# what is said of the rule as a whole, not of one input
WHOLE = ("stale", "swapped", "linear", "second", "condition", "nonfinite")
# failures that a rule shows which gives another gradient each time
UNSTEADY = (Failure.ZERO, Failure.STALE, Failure.VALUE)
MOST = 4


def diagnose(exam: Examination, problem: Problem, *, explain: bool) -> tuple[Finding, ...]:
    """What a problem is, in words and numbers: one finding for each input that is wrong."""
    findings: tuple[Finding, ...] = (_plain(exam, problem),)
    if explain and problem.kind in (Failure.VALUE, Failure.LINEAR) and problem.trial is not None:
        with contextlib.suppress(RuleFault, OutsideDomain):
            findings = _explained(exam, problem, problem.trial, findings[0])
    if explain and problem.kind in UNSTEADY and is_restless(exam):
        findings = (replace(findings[0], kind="stale", diagnosis=words.STATEFUL),)
    elif explain and problem.kind is Failure.ZERO and _needs_upstream(exam):
        findings = (replace(findings[0], kind="linear", diagnosis=words.NOT_LINEAR),)
    source = exam.subject.rule.source()
    return tuple(replace(finding, source=source) for finding in findings)


def _needs_upstream(exam: Examination) -> bool:
    """Whether an upstream of zero gives no number, as when it is divided by its size."""
    _, zero = exam.subject.pull(exam.start, np.zeros(exam.subject.outputs.size))
    return not np.isfinite(zero).all()


def _plain(exam: Examination, problem: Problem) -> Finding:
    """The finding without any further call."""
    leaves = exam.subject.inputs.leaves
    path = leaves[0].path
    if problem.fault is not None:
        return _fault(exam, problem.fault)
    if problem.kind is Failure.ZERO:
        return Finding("upstream", path, words.upstream(leaves[0].name))
    if problem.kind is Failure.STALE:
        return Finding("stale", path, words.STALE_LAST)
    if problem.kind is Failure.DETACHED_UPSTREAM:
        return Finding("second", path, words.SECOND_UPSTREAM)
    if problem.kind is Failure.LINEAR:
        return Finding("linear", path, words.NOT_LINEAR)
    if problem.kind is Failure.MODE:
        return _mode(problem)
    return _numbers(exam, problem)


def _fault(exam: Examination, fault: RuleFault) -> Finding:
    leaf, reason = exam.subject.inputs.leaves[fault.leaf or 0], fault.reason
    if isinstance(reason, WrongShape):
        return Finding("shape", leaf.path, words.shape(leaf.name, reason.shape, leaf.shape))
    if isinstance(reason, WrongDtype):
        text = f"the gradient for `{leaf.name}` is {reason}, the input is {leaf.dtype}: cast it"
        return Finding("dtype", leaf.path, text)
    return Finding("raises", leaf.path, f"the rule raises {reason}")


def _mode(problem: Problem) -> Finding:
    got, wanted = problem.numbers or (None, None)
    text = f"the gradient is another one in mode '{problem.text}' than run eagerly"
    return Finding("mode", problem.where, text, got=got, wanted=wanted, point=problem.text)


def _numbers(exam: Examination, problem: Problem) -> Finding:
    trial, subject = problem.trial, exam.subject
    if trial is None or not problem.positions.size:
        return Finding("value", subject.inputs.leaves[0].path, words.NOT_LINEAR)
    worst = _worst(trial, problem)
    layout = subject.inputs if trial.order == 2 else subject.outputs
    where = layout.locate(worst) if trial.whole else layout.leaves[0].path
    second = trial.order == 2
    path = where if second else subject.inputs.leaves[0].path
    return Finding(
        kind="second" if second else "value",
        path=path,
        diagnosis=_first_words(exam, trial, worst),
        got=float(trial.claimed[worst]),
        wanted=float(trial.slope.value[worst]),
        error=float(trial.slope.error[worst]),
        point="" if trial.point is None else str(trial.point),
        output="" if second else where,
    )


def _first_words(exam: Examination, trial: Trial, worst: int) -> str:
    if trial.order == 2:
        return words.SECOND if np.isfinite(trial.claimed[worst]) else words.SECOND_NOT_FINITE
    return words.term(exam.subject.inputs.leaves[0].name, _share(trial, worst))


def _worst(trial: Trial, problem: Problem) -> int:
    gap = trial.gap[problem.positions]
    return int(problem.positions[int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))])


def _share(trial: Trial, at: int) -> float:
    size = abs(float(trial.slope.value[at])) or 1.0
    return float(trial.gap[at]) / size


def _explained(
    exam: Examination, problem: Problem, trial: Trial, finding: Finding
) -> tuple[Finding, ...]:
    if problem.kind is Failure.LINEAR:
        return (_linear(exam, trial, finding),)
    scene = Scene(exam.subject, trial)
    exam.look_at_program()
    found = scene.wrong_leaves(problem.positions)
    first = _blamed(exam, problem, scene, found, finding)
    if first.kind in WHOLE or not problem.generic:
        return (first,)
    surely = [
        (k, look) for k, look in found[1:MOST] if np.isin(problem.positions, look.wrong).any()
    ]
    rest = [_in_brief(scene, k, look, found, finding) for k, look in surely]
    # an input that is given no gradient may be meant so
    return tuple(sorted([first, *rest], key=lambda one: one.kind == "none"))


def _in_brief(
    scene: Scene, which: int, look: Look, found: list[tuple[int, Look]], finding: Finding
) -> Finding:
    """A further input that is wrong, without a search for elements and conditions."""
    finding = _along(scene, which, look, finding)
    guess = first_that_holds(scene, which, look, [k for k, _ in found])
    if guess is None:
        return _last_word(scene, which, look, finding)
    return _said(scene, which, guess, finding)


def _along(scene: Scene, which: int, look: Look, finding: Finding) -> Finding:
    """The finding with the numbers seen when this input alone is moved."""
    path = scene.layout.leaves[which].path
    if not look.wrong.size:
        return replace(finding, path=path)
    worst = int(look.wrong[int(np.argmax(look.gap[look.wrong]))])
    outputs = scene.subject.outputs
    return replace(
        finding,
        path=path,
        got=float(look.got[worst]) + 0.0,
        wanted=float(look.wanted[worst]),
        error=float(look.bars[worst]),
        output=outputs.locate(worst) if look.trial.whole else outputs.leaves[0].path,
    )


def _blamed(
    exam: Examination,
    problem: Problem,
    scene: Scene,
    found: list[tuple[int, Look]],
    finding: Finding,
) -> Finding:
    """What is wrong with the input that is blamed first."""
    (which, look), trial = found[0], scene.trial
    leaf = scene.layout.leaves[which]
    finding = _along(scene, which, look, finding)
    stale = staleness(scene, which, look, exam.start, problem.generic)
    if stale is not None:
        return replace(finding, kind="stale", diagnosis=stale)
    finite = bool(np.isfinite(trial.claimed[problem.positions]).all())
    if not problem.generic:
        return _special(exam, problem, scene, (which, look), finding, finite)
    if not finite:
        return replace(finding, kind="nonfinite", diagnosis=words.not_finite(leaf.name))
    if not np.array_equal(trial.x, exam.start) and not is_close(look, 1e-3):
        conditional = _conditional(exam, problem, scene, (which, look), finding)
        if conditional is not None:
            return conditional
    guess = first_that_holds(scene, which, look, [k for k, _ in found])
    if guess is not None:
        return _said(scene, which, guess, finding)
    return _by_place(exam, problem, scene, (which, look), finding)


def _conditional(
    exam: Examination, problem: Problem, scene: Scene, blamed: tuple[int, Look], finding: Finding
) -> Finding | None:
    """Wrong at some values only, if so."""
    which, look = blamed
    entry = scene.wrong_element(which, look, problem.positions)
    if entry is None:
        return None
    found = condition_on(scene, entry, scene.trial.x, exam.constants)
    if found is None:
        found = condition_among(scene, which, exam.constants)
    elif _denied(exam, scene, (which, look, entry), found):
        return replace(finding, kind="stale", diagnosis=words.STALE_BRANCH)
    if found is None:
        return None
    text = f"wrong only {_in_words(scene.layout.leaves[which].name, found)}"
    return replace(finding, kind="condition", diagnosis=text)


def _linear(exam: Examination, trial: Trial, finding: Finding) -> Finding:
    """Either the rule is not linear, or its derivative by the upstream is not the rule."""
    subject, x, w = exam.subject, trial.x, trial.w
    other = exam.rng.normal(size=w.size)
    _, a = subject.pull(x, w)
    _, b = subject.pull(x, other)
    _, both = subject.pull(x, w + other)
    scale = float(np.max(np.abs(both), initial=1e-300))
    if float(np.max(np.abs(both - a - b), initial=0.0)) > 1e-6 * scale:
        return finding
    return replace(finding, kind="second", diagnosis=words.SECOND_UPSTREAM)


def _special(
    exam: Examination,
    problem: Problem,
    scene: Scene,
    blamed: tuple[int, Look],
    finding: Finding,
    finite: bool,
) -> Finding:
    """Right in general: which values make it wrong, or which element was not met before?"""
    which, look = blamed
    name = scene.layout.leaves[which].name
    guess = lost_bits(scene, which, look)
    if guess is not None:
        return _said(scene, which, guess, finding)
    entry = scene.wrong_element(which, look, problem.positions)
    where = None if entry is None else _where(exam, scene, which, entry)
    if entry is not None and where is None and not exam.right_in_general[entry]:
        return _few(exam, scene, which, [entry], finding)
    where = where or words.at_point(name, scene.trial.point)
    if finite:
        # a short format lets pass elsewhere what is wrong there too
        text = f"wrong {where}" if exam.subject.epsilon > 1e-4 else f"wrong only {where}"
        return replace(finding, kind="condition", diagnosis=text)
    return replace(finding, kind="nonfinite", diagnosis=words.not_finite(name, where))


def _where(exam: Examination, scene: Scene, which: int, entry: int) -> str | None:
    """The values at which an entry is wrong, among ordinary others if it is wrong there too."""
    name = scene.layout.leaves[which].name
    for base in (exam.start, scene.trial.x):
        found = condition_on(scene, entry, base, exam.constants)
        if found is not None:
            return _in_words(name, found)
        if base is exam.start and tied(scene, entry) and not wrong_among(scene, entry, base):
            if wrong_together(scene, entry):
                value = float(scene.trial.x[entry])
                return _in_words(name, Condition(value, value))
            return words.WHERE_TIED
    return None


def _in_words(name: str, found: Condition) -> str:
    return words.where(name, found.low, found.high, found.mirrored, dict(found.named))


def _said(scene: Scene, which: int, guess: Guess, finding: Finding) -> Finding:
    names = [leaf.name for leaf in scene.layout.leaves]
    other = "" if guess.other is None else names[guess.other]
    kind, text = words.of_guess(guess, names[which], other)
    return replace(finding, kind=kind, diagnosis=text)


def _by_place(
    exam: Examination,
    problem: Problem,
    scene: Scene,
    blamed: tuple[int, Look],
    finding: Finding,
) -> Finding:
    """No pattern in the numbers: look for one in the places, then in the couplings."""
    which, look = blamed
    leaf = scene.layout.leaves[which]
    few = scene.wrong_elements(which, look)
    if few is not None and len(few) < leaf.size:
        return _few(exam, scene, which, few, finding)
    reach = reach_of(scene, which)
    guess = None if reach is None else misplaced(scene, reach)
    if guess is not None:
        return _said(scene, which, guess, finding)
    conditional = _conditional(exam, problem, scene, blamed, finding) if leaf.size > 1 else None
    if conditional is not None:
        return conditional
    guess = output_for_input(scene, which, look)
    if guess is None and reach is not None:
        guess = uncoupled(scene, which, reach)
    entry = None if guess else scene.wrong_element(which, look, problem.positions)
    if entry is not None:
        guess = one_sided(scene, which, entry)
    if guess is not None:
        return _said(scene, which, guess, finding)
    return _last_word(scene, which, look, finding)


def _denied(
    exam: Examination, scene: Scene, blamed: tuple[int, Look, int], found: Condition
) -> bool:
    """Entries of such values are right elsewhere, and all was right at first: an old branch."""
    which, look, entry = blamed
    span = scene.layout.span(which)
    x = scene.trial.x[span]
    if found.named or look.got.size != x.size or np.array_equal(scene.trial.x, exam.start):
        return False
    alone = scene.alone(entry)
    if not np.array_equal(
        np.flatnonzero(np.abs(alone.wanted) > 100 * alone.bars), [entry - span.start]
    ):
        return False
    size = np.abs(x) if found.mirrored else x
    inside = (size > found.low) & (size < found.high)
    return int(np.sum(inside & look.known_right(look.share))) > 0.2 * int(np.sum(inside))


def _few(exam: Examination, scene: Scene, which: int, few: list[int], finding: Finding) -> Finding:
    leaf = scene.layout.leaves[which]
    found = condition_on(scene, few[0], scene.trial.x, exam.constants)
    if found is not None:
        text = f"wrong only {_in_words(leaf.name, found)}"
        return replace(finding, kind="condition", diagnosis=text)
    look = scene.alone(few[0])
    step = float(look.trial.u[few[0]])
    worst = int(np.argmax(look.gap))
    got, wanted = (float(v[worst]) / step for v in (look.got, look.wanted))
    ratio = got / wanted + 0.0 if wanted else None
    where = scene.layout.element(few[0])
    text = words.element(leaf.name, where, len(few), leaf.size, ratio)
    return replace(
        finding,
        kind="element",
        path=leaf.path + where,
        diagnosis=text,
        got=got,
        wanted=wanted,
        error=float(look.bars[worst]) / abs(step),
    )


def _last_word(scene: Scene, which: int, look: Look, finding: Finding) -> Finding:
    name = scene.layout.leaves[which].name
    with np.errstate(all="ignore"):
        told = np.zeros(look.got.size, bool)
        told[look.wrong] = True
        told &= np.isfinite(look.got) & (np.abs(look.wanted) > 1e2 * look.bars)
        relative = look.got[told] / look.wanted[told] - 1
    relative = relative[np.isfinite(relative)]
    size = float(np.median(np.abs(relative))) if relative.size else 1.0
    if size < 2e-2:
        side = "large" if np.median(relative) > 0 else "small"
        return replace(finding, kind="small", diagnosis=words.slightly(name, size, side))
    return replace(finding, kind="term", diagnosis=words.term(name, size))
