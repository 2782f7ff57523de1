"""The audit as data, text, markup and HTML."""

import io

from rich.console import Console

from pullback._audit import Audit, Match, Place, Row

EXAMPLE = Audit(
    (
        Row(
            "'Relu'",
            "rule (story.py:3)",
            (
                Match(Place("m/Relu", "Relu", "m/first", "story.py:9"), "eager", 2),
                Match(Place("m/Relu", "Relu"), "traced", 1, hidden_by="it runs inside [f]"),
                Match(Place("x", "Relu"), "eager", 4, recorded=False),
            ),
            2,
        ),
        Row("tf.stack", "other (story.py:5)", (), 0),
    )
)


def test_what_had_an_effect_is_told_apart() -> None:
    row = EXAMPLE.rows[0]
    assert (row.matched, row.effective, row.hidden) == (7, 2, 1)
    assert EXAMPLE.effective == 2


def test_as_text() -> None:
    text = str(EXAMPLE)
    assert (
        "met 7 times (2 effective, 1 without effect, 4 where nothing was differentiated), rule ran 2 times"
        in text
    )
    assert "2 x eager m/Relu (Relu) in layer m/first at story.py:9" in text
    assert "no effect: it runs inside [f]" in text
    assert "tf.stack -> other (story.py:5): never met" in text


def test_for_rich_and_for_notebooks() -> None:
    shown = io.StringIO()
    Console(file=shown, width=200, color_system=None).print(EXAMPLE)
    assert "it runs inside [f]" in shown.getvalue()
    assert "never met" in shown.getvalue()
    assert EXAMPLE._repr_html_().count("<tr>") == 3


def test_as_data() -> None:
    data = EXAMPLE.as_data()
    assert data[0]["matches"][0]["place"]["source"] == "story.py:9"
    assert data[1] == {"target": "tf.stack", "rule": "other (story.py:5)", "matches": (), "ran": 0}
