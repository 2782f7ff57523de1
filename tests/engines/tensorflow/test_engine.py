"""What the engine offers beside running calls: precision, traces, modes."""

import pytest
import tensorflow as tf

from pullback.engines.tensorflow.modes import MODES
from pullback.errors import UnsupportedError
from pullback.extend import engine_of

ENGINE = engine_of([tf.constant(1.0)])


def test_a_trace_lists_ops_with_their_inputs_and_lines():
    def function(x):
        y = tf.sin(x)
        return tf.nn.relu(y)

    ops = {op.type: op for op in ENGINE.trace(function, tf.constant([1.0]))}
    assert ops["Relu"].inputs == (ops["Sin"].name,)
    assert [__file__ in str(ops[t].source) for t in ("Sin", "Relu")] == [True, True]
    lines = [int(str(ops[t].source).rpartition(":")[2]) for t in ("Sin", "Relu")]
    assert lines[1] == lines[0] + 1


def test_every_precision_is_there_and_others_are_refused():
    with ENGINE.precision("float64"):
        assert tf.constant(1.0, tf.float64).dtype == tf.float64
    with pytest.raises(UnsupportedError, match="no dtype 'float65'"):
        ENGINE.precision("float65")


def test_modes_are_the_table():
    assert ENGINE.modes is MODES
