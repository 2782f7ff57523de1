"""Pictures of findings as SVG: a line through the failing point, or tables of function, rule and difference.

Colours are classes of the page's style, so that a picture follows its theme. Sizes are in pixels.
"""

import html

import numpy as np

from pullback.check.probe import Array
from pullback.check.report.data import Picture

WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 14, 14, 40  # margins of a line
TICKS = 5
TABLE, GAP, HEAD = 200, 20, 22  # width of a table, between tables, its heading
MOST_CELL, FEW_COLUMNS = 40, 5  # size of a cell; so few columns have room for numbers
NARROW = 0.02  # two curves closer than this share of the picture are drawn as their difference
ROOM = 0.08  # above and below the curves
MOST, FAR = 0.75, 4.0  # what lies beyond so many times this quantile is cut off


def drawn(picture: Picture) -> str:
    """The picture as an `svg` element, with its text for those who cannot see it."""
    along = picture.along
    body, height = _tables(picture) if along is None else _line(picture, along)
    label = html.escape(
        f"{picture.title}: {int(picture.wrong.sum())} of {picture.wrong.size} wrong"
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{label}" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def short(value: float) -> str:
    """A number for a tick or a cell."""
    return "NaN" if np.isnan(value) else f"{value + 0.0:.3g}".replace("-", "−").replace("e−0", "e−")


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "middle") -> str:
    shown = html.escape(text)
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{kind}">{shown}</text>'


# a line


class _Axes:
    """From numbers to pixels."""

    def __init__(self, xs: Array, *curves: Array) -> None:
        finite = [ys[np.isfinite(ys)] for ys in curves]
        far = FAR * max(
            (float(np.quantile(np.abs(ys), MOST)) for ys in finite if ys.size), default=0
        )
        known = np.append(np.concatenate(finite), 0.0)
        known = known[np.abs(known) <= far] if far else known
        room = ROOM * (float(np.ptp(known)) or 1.0)
        self.x0, self.x1 = float(xs[0]), float(xs[-1])
        self.y0, self.y1 = float(known.min()) - room, float(known.max()) + room

    def x(self, value: Array | float) -> Array:
        share = (np.asarray(value) - self.x0) / (self.x1 - self.x0)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: Array | float) -> Array:
        share = (np.clip(value, self.y0, self.y1) - self.y0) / (self.y1 - self.y0)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def path(self, xs: Array, ys: Array, kind: str) -> str:
        """A curve with a gap wherever there is no number."""
        points = zip(self.x(xs), self.y(ys), np.isfinite(ys), strict=True)
        steps, pen = [], "M"
        for x, y, known in points:
            steps += [f"{pen}{x:.1f} {y:.1f}"] if known else []
            pen = "L" if known else "M"
        return f'<path d="{" ".join(steps)}" class="{kind}"/>'

    def band(self, xs: Array, low: Array, high: Array) -> str:
        known = np.isfinite(low) & np.isfinite(high)
        there = zip(self.x(xs[known]), self.y(high[known]), strict=True)
        back = zip(self.x(xs[known][::-1]), self.y(low[known][::-1]), strict=True)
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (*there, *back))
        return f'<polygon points="{corners}" class="band"/>'

    def frame(self) -> str:
        below = HEIGHT - BOTTOM + 16
        ticks = _round_ticks(self.x0, self.x1)
        out = [_text(float(self.x(value)), below, short(value), "tick") for value in ticks]
        for value in _round_ticks(self.y0, self.y1):
            y = float(self.y(value))
            out.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" class="grid"/>')
            out.append(_text(LEFT - 6, y + 4, short(value), "tick", "end"))
        return "".join(out)


def _round_ticks(low: float, high: float) -> Array:
    """Round numbers between two."""
    rough = (high - low) / TICKS
    unit = 10.0 ** np.floor(np.log10(rough))
    step = unit * min((k for k in (1, 2, 5, 10) if k * unit >= rough), default=10)
    return np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step


def _line(picture: Picture, xs: Array) -> tuple[str, int]:
    """What the function says as a band, the rule over it, and where they part."""
    truth, rule, error = picture.truth, picture.rule, picture.error
    gap = np.abs(rule - truth)
    reach = np.ptp(truth[np.isfinite(truth)]) if np.isfinite(truth).any() else 0.0
    close = np.isfinite(rule).all() and np.nanmax(gap, initial=0.0) < NARROW * reach
    if close:
        truth, rule = truth * 0, rule - truth
    axes = _Axes(xs, truth, rule)
    parts = [_spans(axes, xs, picture.wrong), axes.frame()]
    parts.append(axes.band(xs, truth - error, truth + error))
    parts += [axes.path(xs, truth, "truth"), axes.path(xs, rule, "rule")]
    at = float(axes.x(picture.mark))
    parts.append(f'<path d="M{at:.1f} {TOP}V{HEIGHT - BOTTOM}" class="mark"/>')
    parts.append(_text(at, HEIGHT - 6, f"failing input: {short(picture.mark)}", "tick"))
    for x in xs[~np.isfinite(rule) & np.isfinite(truth)]:
        parts.append(_text(float(axes.x(x)), TOP + 10, "NaN", "bad"))
    if close:
        parts.append(
            _text(WIDTH - RIGHT - 6, HEIGHT - BOTTOM - 8, "rule − function", "tick", "end")
        )
    return "".join(parts), HEIGHT


def _spans(axes: _Axes, xs: Array, wrong: Array) -> str:
    """The stretches in which the rule is wrong."""
    between = np.concatenate([xs[:1], (xs[1:] + xs[:-1]) / 2, xs[-1:]])
    edges = np.flatnonzero(np.diff(np.concatenate([[0], wrong.astype(int), [0]])))
    out = []
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        low, high = float(axes.x(between[first])), float(axes.x(between[last]))
        size = f'y="{TOP}" width="{high - low:.1f}" height="{HEIGHT - TOP - BOTTOM}"'
        out.append(f'<rect x="{low:.1f}" {size} class="span"/>')
    return "".join(out)


# tables


def _tables(picture: Picture) -> tuple[str, float]:
    """Function, rule and difference, with the wrong cells framed."""
    rows, columns = picture.truth.shape
    cell = min(MOST_CELL, TABLE / max(columns, rows))
    both = np.abs(np.concatenate([picture.truth, picture.rule]))
    scale = float(np.max(both[np.isfinite(both)], initial=0.0)) or 1.0
    gap = picture.rule - picture.truth
    off = float(np.max(np.abs(gap[np.isfinite(gap)]), initial=0.0)) or 1.0
    tables = (
        ("function", picture.truth, scale),
        ("rule", picture.rule, scale),
        ("difference", gap, off),
    )
    parts = []
    for k, (name, values, size) in enumerate(tables):
        left = k * (TABLE + GAP)
        parts.append(_text(left, 14, name, "head", "start"))
        framed = picture.wrong if k else np.zeros_like(picture.wrong)
        parts += [
            _cell(left + j * cell, HEAD + i * cell, cell, values[i, j], size, framed[i, j], columns)
            for i in range(rows)
            for j in range(columns)
        ]
    height = HEAD + rows * cell + 4
    if picture.rows:
        parts.append(
            _text(
                0, height + 12, f"rows: {picture.rows}, columns: {picture.columns}", "tick", "start"
            )
        )
        height += 18
    return "".join(parts), height


def _cell(
    x: float, y: float, size: float, value: float, scale: float, wrong: bool, columns: int
) -> str:
    known = bool(np.isfinite(value))
    kind = ("plus" if value >= 0 else "minus") if known else "unknown"
    strength = 0.08 + 0.82 * min(abs(value) / scale, 1.0) if known else 0.3
    inner = f'width="{size - 2:.1f}" height="{size - 2:.1f}" rx="2"'
    title = f"<title>{html.escape(f'{value:.9g}')}</title>"
    out = f'<rect x="{x + 1:.1f}" y="{y + 1:.1f}" {inner} class="{kind}" fill-opacity="{strength:.2f}">{title}</rect>'
    if wrong:
        out += f'<rect x="{x + 1:.1f}" y="{y + 1:.1f}" {inner} class="wrong"/>'
    if columns <= FEW_COLUMNS:
        shown = _text(
            x + size / 2, y + size / 2 + 4, short(value), "strong" if strength > 0.6 else "number"
        )
        out += shown
    return out
