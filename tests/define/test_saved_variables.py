"""A rule that gives gradients of variables, in a file."""

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb


class Scaled(tf.Module):
    """`weights · sin(x)`, whose own gradients are three times the derivative."""

    def __init__(self):
        super().__init__()
        self.weights = tf.Variable([2.0, 3.0])

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def __call__(self, x):
        return self.scaled(x)

    @pb.custom_gradient
    def scaled(self, x):
        def rule(dy, *, variables):
            del variables
            return {"x": 3.0 * dy * self.weights * tf.cos(x)}, [3.0 * dy * tf.sin(x)]

        return self.weights * tf.sin(x), rule


def test_a_file_keeps_it(tmp_path):
    tf.saved_model.save(Scaled(), tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    x = tf.constant([0.5, 1.0])
    loaded.weights.assign([5.0, 7.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = loaded(x)
    dx, dweights = tape.gradient(y, [x, loaded.weights])
    np.testing.assert_allclose(dx, 3 * np.array([5.0, 7.0]) * np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(dweights, 3 * np.sin(x), rtol=1e-6)


def test_in_a_loop_saving_says_that_it_cannot(tmp_path, capfd):
    module = Scaled()

    @tf.function(input_signature=[tf.TensorSpec([2])])
    def repeated(x):
        return tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, module.scaled(y)), (0, x))[1]

    module.repeated = repeated
    with pytest.raises(ValueError, match="Error when tracing gradients") as caught:
        tf.saved_model.save(module, tmp_path)
    assert "pass its value" in str(caught.value.__cause__)
    capfd.readouterr()  # TensorFlow prints the cause as well
