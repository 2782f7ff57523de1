"""Guided backpropagation through a ResNet50 nobody changed: pictures of the gradient before and after.

python examples/override_guided_backprop.py [folder for the pictures]
"""

import sys
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import pullback as pb

SIZE = 96


def guided(dy, *, original):
    return tf.where(dy > 0, original(dy), tf.zeros_like(dy))


def picture():
    """A bright ring on a dark ground, with a bar across."""
    y, x = np.mgrid[-1 : 1 : SIZE * 1j, -1 : 1 : SIZE * 1j]
    ring = np.abs(np.hypot(x, y) - 0.6) < 0.12
    bar = (np.abs(y - 0.1) < 0.06) & (np.abs(x) < 0.9)
    return np.repeat((ring | bar)[None, :, :, None].astype("f") * 255.0, 3, axis=-1)


def saliency(model, image):
    image = tf.constant(keras.applications.resnet50.preprocess_input(np.array(image)))
    with tf.GradientTape() as tape:
        tape.watch(image)
        score = tf.reduce_max(model(image), axis=-1)
    return tf.reduce_max(tf.abs(tape.gradient(score, image)), axis=-1)[0]


def save(values, path):
    pixels = tf.cast(255.0 * values / tf.reduce_max(values), tf.uint8)
    tf.io.write_file(str(path), tf.io.encode_png(pixels[:, :, None]))


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/saliency")
    folder.mkdir(parents=True, exist_ok=True)
    keras.utils.set_random_seed(1)
    model = keras.applications.ResNet50(
        weights=None, include_top=False, pooling="avg", input_shape=(SIZE, SIZE, 3)
    )
    override = pb.override({tf.nn.relu: guided})
    before, after = saliency(model, picture()), saliency(override(model), picture())
    save(tf.constant(picture()[0, :, :, 0]), folder / "picture.png")
    save(before, folder / "gradient.png")
    save(after, folder / "guided.png")
    (row,) = override.audit.rows
    print(f"{row.target}: {row.effective} places, pictures in {folder}")
    assert row.effective == 49
    assert not np.allclose(before, after)
