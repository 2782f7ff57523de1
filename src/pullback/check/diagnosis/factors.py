"""A factor that differs from element to element: an input, an output or the upstream, in one of many forms."""

from collections.abc import Callable, Iterator

import numpy as np

from pullback.check.diagnosis import words
from pullback.check.diagnosis.draws import Draw
from pullback.check.diagnosis.explanations import Case, Explanation
from pullback.check.probe import Array

FORMS: dict[str, Callable[[Array], Array]] = {
    "{}": lambda q: q,
    "1/{}": lambda q: 1 / q,
    "{}²": lambda q: q * q,
    "1/{}²": lambda q: 1 / (q * q),
    "(1 − {})": lambda q: 1 - q,
    "1/(1 − {})": lambda q: 1 / (1 - q),
    "(1 + {})": lambda q: 1 + q,
    "1/(1 + {})": lambda q: 1 / (1 + q),
    "(1 − {}²)": lambda q: 1 - q * q,
    "1/(1 − {}²)": lambda q: 1 / (1 - q * q),
    "(1 + {}²)": lambda q: 1 + q * q,
    "1/(1 + {}²)": lambda q: 1 / (1 + q * q),
    "{0}(1 − {0})": lambda q: q * (1 - q),
    "1/({0}(1 − {0}))": lambda q: 1 / (q * (1 - q)),
    "√{}": lambda q: np.sqrt(q),
    "1/√{}": lambda q: 1 / np.sqrt(q),
    "exp({})": lambda q: np.exp(q),
    "exp(−{})": lambda q: np.exp(-q),
    "sign({})": lambda q: np.sign(q),
    "|{}|": lambda q: np.abs(q),
    "1/|{}|": lambda q: 1 / np.abs(q),
    "sin({})": lambda q: np.sin(q),
    "cos({})": lambda q: np.cos(q),
    "log({})": lambda q: np.log(q),
    "tanh({})": lambda q: np.tanh(q),
}


def element_by_element(case: Case) -> Iterator[Explanation]:
    """A factor too many or missing, by the ratio of the rule to the truth."""
    for name, quantity in quantities(case):
        for form, apply in FORMS.items():
            text = words.named_factor(case.name, form.format(name))
            yield Explanation(
                "factor", text, lambda draw, q=quantity, a=apply: a(q(draw)) * case.g(draw)
            )


def instead_of_derivative(case: Case) -> Iterator[Explanation]:
    """The upstream times something that is not the derivative."""
    outputs = case.subject.outputs
    for k, leaf in enumerate(outputs.leaves):
        if leaf.size != case.leaf.size:
            continue
        span = outputs.span(k)
        for name, quantity in quantities(case):
            for form, apply in FORMS.items():
                yield Explanation(
                    "term",
                    words.instead(case.name, form.format(name)),
                    lambda d, q=quantity, a=apply, s=span: a(q(d)) * d.w[s].reshape(case.shape),
                )


def quantities(case: Case) -> Iterator[tuple[str, Callable[[Draw], Array]]]:
    """Arrays that belong to a draw and can be laid over the gradient: inputs, outputs, upstreams."""
    outputs = case.subject.outputs
    parts = [(leaf, case.layout.span(k), "x") for k, leaf in enumerate(case.layout.leaves)]
    parts += [(leaf, outputs.span(k), "y") for k, leaf in enumerate(outputs.leaves)]
    parts += [(leaf, outputs.span(k), "w") for k, leaf in enumerate(outputs.leaves)]
    for leaf, span, what in parts:
        if leaf.is_complex or case.leaf.is_complex:
            continue
        try:
            np.broadcast_shapes(leaf.shape, case.shape)
        except ValueError:
            continue
        if np.broadcast_shapes(leaf.shape, case.shape) == case.shape:
            name = f"the upstream of {leaf.name}" if what == "w" else leaf.name
            yield name, lambda d, s=span, a=what, h=leaf.shape: getattr(d, a)[s].reshape(h)
