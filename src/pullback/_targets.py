"""Targets of an override: what they may be, how they are told apart, and how they read in messages."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pullback._bind import name_of
from pullback._rule import DEFAULT, Rule, mentions
from pullback.errors import RuleSignatureError, TargetError

RULE_OFFERS = ("inputs", "outputs", "original", "attrs", "variables", "op")
_PER_INPUT_OFFERS = ("inputs", "outputs", "original", "attrs", "op")


@dataclasses.dataclass(frozen=True)
class Where:
    """Every op for which a predicate holds; made by `pb.where`."""

    predicate: Callable[[Any], bool]


@dataclasses.dataclass(frozen=True, eq=False)
class Inside:
    """A target, but only where it runs inside a part of the program; made by `pb.inside`."""

    part: Any
    target: Any


@dataclasses.dataclass(frozen=True)
class Entry:
    """One line of an override: a target, the rule for it, and its place in the order given."""

    index: int
    target: Any
    label: str
    rule: Rule

    @functools.cached_property
    def key(self) -> tuple[Any, ...]:
        """Equal for lines that mean the same."""
        return (target_key(self.target), ById(self.rule.function))

    @functools.cached_property
    def wishes(self) -> frozenset[str]:
        """What must be kept for the rule: what it asks for, and the original where it may return `DEFAULT`."""
        more = {"original"} if mentions(self.rule.function, DEFAULT) else frozenset[str]()
        return self.rule.wants | more


class ById:
    """Any object as a key: equal only to itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


Rules: TypeAlias = "Mapping[Any, Any] | Sequence[tuple[Any, Any]]"


def where(predicate: Callable[[Any], bool]) -> Where:
    """Target every op for which the predicate holds.

    The predicate gets a `Place`: `name`, `type`, `layer` and `source` of the op.

    >>> import pullback as pb
    >>> pb.where(lambda op: op.type == "Relu" and op.layer == "block5")
    Where(predicate=<function <lambda> at ...>)
    """
    if not callable(predicate):
        raise TargetError(
            f"pb.where takes a function of an op; got {predicate!r}. "
            'Write `pb.where(lambda op: op.type == "Relu")`.'
        )
    return Where(predicate)


def inside(part: Any, target: Any) -> Inside:
    """Narrow a target to a layer, a layer class, a function, or a name (regular expression).

    >>> import re
    >>> import pullback as pb
    >>> pb.inside(re.compile("encoder.*"), "Relu")
    Inside(part=re.compile('encoder.*'), target='Relu')
    """
    if isinstance(part, (str, bytes)):
        raise TargetError(
            f"pb.inside takes a layer, a layer class, a function or a compiled regular expression over names; "
            f"got the string {part!r}. Write `pb.inside(re.compile({part!r}), ...)`."
        )
    return Inside(part, target)


def entries_of(rules: Rules, public_name: Callable[[Any], str | None]) -> tuple[Entry, ...]:
    """The lines of an override, the narrower targets first."""
    pairs = list(rules.items()) if isinstance(rules, Mapping) else list(rules)
    if not pairs:
        raise TargetError(
            "an override needs at least one target. Write `pb.override({tf.nn.relu: rule})`."
        )
    return tuple(
        Entry(index, target, public_name(target) or label_of(target), rule_of(rule, target))
        for index, (target, rule) in enumerate(pairs)
    )


def rule_of(rule: Any, target: Any) -> Rule:
    """A rule, also out of a list of one rule per input."""
    if isinstance(rule, (list, tuple)):
        return Rule(PerInput(rule), RULE_OFFERS)
    if rule is None or rule is DEFAULT:
        raise RuleSignatureError(
            f"the rule for {label_of(target)} is {rule!r}. Write a function of the upstream gradient; "
            "one that stops it is `def stop(dy): return None`."
        )
    return Rule(rule, RULE_OFFERS)


class PerInput:
    """One rule per input, with `DEFAULT` or `None` in place of a rule."""

    def __init__(self, rules: Sequence[Any]) -> None:
        self.rules = [r if r is None or r is DEFAULT else Rule(r, _PER_INPUT_OFFERS) for r in rules]
        self.__name__ = f"[{', '.join(_rule_text(r) for r in self.rules)}]"

    def __call__(
        self,
        *upstream: Any,
        inputs: Any,
        outputs: Any,
        original: Any,
        attrs: Any = None,
        op: Any = None,
    ) -> list[Any]:
        """One gradient per input."""
        offers = {
            "inputs": inputs,
            "outputs": outputs,
            "original": original,
            "attrs": attrs,
            "op": op,
        }
        return [r(upstream, offers) if isinstance(r, Rule) else r for r in self.rules]


def _rule_text(rule: Any) -> str:
    return rule.name if isinstance(rule, Rule) else repr(rule)


def narrowest_first(entries: Sequence[Entry]) -> list[Entry]:
    """In the order in which they are tried on the same op."""
    return sorted(entries, key=_breadth)


def _breadth(entry: Entry) -> int:
    if isinstance(entry.target, Inside):
        return 0
    return 1 if isinstance(entry.target, (Where, re.Pattern)) else 2


def target_key(target: Any) -> Any:
    """A hashable stand-in that is equal for targets that mean the same."""
    if isinstance(target, Inside):
        return ("inside", target_key(target.part), target_key(target.target))
    if isinstance(target, Where):
        return ("where", ById(target.predicate))
    if isinstance(target, (str, re.Pattern)):
        return target
    return ById(target)


def label_of(target: Any) -> str:
    """A target as it reads in messages."""
    if isinstance(target, Inside):
        return f"{label_of(target.target)} inside {label_of(target.part)}"
    if isinstance(target, Where):
        return f"where {name_of(target.predicate)}"
    if isinstance(target, str):
        return repr(target)
    if isinstance(target, re.Pattern):
        return f"names like {target.pattern!r}"
    module = getattr(target, "__module__", "") or ""
    if isinstance(target, type) or hasattr(target, "__qualname__"):
        return f"{_short(module)}{getattr(target, '__qualname__', '')}"
    name = getattr(target, "name", None)
    return f"{type(target).__name__} {name!r}" if isinstance(name, str) else name_of(target)


def _short(module: str) -> str:
    root = module.partition(".")[0]
    short = {"tensorflow": "tf.", "keras": "keras.", "__main__": "", "builtins": ""}
    return short.get(root, f"{module}." if module else "")
