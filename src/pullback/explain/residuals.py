"""`Flow.residuals`: what is kept for the backward pass."""

from __future__ import annotations

import html
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import overload

from rich import box
from rich.console import Console
from rich.table import Table

from pullback.errors import ExplainError
from pullback.explain.data import FlowData, Value

_SHOWN = 20  # rows of a table; the rest is one row
_COLUMNS = ("kept", "share", "shape", "dtype", "made by", "layer", "line")
_WIDTH = 120


@dataclass(frozen=True, slots=True)
class Residual:
    """A tensor that the backward pass keeps."""

    bytes: int
    shape: tuple[int, ...]
    dtype: str
    op: str  # that made it
    line: str  # of the user's
    layer: str


class Residuals(Sequence[Residual]):
    """What is kept for the backward pass, largest first."""

    def __init__(self, found: Sequence[Residual]) -> None:
        self._found = tuple(sorted(found, key=lambda r: -r.bytes))

    @overload
    def __getitem__(self, index: int) -> Residual: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Residual]: ...
    def __getitem__(self, index: int | slice) -> Residual | Sequence[Residual]:
        return self._found[index]

    def __len__(self) -> int:
        return len(self._found)

    @property
    def total(self) -> int:
        """All bytes that are kept."""
        return sum(residual.bytes for residual in self)

    @property
    def alike(self) -> Sequence[tuple[Residual, int]]:
        """Each with how many there are of one size, shape, line and layer, as the steps of a loop keep; most first."""
        found = Counter(self)
        return sorted(found.items(), key=lambda each: -each[0].bytes * each[1])

    def by_layer(self) -> Mapping[str, int]:
        """Bytes by layer, most first; empty stands for what is in none."""
        return self._sums(lambda residual: residual.layer)

    def by_line(self) -> Mapping[str, int]:
        """Bytes by line of the user's, most first; empty stands for what has none."""
        return self._sums(lambda residual: residual.line)

    def _sums(self, key: Callable[[Residual], str]) -> Mapping[str, int]:
        sums = Counter[str]()
        for residual in self:
            sums[key(residual)] += residual.bytes
        return dict(sums.most_common())

    def share(self, residual: Residual) -> float:
        """The part of all bytes that one takes."""
        return residual.bytes / self.total if self.total else 0.0

    def _rows(self) -> list[tuple[str, ...]]:
        alike = self.alike
        rows = [self._row(residual, many) for residual, many in alike[:_SHOWN]]
        rest = alike[_SHOWN:]
        if rest:
            kept = sum(residual.bytes * many for residual, many in rest)
            more = f"{sum(many for _, many in rest)} more"
            rows.append((in_bytes(kept), self._percent(kept), "", "", more, "", ""))
        return rows

    def _row(self, r: Residual, many: int) -> tuple[str, ...]:
        shape, kept = " × ".join(map(str, r.shape)) or "scalar", r.bytes * many
        op = f"{r.op} ×{many}" if many > 1 else r.op
        line = PurePath(r.line).name
        return in_bytes(kept), self._percent(kept), shape, r.dtype, op, r.layer, line

    def _percent(self, kept: int) -> str:
        return f"{100 * kept / self.total:.0f} %" if self.total else ""

    def _title(self) -> str:
        many = f"{len(self)} tensor{'s' * (len(self) != 1)}"
        return f"kept for the backward pass: {in_bytes(self.total)} in {many}"

    def __rich__(self) -> Table:
        table = Table(title=self._title(), box=box.SIMPLE_HEAD, title_justify="left")
        for k, column in enumerate(_COLUMNS):
            table.add_column(column, justify="right" if k < 2 else "left", overflow="fold")
        for row in self._rows():
            table.add_row(*row)
        return table

    def __str__(self) -> str:
        console = Console(file=io.StringIO(), width=_WIDTH, record=True, color_system=None)
        console.print(self.__rich__(), markup=False)
        return console.export_text().rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        cells = [("th", _COLUMNS), *(("td", row) for row in self._rows())]
        rows = "".join(
            f"<tr>{''.join(f'<{tag}>{html.escape(text)}</{tag}>' for text in row)}</tr>"
            for tag, row in cells
        )
        return f"<table><caption>{html.escape(self._title())}</caption>{rows}</table>"


def residuals(flow: FlowData) -> Residuals:
    """What is held, measured where that can be done; weights and inputs, which are there anyway, do not count."""
    known = {value.id: value.bytes for value in flow.values if value.held}
    held = flow.measure_held() if flow.measure_held is not None else known
    made = [(flow.values[v], size) for v, size in held.items()]
    return Residuals(
        [_residual(flow, value, size) for value, size in made if value.node is not None]
    )


def with_residuals(flow: FlowData) -> FlowData:
    """The same flow, in which values say whether they are held."""
    if flow.measure_held is None:
        return flow
    try:
        held = flow.measure_held()
    except ExplainError as error:  # a page without this list is still one
        return replace(
            flow, notes=(*flow.notes, f"what is kept is not told: {error}"), measure_held=None
        )
    values = [replace(v, held=v.id in held, bytes=held.get(v.id, v.bytes)) for v in flow.values]
    return replace(flow, values=tuple(values), measure_held=None)


def _residual(flow: FlowData, value: Value, size: int) -> Residual:
    node = flow.nodes[value.node or 0]
    layer = "/".join(node.layer)
    return Residual(size, value.shape, value.dtype, flow.op(node.type).call, node.line, layer)


def in_bytes(count: float) -> str:
    """A number of bytes for people.

    >>> in_bytes(1536)
    '1.5 kB'
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
