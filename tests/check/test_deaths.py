"""Diagnoses that would end the process, were every changed program run: in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks import check_deaths

ROOT = Path(__file__).parents[2]

PROGRAM = """
import numpy as np
import tensorflow as tf

import pullback as pb

X = tf.constant(np.random.default_rng(0).normal(size=16), tf.float32)


@tf.custom_gradient
def magnitude(x):
    def magnitude_pullback(dy):
        back = tf.signal.inverse_stft(tf.complex(dy, 0 * dy), 4, 2)
        return tf.concat([back, tf.zeros([16 - back.shape[0]])], 0) * 2.0

    return tf.abs(tf.signal.stft(x, 4, 2)), magnitude_pullback


@tf.custom_gradient
def resampled(x):
    def resampled_pullback(dy):
        padded = tf.signal.irfft(tf.signal.rfft(dy), [8])
        return 2.0 * tf.concat([padded, padded], 0)

    return tf.signal.irfft(tf.signal.rfft(x), [8]), resampled_pullback


@tf.custom_gradient
def pooled(x):
    shape, size = [1, 4, 4, 1], [1, 2, 2, 1]

    def pooled_pullback(dy):
        back = tf.raw_ops.AvgPoolGrad(
            orig_input_shape=shape, grad=dy, ksize=size, strides=size, padding="VALID"
        )
        return tf.reshape(back, [16]) * 3.0

    return tf.nn.avg_pool(tf.reshape(x, shape), size, size, "VALID"), pooled_pullback


for function in (magnitude, resampled, pooled):
    print(pb.check(function, X, modes="none", order=1).verdict)
"""


def test_no_changed_program_ends_the_process():
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **check_deaths.QUIET},
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, ["wrong"] * 3), done.stderr[-2000:]


def test_a_child_that_dies_is_counted_and_the_rest_goes_on(tmp_path):
    child = """
import json, os, sys
file = sys.argv[sys.argv.index("--state") + 1]
for name in ("one", "two", "three"):
    begun = open(file).read() if os.path.exists(file) else ""
    if name not in begun:
        print(json.dumps({"name": name}), file=open(file, "a"), flush=True)
        if name == "two":
            os.abort()
        print(json.dumps({"name": name, "verdict": "wrong"}), file=open(file, "a"), flush=True)
"""
    (tmp_path / "child.py").write_text(child)
    file = tmp_path / "found.jsonl"
    found = check_deaths.survived("diagnoses", "", file, program=[str(tmp_path / "child.py")])
    assert [(one["name"], status) for one, status in found] == [("two", -6)]
    done = {one["name"]: one.get("verdict") for one in check_deaths.read(file)}
    assert done == {"one": "wrong", "two": "died", "three": "wrong"}
