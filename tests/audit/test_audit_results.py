"""Results of an audit: written and read again, and which outweighs which."""

from pathlib import Path

from pullback.audit import results as r

FAULT = r.Fault(r.WRONG, "zeros", "off by 2 | 3", "f(x)", "x", script="x = 1\n", shown="2")
RESULT = r.Result("f", r.WRONG, cases=3, calls=9, faults=(FAULT,), operations=("a", "b"))


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    path.write_text(f'{{"version": "2"}}\n{r.as_line(RESULT)}\n', encoding="utf-8")
    assert r.read(path) == ({"version": "2"}, [RESULT])


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "state.jsonl"
    whole = r.as_line(RESULT)
    path.write_text(f'{{"version": "2"}}\n{whole}\n{whole[:40]}', encoding="utf-8")
    assert r.read(path)[1] == [RESULT]


def test_a_file_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert r.read(tmp_path / "none.jsonl") == ({}, [])


def test_wrong_outweighs_nan_and_nan_outweighs_right() -> None:
    assert r.worst([r.RIGHT, r.NAN, r.WRONG]) == r.WRONG
    assert r.worst([r.RIGHT, r.NAN]) == r.NAN


def test_what_was_not_called_is_no_fault() -> None:
    lost = r.Result("f", r.LOST)
    assert not lost.was_called
    assert not lost.is_fault
    assert RESULT.is_fault
