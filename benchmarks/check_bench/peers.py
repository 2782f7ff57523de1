"""The other checkers, each with its own defaults, as one question: does it object to this rule?"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.check_bench import backends
from benchmarks.check_bench.cases import Case
from benchmarks.check_bench.mutants import Mutant
from benchmarks.check_bench.scoring import build

Judge = Callable[[Case, Mutant | None, int, int], bool | None]


def available() -> dict[str, Judge]:
    """The checkers whose framework is installed here."""
    found: dict[str, Judge] = {"tf.test.compute_gradient": _tensorflow()}
    if importlib.util.find_spec("torch"):
        found |= {
            "torch gradcheck slow": _torch(fast=False),
            "torch gradcheck fast": _torch(fast=True),
        }
    if importlib.util.find_spec("jax"):
        found["jax check_grads"] = _jax()
    return found


def _inputs(B: Any, case: Case, n: int, seed: int) -> list[Any]:
    return [B.array(x, "float64") for x in case.inputs(np.random.default_rng(100 + seed), n)]


def _tensorflow() -> Judge:
    import tensorflow as tf

    B = backends.tensorflow()

    def judge(case: Case, mutant: Mutant | None, n: int, seed: int) -> bool | None:
        fn = build(B, case, mutant)

        def joined(*xs: Any) -> Any:
            ys = fn(*xs)
            return (
                ys if not isinstance(ys, tuple) else tf.concat([tf.reshape(y, [-1]) for y in ys], 0)
            )

        try:
            theory, numbers = tf.test.compute_gradient(joined, _inputs(B, case, n, seed))
        except Exception:
            return True
        pairs = zip(theory, numbers, strict=True)
        return not all(np.max(np.abs(a - b), initial=0) < 1e-3 for a, b in pairs)

    return judge


def _torch(*, fast: bool) -> Judge:
    torch = importlib.import_module("torch")
    B = backends.torch()

    def judge(case: Case, mutant: Mutant | None, n: int, seed: int) -> bool | None:
        fn = build(B, case, mutant)
        xs = [x.requires_grad_() for x in _inputs(B, case, n, seed)]
        try:
            return not torch.autograd.gradcheck(fn, xs, fast_mode=fast, raise_exception=False)
        except Exception:
            return True

    return judge


def _jax() -> Judge:
    B = backends.jax()
    checker = importlib.import_module("jax.test_util").check_grads

    def judge(case: Case, mutant: Mutant | None, n: int, seed: int) -> bool | None:
        if mutant is not None and mutant.family == "stale":
            return None  # traced programs cannot hold on to values of another call
        try:
            checker(build(B, case, mutant), _inputs(B, case, n, seed), order=1, modes=["rev"])
        except Exception:
            return True
        return False

    return judge
