"""A map in the terminal: two rows of pixels to a line of half blocks, or words in colour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from rich.console import Console
from rich.text import Text

from pullback.saliency.cam import interpolation
from pullback.saliency.views.panels import Example, Panel
from pullback.saliency.views.pictures import coloured, image, overlay

_HALF_BLOCK = "▀"  # its upper half in the colour of the text, its lower half in that of the ground


def show(example: Example, width: int, note: str, console: Console | None = None) -> None:
    """Print an example."""
    console = console or Console()
    console.print(drawn(example, min(width, console.width)))
    if note:
        console.print(Text(note, style="dim"))


def drawn(example: Example, width: int = 64) -> Text:
    """An example as text in color: its title, and of each input the words, or the input and the map over it."""
    text = Text(example.title + "\n", style="bold")
    for panel in example.panels:
        if panel.name:
            text.append(panel.name + "\n", style="dim")
        text.append(
            _words(panel)
            if panel.is_row
            else _blocks([image(panel.x), overlay(panel.x, panel.values)], width)
        )
    return text


def _blocks(pictures: Sequence[np.ndarray], width: int) -> Text:
    """Pictures side by side, of so many characters in all."""
    each = width // len(pictures) - 1
    small = [_resized(picture, each) for picture in pictures]
    text = Text(no_wrap=True)
    for line in range(0, len(small[0]), 2):
        for picture in small:
            for upper, lower in zip(picture[line], picture[line + 1], strict=True):
                text.append(_HALF_BLOCK, style=f"{_colour(upper)} on {_colour(lower)}")
            text.append(" ")
        text.append("\n")
    return text


def _resized(picture: np.ndarray, width: int) -> np.ndarray:
    """A picture of so many pixels across, with an even number of rows."""
    width = min(width, max(picture.shape[1], 1))
    height = max(2, round(picture.shape[0] * width / picture.shape[1]) // 2 * 2)
    rows, columns = _smoothing(picture.shape[0], height), _smoothing(picture.shape[1], width)
    return np.einsum("ij,jkc,lk->ilc", rows, picture.astype("float64"), columns).round().astype(int)


def _smoothing(before: int, after: int) -> np.ndarray:
    """The matrix that averages what becomes one pixel."""
    if after >= before:
        return interpolation(before, after)
    fine = interpolation(before, after * -(-before // after))
    return fine.reshape(after, -1, before).mean(1)


def _colour(pixel: np.ndarray) -> str:
    red, green, blue = (int(np.clip(c, 0, 255)) for c in pixel)
    return f"#{red:02x}{green:02x}{blue:02x}"


def _words(panel: Panel) -> Text:
    values = np.atleast_1d(panel.values)
    words = panel.words or [f"{value:+.2g}" for value in values]
    text = Text()
    for word, color in zip(words, coloured(values)[0], strict=True):
        text.append(word, style=f"black on {_colour(color)}")
        text.append(" ")
    return text
