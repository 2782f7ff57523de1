"""Targets as data and text, and what engines without overrides say."""

import re

import pytest

import pullback as pb
from pullback._listing import Target, Targets
from pullback.errors import UnsupportedError
from tests.core.fake_engine import Array, FakeEngine, sine

CONVS = [f'model.get_layer("conv{i}_{j}")' for i in range(3) for j in range(4)]
EXAMPLE = Targets(
    "net",
    (
        Target("function", "tf.nn.relu", sine, 12, tuple(f"conv{i}" for i in range(12))),
        Target("op", '"Relu"', "Relu", 12, ("a", "b", "c")),
        *(Target("layer", expression, None) for expression in CONVS),
        Target("layer", "model.blocks[0]", None),
        Target("layer", "model.blocks[1]", None, overridden=True),
    ),
)


def test_as_text() -> None:
    lines = [line.split() for line in str(EXAMPLE).splitlines()]
    assert " ".join(lines[0]) == ("What can be overridden in net: 1 function, 1 op type, 14 layers")
    assert lines[1:] == [
        ["functions:"],
        ["tf.nn.relu", "12", "x", "in", "conv*"],
        ["op", "types:"],
        ['"Relu"', "12", "x", "in", "a,", "b,", "…"],
        ["layers:"],
        ['re.compile(r"conv\\d+_\\d+")', "12", "x", "12", "layers"],
        ["model.blocks[0]", "1", "x"],
        ["model.blocks[1]", "1", "x", "(overridden)"],
    ]


def test_what_is_printed_for_many_layers_means_all_of_them() -> None:
    (word,) = re.findall(r"re\.compile\(.*?\)", str(EXAMPLE))
    pattern = eval(word, {"re": re})
    names = [re.findall(r'"(.*)"', expression)[0] for expression in CONVS]
    assert all(map(pattern.fullmatch, names))


def test_long_lists_end_in_a_number() -> None:
    rows = tuple(Target("op", f'"{chr(65 + i)}"', None) for i in range(25))
    assert "… and 5 more" in str(Targets("f", rows))


def test_rows_of_one_kind() -> None:
    assert [row.expression for row in EXAMPLE.of("op")] == ['"Relu"']
    assert len(EXAMPLE) == len(list(EXAMPLE)) == 16


def test_an_engine_without_overrides_says_why(engine: FakeEngine) -> None:
    with pytest.raises(UnsupportedError, match=re.escape(engine.cannot["override"])):
        pb.targets(sine, Array([1.0]))
