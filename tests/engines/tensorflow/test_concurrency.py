"""Every verb in two threads and two tasks at once: results are those of single runs, and TensorFlow is as it was."""

import asyncio
import concurrent.futures
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

X = np.array([0.5, -1.5, 2.0], np.float32)
LONG = 60.0  # seconds: a run that waits so long has lost the other one
Meet = Callable[[], None]


def triple(dy: Any) -> Any:
    return 3.0 * dy


def alone() -> None:
    """Where nobody else runs there is nobody to meet."""


def gradient(function: Any) -> list[float]:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x).numpy().tolist()


def define(meet: Meet) -> Any:
    @pb.custom_gradient
    def rounded(x):
        meet()
        return tf.round(x), triple

    return gradient(rounded), gradient(tf.function(lambda x: tf.sin(rounded(x))))


def override(meet: Meet) -> Any:
    with pb.override({tf.nn.relu: triple, "Sin": triple}) as tripled:
        before = gradient(tf.nn.relu)
        meet()
        after = gradient(lambda x: tf.map_fn(tf.sin, x))
    return before, after, tripled.audit.effective, gradient(tf.nn.relu)


def check(meet: Meet) -> Any:
    def cube(x):
        meet()
        return x**3

    partials = (lambda x: 3.0 * x**2, lambda x: 2.0 * x**2)
    return [pb.check(pb.with_partials(cube, x=each), X).verdict for each in partials]


def explain(meet: Meet) -> Any:
    def loss(x):
        meet()
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda i, _: i < 2, lambda i, z: (i + 1, tf.sin(z)), (0, x))[1]
        return tf.reduce_sum(y * tf.py_function(tf.cos, [x], tf.float32) * tape.gradient(y, x))

    flow = pb.explain(tf.function(tf.sin), tf.constant(X)), pb.explain(loss, tf.constant(X))
    return [(str(each.why("x")), len(each.nodes)) for each in flow]


class Meeting(keras.layers.Layer):
    meet: Meet = staticmethod(alone)

    def call(self, x: Any) -> Any:
        self.meet()
        return tf.nn.relu(x)


def saliency(meet: Meet) -> Any:
    layer = Meeting()
    inputs = keras.Input((3,))
    model = keras.Model(inputs, keras.layers.Dense(2, kernel_initializer="ones")(layer(inputs)))
    layer.meet = meet
    return pb.saliency(model, X[None], target=0, method="guided").values.tolist()


def functions(meet: Meet) -> Any:
    def body(x):
        meet()
        return tf.sin(x) * tf.nn.dropout(x, 0.0)

    return gradient(pb.functions.checkpoint(body)), gradient(pb.functions.logsumexp)


VERBS: dict[str, Callable[[Meet], Any]] = {
    each.__name__: each for each in (define, override, check, explain, saliency, functions)
}


def as_it_is() -> dict[tuple[str, ...], tuple[int, int]]:
    """Every function and method of TensorFlow and Keras, with its identity and that of its code."""
    found: dict[tuple[str, ...], tuple[int, int]] = {}
    for module in list(sys.modules.values()):
        home = getattr(module, "__name__", "")
        if isinstance(module, types.ModuleType) and home.startswith(("tensorflow.python", "keras")):
            for path, value in functions_in(home, module):
                found[path] = id(value), id(value.__code__)
    return found


def functions_in(home: str, module: types.ModuleType) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in list(vars(module).items()):
        if isinstance(value, types.FunctionType):
            yield (home, name), value
        elif isinstance(value, type) and value.__module__ == home:
            for inner, method in list(vars(value).items()):
                if isinstance(method, types.FunctionType):
                    yield (home, name, inner), method


def assert_as_before(before: dict[tuple[str, ...], tuple[int, int]]) -> None:
    now = as_it_is()
    assert [path for path, was in before.items() if now.get(path) != was] == []


SINGLE: dict[str, Any] = {}


@pytest.fixture(autouse=True, scope="module")
def single_runs() -> None:
    """What each verb gives by itself; the second time, all that is loaded at first use is there."""
    for name, verb in VERBS.items():
        verb(alone)
        SINGLE[name] = verb(alone)


class Interleaved:
    """The first run begins first and ends while the second, which has begun meanwhile, still runs."""

    def __init__(self) -> None:
        self.first_inside, self.second_inside = threading.Event(), threading.Event()
        self.first_over = threading.Event()

    def first(self, verb: Callable[[Meet], Any]) -> Any:
        try:
            return verb(self._in_first)
        finally:
            self.first_over.set()

    def _in_first(self) -> None:
        self.first_inside.set()
        assert self.second_inside.wait(LONG)

    def second(self, verb: Callable[[Meet], Any]) -> Any:
        assert self.first_inside.wait(LONG)
        return verb(self._in_second)

    def _in_second(self) -> None:
        self.second_inside.set()
        assert self.first_over.wait(LONG)


@pytest.mark.parametrize("second", VERBS)
@pytest.mark.parametrize("first", VERBS)
def test_two_threads(first: str, second: str) -> None:
    before, both = as_it_is(), Interleaved()
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        one = threads.submit(both.first, VERBS[first])
        other = threads.submit(both.second, VERBS[second])
        assert (one.result(), other.result()) == (SINGLE[first], SINGLE[second])
    assert_as_before(before)


async def under_override(barrier: asyncio.Barrier, factor: float) -> list[list[float]]:
    """Gradients at three moments, with an override open from the first to the last."""
    found: list[list[float]] = []
    with pb.override({tf.nn.relu: lambda dy: factor * dy}):
        for _ in range(3):
            await barrier.wait()
            found.append(gradient(tf.nn.relu))
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_two_tasks(verb: str) -> None:
    """A verb runs in one task while another task holds an override open."""

    async def running(barrier: asyncio.Barrier) -> list[Any]:
        found: list[Any] = []
        for _ in range(3):
            await barrier.wait()
            found.append(VERBS[verb](alone))
        return found

    async def main() -> list[Any]:
        barrier = asyncio.Barrier(2)
        return await asyncio.gather(running(barrier), under_override(barrier, 5.0))

    before = as_it_is()
    assert asyncio.run(main()) == [[SINGLE[verb]] * 3, [[5.0] * 3] * 3]
    assert_as_before(before)


@pytest.mark.parametrize("verb", VERBS)
def test_two_tasks_in_threads_of_their_own(verb: str) -> None:
    async def main() -> list[Any]:
        both = Interleaved()
        one = asyncio.to_thread(both.first, VERBS[verb])
        other = asyncio.to_thread(both.second, VERBS["explain"])
        barrier = asyncio.Barrier(2)
        held = (under_override(barrier, factor) for factor in (5.0, 7.0))
        return await asyncio.gather(one, other, *held)

    before = as_it_is()
    found = asyncio.run(main())
    assert found == [SINGLE[verb], SINGLE["explain"], [[5.0] * 3] * 3, [[7.0] * 3] * 3]
    assert_as_before(before)


def test_what_is_not_as_before_is_seen() -> None:
    before = as_it_is()
    with pb.override({tf.nn.relu: triple}) as tripled:
        gradient(tf.nn.relu)
        with pytest.raises(AssertionError, match=r"tensorflow.python.eager.execute"):
            assert_as_before(before)
    assert tripled.audit.effective == 1
