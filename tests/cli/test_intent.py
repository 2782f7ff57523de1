"""Sentences that say that a rule is meant to be no derivative, and those that do not."""

import pytest

from pullback.cli.checking.intent import intention_of


def saying(text):
    def function(x):
        return x

    function.__doc__ = text
    return function


@pytest.mark.parametrize(
    "said",
    [
        "Clips to [-1, 1] with a straight-through gradient",
        "ReLU whose gradient stays open for negative inputs",
        "Identity forward; adds noise to the gradient",
        "tanh with its gradient boosted by 1.5",
        "Passes a tenth of it on purpose",
        "The backward pass lets gradients through for negative inputs",
        "A surrogate that trains in a stable way",
        "This is not the true derivative",
        "Saturated units still receive an error signal: the upstream leaks",
        "Only boxes1 is differentiated",
        "Uses the derivative of tanh instead of its own derivative",
        "Rounding is not differentiable, so the gradient is that of a straight-through estimator",
        "x * 2 whose gradient deliberately ignores the factor",
        "Forward relu, backward leaky relu, on purpose",
        "The derivative of softplus is a smooth surrogate",
        "Guided backpropagation",
        "Not the exact value of the derivative",
        "A heuristic gradient for the threshold",
    ],
)
def test_an_intention_is_found(said):
    assert intention_of(saying(f"Does something. {said}.")) in said


@pytest.mark.parametrize(
    "said",
    [
        "Softplus with a custom gradient",
        "Numerically stable gradient of the logarithm",
        "Closed-form backward pass, which keeps the gradient exact",
        "Mean over the batch, with a hand-written gradient",
        "Clipped loss for each row",
        "Soft sample, not a straight-through estimator",
        "Unlike a straight-through estimator this one is exact",
        "We deliberately avoid tf.norm here because of its NaN",
        "We deliberately avoid tf.norm because its gradient is NaN at zero",
        "Gradient is exact on purpose",
        "The gradient is intentionally written by hand",
        "PPO's surrogate objective without clipping",
        "x^2 + x, with the gradient passed through explicitly to save memory",
        "Biased estimate of the variance",
        "Guided filter of an image",
        "Not the exact solution, but a rounded one",
        "A deconvolution layer",
    ],
)
def test_an_ordinary_sentence_is_none(said):
    assert intention_of(saying(f"{said}.")) == ""


def test_comments_and_names_count():
    def relu(x):
        # leaky backward pass, so that dead units recover
        return x

    def round_ste(x):
        return x

    assert intention_of(relu) == "leaky backward pass, so that dead units recover"
    assert intention_of(round_ste) == "round_ste"

    def surrogate_loss(x):
        return x

    assert intention_of(surrogate_loss) == ""
