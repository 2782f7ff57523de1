"""The contract, kept by the TensorFlow engine."""

from typing import Any

import keras
import pytest
import tensorflow as tf

from pullback.engines.tensorflow.modes import MODES, SECOND_ORDER
from pullback.testing import contract

# Those that differ in how a rule is attached; tests/define and tests/override run in all of them.
RUN_IN = (
    "eager",
    "tf.function, tape outside",
    "tf.function, tape outside, unknown shapes",
    "tf.function, tape inside",
    "XLA, tape inside",
    "vectorized_map",
    "forward mode",
    "forward mode through tf.function",
)


class Sine(keras.layers.Layer):
    def call(self, x: Any) -> Any:
        return tf.sin(x)


ADAPTER = contract.Adapter(
    modes={name: MODES[name] for name in RUN_IN},
    second_order=SECOND_ORDER,
    late_errors=(tf.errors.InvalidArgumentError,),
    array=tf.constant,
    to_numpy=lambda x: tf.convert_to_tensor(x).numpy(),
    dtype=lambda x: x.dtype.name,
    cast=tf.cast,
    sum=tf.reduce_sum,
    sin=tf.sin,
    variable=lambda values, name: tf.Variable(values, dtype="float32", name=name),
    key=tf.Variable.ref,
    layer=Sine,
)


@pytest.mark.parametrize("case, mode", contract.cases(ADAPTER), ids=str)
def test_contract(case, mode) -> None:
    contract.run(case, mode, ADAPTER)
