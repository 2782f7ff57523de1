"""What a sentence says of a parameter in passing: `a vector x`, `w n-by-m`, `scale has the shape of x`."""

from __future__ import annotations

import re

_NOUN = r"(?:matri(?:x|ces)|vectors?|scalars?|tensors?|arrays?)"
_BREAK = r"\b(?:and|or|for|with|by|from|to|into|as)\b|[,;:]"  # ends what is said of one thing
_IS = r"(?:is|are|being|has|have)"
_ARTICLE = r"(?:an?|the|one)"
_COUNTED = (
    r"(?:\w{1,4}(?: x | ?× ?|-by-)\w{1,4}\b|of (?:length|size)\b|(?:scalar|vector|matrix|boolean|integers?)\b"
    r"|(?:of )?the shape of\b)"
)
_ARTICLES = ("a", "A", "I")  # and names of parameters
_ALIKE = r"(?:one|the same|equal|identical) (?:shape|size|length)s?"


def in_passing(doc: str, name: str) -> str:
    """The words that say of what kind a parameter is, nothing where there are none.

    >>> in_passing("x^T A x for a vector x and an n x n matrix A.", "A")
    'an n x n matrix'
    >>> in_passing("Weighted errors; weight is a scalar.", "weight")
    'a scalar'
    """
    return _alike(doc, name) or _after(doc, name) or _before(doc, name)


def _named(name: str) -> str:
    return rf"(?<![\w'^])`?{re.escape(name)}`?(?![\w'^])"


def _before(doc: str, name: str) -> str:
    """`an n x n matrix A`, `matrices A and B`."""
    others = r"(?:`?\w+`?(?:, (?:and )?| and ))*"
    found = re.search(rf"(?P<said>[^.;\n]*\b{_NOUN}) {others}{_named(name)}(?!\s*[\[(:])", doc)
    said = re.split(_BREAK, found["said"])[-1].strip() if found else ""
    return re.sub(r"\bmatrices\b", "matrix", said) if not _are_several(said) else ""


def _are_several(said: str) -> bool:
    """Whether it is a batch of such things, or rows of them."""
    return bool(re.search(r"\b(?:batch|stack|list|each|rows?|columns?|sequence)\b", said, re.I))


def _after(doc: str, name: str) -> str:
    """`b a vector of n`, `y of length m`, `mask is boolean with the shape of scores`."""
    is_article = name in _ARTICLES
    start = rf"{_named(name)},? (?:> ?0 )?"
    verb = rf"(?:(?:{_IS}|which is) )(?:{_ARTICLE} )?(?:\w+ ){{0,3}}?"
    bare = rf"(?:{_ARTICLE} )" if is_article else rf"(?:{_ARTICLE} )?"
    for between in (verb, bare):
        inside = rf"(?P<said>{between}(?:{_COUNTED}|[^.;,\n]*, \[[^\]]*\])[^.;,\n]*)"
        if found := re.search(rf"(?P<sign>{start}){inside}", doc):
            sign = "positive " if "> 0" in found["sign"] or ">0" in found["sign"] else ""
            said = re.split(r" and (?=\w+ (?:is|are|has|have|an?|of)\b)", found["said"])[0]
            return sign + re.sub(rf"^{_IS} ", "", said).strip()
    return ""


def _alike(doc: str, name: str) -> str:
    """`mu and sigma of one shape`: what comes after the first is like the first."""
    for found in re.finditer(
        rf"(\w+(?:, \w+)*),? and (\w+) (?:{_IS} )?(?:of |with )?{_ALIKE}", doc
    ):
        first, *rest = [*found[1].split(", "), found[2]]
        if name in rest:
            return f"same shape as {first}"
    return ""
