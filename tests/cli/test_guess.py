"""What parameters are given, by annotation, docstring, name and source."""

import inspect
import typing

import pytest

from pullback.cli.guess.annotations import from_annotation
from pullback.cli.guess.docstrings import allows_more_axes, from_docstring, from_sentence
from pullback.cli.guess.names import from_name, is_data, is_setting, may_be_learnt
from pullback.cli.guess.reading import readings, variations
from pullback.cli.guess.shapes import tried
from pullback.cli.guess.sizes import shape_of, size_rules, sizes
from pullback.cli.guess.wanted import numbers


def annotated(annotation):
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return from_annotation(inspect.Parameter("p", kind, annotation=annotation))


@pytest.mark.parametrize(
    "annotation, dims, dtype",
    [
        ('Float[tf.Tensor, "batch dim"]', ("batch", "dim"), "float32"),
        ('jt.Int[tf.Tensor, "batch 4"]', ("batch", 4), "int32"),
        ("Float64[Array, '... d']", ("d",), "float64"),
        ('Optional[Bool[tf.Tensor, "n"]]', ("n",), "bool"),
        ('Float[tf.Tensor, "n"] | None', ("n",), "float32"),
        (typing.Annotated[object, "batch 3"], ("batch", 3), "float32"),
    ],
)
def test_shapes_are_read_from_annotations(annotation, dims, dtype):
    (first, *_) = annotated(annotation)
    assert (first.dims, first.dtype) == (dims, dtype)


def test_choices_functions_and_lists_are_read_from_annotations():
    assert [w.plain for w in annotated(typing.Literal["a", "b"])] == ["a", "b"]
    assert annotated(typing.Callable[[int], int])[0].plain(3) == 9
    assert annotated(list[object])[0].items == 2
    assert annotated("Sequence[tf.Tensor]")[0].items == 2
    assert annotated(int | None) == []  # the name tells which whole number


@pytest.mark.parametrize(
    "said, dims, values, dtype",
    [
        ("x: A float tensor of shape [batch, dim].", ("batch", "dim"), "", "float32"),
        ("x: `Tensor` with shape (N, C, 3)", ("N", "C", 3), "", "float32"),
        ("x (tf.Tensor): values in [0, 1].", None, "unit", "float32"),
        ("x: positive scale factors", None, "positive", "float32"),
        ("x: integer labels of shape [batch]", ("batch",), "", "int32"),
        ("x: a symmetric positive definite matrix", ("n", "n"), "definite", "float32"),
        (":param x: scalar weight", (), "", "float32"),
        ("x : float > 0", (), "positive", "float32"),
    ],
)
def test_shapes_and_ranges_are_read_from_docstrings(said, dims, values, dtype):
    wanted = from_docstring(f"Does something.\n\nArgs:\n  {said}\n  y: other [a, b, c].\n", "x")[-1]
    assert (wanted.dims, wanted.values, wanted.dtype) == (dims, values, dtype)


@pytest.mark.parametrize(
    "said, name, dims, dtype",
    [
        ("q: [..., 4], v: [..., 3]", "v", ("leading", 3), "float32"),
        ("points [batch, n, 2], angle [batch] in radians", "angle", ("batch",), "float32"),
        ("Project pts [B, N, 2] with H [B, 3, 3].", "H", ("B", 3, 3), "float32"),
        ("t[ids] * w\n\nt: [V, D]; ids: int [E]; w: [E]", "ids", ("E",), "int32"),
        ("NHWC maps, modulated: scale and shift are [C].", "scale", ("C",), "float32"),
        ("NHWC maps, modulated: scale and shift are [C].", "x", tuple("NHWC"), "float32"),
        ("logits, onehot: [batch, classes, time].", "logits", ("batch", "classes", "time"), "float32"),
        ("Huber loss of y and t, both of shape [batch, n].", "t", ("batch", "n"), "float32"),
    ],
)  # fmt: skip
def test_shapes_are_read_wherever_they_stand(said, name, dims, dtype):
    wanted = from_docstring(said, name)[-1]
    assert (wanted.dims, wanted.dtype) == (dims, dtype)


@pytest.mark.parametrize("said", ["x: as in [1].", "x: shares [0, 1]", "x[i] is taken, see [n]"])
def test_references_and_intervals_are_no_shapes(said):
    assert from_docstring(said, "x") == []


def test_a_docstring_that_does_not_name_a_parameter_says_nothing_of_it():
    assert from_docstring("Args:\n  other: tensor of shape [2]", "x") == []
    assert from_docstring("x: A `Tensor`. Must be one of the types `half`, `float32`.", "x") == []


@pytest.mark.parametrize(
    "name, first",
    [("axis", -1), ("keepdims", True), ("num_classes", 4), ("padding", "SAME"), ("kernel_size", 3)],
)
def test_settings_have_ordinary_values(name, first):
    assert from_name(name, None, direct=True, others=["x"])[0].plain == first


def test_numbers_are_tensors_for_a_custom_gradient_and_plain_for_a_factory():
    direct, outer = (from_name("temperature", None, direct=d, others=[]) for d in (True, False))
    assert (direct[0].is_tensor, direct[0].dims) == (True, ())
    assert outer[0].plain == 0.7


def test_labels_are_one_hot_or_whole_numbers_beside_logits():
    wanted = from_name("labels", None, direct=True, others=["logits"])
    assert [(w.values, w.dtype) for w in wanted[:2]] == [("one-hot", "float32"), ("", "int32")]


def test_names_tell_whose_gradient_is_of_interest():
    assert is_data("sample_mask")
    assert is_data("y_true")
    assert not is_data("weights")
    assert is_setting("label_smoothing")
    assert may_be_learnt("alpha")
    assert not may_be_learnt("temperature")


def test_a_source_tells_functions_lists_and_choices():
    def made(fn, coefficients, mode):
        if mode == "linear":
            return fn(1)
        return sum(c for c in coefficients)

    read = {p.name: wanted[0] for p, wanted in readings(made, direct=False)}
    assert read["fn"].plain(2) == 4
    assert read["coefficients"].plain == [0.5, -1.2, 0.8]
    assert read["mode"].plain == "linear"


def test_what_has_a_shape_or_a_dtype_is_a_tensor_whatever_its_name():
    def made(x, axis, xs):
        ranks = [len(x.shape), *(s for s in x.shape)]
        return ranks, axis.dtype, [y + 1 for y in xs]

    read = {p.name: wanted for p, wanted in readings(made, direct=True)}
    assert all(w.is_tensor and not w.items for w in [*read["x"], *read["axis"]])
    assert [w.items for w in read["xs"]] == [2, 0]


@pytest.mark.parametrize(
    "name, other, shape",
    [
        ("image", "flow", (3, 6, 5, 2)),
        ("coords", "img", (3, 6, 5, 2)),
        ("grid", "query_points", (3, 6, 5, 2)),
        ("query_points", "grid", (3, 7, 2)),
    ],
)
def test_a_picture_and_places_in_it_have_all_their_axes(name, other, shape):
    assert from_name(name, None, direct=True, others=[other])[0].dims == shape
    assert from_name(name, None, direct=True, others=["x"]) == []


def test_a_class_whose_bases_take_anything_needs_what_its_own_constructor_asks_for():
    class Anything:
        def __new__(cls, *args, **kwargs):
            return super().__new__(cls)

        def __init__(self, *args, **kwargs): ...

    class Sized(Anything):
        def __init__(self, size, **kwargs): ...

    assert readings(Anything, direct=False) == []
    assert [p.name for p, _ in readings(Sized, direct=False)] == ["size"]


def test_branches_are_reached_by_other_values_than_defaults():
    def made(kind="relu", training=False):
        return kind == "elu" or training

    assert {"kind": "elu"} in list(variations(made))
    assert {"training": True} in list(variations(made))


def test_named_dimensions_have_sizes_of_their_own():
    known = sizes([("batch", "dim"), ("dim", "out"), ("time",)])
    assert len(set(known.values())) == len(known) == 4


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_shapes_that_are_tried_are_for_so_many_tensors_and_alike_first(count):
    shapes = tried(count)
    assert {len(one) for one in shapes} == {count}
    assert shapes[0] == ((3, 4),) * count


def test_kinds_of_numbers_are_what_they_say():
    assert (numbers((3, 4), "positive", "float32", (0, 0)) > 0).all()
    assert numbers((3, 4), "shares", "float32", (0, 0)).sum(-1) == pytest.approx([1, 1, 1])
    assert numbers((3, 4), "one-hot", "float32", (0, 0)).sum(-1).tolist() == [1, 1, 1]
    matrix = numbers((3, 3), "definite", "float32", (0, 0))
    assert (matrix == matrix.T).all()
    assert (numbers((6,), "", "int32", (0, 0)).tolist()) == sorted(
        numbers((6,), "", "int32", (0, 0))
    )


@pytest.mark.parametrize(
    "said, allowed, refused",
    [
        ("Height and width must be even.", (4, 6, 10), (2, 5)),
        ("the number of channels is divisible by 4", (8, 12), (4, 6)),
        ("the length is a multiple of eight", (16, 24), (8, 12)),
        ("The last axis has a length that is a power of two.", (4, 8, 16), (6, 12)),
        ("at least 3 points per side", (3, 7), (2,)),
        ("kernels of odd size", (3, 5), (4,)),
    ],
)
def test_words_about_sizes_are_rules(said, allowed, refused):
    (rule,) = size_rules(said)
    assert all(map(rule.allows, allowed))
    assert not any(map(rule.allows, refused))


@pytest.mark.parametrize(
    "said",
    [
        "Works even if x is empty, of any size.",
        "an odd function of x",
        "at least 2-D",
        "evenly spaced",
    ],
)
def test_words_about_something_else_are_no_rules(said):
    assert size_rules(said) == []


def test_sizes_obey_what_is_said_of_their_dimension():
    rules = size_rules("Height and width must be even.")
    assert sizes([("N", "H", "W", "C")], rules) == {"n": 3, "h": 6, "w": 8, "c": 4}
    assert sizes([("batch", "H/2")])["h"] % 2 == 0
    assert sizes([("batch", "units")], given={"units": 7}) == {"batch": 3, "units": 7}
    named = [("length",), ("width",)]
    assert sizes(named, size_rules("width <= length")) == {"length": 5, "width": 3}
    assert shape_of(("n", "2*h", "h//2", "n - 1"), {"n": 3, "h": 6}) == (3, 12, 3, 2)


def test_tried_shapes_that_obey_come_first():
    first = tried(2, size_rules("of even length"))[0]
    assert first == ((3, 4), (3, 4))
    assert tried(1, size_rules("a length of a power of two"))[1] == ((8,),)


@pytest.mark.parametrize(
    "said, name, dims",
    [
        ("x (batch, seq, dim), gamma (dim,)", "gamma", ("dim",)),
        ("x: an N x D matrix of points", "x", ("N", "D")),
        ("A: in R^{n×m}", "A", ("n", "m")),
        ("rhs: vector of length n", "rhs", ("n",)),
        ("Args:\n  rest: rest lengths, shape (n-1,)", "rest", ("n-1",)),
        (":param a: one row each, shape (n, 3)\n:param b: shape (n,)", "a", ("n", 3)),
        ("x^T A x for a vector x and an n x n matrix A.", "A", ("n", "n")),
        (
            "points x [batch, dim] from mean [dim]; cov is positive definite, [dim, dim]",
            "x",
            ("batch", "dim"),
        ),
        (
            "points x [batch, dim] from mean [dim]; cov is positive definite, [dim, dim]",
            "mean",
            ("dim",),
        ),
        (
            "points x [batch, dim] from mean [dim]; cov is positive definite, [dim, dim]",
            "cov",
            ("dim", "dim"),
        ),
        ("A an n x n matrix, b a vector of n", "A", ("n", "n")),
        ("A an n x n matrix, b a vector of n", "b", ("n",)),
        ("x of length n, y of length m, w n-by-m", "y", ("m",)),
        ("x of length n, y of length m, w n-by-m", "w", ("n", "m")),
        ("the loss; pos_weight is a scalar", "pos_weight", ()),
    ],
)
def test_shapes_are_read_as_they_are_written_in_prose(said, name, dims):
    assert from_docstring(said, name)[-1].dims == dims


@pytest.mark.parametrize(
    "said, axes, dims",
    [
        ("Sorts the vector x.", (1,), None),
        ("Halves a 1-D tensor x of even length.", (1,), None),
        ("Inverse of a square matrix x.", (), ("n", "n")),
        ("Log-determinant of a symmetric positive definite matrix x.", (), ("n", "n")),
        ("Normalises each vector of x.", (), None),
        ("2×2 pooling of (N, H, W, C) images", (), ("N", "H", "W", "C")),
        ("clips to [-1, 1]", (), None),
        ("Mish (Misra, 2019)", (), None),
        ("Energy of [batch, 64] windows (Oppenheim, 1999; Fig. 3).", (), ("batch", 64)),
    ],
)
def test_axes_are_told_in_passing(said, axes, dims):
    wanted = from_sentence(said, "x", alone=True)
    assert (wanted.axes, wanted.dims) == (axes, dims)


def test_real_numbers_do_where_complex_ones_are_taken_as_well():
    said = "x: A Tensor. Must be one of these types: float32, float64, complex64. It has any shape."
    assert not [w for w in from_docstring(said, "x") if w.dtype]
    assert from_docstring("x: a complex64 tensor", "x")[0].dtype == "complex64"


def test_a_batch_that_is_an_axis_of_a_shape_is_no_other():
    assert not allows_more_axes(
        "Soft-margin triplet loss on embeddings [batch, dim]: anchor, positive, negative."
    )
    assert allows_more_axes("Loss of labels [..., classes].")
    assert allows_more_axes("Loss of a batch of labels.")
    assert not allows_more_axes("Loss of a batch of labels.", axes=2)
    assert allows_more_axes("Determinants of a batch of matrices.", axes=2)


def test_a_tensor_has_the_shape_of_the_one_that_it_is_said_to_be_like():
    assert from_docstring("y: labels with the same shape as `x`", "y")[-1].like == "x"
    assert from_docstring("mu and sigma of one shape", "sigma")[-1].like == "mu"
    assert from_docstring("mu and sigma of one shape", "mu") == []
    mask = from_docstring("mask is boolean with the shape of scores", "mask")[-1]
    assert (mask.like, mask.dtype) == ("scores", "bool")
    scale = from_docstring("`scale` > 0 has the shape of `x`", "scale")[-1]
    assert (scale.like, scale.values) == ("x", "positive")


def test_ranges_are_where_numbers_lie():
    (wanted,) = from_docstring("x: angles in [-3, 3]", "x")
    made = numbers((100,), wanted.values, "float32", (0, 0))
    assert -3 < made.min() < made.max() < 3


def test_texts_that_a_docstring_offers_are_all_tried():
    wanted = from_docstring("kind: one of 'mean', \"sum\" or 'none'", "kind")
    assert [w.plain for w in wanted] == ["mean", "sum", "none"]


def test_a_dict_has_the_keys_that_are_asked_for_and_a_tuple_its_parts():
    def made(params, pair):
        a, b = pair
        return params["w"] * a + params.get("b", 0.0) * b

    read = {p.name: wanted[0] for p, wanted in readings(made, direct=True)}
    assert [key for key, _ in read["params"].parts] == ["w", "b"]
    assert read["pair"].items == 2


def test_objects_are_made_of_sizes_that_differ():
    class Dense:
        def __init__(self, d_in, d_out: int, num_heads):
            self.sizes = d_in, d_out, num_heads

    assert [wanted[0].plain for _, wanted in readings(Dense, direct=False)] == [4, 5, 2]
