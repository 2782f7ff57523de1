"""A flow as a page of its own: one file, nothing is fetched, every text is escaped."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

from pullback.explain.data import FlowData
from pullback.explain.views.encode import encoded

_HERE = Path(__file__).parent
_VENDOR = _HERE / "vendor"


def flow_page(flow: FlowData) -> str:
    """A page with a graph to look around in."""
    licences = [_read(path) for path in sorted(_VENDOR.glob("*.LICENSE.txt"))]
    parts = {
        "title": html.escape(f"{flow.name}: the way of its gradient"),
        "style": _read(_HERE / "page.css"),
        "data": embedded(json.dumps(encoded(flow), separators=(",", ":"), ensure_ascii=False)),
        "licences": "\n".join(licences),
        "cytoscape": _read(_VENDOR / "cytoscape.min.js"),
        "dagre": _read(_VENDOR / "cytoscape-dagre.min.js"),
        "script": _read(_HERE / "page.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], _read(_HERE / "page.html"))


def embedded(data: str) -> str:
    """JSON that cannot end the element it stands in."""
    return data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
