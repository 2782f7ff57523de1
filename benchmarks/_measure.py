"""Measuring for all benchmarks: ratios against a peer in the same run, never times of two runs.

The cases of a comparison take turns. Each turn gives one ratio of each case to the baseline, so
that a slow moment slows both. Reported are medians and quartiles of these ratios, of CPU time.
Memory is measured in a fresh process, where nothing else has been allocated.
"""

import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"}
# glibc keeps freed blocks below this size; a low bound shows what is really held. It slows all that allocates: each
# block is then mapped anew, and its pages are written for the first time.
ALONE = {**QUIET, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}

Case = Callable[[], object]


@dataclass(frozen=True)
class Ratio:
    """How a case compares with its baseline, and what it may cost at most."""

    name: str
    median: float
    low: float
    high: float
    micros: float
    bar: float | None = None

    @property
    def ok(self) -> bool:
        return self.bar is None or self.median <= self.bar


def compare(
    cases: Mapping[str, Case],
    *,
    bars: Mapping[str, float] | None = None,
    turns: int = 25,
    calls: int = 200,
) -> list[Ratio]:
    """Ratios of all cases to the first one, measured in turns of `calls` calls each."""
    for case in cases.values():
        seconds(case, max(calls // 10, 1))
    rounds = [_one_turn(cases, calls) for _ in range(turns)]
    return [_ratio(name, rounds, next(iter(cases)), (bars or {}).get(name)) for name in cases]


def seconds(case: Case, calls: int) -> float:
    """CPU seconds per call."""
    start = time.process_time()
    for _ in range(calls):
        case()
    return (time.process_time() - start) / calls


def _one_turn(cases: Mapping[str, Case], calls: int) -> dict[str, float]:
    gc.collect()
    gc.disable()
    try:
        return {name: seconds(case, calls) for name, case in cases.items()}
    finally:
        gc.enable()


def _ratio(
    name: str, rounds: Sequence[Mapping[str, float]], baseline: str, bar: float | None
) -> Ratio:
    ratios = [turn[name] / turn[baseline] for turn in rounds]
    low, median, high = statistics.quantiles(ratios, n=4)
    micros = 1e6 * statistics.median(turn[name] for turn in rounds)
    return Ratio(name, median, low, high, micros, bar)


def print_ratios(title: str, ratios: Sequence[Ratio]) -> bool:
    """Print a table; return whether every bar holds."""
    table = Table(title=title, title_justify="left")
    for heading in ("case", "× baseline", "quartiles", "µs CPU", "at most", ""):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for ratio in ratios:
        table.add_row(
            ratio.name,
            f"{ratio.median:.2f}",
            f"{ratio.low:.2f}–{ratio.high:.2f}",
            f"{ratio.micros:.1f}",
            "" if ratio.bar is None else f"{ratio.bar:.2f}",
            _mark(ratio.ok, ratio.bar),
        )
    Console(width=100).print(table)
    return all(ratio.ok for ratio in ratios)


def print_amounts(title: str, rows: Sequence[tuple[str, float, float | None]], unit: str) -> bool:
    """Print name, amount and bar; return whether every bar holds."""
    table = Table(title=title, title_justify="left")
    for heading in ("case", unit, "at most", ""):
        table.add_column(heading, justify="left" if heading == "case" else "right")
    for name, amount, bar in rows:
        at_most = "" if bar is None else f"{bar:g}"
        table.add_row(name, _short(amount), at_most, _mark(bar is None or amount <= bar, bar))
    Console(width=100).print(table)
    return all(bar is None or amount <= bar for _, amount, bar in rows)


def _short(amount: float) -> str:
    """With one digit behind the point, or three that count for what is small."""
    return f"{amount:.1f}" if amount >= 10.0 else f"{amount:.3g}"


def _mark(ok: bool, bar: float | None) -> str:
    return "" if bar is None else ("[green]✓[/]" if ok else "[red]✗[/]")


def alone(function: Callable[..., Any], *args: Any, timed: bool = False) -> Any:
    """What a function returns in a process of its own; its arguments and result are plain data.

    If it is `timed`, memory is allocated as in any process, and not so that what is held can be measured.
    """
    path = Path(function.__code__.co_filename).resolve()
    program = (
        "import json, runpy, sys; path, name, args = sys.argv[1:];"
        "print(json.dumps(runpy.run_path(path)[name](*json.loads(args))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(path), function.__name__, json.dumps(args)],
        env={
            **os.environ,
            **(QUIET if timed else ALONE),
            "PYTHONPATH": os.pathsep.join([str(path.parent), *sys.path]),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{function.__name__}{args} failed alone:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def resident_mib() -> float:
    """Memory this process holds now."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def peak_mib() -> float:
    """The most memory this process has held so far."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def quiet() -> None:
    """Call before importing TensorFlow."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
