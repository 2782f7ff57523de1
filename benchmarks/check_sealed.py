"""The check on cases that it was not tuned on: figures by group, and every outcome as JSON lines.

    python -m benchmarks.check_sealed --group wrong lies --out outcomes.jsonl

`wrong` and `mistakes` (by another hand) must be found, `right` never be called wrong and get the
same verdict for every seed, `lies` not be called right, `tensorflow` (its own wrong gradients) be
found or noted. Only figures are printed: whoever changes the check should not know the cases.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import tensorflow as tf

import pullback as pb
from benchmarks.check_bench.sealed import Item, items

GROUPS = ("wrong", "mistakes", "right", "lies", "tensorflow")
VERDICTS = ("right", "undecided", "wrong", "raised")


@dataclass(frozen=True)
class Outcome:
    """What the check said of one item; `raised` is a verdict when it ended with an error."""

    name: str
    group: str
    kind: str
    what: str
    seed: int
    expected: list[str]
    verdict: str
    diagnosis: str
    notes: list[str]
    calls: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the verdict is one of those expected."""
        return self.verdict in self.expected


def run(item: Item, seed: int) -> Outcome:
    """One check."""
    fn, args = item.make()
    began = time.perf_counter()
    try:
        report = pb.check(fn, *args, seed=seed, **item.options)
        verdict, diagnosis, calls = report.verdict, report.diagnosis, report.calls
        notes = [*report.coverage.notes, *report.coverage.reasons]
    except Exception as error:
        verdict, diagnosis, calls, notes = "raised", f"{type(error).__name__}: {error}", 0, []
    return Outcome(
        name=item.name,
        group=item.group,
        kind=item.kind,
        what=item.what,
        seed=seed,
        expected=sorted(item.expected),
        verdict=verdict,
        diagnosis=diagnosis,
        notes=notes,
        calls=calls,
        seconds=round(time.perf_counter() - began, 3),
    )


def run_group(group: str, seeds: int, only: str, out: TextIO | None) -> Iterator[Outcome]:
    """All checks of a group; right items run with every seed."""
    for item in items(group):
        if only not in item.name:
            continue
        for seed in range(seeds if group == "right" else 1):
            outcome = run(item, seed)
            if out is not None:
                print(json.dumps(asdict(outcome), ensure_ascii=False), file=out, flush=True)
            yield outcome


HEAD = (
    f"{'group':12}{'items':>6}{'runs':>6}{'as meant':>9}"
    + "".join(f"{verdict:>10}" for verdict in VERDICTS)
    + f"{'calls':>7}{'s':>7}{'s max':>8}{'s all':>8}"
)


def row(group: str, outcomes: list[Outcome]) -> str:
    """One line of the table; calls and seconds are medians."""
    verdicts = Counter(outcome.verdict for outcome in outcomes)
    seconds = [outcome.seconds for outcome in outcomes]
    return (
        f"{group:12}{len({o.name for o in outcomes}):>6}{len(outcomes):>6}"
        f"{sum(o.ok for o in outcomes):>9}"
        + "".join(f"{verdicts[verdict]:>10}" for verdict in VERDICTS)
        + f"{statistics.median(o.calls for o in outcomes):>7.0f}{statistics.median(seconds):>7.2f}"
        f"{max(seconds):>8.1f}{sum(seconds):>8.0f}"
    )


def by_kind(outcomes: Iterable[Outcome]) -> str:
    """How many of each kind are as meant."""
    total: Counter[str] = Counter()
    good: Counter[str] = Counter()
    for outcome in outcomes:
        total[outcome.kind or "families"] += 1
        good[outcome.kind or "families"] += outcome.ok
    return ", ".join(f"{kind} {good[kind]}/{total[kind]}" for kind in sorted(total))


def further(group: str, outcomes: list[Outcome]) -> str:
    """What counts in this group besides the verdicts."""
    if group == "right":
        verdicts: dict[str, set[str]] = defaultdict(set)
        for outcome in outcomes:
            verdicts[outcome.name].add(outcome.verdict)
        alarms = sum("wrong" in said for said in verdicts.values())
        differing = sum(len(said) > 1 for said in verdicts.values())
        return f"items called wrong: {alarms}; verdict depends on the seed: {differing}"
    if group == "tensorflow":
        noted = sum(o.verdict == "right" and bool(o.notes) for o in outcomes)
        return f"right with a note: {noted}; right without: {_silent(outcomes)}"
    if group == "lies":
        return f"called right: {sum(o.verdict == 'right' for o in outcomes)}"
    return f"missed: {sum(not o.ok for o in outcomes)}"


def _silent(outcomes: list[Outcome]) -> int:
    return sum(o.verdict == "right" and not o.notes for o in outcomes)


def main() -> None:
    """Run, write, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--group", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--out", type=Path, help="file for the outcomes, one JSON line each")
    parser.add_argument("--seeds", type=int, default=5, help="seeds for right items")
    parser.add_argument("--only", default="", help="items whose name has this in it")
    options = parser.parse_args()
    tf.autograph.set_verbosity(0)
    out = options.out.open("w", encoding="utf-8") if options.out else None
    print(HEAD)
    for group in options.group:
        outcomes = list(run_group(group, options.seeds, options.only, out))
        if outcomes:
            print(row(group, outcomes), flush=True)
            print(f"  {by_kind(outcomes)}\n  {further(group, outcomes)}", flush=True)
    if out is not None:
        out.close()


if __name__ == "__main__":
    main()
