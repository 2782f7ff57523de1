"""Operations that end the process for what does not fit are given nothing but what fits."""

import numpy as np
import pytest
import tensorflow as tf

from pullback.engines.tensorflow.programs import PROGRAMS
from pullback.engines.tensorflow.programs.alone import TRIED, has_form_of, otherwise, run_changed
from pullback.extend import Refused
from pullback.program.run import CALLS, Changes, again, run_program, runs_until

M = tf.reshape(tf.range(12.0), [3, 4])
ONES = tf.ones([1, 4, 4, 1])


def pooled(x):
    return tf.raw_ops.AvgPoolGrad(
        orig_input_shape=[1, 4, 4, 1],
        grad=x[:, :2, :2],
        ksize=[1, 2, 2, 1],
        strides=[1, 2, 2, 1],
        padding="VALID",
    )


def operation(function, kind, *args):
    """The first operation of its kind in the program, and what it is given there."""
    made = run_program(PROGRAMS, PROGRAMS.trace(function, args), args, entered=CALLS)
    event = next(event for event in made.events if event.node.op == kind)
    return event.node, [made.values[number] for number in event.inputs]


# Each of these operands ends the process, or asks for more memory than there is.
DEADLY = {
    "RFFT": (lambda x: tf.signal.rfft(x, [4]), M, [M, tf.constant([0])]),
    "IRFFT": (tf.signal.irfft, tf.cast(M, tf.complex64), [tf.cast(M, tf.complex64), [0]]),
    "AvgPoolGrad": (pooled, ONES, [[1, 4, 4, 1], tf.ones([2, 2, 2, 1])]),
    "SplitV": (lambda x: tf.split(x, [1, 3], 1), M, [M, tf.constant(1), tf.constant(1)]),
    "Fill": (lambda x: tf.fill([2, 2], x), tf.constant(1.0), [[2**30, 8], tf.constant(1.0)]),
    "Range": (
        lambda x: tf.cast(tf.range(0, tf.cast(x, tf.int32), 1), tf.float32),
        tf.constant(3.0),
        [tf.constant(0), tf.constant(2**31 - 1), tf.constant(1)],
    ),
    "Tile": (lambda x: tf.tile(x, [2, 1]), M, [M, tf.constant([2**30, 8])]),
}


@pytest.mark.parametrize("kind", DEADLY)
def test_what_would_end_the_process_is_refused(kind):
    function, x, taken = DEADLY[kind]
    node, given = operation(function, kind, x)
    with pytest.raises(Refused, match=r"is run on nothing but|too many numbers|of unknown size"):
        run_changed(node, list(map(tf.convert_to_tensor, taken)), given, "")


def test_shapes_that_do_not_fit_raise_before_anything_runs():
    node, given = operation(lambda x: tf.matmul(x, x, transpose_b=True), "MatMul", M)
    with pytest.raises(ValueError, match="Dimensions must be equal"):
        run_changed(node, [M, tf.ones([5, 6])], given, "")


def test_other_numbers_of_the_same_form_run():
    node, given = operation(lambda x: tf.signal.rfft(x, [4]), "RFFT", M)
    (found,) = run_changed(node, [2 * M, tf.constant([4])], given, "")
    np.testing.assert_allclose(found, np.fft.rfft(2 * M.numpy()), rtol=1e-5)


def test_another_axis_runs():
    node, given = operation(lambda x: tf.reduce_sum(x, 1), "Sum", M)
    (found,) = run_changed(node, [M, tf.constant([0])], given, "")
    np.testing.assert_allclose(found, M.numpy().sum(0))


@pytest.mark.parametrize("seen", [False, True])
def test_another_operation_with_other_options_runs(seen):
    program = PROGRAMS.trace(lambda x: tf.reduce_sum(x, 1), [M], seen=seen)
    (node,) = (node for node in program.nodes if node.op == "Sum")
    (found,) = otherwise(node, "Mean", {"keep_dims": True})([M, tf.constant([0])])
    np.testing.assert_allclose(found, M.numpy().mean(0, keepdims=True), rtol=1e-6)


def test_crops_are_taken_at_finite_places_only():
    def crop(boxes):
        return tf.raw_ops.CropAndResizeGradBoxes(
            grads=tf.ones([1, 2, 2, 1]), image=ONES, boxes=boxes, box_ind=[0]
        )

    node, given = operation(crop, "CropAndResizeGradBoxes", tf.ones([1, 4]))
    taken = [tf.ones([1, 2, 2, 1]), ONES, tf.fill([1, 4], float("nan")), tf.constant([0])]
    with pytest.raises(Refused, match="on finite numbers only"):
        run_changed(node, taken, given, "")


def heron(x):
    """Until the square is near enough."""

    def is_off(y):
        return tf.reduce_max(tf.abs(y * y - x)) > 1e-3

    return tf.while_loop(is_off, lambda y: ((y + x / y) / 2,), (x,))


def counted(x):
    return tf.while_loop(lambda k, _: k < 3, lambda k, y: (k + 1, (y + x / y) / 2), (0, x))


@pytest.mark.parametrize(("loop", "is_open"), [(heron, True), (counted, False)])
def test_a_loop_that_runs_until_numbers_meet_is_not_run_on_others(loop, is_open):
    x = M + 1
    made = run_program(PROGRAMS, PROGRAMS.trace(loop, [x]), [x], entered=CALLS)
    event = next(event for event in made.events if event.node.op == "StatelessWhile")
    assert runs_until(event.node) is is_open
    which = event.inputs.index(made.inputs[0])
    changes = Changes({(event.node, which): lambda t: 2 * t})
    if is_open:
        with pytest.raises(Refused, match="is run on nothing but"):
            again(made, changes)
    else:
        assert not np.allclose(again(made, changes).results[-1], made.results[-1])


FORMS = [
    (np.zeros(3), np.ones(3), True),
    (np.zeros(3), np.ones(4), False),
    (np.zeros(3), np.zeros(3, np.float32), False),
    (np.array([1, 2]), np.array([1, 2]), True),
    (np.array([1, 2]), np.array([2, 1]), False),
    (np.array([True]), np.array([False]), False),
    (np.zeros(2, complex), np.ones(2, complex), True),
]


@pytest.mark.parametrize(("one", "other", "same"), FORMS)
def test_form_is_all_but_numbers_with_a_fraction(one, other, same):
    assert has_form_of(tf.constant(one), tf.constant(other)) is same


@pytest.mark.parametrize("kind", ["RFFT", "IRFFT", "AvgPoolGrad", "MaxPoolGradWithArgmax", "While"])
def test_what_dies_is_not_among_what_was_tried(kind):
    assert kind not in TRIED
