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
from pullback.saliency.views import pictures, terminal

RED, BLUE, WHITE = [178, 24, 43], [33, 102, 172], [255, 255, 255]


def found(count: int = 2) -> Saliency:
    x = np.linspace(0, 1, count * 6 * 5 * 3).reshape(count, 6, 5, 3)
    values = np.zeros_like(x)
    values[:, 0, 0] = 1.0
    values[:, 5, 4] = -1.0
    return Saliency("guided", values, x, note="a <note>")


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


def test_png_files_are_png_files(tmp_path: Path) -> None:
    found().save(tmp_path / "map.png")
    pixels = decoded((tmp_path / "map.png").read_bytes())
    shown = {tuple(pixel) for pixel in pixels.reshape(-1, 3).tolist()}
    assert {tuple(RED), tuple(BLUE), tuple(WHITE)} <= shown
    found().save(tmp_path / "one.png", examples=0)
    assert len(decoded((tmp_path / "one.png").read_bytes())) < len(pixels)


def test_pages_hold_their_pictures(tmp_path: Path) -> None:
    found().save(tmp_path / "map.html")
    text = (tmp_path / "map.html").read_text(encoding="utf-8")
    data = re.findall(r"base64,([^\"]+)", text)
    assert len(data) == 2
    assert decoded(base64.b64decode(data[0])).size
    assert "a &lt;note&gt;" in text
    assert "http" not in text


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SaliencyError, match=r"neither a .png nor a .html"):
        found().save(tmp_path / "map.gif")
    with pytest.raises(SaliencyError, match="no example 7: there are 2"):
        found().save(tmp_path / "map.png", examples=7)


def printed(pair: Any, **options: Any) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, color_system="truecolor", width=80)
    terminal.show(pair, options.get("words"), options.get("width", 40), "said", console)
    return text.getvalue()


def test_pictures_in_the_terminal() -> None:
    map_ = found()
    text = printed((map_.x[0], map_.values[0]))
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
    text = printed((np.array([3, 1]), np.array([1.0, -1.0])), words=["good", "bad"])
    assert "48;2;178;24;43mgood" in text
    assert "48;2;33;102;172mbad" in text
    with pytest.raises(SaliencyError, match="words has 1 entries, and the example has 2"):
        printed((np.array([3, 1]), np.array([1.0, -1.0])), words=["good"])


@pytest.mark.parametrize("shape", [(7,), (1,), (40, 30), (300, 400, 3), (3, 4, 5, 2)])
def test_every_shape_has_a_picture(shape: tuple[int, ...]) -> None:
    draw = np.random.default_rng(0)
    pair = (draw.normal(size=shape), draw.normal(size=shape))
    assert decoded(pictures.png(pictures.stacked([pair]))).size
    assert printed(pair)


def test_plots() -> None:
    import matplotlib as mpl

    mpl.use("agg")
    figure = found().plot(1)
    assert [axes.get_title() for axes in figure.axes] == ["input", "guided", "overlay"]
    np.testing.assert_array_equal(figure.axes[1].images[0].get_array()[0, 0], RED)
    assert len(found().plot(overlay=False).axes) == 2


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(SaliencyError, match=r"pip install pullback\[plot\]"):
        found().plot()


def test_text_and_notebooks() -> None:
    text = repr(found())
    assert text.splitlines() == ["<saliency by 'guided', (2, 6, 5, 3)>", "a <note>"]
    assert "base64," in found()._repr_html_()
