"""The contract, kept by the TensorFlow engine."""

from typing import Any, ClassVar

import keras
import pytest
import tensorflow as tf

from pullback.testing import contract
from tests.contract._modes_wip import MODES, SECOND_ORDER

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


class TensorFlowAdapter(contract.Adapter):
    modes: ClassVar = {name: MODES[name] for name in RUN_IN}
    second_order = SECOND_ORDER
    late_errors = (tf.errors.InvalidArgumentError,)
    sin = staticmethod(tf.sin)
    cast = staticmethod(tf.cast)

    def array(self, values: Any, dtype: str = "float32") -> Any:
        return tf.constant(values, dtype)

    def to_numpy(self, x: Any) -> Any:
        return tf.convert_to_tensor(x).numpy()

    def dtype(self, x: Any) -> str:
        return x.dtype.name

    def sum(self, x: Any, axis: int) -> Any:
        return tf.reduce_sum(x, axis)

    def variable(self, values: Any, name: str) -> Any:
        return tf.Variable(values, dtype="float32", name=name)

    def key(self, variable: Any) -> Any:
        return variable.ref()

    def layer(self) -> Any:
        return Sine()


ADAPTER = TensorFlowAdapter()


@pytest.mark.parametrize("case, mode", contract.cases(ADAPTER), ids=str)
def test_contract(case, mode) -> None:
    contract.run(case, mode, ADAPTER)
