"""The eager fast path is a path of the general one: the same gradients and the same errors, whatever a rule returns."""

import collections
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import pullback as pb
from pullback.engines.tensorflow.attach import eager
from pullback.engines.tensorflow.attach.recorded import Recorded

Pair = collections.namedtuple("Pair", ["first", "second"])
SHAPES = st.sampled_from([(), (2,), (3, 2), (0,)])
DTYPES = st.sampled_from([tf.float32, tf.float64, tf.bfloat16, tf.complex64, tf.int32])


@st.composite
def tensors(draw: Any) -> tf.Tensor:
    shape, dtype = draw(SHAPES), draw(DTYPES)
    values = np.random.default_rng(draw(st.integers(0, 9))).integers(-3, 4, shape)
    return tf.cast(tf.constant(values), dtype)


ARGUMENTS = st.one_of(
    tensors(),
    tensors(),
    st.tuples(tensors(), tensors()),
    st.lists(tensors(), min_size=1, max_size=2),
    st.fixed_dictionaries({"b": tensors(), "a": tensors()}),
    st.builds(Pair, tensors(), tensors()),
    st.sampled_from([None, "text", 3.0, True]),
)
# How a rule makes a gradient of an argument; the first few are right, if the argument is a tensor.
LEAF_RESULTS: dict[str, Any] = {
    "like": lambda x: tf.ones_like(x),
    "two": lambda x: tf.cast(tf.fill(tf.shape(x), 2), x.dtype),
    "none": lambda x: None,
    "double": lambda x: tf.ones(tf.shape(x), tf.float64),
    "broadcast": lambda x: tf.ones([4, *x.shape], x.dtype),
    "array": lambda x: np.ones(x.shape, "f"),
    "scalar": lambda x: 1.0,
    "text": lambda x: "nonsense",
    "flag": lambda x: True,
    "pair": lambda x: Pair(tf.ones_like(x), tf.ones_like(x)),
    "list": lambda x: [tf.ones_like(x)],
    "default": lambda x: pb.DEFAULT,
}
WHOLE_RESULTS = ("one each", "flat", "list", "too many", "single", "by name", "with second")


def result_of(whole: str, leaf: str, args: tuple[Any, ...]) -> Any:
    make = LEAF_RESULTS[leaf]

    def like(argument: Any) -> Any:
        if isinstance(argument, tf.Tensor):
            return make(argument)
        if isinstance(argument, Pair):
            return Pair(*map(like, argument))
        if isinstance(argument, (tuple, list)):
            return type(argument)(map(like, argument))
        return {k: like(v) for k, v in argument.items()} if isinstance(argument, dict) else None

    each = tuple(map(like, args))
    return {
        "one each": each if len(each) > 1 else each[0],
        "flat": tuple(make(t) for t in tf.nest.flatten(args) if isinstance(t, tf.Tensor)),
        "list": list(each),
        "too many": (*each, None, None),
        "single": each[0],
        "by name": {f"x{i}": g for i, g in enumerate(each)},
        "with second": (*each, lambda *dd: dd),
    }[whole]


def outcome(args: tuple[Any, ...], whole: str, leaf: str, request: str, several: bool) -> Any:
    sources = [t for t in tf.nest.flatten(args) if isinstance(t, tf.Tensor)]

    def body(*values: Any) -> Any:
        flat = [t for t in tf.nest.flatten(values) if isinstance(t, tf.Tensor)]
        y = tf.add_n([tf.reduce_sum(tf.cast(tf.math.real(t), tf.float32)) for t in flat])
        return (y, 2.0 * y) if several else y

    def rule(*dy: Any, inputs: Any = None, outputs: Any = None) -> Any:
        assert (inputs is None) == ("inputs" not in request)
        return result_of(whole, leaf, args)

    def bare(*dy: Any) -> Any:
        return result_of(whole, leaf, args)

    names = ", ".join(f"x{i}" for i in range(len(args)))
    space: dict[str, Any] = {"body": body}
    exec(f"def function({names}): return body({names})", space)
    function = pb.with_gradient(space["function"], rule if request else bare)
    try:
        with tf.GradientTape() as tape:
            tape.watch([t for t in sources if t.dtype.is_floating or t.dtype.is_complex])
            y = function(*args)
        found = tape.gradient(y, sources)
    except (pb.PullbackError, TypeError) as error:
        return type(error), str(error)
    return [
        g if g is None else (g.dtype.name, g.shape, tf.cast(g, tf.complex64).numpy().tolist())
        for g in found
    ]


def general(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch the fast path off, forward and backward."""
    monkeypatch.setattr(eager, "_record_usual", lambda given: eager._record_kept(given, order=1))
    monkeypatch.setattr(Recorded, "_is_simple", lambda self: False)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(ARGUMENTS, min_size=1, max_size=3).map(tuple),
    st.sampled_from(WHOLE_RESULTS),
    st.sampled_from(list(LEAF_RESULTS)),
    st.sampled_from(["", "inputs outputs"]),
    st.booleans(),
)
def test_fast_and_general_path_agree(args, whole, leaf, request, several):
    if not any(isinstance(t, tf.Tensor) for t in tf.nest.flatten(args)):
        args = (tf.constant(1.0), *args)
    fast = outcome(args, whole, leaf, request, several)
    with pytest.MonkeyPatch.context() as monkeypatch:
        general(monkeypatch)
        assert outcome(args, whole, leaf, request, several) == fast


def test_a_flat_tuple_for_a_structure_is_refused_on_both_paths():
    args = ({"b": tf.constant(1.0), "a": tf.constant(2.0)},)
    error, message = outcome(args, "flat", "like", "", False)
    assert error is pb.RuleResultError
    assert "whose structure is dict" in message


def test_the_switch_reaches_the_general_path(monkeypatch):
    """Else the property would compare the fast path with itself."""
    general(monkeypatch)
    monkeypatch.setattr(Recorded, "_backward", lambda self, upstream, checked: [None])
    assert outcome((tf.constant(1.0),), "single", "like", "", False) == [None]
