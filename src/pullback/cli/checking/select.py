"""`-k EXPR`: which functions are meant."""

from __future__ import annotations

import re

from pullback.errors import CheckError

_WORDS = ("and", "or", "not", "(", ")")


def is_selected(expression: str, name: str) -> bool:
    """Whether a name is meant by words joined with `and`, `or`, `not`: a word means names that contain it.

    >>> is_selected("relu and not (leaky or soft)", "file.py:guided_relu")
    True
    """
    return _Reader(expression).read(name.lower())


def may_be_selected(expression: str, text: str) -> bool:
    """Whether some name in a text may be meant: one that is made of words there, joined by anything else.

    >>> may_be_selected("Layer.call and not relu", "class Layer: ...; def call(): ...")
    True
    """
    return _Reader(expression, exactly=False).read(text.lower())


def require_expression(expression: str) -> None:
    """Refuse what is no expression, before anything runs."""
    if not expression:
        return
    try:
        is_selected(expression, "")
    except RecursionError:
        raise CheckError(f"-k {expression[:20]!r}... is nested too deeply.") from None


class _Reader:
    """Goes through an expression once; `not` binds closer than `and`, which binds closer than `or`."""

    def __init__(self, expression: str, *, exactly: bool = True) -> None:
        self.expression, self.exactly = expression, exactly
        self.rest = re.findall(r"[()]|[^\s()]+", expression.lower())

    def read(self, name: str) -> bool:
        """Whether the whole expression means a name."""
        is_meant = self._either(name)
        if self.rest:
            raise self._malformed()
        return is_meant

    def _either(self, name: str) -> bool:
        found = [self._both(name)]
        while self._next("or"):
            found.append(self._both(name))
        return any(found)

    def _both(self, name: str) -> bool:
        found = [self._one(name)]
        while self._next("and"):
            found.append(self._one(name))
        return all(found)

    def _one(self, name: str) -> bool:
        if self._next("not"):
            return not self._one(name) or not self.exactly  # other names may not have it
        if self._next("("):
            found = self._either(name)
            if not self._next(")"):
                raise self._malformed()
            return found
        words: list[str] = []
        while self.rest and self.rest[0] not in _WORDS:
            words.append(self.rest.pop(0))
        if not words:
            raise self._malformed()
        word = " ".join(words)
        parts = [word] if self.exactly else re.findall(r"[^\W\d]\w*", word)
        return all(part in name for part in parts)

    def _next(self, word: str) -> bool:
        """Whether a word comes next, which is then done with."""
        is_next = self.rest[:1] == [word]
        del self.rest[: int(is_next)]
        return is_next

    def _malformed(self) -> CheckError:
        at = repr(self.rest[0]) if self.rest else "its end"
        return CheckError(
            f"-k {self.expression!r} cannot be read at {at}: write words joined by and, or, not, as in "
            "'relu and not leaky'."
        )
