"""What is written into pages, notebooks and files."""

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pullback.explain.flow import Flow, Place, Rule
from pullback.explain.views.encode import encoded
from pullback.explain.views.page import flow_page
from tests.explain.views.flows import Builder, chain, size

EVIL = '<img src=x onerror="alert(1)"></script><script>alert(2)</script>'


def evil() -> Flow:
    b = Builder(EVIL)
    place = Place(EVIL, 1, EVIL, EVIL)
    x = b.op(
        EVIL,
        b.source(EVIL, None),
        passed=[None],
        layer=(EVIL, EVIL),
        inside=(EVIL,),
        place=place,
        rule=Rule("override", EVIL, place, EVIL),
    )
    return b.flow(b.op("Sum", x), notes=(EVIL,))


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.append(tag)


def elements(page: str) -> list[str]:
    parser = _Elements()
    parser.feed(page)
    return parser.found


def data_of(page: str) -> dict[str, object]:
    (text,) = re.findall(r'id="flow-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


def test_names_make_no_elements_in_a_page() -> None:
    assert elements(flow_page(evil())) == elements(flow_page(chain([1.0])))
    assert data_of(flow_page(evil()))["name"] == EVIL


def test_names_make_no_elements_in_a_notebook() -> None:
    plain = {"div", "style", "header", "span", "h1", "p", "ul", "li", "b", "code"}
    plain |= {"table", "thead", "tbody", "tr", "th", "td"}
    assert set(elements(evil()._repr_html_())) <= plain
    assert set(elements(evil().compare(chain([1.0]))._repr_html_())) <= plain


def test_a_page_asks_for_nothing_from_outside() -> None:
    page = flow_page(chain([1.0]))
    assert "default-src 'none'" in page
    assert not {"link", "iframe", "img"} & set(elements(page))
    assert not re.search(r"<script[^>]+src=", page)


def test_licences_are_in_the_page() -> None:
    page = flow_page(chain([1.0]))
    assert page.count("Permission is hereby granted, free of charge") >= 3
    assert "Chris Pettitt" in page


def test_every_operation_is_in_one_group() -> None:
    data = encoded(chain([1.0] * 7))
    children = [child for group in data["groups"] for child in group[3]]
    assert sorted(c for c in children if c >= 0) == list(range(len(data["nodes"])))
    assert sorted(-c for c in children if c < 0) == list(range(1, len(data["groups"])))


def test_bars_are_the_innermost_layers_from_the_last_to_the_first() -> None:
    data = encoded(chain([1.0] * 5))
    names = [data["texts"][data["groups"][-k][0]] for k in data["bars"]]
    assert names == [f"dense_{k}" for k in reversed(range(5))]


def test_numbers_that_json_has_no_word_for_are_written(tmp_path: Path) -> None:
    flow = chain([1.0])
    values = [dataclasses.replace(v, gradient=size(float("inf"))) for v in flow.values]
    flow = dataclasses.replace(flow, values=tuple(values))
    json.loads(json.dumps(encoded(flow), allow_nan=False))
    flow.save(tmp_path / "flow.json")
    data = json.loads((tmp_path / "flow.json").read_text(encoding="utf-8"))
    assert data["values"][0]["gradient"]["norm"] == "inf"


def test_a_flow_is_saved_whole_as_data(tmp_path: Path) -> None:
    flow = chain([1.0, 2.0])
    flow.save(tmp_path / "flow.json")
    data = json.loads((tmp_path / "flow.json").read_text(encoding="utf-8"))
    assert data == json.loads(json.dumps(flow.to_dict()))
    assert len(data["nodes"]) == len(flow.nodes)


@pytest.mark.parametrize("ending", ["json", "html"])
def test_what_is_held_is_measured_for_a_file(tmp_path: Path, ending: str) -> None:
    flow = dataclasses.replace(chain([1.0]), measure_held=lambda: {3: 1234})
    flow.save(tmp_path / f"flow.{ending}")
    text = (tmp_path / f"flow.{ending}").read_text(encoding="utf-8")
    data = json.loads(text) if ending == "json" else data_of(text)
    if ending == "json":
        assert [v["bytes"] for v in data["values"] if v["held"]] == [1234]
    else:
        assert [row[0] for row in data["held"]] == [1234]


def test_an_ending_that_says_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'flow.png' does not say what to write: end the name in"):
        chain([1.0]).save(tmp_path / "flow.png")


def test_the_page_of_a_deep_model_is_small() -> None:
    b = Builder("transformer")
    x = b.source("x")
    for k in range(12):
        for part in range(120):
            layer = ("transformer", f"encoder_{k}", f"part_{part // 10}")
            place = Place("model.py", part, f"x = layer_{part}(x)", "call")
            x = b.op(f"Op{part % 17}", x, layer=layer, norm=0.1 + k + part / 7, place=place)
    assert len(flow_page(b.flow()).encode()) < 1_000_000
