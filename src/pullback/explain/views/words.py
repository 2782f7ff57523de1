"""Numbers and names, short enough to be read beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence

_EIGHTHS = "▏▎▍▌▋▊▉█"
_STEPS = "▁▂▃▄▅▆▇█"


def number(value: float | None) -> str:
    """Three digits.

    >>> number(0.0), number(1234.5), number(0.0123), number(3.2e-9), number(None)
    ('0', '1.23e3', '0.0123', '3.2e-9', 'none')
    """
    if value is None:
        return "none"
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "∞"
    if value == 0 or 1e-3 <= abs(value) < 1e3:
        return f"{value:.3g}"
    mantissa, _, exponent = f"{value:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def seconds(value: float) -> str:
    """A time.

    >>> seconds(0.0000125), seconds(0.25), seconds(3.0)
    ('12.5 µs', '250 ms', '3 s')
    """
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def count(number_of: int, thing: str) -> str:
    """How many of a thing.

    >>> count(1, "operation"), count(1196, "operation")
    ('1 operation', '1,196 operations')
    """
    return f"{number_of:,} {thing}{'' if number_of == 1 else 's'}"


class Scale:
    """Norms on a logarithmic scale, from 0 (the smallest) to 1 (the largest)."""

    def __init__(self, norms: Sequence[float | None]) -> None:
        logs = [math.log10(n) for n in norms if n and math.isfinite(n)]
        self._top = max(logs, default=0.0)
        # Norms within a factor of ten are much the same; bars should not say otherwise.
        self._bottom = min([*logs, self._top - 1]) - 0.25

    def share(self, norm: float | None) -> float:
        """Where a norm lies; 0 for none and for zero."""
        if not norm or math.isnan(norm):
            return 0.0
        log = math.log10(norm) if math.isfinite(norm) else self._top
        share = (log - self._bottom) / (self._top - self._bottom)
        return min(max(share, 0.0), 1.0)

    def bar(self, norm: float | None, width: int) -> str:
        """A bar of block characters."""
        eighths = round(self.share(norm) * width * 8)
        full, rest = divmod(max(eighths, 1 if norm and norm == norm else 0), 8)
        return "█" * full + (_EIGHTHS[rest - 1] if rest else "")

    def line(self, norms: Sequence[float | None], width: int) -> str:
        """One character for each norm, at most `width` of them."""
        chosen = (
            norms
            if len(norms) <= width
            else [norms[round(k * (len(norms) - 1) / (width - 1))] for k in range(width)]
        )
        return "".join(_STEPS[round(self.share(n) * 7)] if n else "·" for n in chosen)
