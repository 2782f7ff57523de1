"""What flowed, and what one may ask of it: the data with the analyses and views that are made of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pullback.explain.data import Edge as Edge
from pullback.explain.data import FlowData
from pullback.explain.data import Hint as Hint
from pullback.explain.data import Node as Node
from pullback.explain.data import Op as Op
from pullback.explain.data import Place as Place
from pullback.explain.data import Role as Role
from pullback.explain.data import Rule as Rule
from pullback.explain.data import Situation as Situation
from pullback.explain.data import Size as Size
from pullback.explain.data import Source as Source
from pullback.explain.data import Value as Value

if TYPE_CHECKING:
    from pullback.explain.nonfinite import NonFinite
    from pullback.explain.residuals import Residuals
    from pullback.explain.views.compare import Comparison


@dataclass(frozen=True, repr=False)
class Flow(FlowData):
    """The way of a gradient from the output of a function to its inputs.

    >>> flow = pb.explain(lambda x: tf.round(x) * x, tf.constant([1.0, 2.0]))
    >>> [(source.name, source.gradient.max) for source in flow.sources]
    [('x', 2.0)]
    """

    others: tuple[Flow, ...] = ()

    def why(self, x: Any) -> str:
        """Why the gradient of `x` is missing or zero, with the line and what to write; or how large it is.

        `x` is a tensor or variable that was passed or read, a layer, or a name as in `flow.sources`.
        """
        from pullback.explain.why import why

        return why(self, x)

    def first_nonfinite(self) -> NonFinite | None:
        """The first operation that made NaN or Inf of finite numbers; `None` where no NaN or Inf did harm."""
        from pullback.explain.nonfinite import first_nonfinite

        return first_nonfinite(self)

    def residuals(self) -> Residuals:
        """What is kept for the backward pass, largest first."""
        from pullback.explain.residuals import residuals

        return residuals(self)

    def show(self, file: IO[str] | None = None) -> None:
        """Print what is wrong, and the layers in the order in which the gradient meets them."""
        from pullback.explain.views.terminal import show

        show(self, file)

    def save(self, path: str | Path) -> None:
        """Write a file: `.json` for the data, `.html` for a page to look around in, which needs no network."""
        from pullback.explain.views.files import save_flow

        save_flow(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Flow:
        """Read what `save` wrote to a `.json` file. All can be asked of it, by name; tensors are not in files."""
        from pullback.explain.views.files import load_flow

        return load_flow(Path(path), cls)

    def __reduce__(self) -> Any:
        """What a file has."""
        from pullback.explain.views.files import flow_json, flow_of

        return flow_of, (flow_json(self), type(self))

    def compare(self, other: FlowData) -> Comparison:
        """This flow beside another one: plain against overridden, before against after."""
        from pullback.explain.views.compare import compare

        return compare(self, other)

    def __str__(self) -> str:
        from pullback.explain.views.terminal import as_text

        return as_text(self)

    def __rich_console__(self, console: Any, options: Any) -> Iterable[Any]:
        """For rich: what `show` prints."""
        from pullback.explain.views.terminal import rendered

        del console
        return [rendered(self, options.max_width)]

    def _repr_html_(self) -> str:
        from pullback.explain.views.notebook import flow_html

        return flow_html(self)
