"""Gradient names in a graph."""

import runpy

import tensorflow as tf

import pullback as pb
from pullback.engines.tensorflow.attach import registry


def test_names_of_gradients_differ_between_processes() -> None:
    """A file without its gradients must not find those of another process under the same name."""
    traced = tf.function(pb.with_gradient(tf.sin, tf.negative)).get_concrete_function(tf.ones([]))
    marked = [op for op in traced.graph.get_operations() if op.type == "IdentityN"]
    names = [op.get_attr("_gradient_op_type").decode() for op in marked]
    assert [registry._PROCESS in name for name in names] == [True]
    assert runpy.run_path(registry.__file__)["_PROCESS"] != registry._PROCESS
