"""Sentences in which a function says that its rule is meant to differ from the derivative."""

from __future__ import annotations

import inspect
import re
from typing import Any

from pullback.cli.guess.reading import source_of

_GRADIENT = (
    r"(?:gradients?|grads?|derivatives?|backward(?:s)?(?: pass)?|backprop\w*"
    r"|error signals?|upstream|cotangents?)"
)
_CHANGED = (
    r"(?:scal|clip|revers|flip|negat|amplif|dampen|damp|normali[sz]|mask|modif|relax|approximat|smooth"
    r"|replac|block|stop|perturb|quanti[sz]|sparsif|attenuat|invert|boost|soften|gat|rout|rescal|shrink"
    r"|ignor|skip|drop|randomi[sz])(?:s|es|ed|d|e|ing|ting|ped|ping|ied|ies|ifies|y)?"
)
_GOES_ON = (
    r"\b(?:stays?|keeps?|kept|remains?|leaks?|leaky|passes|passed|flows?|let through|survives?"
    r"|receives?|as if)\b"
)


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.I)


# What is said of a rule that is no derivative, and was not meant to be one.
_MEANT = _any_of(
    r"straight[- _]?through|\bSTE\b|surrogate|pseudo-?(?:gradient|derivative)|\bguided\b|deconv\w*",
    r"on purpose|deliberate|intentional|by design|pretend|heuristic|biased|not the (?:true|exact|real|actual)",
    rf"(?:instead of|in place of|rather than|not) (?:the|its) (?:true |exact |real |actual )?{_GRADIENT}",
)
# The same, unless the sentence goes on to say that the gradient is right.
_MEANT_UNLESS_RIGHT = _any_of(
    rf"\b{_CHANGED} (?:the |its |all |incoming |upstream |of |in )*{_GRADIENT}",
    rf"{_GRADIENT} (?:is |are |gets? |being |that is |which is )?(?:\w+ly )?{_CHANGED}\b",
    rf"\b(?:leaky|open|soft|fake|proxy|modified|relaxed|different|noisy|smoothed|approximate) {_GRADIENT}",
    rf"\b(?:noise|noisy)\b[^.]*{_GRADIENT}|{_GRADIENT}[^.]*\bnoise\b",
    rf"{_GRADIENT} (?:reversal|scaling|clipping|masking|penalty)",
    rf"{_GRADIENT}[^.]*{_GOES_ON}|{_GOES_ON}[^.]*{_GRADIENT}",
    rf"\b(?:lets?|letting|keeping|passing)\b[^.]*{_GRADIENT}|\bonly\b[^.]*\bdifferentiated\b",
    rf"\bno {_GRADIENT}|without {_GRADIENT}|\bnot differentiated\b",
    r"(?:treated|taken|regarded) as (?:a )?constant|\bnothing flows\b",
    r"\b(?:so that|to (?:keep|avoid|prevent))\b[^.]*\b(?:dead|dying|vanish\w*|saturat\w*)\b",
)
_RIGHT = _any_of(
    r"\b(?:exact|analytic(?:al)?|closed[- ]form|correct|true|stable|accurate|finite)\b"
)


def intention_of(*functions: Any) -> str:
    """The sentence of a docstring or comment, or the name, that says so; nothing where none does.

    >>> def rounded(x):
    ...     '''Rounds. The gradient is passed straight through.'''
    >>> intention_of(rounded)
    'The gradient is passed straight through'
    """
    for function in functions:
        for sentence in _sentences(function):
            if _says_so(sentence):
                return sentence
    names = [getattr(f, "__name__", type(f).__name__) for f in functions]
    return next((name for name in names if _says_so(name.replace("_", " "))), "")


def _says_so(sentence: str) -> bool:
    is_right = _RIGHT.search(sentence)
    return bool(_MEANT.search(sentence) or (not is_right and _MEANT_UNLESS_RIGHT.search(sentence)))


def _sentences(function: Any) -> list[str]:
    """What a docstring and comments say, one sentence each; comments on lines one below the other are one text."""
    source = source_of(function)
    comments = re.sub(r"^[^#\n]*$", "\n", source, flags=re.M)
    comments = re.sub(r"^[^#\n]*#+ ?", "", comments, flags=re.M)
    inner = re.findall(r"\"\"\"(.*?)\"\"\"|'''(.*?)'''", source, re.S)
    texts = [inspect.getdoc(function) or "", *(a or b for a, b in inner), comments]
    parts = [part for text in texts for part in re.split(r"[.;:](?:\s|$)|\n\s*\n", text)]
    return [sentence for part in parts if (sentence := " ".join(part.split()))]
