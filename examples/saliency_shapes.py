"""Where a small network sees a disc or a square: every method on one picture that has both.

python examples/saliency_shapes.py [folder for the pictures]
"""

import sys
from pathlib import Path

import keras
import numpy as np

import pullback as pb

SIZE = 32
LABELS = ["disc", "square", "cross"]
METHODS = "gradient input_x_gradient integrated smoothgrad guided deconv gradcam gradcam++ guided_gradcam deeplift lrp"
draw = np.random.default_rng(0)
down, across = np.mgrid[:SIZE, :SIZE]


def shape(kind, x, y):
    """A disc, a square or a cross."""
    dx, dy = np.abs(across - x), np.abs(down - y)
    near, far = np.sort([dx, dy], 0)
    return [np.hypot(dx, dy) < 5, far < 4.5, (near < 1.5) & (far < 5.5)][kind].astype("f")


def noisy(pictures):
    return (pictures + 0.1 * draw.normal(size=pictures.shape)).astype("f")[..., None]


def examples(count):
    """Two shapes, one on the left and one on the right, and which kinds there are."""
    kinds, rows = draw.integers(0, 3, (count, 2)), draw.integers(6, SIZE - 6, (count, 2))
    columns = draw.integers(6, 10, (count, 2)) + np.array([0, 16])
    drawn = [shape(*one) for one in np.stack([kinds, columns, rows], -1).reshape(-1, 3)]
    pictures = np.reshape(drawn, (count, 2, SIZE, SIZE)).sum(1)
    return noisy(pictures), (kinds[:, :, None] == np.arange(3)).any(1).astype("f")


def trained():
    keras.utils.set_random_seed(0)
    conv = [keras.layers.Conv2D(n, 3, padding="same", activation="relu") for n in (16, 32, 32)]
    pool, end = keras.layers.MaxPooling2D, keras.layers.GlobalMaxPooling2D()
    parts = [conv[0], pool(), conv[1], pool(), conv[2], end, keras.layers.Dense(3, "sigmoid")]
    model = keras.Sequential([keras.Input((SIZE, SIZE, 1)), *parts])
    model.compile(keras.optimizers.Adam(3e-3), "binary_crossentropy")
    model.fit(*examples(2000), epochs=8, verbose=0)
    return model


if __name__ == "__main__":
    folder, model = Path(sys.argv[1] if len(sys.argv) > 1 else "."), trained()
    both = noisy((shape(0, 9, 10) + shape(1, 22, 22))[None])
    for method in METHODS.split():
        found = pb.saliency(model, np.repeat(both, 2, 0), target=[0, 1], method=method)
        found.save(folder / f"saliency_{method.replace('+', 'p')}.png", labels=LABELS)
        upper = np.maximum(found.values[0].reshape(SIZE, SIZE), 0)
        share = upper[:17, :17].sum() / upper.sum()
        print(f"{method:16} {share:.0%} of the map of the disc is near it")
