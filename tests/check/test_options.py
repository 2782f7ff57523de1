"""Options of a check: what is of the wrong kind is refused by name, what is right can be written out."""

import numpy as np
import pytest

from pullback.check.options import Options, as_code
from pullback.check.probe import Leaf
from pullback.errors import CheckError

PLAIN = {
    "kwargs": None,
    "wrt": None,
    "order": None,
    "quick": False,
    "modes": None,
    "against": None,
    "domain": None,
    "tolerance": 0.0,
    "seed": 0,
    "explain": True,
}


@pytest.mark.parametrize(
    "option, value",
    [
        ("kwargs", [1]),
        ("kwargs", {1: 2}),
        ("wrt", 0),
        ("wrt", [0]),
        ("wrt", []),
        ("wrt", np.ones(3)),
        ("order", 0),
        ("order", 3),
        ("order", True),
        ("order", 1.0),
        ("order", "2"),
        ("tolerance", -0.1),
        ("tolerance", 1.0),
        ("tolerance", "1e-3"),
        ("quick", "yes"),
        ("explain", 1),
        ("modes", 3),
        ("modes", [3]),
        ("against", 3),
        ("seed", None),
        ("seed", -1),
        ("seed", 1.5),
        ("seed", "a"),
    ],
)
def test_what_is_of_the_wrong_kind_is_refused_by_name(option, value):
    with pytest.raises(CheckError, match=f"^{option} is .*; got {type(value).__name__}"):
        Options(**{**PLAIN, option: value})


@pytest.mark.parametrize(
    "given, code",
    [
        ({}, "seed=0"),
        ({"seed": np.int64(3)}, "seed=3"),
        ({"order": 1, "wrt": ["x"]}, "order=1, wrt=['x'], seed=0"),
        ({"domain": {"x": (0, 1)}}, "domain={'x': (0, 1)}, seed=0"),
        ({"tolerance": 1e-3}, "tolerance=0.001, seed=0"),
        ({"quick": True, "modes": "all"}, "quick=True, modes='all', seed=0"),
        ({"against": np.sin}, "against=sin, seed=0"),
        ({"against": lambda x: x}, "against=meant, seed=0"),
    ],
)
def test_a_check_can_be_written_out_again(given, code):
    assert Options(**{**PLAIN, **given}).as_code() == code


def test_functions_are_written_by_name_and_ops_in_quotes():
    assert as_code("Relu6") == "'Relu6'"
    assert as_code(np.sin) == "sin"
    assert as_code(lambda x: x) == "fn"


@pytest.mark.parametrize("name", ["params", 'params["w"]', "args[0]", 'args[0]["w"]'])
def test_names_mean_what_is_inside_them(name):
    leaf = Leaf('args[0]["w"]', 'params["w"]', (3,), "float32")
    assert leaf.is_meant(name)
    assert not leaf.is_meant("param")
