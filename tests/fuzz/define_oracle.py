"""What the gradients of a case must be, in NumPy, from the contract alone."""

from typing import Any

import numpy as np

from tests.fuzz.define_cases import WRONG_RESULTS, Case, Leaf, Output
from tests.fuzz.trees import children, is_structure

NOTHING = "None or zeros"  # nothing flows, and TensorFlow may say so in either way


def array_of(leaf: Leaf) -> np.ndarray:
    """The value of a leaf; complex ones have an imaginary part of their own."""
    values = np.array(leaf.values, np.float64).reshape(leaf.shape)
    return values * (1 + 2j) if leaf.dtype.startswith("complex") else values


def pattern(shape: tuple[int, ...]) -> np.ndarray:
    """Numbers by which a gradient in the wrong order is seen."""
    return (1.0 + np.arange(int(np.prod(shape))) % 3).reshape(shape)


def output_shape(case: Case, output: Output) -> tuple[int, ...]:
    return () if output.form in ("sum", "int", "none") else case.flowing()[output.leaf][1].shape


def is_complex(case: Case, output: Output) -> bool:
    scaled = output.form in ("scale", "square")
    return scaled and case.flowing()[output.leaf][1].dtype.startswith("complex")


def weights(case: Case, output: Output) -> np.ndarray:
    """What an output is multiplied with in the loss, which is its upstream."""
    found = output.weight * pattern(output_shape(case, output))
    return found * (1 - 1j) if is_complex(case, output) else found


def flows(output: Output) -> bool:
    return output.form not in ("int", "none")


def value_of(case: Case, output: Output) -> np.ndarray:
    flowing = [leaf for _, leaf in case.flowing()]
    if output.form == "sum":
        closed = [case.sources[case.closes]] * 2 if case.closes >= 0 else []
        parts = [array_of(leaf).real.sum() for leaf in (*flowing, *case.inside, *closed)]
        return np.asarray(output.factor * sum(parts))
    x = array_of(flowing[output.leaf])
    return output.factor * (x if output.form == "scale" else x * x)


def upstream_sum(case: Case) -> float:
    """What the rule makes of all upstream gradients: the sum of their real parts."""
    return float(sum(weights(case, o).real.sum() for o in case.outputs if flows(o)))


def original(case: Case, index: int) -> np.ndarray | None:
    """The ordinary gradient of a flowing leaf; `None` where the function does not use it."""
    leaf = case.flowing()[index][1]
    x = array_of(leaf)
    used = [o for o in case.outputs if o.form == "sum" or (flows(o) and o.leaf == index)]
    parts = [_one_original(case, o, x) for o in used]
    return sum(parts, np.zeros_like(x)) if used else None


def _one_original(case: Case, output: Output, x: np.ndarray) -> np.ndarray:
    slope = {"sum": np.ones_like(x), "scale": np.ones_like(x), "square": 2 * np.conj(x)}[
        output.form
    ]
    return output.factor * slope * weights(case, output)


def asked(case: Case, name: str) -> bool:
    if name == "variables" and case.spelling == "kwargs":
        return bool(case.inside)
    return name in case.asks


def scale(case: Case) -> float:
    """The number with which every gradient of the rule is multiplied."""
    more = 1.0
    if asked(case, "inputs"):
        more += float(array_of(case.flowing()[0][1]).real.sum())
    if asked(case, "outputs"):
        more += float(value_of(case, next(filter(flows, case.outputs))).real.sum())
    return upstream_sum(case) * more


def leaf_gradient(case: Case, index: int) -> Any:
    """What must arrive at a flowing leaf; `None` or `NOTHING` where nothing does."""
    leaf, form = case.flowing()[index][1], case.forms[index]
    ordinary = original(case, index)
    if form == "none":
        return None
    if form == "default":
        return NOTHING if ordinary is None else ordinary
    fixed = {
        "zero": 0.0,
        "numpy": (index + 1) * pattern(leaf.shape),
        "number": 2.0,
        "numpy scalar": 2.0,
    }
    if form in fixed:
        return np.broadcast_to(np.asarray(fixed[form]), leaf.shape)
    base = scale(case) * (index + 1) * pattern(leaf.shape)
    if leaf.dtype.startswith("complex"):
        base = base * (1 + 1j)
    if asked(case, "original") and ordinary is not None:
        base = base + ordinary
    return _in_form(base, form)


def _in_form(base: np.ndarray, form: str) -> np.ndarray:
    if form in ("float64", "float32", "int64"):
        return base.real
    if form in ("larger", "wider"):
        return 3 * base
    if form == "repeated slices":
        return np.concatenate([2 * base[:1], base[1:]])
    return base


def added(parts: list[Any]) -> Any:
    """The gradient of a tensor that stands in several places."""
    numbers = [np.asarray(part) for part in parts if part is not None and not isinstance(part, str)]
    if numbers:
        return np.asarray(sum(numbers[1:], numbers[0]))
    return NOTHING if NOTHING in parts else None


def expected(case: Case) -> tuple[list[Any], list[Any]]:
    """What must arrive at the sources and at the variables read inside."""
    flowing = case.flowing()
    parts: list[list[Any]] = [[] for _ in case.sources]
    for i, (_, leaf) in enumerate(flowing):
        gradient = leaf_gradient(case, i)
        if leaf.source >= 0:
            parts[leaf.source].append(gradient)
        if leaf.derived >= 0:
            flows_on = gradient is not None and not isinstance(gradient, str)
            parts[leaf.derived].append(2 * gradient if flows_on else gradient)
    sums = [o for o in case.outputs if o.form == "sum"]
    slope = sum(o.factor * o.weight for o in sums)
    if case.closes >= 0:
        parts[case.closes].append(2 * slope * np.ones(case.sources[case.closes].shape))
    sources = [added(part) for part in parts]
    inside = [
        np.asarray(
            scale(case) * 5 * pattern(v.shape)
            if asked(case, "variables")
            else slope * np.ones(v.shape)
        )
        for v in case.inside
    ]
    return sources, inside


def effective_result(case: Case) -> str:
    """The form of the result where the case has room for it, else one that always has."""
    holding = case.holding()
    wanted = case.result
    plain = not {"none", "default", "zero"} & set(case.forms)
    trees = [case.parameters[i].tree for i in holding]
    room = {
        "by name": all(case.parameters[i].kind != "rest" for i in holding),
        "one in a tuple": len(holding) == 1 and not is_structure(trees[0]),
        "one less": plain and len(holding) > 1 and _all_flow(case),
        "flat": plain
        and any(isinstance(t, dict) or type(t).__name__ == "Layer" for t in trees)
        and _all_flow(case),
        "short structure": plain and any(_can_be_short(t) for t in trees) and _all_flow(case),
        "nonsense for static": len(holding) < len(case.parameters),
    }
    if room.get(wanted, True):
        return wanted
    return "text" if wanted in WRONG_RESULTS else "own"


def reads_two_ways(case: Case) -> bool:
    """Whether the gradient of the only input may be taken for one of every argument, which is refused."""
    holding = case.holding()
    tree = case.parameters[holding[0]].tree
    if len(holding) > 1 or type(tree) is not tuple or len(tree) != len(case.parameters):
        return False
    given = [
        path for (path, _), form in zip(case.flowing(), case.forms, strict=True) if form != "none"
    ]
    return len(tree) > 1 and all(path[1] == holding[0] for path in given)


def _all_flow(case: Case) -> bool:
    holding = set(case.holding())
    return all(leaf.flows for path, leaf in case.all_leaves() if path[0] in holding)


def _can_be_short(tree: Any) -> bool:
    return isinstance(tree, (list, dict)) and len(children(tree) or ()) > 1
