"""Where an override is in force: blocks, nesting, threads, tasks, generators; and what is left when it is closed."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import PullbackError, UnmatchedOverride, UnreachableOverride
from tests.override.helpers import PLAIN_RELU, SEVEN, X, gradient, tenfold, times_seven

TARGETS = ["Relu", tf.nn.relu]


@pytest.fixture(autouse=True)
def nothing_stays_behind() -> Iterator[None]:
    code, execute = tf.nn.relu.__code__, tf.raw_ops.Relu
    yield
    assert tf.nn.relu.__code__ is code
    assert tf.raw_ops.Relu is execute
    assert gradient(tf.nn.relu) == PLAIN_RELU


@pytest.mark.parametrize("target", TARGETS)
def test_a_block_can_be_opened_again(target: Any) -> None:
    changed = pb.override({target: times_seven})
    for _ in range(3):
        with changed:
            assert gradient(tf.nn.relu) == SEVEN
        assert gradient(tf.nn.relu) == PLAIN_RELU
    assert changed.audit.rows[0].matched == 3


@pytest.mark.parametrize("target", TARGETS)
def test_the_innermost_wins_and_its_original_is_the_next_rule(target: Any) -> None:
    outer, inner = pb.override({target: times_seven}), pb.override({target: tenfold})
    with outer, inner:
        assert gradient(tf.nn.relu) == [-70.0] * 3
        assert gradient(tf.function(tf.nn.relu)) == [-70.0] * 3
    with inner, outer:
        assert gradient(tf.nn.relu) == SEVEN
    assert [o.audit.rows[0].matched for o in (outer, inner)] == [3, 3]


@pytest.mark.parametrize("target", TARGETS)
def test_the_same_override_inside_itself(target: Any) -> None:
    changed = pb.override({target: tenfold})
    with changed, changed:
        assert gradient(tf.nn.relu) == [100.0, 0.0, 100.0]


def test_an_exception_closes_the_block_and_is_not_replaced() -> None:
    with pytest.raises(ZeroDivisionError, match="division"), pb.override({"Relu": times_seven}):
        1 / 0


def test_rules_run_without_overrides() -> None:
    def uses_relu(dy: Any) -> Any:
        return tf.nn.relu(dy) * 2.0

    def rule_gradient(dy: Any, *, inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs[0])
            y = uses_relu(inputs[0])
        return dy * tape.gradient(y, inputs[0])

    with pb.override({"Relu": rule_gradient}) as changed:
        assert gradient(tf.nn.relu) == [2.0, 0.0, 2.0]
        assert gradient(tf.function(tf.nn.relu)) == [2.0, 0.0, 2.0]
    assert changed.audit.rows[0].matched == 2


def test_the_backward_pass_is_not_overridden() -> None:
    with pb.override({"Mul": tenfold_pair}) as changed:
        found = gradient(lambda x: x * x)
    assert found == [20.0, -20.0, 40.0]
    assert changed.audit.rows[0].matched == 1


def tenfold_pair(dy: Any, *, original: Any) -> Any:
    return [10.0 * g for g in original(dy)]


def test_a_tape_that_outlives_the_block() -> None:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pb.override({tf.nn.relu: times_seven}):
            y = tf.nn.relu(x)
        z = y + tf.nn.relu(x)
    assert tape.gradient(z, x).numpy().tolist() == [-6.0, -7.0, -6.0]


def test_threads_do_not_see_each_other() -> None:
    opened, done, found = threading.Event(), threading.Event(), {}

    def other() -> None:
        opened.wait(10)
        found["other"] = (gradient(tf.nn.relu), gradient(tf.function(tf.nn.relu)))
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with pb.override({tf.nn.relu: times_seven}):
        opened.set()
        done.wait(30)
        found["mine"] = gradient(tf.nn.relu)
    thread.join()
    assert found == {"other": (PLAIN_RELU, PLAIN_RELU), "mine": SEVEN}


@pytest.mark.parametrize("shared", [True, False])
def test_many_threads_each_with_its_own_rule(shared: bool) -> None:
    common = tf.function(lambda x: tf.gather(tf.nn.relu(x), [0, 1, 2]))
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        def rule(dy: Any) -> Any:
            return float(number) * dy

        for _ in range(5):
            with pb.override({"Relu": rule}):
                found[number] = gradient(common if shared else tf.nn.relu)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert found == {n: [float(n)] * 3 for n in range(6)}


def test_leaving_in_one_thread_does_not_blind_another() -> None:
    variable, go, left = tf.Variable(X), threading.Event(), threading.Event()
    found: list[Any] = []

    def gathered() -> Any:
        with tf.GradientTape() as tape:
            y = tf.gather(variable, [0, 1])
        return tf.convert_to_tensor(tape.gradient(y, variable)).numpy().tolist()

    def stays() -> None:
        with pb.override({"ResourceGather": tenfold_first}):
            go.set()
            left.wait(10)
            found.append(gathered())

    thread = threading.Thread(target=stays)
    thread.start()
    go.wait(10)
    with pb.override({"Relu": times_seven}):
        tf.nn.relu(tf.constant(X))
    left.set()
    thread.join()
    assert found == [[10.0, 10.0, 0.0]]


def tenfold_first(dy: Any, *, original: Any) -> Any:
    handle, index = original(dy)
    return 10.0 * tf.convert_to_tensor(handle), index


def test_tasks_of_an_event_loop_do_not_see_each_other() -> None:
    async def overridden(order: list[str]) -> Any:
        with pb.override({tf.nn.relu: times_seven}):
            order.append("open")
            await asyncio.sleep(0.02)
            return gradient(tf.nn.relu)

    async def plain(order: list[str]) -> Any:
        await asyncio.sleep(0.01)
        order.append("plain")
        return gradient(tf.nn.relu), gradient(tf.function(tf.nn.relu))

    async def main() -> Any:
        order: list[str] = []
        return await asyncio.gather(overridden(order), plain(order), overridden(order)), order

    (first, second, third), order = asyncio.run(main())
    assert (first, second, third) == (SEVEN, (PLAIN_RELU, PLAIN_RELU), SEVEN)
    assert order == ["open", "open", "plain"]


def test_a_block_in_a_generator_is_refused() -> None:
    def leaks() -> Iterator[int]:
        with pb.override({"Relu": times_seven}):
            yield 1

    with pytest.raises(UnreachableOverride, match=r"generator leaks .*Open it around the loop"):
        next(leaks())


def test_a_context_manager_made_of_a_generator_is_a_block() -> None:
    @contextlib.contextmanager
    def guided() -> Iterator[None]:
        with pb.override({"Relu": times_seven}):
            yield

    with guided():
        assert gradient(tf.nn.relu) == SEVEN


@pytest.fixture
def relu_overridden() -> Iterator[None]:
    with pb.override({"Relu": times_seven}):
        yield


def test_a_fixture_made_of_a_generator_is_a_block(relu_overridden: None) -> None:
    assert gradient(tf.nn.relu) == SEVEN


def test_a_generator_that_applies_an_override_to_a_function() -> None:
    def batches() -> Iterator[Any]:
        changed = pb.override({"Relu": times_seven})(tf.nn.relu)
        yield gradient(changed)
        yield gradient(changed)

    found = []
    for batch in batches():
        found.append(batch)
        assert gradient(tf.nn.relu) == PLAIN_RELU
    assert found == [SEVEN, SEVEN]


def test_closing_out_of_order_is_an_error() -> None:
    first, second = pb.override({"Relu": times_seven}), pb.override({"Relu": tenfold})
    first.__enter__()
    second.__enter__()
    with pytest.raises(PullbackError, match="not the innermost"):
        first.__exit__(None, None, None)
    tf.nn.relu(tf.constant(X))
    second.__exit__(None, None, None)
    first.__exit__(None, None, None)


def test_an_override_that_meets_nothing_is_an_error() -> None:
    with (
        pytest.raises(UnmatchedOverride, match=r"tf.nn.relu did not run here.*'Relu6'"),
        pb.override({tf.nn.relu: tenfold}),
    ):
        tf.nn.relu6(tf.constant(X))


def test_without_strict_it_is_a_warning() -> None:
    with (
        pytest.warns(UserWarning, match="did not run here"),
        pb.override({"Relu": tenfold}, strict=False),
    ):
        tf.exp(tf.constant(X))


def test_traces_made_before_and_after_are_untouched() -> None:
    function = tf.function(tf.nn.relu)
    assert gradient(function) == PLAIN_RELU
    with pb.override({"Relu": times_seven}):
        assert gradient(function) == SEVEN
    assert gradient(function) == PLAIN_RELU
    assert function.experimental_get_tracing_count() == 2


def test_equal_overrides_share_a_trace_and_both_are_counted() -> None:
    function = tf.function(tf.nn.relu)
    audits = []
    for _ in range(3):
        with pb.override({"Relu": times_seven}) as changed:
            gradient(function)
        audits.append(changed.audit.rows[0])
    assert function.experimental_get_tracing_count() == 1
    assert [row.matched for row in audits] == [1, 1, 1]
    assert [row.matches[0].mode for row in audits] == ["traced", "cached", "cached"]


def test_rules_made_afresh_do_not_fill_a_function_for_ever() -> None:
    function = tf.function(tf.nn.relu)
    for number in range(40):

        def rule(dy: Any, number: int = number) -> Any:
            return float(number) * dy

        with pb.override({"Relu": rule}):
            assert gradient(function)[0] == number
    assert len(function._variable_creation_config.function_cache) <= 17
