"""From what a rule returned to one gradient per leaf of the inputs.

Nothing is guessed: the result has the structure of the inputs, or it is an error that says what to write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pullback._engine import Kind
from pullback._rule import DEFAULT
from pullback._tree import Structure, flatten

Shape = tuple[int | None, ...]


class Mismatch(Exception):
    """What a rule returned does not fit; the text says what came and what was wanted."""


def arrange(returned: Any, names: Sequence[str], structure: Structure, kinds: Sequence[Kind]) -> list[Any]:
    """One gradient (or `None`, or `DEFAULT`) per leaf of the inputs."""
    entries = Entries(names, structure, kinds)
    chosen = entries.assign(returned)
    flat: list[Any] = []
    for index, child in enumerate(entries.children):
        root = f"args[{index}]"
        flat += _fill(chosen.get(index), child, f"{names[index]} ({root})")
    return _drop_unmoved(flat, kinds, entries)


class Entries:
    """The inputs of a call, each a structure of leaves, with the most that each of them carries."""

    def __init__(self, names: Sequence[str], structure: Structure, kinds: Sequence[Kind]) -> None:
        self.names = names
        self.children = structure.children()
        self.kinds: list[Kind] = []
        start = 0
        for child in self.children:
            stop = start + child.num_leaves
            self.kinds.append(max(kinds[start:stop], default=Kind.STATIC))
            start = stop

    def at_least(self, kind: Kind) -> list[int]:
        """The inputs that carry at least this much."""
        return [i for i, k in enumerate(self.kinds) if k >= kind]

    def assign(self, returned: Any) -> dict[int, Any]:
        """Which input gets which part of the result."""
        # From what the contract asks (one per input with tensors) to what it allows.
        choices = [self.at_least(k) for k in (Kind.TENSOR, Kind.DIFFERENTIABLE, Kind.NUMBER, Kind.STATIC)]
        if isinstance(returned, Mapping) and not self._is_structure_of_only(returned, choices):
            return self._by_name(returned)
        for choice in choices:
            if len(choice) == 1 and self._fits(returned, choice[0]):
                return {choice[0]: returned}
            if _is_plain_sequence(returned) and len(returned) == len(choice):
                return dict(zip(choice, returned, strict=True))
        raise Mismatch(self._count_message(returned, choices[0]))

    def _is_structure_of_only(self, returned: Mapping[Any, Any], choices: list[list[int]]) -> bool:
        for choice in choices[:2]:
            if len(choice) == 1 and _keys_of(self.children[choice[0]]) == set(returned):
                return True
        return False

    def _by_name(self, returned: Mapping[Any, Any]) -> dict[int, Any]:
        unknown = [key for key in returned if key not in self.names]
        if unknown:
            raise Mismatch(
                f"returned a dict with the key {unknown[0]!r}, which is no input; "
                f"the inputs are {', '.join(self.names)}. Return gradients by these names"
            )
        return {self.names.index(key): value for key, value in returned.items()}

    def _fits(self, returned: Any, index: int) -> bool:
        child = self.children[index]
        if child.is_leaf():
            return not (_is_plain_sequence(returned) and len(returned) == 1)
        if returned is None or returned is DEFAULT:
            return True
        single = _is_plain_sequence(returned) and len(returned) == 1
        return not single or (child.num_children == 1 and not _is_structure(returned[0], child))

    def _count_message(self, returned: Any, wanted: list[int]) -> str:
        names = ", ".join(self.names[i] for i in wanted) or "none of the inputs holds tensors"
        count = len(returned) if _is_plain_sequence(returned) else 1
        form = f"({', '.join('d' + self.names[i] for i in wanted)})"
        return (
            f"returned {count} gradient{'s'[: count != 1]} ({describe(returned)}) "
            f"for the {len(wanted)} inputs that hold tensors ({names}). "
            f"Write `return {form}`, with None where nothing flows, "
            "and for an input with a structure of its own a gradient of that structure"
        )


def unbroadcast_axes(gradient: Shape, wanted: Shape) -> tuple[int, ...] | None:
    """The axes to sum so that the gradient is the transpose of broadcasting; `None` if it is not."""
    extra = len(gradient) - len(wanted)
    if extra < 0:
        return None
    axes = list(range(extra))
    for axis, size in enumerate(wanted, start=extra):
        if gradient[axis] == size:
            continue
        if size != 1:
            return None
        axes.append(axis)
    return tuple(axes)


def describe(value: Any) -> str:
    """A short description of what a rule returned."""
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return repr(value)
    if _is_plain_sequence(value):
        inner = ", ".join(describe(v) for v in value[:4]) + (", …" if len(value) > 4 else "")
        return f"a {type(value).__name__} of {len(value)}: {inner}"
    if isinstance(value, Mapping):
        return f"a dict with keys {', '.join(map(repr, value))}"
    shape = getattr(value, "shape", None)
    if shape is None:
        return f"{type(value).__name__} {value!r}"[:80]
    dtype = getattr(getattr(value, "dtype", None), "name", getattr(value, "dtype", ""))
    return f"{dtype}{shape_text(shape)}".strip()


def shape_text(shape: Any) -> str:
    """A shape as `[2, 3]`."""
    try:
        return "[" + ", ".join("?" if d is None else str(d) for d in tuple(shape)) + "]"
    except ValueError:
        return "[unknown rank]"


def _fill(gradient: Any, wanted: Structure, path: str) -> list[Any]:
    if gradient is None or gradient is DEFAULT:
        return [gradient] * wanted.num_leaves
    if wanted.is_leaf():
        if _is_plain_sequence(gradient) or isinstance(gradient, Mapping):
            raise Mismatch(f"returned {describe(gradient)} for the single tensor `{path}`. Return one gradient for it")
        return [gradient]
    parts = _parts(gradient, wanted)
    if parts is None:
        raise Mismatch(
            f"returned {describe(gradient)} for the input `{path}`, whose structure is {_structure_text(wanted)}. "
            "Return a gradient of the same structure, with None where nothing flows"
        )
    flat: list[Any] = []
    for part, child, entry in zip(parts, wanted.children(), wanted.entries(), strict=True):
        flat += _fill(part, child, f"{path}[{_quoted(entry)}]")
    return flat


def _parts(gradient: Any, wanted: Structure) -> list[Any] | None:
    """The children of the gradient in the order of the wanted structure, if it has that structure."""
    entries = wanted.entries()
    if isinstance(gradient, Mapping):
        same = set(gradient) == set(entries)
        return [gradient[entry] for entry in entries] if same else None
    if wanted.type in (list, tuple) or issubclass(wanted.type or object, tuple):
        fits = isinstance(gradient, (list, tuple)) and len(gradient) == len(entries)
        return list(gradient) if fits else None
    _, structure = flatten(gradient)
    if structure.type is not wanted.type or structure.num_children != wanted.num_children:
        return None
    return [getattr(gradient, str(entry)) for entry in entries]


def _is_structure(gradient: Any, wanted: Structure) -> bool:
    return not wanted.is_leaf() and _parts(gradient, wanted) is not None


def _keys_of(structure: Structure) -> set[Any] | None:
    return None if structure.is_leaf() or structure.type in (list, tuple) else set(structure.entries())


def _structure_text(wanted: Structure) -> str:
    name = getattr(wanted.type, "__name__", "a structure")
    return f"{name} of {', '.join(_quoted(entry) for entry in wanted.entries())}"


def _quoted(entry: Any) -> str:
    return f'"{entry}"' if isinstance(entry, str) else str(entry)


def _is_plain_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not hasattr(value, "_fields")


def _drop_unmoved(flat: list[Any], kinds: Sequence[Kind], entries: Entries) -> list[Any]:
    for index, (gradient, kind) in enumerate(zip(flat, kinds, strict=True)):
        if kind is Kind.STATIC and gradient is not None and gradient is not DEFAULT:
            raise Mismatch(
                f"returned {describe(gradient)} for a static argument (leaf {index} of {', '.join(entries.names)}), "
                "into which no gradient can flow. Return None for it, or leave it out"
            )
    return [g if k is Kind.DIFFERENTIABLE else None for g, k in zip(flat, kinds, strict=True)]
