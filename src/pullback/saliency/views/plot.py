"""A map drawn with Matplotlib, which is imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any

from pullback.errors import SaliencyError
from pullback.saliency.views.pictures import Pair, coloured, image
from pullback.saliency.views.pictures import overlay as laid_over


def plot(pair: Pair, title: str, overlay: bool, axes: Any) -> Any:
    """The input, the map and, if asked for, the map over the input; the figure."""
    x, values = pair
    pictures = {"input": image(x), title: coloured(values)}
    if overlay:
        pictures["overlay"] = laid_over(x, values)
    if axes is None:
        size = (3 * len(pictures), 3)
        _, axes = _matplotlib().subplots(1, len(pictures), figsize=size, squeeze=False)
    cells = list(getattr(axes, "flat", [axes]))
    if len(cells) < len(pictures):
        raise SaliencyError(f"axes has {len(cells)} entries; wanted {len(pictures)}.")
    for cell, (name, picture) in zip(cells, pictures.items(), strict=False):
        cell.imshow(picture, interpolation="nearest")
        cell.set_title(name)
        cell.axis("off")
    return cells[0].figure


def _matplotlib() -> Any:
    try:
        return importlib.import_module("matplotlib.pyplot")
    except ImportError as error:
        raise SaliencyError(
            "plot() draws with Matplotlib, which is not installed. Write `pip install pullback[plot]`, or use "
            "save('map.png') or show(), which need nothing else."
        ) from error
