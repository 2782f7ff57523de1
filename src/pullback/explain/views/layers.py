"""The operations of a flow as a tree: by layer, by what they ran inside of, by function; repeated blocks as one.

A group never has more than `MOST_CHILDREN` children, so that opening one shows what a person can take in and a layout
can arrange.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from pullback.explain.data import FlowData, Node
from pullback.explain.views.repeats import Repeat, repeats

GroupKind = Literal["flow", "layer", "inside", "function", "block", "repeat", "part"]
Step: TypeAlias = tuple[GroupKind, str]  # of the way to a node
Child: TypeAlias = "Group | int"  # an int is the id of a node

MOST_CHILDREN = 100
_DEEPEST_BLOCK = 3  # "conv2_block1_1_conv" has three: conv2, conv2_block1, conv2_block1_1
_LONG = 20  # letters of a name made of two
_NUMBER = re.compile(r"[_\s]*\d+")
# A part of a name that ends in a number, such as "block1" or "5a", but not the "2d" of "conv2d".
_NUMBERED = re.compile(r"(?!.*[123]d$)[A-Za-z]*\d+[a-z]?")


@dataclass(frozen=True, slots=True)
class Group:
    """Operations that belong together, in the order in which they ran."""

    name: str
    kind: GroupKind
    path: tuple[str, ...]
    children: tuple[Child, ...]
    count: int = 1  # of a repeat: how many blocks are alike

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups among its children."""
        return tuple(child for child in self.children if isinstance(child, Group))

    def nodes(self) -> Iterator[int]:
        """The ids of all nodes in it, however deep."""
        waiting: list[Child] = [self]
        while waiting:
            child = waiting.pop()
            if isinstance(child, int):
                yield child
            else:
                waiting.extend(reversed(child.children))

    def innermost_layers(self) -> list[Group]:
        """The layers in it that hold no other layer, in the order in which they ran."""
        layers = [group for _, group in self.walk() if group.kind == "layer"]
        around = {path for layer in layers for path in _prefixes(layer.path)}
        return [layer for layer in layers if layer.path not in around]

    def walk(self) -> Iterator[tuple[int, Group]]:
        """Itself and all groups in it, each after the one around it, with their depth."""
        waiting: list[tuple[int, Group]] = [(0, self)]
        while waiting:
            depth, group = waiting.pop()
            yield depth, group
            waiting.extend((depth + 1, inner) for inner in reversed(group.groups))


def _prefixes(path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    return (path[:k] for k in range(1, len(path)))


def family(name: str) -> str:
    """A name without its numbers: equal for names that differ by numbers only.

    >>> family("dense_12"), family("dense"), family("while, step 3")
    ('dense', 'dense', 'while, step')
    """
    return _NUMBER.sub("", name)


def span(first: str, last: str) -> str:
    """Names that differ by numbers, from the first to the last.

    >>> span("encoder_0", "encoder_11"), span("attention_3", "add_7"), span("dense", "dense_4")
    ('encoder_0…11', 'attention_3 … add_7', 'dense…dense_4')
    """
    if family(first) != family(last):
        return f"{first} … {last}"
    start = first.rstrip("0123456789")
    return f"{first}…{last.removeprefix(start) if start != first else last}"


def grouped(flow: FlowData) -> Group:
    """The tree of a flow."""
    paths = _paths(flow)
    root = _tree(flow.name, "flow", (), [(node.id, paths[node.id]) for node in flow.nodes])
    root = _with_blocks(root)
    root = _folded(root, flow, _Signatures(flow).of)
    while len(root.children) == 1 and root.groups:  # one layer around everything says nothing
        root = replace(root, children=root.groups[0].children)
    return _in_parts(root)


def _paths(flow: FlowData) -> list[tuple[Step, ...]]:
    functions = {node.place.function for node in flow.nodes if node.place}
    helpers = functions - {"", flow.name} if len(functions) > 1 else set[str]()
    loss = _loss(flow)
    return [_path(node, helpers, is_loss=node.id in loss) for node in flow.nodes]


def _loss(flow: FlowData) -> range:
    """The operations after the last layer, where what they come to is one number."""
    last = max((node.id for node in flow.nodes if node.layer), default=len(flow.nodes))
    is_number = all(math.prod(flow.values[v].shape) == 1 for v in flow.outputs)
    after = range(last + 1, len(flow.nodes))
    return after if is_number and len(after) > 1 else range(0)


def _path(node: Node, helpers: Collection[str], *, is_loss: bool) -> tuple[Step, ...]:
    if is_loss:
        return (("function", "loss"), *(("inside", name) for name in node.inside))
    layers: list[Step] = [("layer", name) for name in node.layer]
    inside: list[Step] = [("inside", name) for name in node.inside]
    function = node.place.function if node.place else ""
    if layers or inside or function not in helpers:
        return (*layers, *inside)
    return (("function", function),)


def _tree(
    name: str,
    kind: GroupKind,
    path: tuple[str, ...],
    members: Sequence[tuple[int, tuple[Step, ...]]],
) -> Group:
    """Nodes with what is left of their paths."""
    parts: dict[Step | int, list[tuple[int, tuple[Step, ...]]]] = {}
    for node, rest in members:
        key = rest[0] if rest else node
        parts.setdefault(key, []).append((node, rest[1:]))
    children = tuple(
        key if isinstance(key, int) else _tree(key[1], key[0], (*path, _step(*key)), inner)
        for key, inner in parts.items()
    )
    return Group(name, kind, path, children)


def _step(kind: GroupKind, name: str) -> str:
    """As a part of a path, in which layers have their own names and nothing else has one of theirs."""
    return name if kind == "layer" else f"({kind} {name})"


def _with_blocks(group: Group, depth: int = 1) -> Group:
    """Layers whose names begin alike, such as those of "block1_conv" and "block1_pool", in a group of their own."""
    children = [_with_blocks(c) if isinstance(c, Group) else c for c in group.children]
    if depth > _DEEPEST_BLOCK:
        return replace(group, children=tuple(children))
    blocks: dict[object, list[Child]] = {}
    for child in children:
        stem = (
            _stem(child.name, depth) if isinstance(child, Group) and child.kind == "layer" else ""
        )
        blocks.setdefault(stem or id(child), []).append(child)
    several = len(blocks) > 1
    found = [
        _with_blocks(_block(str(stem), group, members), depth + 1)
        if isinstance(stem, str) and len(members) > 1 and several
        else members
        for stem, members in blocks.items()
    ]
    flat = [c for one in found for c in (one if isinstance(one, list) else [one])]
    return replace(group, children=tuple(flat))


def _block(name: str, group: Group, members: Sequence[Child]) -> Group:
    return Group(name, "block", (*group.path, _step("block", name)), tuple(members))


def _stem(name: str, depth: int) -> str:
    """The name up to its `depth`-th number, if anything but numbers follows.

    >>> [_stem("conv2_block1_1_conv", depth) for depth in (1, 2, 3, 4)]
    ['conv2', 'conv2_block1', 'conv2_block1_1', '']
    >>> _stem("dense_1", 1), _stem("conv2d_transpose", 1)
    ('', '')
    """
    parts = name.split("_")
    ends = [
        k + 1
        for k, part in enumerate(parts)
        if _NUMBERED.fullmatch(part)
        and re.search(r"[A-Za-z]", "".join(parts[: k + 1]))
        and re.search(r"[A-Za-z]", "".join(parts[k + 1 :]))
    ]
    return "_".join(parts[: ends[depth - 1]]) if depth <= len(ends) else ""


class _Signatures:
    """What makes two operations or groups alike: types, shapes, families of names."""

    def __init__(self, flow: FlowData) -> None:
        self._flow = flow
        self._known: dict[object, int] = {}
        self._groups: dict[int, tuple[Group, int]] = {}

    def of(self, child: Child) -> int:
        if isinstance(child, int):
            node, values = self._flow.nodes[child], self._flow.values
            shapes = tuple(values[v].shape for v in (*node.inputs, *node.outputs))
            return self._number((node.type, len(node.inputs), shapes))
        if id(child) not in self._groups:
            inner = tuple(self.of(c) for c in child.children)
            self._groups[id(child)] = (child, self._number((child.kind, family(child.name), inner)))
        return self._groups[id(child)][1]

    def _number(self, key: object) -> int:
        return self._known.setdefault(key, len(self._known))


def _folded(group: Group, flow: FlowData, signature: Callable[[Child], int]) -> Group:
    """Repeated blocks among the children as one group each, at every depth."""
    children = [_folded(c, flow, signature) if isinstance(c, Group) else c for c in group.children]
    found: list[Child] = []
    for part in repeats([signature(child) for child in children]):
        inner = children[part.start : part.stop]
        found.extend([_repeat(group, flow, part, inner)] if part.count > 1 else inner)
    return replace(group, children=tuple(found))


def _repeat(group: Group, flow: FlowData, part: Repeat, inner: list[Child]) -> Group:
    blocks = [inner[k : k + part.period] for k in range(0, len(inner), part.period)]
    members = [
        block[0]
        if part.period == 1
        else Group(f"block {k}", "block", (*group.path, f"(block {part.start}.{k})"), tuple(block))
        for k, block in enumerate(blocks)
    ]
    first, *_, last = (flow.nodes[c].type if isinstance(c, int) else c.name for c in inner)
    name = span(first, last) if first != last else first
    if isinstance(inner[0], int) and len(name) > _LONG:
        name = f"{part.period} operations"
    return Group(
        name, "repeat", (*group.path, f"(repeat {part.start})"), tuple(members), part.count
    )


def _in_parts(group: Group) -> Group:
    """No group with more children than a person can take in."""
    children: Sequence[Child] = [
        _in_parts(c) if isinstance(c, Group) else c for c in group.children
    ]
    while len(children) > MOST_CHILDREN:
        starts = range(0, len(children), MOST_CHILDREN)
        children = [_part(group, children[start : start + MOST_CHILDREN]) for start in starts]
    return replace(group, children=tuple(children))


def _part(group: Group, children: Sequence[Child]) -> Group:
    ids = list(Group("", "part", (), tuple(children)).nodes())
    name = f"operations {ids[0]}–{ids[-1]}"
    return Group(name, "part", (*group.path, _step("part", name)), tuple(children))
