"""A map as a page of HTML, with its pictures inside."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

from pullback.saliency.views.pictures import Pair, png, stacked

_STYLE = "font: 14px/1.5 system-ui, sans-serif; margin: 1.5rem; max-width: 60rem"


def page(pairs: Sequence[Pair], text: str) -> str:
    """A whole page: input, map, and map over the input of each example."""
    return (
        f'<!doctype html>\n<meta charset="utf-8">\n<title>saliency</title>\n<body style="{_STYLE}">\n'
        f"{body(pairs, text)}\n</body>\n"
    )


def body(pairs: Sequence[Pair], text: str) -> str:
    """The pictures and what is to be said about them."""
    shown = "\n".join(_picture(pair) for pair in pairs)
    return f"<pre>{html.escape(text)}</pre>\n{shown}"


def _picture(pair: Pair) -> str:
    data = base64.b64encode(png(stacked([pair]))).decode()
    return (
        f'<p><img alt="input, map, and map over the input" src="data:image/png;base64,{data}"></p>'
    )
