"""Maps as pictures, pages and text."""

import base64
import io
import re
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from pullback.errors import SaliencyError
from pullback.saliency.result import Saliency
from pullback.saliency.views import panels, pictures, terminal

RED, BLUE, WHITE = [178, 24, 43], [33, 102, 172], [255, 255, 255]


def found(count: int = 2, **fields: Any) -> Saliency:
    x = np.linspace(0, 1, count * 6 * 5 * 3).reshape(count, 6, 5, 3)
    values = np.zeros_like(x)
    values[:, 0, 0] = 1.0
    values[:, 5, 4] = -1.0
    return Saliency("guided", values, x, note="a <note>", **fields)


def shown(x: Any, values: Any, words: Any = None) -> panels.Example:
    return panels.Example("a title", panels.panels_of(x[None], values[None], 0, words and [words]))


def of_text() -> Saliency:
    """Two sentences of three tokens, and a picture."""
    x = {"picture": found().x, "text": np.array([[1, 2, 3], [4, 5, 6]])}
    values = {"picture": found().values, "text": np.array([[1.0, 0, -1], [0, 0.5, 1]])}
    target, score = np.array([1, 0]), np.array([2.5, -1.0])
    return Saliency("lrp", values, x, target, score, gap=np.array([1e-7, 2e-7]))


def decoded(data: bytes) -> np.ndarray:
    """The pixels of a PNG file, read as the standard says."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, {}
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        (check,) = struct.unpack(">I", data[at + 8 + length : at + 12 + length])
        assert check == zlib.crc32(kind + body)
        chunks[kind] = body
        at += 12 + length
    width, height, depth, colours = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    assert (depth, colours) == (8, 2)
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), "uint8").reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_colours_have_the_sign_and_the_clip() -> None:
    values = np.zeros((10, 20))
    values[0, 0], values[1, 1], values[2] = 1000.0, -5.0, 5.0
    picture = pictures.coloured(values)
    assert picture[0, 0].tolist() == RED  # clipped at the 99th percentile, which is 5
    assert picture[2, 3].tolist() == RED
    assert picture[1, 1].tolist() == BLUE
    assert picture[5, 5].tolist() == WHITE


def test_channels_are_summed() -> None:
    values = np.zeros((4, 4, 3))
    values[0, 0], values[1, 1] = [1.0, 1.0, 1.0], [3.0, -3.0, 0.0]
    picture = pictures.coloured(values)
    assert picture[1, 1].tolist() == WHITE
    assert picture[0, 0].tolist() == RED


def test_overlay_shows_the_input_where_nothing_counts() -> None:
    x = np.zeros((6, 5, 3))
    x[3:] = 1.0
    values = np.zeros((6, 5))
    values[0, 0] = 1.0
    picture = pictures.overlay(x, values).astype(int)
    assert picture[0, 0].tolist() == RED
    assert picture[1, 1, 0] < picture[4, 4, 0]


def test_pictures_on_pages_are_png_files(tmp_path: Path) -> None:
    found().save(tmp_path / "map.html")
    text = (tmp_path / "map.html").read_text(encoding="utf-8")
    data = re.findall(r"base64,([^\"]+)", text)
    assert len(data) == 2 * 3  # input, map and overlay of each example
    pixels = decoded(base64.b64decode(data[1]))
    assert pixels[0, 0].tolist() == RED
    assert pixels[5, 4].tolist() == BLUE
    assert pixels[3, 3].tolist() == WHITE
    assert "a &lt;note&gt;" in text
    assert "http" not in text


def test_pages_have_titles_words_labels_and_a_scale_for_every_input(tmp_path: Path) -> None:
    words = {"text": [["a", "<b>", "film"], ["not", "so", "good"]]}
    of_text().save(tmp_path / "t.html", words=words, labels=["bad", "good"])
    text = (tmp_path / "t.html").read_text(encoding="utf-8")
    assert "<h2>LRP · class “good” · score +2.5 · gap 1e-07</h2>" in text
    assert "<h2>LRP · class “bad” · score -1 · gap 2e-07</h2>" in text
    assert text.count("<h3>picture</h3>") == text.count("<h3>text</h3>") == 2
    assert text.count("raises the score") == 4
    assert re.search(r'title="\+1" style="background:rgb\(178,24,43\);color:#fff">a<', text)
    assert re.search(r'title="-1" style="background:rgb\(33,102,172\);color:#fff">film<', text)
    assert "&lt;b&gt;" in text
    assert ">good<" in text


def drawn_text(figure: Any) -> list[str]:
    import matplotlib.text

    return [t.get_text() for t in figure.findobj(matplotlib.text.Text) if t.get_text()]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_figures_are_files(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"map.{kind}"
    of_text().save(path, 0, words={"text": ["a", "$5", "film"]})
    starts = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF"}
    assert path.read_bytes().startswith(starts[kind])


def test_figures_show_title_class_words_and_scales() -> None:
    figure = of_text().plot(0, words={"text": ["a", "$5", "film"]}, labels={1: "good"})
    said = drawn_text(figure)
    assert "LRP · class “good” · score +2.5 · gap 1e-07" in said
    assert {"a", "$5", "film", "picture", "text"} <= set(said)
    scales = {text for text in said if "raises" in text or "lowers" in text}
    assert scales == {"+3\nraises", "-3\nlowers", "+1\nraises", "-1\nlowers"}  # of three channels


def test_a_map_without_negative_entries_has_a_scale_without_them() -> None:
    x, values = found().x, np.abs(found().values)
    said = drawn_text(Saliency("gradcam", values, x, layer="conv").plot())
    assert not [text for text in said if "lowers" in text]
    assert "Grad-CAM · layer conv" in said


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"words": ["a", "b"]}, "words has 2 entries, and the example has 3"),
        ({"words": {"txt": ["a"]}}, "words names the input 'txt'; .*: text"),
        ({"labels": ["bad"]}, "labels has no entry for class 1"),
    ],
)
def test_words_and_labels_that_do_not_fit(tmp_path: Path, options: Any, message: str) -> None:
    with pytest.raises(SaliencyError, match=message):
        of_text().save(tmp_path / "t.html", **options)


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SaliencyError, match=r"neither a .png nor a .html"):
        found().save(tmp_path / "map.gif")
    with pytest.raises(SaliencyError, match="no example 7: there are 2"):
        found().save(tmp_path / "map.png", examples=7)


def printed(example: panels.Example, **options: Any) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, color_system="truecolor", width=80)
    terminal.show(example, options.get("width", 40), "said", console)
    return text.getvalue()


def test_pictures_in_the_terminal() -> None:
    map_ = found()
    text = printed(shown(map_.x[0], map_.values[0]))
    assert text.count("▀") == 3 * (5 + 5)  # two rows to a line, two pictures of five columns
    assert "38;2;178;24;43" in text
    assert "48;2;33;102;172" in text
    assert "said" in text


def test_a_map_shows_itself(capsys: pytest.CaptureFixture[str]) -> None:
    found().show(1, width=30)
    said = capsys.readouterr().out
    assert said.count("▀") == 3 * (5 + 5)
    assert "a <note>" in said
    assert str(found().__rich__()).count("▀") == 3 * (5 + 5)


def test_words_in_the_terminal() -> None:
    text = printed(shown(np.array([3, 1]), np.array([1.0, -1.0]), ["good", "bad"]))
    assert "48;2;178;24;43mgood" in text
    assert "48;2;33;102;172mbad" in text


@pytest.mark.parametrize("shape", [(7,), (1,), (40, 30), (200, 2), (300, 400, 3), (3, 4, 5, 2)])
def test_every_shape_has_a_picture(tmp_path: Path, shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(0)
    map_ = Saliency("lrp", draw.normal(size=(1, *shape)), draw.normal(size=(1, *shape)))
    for kind in ("png", "html"):
        map_.save(tmp_path / f"map.{kind}")
        assert (tmp_path / f"map.{kind}").stat().st_size
    assert printed(map_._example(0))


def test_plots() -> None:
    import matplotlib as mpl

    mpl.use("agg")
    figure = found().plot(1)
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["input", "attribution", "overlay", ""]  # and the scale
    np.testing.assert_array_equal(figure.axes[1].images[0].get_array()[0, 0], RED)
    assert len(found().plot(overlay=False).axes) == 3


def test_plots_into_given_axes() -> None:
    import matplotlib.figure

    figure = matplotlib.figure.Figure()
    axes = figure.subplots(1, 3)
    assert found().plot(1, axes=axes) is figure
    assert axes[2].get_title() == "overlay"
    with pytest.raises(SaliencyError, match="axes has 2 entries; wanted 3"):
        found().plot(axes=axes[:2])


def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("pyplot", "figure"):
        monkeypatch.setitem(sys.modules, f"matplotlib.{module}", None)
    for draw in (found().plot, lambda: found().save(tmp_path / "map.png")):
        with pytest.raises(SaliencyError, match=r"pip install pullback\[plot\].*map.html"):
            draw()


def test_text_and_notebooks() -> None:
    text = repr(found())
    assert text.splitlines() == ["<saliency by 'guided', (2, 6, 5, 3)>", "a <note>"]
    assert "base64," in found()._repr_html_()
