"""Reports are data; text, terminal, notebook and page show the same."""

import dataclasses
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from rich.console import Console

from pullback.check import Coverage, Finding, Line, Report
from pullback.check.probe import Leaf
from pullback.check.report import Picture
from pullback.check.report.page import as_page
from pullback.check.report.render import all_but_one, tell_apart
from pullback.errors import CheckFailed

LEAF = Leaf("args[0]", "x", (2, 3), "float32")
FINDING = Finding(
    kind="factor",
    path="args[0]",
    diagnosis="the gradient for `x` is 2× too large",
    got=2.0,
    wanted=1.0,
    error=1e-12,
    point="the given arguments",
    entry="[1,2]",
    source="rules.py:7",
    at={"x": np.zeros((2, 3))},
)
RIGHT = Report(
    "f",
    3,
    90,
    inputs=(Line(LEAF, True),),
    coverage=Coverage(
        points=("the given arguments", "negative values"),
        second=("negative values",),
        kinks=2,
        modes=("XLA",),
    ),
)
WRONG = dataclasses.replace(
    RIGHT,
    findings=(FINDING,),
    inputs=(Line(LEAF, False),),
    reproduce="import pullback as pb\nprint(pb.check(f, x, seed=3))",
)
OPEN = dataclasses.replace(
    RIGHT,
    inputs=(Line(LEAF, None),),
    coverage=Coverage(points=("the given arguments",), open_given=4, reasons=("no slope",)),
)


def with_finding(**changes):
    return dataclasses.replace(WRONG, findings=(dataclasses.replace(FINDING, **changes),))


def test_a_report_is_true_only_if_the_gradient_was_found_right():
    assert (RIGHT.verdict, RIGHT.ok, bool(RIGHT), RIGHT.diagnosis) == ("right", True, True, "")
    assert (WRONG.verdict, WRONG.ok, bool(WRONG)) == ("wrong", False, False)
    assert (OPEN.verdict, OPEN.ok, bool(OPEN)) == ("undecided", False, False)
    assert RIGHT.raise_if_failed() is RIGHT


@pytest.mark.parametrize(("report", "text"), [(WRONG, "2× too large"), (OPEN, "undecided")])
def test_raising_is_the_callers_choice(report, text):
    with pytest.raises(CheckFailed, match=text):
        report.raise_if_failed()


def test_a_report_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign"):
        RIGHT.calls = 0  # type: ignore[misc]


@pytest.mark.parametrize(
    "part",
    [
        "✗ f: the gradient for `x` is 2× too large",
        "float32[2, 3]",
        "gradient for `x` at [1,2]: the rule gives 2, the function says 1 ± 1e-12",
        "rules.py:7",
        "pb.check(f, x, seed=3)",
        "seed 3",
    ],
)
def test_a_failure_shows_everything_once(part):
    assert str(WRONG).count(part) == 1


@pytest.mark.parametrize(
    "part",
    [
        "✓ f: the gradient is right",
        "tested at 2 points, 1 of them to second order: the given arguments, negative values",
        "kinks met: 2",
        "same in: XLA",
    ],
)
def test_a_pass_says_what_was_covered(part):
    assert part in str(RIGHT)


@pytest.mark.parametrize(
    "part",
    [
        "? f: undecided",
        "·   x",
        "no slope",
        "4 of the numbers compared there stayed open",
        "pass arguments at which",
        "domain={'x': (low, high)}",
    ],
)
def test_what_is_undecided_says_why_and_what_to_write(part):
    assert part in str(OPEN)
    assert "undecided" not in str(WRONG)


def test_inputs_can_be_left_out_where_there_are_others():
    assert "wrt=" not in str(OPEN)
    two = (Line(LEAF, None), Line(dataclasses.replace(LEAF, path="args[1]", name="y"), None))
    assert "wrt='x'" in str(dataclasses.replace(OPEN, inputs=two))


def test_a_function_that_changes_is_not_sent_to_another_domain():
    seen = Coverage(reasons=("it began to raise: no more",), varies=True)
    text = str(dataclasses.replace(OPEN, coverage=seen))
    assert "must give the same each time" in text
    assert "domain=" not in text


def test_what_was_not_judged_is_not_called_right():
    other = dataclasses.replace(LEAF, path="args[1]", name="y")
    report = dataclasses.replace(WRONG, inputs=(Line(LEAF, False), Line(other, None)))
    assert "✗   x" in str(report)
    assert "·   y" in str(report)


def test_a_pass_against_another_function_names_it():
    report = dataclasses.replace(RIGHT, against="hard_tanh")
    assert "✓ f: the gradient is that of hard_tanh" in str(report)
    report = dataclasses.replace(WRONG, against="hard_tanh")
    assert "the rule gives 2, hard_tanh says 1" in str(report)


def test_nothing_is_said_of_everywhere_when_the_check_stopped_early():
    covered = Coverage(points=("negative",), never_reached=2, entries=3)
    assert "gradient zero everywhere: 2 of 3" in str(dataclasses.replace(RIGHT, coverage=covered))
    assert "everywhere" not in str(dataclasses.replace(WRONG, coverage=covered))
    assert "tested at 1 point:" in str(dataclasses.replace(RIGHT, coverage=covered))


def test_second_order_findings_say_how_to_leave_them_out():
    assert "order=1 leaves" in str(with_finding(kind="second"))
    assert "order=1 leaves" not in str(WRONG)


def test_a_failure_at_a_made_up_point_says_so_and_how_to_exclude_it():
    made = {"made_up": True, "point": "negative values", "exclude": "domain={'x': 'positive'}"}
    text = str(with_finding(at={"x": np.array([-1.0, 0.0])}, **made))
    assert "the given arguments pass, made-up ones do not: negative values" in text
    assert "if such values are not meant, write `domain={'x': 'positive'}`" in text
    assert "it fails for x = [-1, 0]" in text
    assert "made-up" not in str(WRONG)


def test_a_long_failing_input_is_told_by_what_stands_out():
    x = np.zeros((4, 5))
    x[2, 3] = 1.5
    text = str(with_finding(made_up=True, at={"x": x}))
    assert "x = 0 throughout but 1.5 at [2,3]" in text
    x[0, 0] = 7
    assert "kept in finding.at" in str(with_finding(made_up=True, at={"x": x}))


def test_an_upstream_is_shown_unless_it_is_ones():
    assert "upstream: out = [0, 1]" in str(with_finding(upstream={"out": np.array([0.0, 1.0])}))


@pytest.mark.parametrize(
    ("numbers", "texts"),
    [
        ((1.0000012, 1.0), ["1.0000012", "1.0000000"]),
        ((2.0, 1.0), ["2", "1"]),
        ((-0.5, 0.0), ["-0.5", "0"]),
        ((0.25, 1e-18), ["0.25", "0"]),
        ((float("nan"), 0.125), ["NaN", "0.125"]),
        ((float("inf"), 0.0), ["inf", "0"]),
        ((3e-9, 1e-9), ["3.00000e-09", "1.00000e-09"]),
        ((1 / 3, 0.0), ["0.333333", "0"]),
    ],
)
def test_two_numbers_have_the_digits_that_tell_them_apart(numbers, texts):
    assert tell_apart(*numbers) == texts


def test_the_one_that_differs_is_found_wherever_it_is():
    for place in range(4):
        value = np.zeros(4)
        value[place] = 7.0
        assert all_but_one(value) == (0.0, 7.0, place)
    assert all_but_one(np.array([1.0, 1.0, 2.0, 2.0])) is None


def test_numbers_that_are_no_entry_of_the_gradient_are_not_called_one():
    assert "change along one direction: the rule gives 2" in str(with_finding(path="", entry=""))
    text = str(with_finding(kind="second"))
    assert "derivative of the gradient for `x` at [1,2] along one direction: the rule" in text
    mode = with_finding(kind="mode", path="args[0][1]")
    assert "args[0][1]: 2, in eager execution 1" in str(mode)


def test_several_findings_have_a_paragraph_each():
    other = dataclasses.replace(FINDING, path="args[1]", diagnosis="another has the wrong sign")
    text = str(dataclasses.replace(WRONG, findings=(FINDING, other)))
    assert text.count("2× too large") == text.count("another has the wrong sign") == 1


def test_terminal_shows_the_same_lines():
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(WRONG)
    shown = [line.rstrip() for line in console.export_text().splitlines()]
    assert shown == [line.rstrip() for line in str(WRONG).splitlines()]


# the page

ALONG = np.linspace(-1, 1, 9)
LINE = Picture("a slope", (ALONG > 0) * 1.0, np.ones(9), np.full(9, 1e-9), ALONG, -0.5)
TILES = Picture("a table", np.eye(3) * 4.25, np.zeros((3, 3)), np.zeros((3, 3)))


def parsed(report):
    """The page as a tree: it must be well formed."""
    return ET.fromstring(as_page(report).removeprefix("<!DOCTYPE html>"))


def text_of(tree):
    return " ".join("".join(tree.find("body").itertext()).split())


@pytest.mark.parametrize("report", [RIGHT, WRONG, OPEN], ids=lambda report: report.verdict)
def test_a_page_says_what_the_text_says(report):
    shown = text_of(parsed(report))
    for line in str(report).splitlines()[2:]:
        words = line.strip(" ·✓✗→").replace("`", "").removeprefix("rule: ")
        assert words.rstrip(":").casefold() in shown.casefold()


def test_a_page_fetches_nothing_and_runs_nothing():
    page = as_page(with_finding(picture=LINE))
    assert not re.search(r"<script|<link|url\(|@import|src=|href=|onclick", page)
    assert set(re.findall(r"https?://[^\"' ]*", page)) == {"http://www.w3.org/2000/svg"}


def test_names_are_escaped():
    evil = "<script>alert('&')</script>"
    leaf = dataclasses.replace(LEAF, name=evil)
    picture = dataclasses.replace(TILES, title=evil, rows=evil)
    report = dataclasses.replace(
        with_finding(diagnosis=evil, source=evil, picture=picture),
        name=evil,
        reproduce=evil,
        inputs=(Line(leaf, None),),
    )
    assert "<script" not in report._repr_html_()
    assert text_of(parsed(report)).count(evil) >= 5


def test_a_report_is_saved_as_a_page(tmp_path):
    WRONG.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == as_page(WRONG)


def of_class(tree, name):
    return [node for node in tree.iter() if node.get("class") == name]


def test_a_line_shows_where_rule_and_function_part():
    tree = parsed(with_finding(picture=LINE))
    (svg,) = [node for node in tree.iter() if node.tag.endswith("svg")]
    assert svg.get("aria-label") == "a slope: 5 of 9 wrong"
    (span,) = of_class(svg, "span")
    (mark,) = of_class(svg, "mark")
    left, right = (float(x) for x in re.findall(r"[MH]([\d.]+)", span.get("d"))[:2])
    assert left < float(re.findall(r"M([\d.]+)", mark.get("d"))[0]) < right
    heights = {float(y) for y in re.findall(r" ([\d.]+)", of_class(svg, "rule")[0].get("d"))}
    assert len(heights) == 1, "the rule is constant"


@pytest.mark.parametrize(("value", "text"), [(np.nan, "NaN"), (np.inf, "∞"), (-np.inf, "−∞")])
def test_a_line_marks_what_is_not_finite(value, text):
    rule = np.where(np.abs(ALONG) < 0.3, value, 1.0)
    tree = parsed(with_finding(picture=dataclasses.replace(LINE, rule=rule, truth=np.ones(9))))
    shown = [node for node in of_class(tree, "bad") if node.tag.endswith("text")]
    assert [node.text for node in shown] == [text], "once for all in a row"


@pytest.mark.parametrize("rule", [np.full(9, np.nan), np.zeros(9), 1 / (ALONG + 1e-9)])
@pytest.mark.parametrize("truth", [np.full(9, np.nan), np.zeros(9), np.full(9, 1e-300)])
def test_whatever_the_numbers_are_there_is_a_picture(rule, truth):
    picture = dataclasses.replace(LINE, rule=rule, truth=truth, error=np.zeros(9))
    text = as_page(with_finding(picture=picture)).partition("<svg")[2]
    assert "nan" not in text
    table = dataclasses.replace(TILES, rule=rule[None], truth=truth[None], error=np.zeros((1, 9)))
    assert as_page(with_finding(picture=table)).count("<rect") >= 27


def test_a_small_error_is_drawn_as_a_difference():
    close = dataclasses.replace(LINE, truth=ALONG, rule=ALONG * (1 + 1e-6))
    assert "the difference" in text_of(parsed(with_finding(picture=close)))
    assert "the difference" not in text_of(parsed(with_finding(picture=LINE)))


def test_a_picture_against_another_function_names_it():
    for picture in (LINE, TILES):
        report = dataclasses.replace(with_finding(picture=picture), against="<hard> tanh")
        shown = text_of(parsed(report))
        assert shown.count("<hard> tanh") == 2, "in the numbers, and in the picture"


def test_a_table_frames_the_wrong_cells_and_has_the_numbers():
    tree = parsed(with_finding(picture=TILES))
    assert len(of_class(tree, "wrong")) == 6, "three in the rule, three in the difference"
    numbers = [node.text for node in tree.iter() if node.tag.endswith("text")]
    assert (numbers.count("4.25"), numbers.count("−4.25")) == (3, 3)


@pytest.mark.parametrize(
    ("underline", "html"),
    [("", "<u>return a &lt; b</u>"), ("a <", "return <u>a &lt;</u> b")],
)
def test_the_line_of_the_rule_is_shown_with_what_is_meant_underlined(underline, html):
    assert "<u>" not in as_page(WRONG)
    assert html in as_page(with_finding(code="return a < b", underline=underline))


def test_leaves_describe_themselves():
    assert LEAF.describe() == "float32[2, 3]"
    assert LEAF.size == 6
    assert np.prod(LEAF.shape) == LEAF.size
