"""How operations are grouped."""

import dataclasses

import pytest

from pullback.explain.flow import Flow, Place
from pullback.explain.views.layers import MOST_CHILDREN, Group, grouped
from tests.explain.views.flows import Builder, chain


def of_layers(*paths: tuple[str, ...]) -> Flow:
    """One op in each of these layers, one after the other; same type, same shapes."""
    b = Builder()
    x = b.source("x")
    for path in paths:
        x = b.op("Relu", x, layer=path)
    return b.flow()


def names(group: Group) -> list[str]:
    return [child.name if isinstance(child, Group) else str(child) for child in group.children]


def test_operations_are_grouped_by_layer_and_the_model_around_all_is_left_out() -> None:
    root = grouped(of_layers(("model", "dense"), ("model", "relu"), ("model", "relu")))
    assert names(root) == ["dense", "relu"]
    assert list(root.groups[1].nodes()) == [1, 2]


def test_what_ran_inside_comes_below_the_layer() -> None:
    b = Builder()
    x = b.source("x")
    for step in (0, 1):
        x = b.op("Tanh", x, layer=("rnn",), inside=(f"while, step {step}",))
    x = b.op("Sum", x)
    root = grouped(b.flow())
    assert names(root.groups[0]) == ["while, step 0", "while, step 1"]


def test_functions_are_groups_where_there_are_several() -> None:
    b = Builder("loss")
    x = b.op("Relu", b.source("x"), place=Place("a.py", 1, "", "helper"))
    b.op("Sum", x, place=Place("a.py", 5, "", "loss"))
    root = grouped(b.flow())
    assert names(root) == ["helper", "1"]


def test_layers_whose_names_begin_alike_are_a_block() -> None:
    flow = of_layers(
        ("m", "conv1_pad"),
        ("m", "conv1_conv"),
        ("m", "conv2_block1_1_conv"),
        ("m", "conv2_block1_1_bn"),
        ("m", "conv2_block1_out"),
        ("m", "conv2_block2_out"),
        ("m", "dense"),
        ("m", "dense_1"),
    )
    root = grouped(flow)
    assert names(root) == ["conv1", "conv2", "dense", "dense_1"]
    conv2 = root.groups[1]
    assert names(conv2) == ["conv2_block1", "conv2_block2_out"]
    assert names(conv2.groups[0]) == ["conv2_block1_1", "conv2_block1_out"]


def test_repeated_blocks_are_one_group() -> None:
    root = grouped(chain([1.0] * 6))
    (repeat,) = root.groups[0].groups
    assert (repeat.kind, repeat.name, repeat.count) == ("repeat", "dense_0…5", 6)
    assert names(repeat) == [f"dense_{k}" for k in range(6)]


def test_blocks_of_several_layers_are_recognised() -> None:
    paths = [("m", f"{name}_{k}") for k in range(4) for name in ("attention", "add")]
    (repeat,) = grouped(of_layers(("m", "embedding"), *paths, ("m", "head"))).groups[1:-1]
    assert (repeat.count, names(repeat)) == (4, [f"block {k}" for k in range(4)])
    assert names(repeat.groups[2]) == ["attention_2", "add_2"]


@pytest.mark.parametrize("change", [{"type": "Tanh"}, {"layer": ("m", "other")}])
def test_what_differs_is_not_folded(change: dict[str, object]) -> None:
    flow = of_layers(*(("m", f"dense_{k}") for k in range(3)))
    nodes = [*flow.nodes[:2], dataclasses.replace(flow.nodes[2], **change)]
    root = grouped(dataclasses.replace(flow, nodes=tuple(nodes)))
    assert all(group.kind == "layer" for group in root.groups)


def test_other_shapes_are_not_folded() -> None:
    b = Builder()
    x = b.source("x")
    for k in range(3):
        x = b.op("Relu", x, layer=("m", f"dense_{k}"), shape=(2, k + 3))
    assert all(group.kind == "layer" for group in grouped(b.flow()).groups)


def test_a_long_flow_is_shown_in_parts() -> None:
    b = Builder()
    x = b.source("x")
    for k in range(20_000):
        x = b.op(f"Op{k % 7}", x, shape=(k % 11,))
    root = grouped(b.flow())
    widths = [len(group.children) for _, group in root.walk()]
    assert max(widths) <= MOST_CHILDREN
    assert sorted(root.nodes()) == list(range(20_000))


def test_paths_name_one_group_each() -> None:
    b = Builder()
    x = b.source("x")
    for k in range(400):
        layer = ("m", "conv2") if k % 3 else ("m", f"conv2_block{k % 5}_out")
        x = b.op(f"Op{k % 13}", x, layer=layer, inside=("conv2",) if k % 2 else (), shape=(k,))
    paths = [group.path for _, group in grouped(b.flow()).walk()]
    assert len(paths) == len(set(paths))


def test_innermost_layers_are_found_through_repeats() -> None:
    layers = grouped(chain([1.0] * 4)).innermost_layers()
    assert [layer.name for layer in layers] == [f"dense_{k}" for k in range(4)]


def test_what_follows_the_last_layer_and_gives_one_number_is_the_loss() -> None:
    b = Builder()
    x = b.op("Relu", b.source("x"), layer=("model", "dense"))
    total = b.op("Sum", b.op("Square", x), shape=())
    assert names(grouped(b.flow(total))) == ["model", "loss"]
    assert "loss" not in names(grouped(b.flow(b.op("Square", x))))
