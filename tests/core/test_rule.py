"""What a rule is: its wishes, its name and place, and the errors for what it cannot be."""

import functools
import pickle

import pytest

from pullback import DEFAULT
from pullback._rule import OFFERED, Rule, location_of, mentions
from pullback.errors import RuleSignatureError


def plain(dy):
    return dy


def greedy(dy, *, inputs, outputs, original, attrs, variables, op):
    return dy, inputs, outputs, original, attrs, variables, op


def stock_style(dy, variables=None):
    return dy, variables


def own_keyword(dy, *, inputs, scale=3.0):
    return dy * scale, inputs


def two(dz, dw):
    return dz, dw


def any_number(*upstream):
    return upstream


def defaulting(dy):
    return DEFAULT


class Callable:
    def __call__(self, dy, *, outputs):
        return dy, outputs

    def method(self, dy, *, inputs):
        return dy, inputs


@pytest.mark.parametrize(
    "function, wants",
    [
        (plain, set()),
        (greedy, set(OFFERED)),
        (stock_style, {"variables"}),
        (own_keyword, {"inputs"}),
        (Callable(), {"outputs"}),
        (Callable().method, {"inputs"}),
        (functools.partial(own_keyword, scale=2.0), {"inputs"}),
        (lambda dy: dy, set()),
        (any_number, set()),
    ],
)
def test_a_rule_asks_by_naming_keywords(function, wants):
    assert Rule(function).requested == wants


def test_a_rule_gets_what_it_asks_for_and_nothing_else():
    offers = dict.fromkeys(OFFERED, "offered")
    assert Rule(plain)([1], offers) == 1
    assert Rule(own_keyword)([2.0], offers) == (6.0, "offered")
    assert Rule(stock_style)([2.0], {}) == (2.0, None)


def test_what_it_cannot_do_without():
    assert "variables" in Rule(greedy).required
    assert "variables" not in Rule(stock_style).required


def test_an_unknown_wish_lists_what_there_is():
    def mistaken(dy, *, inptus):
        return dy

    with pytest.raises(
        RuleSignatureError, match="asks for `inptus`, which does not exist"
    ) as caught:
        Rule(mistaken)
    assert "test_rule.py:" in str(caught.value)
    assert all(f"`{name}`" in str(caught.value) for name in OFFERED)


def test_a_wish_that_is_not_on_offer_here():
    with pytest.raises(RuleSignatureError, match="asks for `attrs`, which is not on offer here"):
        Rule(greedy, ("inputs", "outputs", "original", "variables", "op"))


@pytest.mark.parametrize("value", [3, "rule", None, [plain]])
def test_a_rule_is_callable(value):
    with pytest.raises(RuleSignatureError, match=r"Write `def rule\(dy\): return"):
        Rule(value)


@pytest.mark.parametrize(
    "function, count",
    [(plain, 1), (two, 2), (any_number, 0), (any_number, 5), (greedy, 1), (stock_style, 1)],
)
def test_a_rule_that_takes_this_many_upstreams(function, count):
    rule = Rule(function)
    rule.check_upstream(count)
    rule.check_upstream(count)


@pytest.mark.parametrize(
    "function, count, message",
    [
        (plain, 2, r"called with 2 upstream gradients.*`plain\(dy\)`.*def plain\(dy0, dy1\)"),
        (two, 1, r"called with 1 upstream gradient, one per output.*def two\(dy\)"),
        (two, 3, "called with 3 upstream gradients"),
        (lambda: 1, 1, r"written as `<lambda>\(\)`. Write `def rule\(dy\)"),
    ],
)
def test_a_rule_that_does_not(function, count, message):
    with pytest.raises(RuleSignatureError, match=message):
        Rule(function).check_upstream(count)


def test_a_positional_wish_does_not_take_an_upstream():
    with pytest.raises(RuleSignatureError, match="called with 2 upstream gradients"):
        Rule(stock_style).check_upstream(2)


def test_rules_of_the_same_code_are_told_apart_by_what_is_on_offer():
    assert Rule(own_keyword, ("inputs",)).requested == {"inputs"}
    with pytest.raises(RuleSignatureError, match="asks for `inputs`, which is not on offer here"):
        Rule(own_keyword, ("outputs",))
    assert Rule(own_keyword, ("inputs",)).requested == {"inputs"}


def test_name_and_place():
    assert repr(Rule(plain)).startswith("plain (")
    for function in (plain, functools.partial(plain), Callable(), Callable().method):
        assert "test_rule.py:" in location_of(function)
    assert location_of(len) == "built in"


def test_default_is_one_object_that_says_its_name():
    assert repr(DEFAULT) == "pullback.DEFAULT"
    assert pickle.loads(pickle.dumps(DEFAULT)) is DEFAULT


def test_a_mention_is_seen_in_globals_modules_and_cells():
    import pullback

    def by_module(dy):
        return pullback.DEFAULT

    cell = DEFAULT

    def by_cell(dy):
        return cell

    assert all(mentions(f, DEFAULT) for f in (defaulting, by_module, by_cell))
    assert mentions(functools.partial(defaulting), DEFAULT)
    assert not mentions(plain, DEFAULT)


def test_a_cell_that_is_not_filled_is_no_mention():
    def rule(dy):
        return later

    assert not mentions(rule, DEFAULT)
    later = 0


def test_a_mention_in_a_helper_inside_the_rule_is_seen():
    def rule(dy):
        def helper():
            return DEFAULT

        return helper()

    def comprehension(dz):
        return [DEFAULT for _ in range(2)]

    assert mentions(rule, DEFAULT)
    assert mentions(comprehension, DEFAULT)


def test_a_mention_in_an_object_with_call_is_seen():
    class Defaulting:
        def __call__(self, dy):
            return DEFAULT

    assert mentions(Defaulting(), DEFAULT)
