"""Maps as pictures: colours for signed numbers, and PNG files."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np

Pair = tuple[np.ndarray, np.ndarray]  # an input and its map

PERCENTILE: Final = 99.0  # of the magnitudes: what is larger has the same colour
_SMALLEST: Final = 128  # pixels: a smaller picture is enlarged by a whole number
_GAP: Final = 4  # pixels between pictures
_RED, _BLUE = np.array([178, 24, 43]), np.array([33, 102, 172])  # of ColorBrewer's RdBu


def signed(values: np.ndarray) -> np.ndarray:
    """Numbers between -1 and 1: channels summed, clipped at the percentile. Height by width."""
    values = np.nan_to_num(np.asarray(values, "float64"))
    flat = values.sum(-1) if values.ndim == 3 else values
    flat = flat.reshape(1, -1) if flat.ndim < 2 else flat.reshape(flat.shape[0], -1)
    limit = np.percentile(np.abs(flat), PERCENTILE) or np.abs(flat).max() or 1.0
    return np.clip(flat / limit, -1, 1)


def coloured(values: np.ndarray) -> np.ndarray:
    """White where nothing counts, red where it counts for the target, blue where it counts against it."""
    share = signed(values)[..., None]
    ends = np.where(share >= 0, _RED, _BLUE)
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
    return ((1 - share) * (96 + 0.6 * grey) + share * coloured(values)).round().astype("uint8")


def side_by_side(pair: Pair) -> np.ndarray:
    """The input, the map, and the map over the input."""
    x, values = pair
    pictures = [image(x), coloured(values), overlay(x, values)]
    height = max(p.shape[0] for p in pictures)
    return _joined([_enlarged(p, height) for p in pictures], 1)


def stacked(pairs: Sequence[Pair]) -> np.ndarray:
    """The pictures of several examples, one below the other."""
    rows = [side_by_side(pair) for pair in pairs]
    scale = max(
        1, -(-_SMALLEST // min(row.shape[0] for row in rows)) if rows[0].shape[0] > 1 else 8
    )
    return _joined([row.repeat(scale, 0).repeat(scale, 1) for row in rows], 0)


def _enlarged(picture: np.ndarray, height: int) -> np.ndarray:
    scale = max(1, height // picture.shape[0])
    return picture.repeat(scale, 0).repeat(scale, 1)


def _joined(pictures: Sequence[np.ndarray], axis: int) -> np.ndarray:
    size = max(p.shape[1 - axis] for p in pictures)
    padded: list[np.ndarray] = []
    for picture in pictures:
        margins = [(0, 0), (0, 0), (0, 0)]
        margins[1 - axis] = (0, size - picture.shape[1 - axis])
        margins[axis] = (0, 1 if picture.shape[axis] < _GAP else _GAP)
        padded.append(np.pad(picture, margins, constant_values=255))
    joined = np.concatenate(padded, axis)
    return joined[: joined.shape[0] - (_GAP if axis == 0 and len(joined) > _GAP else 0)]


def png(picture: np.ndarray) -> bytes:
    """The bytes of a PNG file of a picture, height by width by red, green and blue."""
    height, width, _ = picture.shape
    lines = b"".join(b"\0" + row.tobytes() for row in np.ascontiguousarray(picture, "uint8"))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
