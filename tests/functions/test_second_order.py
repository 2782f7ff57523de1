"""Value, gradient and Hessian of every function at its own special points, in every dtype and way to run it."""

import itertools
from typing import Any

import pytest

from tests.functions.derivatives import DTYPES, WAYS, Row, errors
from tests.functions.second_order_table import ROWS

ROW = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
OTHER_WAYS = [way for way in WAYS if way != "eager"]


def assert_none(found: Any) -> None:
    lines = [
        f"{what} at {at}: {came}, wanted {wanted}: off by {off:.3g} ulp"
        for what, at, came, wanted, off in found
    ]
    assert not lines, "\n".join(lines)


@ROW
@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_in_every_dtype(row: Row, dtype: str) -> None:
    assert_none(errors(row, dtype, "eager"))


@ROW
@pytest.mark.parametrize("way", OTHER_WAYS)
def test_derivatives_in_every_way(row: Row, way: str) -> None:
    assert_none(errors(row, "float32", way))


def test_an_error_of_five_in_the_last_place_is_seen() -> None:
    row = next(row for row in ROWS if row.name == "sqrt")
    off = [
        *itertools.islice(
            errors(Row(row.name, wrong_root, row.formula, [(4,)]), "float32", "eager"), 3
        )
    ]
    assert [what for what, *_ in off] == ["value", "gradient", "hessian"]


def wrong_root(x: Any) -> Any:
    return (1.0 + 5.0 * 2.0**-23) * x**0.5
