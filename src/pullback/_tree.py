"""Structures: nested arguments as flat leaves and back, with a readable path for each leaf.

Lists, tuples, mappings, namedtuples, dataclasses, attrs classes and what is registered with optree are structure;
everything else is a leaf, `None` included.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import optree

Structure: TypeAlias = optree.PyTreeSpec

_NAMESPACE = "pullback"
_plain_leaf_types: set[type] = set()


_flat_tuples: list[Structure] = []
LEAF: Structure = optree.treespec_leaf(none_is_leaf=True, namespace=_NAMESPACE)


def flatten_tuple(values: tuple[Any, ...]) -> tuple[Sequence[Any], Structure]:
    """The same as `flatten`, without work for a tuple that holds nothing but known leaves."""
    for value in values:
        if type(value) not in _plain_leaf_types:
            return flatten(values)
    count = len(values)
    return values, _flat_tuples[count] if count < len(_flat_tuples) else flat_tuple(count)


def flat_tuple(count: int) -> Structure:
    """The structure of a tuple of leaves; always the same object for the same count."""
    while len(_flat_tuples) <= count:
        leaves = [LEAF] * len(_flat_tuples)
        spec = optree.treespec_tuple(leaves, none_is_leaf=True, namespace=_NAMESPACE)
        _flat_tuples.append(spec)
    return _flat_tuples[count]


def is_flat_tuple(structure: Structure) -> bool:
    """Whether `flatten_tuple` took the short way."""
    count = structure.num_leaves
    return count < len(_flat_tuples) and structure is _flat_tuples[count]


def is_known_leaf(value: Any) -> bool:
    """Whether a value of this class has been seen to be a leaf."""
    return type(value) in _plain_leaf_types


def flatten(tree: Any) -> tuple[list[Any], Structure]:
    """The leaves of a nested value and the structure that puts them back."""
    leaves, structure = optree.tree_flatten(tree, none_is_leaf=True, namespace=_NAMESPACE)
    if _adopt_unknown(leaves):
        return flatten(tree)
    return leaves, structure


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The nested value of this structure with these leaves."""
    if structure is LEAF:
        return leaves[0]
    if is_flat_tuple(structure):
        return tuple(leaves)
    return optree.tree_unflatten(structure, leaves)


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure with the function applied to every leaf."""
    leaves, structure = flatten(tree)
    return unflatten(structure, [function(leaf) for leaf in leaves])


def paths(structure: Structure, root: str = "") -> list[str]:
    """One readable path a leaf, such as `params["w"][0]`."""
    return [root + _code(accessor) for accessor in optree.treespec_accessors(structure)]


def _code(accessor: optree.PyTreeAccessor) -> str:
    return accessor.codify("").replace("'", '"')


def forget_leaf(kind: type) -> None:
    """Look at values of this class again: by now it may be registered with optree."""
    _plain_leaf_types.discard(kind)


def parts_of(value: Any) -> list[Any]:
    """The parts of a value that is a structure, one level deep."""
    return list(optree.tree_flatten_one_level(value, none_is_leaf=True, namespace=_NAMESPACE)[0])


def _adopt_unknown(leaves: Sequence[Any]) -> bool:
    adopted = False
    for kind, leaf in {type(leaf): leaf for leaf in leaves}.items():
        if kind not in _plain_leaf_types:
            adopted |= _adopt(kind, leaf)
    return adopted


def _adopt(kind: type, value: Any) -> bool:
    """Teach optree a class of structure it does not know; say whether there was one to teach.

    What a value shows itself to be is another class than its own where it stands for a list or dict, as those do that
    TensorFlow makes of the attributes of its modules.
    """
    fields = _fields_of(kind)
    if fields is not None:
        _register_record(kind, fields)
    elif issubclass(kind, (list, dict)) and _holds_its_items(value):
        optree.register_pytree_node(kind, _items, _same_class, namespace=_NAMESPACE)
    elif issubclass(value.__class__, list):
        optree.register_pytree_node(kind, _list_children, _list_from, namespace=_NAMESPACE)
    elif issubclass(value.__class__, dict):
        optree.register_pytree_node(kind, _dict_children, _dict_from, namespace=_NAMESPACE)
    elif isinstance(value, Mapping) and _is_made_of(kind, dict.fromkeys(value)):
        optree.register_pytree_node(
            kind, _dict_children, lambda *new: kind(_dict_from(*new)), namespace=_NAMESPACE
        )
    elif isinstance(value, collections.UserList) and _is_made_of(kind, [None] * len(value)):
        optree.register_pytree_node(
            kind, _list_children, lambda *new: kind(_list_from(*new)), namespace=_NAMESPACE
        )
    else:
        _plain_leaf_types.add(kind)
        return False
    return True


def _fields_of(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a dataclass or attrs class; `None` for any other class."""
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind))
    attributes = getattr(kind, "__attrs_attrs__", None)
    return None if attributes is None else tuple(each.name for each in attributes)


def _register_record(kind: type, fields: tuple[str, ...]) -> None:
    def children(value: Any) -> tuple[list[Any], tuple[str, ...], tuple[str, ...]]:
        names = tuple(name for name in fields if hasattr(value, name))  # one may not be set
        return [getattr(value, name) for name in names], names, names

    def rebuild(names: Any, values: Iterable[Any]) -> Any:
        # Not through __init__: a field may be no argument of it, and it may reject gradients.
        made = object.__new__(kind)
        for name, value in zip(names, values, strict=True):
            object.__setattr__(made, name, value)
        return made

    optree.register_pytree_node(
        kind,
        children,
        rebuild,
        path_entry_type=optree.GetAttrEntry,
        namespace=_NAMESPACE,
    )


def _is_made_of(kind: Any, plain: Any) -> bool:
    """Whether a class makes one of a plain list or dict: some of these stand for something outside."""
    try:
        return list(kind(plain)) == list(plain)
    except Exception:  # of somebody's class, whatever it may be
        return False


@dataclasses.dataclass(frozen=True)
class _Shell:
    """An object of a class derived from list or dict, without its items: those of one class stand for each other."""

    kind: type
    keys: tuple[Any, ...] | None
    original: Any = dataclasses.field(compare=False)  # without its items

    def filled(self, values: Iterable[Any]) -> Any:
        """The same around other items; not through methods of the class, which may do anything."""
        made = _emptied(self.original)
        if self.keys is None:
            list.extend(made, values)
        for key, value in zip(self.keys or (), values, strict=False):
            _dict_of(self.kind).__setitem__(made, key, value)
        return made


def _emptied(value: Any) -> Any:
    """An object of the same class with the same attributes, and no items."""
    kind: Any = type(value)
    made = kind.__new__(kind)
    if issubclass(kind, collections.defaultdict):
        made.default_factory = value.default_factory
    vars(made).update(vars(value)) if hasattr(value, "__dict__") else None
    return made


def _dict_of(kind: type) -> Any:
    return collections.OrderedDict if issubclass(kind, collections.OrderedDict) else dict


def _items(value: Any) -> tuple[list[Any], _Shell, Any]:
    """What is in it as it is stored: a class may show it otherwise."""
    kind = type(value)
    if issubclass(kind, list):
        return list(list.__iter__(value)), _Shell(kind, None, _emptied(value)), None
    keys = tuple(dict.__iter__(value))
    items = [dict.__getitem__(value, key) for key in keys]
    return items, _Shell(kind, keys, _emptied(value)), keys


def _same_class(shell: Any, values: Iterable[Any]) -> Any:
    return shell.filled(values)


def _holds_its_items(value: Any) -> bool:
    """Whether one that is made of other items shows those: some keep theirs elsewhere, or are made by nobody else."""
    try:
        items, shell, _ = _items(value)
        made = shell.filled([object() for _ in items])
        shown = list(made) if isinstance(made, list) else list(made.values())
        return len(shown) == len(items) and not any(a is b for a in shown for b in items)
    except Exception:  # of somebody's class, whatever it may be
        return False


def _list_children(value: Any) -> tuple[list[Any], None]:
    return list(value), None


def _list_from(_: Any, values: Iterable[Any]) -> list[Any]:
    return list(values)


def _dict_children(value: Any) -> tuple[list[Any], tuple[Any, ...], tuple[Any, ...]]:
    keys = tuple(value)
    return [value[key] for key in keys], keys, keys


def _dict_from(keys: Any, values: Iterable[Any]) -> dict[Any, Any]:
    return dict(zip(keys, values, strict=True))


def scatter(count: int, indices: Iterable[int], values: Iterable[Any]) -> list[Any]:
    """A list of this length with the values at these positions, `None` elsewhere."""
    spread: list[Any] = [None] * count
    for index, value in zip(indices, values, strict=True):
        spread[index] = value
    return spread
