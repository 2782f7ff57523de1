"""Rules that nobody can have meant to be the derivative: straight-through estimators, reversed and clipped gradients.

A function that is constant almost everywhere, or that returns what it was given, has a custom gradient only in order to
differ from its derivative. Whether it is the one that was meant cannot be told from outside: the user has to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from pullback.check.probe import Array, Arrays, Leaf, OutsideDomain, RuleFault
from pullback.check.report import FindingKind

_STEP = 1e-4  # far above the rounding of float32, far below what a step function skips
_ROUNDINGS = 4
_DIRECTIONS = 3
_MOST_GROWTH = (
    150.0  # of a gradient for a hundred times the upstream: more is a mistake, such as its square
)
_HUGE = 1e12  # beyond any threshold that means something, and its square is a float32
_ALIKE = 1e-3  # relative: far above the rounding of float32


class Runs(Protocol):
    """Of a probe, what is run here."""

    @property
    def inputs(self) -> tuple[Leaf, ...]:
        """The leaves that can be moved."""
        ...

    @property
    def outputs(self) -> tuple[Leaf, ...]:
        """The leaves of what the function returns."""
        ...

    @property
    def value_epsilon(self) -> float:
        """The rounding unit in which the values are computed."""
        ...

    def start(self) -> list[Array]:
        """The inputs the user gave."""
        ...

    def values(self, xs: Arrays) -> list[Array]:
        """The outputs at `xs`."""
        ...

    def vjp(self, xs: Arrays, ws: Arrays) -> tuple[list[Array], list[Array | None]]:
        """Outputs at `xs`, and what the rule makes of the upstream gradients `ws`."""
        ...


class Deliberate(NamedTuple):
    """What such a rule does: a short word for programs, the sentence, and the input it is about, or all of them."""

    kind: FindingKind
    text: str
    which: int | None = None


def meaning(probe: Runs) -> str:
    """What such a rule does, in words; nothing for a rule that may be a derivative."""
    found = deliberate(probe)
    return "" if found is None else found.text


def deliberate(probe: Runs) -> Deliberate | None:
    """The same, for programs."""
    try:
        with np.errstate(all="ignore"):
            return _of_flat(probe) or _of_identity(probe) or _of_gate(probe)
    except (OutsideDomain, RuleFault):
        return None


def _points(probe: Runs) -> Iterator[Arrays]:
    start = probe.start()
    yield start
    for factor, shift in ((-1.0, 0.0), (1.7, 0.13)):
        moved = [x * factor + shift for x in start]
        try:
            values = probe.values(moved)
        except OutsideDomain:
            continue
        if all(np.isfinite(y).all() for y in values):
            yield moved


def _of_flat(probe: Runs) -> Deliberate | None:
    """A function that small steps of one input do not change, and a rule that has a gradient for it."""
    rng = np.random.default_rng(0)
    points = list(_points(probe))
    for k, leaf in enumerate(probe.inputs):
        if leaf.is_complex or not all(_is_flat(probe, xs, k, rng) for xs in points):
            continue
        if all(_is_hidden(probe, xs, k) for xs in points):
            continue
        found = _words_of_flat(probe, points, k)
        if found is not None:
            return found
    return None


def _is_flat(probe: Runs, xs: Arrays, k: int, rng: Any) -> bool:
    before = probe.values(xs)
    for _ in range(_DIRECTIONS):
        step = _STEP * rng.normal(size=xs[k].shape) * np.maximum(abs(xs[k]), 1.0)
        moved = [x + step if j == k else x for j, x in enumerate(xs)]
        after = probe.values(moved)
        if not all(np.array_equal(a, b) for a, b in zip(before, after, strict=True)):
            return False
    return True


def _is_hidden(probe: Runs, xs: Arrays, k: int) -> bool:
    """Whether rounding hides what the rule says that such steps change."""
    ws = _upstreams(probe, np.random.default_rng(1))
    ys, gradients = probe.vjp(xs, ws)
    gradient = gradients[k]
    if gradient is None:
        return False
    change = np.abs(gradient * _STEP * np.maximum(abs(xs[k]), 1.0)).max(initial=0.0)
    size = sum(float(np.abs(w * y).sum()) for w, y in zip(ws, ys, strict=True))
    return 0 < change < _ROUNDINGS * probe.value_epsilon * size


def _words_of_flat(probe: Runs, points: list[Arrays], k: int) -> Deliberate | None:
    pairs = _pairs(probe, points, k)
    gradients = [g for _, g in pairs]
    if not any(g is not None and np.any(g) for g in gradients):
        return None
    name = probe.inputs[k].name
    why = (
        f"the function does not change with small steps of `{name}`, and its rule gives a gradient"
    )
    same = [(w, g) for w, g in pairs if w is not None and g is not None]
    if same and all(np.allclose(g, w) for w, g in same):
        return Deliberate("passed", f"straight-through: {why}, the upstream unchanged", k)
    if same and all(np.all(np.isclose(g, w) | (g == 0)) for w, g in same):
        text = f"straight-through: {why}, the upstream unchanged in some places and zero in others"
        return Deliberate("passed", text, k)
    return Deliberate("term", f"a surrogate: {why}", k)


def _pairs(probe: Runs, points: list[Arrays], k: int, most: float = 10.0) -> list[tuple[Any, Any]]:
    """Upstreams of several sizes, and what the rule makes of them."""
    sizes = np.geomspace(1 / most, most, len(points))
    return [_upstream_and_gradient(probe, xs, k, s) for xs, s in zip(points, sizes, strict=True)]


def _upstream_and_gradient(probe: Runs, xs: Arrays, k: int, size: float) -> tuple[Any, Any]:
    """The first upstream, if it has the shape of the input, and the gradient."""
    rng = np.random.default_rng(1)
    ws = [size * w for w in _upstreams(probe, rng)]
    gradient = probe.vjp(xs, ws)[1][k]
    return (ws[0] if ws[0].shape == xs[k].shape else None), gradient


def _of_identity(probe: Runs) -> Deliberate | None:
    """A function that returns one of its inputs."""
    points = list(_points(probe))
    for k, leaf in enumerate(probe.inputs):
        near = _ROUNDINGS * leaf.epsilon  # points are rounded in a shorter format
        if leaf.shape == probe.outputs[0].shape and all(
            np.allclose(probe.values(xs)[0], xs[k], near, 0) for xs in points
        ):
            pairs = _pairs(probe, points, k)
            if all(g is not None and np.allclose(g, w) for w, g in pairs):
                return None
            kind, does = _what_it_does(probe, points, k, pairs)
            return Deliberate(kind, f"returns `{leaf.name}` as it is, and {does}", k)
    return None


Does = tuple[FindingKind, str]


def _what_it_does(probe: Runs, points: list[Arrays], k: int, pairs: list[tuple[Any, Any]]) -> Does:
    if any(g is None for _, g in pairs):
        return "none", "gives no gradient"
    ratios = [np.ravel(g / w) for w, g in pairs]
    every = np.concatenate(ratios)
    if every.size and np.allclose(every, every[0]):
        return _words_of_factor(every[0])
    if np.all(np.isclose(every, 1) | (every == 0)):
        return "part", "passes part of the upstream: a mask"
    others = [np.ravel(g / w) for w, g in _pairs(probe, points, k, most=0.1)]
    if not all(np.allclose(a, b, rtol=_ALIKE) for a, b in zip(ratios, others, strict=True)):
        return (
            "linear",
            "changes the upstream, and not in proportion to it: clipped, normalised or noisy",
        )
    if all(np.allclose(one, one[0]) for one in ratios):
        return _words_of_varying(probe, points, np.array([one[0] for one in ratios]))
    return "factor", "changes the upstream in proportion to it: weighted, masked or mixed"


def _words_of_factor(factor: Any, of: str = "") -> Does:
    """A multiple of the upstream; the factor may be a multiple `of` an input."""
    if abs(factor.imag) > _ALIKE * abs(factor):
        return "factor", f"turns the gradient: {factor:.3g} times {of}the upstream"
    real = float(factor.real)
    how = "reverses" if real < 0 else "scales"
    kind = "sign" if real < 0 else "factor"
    return kind, f"{how} the gradient: {real:.3g} times {of}the upstream"


def _words_of_varying(probe: Runs, points: list[Arrays], factors: Any) -> Does:
    """A multiple of the upstream that depends on the inputs, on one number in the plainest case."""
    for j, leaf in enumerate(probe.inputs):
        shares = factors / np.array([xs[j] for xs in points]).ravel() if leaf.size == 1 else [0, 1]
        if np.allclose(shares, shares[0]):
            return _words_of_factor(shares[0], f"`{leaf.name}` times ")
    return "factor", "scales the gradient by a factor that depends on its inputs"


def _of_gate(probe: Runs) -> Deliberate | None:
    """A rule that is not linear in its upstream, as no derivative is; one that grows with its square is a mistake."""
    xs, rng = probe.start(), np.random.default_rng(2)
    ws = _upstreams(probe, rng)
    once, twice, opposite, large, nothing, huge = (
        _flat(probe.vjp(xs, [factor * w for w in ws])[1])
        for factor in (1.0, 2.0, -1.0, 100.0, 0.0, _HUGE)
    )
    known = all(np.isfinite(g).all() for g in (once, twice, opposite, large, nothing))
    if (
        not known
        or not once.any()
        or nothing.any()
        or np.linalg.norm(large) > _MOST_GROWTH * np.linalg.norm(once)
    ):
        return None
    doubled = np.allclose(twice, 2 * once, rtol=_ALIKE)
    if doubled and not np.allclose(opposite, -once, rtol=_ALIKE):
        how = "treats positive and negative upstreams differently, as no derivative does (guided?)"
    elif not doubled:
        how = "is not in proportion to its upstream, as no derivative is (clipped, normalised?)"
    else:
        how = _of_cap(once, huge / _HUGE)
    return Deliberate("linear", f"its rule {how}") if how else None


def _of_cap(once: Any, rest: Any) -> str:
    """A rule that holds gradients down from some size on, which ordinary upstreams do not reach."""
    size, kept = np.linalg.norm(once), np.linalg.norm(rest)
    if not np.isfinite(rest).all() or kept > (1 - _ALIKE) * size:
        return ""
    by_norm = np.allclose(rest * size, once * kept, rtol=_ALIKE, atol=_ALIKE * size * kept)
    how = "clipped by norm?" if by_norm else "clipped?"
    return f"is not in proportion to its upstream once that is large, as no derivative is ({how})"


def _upstreams(probe: Runs, rng: Any) -> Arrays:
    several = [rng.normal(size=leaf.shape) for leaf in probe.outputs]
    return [
        w + 1j * rng.normal(size=leaf.shape) if leaf.is_complex else w
        for w, leaf in zip(several, probe.outputs, strict=True)
    ]


def _flat(gradients: Sequence[Any]) -> Any:
    """All numbers in a row, those of complex gradients as pairs."""
    known: list[Any] = [np.ravel(g) for g in gradients if g is not None]
    parts = [part for g in known for part in ((g.real, g.imag) if np.iscomplexobj(g) else (g,))]
    return np.concatenate(parts or [np.zeros(1)])
