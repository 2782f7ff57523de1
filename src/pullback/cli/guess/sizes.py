"""Sizes of dimensions: what words say of them (even, divisible by 4, a power of two), and numbers that obey."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

Shape = tuple[int, ...]
Dims = tuple[str | int, ...]

# Sizes of named dimensions, in the order in which the names come up: all differ, so that no two can be confused.
_SIZES = (3, 4, 5, 2, 6, 7)
_KNOWN_SIZES = {"h": 6, "height": 6, "w": 5, "width": 5, "channels": 2, "1": 1}
_BATCHES = ("b", "n", "batch", "batch_size", "bs", "examples", "leading")
_LARGEST = 64  # that is made up

_NUMBERS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "eight": 8, "sixteen": 16}
_NUMBER = rf"`?(\d+|{'|'.join(_NUMBERS)}|[a-z_]\w*)`?"
_ANY_DIVISOR = 12  # for one that goes by a name
_OF_A_SIZE = re.compile(
    r"\b(?:lengths?|sizes?|heights?|widths?|channels?|dim(?:ension)?s?|number|counts?|ax[ei]s|shapes?|sides?|rows?"
    r"|columns?|features?|time|steps?|samples|entries|elements|points|[A-Z]|[a-z])\b"
)
_WORDS_OF = {
    "h": "height",
    "w": "width",
    "c": "channels?|features?",
    "t": "time|length|steps?",
    "d": "dim|features?",
}
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


@dataclass(frozen=True)
class SizeRule:
    """What a sentence asks of sizes; `about` is the sentence, which may name the dimensions.

    One of two dimensions may be the `smaller`, the other the `larger`.
    """

    divisor: int = 1
    remainder: int = 0
    least: int = 1
    is_power: bool = False
    about: str = ""
    smaller: str = ""
    larger: str = ""

    def allows(self, size: int) -> bool:
        """Whether a size obeys, and is no special case: one that is the divisor itself hides what it divides."""
        if self.is_power:
            return size >= 4 and size & (size - 1) == 0
        least = 2 * self.divisor if self.divisor > 1 and not self.remainder else self.least
        return size >= max(least, self.least) and size % self.divisor == self.remainder

    def names(self, dim: str) -> bool:
        """Whether its sentence names a dimension."""
        words = rf"\b(?:{re.escape(dim)}|{_WORDS_OF.get(dim.lower(), re.escape(dim))})\b"
        return bool(re.search(words, self.about, re.I))


def size_rules(text: str) -> list[SizeRule]:
    """What a docstring asks of sizes.

    >>> [rule.divisor for rule in size_rules("Height and width must be even.")]
    [2]
    """
    sentences = re.split(r"[.;](?:\s|$)|\n\s*\n", text)
    return [rule for one in sentences for rule in _rules_in(" ".join(one.split()))]


def _rules_in(sentence: str) -> Iterator[SizeRule]:
    if not _OF_A_SIZE.search(sentence):
        return
    rule = partial(
        SizeRule, about=re.sub(r"\[[^\]]*\]|\([^)]*,[^)]*\)", "", sentence)
    )  # a shape names all dimensions
    if re.search(r"\beven\b(?! (?:if|when|though|for|in|at|where|on|with))", sentence, re.I):
        yield rule(divisor=2)
    if re.search(r"\bodd\b(?! (?:function|symmetry))", sentence, re.I):
        yield rule(divisor=2, remainder=1, least=3)
    for found in re.finditer(rf"(?:divisible by|multiples? of) {_NUMBER}", sentence, re.I):
        yield rule(divisor=_number(found[1]) or _ANY_DIVISOR)
    if re.search(r"\bpowers? of (?:two|2)\b", sentence, re.I):
        yield rule(is_power=True)
    for found in re.finditer(
        rf"(?:at least|>=|no less than) {_NUMBER}(?!-?[dD])\b", sentence, re.I
    ):
        if number := _number(found[1]):
            yield rule(least=number)

    for found in re.finditer(r"([a-z]\w*) ?(?:<=?|≤) ?([a-z]\w*)", sentence, re.I):
        yield rule(smaller=found[1].lower(), larger=found[2].lower())
    for found in re.finditer(r"([a-z]\w*) ?(?:>=?|≥) ?([a-z]\w*)", sentence, re.I):
        yield rule(smaller=found[2].lower(), larger=found[1].lower())


def _number(word: str) -> int:
    return int(word) if word.isdigit() else _NUMBERS.get(word.lower(), 0)


def sizes(
    all_dims: Sequence[Dims], rules: Sequence[SizeRule] = (), given: Mapping[str, int] | None = None
) -> dict[str, int]:
    """A size for each name of a dimension, but for those that are `given`: numbers of the same names."""
    given = given or {}
    words = [d for dims in all_dims for d in dims if isinstance(d, str)]
    rules = [*rules, *map(_of_quotient, words)]
    known = dict.fromkeys(name for word in words for name in _names_in(word))
    names = sorted(known, key=lambda name: name not in _BATCHES)  # which are of the first size
    free, found = list(_SIZES), dict[str, int]()
    for name in names:
        if given.get(name, 0) > 0:
            found[name] = given[name]
            continue
        asked = [rule for rule in rules if _concerns(rule, name, names)]
        wanted = _KNOWN_SIZES.get(name) or next(
            (s for s in free if _allowed(s, asked)), free[0] if free else 8
        )
        found[name] = _fitting(
            wanted, asked, () if name in _KNOWN_SIZES and not asked else found.values()
        )
        free = [size for size in free if size != found[name]]
    for rule in rules:
        small, large = rule.smaller, rule.larger
        if found.get(small, 0) > found.get(large, 0) > 0 and not {small, large} & given.keys():
            found[small], found[large] = found[large], found[small]
    return found


def _of_quotient(word: str) -> SizeRule:
    """`H/2` asks for an even H."""
    found = re.search(r"([A-Za-z_]\w*)\s*//?\s*(\d+)", word)
    return SizeRule(divisor=int(found[2]), about=found[1]) if found else SizeRule()


def _concerns(rule: SizeRule, name: str, names: Iterable[str]) -> bool:
    """Whether a rule is about a dimension: about those that it names, or about all but the batch."""
    return rule.names(name) if any(map(rule.names, names)) else name not in _BATCHES


def _allowed(size: int, rules: Sequence[SizeRule]) -> bool:
    return all(rule.allows(size) for rule in rules)


def _fitting(size: int, rules: Sequence[SizeRule], taken: Iterable[int]) -> int:
    """The next size that obeys and is not taken."""
    taken = set(taken)
    candidates = (s for s in range(size, _LARGEST) if s not in taken and _allowed(s, rules))
    return next(candidates, size)


def refitted(shapes: Sequence[Shape], rules: Sequence[SizeRule]) -> tuple[Shape, ...]:
    """Shapes of the same pattern with sizes that obey; the first axis of several may be a batch, and keeps its own."""
    inner = {size for shape in shapes for size in (shape[1:] or shape) if size > 1}
    new: dict[int, int] = {}
    for size in sorted(inner):
        new[size] = _fitting(size, rules, new.values())
    return tuple(tuple(new.get(size, size) for size in shape) for shape in shapes)


def shape_of(dims: Dims, known: Mapping[str, int]) -> Shape:
    """Named dimensions as numbers."""
    return tuple(d if isinstance(d, int) else _value(d, known) for d in dims)


def _names_in(word: str) -> list[str]:
    return [
        w.lower() for w in re.findall(r"[A-Za-z_]\w*", re.sub(r"(\d)([A-Za-z_])", r"\1*\2", word))
    ]


def _value(word: str, known: Mapping[str, int]) -> int:
    """The size that a name, or a formula such as `2*H`, stands for."""
    formula = re.sub(r"(?<![/])/(?!/)", "//", re.sub(r"(\d)([A-Za-z_])", r"\1*\2", word))

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        return known[node.id.lower()] if isinstance(node, ast.Name) else int(ast.literal_eval(node))

    return max(value(ast.parse(formula, mode="eval").body), 0)
