"""Memory and time of a training step, beside plain differentiation of the same formula.

Memory is the peak above what is resident before, in a step that has run before, in a process of its own. Time is the
least CPU time of each over some turns, by the plain one's, all in one process.
"""

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from _measure import Console, Table, alone, peak_mib, resident_mib

Step = Callable[[], Any]
MODES = ("eager", "graph", "XLA")


def in_mode(mode: str, step: Callable[..., Any], *args: Any) -> Step:
    """A step in one of the modes; its arguments are not constants of a graph."""
    import tensorflow as tf

    if mode == "eager":
        return lambda: step(*args)
    traced = tf.function(step, autograph=False, jit_compile=True if mode == "XLA" else None)
    return lambda: traced(*args)


def gradients_of(loss: Callable[..., Any]) -> Callable[..., Any]:
    """A step that gives a loss and its gradient towards all of its arguments."""
    import tensorflow as tf

    def step(*args: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(args)
            value = loss(*args)
        return value, tape.gradient(value, args)

    return step


def peak_of(step: Step) -> float:
    """MiB above what is resident before the step."""
    for _ in range(2):
        step()
    peaks: list[float] = []
    for _ in range(3):
        gc.collect()
        before = resident_mib()
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        step()
        peaks.append(peak_mib() - before)
    return sorted(peaks)[1]


def least_times(cases: Mapping[str, Step], turns: int = 7) -> dict[str, float]:
    """The least CPU seconds of each case, which take turns."""
    for step in cases.values():
        step()
    found = {name: float("inf") for name in cases}
    for _ in range(turns):
        for name, step in cases.items():
            gc.collect()
            start = time.process_time()
            step()
            found[name] = min(found[name], time.process_time() - start)
    return found


def measure(
    memory: Callable[..., float],
    times: Callable[..., dict[str, float]],
    kinds: Sequence[str],
    *args: Any,
    modes: Sequence[str] = MODES,
) -> dict[str, dict[str, tuple[float, float]]]:
    """Peak memory and CPU time of each kind in each mode."""
    found: dict[str, dict[str, tuple[float, float]]] = {}
    for mode in modes:
        seconds = alone(times, mode, *args, timed=True)
        found[mode] = {kind: (alone(memory, kind, mode, *args), seconds[kind]) for kind in kinds}
    return found


def show(
    title: str,
    found: Mapping[str, Mapping[str, tuple[float, float]]],
    bars: Mapping[str, tuple[float | None, float | None]],
) -> bool:
    """Print memory and time by those of the first kind; return whether the bars hold for the last kind."""
    table = Table(title=title, title_justify="left")
    for heading in ("mode", "case", "MiB", "× memory", "at most", "× CPU time", "at most"):
        table.add_column(heading, justify="left" if heading in ("mode", "case") else "right")
    fine = True
    for mode, kinds in found.items():
        first, last = next(iter(kinds)), list(kinds)[-1]
        for kind, (mib, seconds) in kinds.items():
            ratios = mib / kinds[first][0], seconds / kinds[first][1]
            bar = bars.get(mode, (None, None)) if kind == last else (None, None)
            fine &= all(b is None or r <= b for r, b in zip(ratios, bar, strict=True))
            marks = [_said(r, b) for r, b in zip(ratios, bar, strict=True)]
            table.add_row(mode, kind, f"{mib:.0f}", *marks[0], *marks[1])
    Console(width=110).print(table)
    return fine


def show_by(
    title: str,
    found: Mapping[str, Mapping[str, tuple[float, float]]],
    peer: str,
    bars: Mapping[str, tuple[float | None, float | None]],
) -> bool:
    """The same by another case than the first."""
    ours = {mode: {k: kinds[k] for k in (peer, list(kinds)[-1])} for mode, kinds in found.items()}
    return show(title, ours, bars)


def _said(ratio: float, bar: float | None) -> tuple[str, str]:
    if bar is None:
        return f"{ratio:.3f}", ""
    return f"{ratio:.3f}", f"{bar:.3g} " + ("[green]✓[/]" if ratio <= bar else "[red]✗[/]")
