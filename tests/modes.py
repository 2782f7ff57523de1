"""The engine's table of modes, and how gradients are compared."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pullback.engines.tensorflow.modes import MODES as MODES
from pullback.engines.tensorflow.modes import SECOND_ORDER as SECOND_ORDER
from pullback.engines.tensorflow.modes import Array, Mode
from pullback.engines.tensorflow.modes import with_tape as with_tape

FORWARD = [name for name, mode in MODES.items() if mode.is_forward]
BACKWARD = [name for name in MODES if name not in FORWARD]
# Those without forward mode, which runs a function once for each entry of its arguments: for functions of many.
BY_TAPES = [name for name in SECOND_ORDER if "forward" not in name]
eager = MODES["eager"]


def assert_gradients(
    found: Sequence[Array | None], wanted: Sequence[Any], rtol: float = 1e-5
) -> None:
    """Compare gradients with values from mathematics: `None` is `None` only, and shapes are equal."""
    assert [g is None for g in found] == [w is None for w in wanted], f"{found}, wanted {wanted}"
    for g, w in zip(found, wanted, strict=True):
        if g is not None:
            assert g.shape == np.shape(w)
            np.testing.assert_allclose(g, np.asarray(w, np.float64), rtol=rtol, atol=1e-6)


def assert_in_mode(
    mode: Mode, function: Callable[..., Any], xs: Sequence[Any], wanted: Sequence[Any]
) -> None:
    """Run a function in a mode and compare; zeros are wanted for `None` where the mode cannot give `None`."""
    zeros = [np.zeros(x.shape) if w is None else w for x, w in zip(xs, wanted, strict=True)]
    assert_gradients(mode(function, xs), wanted if mode.gives_none else zeros)
