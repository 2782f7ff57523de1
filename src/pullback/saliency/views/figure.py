"""Maps drawn with Matplotlib, which is imported when it is asked for: figures for papers and slides."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from pullback.errors import SaliencyError
from pullback.saliency.views.panels import Example, Panel
from pullback.saliency.views.pictures import BLUE, RED, coloured, flat, image, is_long, limit
from pullback.saliency.views.pictures import overlay as laid_over

_CELL: Final = 2.4  # inches: the side of a picture
_WIDTH: Final = 8.0  # inches: the width of a row of words
_FONT: Final = 11  # points: of words
_LETTER: Final = 0.602 * _FONT / 72  # inches: the advance of DejaVu Sans Mono
_LINE: Final = 2.2 * _FONT / 72  # inches: from one row of words to the next
_DPI: Final = 160


def save(examples: Sequence[Example], path: Any) -> None:
    """Write a figure to a file of whatever kind Matplotlib knows by its name."""
    _figure(_matplotlib("figure").Figure, examples, overlay=True).savefig(path, dpi=_DPI)


def plot(example: Example, overlay: bool, axes: Any) -> Any:
    """One example, into the given axes or a figure of its own, which notebooks show; the figure."""
    if axes is None:
        return _figure(_matplotlib("pyplot").figure, [example], overlay=overlay)
    cells = list(getattr(axes, "flat", [axes]))
    pictures = [panel for panel in example.panels if not panel.is_row]
    wanted = 3 if overlay else 2
    if len(cells) < wanted or not pictures:
        raise SaliencyError(f"axes has {len(cells)} entries; wanted {wanted}, for a picture.")
    _draw(cells[:wanted], pictures[0])
    return cells[0].figure


def _figure(make: Callable[..., Any], examples: Sequence[Example], *, overlay: bool) -> Any:
    """A row for each input of each example."""
    rows = [(example, panel) for example in examples for panel in example.panels]
    heights = [_height(panel) for _, panel in rows]
    width = max(_width(panel, overlay) for _, panel in rows)
    made = make(figsize=(width, sum(heights)), layout="constrained")
    parts = made.subfigures(len(rows), 1, height_ratios=heights, squeeze=False)[:, 0]
    for part, (example, panel) in zip(parts, rows, strict=True):
        if panel is example.panels[0]:
            gap = "" if example.gap is None else f" · gap {example.gap:.1g}"
            part.suptitle(example.title + gap, fontsize=12)
        if panel.is_row:
            _row(part, panel)
        else:
            _draw(part.subplots(1, 3 if overlay else 2, squeeze=False)[0], panel)
    return made


def _draw(cells: Sequence[Any], panel: Panel) -> None:
    """Input, map, and the map over the input."""
    name = panel.name or "input"
    drawn = {name: image(panel.x), "attribution": coloured(panel.values)}
    if len(cells) > 2:
        drawn["overlay"] = laid_over(panel.x, panel.values)
    for cell, (title, picture) in zip(cells, drawn.items(), strict=True):
        aspect = "auto" if is_long(picture) else "equal"
        cell.imshow(picture, interpolation="nearest", aspect=aspect)
        cell.set_title(title, fontsize=10)
        cell.axis("off")
    _colour_bar(cells[0].figure, panel, list(cells))


def _colour_bar(part: Any, panel: Panel, cells: Any, **options: Any) -> None:
    ends, cm, colors = limit(panel.values), _matplotlib("cm"), _matplotlib("colors")
    map_ = colors.LinearSegmentedColormap.from_list("signed", [BLUE / 255, (1, 1, 1), RED / 255])
    least = -ends if (flat(panel.values) < 0).any() else 0.0
    shades = colors.ListedColormap(map_(np.linspace(0 if least else 0.5, 1, 256)))
    shown = cm.ScalarMappable(colors.Normalize(least, ends), shades)
    bar = part.colorbar(shown, ax=cells, **{"shrink": 0.9, "pad": 0.02, **options})
    ticks = [least, 0.0, ends] if least else [0.0, ends]
    words = [f"{least:.2g}\nlowers", "0"] if least else ["0"]
    bar.set_ticks(ticks, labels=[*words, f"{ends:+.2g}\nraises"])
    bar.ax.tick_params(labelsize=9)


def _row(part: Any, panel: Panel) -> None:
    """Words in color, or bars of numbers."""
    cell = part.subplots(1, 1)
    if panel.name:
        cell.set_title(panel.name, fontsize=10, loc="left")
    if panel.words is not None:
        _words(cell, panel)
        _colour_bar(part, panel, cell, orientation="horizontal", shrink=0.4, aspect=30)
        return
    values = np.atleast_1d(flat(panel.values)[0])
    colors = [tuple(RED / 255) if v >= 0 else tuple(BLUE / 255) for v in values]
    cell.bar(range(len(values)), values, color=colors)
    cell.axhline(0, color="0.4", linewidth=0.8)
    cell.set_xlabel("entry", fontsize=9)
    cell.set_ylabel("attribution", fontsize=9)
    cell.tick_params(labelsize=9)
    for side in ("top", "right"):
        cell.spines[side].set_visible(False)


def _words(cell: Any, panel: Panel) -> None:
    lines = _lines(panel.words or ())
    cell.set_xlim(0, _columns())
    cell.set_ylim(max(line for _, line in lines) + 0.5, -0.5)
    cell.axis("off")
    colors = coloured(panel.values)[0] / 255
    for word, color, (column, line) in zip(panel.words or (), colors, lines, strict=True):
        box = {"facecolor": tuple(color), "edgecolor": "none", "boxstyle": "square,pad=0.2"}
        ink = "white" if color.mean() < 0.5 else "black"
        cell.text(
            column, line, word, fontsize=_FONT, family="monospace", va="center", color=ink, bbox=box,
            parse_math=False,
        )  # fmt: skip


def _columns() -> int:
    return int(_WIDTH / _LETTER)


def _lines(words: Sequence[str]) -> list[tuple[int, int]]:
    """Column and line of each word."""
    found: list[tuple[int, int]] = []
    column = line = 0
    for word in words:
        if column and column + len(word) > _columns():
            column, line = 0, line + 1
        found.append((column, line))
        column += len(word) + 1
    return found


def _height(panel: Panel) -> float:
    if not panel.is_row:
        return _CELL + 0.7
    if panel.words is None:
        return _CELL
    return (_lines(panel.words)[-1][1] + 1) * _LINE + 1.3


def _width(panel: Panel, overlay: bool) -> float:
    return _WIDTH + 0.4 if panel.is_row else _CELL * (3 if overlay else 2) + 1.2


def _matplotlib(module: str) -> Any:
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise SaliencyError(
            "this is drawn with Matplotlib, which is not installed. Write `pip install pullback[plot]`, or use "
            "save('map.html') or show(), which need nothing else."
        ) from error
