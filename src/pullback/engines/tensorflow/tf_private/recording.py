"""Which functions run, those under `tf.custom_gradient` and traced ones: by the one place that every call passes."""
# pyright: reportPrivateUsage=false

import contextlib
import threading
from collections.abc import Callable
from typing import Any

from tensorflow.python.eager import context as _context
from tensorflow.python.ops import custom_gradient as _custom_gradient

from pullback.extend import Replacement

# TensorFlow's own decorator: a program may have put ours in its public place.
custom_gradient: Any = _custom_gradient.custom_gradient
Seen = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


def custom_gradients_seen(seen: Seen) -> contextlib.AbstractContextManager[Any]:
    """Call `seen(function, args, kwargs)` before each eager call, in this thread, of a function that was decorated."""
    thread = threading.get_ident()

    def telling(run: Callable[..., Any]) -> Callable[..., Any]:
        def run_and_tell(f: Any, args: Any, kwargs: Any) -> Any:
            if threading.get_ident() == thread:
                seen(f, tuple(args), dict(kwargs))
            return run(f, args, kwargs)

        return run_and_tell

    return Replacement(_custom_gradient, "_eager_mode_decorator", telling)


def calls_seen(see: Callable[[str], None]) -> contextlib.AbstractContextManager[Any]:
    """Let a function see the name of every traced function that is called at once: op callbacks are not told."""

    def telling(call: Callable[..., Any]) -> Callable[..., Any]:
        def call_function(self: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            see(name.decode() if isinstance(name, bytes) else name)
            return call(self, name, *args, **kwargs)

        return call_function

    return Replacement(_context.Context, "call_function", telling)
