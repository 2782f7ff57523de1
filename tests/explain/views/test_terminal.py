"""A flow in the terminal."""

import io

import pytest
from rich.console import Console

from pullback.explain.flow import Flow, Rule
from pullback.explain.views.words import Scale
from tests.explain.views.flows import Builder, chain, size


def printed(flow: Flow, width: int = 80, **more: object) -> str:
    file = io.StringIO()
    Console(file=file, width=width, **more).print(flow)
    return file.getvalue()


def troubled() -> Flow:
    b = Builder("net")
    x = b.source("x", 1e-7)
    b.source("lost", None)
    for k in range(8):
        x = b.op("MatMul", x, norm=10.0 ** (k - 7), layer=("net", f"encoder_{k}"))
    x = b.op("Relu", x, layer=("net", "head"), rule=Rule("override", "guided", None, "relu"))
    x = b.op("Swish", x, layer=("net", "activation"), rule=Rule("custom", "swish"))
    return b.flow(b.op("Mean", x, shape=()))


def test_layers_come_in_the_order_of_the_backward_pass() -> None:
    lines = printed(chain([0.1, 1.0, 1.0, 1.0])).splitlines()
    order = [line.split()[0] for line in lines if line.strip().startswith("dense_")]
    assert order == ["dense_0…3", "dense_3", "dense_2", "dense_1", "dense_0"]


def test_what_is_wrong_comes_first_and_in_words() -> None:
    text = printed(troubled())
    assert text.startswith("✗ net: no gradient for 1 of 2 sources")
    assert text.index("lost") < text.index("encoder_7")
    for word in ("vanishing", "overridden", "custom"):
        assert word in text


def test_what_is_said_of_several_is_said_in_the_plural() -> None:
    b = Builder("net")
    sources = [b.source(name, None) for name in ("a", "b")]
    flow = b.flow(b.op("Stop", *sources, rule=Rule("stopped"), shape=()))
    assert "`a`, `b`: get no gradient: " in str(flow)
    assert "`a`: gets no gradient: " in flow.why("a")


def test_nan_is_told_at_its_operation() -> None:
    b = Builder("f")
    x = b.op("Sqrt", b.source("x", 0.0), norm=0.0, passed=[size(0.0, nan=4)])
    text = printed(b.flow(b.op("Sum", x, shape=())))
    assert text.startswith("✗ f: NaN or Inf on the way")
    (line,) = [line for line in text.splitlines() if line.strip().startswith("Sqrt")]
    assert "NaN or Inf" in line


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(map(len, printed(troubled(), width).splitlines())) <= width


def test_colours_are_off_in_a_file_and_on_in_a_terminal() -> None:
    file = io.StringIO()
    troubled().show(file)
    assert "\x1b[" not in file.getvalue()
    assert "\x1b[" in printed(troubled(), force_terminal=True)


def test_names_are_no_markup() -> None:
    b = Builder("[red]f[/red]")
    b.op("Relu", b.source("[bold]x", None), passed=[None], layer=("a", "[link=x]"))
    b.op("Sum", 1, layer=("a", "b"))
    text = printed(b.flow())
    assert "[red]f[/red]" in text
    assert "[link=x]" in text


def test_a_flow_as_text_is_short() -> None:
    lines = str(troubled()).splitlines()
    assert len(lines) == 2
    assert "lost" in lines[1]
    assert repr(troubled()) == "<Flow of net: 11 operations, 2 sources>"


def test_a_bar_is_as_long_as_its_norm_on_a_logarithmic_scale() -> None:
    scale = Scale([1e-4, 1e-2, 1.0])
    lengths = [scale.share(norm) for norm in (1e-4, 1e-2, 1.0)]
    assert lengths[1] - lengths[0] == pytest.approx(lengths[2] - lengths[1])
    assert scale.bar(1.0, 8) == "█" * 8
    assert scale.bar(None, 8) == scale.bar(0.0, 8) == ""


def test_a_line_of_many_norms_fits() -> None:
    norms = [10.0**-k for k in range(100)]
    line = Scale(norms).line(norms, 12)
    assert (len(line), line[0], line[-1]) == (12, "█", "▁")


def stopping(*, all_of_it: bool) -> Flow:
    b = Builder("loss")
    target = b.source("target", None)
    stopped = b.op("StopGradient", target, passed=[None], rule=Rule("stopped"))
    return b.flow(stopped if all_of_it else b.op("Sub", b.source("x"), stopped))


def test_a_stop_is_a_fault_only_where_it_stops_everything() -> None:
    text = printed(stopping(all_of_it=False))
    assert text.startswith("✓ loss: a gradient for 1 of 2 sources, 1 stopped")
    assert "  stopped  `target`" in text
    assert printed(stopping(all_of_it=True)).startswith("✗ loss: no gradient")


def test_beside_vanishing_gradients_there_is_no_tick() -> None:
    text = printed(chain([1e-12, 1e-9, 1.0]))
    assert text.startswith("! model: a gradient for all 4 sources, vanishing at 4 operations")
