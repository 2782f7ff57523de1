"""Maps as pictures: colours for signed numbers, and PNG files."""

from __future__ import annotations

import struct
import zlib
from typing import Final

import numpy as np

PERCENTILE: Final = 99.0  # of the magnitudes: what is larger has the same colour
_LONG: Final = 4.0  # times as long as the other side
RED, BLUE = np.array([178, 24, 43]), np.array([33, 102, 172])  # of ColorBrewer's RdBu


def flat(values: np.ndarray) -> np.ndarray:
    """A map as height by width: channels summed."""
    values = np.nan_to_num(np.asarray(values, "float64"))
    summed = values.sum(-1) if values.ndim == 3 else values
    return summed.reshape(1, -1) if summed.ndim < 2 else summed.reshape(summed.shape[0], -1)


def limit(values: np.ndarray) -> float:
    """What has the strongest color: the percentile of the magnitudes."""
    sizes = np.abs(flat(values))
    return float(np.percentile(sizes, PERCENTILE) or sizes.max() or 1.0)


def signed(values: np.ndarray) -> np.ndarray:
    """Numbers between -1 and 1: channels summed, clipped at the percentile. Height by width."""
    return np.clip(flat(values) / limit(values), -1, 1)


def coloured(values: np.ndarray) -> np.ndarray:
    """White where nothing counts, red where it counts for the target, blue where it counts against it."""
    share = signed(values)[..., None]
    ends = np.where(share >= 0, RED, BLUE)
    return (255 + np.abs(share) * (ends - 255.0)).round().astype("uint8")


def image(x: np.ndarray) -> np.ndarray:
    """An input as a picture: its numbers from the smallest to the largest."""
    x = np.nan_to_num(np.asarray(x, "float64"))
    x = x.reshape(1, -1, 1) if x.ndim < 2 else x[..., None] if x.ndim == 2 else x
    x = (
        x
        if x.ndim == 3 and x.shape[-1] in (1, 3)
        else x.reshape(*x.shape[:2], -1).mean(-1, keepdims=True)
    )
    low, high = x.min(), x.max()
    grey = (x - low) / (high - low if high > low else 1.0)
    return (255 * np.broadcast_to(grey, (*grey.shape[:2], 3))).round().astype("uint8")


def overlay(x: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The map over the input in grey: the more an entry counts, the more of its colour."""
    share = np.abs(signed(values))[..., None]
    grey = image(x).mean(-1, keepdims=True)
    if grey.shape[:2] != share.shape[:2]:
        return coloured(values)
    return ((1 - share) * (64 + 0.75 * grey) + share * coloured(values)).round().astype("uint8")


def is_long(picture: np.ndarray) -> bool:
    """Whether its sides differ so much that it is better drawn as a square, as a series is."""
    height, width = picture.shape[:2]
    return max(height, width) > _LONG * min(height, width)


def png(picture: np.ndarray) -> bytes:
    """The bytes of a PNG file of a picture, height by width by red, green and blue."""
    height, width, _ = picture.shape
    lines = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(picture, "uint8"))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
