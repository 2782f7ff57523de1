"""Files of a flow and of a comparison."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pullback._plain_data import read_untagged
from pullback.errors import ExplainError
from pullback.explain.data import FlowData
from pullback.explain.residuals import with_residuals
from pullback.explain.views.compare import Comparison
from pullback.explain.views.notebook import comparison_page
from pullback.explain.views.page import flow_page

AnyFlow = TypeVar("AnyFlow", bound=FlowData)


def save_flow(flow: FlowData, path: Path) -> None:
    """Data or page, by the ending of the name."""
    makers = {
        ".html": lambda: flow_page(with_residuals(flow)),
        ".json": lambda: flow_json(flow),
    }
    _write(path, makers)


def load_flow(path: Path, kind: type[AnyFlow]) -> AnyFlow:
    """The flow in a file."""
    try:
        return flow_of(path.read_text(encoding="utf-8"), kind)
    except ValueError as error:
        raise ExplainError(
            f"{path.name} holds no flow of this version, as `flow.save('name.json')` writes it: {error}"
        ) from error


def flow_of(text: str, kind: type[AnyFlow]) -> AnyFlow:
    """The flow that this JSON says."""
    return read_untagged(text, kind)


def flow_json(flow: FlowData) -> str:
    """All of a flow."""
    others = tuple(map(with_residuals, flow.others))
    return as_json(replace(with_residuals(flow), others=others).to_dict())


def save_comparison(comparison: Comparison, path: Path) -> None:
    """Data or page, by the ending of the name."""
    makers = {
        ".html": lambda: comparison_page(comparison),
        ".json": lambda: as_json(comparison.to_dict()),
    }
    _write(path, makers)


def as_json(data: Any) -> str:
    """Text that any reader of JSON takes: NaN and Inf, for which it has no word, are texts."""
    return json.dumps(_words(data), ensure_ascii=False, allow_nan=False)


def _words(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _words(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_words(value) for value in data]
    return str(data) if isinstance(data, float) and not math.isfinite(data) else data


def _write(path: Path, makers: Mapping[str, Callable[[], str]]) -> None:
    if path.suffix not in makers:
        endings = " or ".join(makers)
        raise ValueError(f"{path.name!r} does not say what to write: end the name in {endings}.")
    path.write_text(makers[path.suffix](), encoding="utf-8")
