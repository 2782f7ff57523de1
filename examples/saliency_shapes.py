"""Where a small network sees a disc, a square or a cross: every method on one picture with a disc and a square.

python examples/saliency_shapes.py [folder for the pictures]
"""

import sys
from pathlib import Path

import keras
import numpy as np

import pullback as pb

SIZE, NAMES = 32, ("disc", "square", "cross")
draw = np.random.default_rng(0)


def shape(kind, x, y):
    """One shape in an otherwise empty picture."""
    across, down = np.abs(np.mgrid[:SIZE, :SIZE] - np.array([y, x])[:, None, None])[::-1]
    inside = {
        "disc": np.hypot(across, down) < 5,
        "square": np.maximum(across, down) < 4.5,
        "cross": (np.minimum(across, down) < 1.5) & (np.maximum(across, down) < 5.5),
    }
    return inside[kind].astype("f")


def examples(count):
    """Pictures of one shape each, in noise, and which one it is."""
    kinds, places = draw.integers(0, 3, count), draw.integers(6, SIZE - 6, (count, 2))
    clean = [shape(NAMES[kind], *place) for kind, place in zip(kinds, places)]
    return noisy(np.stack(clean)), kinds


def noisy(pictures):
    return (pictures + 0.1 * draw.normal(size=pictures.shape)).astype("f")[..., None]


def trained():
    keras.utils.set_random_seed(0)
    conv = [keras.layers.Conv2D(n, 3, padding="same", activation="relu") for n in (16, 32, 32)]
    pool, mean = keras.layers.MaxPooling2D, keras.layers.GlobalAveragePooling2D()
    parts = [conv[0], pool(), conv[1], pool(), conv[2], mean, keras.layers.Dense(3, "softmax")]
    model = keras.Sequential([keras.Input((SIZE, SIZE, 1)), *parts])
    model.compile("adam", "sparse_categorical_crossentropy", ["accuracy"])
    model.fit(*examples(3000), epochs=8, batch_size=32, verbose=0)
    return model


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/saliency")
    folder.mkdir(parents=True, exist_ok=True)
    model = trained()
    print(f"right: {model.evaluate(*examples(500), verbose=0)[1]:.0%}")
    both = noisy((shape("disc", 9, 10) + shape("square", 22, 22))[None])
    for method in ("gradient", "input_x_gradient", "integrated", "smoothgrad", "guided", "deconv", "gradcam",
                   "gradcam++", "guided_gradcam"):  # fmt: skip
        found = pb.saliency(model, np.repeat(both, 2, 0), target=[0, 1], method=method)
        found.save(folder / f"{method}.png")
        upper = np.maximum(found.values[0].reshape(SIZE, SIZE), 0)
        print(f"{method:17} {upper[:16, :16].sum() / upper.sum():.0%} of what counts for the disc is near it")
