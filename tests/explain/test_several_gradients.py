"""A step that takes several gradients: each is answered by itself."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = np.array([1.0, 2.0], np.float32)


def variables() -> tuple[tf.Variable, tf.Variable]:
    return tf.Variable([3.0, 4.0], name="u"), tf.Variable([5.0, 6.0], name="v")


def adversarial(first: Any, second: Any, *, between: Any = None, traced: bool = False) -> Any:
    """A step of two tapes, each with its loss and its variable."""
    u, v = variables()

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(first(x, u, v))
        of_u = tape.gradient(loss, u)
        if between is not None:
            between(u, of_u)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(second(x, u, v))
        of_v = tape.gradient(loss, v)
        return of_u, of_v

    flow = pb.explain(tf.function(step) if traced else step, tf.constant(X))
    return flow, u, v


def norms(flow: pb.Flow) -> dict[str, float]:
    own = [flow.flow_of(source)[1] for source in flow.sources]
    return {s.name: s.gradient.norm for s in own if s.kind == "variable" and s.gradient}


@pytest.mark.parametrize("traced", [False, True])
def test_each_source_has_the_gradient_that_was_taken_of_it(traced: bool) -> None:
    flow, _, _ = adversarial(lambda x, u, v: x * u, lambda x, u, v: x * x * v, traced=traced)
    assert norms(flow) == pytest.approx({"u": np.hypot(1, 2), "v": np.hypot(1, 4)})
    assert "2 gradients" in flow.notes[0]


def bad(x: Any, u: Any, v: Any) -> Any:
    return tf.sqrt(0.0 * u) * x


def good(x: Any, u: Any, v: Any) -> Any:
    return x * u * v


def test_nan_in_the_first_is_found() -> None:
    flow, _, _ = adversarial(bad, good)
    found = flow.first_nonfinite()
    assert found is not None
    assert found.op == "tf.sqrt"
    assert "NaN" in str(flow)


def test_nan_in_the_second_is_found() -> None:
    flow, _, _ = adversarial(good, lambda x, u, v: bad(x, v, u))
    found = flow.first_nonfinite()
    assert found is not None
    assert found.op == "tf.sqrt"


@pytest.mark.parametrize("is_first", [True, False])
def test_what_is_missing_in_one_is_told_of_that_one(is_first: bool) -> None:
    def cut(x: Any, u: Any, v: Any) -> Any:
        return x * tf.round(u) + tf.round(v)  # the cause

    flow, u, v = adversarial(*((cut, good) if is_first else (good, cut)))
    said = flow.why(u if is_first else v)
    assert "tf.round" in said
    assert "test_several_gradients.py:" in said
    assert "has a gradient of norm" in flow.why(v if is_first else u)


def test_what_only_the_other_one_reads() -> None:
    flow, variable, _ = adversarial(lambda x, _, v: x * v, good)
    assert "gets no gradient" in flow.why(variable)


def test_a_variable_that_is_updated_in_between() -> None:
    def update(u: Any, gradient: Any) -> None:
        u.assign_sub(0.5 * gradient)

    flow, u, _ = adversarial(lambda x, u, v: u**2, lambda x, u, v: x * u * v, between=update)
    assert u.numpy().tolist() == [3.0, 4.0]
    assert norms(flow) == pytest.approx({"u": 10.0, "v": 0.0}, abs=1e-6)
    assert "zero" in flow.why("v")


def test_what_each_keeps() -> None:
    def kept(x: Any, u: Any, v: Any) -> Any:
        return tf.exp(tf.tile(x * u, [100])) * 1.0

    flow, _, _ = adversarial(kept, lambda x, u, v: tf.exp(tf.tile(x * v, [200])))
    assert [max(r.bytes for r in f.residuals()) for f in (*flow.others, flow)] == [800, 1600]


def test_what_flows_is_data() -> None:
    flow, _, _ = adversarial(good, good)
    (other,) = flow.to_dict()["others"]
    assert {s["name"]: s["asked"] for s in other["sources"]} == {"x": True, "u": True, "v": False}


def test_all_of_them_are_in_a_file(tmp_path: Path) -> None:
    flow, _, _ = adversarial(bad, lambda x, u, v: x * tf.exp(v) * 1.0)
    flow.save(tmp_path / "step.json")
    for read in (pb.Flow.load(tmp_path / "step.json"), pickle.loads(pickle.dumps(flow))):
        assert str(read) == str(flow)
        assert read.first_nonfinite() == flow.first_nonfinite()
        assert [read.why(s.name) for s in read.sources] == [flow.why(s.name) for s in flow.sources]
        pairs = zip((*read.others, read), (*flow.others, flow), strict=True)
        assert all(list(one.residuals()) == list(other.residuals()) for one, other in pairs)


def test_two_steps_differ_where_one_of_their_gradients_does() -> None:
    one, _, _ = adversarial(lambda x, u, v: x * u, good)
    other, _, _ = adversarial(lambda x, u, v: -x * u, good)
    changed = [p for p in one.compare(other).differing if p.kind == "source"]
    assert [(p.name, p.cosine) for p in changed] == [("u", pytest.approx(-1.0))]
