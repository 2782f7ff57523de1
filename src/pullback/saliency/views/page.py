"""Maps as a page of HTML, with their pictures inside."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence
from typing import Final

import numpy as np

from pullback.saliency.views.panels import Example, Panel
from pullback.saliency.views.pictures import (
    BLUE,
    RED,
    coloured,
    flat,
    image,
    is_long,
    limit,
    overlay,
    png,
)

_COLORS: Final = {"blue": "rgb({},{},{})".format(*BLUE), "red": "rgb({},{},{})".format(*RED)}
_STYLE: Final = """<style>
.saliency { font: 14px/1.5 system-ui, sans-serif; max-width: 60rem }
.saliency h2 { font-size: 16px; margin: 1.2rem 0 .4rem } .saliency h3 { font-size: 14px; margin: .6rem 0 .2rem }
.saliency figure { display: inline-block; margin: 0 .8rem .4rem 0; vertical-align: top }
.saliency img { width: 15rem; max-width: 100%; image-rendering: pixelated; border: 1px solid #ddd }
.saliency img.long { height: 15rem }
.saliency figcaption, .saliency .note { color: #555; font-size: 13px }
.saliency .words { line-height: 2.1 } .saliency .words span { padding: .15em .3em; border-radius: .2em }
.saliency .bar { display: flex; gap: .6rem; align-items: center; font-size: 13px; margin: .3rem 0 }
.saliency .bar i { width: 12rem; height: .8rem; border: 1px solid #ddd }
</style>
"""


def page(examples: Sequence[Example], note: str) -> str:
    """A whole page."""
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n<title>saliency</title>\n'
        f"<body>\n{body(examples, note)}\n</body>\n</html>\n"
    )


def body(examples: Sequence[Example], note: str) -> str:
    """The examples, and what is to be said about their maps."""
    shown = "\n".join(map(_example, examples))
    said = "".join(f"<li>{html.escape(line)}</li>" for line in note.splitlines())
    notes = f'\n<ul class="note">{said}</ul>' if said else ""
    return f'{_STYLE}<div class="saliency">\n{shown}{notes}\n</div>'


def _example(example: Example) -> str:
    gap = "" if example.gap is None else f" · gap {example.gap:.1g}"
    panels = "\n".join(map(_panel, example.panels))
    return f"<h2>{html.escape(example.title + gap)}</h2>\n{panels}"


def _panel(panel: Panel) -> str:
    name = f"<h3>{html.escape(panel.name)}</h3>\n" if panel.name else ""
    total = float(np.nan_to_num(np.asarray(panel.values, "float64")).sum())
    shown = _words(panel) if panel.is_row else _pictures(panel)
    return f"{name}{shown}\n{_bar(panel, total)}"


def _pictures(panel: Panel) -> str:
    pictures = {
        panel.name or "input": image(panel.x),
        "attribution": coloured(panel.values),
        "attribution over the input": overlay(panel.x, panel.values),
    }
    return "".join(
        f'<figure><img{" class=long" if is_long(picture) else ""} alt="{html.escape(name)}" '
        f'src="data:image/png;base64,{_data(picture)}">'
        f"<figcaption>{html.escape(name)}</figcaption></figure>"
        for name, picture in pictures.items()
    )


def _data(picture: np.ndarray) -> str:
    return base64.b64encode(png(picture)).decode()


def _words(panel: Panel) -> str:
    """Words, or numbers where there are none, in color; each says its number when pointed at."""
    values = np.atleast_1d(flat(panel.values)[0])
    words = panel.words or tuple(f"{value:+.2g}" for value in values)
    spans = [
        f'<span title="{value:+.4g}" style="background:rgb({r},{g},{b});color:{_ink(r, g, b)}">'
        f"{html.escape(word)}</span>"
        for word, value, (r, g, b) in zip(words, values, coloured(panel.values)[0], strict=True)
    ]
    return f'<p class="words">{" ".join(spans)}</p>'


def _ink(*color: int) -> str:
    return "#fff" if sum(map(int, color)) < 3 * 128 else "#000"


def _bar(panel: Panel, total: float) -> str:
    """The scale of colors, and what the map adds up to."""
    ends = limit(panel.values)
    has_both = bool((flat(panel.values) < 0).any())
    colors = f"{_COLORS['blue']},#fff," if has_both else "#fff,"
    least = f"{-ends:.2g} lowers the score" if has_both else "0"
    return (
        f'<div class="bar">{least}<i style="background:linear-gradient(90deg,{colors}{_COLORS["red"]})"></i>'
        f"{ends:+.2g} raises the score · sum {total:+.3g}</div>"
    )
