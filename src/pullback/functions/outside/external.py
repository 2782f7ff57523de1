"""Code of another world as a function of arrays: NumPy, SciPy, C++, a simulator, with a rule or differences behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from numbers import Number
from typing import Any, Literal, NamedTuple

import numpy as np

from pullback._bind import Inputs, name_of, signature_of
from pullback._define import custom_gradient
from pullback._names import reference_to
from pullback._rule import JVP_OFFERS, Rule
from pullback._tree import flatten
from pullback.errors import ArgumentError, ExternalError
from pullback.functions._arguments import arrays_for
from pullback.functions.outside.differences import differences, listed
from pullback.functions.outside.results import no_rows, outs_of, specs_of

Batch = Literal["loop", "threads", "whole"]
_BATCHES = ("loop", "threads", "whole")
_RULES = ("differences",)
_DIFFERENTIABLE = {"floating", "complex"}


class _Settings(NamedTuple):
    name: str
    fn: Callable[..., Any]
    rule: Any
    out: Any
    batch: Batch
    timeout: float | None
    step: float | None


def external(
    fn: Callable[..., Any],
    *,
    rule: Callable[..., Any] | Literal["differences"] | None = None,
    out: Any = None,
    batch: Batch = "whole",
    timeout: float | None = None,
    step: float | None = None,
) -> Callable[..., Any]:
    """A function of NumPy arrays as a function of tensors, in eager code, graphs and functional models.

    Use it to train through SciPy, a simulator or a library in C++. `fn` gets and returns NumPy arrays. `rule` is a rule
    like any other, but of NumPy arrays: a function of the upstream gradient of each result that asks for `inputs` and
    `outputs` by name, and returns one gradient for each input. "differences" takes central differences of `fn`, two
    calls for each number of the inputs, of relative length `step`; `None` means that no gradient is to flow, and is
    said so when one is asked for. A rule returns `None` for an input into which nothing flows; in a graph, which is
    made before the rule has run, that is zeros.

    `out` is the shape of the result, or `(shape, dtype)`, or a list of these for several results; where it is not
    given, the result is like the first input. Results are cast to its dtype, where that loses digits only: float64 into
    float32, but not floating-point numbers into whole ones, nor complex ones into real ones, which is an error. With
    `batch="loop"` the function sees one example at a time, without the first axis, `out` is that of one example;
    `"threads"` runs them at once (for code that lets Python go on meanwhile). After `timeout` seconds a call is given
    up with an error. In programs compiled by XLA, and in exported models, no Python can run: both are errors that say
    so. So is forward mode through a tf.function, which transposes the rule; around code that runs at once it works.

    >>> import numpy as np, pullback as pb, tensorflow as tf
    >>> sinc = pb.functions.external(np.sinc, rule="differences")
    >>> x = tf.constant([0.5, 1.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = sinc(x)
    >>> print([f"{g:.2f}" for g in tape.gradient(y, x)])
    ['-1.27', '-1.00']
    """
    if not callable(fn):
        raise ArgumentError(
            f"pb.functions.external got fn={fn!r}; wanted a function of NumPy arrays."
        )
    if not (rule is None or callable(rule) or rule in _RULES):
        raise ArgumentError(
            f"pb.functions.external got rule={rule!r}; wanted a rule, 'differences' or None."
        )
    if batch not in _BATCHES:
        raise ArgumentError(
            f"pb.functions.external got batch={batch!r}; wanted 'loop', 'threads' or 'whole'."
        )
    for option, value in (("timeout", timeout), ("step", step)):
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        if not (value is None or number):
            raise ArgumentError(
                f"pb.functions.external got {option}={value!r}; wanted a positive number or None."
            )
    rule = Rule(rule, JVP_OFFERS) if callable(rule) else rule
    settings = _Settings(name_of(fn), fn, rule, outs_of(out), batch, timeout, step)
    return _External(settings)


class _External:
    """What `external` returns: call it like the function itself."""

    def __init__(self, settings: _Settings) -> None:
        self._settings = settings
        self.__name__ = settings.name
        self.__doc__ = settings.fn.__doc__
        # Where files look for it: found there if it has taken the place of its function, as by a decorator.
        self.__module__, self.__qualname__ = reference_to(settings.fn)
        # Not `_call`: a tf.function copies the attributes of an object over its own, and has one of that name.
        self._differentiable = custom_gradient(self._run, jvp=self._pushed)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Run the function."""
        settings = self._settings
        if not args and not named:
            raise ArgumentError(
                f"{settings.name} under pb.functions.external got no arguments; wanted arrays."
            )
        others = [f"{name}={value!r}" for name, value in named.items()]
        others += [repr(a) for a in args if not _is_numeric(a)]
        if others:
            raise ArgumentError(
                f"{settings.name} under pb.functions.external got {', '.join(others)}; wanted arrays and numbers, by "
                "position. Fix what else it takes before: pb.functions.external(functools.partial(fn, option=...))."
            )
        xp = arrays_for(*args)
        xp.require_python(f"{settings.name} under pb.functions.external")
        if xp.is_symbolic(args):
            return xp.as_node(self, *args)
        inputs = [xp.asarray(a) for a in args]
        kinds = map(xp.kind_of, specs_of(xp, settings.out, settings.batch, inputs))
        if settings.rule is None and not _DIFFERENTIABLE.intersection(kinds):
            return self._run(*inputs)[0]
        return self._differentiable(*inputs)

    def _run(self, *inputs: Any) -> Any:
        xp, settings = arrays_for(*inputs), self._settings
        outs = specs_of(xp, settings.out, settings.batch, inputs)
        found = xp.python_call(_Forward(settings), inputs, outs, settings.name)
        single = len(outs) == 1

        if isinstance(settings.rule, Rule):
            settings.rule.check_upstream(len(outs))

        def external_pullback(*upstream: Any) -> Any:
            return self._pulled_back(xp, inputs, found, upstream)

        return (found[0] if single else tuple(found)), external_pullback

    def _pulled_back(
        self, xp: Any, inputs: Sequence[Any], outputs: Any, upstream: Sequence[Any]
    ) -> Any:
        settings = self._settings
        if settings.rule is None:
            raise _no_rule(settings)
        whole = [
            xp.zeros_like(y) if u is None else u for u, y in zip(upstream, outputs, strict=True)
        ]
        taking = [i for i, x in enumerate(inputs) if xp.kind_of(x) in _DIFFERENTIABLE]
        specs = [xp.spec_like(inputs[i]) for i in taking]
        backward = _Backward(settings, len(outputs), taking)
        found = iter(self._gradients(xp, backward, [*whole, *outputs, *inputs], specs))
        gradients = [next(found) if i in taking else None for i in range(len(inputs))]
        for i in backward.left_out - backward.reached:
            gradients[i] = None
        return gradients[0] if len(gradients) == 1 else tuple(gradients)

    def _pushed(self, *tangents: Any, inputs: Any) -> Any:
        """The tangents of the results: forward mode."""
        settings, given = self._settings, _spread(inputs)
        if settings.rule is None:
            raise _no_rule(settings)
        xp = arrays_for(*given)
        outs = specs_of(xp, settings.out, settings.batch, given)
        taking = [i for i, x in enumerate(given) if xp.kind_of(x) in _DIFFERENTIABLE]
        along = [
            t if t is not None else xp.zeros_like(x) for t, x in zip(tangents, given, strict=True)
        ]
        forward = _Tangents(settings, len(given), taking)
        arrays = [*(along[i] for i in taking), *given]
        moving = [xp.kind_of(out) in _DIFFERENTIABLE for out in outs]
        wide = [
            out if moves else xp.spec_of(out.shape, "float64")
            for out, moves in zip(outs, moving, strict=True)
        ]
        found = xp.python_call(forward, arrays, wide, settings.name)
        found = [t if moves else None for t, moves in zip(found, moving, strict=True)]
        return found[0] if len(found) == 1 else tuple(found)

    def _gradients(self, xp: Any, backward: Any, given: Sequence[Any], specs: Any) -> Any:
        """The gradients, of which no gradient can be taken: a rule in NumPy has none."""
        title = f"the rule of {self._settings.name}"

        def no_second() -> ExternalError:
            return ExternalError(
                f"{title} under pb.functions.external is differentiated once more, and a rule in NumPy has no "
                "derivative. Write the function in the framework's operations, or give its gradient as another "
                "pb.functions.external in pb.with_gradient."
            )

        @custom_gradient
        def rule_in_numpy(*given: Any) -> Any:
            def refused(*_: Any) -> Any:
                # In a graph when it runs: maps over rows look at gradients that nobody asks for.
                like = [xp.zeros_like(x) for x in given]
                return tuple(xp.with_failure(like, xp.asarray(0.0) > 0, no_second, [], "raise"))

            return tuple(xp.python_call(backward, given, specs, title)), refused

        return rule_in_numpy(*given)


class _Forward:
    """The forward call on arrays of NumPy."""

    def __init__(self, settings: _Settings) -> None:
        self.settings = settings

    def __call__(self, *arrays: Any) -> list[Any]:
        """One array for each result."""
        return _on_batch(
            self.settings, self._one, arrays, lambda: no_rows(self.settings.out, arrays[0])
        )

    def _one(self, *arrays: Any) -> list[Any]:
        found = listed(self.settings.fn(*arrays))
        if any(each is None for each in found):
            raise ExternalError(
                f"{self.settings.name} under pb.functions.external returned None; wanted an array for each result. "
                "Let it end in return."
            )
        return found


class _Backward:
    """The rule, or differences, on arrays of NumPy: upstreams, outputs, then inputs."""

    def __init__(self, settings: _Settings, outs: int, taking: Sequence[int]) -> None:
        self.settings, self.outs, self.taking = settings, outs, taking
        # Which inputs a gradient and which ones `None` was returned for, known once the rule has run.
        self.reached: set[int] = set()
        self.left_out: set[int] = set()

    def __call__(self, *arrays: Any) -> list[Any]:
        """One array for each input that takes a gradient."""
        inputs = arrays[2 * self.outs :]
        return _on_batch(
            self.settings, self.one, arrays, lambda: [np.zeros_like(inputs[i]) for i in self.taking]
        )

    def one(self, *arrays: Any) -> list[Any]:
        """The same for one example."""
        settings, outs = self.settings, self.outs
        upstream, outputs, inputs = arrays[:outs], arrays[outs : 2 * outs], arrays[2 * outs :]
        if settings.rule == "differences":
            return differences(settings.fn, upstream, inputs, self.taking, settings.step)
        offers = {
            "inputs": Inputs(_names(settings.fn, len(inputs)), inputs),
            "outputs": outputs[0] if outs == 1 else outputs,
        }
        offers = {name: offers[name] for name in settings.rule.requested}
        gradients = listed(settings.rule(upstream, offers))
        if len(gradients) == len(inputs) != len(self.taking):
            gradients = [gradients[i] for i in self.taking]
        if len(gradients) != len(self.taking):
            raise ExternalError(
                f"the rule of {self.settings.name} returned {len(gradients)} gradients; wanted one for each of the "
                f"{len(self.taking)} inputs of a floating dtype."
            )
        for i, gradient in zip(self.taking, gradients, strict=True):
            (self.left_out if gradient is None else self.reached).add(i)
        wanted = [inputs[i] for i in self.taking]
        return [
            np.zeros_like(x) if g is None else _like_input(self.settings, g, x)
            for g, x in zip(gradients, wanted, strict=True)
        ]


class _Tangents:
    """What a rule, which is linear in its upstreams, says of tangents: its transpose, one unit vector at a time."""

    def __init__(self, settings: _Settings, count: int, taking: Sequence[int]) -> None:
        self.settings, self.count, self.taking = settings, count, taking

    def __call__(self, *arrays: Any) -> list[Any]:
        """One array for each result."""
        first = arrays[len(self.taking)]
        return _on_batch(
            self.settings, self._one, arrays, lambda: no_rows(self.settings.out, first)
        )

    def _one(self, *arrays: Any) -> list[Any]:
        tangents, inputs = arrays[: len(self.taking)], arrays[len(self.taking) :]
        like = listed(self.settings.fn(*inputs))
        rule = _Backward(self.settings, len(like), self.taking)
        found = [np.zeros(np.shape(y)) for y in like]
        for i, result in enumerate(found):
            for place in np.ndindex(*result.shape):
                unit = [np.zeros_like(y) for y in found]
                unit[i][place] = 1.0
                gradients = rule.one(*unit, *like, *inputs)
                result[place] = sum(np.sum(g * t) for g, t in zip(gradients, tangents, strict=True))
        return found


def _is_numeric(value: Any) -> bool:
    """Whether a value is an array of any framework, or is made of numbers."""
    return all(hasattr(v, "dtype") or isinstance(v, Number) for v in flatten(value)[0])


def _spread(inputs: Any) -> list[Any]:
    """The inputs, which are those of one parameter that takes any number of them."""
    return [x for value in inputs for x in (value if isinstance(value, tuple) else (value,))]


def _names(fn: Callable[..., Any], count: int) -> list[str]:
    """The names of the first parameters of a function, as far as it has them."""
    known = list(signature_of(fn).parameters)
    return [known[i] if i < len(known) else f"input {i}" for i in range(count)]


def _no_rule(settings: _Settings) -> ExternalError:
    return ExternalError(
        f"{settings.name} under pb.functions.external has no rule, and its gradient is asked for. Give rule=... or "
        "rule='differences', or put stop_gradient around it."
    )


def _like_input(settings: _Settings, gradient: Any, x: Any) -> Any:
    gradient = np.asarray(gradient)
    if gradient.dtype.kind not in "biufc":
        raise ExternalError(
            f"the rule of {settings.name} returned {gradient.dtype} for an input of {x.dtype}; wanted numbers, or None "
            "where nothing flows."
        )
    if gradient.shape != np.shape(x):
        raise ExternalError(
            f"the rule of {settings.name} returned a gradient of shape {gradient.shape} for an input of shape "
            f"{np.shape(x)}; wanted the shape of the input."
        )
    # As from any rule: into real numbers the real part flows.
    return (gradient if np.iscomplexobj(x) else gradient.real).astype(x.dtype)


def _on_batch(
    settings: _Settings,
    one: Callable[..., list[Any]],
    arrays: Sequence[Any],
    none: Callable[[], list[Any]],
) -> list[Any]:
    """Run for the whole, or for one example after the other, or for all of them at once; no longer than is allowed.

    `none` makes what there is of no examples, for which nothing is run.
    """
    try:
        return _on_rows(settings, one, arrays, none)
    except Exception as error:
        if not isinstance(error, ExternalError):
            error.add_note(f"raised by {settings.name} under pb.functions.external, or by its rule")
        raise


def _on_rows(
    settings: _Settings,
    one: Callable[..., list[Any]],
    arrays: Sequence[Any],
    none: Callable[[], list[Any]],
) -> list[Any]:
    if settings.batch == "whole":
        return _in_time(settings, lambda: one(*arrays))
    lengths = {len(a) if np.ndim(a) else 0 for a in arrays}
    if len(lengths) != 1 or any(not np.ndim(a) for a in arrays):
        raise ExternalError(
            f"{settings.name} under pb.functions.external with batch={settings.batch!r} got inputs of shapes "
            f"{[np.shape(a) for a in arrays]}; wanted one first axis, of examples. Use batch='whole' for others."
        )
    rows = list(zip(*arrays, strict=True))
    if not rows:
        return none()
    if settings.batch == "loop":
        found = _in_time(settings, lambda: [one(*row) for row in rows])
    else:
        with ThreadPoolExecutor() as pool:
            found = _in_time(settings, lambda: list(pool.map(lambda row: one(*row), rows)))
    return [np.stack(parts) for parts in zip(*found, strict=True)]


def _in_time(settings: _Settings, run: Callable[[], Any]) -> Any:
    if settings.timeout is None:
        return run()
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(run).result(settings.timeout)
    except FutureTimeout:
        raise ExternalError(
            f"{settings.name} under pb.functions.external took longer than timeout={settings.timeout:g} seconds. Give "
            "it more time, or find out what it waits for: its thread is left alone, as Python cannot end it."
        ) from None
    finally:
        pool.shutdown(wait=False)
