"""An override as an object: what it holds, and what opening and closing it means.

An `Override` is data: targets, rules, a ledger. Opening it makes an `Activation`, which is put on the stack of the
current context: see `_scope`.
"""

from __future__ import annotations

import copy
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol

from pullback._audit import HARMLESS, Audit, Ledger
from pullback._engine import Engine, engine_of_targets, load
from pullback._scope import Resolved, Stack, enter, leave
from pullback._targets import Entry, Inside, Rules, Where, entries_of
from pullback.errors import PullbackError, UnmatchedOverride, UnreachableOverride


class OverrideEngine(Protocol):
    """What an engine does for overrides; an engine has it as `overrides`."""

    engine: Engine

    def label(self, target: Any) -> str | None:
        """The public name of a target of this framework, if it has one."""
        ...

    def resolve(self, entries: Sequence[Entry]) -> Resolved:
        """The lines in the form in which they are matched, or a `TargetError`."""
        ...

    def current(self) -> Stack | None:
        """The stack of overrides that is in force here; `None` where nothing is overridden."""
        ...

    def is_tracing(self) -> bool:
        """Whether what runs here becomes part of a program that runs later, once or often."""
        ...

    def intercept(self, stack: Stack, undo: ExitStack) -> None:
        """Match what runs in this context with the lines of `stack`, until `undo` is closed."""
        ...

    def apply(self, override: Override, target: Any) -> Any:
        """A function or model that runs under the override."""
        ...

    def export(self, overridden: Any, path: str, **options: Any) -> None:
        """Write a function or model with its gradient to a file."""
        ...

    def similar(self, activation: Activation, entry: Entry) -> str:
        """What ran that looks like the target, as a sentence."""
        ...


class Later(Protocol):
    """A function that takes an override along to when it runs."""

    def is_to_come(self) -> bool:
        """Whether it may still run, now that the block or call is over."""
        ...


class Activation:
    """One opening of an override, with what happened since."""

    def __init__(self, override: Override) -> None:
        self.override = override
        self.ledger = Ledger([override.ledger])
        self.unreachable: str | None = None  # why what did not match could not be reached, if known
        self.seen: dict[str, None] = {}  # the op types that ran
        # Opened where only shapes are worked out: what is in the block will run again, in earnest.
        self.is_rehearsal = False
        self.later: set[Later] = set()  # what takes the override along, and has not run yet
        self._settled = self._over = False

    @property
    def in_force(self) -> bool:
        """Whether it is open here."""
        stack = self.override.engine.current()
        return stack is not None and any(each is self for each in stack.activations)

    def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function under the override, and complain if a target never had an effect."""
        if self.in_force:
            return function(*args, **kwargs)
        result = self.run_part(function, *args, **kwargs)
        self.end()
        return result

    def run_part(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a part of what the override was applied to: not every target need be in it."""
        if self.in_force:
            return function(*args, **kwargs)
        self.is_rehearsal = False
        enter(self)
        try:
            return function(*args, **kwargs)
        finally:
            leave(self.override)

    def end(self, *, is_whole: bool = True) -> None:
        """The block or call is over: complain now, or once what was to run later has run.

        Where only a part of what was overridden has run, that is a warning.
        """
        self._over = True
        is_open = any(each.is_to_come() for each in self.later) and bool(self.verdict())
        if self._settled or self.is_rehearsal or is_open:
            return
        if is_whole:
            self.settle()
        else:
            for problem in self.verdict():
                warnings.warn(f"in a part of what was overridden: {problem}", stacklevel=3)
        self._settled = is_whole

    def has_run(self, function: Later) -> None:
        """What took the override along has run."""
        self.later.discard(function)
        if self._over:
            self.end()

    def verdict(self) -> list[PullbackError]:
        """What to complain about, once the block or call is over."""
        problems: list[PullbackError] = []
        for entry in self.override.entries:
            matches = self.ledger.matches(entry.index)
            if not matches:
                problems.append(self._unmatched(entry))
            elif all(match.hidden_by for match in matches):
                problems.append(
                    UnreachableOverride(
                        f"the rule for {entry.label} has no effect: "
                        f"{'; '.join(sorted({str(m.hidden_by) for m in matches}))}"
                    )
                )
        return problems

    def _unmatched(self, entry: Entry) -> PullbackError:
        if self.unreachable is not None:
            return UnreachableOverride(f"{entry.label} was not overridden: {self.unreachable}")
        return UnmatchedOverride(
            f"{entry.label} did not run here, so its gradient was not changed. "
            f"{self.override.engine.similar(self, entry)} "
            "`pb.targets(model_or_function, *args)` lists what can be overridden there."
        )

    def settle(self) -> None:
        """Raise, or warn about, what had no effect; warn about what had one in some places only."""
        for problem in self.verdict():
            if self.override.strict:
                raise problem
            warnings.warn(str(problem), stacklevel=4)
        for entry in self.override.entries:
            for match in self.ledger.matches(entry.index):
                if match.hidden_by and match.hidden_by not in HARMLESS:
                    many = "one place" if match.count == 1 else f"{match.count} places"
                    where = f"{many}: {match.hidden_by}"
                    warnings.warn(
                        f"the rule for {entry.label} has no effect in {where}", stacklevel=4
                    )


class Override:
    """Targets with their rules. Open it as a block, or apply it to a function or model.

    >>> import tensorflow as tf
    >>> def reverse(dy):
    ...     return -dy
    >>> reversed_relu = Override({tf.nn.relu: reverse})
    >>> x = tf.constant([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = reversed_relu(tf.nn.relu)(x)
    >>> tape.gradient(y, x).numpy().tolist()
    [-1.0, -1.0]
    >>> reversed_relu.audit.rows[0].effective
    1
    """

    def __init__(self, rules: Rules, *, strict: bool = True) -> None:
        self.rules = rules
        self.strict = strict
        self.engine: OverrideEngine = engine_of_targets(_parts(rules)).overrides
        self.entries = entries_of(rules, self.engine.label)
        self.ledger = Ledger()
        self.resolved = self.engine.resolve(self.entries)

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for overrides that do the same."""
        return tuple(entry.key for entry in self.entries)

    @property
    def audit(self) -> Audit:
        """What this override has done so far, in all blocks and calls."""
        return self.ledger.audit([(e.label, str(e.rule)) for e in self.entries])

    def __enter__(self) -> Override:
        """Change the gradient of everything that runs in the block."""
        _refuse_generators(inspect.currentframe())
        enter(Activation(self))
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """End the block; complain if a target had no effect in it."""
        activation = leave(self)
        if kind is None:
            activation.end()

    def __call__(self, target: Any) -> Any:
        """The same function or model with the changed gradient; the one given is left as it is."""
        return self.engine.apply(self, target)

    def __reduce__(self) -> Any:
        """Another one with the same targets and rules, and an audit of its own."""
        return _remake, (self.engine.engine.name, self.rules, self.strict)

    def __deepcopy__(self, memo: dict[int, Any]) -> Override:
        """Targets stay the very objects that they are; rules may have a state of their own."""
        pairs = self.rules.items() if isinstance(self.rules, Mapping) else self.rules
        copies = [(target, copy.deepcopy(rule, memo)) for target, rule in pairs]
        return _remake(self.engine.engine.name, copies, self.strict)

    def __repr__(self) -> str:
        lines = ", ".join(f"{e.label}: {e.rule.name}" for e in self.entries)
        return f"<override of {lines}>"


def _remake(framework: str, rules: Rules, strict: bool) -> Override:
    load(framework)  # a pickle may be all that a process knows of it
    return Override(rules, strict=strict)


def _parts(targets: Iterable[Any]) -> Iterable[Any]:
    for target in targets:
        if isinstance(target, Inside):
            yield from _parts([target.part, target.target])
        elif isinstance(target, tuple):
            yield from _parts(target[:1])
        elif not isinstance(target, (str, Where)):
            yield target


# Frames that drive a generator to its first yield and back as one block, which is what is meant.
_DRIVERS = frozenset({"contextlib", "_pytest.fixtures"})
_GENERATOR = 0x20 | 0x200  # CO_GENERATOR, CO_ASYNC_GENERATOR


def _refuse_generators(frame: Any) -> None:
    """A block in a generator would stay open in whatever runs between its yields."""
    frame = frame.f_back if frame else None
    while frame is not None and frame.f_globals.get("__name__") == "contextlib":
        frame = frame.f_back
    if frame is None or not frame.f_code.co_flags & _GENERATOR:
        return
    driver = frame.f_back.f_globals.get("__name__") if frame.f_back else None
    if driver not in _DRIVERS:
        name = frame.f_code.co_name
        raise UnreachableOverride(
            f"an override was opened as a block in the generator {name} ({frame.f_code.co_filename}:{frame.f_lineno}): "
            "at each yield it would stay open in the code that runs the generator. "
            "Open it around the loop, or apply it to the function that does the work: `pb.override({...})(fn)`."
        )
