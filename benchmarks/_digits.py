"""Pictures of digits, drawn here: a font of 5 × 7 points, turned, sheared, scaled, shifted and made noisy."""

from typing import Any

import numpy as np

SIZE = 16
_FONT = """
01110 00100 01110 11111 00010 11111 00110 11111 01110 01110
10001 01100 10001 00010 00110 10000 01000 00001 10001 10001
10011 00100 00001 00100 01010 11110 10000 00010 10001 10001
10101 00100 00010 00010 10010 00001 11110 00100 01110 01111
11001 00100 00100 00001 11111 00001 10001 01000 10001 00001
10001 00100 01000 10001 00010 10001 10001 01000 10001 00010
01110 01110 11111 01110 00010 01110 01110 01000 01110 01100
"""
_ROWS = np.array(
    [[[int(c) for c in word] for word in r.split()] for r in _FONT.strip().split("\n")]
)
GLYPHS = np.pad(_ROWS.transpose(1, 0, 2).astype("f"), [(0, 0), (1, 1), (1, 1)])


def digits(count: int, noise: float = 0.3, seed: int = 0) -> tuple[Any, Any]:
    """Pictures and what they show."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 10, count)
    angle, shear = rng.normal(0, 0.15, count), rng.normal(0, 0.15, count)
    scale = rng.uniform(0.55, 0.8, count)
    dx, dy = rng.uniform(-2, 2, (2, count))
    down, across = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2
    x, y = (across[None] - dx[:, None, None], down[None] - dy[:, None, None])
    cos, sin = (f(angle)[:, None, None] for f in (np.cos, np.sin))
    u = scale[:, None, None] * (cos * x + sin * y + shear[:, None, None] * y) + 3
    v = scale[:, None, None] * (cos * y - sin * x) + 4
    clean = _sampled(labels, v, u)
    return (clean + rng.normal(0, noise, clean.shape)).astype("f")[..., None], labels


def _sampled(labels: Any, v: Any, u: Any) -> Any:
    """The font between its points."""
    height, width = GLYPHS.shape[1:]
    v, u = np.clip(v, 0, height - 1.001), np.clip(u, 0, width - 1.001)
    i, j = v.astype(int), u.astype(int)
    a, b, glyph = v - i, u - j, labels[:, None, None]
    upper = (1 - b) * GLYPHS[glyph, i, j] + b * GLYPHS[glyph, i, j + 1]
    lower = (1 - b) * GLYPHS[glyph, i + 1, j] + b * GLYPHS[glyph, i + 1, j + 1]
    return (1 - a) * upper + a * lower
