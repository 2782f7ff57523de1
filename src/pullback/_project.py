"""From what a rule returned to one gradient per leaf of the inputs, in the leaf's dtype and shape.

Nothing is guessed: the result has the structure of the inputs and its arrays fit their shapes, or it is an error that
says what to write.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pullback._engine import Engine, Kind, Shape, Spec
from pullback._rule import DEFAULT
from pullback._tree import Structure, flatten, parts_of, paths, scatter, unflatten
from pullback.errors import Mismatch

# What has its parts in a row, without names.
_ROWS = (list, tuple, collections.UserList, collections.deque)


def arrange(
    returned: Any,
    names: Sequence[str],
    structure: Structure,
    kinds: Sequence[Kind],
    is_array: Callable[[Any], bool] = lambda _: True,
) -> list[Any]:
    """One gradient (or `None`, or `DEFAULT`) per leaf of the inputs; for one into which nothing flows, `None`."""
    entries = Entries(names, structure, kinds)
    chosen = entries.assign(returned)
    flat: list[Any] = []
    for index, child in enumerate(entries.children):
        flat += _fill(chosen.get(index), child, f"{names[index]} (args[{index}])")
    for position, (gradient, kind) in enumerate(zip(flat, kinds, strict=True)):
        if kind is not Kind.DIFFERENTIABLE and gradient is not None and gradient is not DEFAULT:
            _reject_nonsense(gradient, kind, leaf_path(names, structure, position), is_array)
    return [None if k is not Kind.DIFFERENTIABLE else g for g, k in zip(flat, kinds, strict=True)]


def _reject_nonsense(gradient: Any, kind: Kind, path: str, is_array: Callable[[Any], bool]) -> None:
    """What is returned for an input into which nothing flows is dropped, but it must be a gradient."""
    if kind is Kind.STATIC:
        raise Mismatch(
            f"returned {describe(gradient)} for the static argument `{path}`, into which no gradient can flow. "
            "Return None for it, or leave it out"
        )
    if not is_array(gradient):
        raise Mismatch(
            f"returned {describe(gradient)} for `{path}`, into which no gradient can flow. "
            "Return None for it, or an array, which is dropped"
        )


class Entries:
    """The inputs of a call, each a structure of leaves, with the most that each of them carries."""

    def __init__(self, names: Sequence[str], structure: Structure, kinds: Sequence[Kind]) -> None:
        self.names = names
        self.children = structure.children()
        self.leaf_kinds = kinds
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
        choices = [
            self.at_least(k) for k in (Kind.TENSOR, Kind.DIFFERENTIABLE, Kind.NUMBER, Kind.STATIC)
        ]
        if isinstance(returned, Mapping) and not self._is_only_input(returned, choices):
            return self._by_name(returned)
        ways = itertools.chain(
            *(self._ways(returned, c) for c in choices), self._in_a_row(returned)
        )
        if returned is None and not choices[-1]:
            return {}
        found = next((way for way in ways if self._fits(way)), None)
        return self._nearest(returned, choices) if found is None else found

    def _ways(self, returned: Any, choice: list[int]) -> Iterator[dict[int, Any]]:
        """The ways to give the result to these inputs: as the one's own, or one part each."""
        if len(choice) == 1:
            yield {choice[0]: self._of_only(returned, choice[0])}
        if _is_plain_sequence(returned) and len(returned) == len(choice):
            yield dict(zip(choice, returned, strict=True))

    def _in_a_row(self, returned: Any) -> Iterator[dict[int, Any]]:
        """One gradient per tensor of nested lists and tuples, whose order leaves no doubt, as TensorFlow has it."""
        if not _is_plain_sequence(returned) or not all(map(_is_of_rows, self.children)):
            return
        for least in (Kind.TENSOR, Kind.NUMBER, Kind.STATIC):
            leaves = [i for i, kind in enumerate(self.leaf_kinds) if kind >= least]
            if len(returned) == len(leaves):
                row = iter(scatter(len(self.leaf_kinds), leaves, returned))
                yield {
                    i: unflatten(child, list(itertools.islice(row, child.num_leaves)))
                    for i, child in enumerate(self.children)
                }

    def _of_only(self, returned: Any, index: int) -> Any:
        """The gradient of the only input: all of the result, or a part of it with `None` for every other argument.

        Where it can be either, the classes of its lists and tuples tell; where they do not, it is an error.
        """
        if not self._is_row_with_one(returned, index):
            return returned
        child, part = self.children[index], returned[index]
        if not self._can_be_of(returned, index) or _same_leaves(returned, part, child):
            return part
        own = _has_classes(returned, child)
        if own == (type(returned) is tuple and _has_classes(part, child)):
            name = self.names[index]
            raise Mismatch(
                f"returned {describe(returned)}, which can be the gradient of `{name}`, or one for every argument. "
                f'Return it by name, {{"{name}": …}}'
            )
        return returned if own else part

    def _is_row_with_one(self, returned: Any, index: int) -> bool:
        """Whether it has `None` for every argument but this one, whose structure it has there."""
        if not _is_plain_sequence(returned) or not 1 < len(returned) == len(self.children):
            return False
        others = [part for i, part in enumerate(returned) if i != index]
        if any(leaf is not None for leaf in flatten(others)[0]):
            return False
        return not self.children[index].is_leaf() and self._can_be_of(returned[index], index)

    def _can_be_of(self, gradient: Any, index: int) -> bool:
        """Whether it has the structure of an input, and nothing for what is static in it."""
        child = self.children[index]
        if not _is_like(gradient, child):
            return False
        start = sum(c.num_leaves for c in self.children[:index])
        flat = zip(_fill(gradient, child, ""), self.leaf_kinds[start:], strict=False)
        return all(g is None or g is DEFAULT or kind is not Kind.STATIC for g, kind in flat)

    def _fits(self, assigned: dict[int, Any]) -> bool:
        return all(_is_like(gradient, self.children[i]) for i, gradient in assigned.items())

    def _nearest(self, returned: Any, choices: list[list[int]]) -> dict[int, Any]:
        """Where nothing fits, what comes nearest: the error is about the part that is wrong."""
        first = choices[0]
        for choice in choices:
            if _is_plain_sequence(returned) and len(returned) == len(choice):
                return dict(zip(choice, returned, strict=True))
        if len(first) == 1 and not self.children[first[0]].is_leaf():
            return {first[0]: returned}
        raise Mismatch(self._count_message(returned, first))

    def _is_only_input(self, returned: Mapping[Any, Any], choices: list[list[int]]) -> bool:
        """Whether a dict is the gradient of the one input, and not gradients by name."""
        only = [self.children[choice[0]] for choice in choices[:2] if len(choice) == 1]
        if set(returned) <= set(self.names):
            return any(_is_like(returned, child) for child in only)
        return any(_keys_of(child) == set(returned) for child in only)

    def _by_name(self, returned: Mapping[Any, Any]) -> dict[int, Any]:
        unknown = [key for key in returned if key not in self.names]
        if unknown:
            raise Mismatch(
                f"returned a dict with the key {unknown[0]!r}, which is no input; "
                f"the inputs are {', '.join(self.names)}. Return gradients by these names, "
                "and for an input that is a dict one with all of its keys"
            )
        return {self.names.index(key): value for key, value in returned.items()}

    def _count_message(self, returned: Any, wanted: list[int]) -> str:
        names = ", ".join(self.names[i] for i in wanted) or "a call without tensors"
        inputs = f"the {_counted(len(wanted), 'input')} with tensors ({names})" if wanted else names
        count = len(returned) if _is_plain_sequence(returned) else 1
        form = ", ".join("d" + self.names[i] for i in wanted) or "None"
        return (
            f"returned {_counted(count, 'gradient')} ({describe(returned)}) for {inputs}. "
            f"Write `return {form}`, with None where nothing flows, "
            "and for an input with a structure of its own a gradient of that structure"
        )


def leaf_path(names: Iterable[str], structure: Structure, index: int) -> str:
    """The readable path of a leaf, such as `params["w"] (args[0]["w"])`."""
    for position, (name, child) in enumerate(zip(names, structure.children(), strict=True)):
        if index < child.num_leaves:
            inner = paths(child)[index]
            return f"{name}{inner} (args[{position}]{inner})"
        index -= child.num_leaves
    return f"leaf {index}"


def unbroadcast_axes(gradient: Shape, wanted: Shape) -> tuple[int, ...] | None:
    """The axes to sum where the gradient is one of a broadcast input; `None` where it is not."""
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


def project(engine: Engine, gradient: Any, spec: Spec, error: Callable[[str], Exception]) -> Any:
    """The gradient in the dtype and shape of its input, or the error that is made of the reason."""
    if type(gradient) in (int, float) and gradient == 0:
        return engine.zeros(spec)  # a literal zero cannot be meant otherwise
    try:
        array = engine.as_array(gradient, spec)
        if array is None:
            raise Mismatch(f"{describe(gradient)}; wanted {spec_text(spec)} or None")
        array = engine.cast(array, spec.dtype)
        came, wanted = engine.shape(array), spec.shape
        if came is None or wanted is None or None in came or None in wanted:
            if came is not None and wanted is not None and not _may_fit(came, wanted):
                raise Mismatch(_shape_reason(array, spec))
            late = error("a gradient of another shape; it and the input have the shapes")
            return engine.sum_to_dynamic(array, spec, str(late))
        axes = unbroadcast_axes(came, wanted)
        if axes is None:
            raise Mismatch(_shape_reason(array, spec))
        return engine.sum_to(array, axes, wanted) if axes else array
    except Mismatch as mismatch:
        raise error(str(mismatch)) from None


def project_tangent(
    engine: Engine, tangent: Any, spec: Spec, error: Callable[[str], Exception]
) -> Any:
    """A tangent in the dtype of its output, whose shape it must have."""
    try:
        array = engine.as_array(tangent, spec)
        came = None if array is None else engine.shape(array)
        unlike = came is not None and spec.shape is not None and not compatible(came, spec.shape)
        if array is None or unlike:
            raise Mismatch(
                f"{describe(tangent if array is None else array)}; wanted {spec_text(spec)}"
            )
    except Mismatch as mismatch:
        raise error(str(mismatch)) from None
    cast = engine.cast(array, spec.dtype)
    if came is not None and spec.shape is not None and None not in (*came, *spec.shape):
        return cast
    return engine.require_shape(cast, spec, str(error("a tangent of another shape")))


def compatible(came: Shape, wanted: Shape) -> bool:
    """Whether two shapes agree as far as they are known."""
    return len(came) == len(wanted) and all(
        c is None or w is None or c == w for c, w in zip(came, wanted, strict=True)
    )


def _may_fit(came: Shape, wanted: Shape) -> bool:
    tail = came[len(came) - len(wanted) :]
    return len(came) >= len(wanted) and all(
        w in (None, 1, c) or c is None for c, w in zip(tail, wanted, strict=True)
    )


def spec_text(spec: Spec) -> str:
    """A spec as `a gradient float32[2, 3]`."""
    shape = "[unknown rank]" if spec.shape is None else shape_text(spec.shape)
    return f"a gradient {_dtype_text(spec.dtype)}{shape}"


def _shape_reason(array: Any, spec: Spec) -> str:
    return (
        f"{describe(array)}; wanted {spec_text(spec)} (or one that broadcasting made larger, which is summed). "
        "A smaller gradient is not broadcast for you: multiply by the upstream, or by ones of the input's shape"
    )


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
    return f"{_dtype_text(getattr(value, 'dtype', ''))}{shape_text(shape)}".strip()


def _dtype_text(dtype: Any) -> str:
    return getattr(dtype, "name", None) or str(dtype)


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
            raise Mismatch(
                f"returned {describe(gradient)} for the single tensor `{path}`. "
                "Return one gradient for it"
            )
        return [gradient]
    parts = _parts(gradient, wanted)
    if parts is None:
        raise Mismatch(
            f"returned {describe(gradient)} for the input `{path}`, whose structure is "
            f"{_structure_text(wanted)}. "
            "Return a gradient of the same structure, with None where nothing flows"
        )
    flat: list[Any] = []
    for part, child, entry in zip(parts, wanted.children(), wanted.entries(), strict=True):
        flat += _fill(part, child, f"{path}[{_quoted(entry)}]")
    return flat


def _parts(gradient: Any, wanted: Structure) -> list[Any] | None:
    """The children of the gradient in the order of the wanted structure, if it has that one."""
    entries = wanted.entries()
    if isinstance(gradient, Mapping):
        same = set(gradient) == set(entries)
        return [gradient[entry] for entry in entries] if same else None
    if issubclass(wanted.type or object, _ROWS):
        fits = isinstance(gradient, _ROWS) and len(gradient) == len(entries)
        return list(gradient) if fits else None
    _, structure = flatten(gradient)
    if structure.type is not wanted.type or structure.num_children != wanted.num_children:
        return None
    return parts_of(gradient)


def _is_like(gradient: Any, wanted: Structure) -> bool:
    """Whether a gradient has the structure of its input, as deep as it goes."""
    if gradient is None or gradient is DEFAULT:
        return True
    if wanted.is_leaf():
        return not (_is_plain_sequence(gradient) or isinstance(gradient, Mapping))
    parts = _parts(gradient, wanted)
    return parts is not None and all(map(_is_like, parts, wanted.children()))


def _has_classes(gradient: Any, wanted: Structure) -> bool:
    """Whether all lists, tuples and the like in a gradient are of the same class as in its input."""
    if gradient is None or gradient is DEFAULT or wanted.is_leaf():
        return True
    parts = _parts(gradient, wanted) if type(gradient) is wanted.type else None
    return parts is not None and all(map(_has_classes, parts, wanted.children()))


def _same_leaves(one: Any, other: Any, wanted: Structure) -> bool:
    """Whether two gradients of this structure bring the same to every leaf."""
    pairs = zip(_fill(one, wanted, ""), _fill(other, wanted, ""), strict=True)
    return all(a is b for a, b in pairs)


def _is_of_rows(structure: Structure) -> bool:
    """Whether a structure is made of lists and tuples only."""
    plain = structure.is_leaf() or issubclass(structure.type or object, _ROWS)
    return plain and all(map(_is_of_rows, structure.children()))


def _keys_of(structure: Structure) -> set[Any] | None:
    plain = structure.is_leaf() or structure.type in (list, tuple)
    return None if plain else set(structure.entries())


def _structure_text(wanted: Structure) -> str:
    name = getattr(wanted.type, "__name__", "a structure")
    return f"{name} of {', '.join(_quoted(entry) for entry in wanted.entries())}"


def _quoted(entry: Any) -> str:
    return f'"{entry}"' if isinstance(entry, str) else str(entry)


def _is_plain_sequence(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and not hasattr(value, "_fields")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s'[: count != 1]}"
