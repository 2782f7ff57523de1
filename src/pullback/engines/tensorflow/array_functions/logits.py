"""From probabilities back to the logits that they were made of."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from pullback.engines.tensorflow.array_functions.programs import eps_of

# Operations that move the entries of their first input and change none. Those of the second kind keep the order.
_MOVES = {"Transpose", "StridedSlice", "Slice", "GatherV2", "ReverseV2", "Tile", "BroadcastTo"}
_RESHAPES = {"Reshape", "Squeeze", "ExpandDims"}
# Names in the definitions of operations, and in their Python functions.
_RENAMED = {"dim": "axis", "squeeze_dims": "axis"}
_ROUNDINGS = 8.0


def logits_behind(probabilities: Any, operation: str, axis: int = -1) -> Any:
    """What a sigmoid or softmax (TensorFlow's name of it) was given, if this tensor is known to come from one.

    A traced tensor knows its operation; one that runs at once does not, but Keras' activations leave a mark on theirs.
    The axis is that of a softmax.
    """
    if isinstance(probabilities, tf.Tensor) and not hasattr(probabilities, "numpy"):
        return _traced(probabilities, operation, axis)
    marked = getattr(probabilities, "_keras_logits", None)
    if marked is None or not isinstance(probabilities, tf.Tensor):
        return marked
    # Keras marks what either of them makes, along any axis.
    again = tf.sigmoid(marked) if operation == "Sigmoid" else tf.nn.softmax(marked, axis)
    same = tf.abs(again - probabilities) <= _ROUNDINGS * eps_of(again.dtype)
    return marked if bool(tf.reduce_all(same)) else None


def _traced(probabilities: Any, operation: str, axis: int) -> Any:
    """The logits of a traced tensor, moved as the probabilities were."""
    rank, made_by, moves = probabilities.shape.rank, probabilities.op, []
    if operation == "Softmax" and rank is not None and axis % rank != rank - 1:
        return _along_other_axis(probabilities)
    while made_by.type == "Identity" or _commutes(made_by, operation):
        moves += [] if made_by.type == "Identity" else [made_by]
        made_by = made_by.inputs[0].op
    if made_by.type != operation:
        return None
    logits = made_by.inputs[0]
    for move in reversed(moves):
        logits = _moved(move, logits)
    return logits


def _along_other_axis(probabilities: Any) -> Any:
    """The logits of Keras' softmax along an axis that is not the last one: it is transposed before and after."""
    after = probabilities.op
    found = after.type == "Transpose" and after.inputs[0].op.type == "Softmax"
    return getattr(probabilities, "_keras_logits", None) if found else None


def _commutes(made_by: Any, operation: str) -> bool:
    """Whether the activation of what is moved is what is moved of the activation."""
    if operation == "Sigmoid":
        return made_by.type in _MOVES | _RESHAPES
    if made_by.type not in _RESHAPES:
        return False
    before, after = made_by.inputs[0].shape, made_by.outputs[0].shape
    known = bool(before.rank and after.rank)
    return known and before[-1] is not None and before[-1] == after[-1]


def _moved(move: Any, array: Any) -> Any:
    """The same operation on another array."""
    definition = move.op_def
    given: dict[str, Any] = {
        a.name: move.get_attr(a.name) for a in definition.attr if a.type != "type"
    }
    inputs = zip(definition.input_arg, [array, *move.inputs[1:]], strict=True)
    given |= {argument.name: value for argument, value in inputs}
    named = {_RENAMED.get(name, name): value for name, value in given.items()}
    return getattr(tf.raw_ops, move.type)(**named)
