"""Gradients that are SparseTensors, RaggedTensors or IndexedSlices: numbers go where they belong, or are refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import RuleResultError
from tests.modes import MODES, SECOND_ORDER, assert_in_mode

X = np.array([0.5, -1.5, 2.0], np.float32)
PLACES = [[0, 0], [0, 2], [1, 2]]
ROWS = [7, 2, 7]


# One of each kind of program, and those in which whole numbers are hard to come by.
SOME_MODES = [
    "eager",
    "tf.function, tape outside, unknown shapes",
    "tf.gradients",
    "XLA",
    "tf.while_loop",
    "vectorized_map",
    "forward mode",
    "fit",
    "second order, eager",
    "second order, tapes inside",
]


def sparse(x: Any) -> Any:
    return tf.SparseTensor(PLACES, x, [2, 3])


def ragged(x: Any) -> Any:
    return tf.RaggedTensor.from_row_lengths(x, [2, 1])


def deep(x: Any) -> Any:
    return tf.RaggedTensor.from_nested_row_lengths(x, [[1, 1], [2, 1]])


def uniform(x: Any) -> Any:
    inner = tf.RaggedTensor.from_row_lengths(x, [2, 1])
    return tf.RaggedTensor.from_uniform_row_length(inner, 2)


def slices(x: Any) -> Any:
    return tf.IndexedSlices(x, tf.constant(ROWS), tf.constant([9]))


def when_run(numbers: Any, dy: Any, dtype: Any = tf.int64) -> Any:
    """Whole numbers that are known only when the program runs."""
    return tf.constant(numbers, dtype) + tf.cast(0.0 * dy[0], dtype)


def numbers(value: Any) -> Any:
    return value.flat_values if isinstance(value, tf.RaggedTensor) else value.values


def entries(dy: Any, *order: int) -> Any:
    """10, 20, 30 times the upstream, some of them in this order."""
    return tf.gather(dy * [10.0, 20.0, 30.0], order)


# Rules whose numbers all have a place in the input, and the gradient that they mean.
RIGHT: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], list[float]]] = {
    "sparse, of the input": (sparse, lambda dy: sparse(dy * 5.0), [5, 5, 5]),
    "sparse, its numbers alone": (sparse, lambda dy: dy * 5.0, [5, 5, 5]),
    "sparse, in another order": (
        sparse,
        lambda dy: tf.SparseTensor([PLACES[2], PLACES[0], PLACES[1]], entries(dy, 2, 0, 1), [2, 3]),
        [10, 20, 30],
    ),
    "sparse, in another order, known when it runs": (
        sparse,
        lambda dy: tf.SparseTensor(
            when_run([PLACES[1], PLACES[2], PLACES[0]], dy), entries(dy, 1, 2, 0), [2, 3]
        ),
        [10, 20, 30],
    ),
    "sparse, without an entry": (
        sparse,
        lambda dy: tf.SparseTensor([PLACES[2], PLACES[0]], entries(dy, 2, 0), [2, 3]),
        [10, 0, 30],
    ),
    "sparse, without any entry": (
        sparse,
        lambda dy: tf.SparseTensor(np.zeros([0, 2], np.int64), dy[:0], [2, 3]),
        [0, 0, 0],
    ),
    "ragged": (ragged, lambda dy: ragged(dy * 5.0), [5, 5, 5]),
    "ragged, known when it runs": (
        ragged,
        lambda dy: tf.RaggedTensor.from_row_lengths(dy * 5.0, when_run([2, 1], dy)),
        [5, 5, 5],
    ),
    "ragged, its numbers alone": (ragged, lambda dy: dy * 5.0, [5, 5, 5]),
    "ragged in ragged": (deep, lambda dy: deep(dy * 5.0), [5, 5, 5]),
    "ragged in rows of one length": (uniform, lambda dy: uniform(dy * 5.0), [5, 5, 5]),
    "slices": (slices, lambda dy: slices(dy * 5.0), [5, 5, 5]),
    "slices, without their shape": (
        slices,
        lambda dy: tf.IndexedSlices(dy * 5.0, tf.constant(ROWS)),
        [5, 5, 5],
    ),
    "sparse, of a shape of 2⁸⁰": (
        lambda x: tf.SparseTensor([[0, 0], [0, 1], [5, 2**39]], x, [2**40, 2**40]),
        lambda dy: tf.SparseTensor(
            [[5, 2**39], [0, 0], [0, 1]], entries(dy, 2, 0, 1), [2**40, 2**40]
        ),
        [10, 20, 30],
    ),
}


@pytest.mark.parametrize("mode", SOME_MODES)
@pytest.mark.parametrize("name", RIGHT)
def test_numbers_go_to_the_places_of_the_input(name: str, mode: str) -> None:
    make, rule, wanted = RIGHT[name]

    def function(x):
        return pb.with_gradient(lambda value: numbers(value) * 2.0, rule)(make(x * x))

    x = X.astype(np.float64)
    slope = np.array(wanted) * 2.0
    gradient = slope * x if mode in MODES else 2.0 * slope**2 * x
    assert_in_mode({**MODES, **SECOND_ORDER}[mode], function, [tf.constant(X)], [gradient])


# Rules that say something about places which the input has not, and how that begins.
WRONG: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str]] = {
    "sparse, an entry too many": (
        sparse,
        lambda dy: tf.SparseTensor([[0, 1], *PLACES[1:]], dy, [2, 3]),
        "SparseTensor of another dense shape, or with entries where",
    ),
    "sparse, of another shape": (
        sparse,
        lambda dy: tf.SparseTensor(PLACES, dy, [2, 4]),
        "SparseTensor of another dense shape",
    ),
    "sparse, of more axes": (
        sparse,
        lambda dy: tf.SparseTensor([[0, *place] for place in PLACES], dy, [1, 2, 3]),
        "SparseTensor of another dense shape",
    ),
    "sparse, an entry whose place in memory would be another's": (
        lambda x: tf.SparseTensor([[0, 0], [0, 1], [5, 2**39]], x, [2**40, 2**40]),
        lambda dy: tf.SparseTensor([[2**24, 0], [0, 1], [5, 2**39]], dy, [2**40, 2**40]),
        "entries where the input has none",
    ),
    "a dense tensor that could be summed": (
        lambda x: tf.SparseTensor(PLACES, x, [3, 3]),
        lambda dy: tf.ones([3, 3]) * dy[0],
        r"a tensor \[3, 3\]; wanted a SparseTensor with the indices of the input",
    ),
    "ragged, of more rows": (
        ragged,
        lambda dy: tf.RaggedTensor.from_row_splits(dy, tf.constant([0, 2, 3, 3], tf.int64)),
        "RaggedTensor with other row splits",
    ),
    "ragged, of other rows": (
        lambda x: tf.RaggedTensor.from_row_splits(x, tf.constant([0, 2, 3], tf.int64)),
        lambda dy: tf.RaggedTensor.from_row_splits(dy, tf.constant([0, 1, 3], tf.int64)),
        "RaggedTensor with other row splits",
    ),
    "ragged, one level for two": (deep, ragged, "RaggedTensor with other row splits"),
    "a padded tensor that could be summed": (
        lambda x: tf.RaggedTensor.from_row_lengths(x, [3, 0]),
        lambda dy: tf.ones([2, 3]) * dy[0],
        r"a tensor \[2, 3\]; wanted a RaggedTensor with the row splits",
    ),
    "slices of other rows": (
        slices,
        lambda dy: tf.IndexedSlices(dy, tf.constant([7, 7, 2])),
        "IndexedSlices with other indices",
    ),
    "slices of another shape": (
        slices,
        lambda dy: tf.IndexedSlices(dy, tf.constant(ROWS), tf.constant([8])),
        "IndexedSlices with other indices, or of another dense shape",
    ),
    "slices for a SparseTensor": (
        sparse,
        lambda dy: tf.IndexedSlices(dy, tf.constant([0, 1, 2])),
        "IndexedSlices; wanted a SparseTensor",
    ),
    "a RaggedTensor for a SparseTensor": (
        sparse,
        ragged,
        "a RaggedTensor; wanted a SparseTensor",
    ),
}


@pytest.mark.parametrize("mode", ["eager", "tf.function, tape outside", "XLA"])
@pytest.mark.parametrize("name", WRONG)
def test_what_has_no_place_in_the_input_is_refused(name: str, mode: str) -> None:
    make, rule, words = WRONG[name]

    def function(x):
        return pb.with_gradient(lambda value: numbers(value) * 2.0, rule)(make(x))

    with pytest.raises((RuleResultError, ValueError), match=words):
        MODES[mode](function, [tf.constant(X)])


LATE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str]] = {
    "sparse": (
        sparse,
        lambda dy: tf.SparseTensor(when_run([[0, 1], *PLACES[1:]], dy), dy, [2, 3]),
        "entries where the input has none; wanted one with the indices",
    ),
    "ragged": (
        ragged,
        lambda dy: tf.RaggedTensor.from_row_lengths(dy, when_run([1, 2], dy)),
        "other row splits; wanted one with the row splits",
    ),
    "slices": (
        slices,
        lambda dy: tf.IndexedSlices(dy, when_run([7, 7, 2], dy, tf.int32)),
        "other indices, or of another dense shape; wanted one of the rows",
    ),
}


@pytest.mark.parametrize("mode", ["eager", "tf.function, tape outside", "tf.while_loop"])
@pytest.mark.parametrize("name", LATE)
def test_what_is_known_only_when_the_program_runs_is_refused_then(name: str, mode: str) -> None:
    make, rule, words = LATE[name]

    def function(x):
        return pb.with_gradient(lambda value: numbers(value) * 2.0, rule)(make(x))

    with pytest.raises((RuleResultError, tf.errors.InvalidArgumentError), match=words):
        MODES[mode](function, [tf.constant(X)])


@pytest.mark.parametrize("mode", ["XLA", "XLA, tape inside"])
@pytest.mark.parametrize("name", LATE)
def test_xla_which_cannot_refuse_it_gives_no_number(name: str, mode: str) -> None:
    make, rule, _ = LATE[name]

    def function(x):
        return pb.with_gradient(lambda value: numbers(value) * 2.0, rule)(make(x))

    (found,) = MODES[mode](function, [tf.constant(X)])
    assert np.isnan(found).all()


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "traced"])
def test_the_original_of_slices_is_about_their_numbers(wrap: Any) -> None:
    """The ordinary gradient of a gather is a set of IndexedSlices itself, of the rows of the numbers."""

    def tenfold(dy, *, original):
        return 10.0 * original(dy)

    def function(x):
        gathered = pb.with_gradient(lambda value: tf.gather(value.values, [2, 0]), tenfold)
        return gathered(slices(x))

    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = wrap(function)(x)
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(y, x)), [10.0, 0.0, 10.0])
