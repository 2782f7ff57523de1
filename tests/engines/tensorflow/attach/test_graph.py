"""What a body captures while it is traced."""

import pytest
import tensorflow as tf

import pullback as pb


@pytest.mark.parametrize("made_since", [0, 1, 2, 3])
def test_a_tape_knows_what_was_captured_however_late_it_was_made(made_since: int) -> None:
    @tf.function
    def gradient(x):
        captured = tf.exp(x)
        for _ in range(made_since):
            tf.sin(x)
        times = pb.with_gradient(lambda y: y * captured, lambda dy: 7.0 * dy)
        with tf.GradientTape() as tape:
            tape.watch(captured)
            y = times(x)
        return tape.gradient(y, captured)

    assert gradient(tf.constant([2.0, 3.0])).numpy().tolist() == [2.0, 3.0]
