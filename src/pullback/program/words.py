"""What operations mean, in words that are the same for every engine, and what is known of those that mean it."""

from __future__ import annotations

import enum
import math
import operator
from collections.abc import Callable


class Word(enum.Enum):
    """What an operation computes, as far as an analysis asks."""

    OTHER = enum.auto()
    # gives what it is given, in another form
    COPY = enum.auto()
    CAST = enum.auto()
    EXPAND = enum.auto()
    RESHAPE = enum.auto()
    STOP = enum.auto()
    FILL = enum.auto()  # (shape, number)
    # of variables
    READ = enum.auto()
    WRITE = enum.auto()  # (variable, value)
    # number by number
    NEGATE = enum.auto()
    ABSOLUTE = enum.auto()
    SQUARE = enum.auto()
    ROOT = enum.auto()
    EXPONENTIAL = enum.auto()
    LOGARITHM = enum.auto()
    TANH = enum.auto()
    SIGMOID = enum.auto()
    RECIPROCAL = enum.auto()
    ADD = enum.auto()
    SUBTRACT = enum.auto()
    MULTIPLY = enum.auto()
    DIVIDE = enum.auto()
    # decides, or is bent
    COMPARE = enum.auto()
    MATCH = enum.auto()  # equal, or not equal
    BOUND = enum.auto()  # the larger or the smaller one
    CLIP = enum.auto()
    CHOOSE = enum.auto()
    BENT = enum.auto()  # at zero
    BENT_TO_SIX = enum.auto()
    # of places
    REDUCE = enum.auto()
    GATHER = enum.auto()
    SLICE = enum.auto()


PASSES = frozenset({Word.COPY, Word.CAST, Word.EXPAND, Word.RESHAPE, Word.STOP})
COMPARES = frozenset({Word.COMPARE, Word.MATCH})
BOUNDS = frozenset({Word.BOUND, Word.CLIP})
# Functions whose least value is at zero.
EVEN = frozenset({Word.ABSOLUTE, Word.SQUARE})
KINKS: dict[Word, tuple[float, ...]] = {
    Word.ABSOLUTE: (0.0,),
    Word.BENT: (0.0,),
    Word.BENT_TO_SIX: (0.0, 6.0),
}


def _logit(c: float) -> float:
    return math.log(c / (1 - c))


INVERSE: dict[Word, Callable[[float], float]] = {
    Word.NEGATE: operator.neg,
    Word.ABSOLUTE: abs,
    Word.SQUARE: math.sqrt,
    Word.ROOT: lambda c: c * c,
    Word.EXPONENTIAL: math.log,
    Word.LOGARITHM: math.exp,
    Word.TANH: math.atanh,
    Word.SIGMOID: _logit,
    Word.RECIPROCAL: lambda c: 1 / c,
}
# What undoes an operation whose second operand is a constant.
INVERSE_WITH: dict[Word, Callable[[float, float], float]] = {
    Word.MULTIPLY: operator.truediv,
    Word.ADD: operator.sub,
    Word.SUBTRACT: operator.add,
    Word.DIVIDE: operator.mul,
}
