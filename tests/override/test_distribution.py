"""Strategies: the gradient under an override is that of one process."""

import json
import os
import socket
import subprocess
import sys
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from pullback._override import override
from tests.override.helpers import SEVEN, X, times_seven


def two_replicas() -> Any:
    return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])


def step() -> Any:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.relu(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize("target", ["Relu", tf.nn.relu])
@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
def test_running_in_replicas(wrap: Any, target: Any) -> None:
    strategy, changed = two_replicas(), override({target: times_seven})
    with changed:
        outside = strategy.experimental_local_results(wrap(lambda: strategy.run(step))())
    inside = strategy.experimental_local_results(wrap(lambda: strategy.run(changed(step)))())
    assert [v.numpy().tolist() for v in (*outside, *inside)] == [SEVEN] * 4


@pytest.mark.parametrize("as_block", [True, False])
def test_fitting_in_replicas(as_block: bool) -> None:
    changed = override({tf.nn.relu: times_seven})
    with two_replicas().scope():
        dense = {"use_bias": False, "kernel_initializer": "ones"}
        parts = [keras.layers.Dense(2, activation="relu", **dense), keras.layers.Dense(1, **dense)]
        model = keras.Sequential([keras.Input((3,)), *parts])
        fitted = model if as_block else changed(model)
        fitted.compile(keras.optimizers.SGD(1e-3), "mse", jit_compile=False)
    rows, zeros = np.ones((4, 3), "f"), np.zeros((4, 1), "f")
    if as_block:
        with changed:
            fitted.fit(rows, zeros, batch_size=4, verbose=0)
    else:
        fitted.fit(rows, zeros, batch_size=4, verbose=0)
    np.testing.assert_allclose(model.layers[0].kernel.numpy(), 1.084, rtol=1e-4)


WORKER = """
import json, sys
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
from pullback._override import override
def rule(dy):
    return -7.0 * dy
def step():
    x = tf.constant([1.0, -1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.relu(x)
    g = tape.gradient(y, x)
    return tf.distribute.get_replica_context().all_reduce("SUM", g)
with override({tf.nn.relu: rule}):
    found = tf.function(lambda: strategy.run(step))()
print(json.dumps(strategy.experimental_local_results(found)[0].numpy().tolist()))
"""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("localhost", 0))
        return int(found.getsockname()[1])


def test_two_workers() -> None:
    workers = [f"localhost:{free_port()}" for _ in range(2)]
    running = []
    for index in range(2):
        settings = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        environment = {**os.environ, "TF_CONFIG": json.dumps(settings)}
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", WORKER],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    outputs = [worker.communicate(timeout=240) for worker in running]
    assert [w.returncode for w in running] == [0, 0], outputs[0][1][-2000:]
    assert [json.loads(out.splitlines()[-1]) for out, _ in outputs] == [[-14.0] * 3] * 2
