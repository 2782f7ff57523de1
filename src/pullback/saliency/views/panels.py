"""What a picture of a map shows: examples, and the inputs of each with their maps. Data, drawn by the other modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pullback._tree import flatten, paths
from pullback.errors import SaliencyError

TITLES: Final[Mapping[str, str]] = {
    "gradient": "Gradient",
    "input_x_gradient": "Input × gradient",
    "integrated": "Integrated gradients",
    "smoothgrad": "SmoothGrad",
    "guided": "Guided backpropagation",
    "deconv": "Deconvolution",
    "gradcam": "Grad-CAM",
    "gradcam++": "Grad-CAM++",
    "guided_gradcam": "Guided Grad-CAM",
    "deeplift": "DeepLIFT",
    "lrp": "LRP",
}


@dataclass(frozen=True)
class Panel:
    """One input of an example, and its map."""

    name: str  # of the input among several; empty if there is one alone
    x: np.ndarray
    values: np.ndarray
    words: tuple[str, ...] | None = None

    @property
    def is_row(self) -> bool:
        """Whether it is a row of numbers or words."""
        return self.values.ndim < 2


@dataclass(frozen=True)
class Example:
    """One example: what was asked of it, and its inputs."""

    title: str
    panels: tuple[Panel, ...]
    gap: float | None = None


def title_of(method: str, target: Any, score: Any, layer: str | None, labels: Any) -> str:
    """Method, class, score and layer of one example."""
    parts = [TITLES.get(method, method)]
    if target is not None:
        parts.append(f"class {_label(target, labels)}")
    if score is not None:
        parts.append(f"score {float(score):+.3g}")
    if layer is not None:
        parts.append(f"layer {layer}")
    return " · ".join(parts)


def _label(target: Any, labels: Any) -> str:
    number = int(target)
    if labels is None:
        return str(number)
    try:
        return f"“{labels[number]}”"
    except (LookupError, TypeError) as error:
        raise SaliencyError(
            f"labels has no entry for class {number}; wanted the name of each class, such as ['cat', 'dog']."
        ) from error


def panels_of(x: Any, values: Any, example: int, words: Any) -> tuple[Panel, ...]:
    """The inputs of one example that have a map."""
    leaves, structure = flatten(values)
    inputs = flatten(x)[0]
    alone = len(leaves) == 1
    names = [""] if alone else [_name(path) for path in paths(structure)]
    found = [
        (name, np.asarray(each)[example], np.asarray(value)[example])
        for name, each, value in zip(names, inputs, leaves, strict=True)
        if value is not None
    ]
    said = _words_by_name(words, [name for name, _, value in found if value.ndim < 2])
    return tuple(
        Panel(name, each, value, _checked(said.get(name), value, example))
        for name, each, value in found
    )


def _name(path: str) -> str:
    """`["text"]` is the input "text", `[1]` the input 1."""
    inner = path.strip("[].'\"")
    return f"input {inner}" if inner.isdigit() else inner


def _words_by_name(words: Any, rows: Sequence[str]) -> Mapping[str, Any]:
    if words is None:
        return {}
    if isinstance(words, Mapping):
        unknown = [name for name in words if name not in rows]
        if unknown:
            raise SaliencyError(
                f"words names the input {unknown[0]!r}; inputs that are rows of tokens: {', '.join(rows) or 'none'}."
            )
        return dict(words)  # pyright: ignore[reportUnknownArgumentType]
    if len(rows) != 1:
        raise SaliencyError(
            f"words is for one input that is a row of tokens, and there are {len(rows)}: {', '.join(rows) or 'none'}. "
            "Write a dict of the names of inputs and their words."
        )
    return {rows[0]: words}


def _checked(words: Any, values: np.ndarray, example: int) -> tuple[str, ...] | None:
    """The words of this example: of one, or of all in a list of lists."""
    if words is None:
        return None
    if len(words) and not isinstance(words[0], str) and isinstance(words[0], Sequence):
        words = words[example]
    if len(words) != values.size:
        raise SaliencyError(f"words has {len(words)} entries, and the example has {values.size}.")
    return tuple(str(word) for word in words)
