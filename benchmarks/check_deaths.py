"""Whether a check can end the process, or not end: every operation that TensorFlow differentiates, in child processes.

python -m benchmarks.check_deaths [diagnoses] [operations] [--only PATTERN] [--state FOLDER]

`diagnoses` gives every call of the audit's catalogue wrong rules, and lets the check say what is wrong with them.
`operations` runs every operation of these calls on other operands, as a diagnosis does: numbers that are not finite
or of other sizes, and, of the operations that are said to refuse them, sizes, axes, indices and shapes that do not fit.
A child writes down what it begins and ends; where it dies, another one goes on after that.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks._measure import QUIET, print_amounts, quiet

quiet()

SECONDS = 10.0  # of CPU time that a check may take
PATIENCE = 300.0  # seconds of silence after which a child hangs
MEMORY = 16 << 30  # more than that is a death in waiting
MISTAKES = ("other argument", "backwards", "added", "scaled")

Item = tuple[str, Callable[[], dict[str, Any]]]


# diagnoses


def _changed(mistake: str, gradient: Any, upstream: Any) -> Any:
    import tensorflow as tf

    if gradient is None:
        return None
    gradient = tf.convert_to_tensor(gradient)
    if mistake == "backwards":
        return tf.reverse(gradient, range(gradient.shape.rank))
    if mistake == "added":
        return gradient + tf.cast(tf.reduce_sum(upstream), gradient.dtype) * 0.5
    if mistake == "scaled":
        return gradient * tf.cast(tf.cos(tf.math.real(gradient)) + 0.3, gradient.dtype)
    return gradient


def mistaken(function: Callable[..., Any], mistake: str) -> Any:
    """The function with a rule that computes it anew and gets it wrong; all that it computes is then in the rule."""
    import tensorflow as tf

    import pullback as pb
    from pullback.engines.tensorflow.auditing.calls import floating

    @pb.custom_gradient
    def wrong(*xs: Any) -> Any:
        def wrong_pullback(*upstream: Any) -> Any:
            factor = 1.1 if mistake == "other argument" else 1.0
            with tf.GradientTape() as tape:
                tape.watch(xs)
                again = floating(function(*(tf.cast(factor, x.dtype) * x for x in xs)))
            found = tape.gradient(again, xs, list(upstream))
            return tuple(_changed(mistake, g, upstream[0]) for g in found)

        return tuple(floating(function(*xs))), wrong_pullback

    return wrong


def _diagnosed(name: str, mistake: str) -> dict[str, Any]:
    """The first call of a function with a wrong rule, checked."""
    from pullback.check import check, progress
    from pullback.engines.tensorflow import auditing
    from pullback.errors import PullbackError
    from pullback.extend import NotCallable

    try:
        case = next(iter(auditing.cases(name, careful=True)), None)
    except NotCallable:
        case = None
    if case is None:
        return {"verdict": "not called"}
    function, args = auditing.function(case)
    began = time.process_time()
    try:
        with progress.hidden():
            report = check(mistaken(function, mistake), *args, modes="none", order=1)
    except PullbackError as error:
        return {"verdict": "refused", "text": str(error)[:200]}
    seconds = time.process_time() - began
    return {
        "verdict": report.verdict,
        "calls": report.calls,
        "seconds": seconds,
        "text": report.diagnosis,
        "notes": [note for note in report.coverage.notes if "could not be tried" in note],
    }


def diagnoses(only: str) -> Iterator[Item]:
    """A mistake for each name: they take turns, so that none is tried with one kind of function alone."""
    from pullback.engines.tensorflow import auditing

    for k, name in enumerate(auditing.names()):
        if re.search(only, name):
            mistake = MISTAKES[k % len(MISTAKES)]
            yield f"{name}, {mistake}", partial(_diagnosed, name, mistake)


# operations


def operations(only: str) -> Iterator[Item]:
    """The calls of the catalogue: of each kind of operation that they run, what a diagnosis may change."""
    from pullback.engines.tensorflow import auditing

    seen: dict[str, int] = {}
    for name in auditing.names():
        if re.search(only, name):
            yield name, partial(_torn, name, seen)


_EACH = 3  # forms of one type of operation


def _torn(name: str, seen: dict[str, int]) -> dict[str, Any]:
    from pullback.engines.tensorflow import auditing
    from pullback.extend import NotCallable

    try:
        cases = auditing.cases(name, careful=True)[:2]
    except NotCallable:
        cases = []
    runs = 0
    for case in cases:
        for node, taken in _operations_of(*auditing.function(case)):
            if seen.setdefault(node.op, 0) < _EACH:
                seen[node.op] += 1
                runs += _run_on_others(node, taken)
    return {"runs": runs}


def _operations_of(function: Any, args: Any) -> Iterator[tuple[Any, list[Any]]]:
    """The operations of a call and of its gradient, with what they are given there."""
    import tensorflow as tf

    from pullback.engines.tensorflow.auditing.calls import floating
    from pullback.engines.tensorflow.programs import PROGRAMS
    from pullback.program.run import CALLS, run_program

    def every(*xs: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            ys = floating(function(*xs))
        return [ys, tape.gradient(ys, xs, [tf.ones_like(y) for y in ys])]

    try:
        made = run_program(PROGRAMS, PROGRAMS.trace(every, args), args, entered=CALLS)
    except Exception:  # what cannot be traced has no operations to be run alone
        return
    for event in made.events:
        if event.inputs:
            yield event.node, [made.values[number] for number in event.inputs]


def _run_on_others(node: Any, taken: list[Any]) -> int:
    """How often it ran, or was refused, on operands that differ from its own."""
    import numpy as np
    import tensorflow as tf

    from pullback.engines.tensorflow.programs.alone import run_changed

    if any(t.dtype in (tf.variant, tf.resource, tf.string) for t in taken):
        return 0
    rng, runs = np.random.default_rng(0), 0
    arrays = [t.numpy() for t in taken]
    for others in (*_others(arrays), *(_any_others(rng, arrays) for _ in range(100))):
        runs += 1
        try:
            made = [tf.constant(a, t.dtype) for a, t in zip(others, taken, strict=True)]
            run_changed(node, made, taken, "")
        except Exception:  # refused: as it should be
            continue
    return runs


def _others(arrays: list[Any]) -> Iterator[list[Any]]:
    """One operand changed, or all that hold numbers."""
    for table in (NUMBERS, INTEGERS, SHAPES):
        for change in table:
            changed = [_apply(change, a, table) for a in arrays]
            yield changed
            for k in range(len(arrays)):
                yield [
                    c if j == k else a for j, (a, c) in enumerate(zip(arrays, changed, strict=True))
                ]


def _any_others(rng: Any, arrays: list[Any]) -> list[Any]:
    """Some operands changed in several ways."""
    changed = list(arrays)
    for k in range(len(arrays)):
        for table in (SHAPES, INTEGERS, NUMBERS):
            if rng.random() < 0.4:
                change = table[rng.integers(len(table))]
                changed[k] = _apply(change, changed[k], table)
    return changed


def _apply(change: Callable[[Any], Any], array: Any, table: Any) -> Any:
    import numpy as np

    kinds = {id(NUMBERS): "fcV", id(INTEGERS): "iub"}.get(id(table), "fcViub")
    if array.dtype.kind not in kinds:
        return array
    with np.errstate(all="ignore"):
        try:
            return np.asarray(change(array)).astype(array.dtype)
        except (ValueError, IndexError, TypeError, OverflowError):
            return array


def _filled(value: float) -> Callable[[Any], Any]:
    def change(a: Any) -> Any:
        return a * 0 + value

    return change


NUMBERS: list[Callable[[Any], Any]] = [
    *(_filled(v) for v in (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 6e4, 1e30)),
    lambda a: -a,
    lambda a: 1.1 * a,
]
INTEGERS: list[Callable[[Any], Any]] = [
    *(_filled(v) for v in (0, 1, -1, 7, 100_000, 2**31 - 1, -(2**31), 2**63 - 1)),
    *(lambda a: a + 1, lambda a: a - 1, lambda a: -a, lambda a: 2 * a),
    *(lambda a: a[..., ::-1], lambda a: a.argsort(-1)),
]
SHAPES: list[Callable[[Any], Any]] = [
    *(lambda a: a.T, lambda a: a.ravel(), lambda a: a.ravel()[0], lambda a: a[0]),
    *(lambda a: a[None], lambda a: a[..., None], lambda a: a[:0], lambda a: a[..., :0]),
    *(lambda a: a[:-1], lambda a: a[..., :-1], lambda a: a.repeat(2, 0), lambda a: a.repeat(2, -1)),
]


# children


PARTS = {"diagnoses": diagnoses, "operations": operations}


def child(part: str, only: str, file: Path) -> None:
    """Go on after what is written down in the file."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    begun = {one["name"] for one in read(file)}
    with file.open("a", encoding="utf-8") as out:
        for name, run in PARTS[part](only):
            if name not in begun:
                print(json.dumps({"name": name}), file=out, flush=True)
                try:
                    found = run()
                except Exception as error:
                    found = {"verdict": "crashed", "text": f"{type(error).__name__}: {error}"[:300]}
                print(json.dumps({"name": name, **found}), file=out, flush=True)


def read(file: Path) -> list[dict[str, Any]]:
    """What is written down so far."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def survived(
    part: str, only: str, file: Path, program: Sequence[str] = ("-m", "benchmarks.check_deaths")
) -> list[tuple[dict[str, Any], int]]:
    """What children died of, with their exit status; what came of all items is in the file."""
    deaths: list[tuple[dict[str, Any], int]] = []
    command = [sys.executable, *program, "child", part, "--only", only, "--state", str(file)]
    while (status := _ended(command, file)) != 0:
        last = read(file)[-1]
        deaths.append((last, status))
        print(f"died ({status}): {last}", flush=True)
        with file.open("a", encoding="utf-8") as out:
            print(json.dumps({"name": last["name"], "verdict": "died", "status": status}), file=out)
    return deaths


def _ended(command: list[str], file: Path) -> int:
    """The status of a child; it is ended where it writes nothing for too long."""
    import os

    running = subprocess.Popen(command, env={**os.environ, **QUIET}, stdout=subprocess.DEVNULL)
    while True:
        try:
            return running.wait(PATIENCE / 10)
        except subprocess.TimeoutExpired:
            if file.exists() and time.time() - file.stat().st_mtime > PATIENCE:
                running.kill()


def main() -> None:
    """Print what came of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=[*PARTS])
    parser.add_argument("--only", default="")
    parser.add_argument("--state", type=Path, default=Path("deaths"))
    asked = parser.parse_args()
    if asked.parts[0] == "child":
        child(asked.parts[1], asked.only, asked.state)
        return
    asked.state.mkdir(exist_ok=True)
    for part in asked.parts:
        file = asked.state / f"{part}.jsonl"
        survived(part, asked.only, file)
        done = list({one["name"]: one for one in read(file)}.values())
        count = {v: sum(one.get("verdict") == v for one in done) for v in ("died", "crashed")}
        wrong = [one for one in done if one.get("verdict") == "wrong"]
        slow = [one for one in wrong if one["seconds"] > SECONDS]
        rows = [(f"{what}, of {len(done)}", float(k), 0.0) for what, k in count.items()]
        rows.append(
            (f"over {SECONDS:g} s of CPU time, of {len(wrong)} wrong", float(len(slow)), 0.0)
        )
        print_amounts(part, rows, "")


if __name__ == "__main__":
    main()
