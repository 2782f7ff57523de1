"""From a failed test to a finding: where, how much, and what it is in words."""

import contextlib
from dataclasses import replace

import numpy as np

from pullback.check import words
from pullback.check.blame import Look, Scene
from pullback.check.conditions import condition_of
from pullback.check.examine import Examination, Problem
from pullback.check.hypotheses import Guess, first_that_holds
from pullback.check.probe import OutsideDomain, RuleFault
from pullback.check.report import Finding
from pullback.check.trial import Trial


def diagnose(exam: Examination, problem: Problem, *, explain: bool) -> Finding:
    """What a problem is, in words and numbers."""
    finding = _plain(exam, problem)
    if explain and problem.kind in ("value", "linear") and problem.trial is not None:
        with contextlib.suppress(RuleFault, OutsideDomain):
            finding = _explained(exam, problem, problem.trial, finding)
    return replace(finding, source=exam.subject.rule.source())


def _plain(exam: Examination, problem: Problem) -> Finding:
    """The finding without any further call."""
    leaves = exam.subject.inputs.leaves
    path = leaves[0].path
    if problem.fault is not None:
        return _fault(exam, problem.fault)
    if problem.kind == "zero":
        return Finding("upstream", path, words.upstream(leaves[0].name))
    if problem.kind == "stale":
        return Finding("stale", path, words.STALE_LAST)
    if problem.kind == "detached upstream":
        return Finding("second", path, words.SECOND_UPSTREAM)
    if problem.kind == "linear":
        return Finding("linear", path, words.NOT_LINEAR)
    if problem.kind == "mode":
        return _mode(problem)
    return _numbers(exam, problem)


def _fault(exam: Examination, fault: RuleFault) -> Finding:
    leaf = exam.subject.inputs.leaves[fault.leaf or 0]
    if fault.kind == "shape":
        return Finding("shape", leaf.path, words.shape(leaf.name, fault.text, list(leaf.shape)))
    if fault.kind == "dtype":
        text = f"the gradient for `{leaf.name}` is {fault.text}, the input is {leaf.dtype}: cast it"
        return Finding("dtype", leaf.path, text)
    return Finding("raises", leaf.path, f"the rule raises {fault.text}")


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
    text = (
        words.SECOND if second else words.term(subject.inputs.leaves[0].name, _share(trial, worst))
    )
    return Finding(
        kind="second" if second else "value",
        path=path,
        diagnosis=text,
        got=float(trial.claimed[worst]),
        wanted=float(trial.slope.value[worst]),
        error=float(trial.slope.error[worst]),
        point=trial.point,
        output="" if second else where,
    )


def _worst(trial: Trial, problem: Problem) -> int:
    gap = trial.gap[problem.positions]
    return int(problem.positions[int(np.argmax(np.where(np.isnan(gap), np.inf, gap)))])


def _share(trial: Trial, at: int) -> float:
    size = abs(float(trial.slope.value[at])) or 1.0
    return float(trial.gap[at]) / size


def _explained(exam: Examination, problem: Problem, trial: Trial, finding: Finding) -> Finding:
    if problem.kind == "linear":
        return _linear(exam, trial, finding)
    if _is_stale(exam, trial):
        return replace(finding, kind="stale", diagnosis=words.STALE_FIRST)
    scene = Scene(exam.subject, trial)
    exam.look_at_program()
    found = scene.wrong_leaves()
    which, look = found[0]
    leaf = scene.layout.leaves[which]
    finding = replace(finding, path=leaf.path)
    finite = np.isfinite(trial.claimed[problem.positions])
    if not finite.all():
        return replace(finding, kind="nonfinite", diagnosis=words.not_finite(leaf.name))
    if not problem.generic:
        return _special(exam, scene, which, look, finding)
    guess = first_that_holds(scene, which, look, _others(scene, found))
    if guess is not None:
        return _said(scene, which, guess, finding)
    return _by_place(exam, scene, which, look, finding)


def _others(scene: Scene, found: list[tuple[int, Look]]) -> list[int]:
    wrong = [k for k, _ in found]
    return wrong + [k for k in range(len(scene.layout.leaves)) if k not in wrong]


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


def _is_stale(exam: Examination, trial: Trial) -> bool:
    """The rule gives at one point what it gives at another: it holds on to earlier values."""
    if np.array_equal(trial.x, exam.start):
        return False
    _, here = exam.subject.pull(trial.x, trial.w)
    _, there = exam.subject.pull(exam.start, trial.w)
    return np.array_equal(here, there) and bool(np.any(here))


def _special(exam: Examination, scene: Scene, which: int, look: Look, finding: Finding) -> Finding:
    name = scene.layout.leaves[which].name
    found = condition_of(scene, which, look, exam.constants)
    if found is None or found.wrong == 1:
        few = scene.wrong_elements(which, look)
        if few is not None and len(few) == 1 and not exam.right_in_general[few[0]]:
            return _few(exam, scene, which, few, look, finding)
    at_point = words.at_point(name, scene.trial.point)
    text = at_point if found is None else words.condition(name, found.text)
    return replace(finding, kind="condition", diagnosis=text)


def _said(scene: Scene, which: int, guess: Guess, finding: Finding) -> Finding:
    name = scene.layout.leaves[which].name
    other = "" if guess.other is None else scene.layout.leaves[guess.other].name
    said = {
        "none": lambda: words.nothing_flows(name),
        "detached": lambda: words.detached(name),
        "upstream": lambda: words.upstream(name),
        "factor": lambda: words.factor(name, guess.number),
        "sign": lambda: words.sign(name),
        "linear": lambda: words.NOT_LINEAR,
        "precision": lambda: words.precision(name, guess.word),
        "swapped": lambda: words.swapped(name, other),
    }.get(guess.kind, lambda: words.rearranged(name, guess.word))
    return replace(finding, kind=guess.kind, diagnosis=said())


def _by_place(exam: Examination, scene: Scene, which: int, look: Look, finding: Finding) -> Finding:
    """No pattern in the numbers: look for one in the places, then in the couplings."""
    leaf = scene.layout.leaves[which]
    few = scene.wrong_elements(which, look)
    if few is not None and len(few) < max(2, leaf.size):
        return _few(exam, scene, which, few, look, finding)
    found = condition_of(scene, which, look, exam.constants)
    if found is not None and found.right:
        return replace(finding, kind="condition", diagnosis=words.condition(leaf.name, found.text))
    if _misses_couplings(scene, which):
        return replace(finding, kind="term", diagnosis=words.cross_terms(leaf.name))
    return _last_word(scene, which, look, finding)


def _few(
    exam: Examination, scene: Scene, which: int, few: list[int], look: Look, finding: Finding
) -> Finding:
    leaf = scene.layout.leaves[which]
    if _shared(scene, which, few):
        text = _condition_words(exam, scene, which, few, look)
        return replace(finding, kind="condition", diagnosis=text)
    u = np.zeros(scene.layout.size)
    u[few[0]] = scene.trial.u[few[0]]
    look = scene.look(u)
    worst = int(np.argmax(look.gap))
    got, wanted = (float(v[worst]) / float(u[few[0]]) for v in (look.got, look.wanted))
    ratio = got / wanted + 0.0 if wanted else None
    where = scene.layout.locate(few[0])
    text = words.element(leaf.name, where.removeprefix(leaf.path), len(few), leaf.size, ratio)
    return replace(
        finding,
        kind="element",
        path=where,
        diagnosis=text,
        got=got,
        wanted=wanted,
        error=float(look.bars[worst]) / abs(float(u[few[0]])),
    )


def _shared(scene: Scene, which: int, few: list[int]) -> bool:
    """Whether another entry turns wrong when it is given the value of a wrong one."""
    span = scene.layout.span(which)
    others = [k for k in range(span.start, min(span.stop, span.start + 64)) if k not in few]
    if not others:
        return False
    x, u = scene.trial.x.copy(), np.zeros(scene.layout.size)
    chosen = others[len(others) // 2]
    x[chosen] = x[few[0]] * 1.001
    u[chosen] = scene.trial.u[chosen] or 1.0
    try:
        return bool(scene.look(u, x).wrong.size)
    except OutsideDomain:
        return False


def _condition_words(
    exam: Examination, scene: Scene, which: int, few: list[int], look: Look
) -> str:
    name, value = scene.layout.leaves[which].name, float(scene.trial.x[few[0]])
    found = condition_of(scene, which, look, exam.constants)
    if found is not None:
        return words.condition(name, found.text)
    bound = next((c for c in exam.constants if 0 < c < abs(value)), None)
    if bound is None:
        return f"wrong only where {name} is near {words.short(value)}".replace("-", "−")
    return words.condition(name, f"> {bound:.4g}" if value > 0 else f"< {-bound:.4g}")


def _misses_couplings(scene: Scene, which: int) -> bool:
    """Moving one entry moves outputs that the rule leaves alone."""
    span = scene.layout.span(which)
    u = np.zeros(scene.layout.size)
    chosen = int(span.start + np.argmax(np.abs(scene.trial.u[span])))
    u[chosen] = scene.trial.u[chosen]
    look = scene.look(u)
    if not look.trial.whole or look.got.size < 2:
        return False
    size = float(np.max(np.abs(look.wanted[np.isfinite(look.wanted)]), initial=0.0))
    lost = (np.abs(look.got) < 1e-9 * size) & (np.abs(look.wanted) > 1e3 * look.bars + 1e-6 * size)
    return bool(lost.any())


def _last_word(scene: Scene, which: int, look: Look, finding: Finding) -> Finding:
    name = scene.layout.leaves[which].name
    with np.errstate(all="ignore"):
        told = np.zeros(look.got.size, bool)
        told[look.wrong] = True
        told &= np.isfinite(look.got) & (np.abs(look.wanted) > 1e2 * look.bars)
        relative = (np.abs(look.got[told]) - np.abs(look.wanted[told])) / np.abs(look.wanted[told])
    relative = relative[np.isfinite(relative)]
    size = float(np.median(np.abs(relative))) if relative.size else 1.0
    if size < 2e-2:
        side = "large" if np.median(relative) > 0 else "small"
        return replace(finding, kind="small", diagnosis=words.slightly(name, size, side))
    return replace(finding, kind="term", diagnosis=words.term(name, size))
