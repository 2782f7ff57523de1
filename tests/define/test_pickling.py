"""Pickling, copying, re-definition in a notebook, and threads."""

import concurrent.futures
import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb

ROOT = Path(__file__).parents[2]
X = np.array([0.5, -1.5, 2.0], np.float32)


@pb.custom_gradient
def decorated(x):
    def backward(dy):
        return 3.0 * dy

    return tf.round(x), backward


def four(dy):
    return 4.0 * dy


def tangent(dx):
    return 9.0 * dx


def square(x):
    return x * x


replaced = pb.with_gradient(square, four)


def gradient(function: Any) -> list[float]:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x).numpy().tolist()


class Holder:
    @pb.custom_gradient
    def method(self, x):
        def backward(dy):
            return 5.0 * dy

        return x * 1.0, backward


@pytest.mark.parametrize(
    "function, wanted",
    [
        (decorated, 3.0),
        (replaced, 4.0),
        (pb.with_gradient(square, four), 4.0),
        (pb.with_gradient(decorated, four, jvp=tangent), 4.0),
        (Holder().method, 5.0),
    ],
    ids=["decorated", "replaced", "nameless", "twice", "method"],
)
@pytest.mark.parametrize("way", [lambda f: pickle.loads(pickle.dumps(f)), copy.copy, copy.deepcopy])
def test_a_copy_has_the_gradient(function: Any, wanted: float, way: Any) -> None:
    again = way(function)
    assert gradient(again) == [wanted] * 3
    np.testing.assert_allclose(again(tf.constant(X)), function(tf.constant(X)))


def test_partials_are_copied_with_their_derivatives() -> None:
    again = pickle.loads(pickle.dumps(pb.with_partials(square, x=tf.cos)))
    np.testing.assert_allclose(gradient(again), np.cos(X), rtol=1e-6)


def test_a_decorated_function_is_itself_after_pickling() -> None:
    assert pickle.loads(pickle.dumps(decorated)) is decorated


def test_another_process_reads_it(tmp_path: Path) -> None:
    (tmp_path / "functions").write_bytes(pickle.dumps([decorated, pb.with_gradient(square, four)]))
    code = (
        "import pickle, sys\n"
        f"functions = pickle.load(open(r'{tmp_path}/functions', 'rb'))\n"
        "from tests.define.test_pickling import gradient\n"
        "print([gradient(f) for f in functions])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert eval(ran.stdout.splitlines()[-1]) == [[3.0] * 3, [4.0] * 3]


def test_what_has_no_name_is_refused_by_pickle_itself() -> None:
    nameless = pb.with_gradient(lambda x: x, four)
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(nameless)


CELL = """
@pb.custom_gradient
def cell(x):
    def backward(dy):
        return {factor} * dy
    return tf.round(x), backward
"""


@pytest.mark.parametrize("wrap", [lambda f: f, lambda f: tf.function(f, autograph=False)])
def test_a_notebook_cell_may_run_again(wrap: Any) -> None:
    scope: dict[str, Any] = {"pb": pb, "tf": tf, "__name__": "notebook"}
    found = []
    for factor in (2.0, 2.0, 7.0):
        exec(CELL.format(factor=factor), scope)
        found.append(gradient(wrap(scope["cell"])))
    assert found == [[2.0] * 3, [2.0] * 3, [7.0] * 3]


def test_an_old_trace_keeps_the_old_rule() -> None:
    scope: dict[str, Any] = {"pb": pb, "tf": tf, "__name__": "notebook"}
    exec(CELL.format(factor=2.0), scope)
    traced = tf.function(scope["cell"], autograph=False)
    first = gradient(traced)
    exec(CELL.format(factor=7.0), scope)
    assert (first, gradient(traced)) == ([2.0] * 3, [2.0] * 3)


VARIABLE = tf.Variable([1.0, 2.0, 3.0])


@pb.custom_gradient
def reading(x, factor):
    def backward(dy):
        return factor * dy, None

    return x * VARIABLE, backward


@pytest.mark.parametrize("traced", [False, True], ids=["eager", "in functions"])
def test_threads_do_not_meet(traced: bool) -> None:
    shared = tf.function(reading) if traced else reading

    def work(number: int) -> bool:
        for _ in range(10):
            x = tf.constant(X * number)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = shared(x, tf.constant(float(number)))
            dx, dw = tape.gradient(y, [x, VARIABLE])
            if not (np.allclose(dx, number) and np.allclose(dw, X * number)):
                return False
        return True

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(1, 9)))
