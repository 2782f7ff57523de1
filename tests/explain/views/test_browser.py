"""The page in a real browser: nothing in the console, and everything on it works."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pullback.explain.flow import Flow, Place, Rule
from tests.explain.views.browser import Browser
from tests.explain.views.flows import Builder, chain, size

LAID_OUT_MS = 1500
MOST_SHOWN = 300


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    opened = Browser(tmp_path_factory.mktemp("browser"))
    yield opened
    opened.close()


def shown(browser: Browser, flow: Flow, folder: Path) -> Browser:
    flow.save(folder / "flow.html")
    browser.open(folder / "flow.html")
    return browser


def net(layers: int = 12) -> Flow:
    """A deep network: norms fall towards the input, one layer is overridden, one input is cut off."""
    b = Builder("net")
    x = b.source("x", 1e-8)
    lost = b.source("lost", None)
    for k in range(layers):
        norm = 10.0 ** (k - layers)
        for part in ("attention", "mlp"):
            w = b.source(f"encoder_{k}/{part}/w", norm, "variable")
            layer = ("net", f"encoder_{k}", part)
            place = Place("model.py", 7, "x = tf.matmul(x, w)", "call")
            x = b.op("MatMul", x, w, norm=norm, layer=layer, held=True, place=place)
            x = b.op("Relu", x, norm=norm, layer=layer)
    x = b.op("Gelu", x, layer=("net", "head"), rule=Rule("override", "guided", None, "tf.nn.gelu"))
    cut = b.op("Round", lost, passed=[None], layer=("net", "side"))
    x = b.op("Log", x, cut, passed=[size(1.0, nan=1), size(1.0)], layer=("net", "log"))
    return b.flow(b.op("Mean", x, shape=(), layer=("net", "loss")))


def ids(browser: Browser, condition: str = "true") -> set[str]:
    """The things in the graph whose element `e` meets a condition."""
    script = f"pullback.cy.nodes().filter(e => {condition}).map(e => e.id())"
    return set(browser.run(script))


def group(browser: Browser, name: str) -> str:
    return f"g{browser.run(f'pullback.groups.find(g => g.id && g.name === {name!r}).id')}"


def click(browser: Browser, element: str) -> None:
    """In the graph, at the title of an open group, at the middle of anything else."""
    x, y = browser.run(
        f"""(() => {{
            const e = pullback.cy.getElementById({element!r});
            pullback.cy.center(e);
            const box = document.getElementById("graph").getBoundingClientRect();
            const at = e.isParent() ? e.renderedBoundingBox({{includeLabels: false}}) : null;
            const p = at ? {{x: at.x1 + 5, y: at.y2 - 5}} : e.renderedPosition();
            return [p.x + box.x, p.y + box.y];
        }})()"""
    )
    browser.click(x, y)


def test_nothing_is_said_in_the_console_and_nothing_is_asked_for(
    browser: Browser, tmp_path: Path
) -> None:
    shown(browser, net(), tmp_path)
    assert browser.console == []
    assert len(browser.requests) == 1  # the page itself


def test_the_console_test_can_fail(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text("<script>console.error('seen'); missing()</script><img src='http://a.test/'>")
    browser.open(page)
    assert any("seen" in line for line in browser.console)
    assert any("missing is not defined" in line for line in browser.console)
    assert "http://a.test/" in browser.requests


def test_repeated_blocks_are_closed_at_first_and_open_in_place(
    browser: Browser, tmp_path: Path
) -> None:
    shown(browser, net(), tmp_path)
    repeat, inner = group(browser, "encoder_0…11"), group(browser, "encoder_3")
    assert repeat in ids(browser)
    assert inner not in ids(browser)
    assert "×12" in browser.run(f"pullback.cy.getElementById({repeat!r}).data('label')")
    click(browser, repeat)
    assert inner in ids(browser)
    click(browser, inner)
    assert ids(browser, f"e.data('parent') === {inner!r}")
    click(browser, inner)
    assert not ids(browser, f"e.data('parent') === {inner!r}")
    browser.run("document.getElementById('collapse').click()")
    assert inner not in ids(browser)
    assert browser.console == []


def test_what_was_clicked_stays_where_it_is(browser: Browser, tmp_path: Path) -> None:
    shown(browser, net(), tmp_path)
    repeat = group(browser, "encoder_0…11")
    top = f"pullback.cy.getElementById({repeat!r}).renderedBoundingBox().y1"
    browser.run(f"void pullback.cy.center(pullback.cy.getElementById({repeat!r}))")
    before = browser.run(top)
    browser.run(f"pullback.toggle({int(repeat[1:])})")
    assert browser.run(top) == pytest.approx(before, abs=1)


def test_details_are_shown_at_the_mouse(browser: Browser, tmp_path: Path) -> None:
    shown(browser, net(), tmp_path)
    head = group(browser, "head")
    click(browser, head)
    (gelu,) = ids(browser, f"e.data('parent') === {head!r}")
    click(browser, gelu)
    told = browser.run(
        "document.getElementById('tip').textContent + document.getElementById('details').textContent"
    )
    for words in ("Gelu", "overridden", "guided", "tf.nn.gelu", "float32[2,2]", "gradient in"):
        assert words in told


def test_search_finds_layers_operations_and_lines(browser: Browser, tmp_path: Path) -> None:
    shown(browser, net(), tmp_path)
    browser.run("document.getElementById('search').focus()")
    browser.type("encoder_7")
    assert "Found" in browser.run("document.getElementById('tabs').textContent")
    rows = browser.run("[...document.querySelectorAll('#panel .label')].map(e => e.textContent)")
    assert rows[0].endswith("encoder_7")
    browser.run("document.querySelector('#panel .row').click()")
    assert group(browser, "encoder_7") in ids(browser, "e.hasClass('picked')")
    for words, count in (("tf.matmul", 24), ("no such thing", 0)):
        browser.run(
            f"(() => {{ const s = document.getElementById('search'); s.value = {words!r};"
            "s.dispatchEvent(new Event('input')); })()"
        )
        tab = browser.run("document.querySelector('[data-tab=found]').textContent")
        assert tab == f"Found {count}"


@pytest.mark.parametrize(
    ("name", "holder"),
    [("override", "head"), ("cut", "side"), ("nan", "log"), ("vanishing", "encoder_0…11")],
)
def test_filters_leave_what_they_name(
    browser: Browser, tmp_path: Path, name: str, holder: str
) -> None:
    shown(browser, net(), tmp_path)
    button = f"document.querySelector('[data-filter={name}]')"
    browser.run(f"{button}.click()")
    found = ids(browser, "e.hasClass('found')")
    assert group(browser, holder) in found
    assert group(browser, "loss") not in found
    browser.run(f"{button}.click()")
    assert not ids(browser, "e.hasClass('faded')")


def test_a_filter_that_finds_nothing_is_off(browser: Browser, tmp_path: Path) -> None:
    shown(browser, chain([1.0]), tmp_path)
    assert browser.run("document.querySelector('[data-filter=nan]').disabled")


def test_what_is_wrong_is_at_the_top_with_a_way_to_it(browser: Browser, tmp_path: Path) -> None:
    flow = net()
    shown(browser, flow, tmp_path)
    told = browser.run("[...document.querySelectorAll('.trouble')].map(e => e.textContent)")
    assert len(told) == 2
    assert str(flow.first_nonfinite()).replace("`", "") in told[0]
    assert flow.why("lost").replace("`", "") in told[1]  # shown as code
    browser.run("document.querySelector('.trouble button').click()")
    (picked,) = ids(browser, "e.hasClass('picked')")
    assert browser.run(f"pullback.nodes[{picked[1:]}].type") == "Log"


def test_bars_sources_and_what_is_held_are_listed(browser: Browser, tmp_path: Path) -> None:
    shown(browser, net(), tmp_path)
    widths = browser.run(
        "[...document.querySelectorAll('#panel .bar:not(.weights)')].map(e => e.getBoundingClientRect().width)"
    )
    encoders = [w for w in widths if w < max(widths)][:20]
    assert encoders == sorted(encoders, reverse=True)  # norms fall from the last layer to the first
    browser.run("document.querySelector('[data-tab=sources]').click()")
    assert "lost" in browser.run("document.getElementById('panel').textContent")
    browser.run("document.querySelector('[data-tab=held]').click()")
    assert browser.run("document.querySelectorAll('#panel .row').length") == 24


def test_names_stay_text(browser: Browser, tmp_path: Path) -> None:
    evil = "<img src=x onerror=\"document.title='broken in'\"></script>"
    b = Builder(evil)
    x = b.op(evil, b.source(evil, None), passed=[None], layer=(evil, evil))
    shown(browser, b.flow(b.op("Sum", x, layer=(evil, "sum"))), tmp_path)
    click(browser, group(browser, evil))
    assert browser.run("document.getElementById('name').textContent") == evil
    assert browser.run("document.images.length") == 0
    assert "broken in" not in browser.run("document.title").replace(evil, "")
    assert browser.console == []


def test_twenty_thousand_operations_are_drawn_collapsed(browser: Browser, tmp_path: Path) -> None:
    b = Builder("long")
    x = b.source("x")
    for k in range(20_000):
        x = b.op(f"Op{k % 7}", x, shape=(k % 11,), layer=("long", f"stage_{k // 4000}"))
    shown(browser, b.flow(), tmp_path)
    assert browser.run("pullback.readyMs") < 2 * LAID_OUT_MS
    for _ in range(6):
        browser.run(
            "pullback.toggle(pullback.groups.find(g => g.id && !pullback.open.has(g.id)"
            " && pullback.cy.getElementById('g' + g.id).nonempty()).id)"
        )
        assert browser.run("pullback.cy.nodes().length") <= MOST_SHOWN
    assert browser.run("document.getElementById('toast').textContent").endswith("to make room")
    assert browser.console == []


def test_two_hundred_layers_are_laid_out_quickly(browser: Browser, tmp_path: Path) -> None:
    b = Builder("wide")
    x = y = b.source("x")
    for k in range(200):
        x = b.op(f"Op{k % 9}", x, layer=("wide", f"layer{'abcdefgh'[k % 8]}{k}"), shape=(k,))
        y = x = b.op("Add", x, y, layer=("wide", f"layer{'abcdefgh'[k % 8]}{k}"))
    began = time.monotonic()
    shown(browser, b.flow(), tmp_path)
    assert time.monotonic() - began < 10
    assert browser.run("pullback.layoutMs") < LAID_OUT_MS


def test_it_follows_the_system_into_the_dark(browser: Browser, tmp_path: Path) -> None:
    shown(browser, chain([1.0]), tmp_path)
    colour = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(colour)
    browser.dark(True)
    dark = browser.run(colour)
    browser.run("document.getElementById('theme').click()")
    again = browser.run(colour)
    browser.dark(False)
    assert (light, dark, again) == ("rgb(255, 255, 255)", "rgb(20, 24, 31)", light)


def press(browser: Browser, key: str, where: str = "document") -> None:
    browser.run(
        f"{where}.dispatchEvent(new KeyboardEvent('keydown', {{key: {key!r}, bubbles: true}}))"
    )


def test_all_of_it_is_seen_at_first(browser: Browser, tmp_path: Path) -> None:
    """Of a net that is too deep to be read whole, some groups are closed."""
    b = Builder("deep")
    x = b.source("x")
    for k in range(30):
        for part in range(4):
            x = b.op(f"Op{part}_{k % 7}", x, layer=("deep", f"stage_{k // 10}", f"block_{k}"))
    shown(browser, b.flow(x), tmp_path)
    box = browser.run(
        "(() => { const b = pullback.cy.elements().renderedBoundingBox();"
        "return [b.x1, b.y1, b.x2, b.y2]; })()"
    )
    width, height = browser.run("[pullback.cy.width(), pullback.cy.height()]")
    assert min(box) >= 0
    assert box[2] <= width
    assert box[3] <= height
    assert browser.run("pullback.cy.zoom()") >= 0.4


def test_keys_search_move_and_open(browser: Browser, tmp_path: Path) -> None:
    shown(browser, net(), tmp_path)
    press(browser, "/")
    assert browser.run("document.activeElement.id") == "search"
    press(browser, "Escape", "document.activeElement")
    assert browser.run("document.activeElement.id") != "search"
    press(browser, "ArrowDown")
    (first,) = ids(browser, "e.hasClass('picked')")
    press(browser, "ArrowDown")
    (second,) = ids(browser, "e.hasClass('picked')")
    assert browser.run(
        f"pullback.cy.getElementById({first!r}).outgoers('node').map(e => e.id())"
    ).count(second)
    press(browser, "ArrowUp")
    assert ids(browser, "e.hasClass('picked')") == {first}
    before = browser.run("pullback.open.size")
    press(browser, "Enter")
    assert browser.run("pullback.open.size") != before
    press(browser, "Escape")
    assert not ids(browser, "e.hasClass('picked')")


def stops_a_target() -> Flow:
    b = Builder("loss")
    x, target = b.source("x"), b.source("target", None)
    stopped = b.op("StopGradient", target, passed=[None], rule=Rule("stopped"))
    return b.flow(b.op("Sub", x, stopped))


def test_what_is_stopped_on_purpose_is_not_red(browser: Browser, tmp_path: Path) -> None:
    shown(browser, stops_a_target(), tmp_path)
    assert browser.run("document.getElementById('badge').textContent") == "✓"
    (told,) = browser.run("[...document.querySelectorAll('.trouble')].map(e => e.className)")
    assert "c-stopped" in told


def test_beside_vanishing_gradients_there_is_no_tick(browser: Browser, tmp_path: Path) -> None:
    shown(browser, chain([1e-12, 1e-9, 1.0]), tmp_path)
    assert browser.run("document.getElementById('badge').textContent") == "!"
    assert "vanishing at 4 operations" in browser.run(
        "document.getElementById('verdict').textContent"
    )
