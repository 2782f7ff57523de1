"""Which functions under `tf.custom_gradient` run, and with what: the one place that every call of them goes through."""
# pyright: reportPrivateUsage=false

import contextlib
from collections.abc import Callable, Generator
from typing import Any

from tensorflow.python.ops import custom_gradient as _custom_gradient

Seen = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


@contextlib.contextmanager
def custom_gradients_seen(seen: Seen) -> Generator[None]:
    """Call `seen(function, args, kwargs)` before each call in eager code of a function that was decorated."""
    run = _custom_gradient._eager_mode_decorator

    def run_and_tell(f: Any, args: Any, kwargs: Any) -> Any:
        seen(f, tuple(args), dict(kwargs))
        return run(f, args, kwargs)

    _custom_gradient._eager_mode_decorator = run_and_tell
    try:
        yield
    finally:
        _custom_gradient._eager_mode_decorator = run
