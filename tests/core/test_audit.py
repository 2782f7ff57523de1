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
    assert data[1] == {
        "target": "tf.stack",
        "rule": "other (story.py:5)",
        "matches": (),
        "ran": 0,
        "traced": 0,
        "is_shared": False,
        "weights": 0,
        "ordinary_weights": 0,
    }


def family(mode: str, *names: str) -> tuple[Match, ...]:
    return tuple(Match(Place(f"{n}/Relu", "Relu", n, "app.py:7"), mode, 1) for n in names)


def test_places_whose_names_differ_by_numbers_are_one_line() -> None:
    layers = [f"conv{i}_block{j}_relu" for i in range(5) for j in range(8)]
    row = Row("tf.nn.relu", "rule (a.py:1)", family("eager", "conv1_relu", *layers), 41)
    assert str(Audit((row,))).splitlines() == [
        "tf.nn.relu -> rule (a.py:1): met 41 times (41 effective), rule ran 41 times",
        "  1 x eager conv1_relu/Relu (Relu) in layer conv1_relu at app.py:7",
        "  40 x eager Relu in 40 layers conv*_block*_relu at app.py:7",
    ]


def test_many_families_end_in_a_total() -> None:
    names = [chr(ord("a") + i) for i in range(20)]
    text = str(Audit((Row("'Relu'", "rule", family("traced", *names), 0, 20),)))
    assert text.splitlines()[0].endswith("met 20 times (20 effective), rule traced 20 times")
    assert text.splitlines()[-1] == "  … and 8 x at 8 more places"
    assert len(text.splitlines()) == 14


def test_once_is_one_time() -> None:
    row = Row("'Relu'", "rule", family("eager", "a"), 1, 2)
    assert "met 1 time (1 effective), rule ran 1 time, traced 2 times" in str(Audit((row,)))
