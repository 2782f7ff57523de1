"""The second opinion: programs of NumPy alone, whose slopes are known."""

import numpy as np
import pytest

from pullback.audit.confirm import opinion, slopes

HEAD = "import numpy as np\nx = np.array({at})\ndef f(x):\n    return {f}\n"


def said(f: str, at: str, got: str) -> tuple[bool, bool]:
    found = opinion(HEAD.format(f=f, at=at) + f"got = {got}\n", "x")
    return found.confirmed, found.kink


@pytest.mark.parametrize(
    ("f", "at", "got", "confirmed"),
    [
        ("np.sum(x**2)", "[1.0, 3.0]", "2 * x", False),
        ("np.sum(x**2)", "[1.0, 3.0]", "3 * x", True),
        ("np.sum(x**2)", "[1.0, 3.0]", "2.001 * x", False),  # within what single precision hides
        ("np.sum(x**2)", "[1.0, 3.0]", "np.array([2.0, np.nan])", True),
        ("np.sum(x**2)", "[1.0, 3.0]", "None", True),
        ("np.sum(0 * x)", "[1.0, 3.0]", "None", False),
        ("np.sum(abs(x))", "[0.0, 3.0]", "np.array([0.3, 1.0])", False),  # between -1 and 1
        ("np.sum(abs(x))", "[0.0, 3.0]", "np.array([1.3, 1.0])", True),
        ("np.sum(np.sqrt(abs(x)))", "[0.0]", "np.array([5.0])", False),  # no finite slope
        (
            "np.sum(x / max(1e-12, abs(x[0])))",
            "[0.0]",
            "np.array([1e12])",
            False,
        ),  # too steep to tell
        ("np.sum(np.cos(x))", "[0.0]", "np.array([np.nan])", True),  # a slope of nothing
        ("np.sum(x > 0)", "[0.0]", "np.array([3.0])", False),  # a jump
        ("np.sum((x * x).real)", "[1.0 + 2.0j]", "2 * np.conj(x)", False),
        ("np.sum((x * x).real)", "[1.0 + 2.0j]", "2 * x", True),
    ],
)
def test_a_gradient_must_lie_between_the_slopes(f: str, at: str, got: str, confirmed: bool) -> None:
    assert said(f, at, got)[0] == confirmed


def test_a_wrong_number_at_a_kink_is_told_from_one_elsewhere() -> None:
    assert said("np.sum(abs(x))", "[0.0]", "np.array([2.0])") == (True, True)
    assert said("np.sum(x)", "[0.0]", "np.array([2.0])") == (True, False)


def test_a_program_that_raises_is_believed_where_there_is_a_slope() -> None:
    text = HEAD.format(f="np.sum(x)", at="[1.0]") + "raise LookupError('no gradient')\n"
    found = opinion(text, "x")
    assert (found.confirmed, found.shown) == (True, "LookupError: no gradient")


def test_a_program_whose_function_does_not_run_says_nothing() -> None:
    text = HEAD.format(f="1 / 0", at="[1.0]") + "got = None\n"
    assert not opinion(text, "x").confirmed


@pytest.mark.parametrize("got", ["x", "None"])
def test_a_function_that_draws_anew_in_each_call_is_not_judged(got: str) -> None:
    """Of equal numbers either order is the same, so that only a point beside them tells."""
    text = HEAD.format(f="np.random.permutation(x)[0]", at="[1.0, 1.0]") + f"got = {got}\n"
    found = opinion(text, "x")
    assert (found.confirmed, found.random) == (False, True)
    assert not opinion(text.replace("np.random.permutation(x)", "x"), "x").random


def test_slopes_to_either_side() -> None:
    below, above, _ = slopes(lambda x: float(np.sum(np.maximum(x, 3 * x))), np.array([0.0, 1.0]))
    np.testing.assert_allclose(below, [1.0, 3.0], rtol=1e-6)
    np.testing.assert_allclose(above, [3.0, 3.0], rtol=1e-6)
