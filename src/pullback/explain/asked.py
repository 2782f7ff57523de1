"""What somebody asks about: a tensor, a variable, a layer or a name, found among the sources of a flow."""

from __future__ import annotations

import difflib
from typing import Any

from pullback.errors import ExplainError
from pullback.explain.data import FlowData, Source

MOST_NAMES = 20  # more than these make an error hard to read


def sources_of(flow: FlowData, x: Any) -> list[Source]:
    """The sources that `x` stands for; none for a tensor or variable that the run never met."""
    found = _by_name(flow, x) if isinstance(x, str) else _by_identity(flow, x)
    if not found and not isinstance(x, str):
        parts = [part for part in _variables(x) if part is not x]
        found = [source for part in parts for source in _by_identity(flow, part)]
    if not found and not hasattr(x, "dtype"):
        raise ExplainError(unknown(flow, x))
    return list(dict.fromkeys(found))


def _by_name(flow: FlowData, name: str) -> list[Source]:
    """The source of this name, those of the layer of this name, or the only one whose name ends in it."""
    named = [s for s in flow.sources if s.name == name]
    of_layer = [s for s in flow.sources if name in s.layer]
    ending = [s for s in flow.sources if s.name.endswith(f"/{name}")]
    return named or of_layer or (ending if len(ending) == 1 else [])


def _by_identity(flow: FlowData, x: Any) -> list[Source]:
    return [flow.sources[k] for known, k in flow.objects if known is x]


def _variables(x: Any) -> list[Any]:
    """What a layer is made of."""
    found = getattr(x, "variables", ())
    return list(found) if isinstance(found, (list, tuple)) else []


def unknown(flow: FlowData, x: Any) -> str:
    """What to say of something that the run never met."""
    names = [source.name for source in flow.sources]
    listed = ", ".join(f"`{name}`" for name in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    known = f"It knows {listed}{more}." if names else "It knows no tensor at all."
    if isinstance(x, str):
        close = difflib.get_close_matches(x, names, 1)
        hint = f" Did you mean `{close[0]}`?" if close else ""
        return f"`{x}` is no name in this flow. {known}{hint}"
    label = getattr(x, "name", None)
    what = f"`{label}`" if isinstance(label, str) else f"this {type(x).__name__}"
    return (
        f"{what}: {flow.name} does not use it; neither was it passed to it nor read by it, so none can reach it. "
        f"If it was used before, compute with it inside {flow.name}. {known} A name can be asked about as well."
    )
