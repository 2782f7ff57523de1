"""Reproductions: programs of TensorFlow and NumPy alone that print a gradient beside differences."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from pullback.engines.tensorflow.auditing.calls import arguments, floating, function_of
from pullback.extend import Array, Case

_WIDE = {"float32": "float64", "complex64": "complex128"}
MOVE = "move"
_STEP = {"float64": "1e-5", "complex128": "1e-5"}
_COMPLEX_WEIGHTS = "np.exp(1j * np.arange({}.shape.num_elements()).reshape({}.shape))"
_WEIGHTS = "np.cos(np.arange({}.shape.num_elements()).reshape({}.shape))"


def script(
    case: Case, blamed: str, *, weighted: bool = False, second: bool = False, together: bool = False
) -> str:
    """The program; outputs are added up with weights or without; `together` moves all numbers of an input at once."""
    inputs = _widened(case)
    result = function_of(case)(*arguments(inputs))
    kinds = [t.dtype.is_complex for t in floating(result)]
    total = _total(case.call, kinds, isinstance(result, tf.Tensor), weighted)
    lines = ["import numpy as np", "import tensorflow as tf"]
    lines += ["import keras"] if "keras." in case.call + case.setup else []
    lines += ["", *_setup(case)]
    lines += [f"{n} = {_tensor(case.inputs[n], v.dtype.name)}" for n, v in inputs.items()]
    moved, value = (
        (blamed, inputs[blamed]) if not together else (MOVE, np.zeros([], inputs[blamed].dtype))
    )
    lines += [f"{MOVE} = tf.zeros([], {blamed}.dtype)  # added to all numbers"] if together else []
    call = total if not together else f"(lambda {blamed}: {total})({blamed} + {MOVE})"
    lines += ["", "", *_function(case, moved, call, second), "", ""]
    return "\n".join([*lines, *_comparison(moved, value)]) + "\n"


def _widened(case: Case) -> Mapping[str, Array]:
    """Inputs in double precision, where the call runs so."""
    wide = {n: v.astype(_WIDE.get(v.dtype.name, v.dtype.name)) for n, v in case.inputs.items()}
    if case.setup:
        return case.inputs
    try:
        results = _results(case, wide)
    except Exception:
        return case.inputs
    exact = all(t.dtype in (tf.float64, tf.complex128) for t in results)
    return wide if exact else case.inputs


def _results(case: Case, inputs: Mapping[str, Array]) -> list[tf.Tensor]:
    return floating(function_of(case)(*arguments(inputs)))


def _setup(case: Case) -> list[str]:
    return ["keras.utils.set_random_seed(0)", case.setup] if case.setup else []


def _tensor(value: Array, dtype: str) -> str:
    """Code for a tensor, with the digits that tell its numbers apart in their own format."""
    if not value.size:
        return f"tf.zeros({list(value.shape)}, tf.{dtype})"
    if value.size > 4 and np.all(value == value.flat[0]):
        text = _listed(value.flat[0])
        return f"tf.fill({list(value.shape)}, tf.constant({text}, tf.{dtype}))"
    return f"tf.constant({_listed(value)}, tf.{dtype})"


def _listed(value: Array) -> str:
    if np.ndim(value):
        return f"[{', '.join(map(_listed, value))}]"
    if np.iscomplexobj(value):
        return f"{_listed(np.real(value))} + {_listed(np.imag(value))}j".replace("+ -", "- ")
    return str(value) if np.isfinite(value) else f"np.{value}".replace("np.-", "-np.")


def _function(case: Case, blamed: str, total: str, second: bool) -> list[str]:
    if not second:
        return [f"def f({blamed}):", f"    return {total}"]
    others = ", ".join(case.inputs)
    each = f"tf.reduce_sum(tf.math.real(g) * {_WEIGHTS.format('g', 'g')})"
    return [
        f"def f({blamed}):",
        "    with tf.GradientTape() as tape:",
        f"        tape.watch([{others}])",
        f"        total = {total}",
        f"    first = tape.gradient(total, [{others}])",
        f"    return sum({each} for g in map(tf.convert_to_tensor, [g for g in first if g is not None]))",
    ]


def _total(call: str, kinds: list[bool], single: bool, weighted: bool) -> str:
    """The outputs added up, real parts of complex ones."""
    if single and not weighted:
        return f"tf.reduce_sum({f'tf.math.real({call})' if kinds[0] else call})"
    # A weight of its own for each number, complex for complex ones.
    weights = _COMPLEX_WEIGHTS if any(kinds) else _WEIGHTS
    each = f"y * {weights.format('y', 'y')}" if weighted else "y"
    real = f"tf.math.real({each})" if any(kinds) else each
    if single:
        return f"sum(tf.reduce_sum({real}) for y in [{call}])"
    flat = f"tf.nest.flatten({call}, expand_composites=True)"
    return (
        f"sum(tf.reduce_sum({real}) for y in {flat} if y.dtype.is_floating or y.dtype.is_complex)"
    )


def _comparison(blamed: str, value: Array) -> list[str]:
    step = _STEP.get(value.dtype.name, "1e-2")
    exact = [f"exact = tf.cast({blamed}, tf.float64)"] if value.dtype == np.float16 else []
    step, at = ("1e-5", "exact") if exact else (step, blamed)
    count, shape = value.size, list(value.shape)
    quotient = f"(f({at} + each) - f({at} - each)) / (2 * step)"
    dtype = "np.float64" if exact else f"np.{value.dtype.name}"
    lines = [
        "with tf.GradientTape() as tape:",
        f"    tape.watch({blamed})",
        f"    total = f({blamed})",
        f"got = tape.gradient(total, {blamed})",
        *exact,
        f"step = {step}",
        f"steps = step * np.eye({count}, dtype={dtype}).reshape({[count, *shape]})",
        f"wanted = np.reshape([{quotient} for each in steps], {shape})",
    ]
    if np.iscomplexobj(value):
        turned = quotient.replace("each)", "1j * each)")
        lines += [f"wanted = wanted + 1j * np.reshape([{turned} for each in steps], {shape})"]
    return [*lines, 'print("gradient:", got, "differences:", wanted, sep="\\n")']
