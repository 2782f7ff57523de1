"""Programs on the page of the full run: a sample does what the page says of it."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "audit-tensorflow.md"


def program(name: str) -> str:
    section = PAGE.read_text(encoding="utf-8").split(f"### `{name}`\n")[1]
    return re.search(r"```py\n(.*?)```", section, re.DOTALL)[1]


def run(name: str) -> dict[str, Any]:
    known: dict[str, Any] = {}
    exec(program(name), known)
    return known


@pytest.mark.parametrize(
    "name",
    ["tf.raw_ops.Cumprod", "tf.raw_ops.BesselI1", "tf.raw_ops.Xlogy", "tf.raw_ops.DynamicStitch"],
)
def test_a_wrong_gradient_differs_from_differences(name: str) -> None:
    known = run(name)
    wanted = known["wanted"]
    assert np.isfinite(wanted).all()
    assert not np.allclose(known["got"], wanted, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("name", ["tf.raw_ops.HSVToRGB", "tf.raw_ops.Range"])
def test_a_missing_gradient_is_none_where_there_is_a_slope(name: str) -> None:
    known = run(name)
    assert known["got"] is None
    assert np.abs(known["wanted"]).max() > 0.1


def test_a_gradient_that_is_nan() -> None:
    known = run("tf.raw_ops.Pow")
    assert np.isnan(known["got"]).any()
    assert np.isfinite(known["wanted"]).all()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tf.raw_ops.Igamma", "no entry for: IgammaGradA"),
        ("tf.raw_ops.Softsign", "no entry for: SoftsignGrad"),
    ],
)
def test_a_second_gradient_that_raises(name: str, words: str) -> None:
    with pytest.raises(LookupError, match=words):
        run(name)


def test_the_page_has_programs_without_pullback() -> None:
    text = PAGE.read_text(encoding="utf-8")
    programs = re.findall(r"```py\n(.*?)```", text, re.DOTALL)
    assert len(programs) >= 40
    assert not any("pullback" in one for one in programs)
