"""What is kept, as a table."""

import keras
import tensorflow as tf

import pullback as pb
from pullback.explain.residuals import in_bytes
from tests.explain.made import Made


def flow_with_residuals():
    made = Made()
    x = made.source("x", [1.0] * 8)
    small = made.node("Exp", [x], [1.0] * 2, held=True)
    made.node("Exp", [small], [1.0] * 4)
    return made.flow(made.node("Log", [small], [1.0] * 6, held=True, layer=("<b>",)))


def test_the_largest_is_first_and_what_is_not_held_is_left_out() -> None:
    found = flow_with_residuals().residuals()
    assert [(r.bytes, r.op, r.line) for r in found] == [
        (24, "fw.log", "user.py:3"),
        (8, "fw.exp", "user.py:1"),
    ]
    assert found.total == 32
    assert found.share(found[0]) == 0.75


def test_it_prints_as_a_table() -> None:
    text = str(flow_with_residuals().residuals())
    assert "32 B in 2 tensors" in text
    assert "75 %" in text
    assert "fw.log" in text


def test_in_a_notebook_names_are_escaped() -> None:
    assert "&lt;b&gt;" in flow_with_residuals().residuals()._repr_html_()


def test_many_are_summed_up_in_a_last_row() -> None:
    made = Made()
    x = made.source("x", [1.0])
    nodes = [made.node("Exp", [x], [1.0], held=True, line=k) for k in range(30)]
    assert "10 more" in str(made.flow(nodes[-1]).residuals())


def test_bytes_are_read_at_a_glance() -> None:
    assert [in_bytes(n) for n in (0, 999, 1_500_000, 2e12)] == [
        "0 B",
        "999 B",
        "1.5 MB",
        "2e+03 GB",
    ]


def test_what_tensorflow_keeps_is_measured() -> None:
    """sin keeps its input, exp its output, a product both factors; the argument is there anyway."""

    def f(x):
        y = tf.sin(x)
        z = tf.exp(y)
        w = z + 1.0
        return tf.reduce_sum(w * 3.0)

    found = pb.explain(f, tf.ones([1000])).residuals()
    large = [r for r in found if r.bytes == 4000]
    assert [r.op for r in large if r.op in ("Sin", "tf.exp")] == ["tf.exp"]
    assert all(r.shape == (1000,) and "test_residuals.py" in r.line for r in large)


def test_layers_are_named() -> None:
    layer = keras.layers.Dense(64, activation="tanh", name="wide")
    layer.build((None, 8))
    found = pb.explain(lambda x: tf.reduce_sum(layer(x)), tf.ones([32, 8])).residuals()
    assert (found[0].layer, found[0].bytes) == ("wide", 32 * 64 * 4)


def test_what_a_loop_keeps_is_one_row() -> None:
    made = Made()
    x = made.source("x", [1.0])
    for k in range(60):
        made.node("Exp", [x], [1.0], held=True, line=5, layer=("lstm",))
        made.node("Log", [x], [1.0, 2.0], held=True, line=6 + k % 2, layer=("head",))
    found = made.flow(0).residuals()
    assert sorted((r.op, many) for r, many in found.alike) == [
        ("fw.exp", 60),
        *2 * [("fw.log", 30)],
    ]
    assert found.by_layer() == {"head": 480, "lstm": 240}
    assert found.by_line() == {"user.py:5": 240, "user.py:6": 240, "user.py:7": 240}
    assert "fw.exp ×60" in str(found)
    assert "more" not in str(found)
