"""Flows made by hand: each line a node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pullback.explain.flow import Flow, Node, Op, Place, Rule, Size, Source, Value

ENGINE, NONE, STOPPED = Rule("engine"), Rule("none"), Rule("stopped")
OPS = (
    Op("Round", "fw.round", "step", "Write `straight(fw.round)`"),
    Op("Relu", "fw.relu", "gate", "Use another"),
    Op("Where", "fw.where", "select", "", "Guard the input"),
    Op("ArgMax", "fw.argmax", "index", "Take weights"),
    Op("Shape", "fw.shape", "shape"),
    Op("Assign", "assign", "assign", "Use the tensor"),
    Op("Mul", "`*`", "multiply", "", "Take Inf out"),
    Op("Log", "fw.log", "log", "", "Write `log(max(x, 1e-12))`"),
    Op("Sqrt", "fw.sqrt", "sqrt", "", "Write `sqrt(max(x, 1e-12))`"),
    Op("Square", "fw.square", "square"),
    Op("Sum", "fw.sum", "sum"),
    Op("Exp", "fw.exp", "exp", "", "Take the largest away"),
    Op("Softmax", "fw.softmax", "softmax"),
    Op("norm", "fw.norm", "situation", "", "Write `norm(x + tiny)`"),
    Op("masked softmax", "", "situation", "", "Mask with -1e9"),
    Op("detour", "", "situation", "Use fw.sin for np.sin"),
    Op("frozen", "", "situation", "Set `trainable`"),
)


def size(*numbers: float) -> Size:
    """The size of these numbers."""
    finite = [x for x in numbers if x == x and abs(x) != float("inf")]
    return Size(
        norm=sum(x * x for x in finite) ** 0.5,
        max=max(map(abs, finite), default=0.0),
        zeros=finite.count(0) / len(finite) if finite else 0.0,
        nan=sum(x != x for x in numbers),
        inf=sum(abs(x) == float("inf") for x in numbers),
        count=len(numbers),
    )


@dataclass
class Made:
    """A flow in the making."""

    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    objects: list[tuple[Any, int]] = field(default_factory=list)

    def value(self, numbers: Sequence[float], dtype: str = "float32", **more: Any) -> int:
        """A tensor that no node made."""
        known = size(*numbers) if dtype.startswith("float") else None
        value = Value(
            len(self.values), None, 0, (len(numbers),), dtype, 4 * len(numbers), known, **more
        )
        self.values.append(value)
        return value.id

    def source(
        self,
        name: str,
        numbers: Sequence[float] = (1.0,),
        gradient: Sequence[float] | None = None,
        **more: Any,
    ) -> int:
        """A tensor that one can ask about."""
        dtype = more.pop("dtype", "float32")
        known = size(*gradient) if gradient is not None else None
        value = self.value(numbers, dtype, gradient=known)
        kind = more.pop("kind", "argument")
        shape = (len(numbers),)
        self.sources.append(Source(name, kind, (value,), shape, dtype, known, **more))
        return value

    def node(
        self,
        kind: str,
        inputs: Sequence[int],
        numbers: Sequence[float],
        arrived: Sequence[float] | None = None,
        passed: Sequence[Sequence[float] | None] = (),
        **more: Any,
    ) -> int:
        """An operation on line `line`, with what it made, what arrived and what it passed on."""
        known = size(*arrived) if arrived is not None else None
        out = self.value(numbers, more.pop("dtype", "float32"), gradient=known)
        node = len(self.nodes)
        self.values[out] = replace(self.values[out], node=node, held=more.pop("held", False))
        place = Place("user.py", more.pop("line", node + 1), more.pop("code", ""))
        gradients = tuple(size(*g) if g is not None else None for g in passed)
        rule = more.pop("rule", ENGINE)
        layer = more.pop("layer", ())
        compiled = tuple(size(*g) if g is not None else None for g in more.pop("compiled", ()))
        self.nodes.append(
            Node(
                node,
                kind,
                kind,
                layer,
                (),
                place,
                tuple(inputs),
                (out,),
                rule,
                gradients,
                0.0,
                compiled,
            )
        )
        return out

    def flow(self, *outputs: int) -> Flow:
        """All of it."""
        parts = tuple(self.nodes), tuple(self.values), tuple(self.sources)
        return Flow("f", "made", *parts, outputs, ops=OPS, objects=self.objects)
