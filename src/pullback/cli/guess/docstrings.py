"""What a docstring says of a parameter: its shape, its dtype, where its numbers lie."""

from __future__ import annotations

import re

from pullback.cli.guess.annotations import dims_of, square
from pullback.cli.guess.names import is_data, is_length
from pullback.cli.guess.prose import in_passing
from pullback.cli.guess.sizes import Dims
from pullback.cli.guess.wanted import DOCSTRING, OF_MATRICES, TRIED, Wanted

_INSIDE = r"[\w\s,.*+/-]*"  # names, numbers, `...`, `H//2`
_SHAPE = re.compile(
    rf"(?:shapes?|tensor|array|matrix|vector|float\d*|batch)[^\[\]\(\)\.]{{0,30}}?[`\"']*[\[\(]({_INSIDE})[\]\)]",
    re.I,
)
_BARE_SHAPE = re.compile(
    rf"^[^\[\(]{{0,12}}?(?:\[({_INSIDE})\]|\((\s*[\w.*]+\s*(?:,\s*[\w.*+/-]*\s*)+)\))"
)
_CROSS = re.compile(
    r"(?:^|\s|\(|\{)([A-Z\d]\w{0,3}|\w)((?:\s*(?:×|\bx\b|\\times|-by-)\s*(?:[A-Z\d]\w{0,3}|\w)\b)+)"
)  # N x D
_LENGTH = re.compile(
    r"(?:\bvector (?:of|with)|^of) (?:length|size|dim(?:ension)?) `?(\w+)`?|\bvector of `?(\w)\b",
    re.I,
)
_CITATION = re.compile(
    r"[\[(][^\[\]()]*\b[A-Z][a-z]+[^\[\]()]*\b(?:1[89]\d\d|20[0-3]\d)[a-z]?\b[^\[\]()]*[\])]"
)
_POWER_OF_REALS = re.compile(r"\b(?:R|ℝ)\^[\{\(]?(\w+)\b(?!\s*(?:×|x\b))")
_SHAPE_AT_THE_END = re.compile(rf",\s*\[({_INSIDE})\]\s*\.?\s*$")
# A reference, or an interval.
_NO_SHAPE = re.compile(r"\s*(?:\d+|[\d.]*\b0\b.*|.*(?:^|[,\s])-.*|.*\d\.\d.*|.*\binf\b.*)\s*")
_LIKE = re.compile(
    r"(?:same (?:shape|size|dimensions?)[^.;]{0,20}? as|shaped like|shape of|\blike) (?:the )?[`*\"']*(\w+)"
)
_QUOTED = r"`*[\"'](\w+)[\"']`*"
_CHOICES = re.compile(rf"(?:one of|either)\b[^\"'.]*((?:{_QUOTED}[,\s]*(?:and|or)?\s*)+)", re.I)
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
_PLAINER = (
    *OF_MATRICES,
    "unit",
    "one-hot",
    "shares",
    "flags",
)  # told better in words than as a range
_KINDS_OF_MATRIX = [words for words, kind in _VALUES.items() if kind in OF_MATRICES]
_RANGE_OF_NUMBERS = re.compile(
    r"(?:\bin|within|between|range|interval)(?: the| of| range| interval)*\s*[`\"']*[\[\(]\s*"
    r"(-?\d+(?:\.\d*)?)\s*,\s*(-?\d+(?:\.\d*)?)\s*[\]\)]",
    re.I,
)
_RANGE = r"(?:in|within|between|range|interval)\s*[`\"']*[\[\(]\s*-?[\d.]+\s*,\s*-?[\w.]+\s*[\]\)]"
_WHOLE = r"\bint(?:eger)?s?(?:32|64)?\b|indices|class ids"
_REAL = r"\breal\b|\bb?float(?:16|32|64)?\b|\bhalf\b"  # such numbers will do, where complex ones are taken as well
# Where the text on a parameter ends: at the next one, on a line of its own or not, or at an empty line.
_ENTRY = r"[\*`]*\w+(?:(?:, | and )\w+)*[\*`]*\s*(?:\([^)]*\))?[ \t]*:(?!\w)"
_END = rf"(?=^\s*{_ENTRY}|[;,.]\s+{_ENTRY}|^\s*$|^\s*:param|\Z)"
_LAYOUT = re.compile(r"\b[NB](?:HWC|CHW|DHWC|TC|CT|LC)\b")  # an axis each
_PICTURES = ("x", "input", "inputs", "image", "images", "img", "features", "feature_map", "maps")
_ONE_NUMBER = r"\bscalar\b|^(?:an? |the |python )*float\b(?! *(?:tensor|array|vector|matri|values|labels|data))"
_SMALL = r"(?:(?:is|are|has|have|of|with|a|an|the|float\d*|int\d*|complex|real|tensor|array|shaped?)\s+)*"
_BRACKETS = r"(?:\[[^\]]*\]|\(\s*[\w.*+/-]+\s*,[^)]*\))"
_AXES = {
    1: r"\b1-?D\b(?! ?(?:conv|pool|filter|kernel))|\bone-dimensional\b|\brank[- ]?1\b|\bvector\b",
    2: r"\b2-?D (?:tensor|array|input|matrix)|\btwo-dimensional (?:tensor|array)|\brank[- ]?2\b|\bmatrix\b",
    3: r"\b3-?D (?:tensor|array|input)|\bthree-dimensional (?:tensor|array)|\brank[- ]?3\b|(?:batch|stack) of matrices",
    4: r"\b4-?D (?:tensor|array|input)|\bfour-dimensional (?:tensor|array)|\brank[- ]?4\b|batch of images",
}
_SEVERAL = r"\b(?:batch|batches|each|every|per|rows?|stack|last|leading|broadcast\w*)\b"
_ANY_AXES = re.compile(
    r"multi-?dimensional|n-?d (?:tensor|array)|(?:any|arbitrary|whatever) (?:shape|rank|number of)|element-?wise|\.\.\."
    r"|leading (?:dim|ax)|batch dim\w* ?s?\b|broadcast",
    re.I,
)
# What a batch makes more of, by how many axes there are already: things, and matrices.
_BATCHES = {
    1: re.compile(r"\bbatch(?:es|ed)?\b", re.I),
    2: re.compile(r"\b(?:batch(?:es|ed)?|stacks?)\b[^.,;]*\bmatri", re.I),
}


def allows_more_axes(doc: str, axes: int = 1) -> bool:
    """Whether a docstring speaks of tensors of any shape, or of batches of what has so many axes.

    >>> allows_more_axes("Loss of a batch of labels."), allows_more_axes("Loss of labels [batch, classes].")
    (True, False)
    """
    apart = re.sub(_BRACKETS, lambda shape: shape[0] if "..." in shape[0] else "", doc)
    batches = _BATCHES.get(max(axes, 1))
    return bool(_ANY_AXES.search(apart) or (batches and batches.search(apart)))


def from_sentence(doc: str, name: str, *, alone: bool) -> Wanted:
    """What a sentence says in passing: how many axes a tensor has, or which kind of matrix it is; else any tensor.

    >>> from_sentence("Sorts the vector x.", "x", alone=False).axes
    (1,)
    """
    doc = _CITATION.sub("", doc)
    said = _said_of(doc, name) or (doc.partition("\n\n")[0] if alone else _near(doc, name))
    dims = _only_shape_in(said) if alone else ()
    if dims or re.search(_SEVERAL, said, re.I):
        return Wanted(DOCSTRING, dims=dims) if dims else Wanted()
    kind = next((_VALUES[words] for words in _KINDS_OF_MATRIX if re.search(words, said, re.I)), "")
    if kind or re.search(r"\bsquare matri", said, re.I):
        return Wanted(DOCSTRING, dims=("n", "n"), values=kind)
    axes = next(((count,) for count, words in _AXES.items() if re.search(words, said, re.I)), ())
    return Wanted(DOCSTRING if axes else TRIED, axes=axes)


def _only_shape_in(said: str) -> Dims:
    """The one shape in a sentence about one tensor, or that of what goes in: `[N, C] -> [N]`."""
    found = [text[1:-1] for text in re.findall(rf"(?<![\w\]]){_BRACKETS}", said)]
    shapes = [text for text in found if "," in text and not _NO_SHAPE.fullmatch(text)]
    is_one = len(shapes) == 1 or (shapes and re.search(r"\]\s*(?:->|→|to)\s*\[", said))
    return dims_of(shapes[0].replace("...", " leading ")) if is_one else ()


def _near(doc: str, name: str) -> str:
    """The words around a name; a single letter may be a word."""
    if name in ("a", "A", "I"):
        return ""
    word = rf"(?<![\w'])`?{re.escape(name)}`?(?![\w'])"
    return "; ".join(re.findall(rf"[^.;\n]{{0,40}}{word}[^.;,\n]{{0,25}}", doc))


def from_docstring(doc: str, name: str) -> list[Wanted]:
    """What may be given for a parameter that a docstring describes.

    >>> from_docstring("x: Tensor of shape [batch, 3].", "x")[0].dims
    ('batch', 3)
    """
    doc = _CITATION.sub("", doc)
    said = _said_of(doc, name) or in_passing(doc, name)
    if not said:
        return []
    if re.search(r"\bcallable\b|\bfunction (?:of|that|which|from)", said, re.I):
        return [Wanted(DOCSTRING, square)]
    if choices := choices_in(said):
        return [Wanted(DOCSTRING, choice) for choice in choices]
    ranges = _RANGE_OF_NUMBERS.search(said)
    apart_from_ranges = re.sub(_RANGE, "", said)
    shape = _shape_in(apart_from_ranges)
    like = _LIKE.search(said) if shape is None else None
    dims = None if shape is None else dims_of(shape.replace("...", " leading "))
    dims = () if dims is None and re.search(_ONE_NUMBER, said, re.I) else dims
    values = next((kind for pattern, kind in _VALUES.items() if re.search(pattern, said, re.I)), "")
    if ranges and float(ranges[1]) < float(ranges[2]) and values not in _PLAINER:
        values = f"{ranges[1]} to {ranges[2]}"
    same_as = like[1] if like and like[1] != name and dims is None else ""
    if re.search(_WHOLE, said, re.I) and not re.search(r"float|one-?hot", said, re.I):
        plain = [] if dims is not None or same_as else [Wanted(DOCSTRING, 2)]
        values = "positive" if is_length(name) or re.search(r">=? ?1\b|positive", said) else ""
        return [*plain, Wanted(DOCSTRING, dims=dims, dtype="int32", values=values, like=same_as)]
    if re.search(r"\bbool(?:ean)?\b", said, re.I) and (dims is not None or same_as):
        return [Wanted(DOCSTRING, dims=dims, dtype="bool", like=same_as)]
    if re.search(r"\bcomplex(?:64|128)?\b", said, re.I) and not re.search(_REAL, said, re.I):
        wide = "complex128" if "complex128" in said else "complex64"
        return [Wanted(DOCSTRING, dims=dims, dtype=wide)]
    if dims is None and (values in OF_MATRICES or re.search(r"\bsquare matri", said, re.I)):
        dims = ("n", "n")
    if same_as:
        return [Wanted(DOCSTRING, values=values, like=same_as)]
    return [Wanted(DOCSTRING, dims=dims, values=values)] if dims is not None or values else []


def choices_in(said: str) -> list[str]:
    """The texts of which a parameter is one, as a docstring has them."""
    found = _CHOICES.search(said)
    return re.findall(_QUOTED, found[1]) if found else []


def choices_of(doc: str, name: str) -> list[str]:
    """The texts that a docstring offers for a parameter."""
    return choices_in(_said_of(doc, name))


def says_tensor(doc: str, name: str) -> bool:
    """Whether a setting is described as a tensor, or as learnt: its gradient is missed where there is none."""
    said = _said_of(doc, name)
    return not is_data(name) and bool(re.search(r"\btensor\b|learn|train|variable", said, re.I))


def _shape_in(said: str) -> str | None:
    """What stands in the brackets of a shape; a reference or an interval is none."""
    for found in (pattern.search(said) for pattern in (_SHAPE, _BARE_SHAPE, _SHAPE_AT_THE_END)):
        inside = next((group for group in found.groups() if group is not None), "") if found else ""
        if found and not _NO_SHAPE.fullmatch(inside):
            return inside
    if found := _LAYOUT.search(said):
        return ", ".join(found[0])
    if found := _CROSS.search(said):
        return ", ".join(re.split(r"\s*(?:×|\bx\b|\\times|-by-)\s*", (found[1] + found[2]).strip()))
    found = _POWER_OF_REALS.search(said) or _LENGTH.search(said)
    return next(filter(None, found.groups()), None) if found else None


def _said_of(doc: str, name: str) -> str:
    """The text on one parameter: an entry of its own, one among others in a line, or a shape after its name."""
    word = rf"[\*`\"']*(?:\w+(?:, | and ))*\b{re.escape(name)}\b[\"']?"
    entry = rf"{word}(?:(?:, | and )\w+)*[\*`]*\s*(?:\((?P<kind>[^)]*)\))?\s*:(?P<text>.*?){_END}"
    for start in (r"^\s*(?::param (?:[\w.]+ )?)?", r"(?:[;,.(]|^)\s*"):
        if found := re.search(start + entry, doc, re.M | re.S):
            return f"{found['kind'] or ''} {found['text']}".strip()
    inline = rf"{word}(?:(?:, | and )\w+)*[\*`]*\s+(?P<text>{_SMALL}{_BRACKETS}[^,;.\n]*)"
    if found := re.search(inline, doc):
        return found["text"]
    if found := re.search(rf"\b(?:[Bb]oth|[Aa]ll)\b(?P<text>[^.\n]*{_BRACKETS})", doc):
        return found["text"].strip()
    found = _LAYOUT.search(doc) if name in _PICTURES else None
    return f"[{', '.join(found[0])}]" if found else ""
