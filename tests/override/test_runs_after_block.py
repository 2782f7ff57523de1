"""What is made in a block and runs after it: it is as without the block, or there is an error."""

import gc
import inspect
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import UnmatchedOverride, UnreachableOverride
from tests.override.helpers import PLAIN_RELU, SEVEN, X, gradient, tenfold, times_seven

TARGETS = ["Relu", tf.nn.relu]


def doubled(x: Any) -> Any:
    return tf.nn.relu(x) * 1.0


class Scaled(tf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = tf.Variable(1.0)

    @tf.function
    def run(self, x: Any, times: int = 1) -> Any:
        return doubled(x) * self.scale * float(times)


def of_function() -> Any:
    return tf.function(doubled).get_concrete_function(tf.TensorSpec([None]))


MODULE = Scaled()


def of_method() -> Any:
    return MODULE.run.get_concrete_function(tf.TensorSpec([None]), times=1)


def of_signature() -> Any:
    return tf.function(doubled, input_signature=[tf.TensorSpec([3])]).get_concrete_function()


def wrapped() -> Any:
    return tf.compat.v1.wrap_function(doubled, [tf.TensorSpec([3])])


MAKERS = [of_function, of_method, of_signature, wrapped]


@pytest.mark.parametrize("target", [*TARGETS, doubled])
@pytest.mark.parametrize("make", MAKERS)
def test_a_concrete_function_obeys_the_block_it_runs_in(
    make: Callable[[], Any], target: Any
) -> None:
    if make is wrapped and target is doubled:
        target = tf.nn.relu  # its graph has no functions, which is an error of its own
    with pb.override({target: times_seven}):
        concrete = make()
        assert gradient(concrete) == SEVEN
    assert gradient(concrete) == PLAIN_RELU
    for _ in range(2):
        with pb.override({target: times_seven}) as again:
            assert gradient(concrete) == SEVEN
        assert again.audit.effective == 1
    with pb.override({target: tenfold}):
        assert gradient(concrete) == [10.0, 0.0, 10.0]
    assert gradient(concrete) == PLAIN_RELU


@pytest.mark.parametrize("make", MAKERS)
def test_a_concrete_function_that_is_only_made_says_so(make: Callable[[], Any]) -> None:
    with (
        pytest.raises(
            UnreachableOverride, match=r"made here and not called.*get_concrete_function"
        ),
        pb.override({"Relu": times_seven}),
    ):
        make()


def test_a_method_whose_object_is_gone() -> None:
    class Plain:
        @tf.function
        def run(self, x: Any) -> Any:
            return doubled(x)

    with pb.override({"Relu": times_seven}):
        owner = Plain()
        concrete = owner.run.get_concrete_function(tf.TensorSpec([3]))
        del owner
        gc.collect()
        assert gradient(concrete) == SEVEN
    assert gradient(concrete) == PLAIN_RELU


def test_a_function_of_which_a_concrete_one_was_made_is_counted_in_later_blocks() -> None:
    function = tf.function(doubled)
    with pb.override({"Relu": times_seven}):
        gradient(function.get_concrete_function(tf.constant(X)))
    with pb.override({"Relu": times_seven}) as again:
        assert gradient(function) == SEVEN
    assert again.audit.effective == 1


def test_a_trace_that_failed_to_run_is_counted_when_it_does() -> None:
    def checked(x: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_less(x, 5.0)]):
            return tf.nn.relu(x)

    function = tf.function(checked)
    with (
        pytest.raises(tf.errors.InvalidArgumentError, match="assert"),
        pb.override({"Relu": times_seven}),
    ):
        function(tf.constant([9.0, 9.0, 9.0]))
    with pb.override({"Relu": times_seven}) as again:
        assert gradient(function) == SEVEN
    assert again.audit.effective == 1


def test_a_concrete_function_of_an_overridden_function_keeps_it() -> None:
    overridden = pb.override({"Relu": times_seven})(doubled)
    concrete = tf.function(overridden).get_concrete_function(tf.constant(X))
    assert gradient(concrete) == SEVEN


def test_what_is_saved_in_or_after_a_block_is_as_without_it(tmp_path: Path) -> None:
    module = Scaled()
    with pb.override({"Relu": times_seven}):
        gradient(module.run)
        tf.saved_model.save(module, str(tmp_path / "in"))
    tf.saved_model.save(module, str(tmp_path / "after"))
    for name in ("in", "after"):
        assert gradient(tf.saved_model.load(str(tmp_path / name)).run) == PLAIN_RELU


def by_tape(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = doubled(x)
    return tape.gradient(y, x)


def by_gradients(x: Any) -> Any:
    return tf.gradients(doubled(x), x)[0]


def mapped(function: Callable[..., Any]) -> Any:
    return tf.data.Dataset.from_tensors(tf.constant(X)).map(function)


def elements(dataset: Any) -> list[Any]:
    return [element.numpy().tolist() for element in dataset]


@pytest.fixture
def debug_mode() -> Iterator[None]:
    tf.data.experimental.enable_debug_mode()
    yield
    inspect.unwrap(tf.data.experimental.enable_debug_mode).__globals__["toggle_debug_mode"](False)


def make_and_run(function: Callable[..., Any], made: list[Any]) -> None:
    made.append(mapped(function))
    assert elements(made[0]) == [PLAIN_RELU]


@pytest.mark.parametrize("target", [*TARGETS, doubled])
@pytest.mark.parametrize("differentiate", [by_tape, by_gradients])
def test_a_pipeline_is_left_as_it_is_and_says_so(differentiate: Any, target: Any) -> None:
    made: list[Any] = []
    with (
        pytest.raises(UnreachableOverride, match=r"tf.data pipeline.*dataset.map\(pb.override"),
        pb.override({target: times_seven}),
    ):
        make_and_run(differentiate, made)
    assert elements(made[0]) == [PLAIN_RELU]
    assert elements(mapped(pb.override({target: times_seven})(differentiate))) == [SEVEN]


@pytest.mark.usefixtures("debug_mode")
def test_a_pipeline_that_runs_python_is_left_as_it_is_too() -> None:
    made: list[Any] = []
    with (
        pytest.raises(UnreachableOverride, match=r"tf.data pipeline"),
        pb.override({"Relu": times_seven}),
    ):
        make_and_run(by_tape, made)
    assert elements(made[0]) == [PLAIN_RELU]


@pytest.mark.parametrize("target", TARGETS)
def test_a_pipeline_warns_where_it_differentiates_and_only_there(target: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pb.override({target: times_seven}):
            mapped(doubled)
            assert gradient(doubled) == SEVEN
    with (
        pytest.warns(UserWarning, match=r"no effect in one place.*tf.data pipeline"),
        pb.override({target: times_seven}),
    ):
        gradient(lambda x: (mapped(by_tape), doubled(x))[1])


def test_a_pipeline_made_before_is_out_of_reach() -> None:
    dataset = mapped(by_tape)
    with (
        pytest.raises(UnmatchedOverride, match=r"tf.data pipeline.*dataset.map\(pb.override"),
        pb.override({"Relu": times_seven}),
    ):
        elements(dataset)


def later(x: Any) -> Any:
    return tf.py_function(doubled, [x], tf.float32)


def later_in_numpy(x: Any) -> Any:
    return tf.numpy_function(lambda a: np.float32(gradient(tf.nn.relu, a)), [x], tf.float32)


@pytest.mark.parametrize("target", [*TARGETS, doubled])
@pytest.mark.parametrize(
    "apply",
    [
        lambda override: override(later),
        lambda override: override(tf.function(later)),
        lambda override: tf.function(override(later)),
        lambda override: tf.function(block_inside(override)),
    ],
    ids=["eager", "to a tf.function", "in a tf.function", "as a block in a tf.function"],
)
def test_a_py_function_takes_an_applied_override_along(apply: Any, target: Any) -> None:
    override = pb.override({target: times_seven})
    function = apply(override)
    for runs in (1, 2):
        assert gradient(function) == SEVEN
        assert override.audit.effective == runs
    assert gradient(tf.function(later)) == PLAIN_RELU


def block_inside(override: Any) -> Callable[..., Any]:
    def function(x: Any) -> Any:
        with override:
            return later(x)

    return function


@pytest.mark.parametrize("wrap", [lambda f: f, tf.function], ids=["eager", "graph"])
def test_a_numpy_function_that_differentiates_for_itself(wrap: Any) -> None:
    changed = pb.override({"Relu": times_seven})(wrap(later_in_numpy))
    assert changed(tf.constant(X)).numpy().tolist() == SEVEN
    assert wrap(later_in_numpy)(tf.constant(X)).numpy().tolist() == PLAIN_RELU


@pytest.mark.parametrize("target", TARGETS)
def test_a_py_function_in_a_trace_that_is_used_again_is_counted_where_it_runs(target: Any) -> None:
    function = tf.function(later)
    for _ in range(3):
        with pb.override({target: times_seven}) as changed:
            assert gradient(function) == SEVEN
        assert changed.audit.effective == 1
    assert gradient(function) == PLAIN_RELU


def test_a_py_function_in_a_graph_of_version_1() -> None:
    with tf.Graph().as_default():
        x = tf.constant(X)
        with pb.override({"Relu": times_seven}) as changed:
            y = later(x)
        with tf.compat.v1.Session() as session:
            assert session.run(y).tolist() == [1.0, 0.0, 2.0]
    assert changed.audit.rows[0].matched == 1


def test_a_py_function_without_the_target_is_an_error_once_it_has_run() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="'Exp' did not run here"):
        pb.override({"Exp": times_seven})(tf.function(later))(tf.constant(X))
    with (
        pytest.raises(UnmatchedOverride, match="'Exp' did not run here"),
        pb.override({"Exp": times_seven}),
    ):
        tf.function(later)(tf.constant(X))


def test_a_py_function_in_a_branch_that_is_not_taken() -> None:
    def branching(x: Any) -> Any:
        return tf.cond(
            tf.reduce_sum(x) > 100.0, lambda: tf.ensure_shape(later(x), [3]), lambda: x * 1.0
        )

    with (
        pytest.raises(UnmatchedOverride, match="'Relu' did not run here"),
        pb.override({"Relu": times_seven}),
    ):
        tf.function(branching)(tf.constant(X))
