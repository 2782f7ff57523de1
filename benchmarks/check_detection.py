"""What a gradient check finds: wrong rules caught, right ones left alone, by size and family.

    python -m benchmarks.check_detection --sizes 10 1000 --share 4 --peers

`--share k` takes every k-th function; `--peers` adds the checkers of TensorFlow, PyTorch and JAX on
the same rules, those of which are installed.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import time
import zlib
from collections import Counter
from dataclasses import dataclass, field

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import numpy as np

import benchmarks.check_bench.functions  # noqa: F401  registers the cases
from benchmarks.check_bench import backends
from benchmarks.check_bench.cases import CASES
from benchmarks.check_bench.mutants import FAMILIES, Mutant, mutants
from benchmarks.check_bench.peers import Judge, available
from benchmarks.check_bench.scoring import Outcome, really_wrong, score


@dataclass
class Tally:
    """What one checker did at one size; a catch counts only where the right rule passed."""

    name: str
    size: int
    wrong: Counter[str] = field(default_factory=Counter)
    caught: Counter[str] = field(default_factory=Counter)
    named: int = 0
    alarms: int = 0
    calls: list[int] = field(default_factory=list)
    seconds: float = 0.0

    def row(self) -> str:
        """One line of the table."""
        total, caught = sum(self.wrong.values()), sum(self.caught.values())
        share = [
            f"{100 * self.caught[f] / self.wrong[f]:5.0f}" if self.wrong[f] else "    –"
            for f in FAMILIES
        ]
        calls = f"{statistics.median(self.calls):6.0f}" if self.calls else "     –"
        named = f"{100 * self.named / max(1, caught):6.1f}" if self.calls else "     –"
        net = 100 * caught / max(1, total)
        return (
            f"{self.name:26}{self.size:>8}{self.alarms:>5}{net:7.1f}{' '.join(share)}{named}{calls}"
            f"{1e3 * self.seconds / max(1, total):9.0f}"
        )


FAMILY_HEAD = " ".join(f"{family:>5}" for family in FAMILIES)
HEAD = f"{'checker':26}{'n':>8}{'FA':>5}{'net %':>7}{FAMILY_HEAD}{'named':>6}{'calls':>6}{'ms':>9}"


def wrong_rules(name: str, n: int) -> list[Mutant]:
    """The wrong rules of a case that are wrong indeed."""
    B = backends.tensorflow()
    made = mutants(CASES[name], np.random.default_rng(zlib.crc32(name.encode())), n)
    return [mutant for mutant in made if really_wrong(B, mutant, n)]


def ours(name: str, n: int, tally: Tally, seeds: int, show: bool, **options: object) -> None:
    """`pb.check` on a case: right rule with several seeds, then the wrong ones."""
    B, began = backends.tensorflow(), time.perf_counter()
    right = [score(B, CASES[name], None, n, seed, **options) for seed in range(seeds)]
    if show:
        _tell([outcome for outcome in right if outcome.caught], "alarm")
    tally.alarms += sum(outcome.caught for outcome in right)
    tally.calls += [outcome.calls for outcome in right]
    for mutant in wrong_rules(name, n):
        outcome = score(B, mutant.case, mutant, n, 0, **options)
        if show and not outcome.fitting:
            _tell([outcome], "misnamed" if outcome.caught else "missed")
        tally.wrong[mutant.family] += 1
        tally.caught[mutant.family] += outcome.caught and not right[0].caught
        tally.named += outcome.fitting and not right[0].caught
    tally.seconds += time.perf_counter() - began


def _tell(outcomes: list[Outcome], what: str) -> None:
    for o in outcomes:
        print(f"  {what}: {o.case}, {o.family}, {o.label} {o.said}", flush=True)


def theirs(name: str, n: int, tally: Tally, judge: Judge) -> None:
    """Another checker on the same rules."""
    began = time.perf_counter()
    alarm = bool(judge(CASES[name], None, n, 0))
    tally.alarms += alarm
    for mutant in wrong_rules(name, n):
        verdict = judge(mutant.case, mutant, n, 0)
        if verdict is not None:
            tally.wrong[mutant.family] += 1
            tally.caught[mutant.family] += verdict and not alarm
    tally.seconds += time.perf_counter() - began


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--dtype", default="float64", help="float32: functions that run in it only")
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--show", action="store_true", help="each miss, wrong name and false alarm")
    parser.add_argument("--only", nargs="+", help="functions by name")
    parser.add_argument("--full", action="store_true", help="leave out the quick check")
    options = parser.parse_args()
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    names = options.only or list(CASES)[:: options.share]
    peers = available() if options.peers else {}
    print(f"{len(names)} functions, {options.dtype}; FA: right rules objected to; ms a rule")
    print(HEAD)
    for n in options.sizes:
        kinds = [("pullback, full", False), ("pullback, quick", True)]
        for label, quick in kinds[: 1 if options.full else 2]:
            tally = Tally(label, n)
            show = options.show and not quick
            for name in names:
                ours(name, n, tally, options.seeds, show, quick=quick, dtype=options.dtype)
            print(tally.row(), flush=True)
        for label, judge in peers.items():
            tally = Tally(label, n)
            for name in names:
                theirs(name, n, tally, judge)
            print(tally.row(), flush=True)


if __name__ == "__main__":
    main()
