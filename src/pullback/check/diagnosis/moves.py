"""Tables: ways to put the numbers of an array into other places, and forms that a forgotten factor takes."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from pullback.check.probe import Array
from pullback.check.report import FindingKind


class Move(NamedTuple):
    """A short word for programs, how it reads after the name of an array, and what it does."""

    kind: FindingKind
    how: str
    apply: Callable[[Array], Array]


# Kinds of moves that do not only put numbers into other places.
MIXING = frozenset(["axis", "part"])


def moves(shape: tuple[int, ...], *, pairs: bool = False) -> Iterator[Move]:
    """Ways in which people put numbers into the wrong places; `pairs`: the last axis is real and imaginary part."""
    if pairs:
        yield Move("conjugate", "conjugated", lambda a: a * np.array([1.0, -1.0]))
        yield Move("part", "without its imaginary part", lambda a: a * np.array([1.0, 0.0]))
        yield Move("part", "without its real part", lambda a: a * np.array([0.0, 1.0]))
    axes = [
        axis for axis, size in enumerate(shape) if size > 1 and (not pairs or axis < len(shape) - 1)
    ]
    if len(axes) > 1:
        if not pairs:
            yield Move("transposed", "transposed", lambda a: np.swapaxes(a, -1, -2).reshape(shape))
            yield Move("transposed", "in the order of other axes", lambda a: a.T.reshape(shape))
        yield Move("reversed", "reversed along its first two axes", lambda a: np.flip(a, (0, 1)))
    for k in axes:
        yield from _along(k, shape[k])
    if not pairs and shape:
        yield Move("axis", "summed over all elements", lambda a: np.sum(a) + 0 * a)
        yield Move("axis", "averaged over all elements", lambda a: np.mean(a) + 0 * a)


def _along(k: int, size: int) -> Iterator[Move]:
    yield Move("reversed", f"reversed along axis {k}", lambda a: np.flip(a, k))
    for step in (1, -1):
        whose = f"each entry is that of the one {'before' if step > 0 else 'after'} it"
        how = f"shifted by {step} along axis {k} ({whose}"
        yield Move("shifted", f"{how})", lambda a, s=step: np.roll(a, s, k))
        yield Move("shifted", f"{how}, zeros moved in)", lambda a, s=step: _shifted(a, k, s))
    if size % 2 == 0 and size > 2:
        yield Move(
            "places", f"with its halves along axis {k} swapped", lambda a: np.roll(a, size // 2, k)
        )
        order = np.arange(size).reshape(-1, 2)[:, ::-1].ravel()
        yield Move(
            "places", f"with neighbours along axis {k} swapped", lambda a: np.take(a, order, k)
        )
        apart = np.concatenate([np.arange(0, size, 2), np.arange(1, size, 2)])
        how = f"with entries 0, 2, … along axis {k} before entries 1, 3, …"
        yield Move("places", how, lambda a: np.take(a, apart, k))
        how = f"with its halves along axis {k} interleaved"
        yield Move("places", how, lambda a: np.take(a, np.argsort(apart), k))
    for word, kept in (("first", 0), ("last", size - 1)):
        only = f"zero but for its {word} entry along axis {k}"
        yield Move("part", only, lambda a, e=kept: a * _one_of(a.shape, k, e))
        without = f"zero in its {word} entry along axis {k}"
        yield Move("part", without, lambda a, e=kept: a * ~_one_of(a.shape, k, e))
        same = f"repeated from its {word} entry along axis {k}"
        yield Move("part", same, lambda a, e=kept: np.take(a, [e], k) + 0 * a)
    yield Move("axis", f"accumulated along axis {k}", lambda a: np.cumsum(a, k))
    back = f"accumulated backwards along axis {k}"
    yield Move("axis", back, lambda a: np.flip(np.cumsum(np.flip(a, k), k), k))
    yield Move("axis", f"summed along axis {k}", lambda a: np.sum(a, k, keepdims=True) + 0 * a)
    yield Move("axis", f"averaged along axis {k}", lambda a: np.mean(a, k, keepdims=True) + 0 * a)
    yield Move("axis", f"centred along axis {k}", lambda a: a - np.mean(a, k, keepdims=True))


def _one_of(shape: tuple[int, ...], axis: int, entry: int) -> Array:
    return np.indices(shape)[axis] == entry


def _shifted(a: Array, axis: int, step: int) -> Array:
    out = np.roll(a, step, axis).copy()
    out[(slice(None),) * axis + (slice(None, step) if step > 0 else slice(step, None),)] = 0
    return out


# A form of a quantity, as it reads with the quantity's name.
FORMS: dict[str, Callable[[Array], Array]] = {
    "{}": lambda q: q,
    "{}²": lambda q: q * q,
    "{}³": lambda q: q * q * q,
    "(1 − {})": lambda q: 1 - q,
    "(1 + {})": lambda q: 1 + q,
    "(1 − {})²": lambda q: (1 - q) ** 2,
    "(1 + {})²": lambda q: (1 + q) ** 2,
    "(1 − {}²)": lambda q: 1 - q * q,
    "(1 + {}²)": lambda q: 1 + q * q,
    "{0}·(1 − {0})": lambda q: q * (1 - q),
    "(1 − {0})/(1 + {0})": lambda q: (1 - q) / (1 + q),
    "√{}": np.sqrt,
    "exp({})": np.exp,
    "|{}|": np.abs,
    "sign({})": np.sign,
    "(1 + |{}|)": lambda q: 1 + np.abs(q),
    "(1 + exp({}))": lambda q: 1 + np.exp(q),
    "sin({})": np.sin,
    "cos({})": np.cos,
    "log({})": np.log,
    "tanh({})": np.tanh,
}


# Of an operation of several inputs, the others would be a coincidence.
_FEW = frozenset(["{}", "{}²", "√{}", "exp({})", "log({})", "|{}|", "sign({})"])


def forms(name: str, *, few: bool = False) -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Each form of a quantity, and one divided by it, in words."""
    for text, form in FORMS.items():
        if few and text not in _FEW:
            continue
        yield text.format(name), form
        if not text.startswith("sign"):
            yield f"1/{text.format(name)}", lambda q, f=form: 1 / f(q)
