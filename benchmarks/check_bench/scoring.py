"""Is a wrong rule really wrong? And what does the check make of it?"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.check_bench.cases import Case
from benchmarks.check_bench.mutants import Mutant


@dataclass(frozen=True)
class Outcome:
    """What one checker made of one rule; `label` is empty for the right one."""

    case: str
    family: str
    label: str
    caught: bool
    fitting: bool
    calls: int
    seconds: float
    said: str = ""


def build(B: Any, case: Case, mutant: Mutant | None = None) -> Any:
    """The case in one framework, with its right rule or a wrong one."""
    forward, right = case.make(B)
    if mutant is None:
        return B.attach(forward, right)
    rule = mutant.change(B, right)
    remember = getattr(rule, "remember", None)
    if remember is None:
        return B.attach(forward, rule)

    def remembering(*xs: Any) -> Any:
        ys = forward(*xs)
        remember(xs, ys)
        return ys

    return B.attach(remembering, rule)


def in_single(B: Any, fn: Any) -> Any:
    """The same function, made to run in float32 whatever it is given."""

    def single(*xs: Any) -> Any:
        return fn(*[B.cast(x, "float32") for x in xs])

    return single


def triggering(
    mutant: Mutant, inputs: list[np.ndarray], rng: np.random.Generator
) -> list[np.ndarray]:
    """Inputs at which the wrong rule shows, if it ever does."""
    if mutant.trigger is None:
        return inputs
    jitter = 0.0 if mutant.label in ("x = 0", "ties") else 0.05
    out = []
    for x in inputs:
        hit = mutant.trigger * (1 + jitter * rng.random(x.shape))
        out.append(np.where(rng.random(x.shape) < 0.6, hit, x) if mutant.label != "ties" else hit)
    return out


def really_wrong(B: Any, mutant: Mutant, n: int) -> bool:
    """Whether the wrong rule differs from the right one where the function is finite (TensorFlow)."""
    import tensorflow as tf

    rng = np.random.default_rng(7)
    arrays = triggering(mutant, mutant.case.inputs(rng, n), rng)
    xs = [tf.constant(x) for x in arrays]
    others = [tf.constant(x) for x in mutant.case.inputs(rng, n)]
    forward, right = mutant.case.make(B)
    ys = forward(*xs)
    if not all(np.isfinite(y).all() for y in (ys if isinstance(ys, tuple) else (ys,))):
        return False
    wrong = mutant.change(B, right)
    if hasattr(wrong, "remember"):
        wrong.remember(xs, ys)
        wrong.remember(others, forward(*others))
        if mutant.label == "first call":
            xs, ys = others, forward(*others)
    return _differ(tf, forward, right, wrong, xs, mutant.family == "2nd")


def _differ(tf: Any, forward: Any, right: Any, wrong: Any, xs: Any, second: bool) -> bool:
    results = []
    for rule in (right, wrong):
        with tf.GradientTape() as tape:
            tape.watch(xs)
            ys = forward(*xs)
            many = ys if isinstance(ys, tuple) else (ys,)
            dys = tuple(_weights(tf, y) for y in many)
            gs = rule(dys if isinstance(ys, tuple) else dys[0], tuple(xs), ys)
            gs = [
                tf.zeros_like(x) if g is None else tf.cast(g, tf.float64)
                for g, x in zip(gs, xs, strict=True)
            ]
            total = tf.add_n([tf.reduce_sum(g * _weights(tf, g)) for g in gs])
        seconds = tape.gradient(total, xs) if second else gs
        results.append(
            [
                np.zeros(x.shape) if g is None else np.asarray(g)
                for g, x in zip(seconds, xs, strict=True)
            ]
        )
    scale = max(float(np.max(np.abs(g), initial=0)) for g in results[0]) or 1.0
    gap = max(
        float(np.max(np.abs(np.nan_to_num(a) - np.nan_to_num(b)), initial=0))
        for a, b in zip(*results, strict=True)
    )
    return gap > 1e-9 * scale


def _weights(tf: Any, y: Any) -> Any:
    count = int(np.prod(y.shape))
    return tf.constant(np.cos(np.arange(count) + 0.5).reshape(y.shape))


def score(B: Any, case: Case, mutant: Mutant | None, n: int, seed: int, **options: Any) -> Outcome:
    """The verdict of `pb.check` on one rule."""
    from pullback.check import check

    fn, dtype = build(B, case, mutant), options.pop("dtype", "float64")
    if dtype == "float32":
        fn = in_single(B, fn)
    xs = [B.array(x, dtype) for x in case.inputs(np.random.default_rng(100 + seed), n)]
    began = time.perf_counter()
    report = check(fn, *xs, seed=seed, **options)
    kind = report.findings[0].kind if report.findings else ""
    return Outcome(
        case.name,
        mutant.family if mutant else "right",
        mutant.label if mutant else "",
        report.verdict == "wrong",
        bool(mutant and kind in mutant.kinds),
        report.calls,
        time.perf_counter() - began,
        f"{kind}: {report.diagnosis}" if kind else "",
    )
