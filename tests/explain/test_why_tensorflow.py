"""Why gradients are missing or zero, in real code: the cause in words, with the right line."""

import inspect
from pathlib import Path

import keras
import pytest
import tensorflow as tf

import pullback as pb
from pullback.errors import ExplainError
from tests.explain import more_why_cases, project_why_cases, why_cases

CASES = {**why_cases.CASES, **more_why_cases.CASES, **project_why_cases.CASES}


def marked_lines(make) -> list[int]:
    """The lines that a case marks with `# HERE`; one of them must be named."""
    lines, first = inspect.getsourcelines(make)
    return [first + k for k, line in enumerate(lines) if "# HERE" in line]


@pytest.mark.parametrize("name", CASES)
def test_the_cause_and_the_line_are_named(name: str) -> None:
    make, words = CASES[name]
    fn, args, x = make()
    said = pb.explain(fn, *args).why(x)
    missing = [word for word in words if not any(w in said for w in word.split("|"))]
    file, lines = Path(inspect.getfile(make)).name, marked_lines(make)
    assert not missing, said
    assert not lines or any(f"{file}:{line}" in said for line in lines), said


def two_models(layer) -> tuple[keras.Model, keras.Model]:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), layer])
    return model, keras.models.clone_model(model)


def test_a_layer_of_another_model_is_not_answered_for_its_namesake() -> None:
    model, clone = two_models(keras.layers.ReLU(name="gate"))
    flow = pb.explain(model, tf.ones((1, 3)))
    assert "`gate` has no weights; the gradient that passes" in flow.why(model.get_layer("gate"))
    said = flow.why(clone.get_layer("gate"))
    assert "does not use it" in said
    assert "does not use it" in flow.why(clone.layers[0])


def test_layers_that_share_a_name_are_not_mixed_up() -> None:
    model, clone = two_models(keras.layers.ReLU(name="gate"))
    flow = pb.explain(lambda x: model(x) + clone(x), tf.ones((1, 3)))
    with pytest.raises(ExplainError, match=r"several layers .* are called `gate`"):
        flow.why(clone.get_layer("gate"))
    assert "has a gradient" in flow.why(clone.layers[0].kernel)
