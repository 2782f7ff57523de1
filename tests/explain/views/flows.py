"""Flows made by hand, op by op."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from pullback.explain.flow import Flow, Node, Place, Rule, Size, Source, Value


def size(norm: float, count: int = 4, **more: Any) -> Size:
    zeros = 1.0 if norm == 0 else 0.0
    return Size(
        norm, norm / math.sqrt(count), **{"zeros": zeros, "nan": 0, "inf": 0, **more}, count=count
    )


class Builder:
    """Adds one op after the other; gradients are given, not computed."""

    def __init__(self, name: str = "model") -> None:
        self.name = name
        self.nodes: list[Node] = []
        self.values: list[Value] = []
        self.sources: list[Source] = []

    def value(
        self, shape: tuple[int, ...] = (2, 2), *, node: int | None = None, **more: Any
    ) -> int:
        settings: dict[str, Any] = {"dtype": "float32", "output": 0, "size": size(1.0), **more}
        settings.setdefault("bytes", 4 * math.prod(shape))
        self.values.append(Value(len(self.values), node, shape=shape, **settings))
        return len(self.values) - 1

    def source(
        self, name: str, norm: float | None = 1.0, kind: Any = "argument", **more: Any
    ) -> int:
        gradient = None if norm is None else size(norm)
        shape = more.pop("shape", (2, 2))
        variable = name if kind == "variable" else ""
        dtype = more.pop("dtype", "float32")
        value = self.value(shape, gradient=gradient, variable=variable, dtype=dtype)
        self.sources.append(Source(name, kind, (value,), shape, dtype, gradient, **more))
        return value

    def op(
        self,
        type_: str,
        *inputs: int,
        norm: float | None = 1.0,
        passed: Any = "the same",
        layer: tuple[str, ...] = (),
        inside: tuple[str, ...] = (),
        rule: Rule | None = None,
        place: Place | None = None,
        name: str = "",
        shape: tuple[int, ...] = (2, 2),
        held: bool = False,
        seconds: float = 1e-4,
        made: Size | None = None,
        dtype: str = "float32",
    ) -> int:
        index = len(self.nodes)
        gradient = None if norm is None else size(norm)
        out = self.value(
            shape, node=index, gradient=gradient, held=held, size=made or size(1.0), dtype=dtype
        )
        back = [gradient] * len(inputs) if passed == "the same" else passed
        self.nodes.append(
            Node(
                index,
                type_,
                name or type_,
                layer,
                inside,
                place,
                tuple(inputs),
                (out,),
                rule or Rule("engine"),
                () if norm is None else tuple(back),
                seconds,
            )
        )
        return out

    def value_with(self, value: int, gradient: Size) -> Value:
        """The same value with another gradient."""
        return dataclasses.replace(self.values[value], gradient=gradient)

    def flow(self, *outputs: int, **more: Any) -> Flow:
        return Flow(
            self.name,
            "tensorflow",
            tuple(self.nodes),
            tuple(self.values),
            tuple(self.sources),
            outputs or (len(self.values) - 1,),
            seconds=0.05,
            **more,
        )


def dense(b: Builder, x: int, layer: str, norm: float, **more: Any) -> int:
    """A dense layer: reads its kernel, multiplies, rectifies."""
    kernel = b.source(f"{layer}/kernel", norm, "variable", layer=(b.name, layer))
    path = (b.name, layer)
    x = b.op("MatMul", x, kernel, norm=norm, layer=path, held=True, **more)
    return b.op("Relu", x, norm=norm, layer=path, held=True)


def chain(norms: list[float], name: str = "model") -> Flow:
    """Dense layers one after the other, with these norms of the gradient from the first to the last."""
    b = Builder(name)
    x = b.source("x", norms[0])
    for k, norm in enumerate(norms):
        x = dense(b, x, f"dense_{k}", norm)
    return b.flow(b.op("Sum", x, norm=1.0, shape=()))
