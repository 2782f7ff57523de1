"""What a docstring says of a parameter: its shape, its dtype, where its numbers lie."""

from __future__ import annotations

import re

from pullback.cli.guess.annotations import dims_of, square
from pullback.cli.guess.names import is_data, is_length
from pullback.cli.guess.wanted import DOCSTRING, Wanted

_SHAPE = re.compile(
    r"(?:shapes?|tensor|array|matrix|vector|float\d*|batch)[^\[\(\.]{0,30}?[`\"']*[\[\(]([\w\s,.*]*)[\]\)]",
    re.I,
)
_BARE_SHAPE = re.compile(r"^[^\[\(]{0,12}?(?:\[([\w\s,.*]+)\]|\((\s*\w+\s*(?:,\s*[\w.]+\s*)+)\))")
_NO_SHAPE = re.compile(r"\s*(?:\d+|[\d.]*\b0\b.*)\s*")  # a reference, or an interval from 0
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
# Where the text on a parameter ends: at the next one, on a line of its own or not, or at an empty line.
_ENTRY = r"[\*`]*\w+(?:(?:, | and )\w+)*[\*`]*\s*(?:\([^)]*\))?\s*:"
_END = rf"(?=^\s*{_ENTRY}|[;,.]\s+{_ENTRY}|^\s*$|^\s*:param|\Z)"
_LAYOUT = re.compile(r"\b[NB](?:HWC|CHW|DHWC|TC|CT|LC)\b")  # an axis each
_PICTURES = ("x", "input", "inputs", "image", "images", "img", "features", "feature_map", "maps")
_SMALL = r"(?:(?:is|are|has|have|of|with|a|an|the|float\d*|int\d*|complex|real|tensor|array|shaped?)\s+)*"


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
    shape = _shape_in(apart_from_ranges)
    dims = None if shape is None else dims_of(shape.replace("...", " leading "))
    dims = () if dims is None and re.search(r"\bscalar\b", said, re.I) else dims
    values = next((kind for pattern, kind in _VALUES.items() if re.search(pattern, said, re.I)), "")
    if re.search(_WHOLE, said, re.I) and not re.search(r"float|one-?hot", said, re.I):
        plain = [Wanted(DOCSTRING, 2)] if dims is None else []
        values = "positive" if is_length(name) or re.search(r">=? ?1\b|positive", said) else ""
        return [*plain, Wanted(DOCSTRING, dims=dims, dtype="int32", values=values)]
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


def says_tensor(doc: str, name: str) -> bool:
    """Whether a setting is described as a tensor, or as learnt: its gradient is missed where there is none."""
    said = _said_of(doc, name)
    return not is_data(name) and bool(re.search(r"\btensor\b|learn|train|variable", said, re.I))


def _shape_in(said: str) -> str | None:
    """What stands in the brackets of a shape; a reference or an interval is none."""
    for found in (_SHAPE.search(said), _BARE_SHAPE.search(said)):
        inside = next((group for group in found.groups() if group is not None), "") if found else ""
        if found and not _NO_SHAPE.fullmatch(inside):
            return inside
    return None


def _said_of(doc: str, name: str) -> str:
    """The text on one parameter: an entry of its own, one among others in a line, or a shape after its name."""
    word = rf"[\*`]*(?:\w+(?:, | and ))*\b{re.escape(name)}\b"
    entry = rf"{word}(?:(?:, | and )\w+)*[\*`]*\s*(?:\((?P<kind>[^)]*)\))?\s*:(?P<text>.*?){_END}"
    for start in (r"^\s*(?::param (?:[\w.]+ )?)?", r"(?:[;,.(]|^)\s*"):
        if found := re.search(start + entry, doc, re.M | re.S):
            return f"{found['kind'] or ''} {found['text']}".strip()
    inline = rf"{word}(?:(?:, | and )\w+)*[\*`]*\s+(?P<text>{_SMALL}\[[^\]]*\][^,;.\n]*)"
    if found := re.search(inline, doc):
        return found["text"]
    if found := re.search(r"\b(?:[Bb]oth|[Aa]ll)\b(?P<text>[^.\n]*\[[^\]]*\])", doc):
        return found["text"].strip()
    found = _LAYOUT.search(doc) if name in _PICTURES else None
    return f"[{', '.join(found[0])}]" if found else ""
