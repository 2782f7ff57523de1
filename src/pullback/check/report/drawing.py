"""Pictures of findings as SVG: a line through the failing point, or tables of function, rule and difference.

Colours are classes of the page's style, so that a picture follows its theme. Sizes are in pixels.
"""

import html

import numpy as np

from pullback.check.probe import Array
from pullback.check.report.data import Picture

WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 626, 14, 210  # edges of a line's field
TICKS = 5
TABLE, GAP, HEAD = 200, 20, 22  # width of a table, between tables, its heading
MOST_CELL, FEW_COLUMNS = 46, 4  # size of a cell; so few columns have room for numbers
NARROW = 0.02  # two curves closer than this share of the picture are drawn as their difference
ROOM = 0.08  # above and below the curves
MOST, FAR = 0.75, 4.0  # what lies beyond so many times this quantile is cut off


def drawn(picture: Picture, truth: str = "function") -> str:
    """The picture as an `svg` element, with a text for those who cannot see it; `truth` is what the rule is held to."""
    along = picture.along
    body, height = _tables(picture, truth) if along is None else (_line(picture, along), HEIGHT)
    label = f"{picture.title}: {int(picture.wrong.sum())} of {picture.wrong.size} wrong"
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{html.escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def _short(value: float) -> str:
    """A number for a tick or a cell."""
    text = f"{value + 0.0:.3g}".replace("e-0", "e-").replace("-", "−")
    return {"nan": "NaN", "inf": "∞", "−inf": "−∞"}.get(text, text)


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> str:
    shown = html.escape(text)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{shown}</text>'


class _Axis:
    """From numbers to pixels, and round numbers on the way."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self.low, self.high, self.first, self.last = low, high, first, last

    def __call__(self, value: Array) -> Array:
        share = (np.clip(value, self.low, self.high) - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)

    def ticks(self) -> list[tuple[float, str]]:
        rough = (self.high - self.low) / TICKS
        unit = 10.0 ** np.floor(np.log10(rough))
        step = unit * next(k for k in (1, 2, 5, 10, 20) if k * unit >= rough)
        values = np.arange(np.ceil(self.low / step), np.floor(self.high / step) + 1) * step
        return [(float(self(value)), _short(value)) for value in values]


def _line(picture: Picture, xs: Array) -> str:
    """What the function says as a band, the rule over it, and where they part."""
    truth, rule, error, here = picture.truth, picture.rule, picture.error, picture.mark
    known = np.isfinite(truth) & np.isfinite(rule)
    gap = float(np.max(np.abs(rule - truth), where=known, initial=0.0))
    close = bool(known.any() and np.isfinite(rule).all() and gap < NARROW * np.ptp(truth[known]))
    if close:
        truth, rule = truth * 0, rule - truth
    x = _Axis(float(xs[0]), float(xs[-1]), LEFT, RIGHT)
    y = _Axis(*_reach(truth, rule), BOTTOM, TOP)
    at = float(x(np.array(here)))
    parts = [_text(place, BOTTOM + 16, text, "tick") for place, text in x.ticks()]
    for place, text in y.ticks():
        parts.append(f'<path d="M{LEFT} {place:.1f}H{RIGHT}" class="grid"/>')
        parts.append(_text(LEFT - 6, place + 4, text, "tick", "end"))
    ends = np.concatenate([xs[:1], (xs[1:] + xs[:-1]) / 2, xs[-1:]])
    for first, last in _runs(picture.wrong):
        left, right = x(ends[[first, last]])
        parts.append(f'<path d="M{left:.1f} {TOP}H{right:.1f}V{BOTTOM}H{left:.1f}Z" class="span"/>')
    a, b, e = (v[np.isfinite(truth + error)] for v in (xs, truth, error))
    band = np.append(a, a[::-1]), np.append(b + e, (b - e)[::-1])
    curves = {"band": band, "truth": (xs, truth), "rule": (xs, rule)}
    parts += [_curve(x(a), y(b), kind) for kind, (a, b) in curves.items()]
    parts.append(f'<path d="M{at:.1f} {TOP}V{BOTTOM}" class="mark"/>')
    parts.append(_text(at, HEIGHT - 6, f"failing input: {_short(here)}", "tick"))
    broken = [first for first, _ in _runs(~np.isfinite(rule) & np.isfinite(truth))]
    parts += [_text(float(x(xs[k])), TOP + 10, _short(rule[k]), "bad") for k in broken]
    if close:
        parts.append(_text(RIGHT - 6, BOTTOM - 8, "the difference", "tick", "end"))
    return "".join(parts)


def _reach(*curves: Array) -> tuple[float, float]:
    """The least and the greatest number to be shown, zero among them, without what is far out."""
    finite = [ys[np.isfinite(ys)] for ys in curves]
    far = FAR * max(float(np.quantile(np.abs(ys), MOST)) for ys in (*finite, [0.0]) if len(ys))
    shown = np.append(np.concatenate(finite), 0.0)
    shown = shown[np.abs(shown) <= far] if far else shown
    room = ROOM * (float(np.ptp(shown)) or 1.0)
    return float(shown.min()) - room, float(shown.max()) + room


def _runs(mask: Array) -> list[tuple[int, int]]:
    """Where each stretch of a mask begins, and where the next one of the other kind does."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(int), [0]])))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def _curve(xs: Array, ys: Array, kind: str) -> str:
    """A path with a gap wherever there is no number."""
    steps, pen = [], "M"
    for x, y in zip(xs, ys, strict=True):
        steps += [f"{pen}{x:.1f} {y:.1f}"] if np.isfinite(y) else []
        pen = "L" if np.isfinite(y) else "M"
    return f'<path d="{" ".join(steps)}" class="{kind}"/>'


def _tables(picture: Picture, truth: str) -> tuple[str, float]:
    """Function, rule and difference, with the wrong cells framed."""
    rows, columns = picture.truth.shape
    cell = min(MOST_CELL, TABLE / max(columns, rows))
    gap = picture.rule - picture.truth
    size = max(_largest(picture.truth), _largest(picture.rule))
    tables = {truth: picture.truth, "rule": picture.rule, "difference": gap}
    parts: list[str] = []
    for k, (name, values) in enumerate(tables.items()):
        left, scale = k * (TABLE + GAP), (size, size, _largest(gap))[k] or 1.0
        parts.append(_text(left, 14, name, "head", "start"))
        for (i, j), value in np.ndenumerate(values):
            wrong = bool(k and picture.wrong[i, j])
            place = left + j * cell, HEAD + i * cell, cell
            parts.append(_cell(*place, float(value), scale, wrong, columns <= FEW_COLUMNS))
    height = HEAD + rows * cell + 4
    if picture.rows:
        text = f"rows: {picture.rows}, columns: {picture.columns}"
        parts.append(_text(0, height + 12, text, "tick", "start"))
        height += 18
    return "".join(parts), height


def _largest(values: Array) -> float:
    return float(np.max(np.abs(values), where=np.isfinite(values), initial=0.0))


def _cell(
    x: float, y: float, size: float, value: float, scale: float, wrong: bool, numbered: bool
) -> str:
    known = bool(np.isfinite(value))
    kind = ("plus" if value >= 0 else "minus") if known else "unknown"
    strength = 0.08 + 0.82 * abs(value) / scale if known else 0.3
    box = f'<rect x="{x + 1:.1f}" y="{y + 1:.1f}" width="{size - 2:.1f}" height="{size - 2:.1f}" rx="2"'
    out = f'{box} class="{kind}" fill-opacity="{strength:.2f}"><title>{value:.9g}</title></rect>'
    out += f'{box} class="wrong"/>' if wrong else ""
    tone = "strong" if strength > 0.6 else "number"
    return out + (_text(x + size / 2, y + size / 2 + 4, _short(value), tone) if numbered else "")
