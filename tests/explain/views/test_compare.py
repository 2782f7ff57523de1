"""Two flows side by side."""

import dataclasses
import io
import json
from pathlib import Path

import pytest

from pullback.explain.flow import Flow, Place, Rule
from tests.explain.views.flows import Builder, chain, size

GUIDED = Rule("override", "guided_relu", Place("rules.py", 7), "tf.nn.relu")


def ruled(flow: Flow, rule: Rule, type_: str = "Relu") -> Flow:
    nodes = [dataclasses.replace(n, rule=rule) if n.type == type_ else n for n in flow.nodes]
    return dataclasses.replace(flow, nodes=tuple(nodes))


def test_a_flow_is_like_itself() -> None:
    flow = chain([1.0, 2.0])
    found = flow.compare(flow)
    assert found.differing == ()
    assert str(found) == "model, left against right: the same gradients"


def test_layers_and_sources_are_matched_by_name() -> None:
    found = chain([1.0, 4.0], "plain").compare(chain([3.0, 4.0], "other"))
    by_name = {pair.name: pair for pair in found.layers}
    assert list(by_name) == ["dense_1", "dense_0"]  # in the order of the backward pass
    assert by_name["dense_0"].ratio == pytest.approx(3.0)
    assert not by_name["dense_1"].differs
    assert {p.name for p in found.sources if p.differs} == {"x", "dense_0/kernel"}


def test_rules_that_differ_are_told_once_for_all_operations() -> None:
    plain = chain([1.0] * 4, "plain")
    found = plain.compare(ruled(dataclasses.replace(plain, name="guided"), GUIDED))
    (change,) = found.rules
    assert (change.type, change.count, change.right) == ("Relu", 4, GUIDED)
    assert change.layers == ("dense_0", "dense_1", "dense_2", "dense_3")
    assert "Relu ×4 in dense_0, dense_1, dense_2 and 1 more" in str(found)
    assert "overridden guided_relu by tf.nn.relu (rules.py:7)" in str(found)


def test_what_only_one_of_them_has_is_told() -> None:
    found = chain([1.0], "short").compare(chain([1.0, 1.0], "long"))
    assert [(p.name, p.only) for p in found.layers] == [("dense_0", ""), ("dense_1", "right")]


def test_a_gradient_that_is_lost_differs() -> None:
    left, right = Builder("left"), Builder("right")
    left.op("Relu", left.source("x"))
    right.op("Relu", right.source("x", None), passed=[None])
    found = left.flow().compare(right.flow())
    assert [(p.left, p.right, p.differs) for p in found.sources] == [(1.0, None, True)]
    file = io.StringIO()
    found.show(file)
    assert "lost" in file.getvalue()


def test_nan_differs_from_numbers_and_not_from_itself() -> None:
    good, bad = Builder("good"), Builder("bad")
    for b, nan in ((good, 0), (bad, 2)):
        x = b.source("x")
        b.values[x] = b.value_with(x, size(1.0, nan=nan))
        b.sources[0] = dataclasses.replace(b.sources[0], gradient=size(1.0, nan=nan))
        b.op("Sqrt", x, passed=[size(1.0, nan=nan)])
    assert [p.differs for p in good.flow().compare(bad.flow()).sources] == [True]
    assert bad.flow().compare(bad.flow()).differing == ()
    file = io.StringIO()
    good.flow().compare(bad.flow()).show(file)
    assert "NaN or Inf" in file.getvalue()


def test_the_first_layer_that_differs_is_the_one_with_another_rule() -> None:
    plain, other = Builder("plain"), Builder("other")
    for b, passed in ((plain, 1.0), (other, 0.5)):
        x = b.op("Relu", b.source("x", passed), norm=passed, layer=("m", "below"))
        x = b.op("Relu", x, passed=[size(passed)], layer=("m", "ruled"))
        b.op("Sum", x, layer=("m", "above"))
    pairs = plain.flow().compare(other.flow()).layers
    assert [p.name for p in pairs if p.differs] == ["ruled", "below"]


def test_without_layers_operations_are_compared() -> None:
    left, right = Builder("left"), Builder("right")
    for b, norm in ((left, 1.0), (right, 2.0)):
        b.op("Sum", b.op("Relu", b.source("x"), norm=norm), norm=1.0)
    pairs = left.flow().compare(right.flow()).layers
    assert [(p.kind, p.name, p.differs) for p in pairs] == [
        ("operation", "Sum", False),
        ("operation", "Relu", True),
    ]


def test_a_comparison_is_saved_as_page_and_data(tmp_path: Path) -> None:
    found = chain([1.0], "<i>a</i>").compare(chain([2.0], "b"))
    found.save(tmp_path / "c.html")
    page = (tmp_path / "c.html").read_text(encoding="utf-8")
    assert "&lt;i&gt;a&lt;/i&gt;" in page
    assert "<i>a" not in page
    found.save(tmp_path / "c.json")
    data = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert data["sources"][0] == {
        "kind": "source",
        "name": "x",
        "left": 1.0,
        "right": 2.0,
        "only": "",
        "cosine": None,
    }


def turned(flow: Flow, name: str, *sketch: float) -> Flow:
    sources = [
        dataclasses.replace(s, sketch=sketch if s.name == name else (3.0, 4.0))
        for s in flow.sources
    ]
    return dataclasses.replace(flow, sources=tuple(sources))


@pytest.mark.parametrize(
    ("sketch", "cosine", "words"),
    [((-3.0, -4.0), -1.0, "reversed"), ((4.0, -3.0), 0.0, "cosine 0.00")],
)
def test_a_gradient_of_the_same_size_that_points_elsewhere_differs(sketch, cosine, words) -> None:
    flow = chain([1.0])
    found = turned(flow, "", 0.0).compare(turned(flow, "x", *sketch))
    (pair,) = [p for p in found.sources if p.differs]
    assert (pair.name, pair.ratio, pair.cosine) == ("x", 1.0, pytest.approx(cosine))
    assert "1 of 2 sources" in str(found)
    file = io.StringIO()
    found.show(file)
    assert words in file.getvalue()


def test_a_gradient_without_direction_does_not_differ_by_it() -> None:
    flow = chain([1.0])
    assert turned(flow, "x", 0.0, 0.0).compare(turned(flow, "", 0.0)).differing == ()
