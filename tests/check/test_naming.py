"""How inputs are called: by their parameter, with a path into it."""

import functools

import pytest

from pullback.check.probe import Leaf
from pullback.check.probe.naming import distinct, paths_and_names


class Layer:
    """Called through `call`, as layers are."""

    def call(self, inputs, training=False):
        return inputs


def plain(x, *rest, key=None):
    return x


NAMED = {
    "by position": (plain, (1,), {}, [("args[0]", "x")]),
    "nested": (
        plain,
        ({"w": [1, 2]},),
        {},
        [('args[0]["w"][0]', 'x["w"][0]'), ('args[0]["w"][1]', 'x["w"][1]')],
    ),
    "beyond the parameters": (plain, (1, 2), {}, [("args[0]", "x"), ("args[1]", "args[1]")]),
    "by keyword, sorted": (
        plain,
        (),
        {"x": 1, "key": 2},
        [('kwargs["key"]', "key"), ('kwargs["x"]', "x")],
    ),
    "layer": (Layer(), (1,), {}, [("args[0]", "inputs")]),
    "partial": (functools.partial(plain, key=1), (1,), {}, [("args[0]", "x")]),
    "without a signature": (min, (1,), {}, [("args[0]", "args[0]")]),
}


@pytest.mark.parametrize("case", NAMED)
def test_leaves_are_called_by_parameter_and_path(case):
    fn, args, kwargs, wanted = NAMED[case]
    assert list(paths_and_names(fn, args, kwargs)) == wanted


def test_leaves_of_the_same_path_get_numbers():
    leaf = Leaf('variables["w"]', "w", (3,), "float32")
    assert [one.name for one in distinct([leaf, leaf, leaf])] == ["w", "w#2", "w#3"]
    assert distinct([leaf, leaf])[1].path == 'variables["w"]#2'
