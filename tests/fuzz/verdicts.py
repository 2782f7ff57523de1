"""What came of a case: it agrees, it is silently wrong, or it crashed; and how verdicts are gathered in a long run."""

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from pullback.errors import PullbackError
from tests.fuzz.define_oracle import NOTHING

ROUNDING = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-5, "complex64": 1e-5}


@dataclass(frozen=True)
class Verdict:
    """`kind` is "agrees", "silent wrong", "crash", or "not TensorFlow" where stock fails as well."""

    kind: str
    words: str = ""
    signature: str = ""

    @property
    def is_good(self) -> bool:
        return self.kind in ("agrees", "not TensorFlow")


def is_ours(error: BaseException, named: str) -> bool:
    """Whether an error is the library's own, or one at run time that carries its words."""
    if isinstance(error, PullbackError):
        return True
    return isinstance(error, tf.errors.InvalidArgumentError) and named in str(error)


def crash(error: BaseException) -> Verdict:
    frames = traceback.extract_tb(error.__traceback__)
    where = [
        f"{f.filename.rsplit('/', 1)[-1]}:{f.name}" for f in frames if "pullback" in f.filename
    ]
    where = where or [f"{f.filename.rsplit('/', 1)[-1]}:{f.name}" for f in frames]
    signature = f"{type(error).__name__} in {where[-1]}"
    return Verdict("crash", f"{type(error).__name__}: {_shortened(str(error))}", signature)


def difference(came: Any, wanted: Any, gives_none: bool) -> str:
    """What is wrong with a gradient; nothing where it is right."""
    if isinstance(came, str):
        return ""  # it was not asked for
    if isinstance(came, tf.IndexedSlices):
        came = tf.convert_to_tensor(came)
    if wanted is None or isinstance(wanted, str):
        zero_is_fine = wanted == NOTHING or not gives_none
        nothing = came is None or (zero_is_fine and not np.any(_plain(came)))
        return "" if nothing else f"got {came}, wanted {wanted}"
    if came is None:
        return (
            "" if not gives_none and not np.any(wanted) else f"got None, wanted {wanted.tolist()}"
        )
    rounding = ROUNDING.get(came.dtype.name, 1e-9)
    found = _plain(came)
    if found.shape != wanted.shape:
        return f"got shape {found.shape}, wanted {wanted.shape}"
    near = rounding * max(1.0, float(np.max(np.abs(wanted), initial=0.0)))
    same = np.allclose(found, wanted, rtol=rounding, atol=near)
    return "" if same else f"got {found.tolist()}, wanted {wanted.tolist()}"


def _plain(tensor: Any) -> np.ndarray:
    wide = np.complex128 if tensor.dtype.is_complex else np.float64
    return np.asarray(tf.cast(tensor, wide))


class Gathering:
    """The verdicts of a run: counts, and the shortest case of each signature."""

    def __init__(self, judge: Callable[[Any], Verdict]) -> None:
        self.judge = judge
        self.counts: dict[str, int] = {}
        self.shortest: dict[str, tuple[int, str, str]] = {}
        self.excused: dict[str, tuple[str, str]] = {}  # where stock fails as well: words and case

    def add(self, case: Any) -> Verdict:
        verdict = self.judge(case)
        self.counts[verdict.kind] = self.counts.get(verdict.kind, 0) + 1
        if verdict.kind == "not TensorFlow":
            self.excused.setdefault(verdict.signature, (verdict.words, repr(case)))
        if not verdict.is_good:
            text, key = repr(case), f"{verdict.kind}: {verdict.signature}"
            count, known, words = self.shortest.get(key, (0, "", ""))
            if not known or len(text) < len(known):
                known, words = text, verdict.words
            self.shortest[key] = (count + 1, known, words)
        return verdict

    def report(self) -> str:
        lines = [", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))]
        for key, (count, case, words) in sorted(
            self.shortest.items(), key=lambda item: -item[1][0]
        ):
            lines += [f"\n== {count} x {key}", f"  {words}", f"  {case}"]
        for signature, (words, case) in self.excused.items():
            lines += [f"\n-- stock fails as well: {signature}", f"  {words}", f"  {case}"]
        return "\n".join(lines)


def _shortened(text: str) -> str:
    return text if len(text) < 1500 else f"{text[:300]} … {text[-1000:]}"
