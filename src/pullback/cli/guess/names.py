"""What a parameter may be given for its name."""

from __future__ import annotations

from dataclasses import replace

from pullback.cli.guess import words
from pullback.cli.guess.annotations import square
from pullback.cli.guess.wanted import NAME, Wanted
from pullback.cli.guess.words import looked_up, means


def is_data(name: str) -> bool:
    """Whether a name is that of labels, masks, indices: what nobody expects a gradient for."""
    return means(words.DATA, name.lower())


def is_setting(name: str) -> bool:
    """Whether a name is that of a number that a function is set up with, which may be learnt or not."""
    return _number(name.lower()) is not None


def may_be_learnt(name: str) -> bool:
    """Whether a setting is one that often has a gradient."""
    return means(words.LEARNT, name.lower())


def is_length(name: str) -> bool:
    """Whether a name is that of numbers of entries, of which there is one at least."""
    return means(words.LENGTHS, name.lower())


def number_for(name: str) -> float | None:
    """An ordinary value of a setting, where its name is known."""
    found = _number(name.lower())
    return found[0] if found else None


def from_name(name: str, kind: type | None, *, direct: bool, others: list[str]) -> list[Wanted]:
    """What may be given for a name; `direct` says that the function has the gradient itself.

    >>> from_name("axis", None, direct=True, others=["x"])[0].plain
    -1
    """
    name, others = name.lower().strip("_"), [other.lower() for other in others]
    if kind in (int, str, None):
        fitting = _settings(name, kind, direct=direct, others=others)
        if fitting:
            return fitting
    if kind in (int, str):
        return [Wanted(NAME, 2 if kind is int else ""), Wanted(NAME, 1 if kind is int else "name")]
    number = _number(name)
    if number is not None or kind is float:
        value, strict = number or (0.6, True)
        return _numbers(value, strict, direct=direct and kind is not float)
    if means(words.FUNCTIONS, name):
        return [Wanted(NAME, square, soft=True), Wanted()]
    return _tensor(name, others)


def _settings(name: str, kind: type | None, *, direct: bool, others: list[str]) -> list[Wanted]:
    """Ordinary values of a setting; a name of which the kind is not known may be that of a tensor in truth."""
    values = looked_up(words.SETTINGS, name) or ()
    if kind is not None:
        return [Wanted(NAME, value) for value in values if isinstance(value, kind)]
    found = [Wanted(NAME, value) for value in values]
    is_tensor = direct if len(name) == 1 else means(words.OFTEN_TENSORS, name)
    if found and (is_tensor or (name == "k" and {"q", "v"} <= set(others))):
        return [Wanted(), *found]
    return [*found[:1], Wanted(), *found[1:]] if found else []


def _number(name: str) -> tuple[float, bool] | None:
    """The value for a name of a single number, and whether it is never the name of an array."""
    for table, strict in ((words.STRICT, True), (words.LOOSE, False)):
        value = looked_up(table, name)
        if value is not None:
            return value, strict
    return None


def _numbers(value: float, strict: bool, *, direct: bool) -> list[Wanted]:
    """A tensor of one number, the number itself, and, where the name leaves it open, a tensor of any shape."""
    scalar = Wanted(NAME, dims=(), values=f"={value}", soft=not strict)
    plain = Wanted(NAME, value)
    tensor = Wanted(NAME, values="positive" if value > 0 else "")
    if strict:
        return [scalar, plain, replace(tensor, soft=True)] if direct else [plain, scalar]
    return [scalar, tensor, plain] if direct else [plain, scalar, tensor]


def _tensor(name: str, others: list[str]) -> list[Wanted]:
    if means(words.WHOLE, name):
        whole = Wanted(NAME, dtype="int32", values="positive" if is_length(name) else "")
        return [replace(whole, dims=(3,)), whole, Wanted(NAME)]
    if means(words.LABELS, name) and any(means(words.SCORES, other) for other in others):
        hot, unit = Wanted(NAME, values="one-hot"), Wanted(NAME, values="unit")
        ids = [Wanted(NAME, dims=(3,), dtype=dtype) for dtype in ("int32", "int64")]
        return [hot, ids[0], Wanted(NAME, dtype="int32"), ids[1], unit]
    if name == "bias" and others:
        return [Wanted(NAME, dims=(4,), soft=True), Wanted(NAME, dims=(3,), soft=True), Wanted()]
    of_image = _of_image(name, others)
    values = None if of_image else looked_up(words.VALUES, name)
    if values == "flags":
        return [Wanted(NAME, values="flags"), Wanted(NAME, dtype="bool")]
    if values == "definite":
        return [Wanted(NAME, dims=("n", "n"), values=values), Wanted(NAME)]
    return [Wanted(NAME, values=values)] if values else of_image


def _of_image(name: str, others: list[str]) -> list[Wanted]:
    """A picture beside places in it: both have all their axes, of which no two that could be confused are alike."""
    for here, there, dims in words.BESIDE:
        if means(here, name) and any(means(there, other) for other in others):
            return [Wanted(NAME, dims=dims, soft=True), Wanted()]
    return []
