"""What a docstring says of a parameter: its shape, its dtype, where its numbers lie."""

from __future__ import annotations

import re

from pullback.cli.guess.annotations import dims_of, square
from pullback.cli.guess.wanted import DOCSTRING, Wanted

_SHAPE = re.compile(
    r"(?:shapes?|tensor|array|matrix|vector|float\d*|batch)[^\[\(\.]{0,30}?[`\"']*[\[\(]([\w\s,.*]*)[\]\)]",
    re.I,
)
_BARE_SHAPE = re.compile(r"^[^\[\(]{0,12}?[\[\(](\s*\w+\s*(?:,\s*[\w.]+\s*)+)[\]\)]")
_CHOICE = re.compile(r"one of[^.]*?[\"'](\w+)[\"']", re.I)
# The first that a text matches says how the numbers lie.
_VALUES = {
    r"positive[- ]definite": "definite",
    r"symmetric|self-adjoint|hermitian": "symmetric",
    r"one-?hot": "one-hot",
    r"probabilit(?:y|ies) (?:vector|distribution)|distributions?\b|simplex|sums? to (?:one|1)": "shares",
    r"(?:in|within|between|range)\s*(?:the )?\s*(?:range |interval )?[\[\(]?\s*0(?:\.0?)?\s*(?:,|and)\s*1": "unit",
    r"probabilit": "unit",
    r"binary mask|0/1|zeros and ones": "flags",
    r"(?<!non-)(?<!non)\bpositive|strictly greater than (?:0|zero)|> ?0\b": "positive",
    r"non-?negative|>= ?0\b": "positive",
}
_RANGE = r"(?:in|within|between|range|interval)\s*[`\"']*[\[\(]\s*-?[\d.]+\s*,\s*-?[\w.]+\s*[\]\)]"
_WHOLE = r"\bint(?:eger)?s?(?:32|64)?\b|indices|class ids"
_END = r"(?=^\s*[\*`]*\w+[\*`]*\s*(?:\([^)]*\))?\s*:|^\s*$|^\s*:param|\Z)"


def from_docstring(doc: str, name: str) -> list[Wanted]:
    """What may be given for a parameter that a docstring describes.

    >>> from_docstring("x: Tensor of shape [batch, 3].", "x")[0].dims
    ('batch', 3)
    """
    said = _said_of(doc, name)
    if not said:
        return []
    if re.search(r"\bcallable\b|\bfunction (?:of|that|which|from)", said, re.I):
        return [Wanted(DOCSTRING, square)]
    if found := _CHOICE.search(said):
        return [Wanted(DOCSTRING, found[1])]
    apart_from_ranges = re.sub(_RANGE, "", said)
    shape = _SHAPE.search(apart_from_ranges) or _BARE_SHAPE.search(apart_from_ranges)
    dims = dims_of(shape[1].replace("...", " ... ")) if shape else None
    dims = () if dims is None and re.search(r"\bscalar\b", said, re.I) else dims
    values = next((kind for pattern, kind in _VALUES.items() if re.search(pattern, said, re.I)), "")
    if re.search(_WHOLE, said, re.I) and not re.search(r"float|one-?hot", said, re.I):
        plain = [Wanted(DOCSTRING, 2)] if dims is None else []
        return [*plain, Wanted(DOCSTRING, dims=dims, dtype="int32")]
    if re.search(r"\bbool(?:ean)?\b", said, re.I) and dims is not None:
        return [Wanted(DOCSTRING, dims=dims, dtype="bool")]
    if re.search(r"\bcomplex(?:64|128)?\b", said, re.I):
        wide = "complex128" if "complex128" in said else "complex64"
        return [Wanted(DOCSTRING, dims=dims, dtype=wide)]
    if dims is None and not values:
        return []
    if values in ("definite", "symmetric") and dims is None:
        dims = ("n", "n")
    return [Wanted(DOCSTRING, dims=dims, values=values)]


def _said_of(doc: str, name: str) -> str:
    """The lines on one parameter."""
    start = rf"^\s*(?::param (?:[\w.]+ )?)?[\*`]*{re.escape(name)}[\*`]*\s*(?:\((?P<kind>[^)]*)\))?\s*:(?P<text>.*?)"
    found = re.search(start + _END, doc, re.M | re.S)
    return f"{found['kind'] or ''} {found['text']}".strip() if found else ""
