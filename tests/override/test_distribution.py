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

import pullback as pb
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
    strategy, changed = two_replicas(), pb.override({target: times_seven})
    with changed:
        outside = strategy.experimental_local_results(wrap(lambda: strategy.run(step))())
    inside = strategy.experimental_local_results(wrap(lambda: strategy.run(changed(step)))())
    assert [v.numpy().tolist() for v in (*outside, *inside)] == [SEVEN] * 4


@pytest.mark.parametrize("as_block", [True, False])
def test_fitting_in_replicas(as_block: bool) -> None:
    changed = pb.override({tf.nn.relu: times_seven})
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
import pullback as pb
strategy = tf.distribute.MultiWorkerMirroredStrategy()
def rule(dy):
    return -7.0 * dy
def step():
    x = tf.constant([1.0, -1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.relu(x)
    g = tape.gradient(y, x)
    return tf.distribute.get_replica_context().all_reduce("SUM", g)
with pb.override({tf.nn.relu: rule}):
    found = tf.function(lambda: strategy.run(step))()
print(json.dumps(strategy.experimental_local_results(found)[0].numpy().tolist()))

# Keras' own `fit` fails under this strategy without any override, so the training step is written out.
import keras
def trained(changed, as_block):
    dense = {"use_bias": False, "kernel_initializer": "ones"}
    with strategy.scope():
        parts = [keras.layers.Dense(2, activation="relu", **dense), keras.layers.Dense(1, **dense)]
        model = keras.Sequential([keras.Input((3,)), *parts])
        optimizer = keras.optimizers.SGD(1e-3)
        optimizer.build(model.trainable_variables)
    called = model if as_block else changed(model)
    def train_step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(called(tf.ones([4, 3])) ** 2) / strategy.num_replicas_in_sync
        weights = model.trainable_variables
        optimizer.apply(tape.gradient(loss, [w.value for w in weights]), weights)
    def run():
        tf.function(lambda: strategy.run(train_step))()
    if as_block:
        with changed:
            run()
    else:
        run()
    return model.layers[0].kernel.numpy().tolist()
print(json.dumps([trained(pb.override({tf.nn.relu: rule}), as_block) for as_block in (True, False)]))
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
    for out, _ in outputs:
        reduced, kernels = map(json.loads, out.splitlines()[-2:])
        assert reduced == [-14.0] * 3
        # One process: 1 + 1e-3 · 7 · (2 · 6), as the loss is the mean of 6² and the rule gives −7.
        np.testing.assert_allclose(kernels, np.full([2, 3, 2], 1.084), rtol=1e-5)
