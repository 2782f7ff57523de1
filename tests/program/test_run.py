"""Programs on an engine of NumPy: run, changed, swept, pushed, asked."""

import numpy as np
import pytest

from pullback.program.data import NodeKind, Place
from pullback.program.places import assigned, statement
from pullback.program.protocol import Refused
from pullback.program.push import push
from pullback.program.queries import Turn, branches, compared_with, flat, turns, view_of
from pullback.program.run import (
    CALLS,
    EVERY,
    AnotherWay,
    Changes,
    again,
    is_open,
    run_program,
    runs_until,
)
from pullback.program.sweep import Options, sweep
from tests.program.numpy_programs import HERE, NumPyPrograms, Rule, ruled, written

ENGINE, X = NumPyPrograms(), np.array([0.3, -1.2, 0.7])


def smooth(w, x):
    return w.op("times", w.op("sin", x), w.op("exp", x))


def called(w, x):
    return w.op("call", x, kind=NodeKind.CALL, bodies=(written(smooth, title="smooth"),))


def chosen(w, x):
    taken = (w.constant(1), x)
    bodies = (written(lambda w, x: w.op("exp", x)), written(smooth))
    return w.op("choose", *taken, kind=NodeKind.BRANCH, bodies=bodies)


def counting(w, i, x):
    return w.op("below", i, w.constant(3.0)), x


def looped(w, x):
    body = written(lambda w, i, x: (w.op("plus", i, w.constant(1.0)), w.op("sin", x)), 2)
    going_on = written(lambda w, i, x: w.op("below", i, w.constant(3.0)), 2)
    loop = {"kind": NodeKind.LOOP, "count": 2, "bodies": (going_on, body)}
    return w.op("loop", w.constant(0.0), x, **loop)[1]


def custom(w, x):
    """The rule, which is wrong, reads what the function has computed and its result does not need."""
    e, s = w.op("exp", x), w.op("sin", x)
    rule = ruled(written(lambda w, dy, e: w.op("times", dy, e), 2), (None, (0,)), ((0, e),))
    return w.op("carrier", s, x, carries=1, has_rule=True, rule=Rule("custom", "f"), raw=rule)


def thrice(x):
    return np.sin(np.sin(np.sin(x)))


SLOPE = np.exp(X) * (np.sin(X) + np.cos(X))
THRICE = np.cos(X) * np.cos(np.sin(X)) * np.cos(np.sin(np.sin(X)))
CASES = {
    "plain": (smooth, np.sin(X) * np.exp(X), SLOPE),
    "call": (called, np.sin(X) * np.exp(X), SLOPE),
    "branch": (chosen, np.sin(X) * np.exp(X), SLOPE),
    "loop": (looped, thrice(X), THRICE),
    "custom": (custom, np.sin(X), np.exp(X)),
}


@pytest.mark.parametrize("entered", [EVERY, CALLS], ids=["flat", "whole"])
@pytest.mark.parametrize("name", CASES)
def test_a_program_is_run_and_swept(name, entered):
    write, value, slope = CASES[name]
    made = run_program(ENGINE, written(write), [X], entered=entered)
    np.testing.assert_allclose(made.results[0], value)
    found = sweep(made, {made.outputs[0]: [np.ones(3)]}, made.inputs)
    np.testing.assert_allclose(found[0], slope)
    if name != "custom":
        moving = push(made, {made.inputs[0]: np.ones(3)})
        np.testing.assert_allclose(moving[made.outputs[0]], slope)


def test_a_rule_is_left_out_for_the_functions_own_derivative():
    made = run_program(ENGINE, written(custom), [X])
    found = sweep(made, {made.outputs[0]: [np.ones(3)]}, made.inputs, Options(own=False))
    np.testing.assert_allclose(found[0], np.cos(X))


def test_another_format_is_that_of_every_number():
    made = run_program(ENGINE, written(smooth), [X], dtype="float32")
    assert {value.dtype for value in made.values} == {np.dtype("float32")}


def test_a_changed_operand_changes_what_follows_and_is_swept_with_it():
    made = run_program(ENGINE, written(smooth), [X])
    sine = made.events[0].node
    new = again(made, Changes({(sine, 0): lambda x: 2 * x}))
    np.testing.assert_allclose(new.results[0], np.sin(2 * X) * np.exp(X))
    assert made.results[0] is not new.results[0]
    (found,) = sweep(new, {new.outputs[0]: [np.ones(3)]}, new.inputs)
    np.testing.assert_allclose(found, np.sin(2 * X) * np.exp(X))  # through the other operand alone


def test_an_operation_is_computed_in_another_way():
    made = run_program(ENGINE, written(smooth), [X])
    instead = {made.events[0].node: lambda inputs: [np.cos(inputs[0])]}
    new = again(made, Changes(instead=instead))
    np.testing.assert_allclose(new.results[0], np.cos(X) * np.exp(X))


def test_a_change_takes_no_other_branch_unseen():
    def by_value(w, x):
        below = w.op("below", x, w.constant(0.0))
        bodies = (written(lambda w, x: w.op("exp", x)), written(lambda w, x: w.op("sin", x)))
        return w.op("choose", below, x, kind=NodeKind.BRANCH, bodies=bodies)

    made = run_program(ENGINE, written(by_value), [np.array(0.3)])
    compare = made.events[0].node
    with pytest.raises(AnotherWay, match="another branch"):
        again(made, Changes({(compare, 0): lambda x: -x}))
    np.testing.assert_allclose(
        again(made, Changes({(compare, 0): lambda x: 2 * x})).results[0], np.exp(0.3)
    )


def test_what_may_do_more_than_raise_is_refused():
    made = run_program(ENGINE, written(lambda w, x: w.op("deadly", w.op("sin", x))), [X])
    first, last = (event.node for event in made.events)
    again(made, Changes({(first, 0): lambda x: 2 * x}))
    with pytest.raises(Refused, match="deadly"):
        again(made, Changes({(last, 0): lambda x: x[:1]}))


def test_a_loop_until_numbers_meet_is_open():
    made = run_program(ENGINE, written(looped), [X], entered=CALLS)
    (loop,) = made.events
    assert runs_until(loop.node)
    assert is_open(ENGINE, loop.node)
    with pytest.raises(Refused, match="loop is run on nothing but"):
        again(made, Changes({(loop.node, 1): lambda x: 2 * x}))


def test_stops_pass_nothing_unless_they_are_left_out():
    made = run_program(ENGINE, written(lambda w, x: w.op("stop", w.op("sin", x))), [X])
    starts = {made.outputs[0]: [np.ones(3)]}
    assert sweep(made, starts, made.inputs) == [None]
    (found,) = sweep(made, starts, made.inputs, Options(stops=False))
    np.testing.assert_allclose(found, np.cos(X))


def test_what_a_node_passes_on_is_edited_and_observed():
    made = run_program(ENGINE, written(smooth), [X])
    seen = []

    def edit(event, upstream, found):
        return [2 * g for g in found] if event.node.op == "sin" else found

    options = Options(edit=edit, observe=lambda event, *_: seen.append(event.node.op))
    (found,) = sweep(made, {made.outputs[0]: [np.ones(3)]}, made.inputs, options)
    np.testing.assert_allclose(found, np.exp(X) * (np.sin(X) + 2 * np.cos(X)))
    assert seen == ["times", "exp", "sin"]


# what a program says of its values


def below(w, x):
    return w.op("below", w.op("exp", w.op("times", x, w.constant(2.0))), w.constant(3.0))


def in_a_branch(w, x):
    return w.op(
        "choose", w.constant(0), x, kind=NodeKind.BRANCH, bodies=(written(below), written(below))
    )


@pytest.mark.parametrize("write", [below, in_a_branch])
def test_thresholds_are_found_where_they_are_met(write):
    view = flat(ENGINE, written(write))
    np.testing.assert_allclose(list(compared_with(view))[:2], [3.0, np.log(3.0) / 2])
    assert branches(view)


def test_counters_of_loops_are_no_thresholds():
    def counts(w, x):
        return w.op("below", w.constant(np.int64(2)), w.constant(np.int64(3)))

    def rounds(w, x):
        return w.op("below", w.op("round", x), w.constant(np.int64(3)))

    assert not branches(flat(ENGINE, written(counts)))
    assert next(iter(compared_with(flat(ENGINE, written(rounds))))) == 3


def view_and_turns(write, count=1):
    made = run_program(ENGINE, written(write, count), [X] * count, entered=CALLS)
    return made, list(turns(view_of(made), made.inputs))


def test_comparisons_of_what_is_computed_turn():
    made, (turn,) = view_and_turns(lambda w, x, y: w.op("below", x, w.op("sin", y)), 2)
    assert turn == Turn(made.inputs[0], made.events[0].outputs[0], False)
    assert view_and_turns(lambda w, x: w.op("below", x, w.constant(3.0)))[1] == []
    assert view_and_turns(lambda w, x: w.op("equal", x, w.constant(0.0)))[1] == []
    assert view_and_turns(lambda w, x: w.op("below", x, w.op("sin", x), place=None))[1] == []


def test_the_middle_of_a_guard_is_asked_for_exactly():
    made, (around, middle) = view_and_turns(
        lambda w, x: w.op("below", w.op("abs", w.op("minus", x, x)), w.constant(1e-6))
    )
    assert not around.exact
    assert middle == Turn(made.events[0].outputs[0], None, True)


def test_statements_and_what_they_assign():
    line = statement.__code__.co_firstlineno
    assert statement(None) == ("", "")
    assert statement(Place(statement.__code__.co_filename, line + 4))[1] == f"places.py:{line + 4}"
    assert assigned("a, b = f(x)") == ("a", "b")
    assert assigned("return x") == ()
    assert HERE.line == 1
