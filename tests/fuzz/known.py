"""What is known to fail, by mechanism: each filter can be deleted when its mechanism is mended."""

from typing import Any

from tests.fuzz.define_cases import Case
from tests.fuzz.override_programs import BINARY, Program

EAGER = ("eager", "jacobian", "tf.map_fn", "forward mode", "fit, run eagerly")


def known_define(case: Case) -> str | None:
    """The name of the mechanism for which a definition fails; `None` where none is known."""
    if "default" in case.forms and case.spelling == "wrapped" and "original" not in case.asks:
        return "DEFAULT in a rule under functools.wraps: refused, as only the wrapper's own code is searched"
    needs_original = "original" in case.asks or "default" in case.forms
    if case.mode == "forward mode" and case.verb == "custom_gradient" and needs_original:
        return "forward mode, first eager call of a custom_gradient: the original is not there yet"
    if (
        needs_original
        and case.mode not in EAGER
        and any(leaf.derived >= 0 for _, leaf in case.flowing())
    ):
        return "original in a graph, where one argument is computed from another: that path is counted twice"
    if "forward" in case.mode and any(
        0 in leaf.shape for _, leaf in (*case.flowing(), *enumerate(case.inside))
    ):
        return "forward mode with a gradient of size zero: the largest entry of nothing is -inf"
    if "forward" in case.mode and "float32" in case.forms:
        return "forward mode, a gradient that was rounded in a narrower dtype: measured by its own dtype"
    if "forward" in case.mode and len({leaf.dtype for _, leaf in case.flowing()} | {"float64"}) > 1:
        return "forward mode, another dtype upstream than for the gradient: roundings are measured by the gradient's"
    if "fit" in case.mode and any(s.kind == "slices" for s in case.sources):
        return "IndexedSlices whose values are a variable: the variable is taken for a tensor"
    return None


def known_override(program: Program) -> str | None:
    """The name of the mechanism for which a program fails; `None` where none is known."""
    in_graph = (
        program.mode not in EAGER
        or program.form in ("function", "traced before")
        or "call" in program.names()
    )
    if program.form == "layer" and program.use == "applied" and len(program.overrides) > 1:
        return "an override applied to a layer or model to which one was applied already: endless recursion"
    again = "forward" in program.mode or program.mode == "tf.map_fn"  # they call more than once
    if again and in_graph and program.use == "applied" and len(program.overrides) > 1:
        return "the second call of a tf.function to which two overrides were applied: StopIteration"
    if "forward" in program.mode and "cast" in program.names():
        return "forward mode, a gradient that was rounded in a narrower dtype: measured by its own dtype"
    targets = {
        t.name for lines in program.overrides for t, _ in lines if t.kind in ("user", "function")
    }
    needs_original = targets & {"blend", *BINARY, "stack", "concat", "where"}
    if in_graph and needs_original:
        return "original in a graph, where one argument is computed from another: that path is counted twice"
    return None


def known_partials(case: Any) -> str | None:
    """The name of the mechanism for which partial derivatives fail; `None` where none is known."""
    if case.dtype.startswith("complex"):
        return (
            "the upstream is multiplied with a complex partial derivative, not with its conjugate"
        )
    if case.reduced == "first" and len(set(case.shape)) < len(case.shape):
        return "the first axis of a square parameter is reduced: the upstream is multiplied along the last"
    return None
