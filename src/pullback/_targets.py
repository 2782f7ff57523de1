"""Targets of an override: what they may be, when two are the same, and how they read in messages."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from pullback._bind import name_of
from pullback._rule import DEFAULT, INPUT_OFFERS, OVERRIDE_OFFERS, Rule, unscaled
from pullback.errors import RuleSignatureError, TargetError


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


PublicName: TypeAlias = Callable[[Any], "str | None"]


def entries_of(rules: Rules, public_name: PublicName) -> tuple[Entry, ...]:
    """The lines of an override; the engine knows the public names of its targets."""
    pairs = list(rules.items()) if isinstance(rules, Mapping) else list(rules)
    if not pairs:
        raise TargetError(
            "an override needs at least one target. Write `pb.override({target: rule})`."
        )
    entries: list[Entry] = []
    for index, (target, rule) in enumerate(pairs):
        label = label_of(target, public_name)
        entries.append(Entry(index, target, label, rule_of(rule, label)))
    refuse_twice(entries, [target_key(entry.target) for entry in entries])
    return tuple(entries)


def refuse_twice(entries: Sequence[Entry], meanings: Sequence[Any]) -> None:
    """Refuse two lines that mean the same: only one of their rules could have an effect."""
    first: dict[Any, Entry] = {}
    for entry, meaning in zip(entries, meanings, strict=True):
        other = first.setdefault(meaning, entry)
        if other is not entry:
            same = entry.label == other.label
            names = entry.label if same else f"{entry.label}, the same as {other.label},"
            raise TargetError(
                f"{names} is a target twice, with the rules {other.rule} and {entry.rule}; only one can have an "
                "effect. Keep one, narrow one of them with `pb.inside(part, target)`, or, to have one rule call the "
                "other as its `original`, open two overrides one inside the other."
            )


def rule_of(rule: Any, label: str) -> Rule:
    """A rule, also out of a list of one rule per input."""
    if isinstance(rule, (list, tuple)):
        return Rule(PerInput(rule), OVERRIDE_OFFERS)
    if rule is None or rule is DEFAULT:
        raise RuleSignatureError(
            f"the rule for {label} is {rule!r}. Write a function of the upstream gradient; "
            "one that stops it is `def stop(dy): return None`."
        )
    return Rule(rule, OVERRIDE_OFFERS)


class PerInput:
    """One rule per input, with `DEFAULT` or `None` in place of a rule."""

    def __init__(self, rules: Sequence[Any]) -> None:
        self.rules = [r if r is None or r is DEFAULT else Rule(r, INPUT_OFFERS) for r in rules]
        self.__name__ = f"[{', '.join(_rule_text(r) for r in self.rules)}]"
        given = [r for r in self.rules if isinstance(r, Rule)]
        if any(r.unscaled for r in given):
            unscaled(self)
        if given:
            self.__wrapped__ = given[0].function  # messages name its file and line
        requested = {"original"} if DEFAULT in self.rules else set[str]()
        keywords = requested.union(*(r.requested for r in given))
        upstream = inspect.Parameter("upstream", inspect.Parameter.VAR_POSITIONAL)
        named = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in sorted(keywords)]
        self.__signature__ = inspect.Signature([upstream, *named])

    def __call__(self, *upstream: Any, **offers: Any) -> list[Any]:
        """One gradient per input."""
        return [r(upstream, offers) if isinstance(r, Rule) else r for r in self.rules]

    def rule_of_input(self, index: int, name: str) -> str | None:
        """The rule for an input, for messages."""
        del name
        rule = self.rules[index] if index < len(self.rules) else None
        return str(rule) if isinstance(rule, Rule) else None


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


def label_of(target: Any, public_name: PublicName) -> str:
    """A target as it reads in messages."""
    if isinstance(target, Inside):
        return f"{label_of(target.target, public_name)} inside {label_of(target.part, public_name)}"
    if isinstance(target, Where):
        return f"where {name_of(target.predicate)}"
    if isinstance(target, str):
        return repr(target)
    if isinstance(target, re.Pattern):
        return f"names like {target.pattern!r}"
    public = public_name(target)
    if public:
        return public
    if isinstance(target, type) or hasattr(target, "__qualname__"):
        module = getattr(target, "__module__", None)
        prefix = "" if module in (None, "__main__", "builtins") else f"{module}."
        return f"{prefix}{getattr(target, '__qualname__', '')}"
    name = getattr(target, "name", None)
    return f"{type(target).__name__} {name!r}" if isinstance(name, str) else name_of(target)
