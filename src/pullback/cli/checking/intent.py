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


# What is said of a rule that is no derivative, and was not meant to be one; a surrogate loss is a loss.
_MEANT = _any_of(
    r"straight[- _]?through|\bSTE\b|pseudo-?(?:gradient|derivative)|\bguided (?:relu|backprop\w*|gradients?)",
    r"\bdeconv(?:net\b|\w* (?:relu|backward|rule|gradient))",
    r"\bsurrogate\b(?!s? (?:loss|objective|model|function|risk|reward|cost|target|likelihood|problem))",
    rf"\bsurrogate\b.*{_GRADIENT}",
)
_NEGATED = re.compile(
    r"\b(?:not|no|never|without|unlike|nor|neither|\w+n't)\b"
    r"(?:\s+(?!(?:so|hence|thus|therefore|but|and|because)\b)[\w-]+){0,3}\s*$",
    re.I,
)
_NO_DERIVATIVE = _any_of(
    rf"(?:instead of|in place of|rather than|not) (?:the|its) (?:true |exact |real |actual )?{_GRADIENT}",
    rf"not the (?:true|exact|real|actual)\b.*{_GRADIENT}|{_GRADIENT}.*not the (?:true|exact|real|actual)",
)
# What is on purpose has to be what becomes of the gradient, and not how it is written or what else is done.
_PURPOSE = _any_of(r"on purpose|deliberate|intentional|by design|pretend|heuristic|\bbiased")
_REASON = _any_of(r"\b(?:because|since|due to|so that|to avoid|as its)\b.*")
_HOW = _any_of(
    r"\b(?:written|computed|implemented|derived|coded|spelled|defined|evaluated|by hand|explicit(?:ly)?)\b"
)
_COST = _any_of(r"\b(?:memory|efficien\w+|speed|faster)\b")
# The same, unless the sentence says that the gradient is right.
_MEANT_UNLESS_RIGHT = _any_of(
    rf"\b{_CHANGED} (?:the |its |all |incoming |upstream |of |in )*{_GRADIENT}",
    rf"{_GRADIENT} (?:is |are |gets? |being |that is |which is )?(?:\w+ly )?{_CHANGED}\b",
    rf"\b(?:leaky|open|soft|fake|proxy|modified|relaxed|different|noisy|smoothed|approximate) {_GRADIENT}",
    rf"\b(?:noise|noisy)\b[^.]*{_GRADIENT}|{_GRADIENT}[^.]*\bnoise\b",
    rf"{_GRADIENT} (?:reversal|scaling|clipping|masking|penalty)",
    r"\bonly\b[^.]*\bdifferentiated\b",
    rf"\bno {_GRADIENT}|without {_GRADIENT}|\bnot differentiated\b",
    r"(?:treated|taken|regarded) as (?:a )?constant|\bnothing flows\b",
    r"\b(?:so that|to (?:keep|avoid|prevent))\b[^.]*\b(?:dead|dying|vanish\w*|saturat\w*)\b",
)
_FLOWS = _any_of(
    rf"{_GRADIENT}[^.]*{_GOES_ON}|{_GOES_ON}[^.]*{_GRADIENT}",
    rf"\b(?:lets?|letting|keeping|passing)\b[^.]*{_GRADIENT}",
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
    if _is_there(_MEANT, sentence) or _NO_DERIVATIVE.search(sentence):
        return True
    if _RIGHT.search(sentence):
        return False
    if _is_there(_MEANT_UNLESS_RIGHT, sentence):
        return True
    if _COST.search(sentence):
        return False
    return _is_there(_FLOWS, sentence) or _is_on_purpose(_REASON.sub("", sentence))


def _is_there(words: re.Pattern[str], sentence: str) -> bool:
    """Whether a sentence has words that it does not deny."""
    found = words.finditer(sentence)
    return any(not _NEGATED.search(sentence[: one.start()]) for one in found)


def _is_on_purpose(sentence: str) -> bool:
    about = re.search(rf"{_GRADIENT}|\bbackward|{_GOES_ON}", sentence, re.I)
    return bool(about and _is_there(_PURPOSE, sentence) and not _HOW.search(sentence))


def _sentences(function: Any) -> list[str]:
    """What a docstring and comments say, one sentence each; comments on lines one below the other are one text."""
    source = source_of(function)
    comments = re.sub(r"^[^#\n]*$", "\n", source, flags=re.M)
    comments = re.sub(r"^[^#\n]*#+ ?", "", comments, flags=re.M)
    inner = re.findall(r"\"\"\"(.*?)\"\"\"|'''(.*?)'''", source, re.S)
    texts = [inspect.getdoc(function) or "", *(a or b for a, b in inner), comments]
    parts = [part for text in texts for part in re.split(r"[.;:](?:\s|$)|\n\s*\n", text)]
    return [sentence for part in parts if (sentence := " ".join(part.split()))]
