"""The page of an audit, of results made by hand."""

import dataclasses
import re
from collections import defaultdict
from html.parser import HTMLParser

from pullback.audit import results as r
from pullback.audit.page import as_html, as_markdown, grouped

PROGRAM = (
    "import numpy as np\n\nx = 1  # <x>\n\n\ndef f(x):\n    if x:\n        return np.sin(x) ** 2\n"
)


def fault(status: str = r.WRONG, diagnosis: str = "off by 3") -> r.Fault:
    return r.Fault(status, "all zeros", diagnosis, "f(x)", "x", PROGRAM, "got 2\n  of `3`")


OP = r.Result("tf.raw_ops.Sink", r.WRONG, cases=3, faults=(fault(),), mended="pb.functions.sink")
CALLER = r.Result("tf.sink", r.WRONG, cases=2, faults=(fault(),), operations=("tf.raw_ops.Sink",))
OTHER = r.Result("tf.other", r.NAN, cases=2, faults=(fault(r.NAN, "NaN"),))
MEANT = r.Result("tf.stop", r.DESIGN, "that is | what it is for", cases=1)
FINE = r.Result("tf.sin", r.RIGHT, cases=7)
MISSING = r.Result("tf.raw_ops.Nccl", r.NOT_CALLED, "it needs several GPUs")
ALL = [OP, CALLER, OTHER, MEANT, FINE, MISSING]
HEAD = {"framework": "tensorflow", "version": "TensorFlow 9", "date": "2030-01-02"}


def test_a_function_is_listed_under_the_op_that_is_wrong() -> None:
    assert grouped(ALL) == {"tf.raw_ops.Sink": [OP, CALLER], "tf.other": [OTHER]}


def test_a_function_with_another_fault_than_its_op_stands_by_itself() -> None:
    nan = r.Result("tf.nan", r.NAN, faults=(fault(r.NAN),), operations=("tf.raw_ops.Sink",))
    assert list(grouped([OP, nan])) == ["tf.raw_ops.Sink", "tf.nan"]


def test_one_fault_of_an_op_is_enough_for_its_callers() -> None:
    both = r.Result("tf.raw_ops.Sink", r.WRONG, faults=(fault(), fault(r.NAN)))
    nan = r.Result("tf.nan", r.NAN, faults=(fault(r.NAN),), operations=("tf.raw_ops.Sink",))
    assert list(grouped([both, nan])) == ["tf.raw_ops.Sink"]


def test_the_page_says_what_was_run_and_counts() -> None:
    page = as_markdown(HEAD, ALL)
    assert page.startswith("# What is wrong with the gradients of TensorFlow 9\n")
    assert "on 2030-01-02: 6 ops, functions, layers and losses" in page
    assert "5 of them called, with 15 sets of inputs" in page
    assert "The gradient of 3 is wrong, NaN or missing somewhere, for 2 causes" in page
    assert "| wrong | 2 |" in page
    assert "somewhere, for 1 cause as far as" in as_markdown(HEAD, [OP, CALLER])


def test_a_part_of_the_catalogue_is_said_to_be_one() -> None:
    assert "on 2030-01-02: 6 of 1,489 ops, functions" in as_markdown({**HEAD, "names": "1489"}, ALL)


def test_a_cause_has_its_program_its_callers_and_what_mends_it() -> None:
    page = as_markdown(HEAD, ALL)
    cause = page.split("### `tf.raw_ops.Sink`")[1].split("###")[0]
    assert "\n- off by 3 (inputs: all zeros)\n" in cause
    assert "explanations" not in cause
    assert "Also: `tf.sink`." in cause
    assert "`pb.functions.sink` is right there, of real numbers." in cause
    assert f"```py\n{PROGRAM}```\n\n```text\ngot 2\n  of `3`\n```" in cause


def test_every_function_has_a_row_and_a_bar_does_not_end_a_cell() -> None:
    page = as_markdown(HEAD, ALL)
    assert "| `tf.sin` | right | 7 |  |" in page
    assert "| `tf.stop` | that is \\| what it is for |" in page
    assert "| `tf.raw_ops.Nccl` | not called |  | it needs several GPUs |" in page


class Texts(HTMLParser):
    """The text of each element of the kinds that hold a program or a cell, and which are open at the end."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: dict[str, list[str]] = defaultdict(list)
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)
            self.found[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        assert tag == "meta" or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in self.open:
            self.found[tag][-1] += data


def test_the_page_as_html_has_what_the_markdown_has() -> None:
    page = Texts(as_html(HEAD, ALL))
    assert page.open == []
    assert page.found["pre"] == [PROGRAM.strip(), "got 2\n  of `3`"] * 2
    titles = [line.lstrip("# ") for line in as_markdown(HEAD, ALL).splitlines() if line[:2] == "##"]
    assert page.found["h2"] + page.found["h3"] == sorted(
        (t.replace("`", "") for t in titles), key=lambda t: "." in t
    )
    assert "that is | what it is for" in page.found["td"]
    rows = [line for line in as_markdown(HEAD, ALL).splitlines() if line.startswith("| ")]
    assert len(page.found["tr"]) == len([row for row in rows if row.strip("| ")])


def test_a_status_is_explained_in_a_sentence() -> None:
    assert "\n\nThe gradient is NaN or infinite where" in as_markdown(HEAD, ALL)


def test_every_rule_of_the_style_is_for_something_on_the_page() -> None:
    """A style for another page's classes leaves this one bare."""
    page = as_html(HEAD, ALL)
    style = page.partition("<style>")[2].partition("</style>")[0]
    classes = set(re.findall(r"\.([a-z]\w*)", re.sub(r"\{[^}]*\}", "{}", style)))
    assert classes == {"wide", "text"}
    assert all(re.search(rf'class="{name}"', page) for name in classes)


def test_the_page_as_html_escapes_what_is_code() -> None:
    page = as_html(HEAD, ALL)
    assert '<h3 id="tf-raw_ops-sink"><code>tf.raw_ops.Sink</code></h3>' in page
    assert "x = 1  # &lt;x&gt;" in page
    assert "<td><code>tf.sin</code></td>" in page
    assert "```" not in page


def test_a_function_is_listed_under_an_op_that_the_check_blames() -> None:
    blamed = dataclasses.replace(fault(), wrong_ops=("Drain", "Sink"))
    caller = r.Result("tf.drain", r.WRONG, cases=2, faults=(blamed,))
    assert grouped([OP, caller]) == {"tf.raw_ops.Sink": [OP, caller]}
