"""`-k EXPR`: which functions are meant."""

from __future__ import annotations

import re


def is_selected(expression: str, name: str) -> bool:
    """Whether a name is meant by words joined with `and`, `or` and `not`: a word means names that contain it.

    >>> is_selected("relu and not leaky", "file.py:guided_relu")
    True
    """
    return any(
        all(_holds(term.strip(), name.lower()) for term in re.split(r"\band\b", part))
        for part in re.split(r"\bor\b", expression.lower())
    )


def _holds(term: str, name: str) -> bool:
    negated = re.match(r"not\s+(.*)", term)
    return negated[1].strip() not in name if negated else term in name
