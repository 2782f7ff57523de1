"""One function judged: TensorFlow runs it, and what is wrong with it is known."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pullback.audit import Case, NotCallable
from pullback.audit import results as r
from pullback.audit.judge import judged
from pullback.engines.tensorflow import auditing

X = np.array([0.3, 0.7], np.float32)
IMAGE = np.ones([2, 3, 3], np.float32)
COMPLEX = np.array([0.3 + 0.2j, 0.7 - 0.4j], np.complex64)
SPARSE = (
    "tf.sparse.maximum(tf.SparseTensor([[0], [1]], x, [2]), tf.SparseTensor([[0]], [0.0], [2]))"
)
CALLS = {
    "sine": Case("tf.sin(x)", {"x": X}, "plain"),
    "product": Case("tf.math.cumprod(x)", {"x": 0 * X}, "all zeros"),
    "length": Case("tf.norm(x)", {"x": 0 * X}, "all zeros"),
    "angle": Case("tf.atan2(x, x)", {"x": 0 * X}, "all zeros"),
    "sparse": Case(SPARSE, {"x": X}, "plain"),
    "gamma": Case("tf.math.igamma(x + 1, x)", {"x": X}, "plain", second=True),
    "multiple": Case("tf.math.multiply_no_nan(x, 1 + 2j)", {"x": COMPLEX}, "complex"),
    "stopped": Case("tf.stop_gradient(x)", {"x": X}, "plain"),
    "flip": Case("tf.image.random_flip_left_right(x)", {"x": IMAGE}, "all ones"),
    "noise": Case("tf.stop_gradient(x) * tf.random.normal([])", {"x": X}, "plain"),
    "shuffled": Case("tf.random.shuffle(x)", {"x": X}, "plain"),
    "steps": Case("tf.floor(x)", {"x": X}, "plain"),
}


class Few:
    """A catalogue of these calls, which are TensorFlow's."""

    version = "few"

    def names(self) -> Sequence[str]:
        return list(CALLS)

    def aliases(self, name: str) -> Sequence[str]:
        return [f"also_{name}"]

    def cases(self, name: str, *, careful: bool = False) -> Sequence[Case]:
        if name not in CALLS:
            raise NotCallable("it is not there")
        return [CALLS[name]]

    def by_design(self, name: str) -> str:
        return "that is what it is for" if name in ("stopped", "shuffled") else ""

    def mended_by(self, name: str) -> str:
        return "pb.functions.norm" if name == "length" else ""

    def __getattr__(self, name: str) -> Any:
        return getattr(auditing, name)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("sine", r.RIGHT),
        ("steps", r.RIGHT),
        ("product", r.WRONG),
        ("length", r.NAN),
        ("angle", r.SINGULAR),
        ("sparse", r.NONE),
        ("gamma", r.SECOND),
        ("multiple", r.WRONG),
        ("stopped", r.DESIGN),
        ("flip", r.RIGHT),
        ("noise", r.UNDECIDED),
        ("shuffled", r.DESIGN),
    ],
)
def test_the_status_of_a_function(name: str, status: str) -> None:
    assert judged(Few(), name).status == status


def test_what_cannot_be_called_says_why() -> None:
    assert judged(Few(), "nothing") == r.Result("nothing", r.NOT_CALLED, "it is not there")


def test_a_fault_comes_with_a_program_that_shows_it() -> None:
    (fault,) = judged(Few(), "multiple").faults
    known: dict[str, Any] = {}
    exec(fault.script, known)
    np.testing.assert_allclose(known["got"], [1 + 2j, 1 + 2j])  # TensorFlow's: not conjugated
    np.testing.assert_allclose(known["wanted"], [1 - 2j, 1 - 2j], rtol=1e-6)
    assert "pullback" not in fault.script


def test_a_result_names_ops_other_names_and_what_mends_it() -> None:
    result = judged(Few(), "length")
    assert result.aliases == ("also_length",)
    assert result.mended == "pb.functions.norm"
    assert "tf.raw_ops.Sqrt" in result.operations


def test_tied_maxima_are_moved_together() -> None:
    call = "tf.nn.max_pool3d(x, 2, 2, 'VALID')"
    case = Case(call, {"x": np.ones([1, 2, 2, 2, 1], np.float32)}, "all ones")
    script = auditing.script(case, "x", together=True)
    known: dict[str, Any] = {}
    exec(script, known)
    np.testing.assert_allclose(known["wanted"], 1.0, rtol=1e-3)
    assert float(known["got"]) == 8.0


def test_a_call_in_half_precision_is_compared_in_double() -> None:
    case = replace(CALLS["sine"], inputs={"x": X.astype(np.float16)})
    known: dict[str, Any] = {}
    exec(auditing.script(case, "x"), known)
    assert known["got"].dtype == tf.float16
    np.testing.assert_allclose(
        known["wanted"], np.cos(X.astype(np.float16).astype(np.float64)), rtol=1e-6
    )
